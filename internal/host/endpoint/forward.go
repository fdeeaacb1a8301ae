package endpoint

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coracle-eks/coracle/internal/connlimit"
)

// How many connections to an address of a cluster's endpoint a source may have open, and all sources. All pods behind
// a NAT gateway are one source.
const (
	forwardPerSource = 2048
	forwardPerListen = 16384
)

// joinDescriptors is the number of file descriptors that two joined connections need: the sockets, and a pipe for each
// direction, through which the kernel moves the bytes.
const joinDescriptors = 6

// dialTime is the time that a connection waits for an API server of this host to accept it.
const dialTime = 5 * time.Second

var dialer = func() net.Dialer {
	d := net.Dialer{Timeout: dialTime, Control: connlimit.BoundBuffers}
	d.SetMultipathTCP(false)
	return d
}()

// forwarder is a Forward at work.
type forwarder struct {
	listener *connlimit.Listener
	log      *slog.Logger
	done     sync.WaitGroup
	ctx      context.Context // of the connections to the server
	cancel   context.CancelFunc

	mu     sync.Mutex
	spec   Forward
	joined map[net.Conn]netip.Addr // with the source, of each client
	closed bool
}

func openForward(spec Forward, log *slog.Logger) (*forwarder, error) {
	network := "tcp4"
	if spec.Listen.Addr().Is6() {
		network = "tcp6"
	}
	l, err := Listen(context.Background(), spec.Namespace, network, spec.Listen.String())
	if err != nil {
		return nil, err
	}
	limited := connlimit.New(l, connlimit.Limits{
		Share: spec.listenerKey(), PerSource: forwardPerSource, Total: forwardPerListen, Descriptors: joinDescriptors,
	})
	f := &forwarder{listener: limited, log: log, joined: map[net.Conn]netip.Addr{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.update(spec)
	f.done.Go(func() { acceptConnections(f.listener, f.log, &f.done, f.serveConnection) })
	return f, nil
}

// update changes where connections lead, which concerns new ones only, and who may connect, which also ends those
// that no longer may.
func (f *forwarder) update(spec Forward) {
	f.mu.Lock()
	defer f.mu.Unlock()
	refilter := !slices.Equal(f.spec.Allow, spec.Allow) || (f.spec.Allow == nil) != (spec.Allow == nil)
	f.spec = spec
	if !refilter {
		return
	}
	if err := attachSourceFilter(f.listener.TCPListener, spec.Allow); err != nil {
		f.log.Debug("connections that are not allowed are closed instead of ignored", "because", err)
	}
	for conn, source := range f.joined {
		if !allowed(spec.Allow, source) {
			conn.Close()
		}
	}
}

func (f *forwarder) close() {
	f.mu.Lock()
	f.closed = true
	f.listener.Close()
	for conn := range f.joined {
		conn.Close()
	}
	f.mu.Unlock()
	f.cancel()
}

// acceptConnections serves the connections to a listener until that is closed.
func acceptConnections(l *connlimit.Listener, log *slog.Logger, serving *sync.WaitGroup, serve func(*connlimit.Conn)) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no file descriptors, mostly
			log.Warn("cannot take connections", "address", l.Addr(), "error", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		serving.Go(func() { serve(conn.(*connlimit.Conn)) })
	}
}

func (f *forwarder) serveConnection(client *connlimit.Conn) {
	defer client.Close()
	if !f.admitClient(client) {
		return
	}
	defer func() {
		f.mu.Lock()
		delete(f.joined, client)
		f.mu.Unlock()
	}()
	server, err := f.connect(client)
	if err != nil {
		client.SetLinger(0) //nolint:errcheck // a reset says it better than an end
		return
	}
	defer server.Close()
	relayStreams(client, server)
}

// connect connects to the server. One that is just being started again, or replaced by another, is waited for: there is
// but one, where AWS has several.
func (f *forwarder) connect(client net.Conn) (stream, error) {
	deadline := time.Now().Add(dialTime)
	wait := time.NewTicker(10 * time.Millisecond)
	defer wait.Stop()
	for {
		f.mu.Lock()
		spec := f.spec
		f.mu.Unlock()
		conn, err := spec.dialServer(f.ctx, client.RemoteAddr())
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(deadline) {
			return conn, err
		}
		select {
		case <-wait.C:
		case <-f.ctx.Done():
			return nil, err
		}
	}
}

// dialServer connects to the socket of the server, and tells it the address of the client. A server without a socket,
// also one of an earlier version that has that of its predecessor, takes connections at its port, as from this host.
func (f Forward) dialServer(ctx context.Context, client net.Addr) (stream, error) {
	if f.Socket != "" {
		if conn, err := dialer.DialContext(ctx, "unix", f.Socket); err == nil {
			source := client.(*net.TCPAddr).AddrPort()
			source = netip.AddrPortFrom(source.Addr().Unmap().WithZone(""), source.Port())
			if _, err = io.WriteString(conn, source.String()+"\n"); err == nil {
				return conn.(*net.UnixConn), nil
			}
			conn.Close()
		}
	}
	conn, err := dialer.DialContext(ctx, "tcp", f.Target)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// admitClient registers the connection, if its source is allowed.
func (f *forwarder) admitClient(client *connlimit.Conn) bool {
	source := client.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || !allowed(f.spec.Allow, source) {
		return false
	}
	f.joined[client] = source
	return true
}

func allowed(prefixes []netip.Prefix, source netip.Addr) bool {
	return prefixes == nil || slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(source) })
}

// stream is a connection whose two directions end one by one.
type stream interface {
	net.Conn
	CloseWrite() error
}

// relayStreams copies both ways until both have ended, or one has failed. Between sockets the kernel moves the bytes.
func relayStreams(a, b stream) {
	var other sync.WaitGroup
	copyTo := func(to, from stream) {
		if _, err := io.Copy(to, from); err != nil {
			a.Close()
			b.Close()
			return
		}
		to.CloseWrite() //nolint:errcheck // then the other direction fails, too
	}
	other.Go(func() { copyTo(a, b) })
	copyTo(b, a)
	other.Wait()
}
