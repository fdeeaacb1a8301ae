package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/outbound"
)

// maxConnect is the maximum size in bytes of a CONNECT request, with the data that is sent behind it without waiting
// for the response.
const maxConnect = 64 << 10

// connectTime bounds the wait for what is in the VPC: kube-apiserver itself gives up after 30 seconds.
const connectTime = 20 * time.Second

// maxMetrics is the number of connections to the metrics of a control plane at a time. Its API server needs few itself;
// users have others made, through Services and webhooks with that address.
const maxMetrics = 16

// egress is an Egress at work.
type egress struct {
	listener *net.UnixListener
	log      *slog.Logger
	done     sync.WaitGroup
	ctx      context.Context // of the connections into the VPC
	cancel   context.CancelFunc

	metrics atomic.Int64 // connections

	mu     sync.Mutex
	spec   Egress
	joined map[net.Conn]bool
	closed bool
}

func openEgress(spec Egress, log *slog.Logger) (*egress, error) {
	l, err := listenUnix(spec.Socket)
	if err != nil {
		return nil, err
	}
	e := &egress{listener: l, log: log, spec: spec, joined: map[net.Conn]bool{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.done.Go(func() { e.acceptConnections(spec.listenerKey()) })
	return e, nil
}

func (e *egress) update(spec Egress) {
	e.mu.Lock()
	e.spec = spec
	e.mu.Unlock()
}

func (e *egress) close() {
	e.mu.Lock()
	e.closed = true
	e.listener.Close()
	for conn := range e.joined {
		conn.Close()
	}
	e.mu.Unlock()
	e.cancel()
}

func (e *egress) acceptConnections(share string) {
	for {
		conn, err := e.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			e.log.Warn("cannot take connections", "error", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		release, ok := connlimit.Acquire(share, joinDescriptors)
		if !ok {
			conn.Close() // kube-apiserver tries again
			continue
		}
		e.mu.Lock()
		if e.closed {
			conn.Close()
		}
		e.joined[conn] = true
		spec := e.spec
		e.mu.Unlock()
		e.done.Go(func() {
			e.serveConnection(spec, conn)
			e.mu.Lock()
			delete(e.joined, conn)
			e.mu.Unlock()
			release()
		})
	}
}

// serveConnection serves one connection of kube-apiserver: it dials the address that the client asks for, and forwards
// the bytes.
func (e *egress) serveConnection(spec Egress, client *net.UnixConn) {
	defer client.Close()
	client.SetReadDeadline(time.Now().Add(connectTime)) //nolint:errcheck // a socket has deadlines
	reader := bufio.NewReader(io.LimitReader(client, maxConnect))
	request, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	client.SetReadDeadline(time.Time{}) //nolint:errcheck
	// What went wrong goes into the status line, which is what kube-apiserver shows of it.
	refuse := func(status int, why string) {
		fmt.Fprintf(client, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", status,
			strings.Join(strings.Fields(why), " "))
	}
	if request.Method != http.MethodConnect {
		refuse(http.StatusMethodNotAllowed, "only CONNECT is served here")
		return
	}
	if spec.Metrics != nil && request.Host == extensionmetrics.Address {
		defer e.metrics.Add(-1)
		if e.metrics.Add(1) > maxMetrics {
			refuse(http.StatusServiceUnavailable, "there are too many connections to the metrics of the control plane")
			return
		}
		e.serveMetrics(*spec.Metrics, client, reader)
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, connectTime)
	server, err := connect(ctx, spec, request.Host)
	cancel()
	if err != nil {
		why := err.Error()
		if !spec.DNS.IsValid() { // names were looked up on this host, whose network is none of the users' business
			why = outbound.Reason(err)
		}
		refuse(http.StatusServiceUnavailable, why)
		return
	}
	defer server.Close()
	if _, err := fmt.Fprintf(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	if n := reader.Buffered(); n > 0 { // it did not wait for the answer
		early, _ := reader.Peek(n)
		if _, err := server.Write(early); err != nil {
			return
		}
	}
	relayStreams(client, server)
}

// serveMetrics answers a connection to the API of control plane metrics, of which reader may have read some.
func (e *egress) serveMetrics(config extensionmetrics.Config, client *net.UnixConn, reader *bufio.Reader) {
	if _, err := fmt.Fprintf(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	early, _ := reader.Peek(reader.Buffered())
	conn := &readAhead{client, io.MultiReader(bytes.NewReader(early), client)}
	if err := extensionmetrics.Serve(e.ctx, conn, config); err != nil {
		e.log.Warn("an API server gets no metrics", "error", err)
	}
}

// readAhead is a connection some of which has been read.
type readAhead struct {
	net.Conn
	in io.Reader
}

func (r *readAhead) Read(p []byte) (int, error) { return r.in.Read(p) }

// connect connects from the namespace, or to what may be reached on this host.
func connect(ctx context.Context, spec Egress, address string) (*net.TCPConn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	far := dialer
	far.Timeout = connectTime
	if slices.Contains(spec.Host, address) {
		conn, err := far.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return conn.(*net.TCPConn), nil
	}
	if spec.Namespace == "" {
		return nil, errors.New("there is no network namespace to connect from")
	}
	addresses := []string{host}
	if net.ParseIP(host) == nil {
		resolver := net.DefaultResolver
		if spec.DNS.IsValid() {
			resolver = resolverIn(spec)
		}
		if addresses, err = resolver.LookupHost(ctx, host); err != nil {
			return nil, err
		}
	}
	var conn net.Conn
	for _, a := range addresses {
		// One address at a time: with several Go would make goroutines, on threads that are elsewhere.
		err = runInNamespace(spec.Namespace, func() error {
			conn, err = far.DialContext(ctx, "tcp", net.JoinHostPort(a, port))
			return err
		})
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
	}
	return nil, err
}

// resolverIn returns a resolver that works in the namespace.
func resolverIn(spec Egress) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		err = runInNamespace(spec.Namespace, func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, spec.DNS.String())
			return err
		})
		return conn, err
	}}
}
