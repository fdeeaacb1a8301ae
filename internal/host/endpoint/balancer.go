package endpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/handshake"
	"github.com/coracle-eks/coracle/internal/host/application"
	"github.com/coracle-eks/coracle/internal/host/headerfields"
	"github.com/coracle-eks/coracle/internal/logs/vended"
)

// Balancer leads the connections, or the HTTP requests, that come to an address of a load balancer to its targets.
type Balancer struct {
	// Namespace is the path of the network namespace in which it listens, and from which it connects to targets.
	Namespace string
	Listen    netip.AddrPort
	// Share names the account: its load balancers share what the process may have of connections.
	Share string
	// HTTP is set where it forwards requests rather than connections.
	HTTP bool `json:",omitempty"`
	// Targets get new connections, in turn.
	Targets []netip.AddrPort `json:",omitempty"`
	// Shares are those of several target groups of a listener of a Network Load Balancer, in place of Targets and
	// ProxyProtocol. All connections of a client go to one of them where Sticky is set.
	Shares []BalancerShare `json:",omitempty"`
	Sticky bool            `json:",omitempty"`
	// Ends is set where connections to targets end that are neither in Targets nor in Keeping.
	Ends    bool             `json:",omitempty"`
	Keeping []netip.AddrPort `json:",omitempty"`
	// Idle is after how many seconds without a byte a connection ends.
	Idle int `json:",omitempty"`
	// Application is set on a listener of an Application Load Balancer. Its targets are in there, and the other members
	// from HTTP on stay zero.
	Application *application.Listener `json:",omitempty"`
	// TLS is set where TLS of clients ends here: HTTPS and SSL listeners of Classic, TLS listeners of Network Load
	// Balancers.
	TLS *application.TLS `json:",omitempty"`
	// TargetTLS is set where connections to targets are TLS again, whose certificates are not verified.
	TargetTLS bool `json:",omitempty"`
	// ProxyProtocol is the version of the PROXY protocol with which connections to targets begin; 0 for none.
	ProxyProtocol byte `json:",omitempty"`
	// Logs is set where logs of the load balancer are delivered.
	Logs *BalancerLogs `json:",omitempty"`
}

// BalancerShare is a target group with its part of new connections.
type BalancerShare struct {
	Weight        uint32
	Targets       []netip.AddrPort `json:",omitempty"`
	ProxyProtocol byte             `json:",omitempty"`
}

// pickShare returns the specification with the targets of one of its shares, for a connection of a client.
func (b Balancer) pickShare(client net.Addr) Balancer {
	var all uint32
	for _, s := range b.Shares {
		all += s.Weight
	}
	if all == 0 {
		return b
	}
	at := rand.Uint32N(all)
	if tcp, ok := client.(*net.TCPAddr); ok && b.Sticky {
		h := fnv.New32a()
		h.Write(tcp.IP.To16()) // never fails
		at = h.Sum32() % all
	}
	for _, s := range b.Shares {
		if at < s.Weight {
			b.Targets, b.ProxyProtocol = s.Targets, s.ProxyProtocol
			break
		}
		at -= s.Weight
	}
	return b
}

// BalancerLogs says which logs of a load balancer are delivered: ALB_ACCESS_LOGS, say.
type BalancerLogs struct {
	Account string
	ID      string // of the load balancer
	// Name is that of the load balancer in the logs, and Listener the ID of the listener: "net/name/50dc6c495c0c9188".
	Name, Listener string
	Types          []string
}

// Key returns the key of the load balancer's listener among the problems of the process.
func (b Balancer) Key() string {
	return "load balancer at " + b.Listen.String() + " in " + namespaceName(b.Namespace)
}

// immutableKey returns what cannot be changed while it is open.
func (b Balancer) immutableKey() string {
	switch {
	case b.Application != nil:
		return "application"
	case b.HTTP:
		return fmt.Sprintf("HTTP, idle for %d s, TLS %v, to targets %v", b.Idle, b.TLS != nil, b.TargetTLS)
	}
	return fmt.Sprintf("TCP, TLS %v", b.TLS != nil)
}

// How many connections to a load balancer a source may have open, and all sources to one of its listeners.
const (
	balancerPerSource = 8192
	balancerPerListen = 65536
)

const (
	// maxHeader bounds the header of a request, in bytes, as that of Classic Load Balancers; see headerfields.Most.
	maxHeader = 60 << 10
	// maxAnswerHeader bounds the header of an answer, in bytes.
	maxAnswerHeader = 16 << 10
)

// targetTime is the time that a target has to accept a connection, before the next one is tried.
const targetTime = 5 * time.Second

// mostTargetsTried bounds how many targets are tried for one connection.
const mostTargetsTried = 3

// idleInterval is the interval at which connections are looked at that may have been idle for too long.
const idleInterval = time.Second

// balancer is a Balancer at work.
type balancer struct {
	listener *connlimit.Listener
	log      *slog.Logger
	logs     *vended.Writer // of what load balancers log for their owners
	done     sync.WaitGroup
	ctx      context.Context // of the connections to targets
	cancel   context.CancelFunc
	turn     atomic.Uint64
	spec     atomic.Pointer[Balancer]
	server   *http.Server    // of HTTP
	requests *http.Transport // to targets
	// acquire counts a connection to a target of HTTP, which stays when the client has gone: connlimit.Acquire.
	acquire func(share string, descriptors int) (release func(), ok bool)

	application *application.Server     // of an Application Load Balancer
	terminator  *application.Terminator // of TLS

	mu     sync.Mutex
	joined map[*joint]bool
	closed bool
}

// joint is a connection of a client that is joined with one to a target.
type joint struct {
	client, server *net.TCPConn
	target         netip.AddrPort
}

func (j *joint) end() {
	j.client.Close()
	j.server.Close()
}

func openBalancer(spec Balancer, logs *vended.Writer, log *slog.Logger) (*balancer, error) {
	network := "tcp4"
	if spec.Listen.Addr().Is6() {
		network = "tcp6"
	}
	l, err := Listen(context.Background(), spec.Namespace, network, spec.Listen.String())
	if err != nil {
		return nil, err
	}
	descriptors := joinDescriptors
	if spec.Application != nil {
		descriptors = 1 // it counts those to targets by itself
	}
	b := &balancer{
		listener: connlimit.New(l, connlimit.Limits{Share: spec.Share, PerSource: balancerPerSource,
			Total: balancerPerListen, Descriptors: descriptors}),
		log: log, logs: logs, joined: map[*joint]bool{}, acquire: connlimit.Acquire,
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.spec.Store(&spec)
	if spec.TLS != nil {
		b.terminator, err = application.NewTerminator(*spec.TLS)
		b.warnIncomplete(spec, err)
	}
	switch {
	case spec.Application != nil:
		b.serveApplication(spec)
	case spec.HTTP:
		b.serveHTTP()
	default:
		b.done.Go(func() { acceptConnections(b.listener, b.log, &b.done, b.serveConnection) })
		b.done.Go(b.endIdle)
	}
	return b, nil
}

// update changes where new connections lead, and ends those to targets that are not to be kept.
func (b *balancer) update(spec Balancer) {
	before := b.spec.Swap(&spec)
	if !reflect.DeepEqual(before.TLS, spec.TLS) || !reflect.DeepEqual(before.Application, spec.Application) {
		b.updateTLS(spec)
	}
	if !spec.Ends {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for j := range b.joined {
		if !slices.Contains(spec.Targets, j.target) && !slices.Contains(spec.Keeping, j.target) {
			j.end()
		}
	}
}

func (b *balancer) close() {
	b.mu.Lock()
	b.closed = true
	b.listener.Close()
	for j := range b.joined {
		j.end()
	}
	b.mu.Unlock()
	b.cancel()
	if b.server != nil {
		b.done.Go(func() { // who waits for the lock of all load balancers does not wait for clients and targets
			b.server.Close()
			b.requests.CloseIdleConnections()
		})
	}
	if b.application != nil {
		b.done.Go(b.application.Close)
	}
}

func (b *balancer) serveConnection(client *connlimit.Conn) {
	defer client.Close()
	inner, secured, err := b.unwrapTLS(client)
	defer b.logTLS(client, secured)
	if err != nil {
		return
	}
	protocol := ""
	if secured != nil {
		protocol = secured.ConnectionState().NegotiatedProtocol
	}
	spec := b.spec.Load().pickShare(client.RemoteAddr())
	server, target, err := b.connect(b.ctx, spec.Targets)
	if err != nil {
		client.SetLinger(0) //nolint:errcheck // a reset says it better than an end
		return
	}
	defer server.Close()
	if spec.ProxyProtocol > 0 {
		header := proxyproto.HeaderProxyFromAddrs(spec.ProxyProtocol, client.RemoteAddr(), client.LocalAddr())
		if _, err := header.WriteTo(server); err != nil {
			return
		}
	}
	outer, err := b.wrapTLS(server, protocol)
	if err != nil {
		return
	}
	j := &joint{client: client.TCPConn, server: server, target: target}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.joined[j] = true
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.joined, j)
		b.mu.Unlock()
	}()
	relayStreams(inner, outer)
}

var errNoTarget = errors.New("the load balancer has no target that is in service")

// connect connects to the next target that accepts.
func (b *balancer) connect(ctx context.Context, targets []netip.AddrPort) (*net.TCPConn, netip.AddrPort, error) {
	err := errNoTarget
	first := b.turn.Add(1)
	for i := range min(len(targets), mostTargetsTried) {
		target := targets[(first+uint64(i))%uint64(len(targets))]
		conn, failure := b.dial(ctx, target)
		if failure == nil {
			return conn, target, nil
		}
		if err = failure; ctx.Err() != nil {
			break
		}
	}
	return nil, netip.AddrPort{}, err
}

// dial connects to a target from the load balancer's network interfaces.
func (b *balancer) dial(ctx context.Context, target netip.AddrPort) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, targetTime)
	defer cancel()
	conn, err := connectFrom(ctx, b.spec.Load().Namespace, target)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(target), Err: err}
	}
	return conn, nil
}

var errNoPlace = errors.New("the load balancers of the account have too many connections")

// dialCounted connects to a target of HTTP. Such a connection counts for the share as long as it is open: the next
// request may come from another client, or never. Those that wait for one make place for others.
func (b *balancer) dialCounted(ctx context.Context, target netip.AddrPort) (net.Conn, error) {
	share := b.spec.Load().Share
	release, ok := b.acquire(share, 1)
	if !ok {
		b.requests.CloseIdleConnections()
		if release, ok = b.acquire(share, 1); !ok {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(target), Err: errNoPlace}
		}
	}
	conn, err := b.dial(ctx, target)
	if err != nil {
		release()
		return nil, err
	}
	return &countedConn{TCPConn: conn, release: sync.OnceFunc(release)}, nil
}

// countedConn is a connection that is counted until it is closed.
type countedConn struct {
	*net.TCPConn
	release func()
}

// Close closes the connection, which no longer counts.
func (c *countedConn) Close() error {
	err := c.TCPConn.Close()
	c.release()
	return err
}

// endIdle ends connections that have been idle for too long, until the listener is closed.
func (b *balancer) endIdle() {
	tick := time.NewTicker(idleInterval)
	defer tick.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-tick.C:
		}
		most := time.Duration(b.spec.Load().Idle) * time.Second
		if most == 0 {
			continue
		}
		b.mu.Lock()
		all := make([]*joint, 0, len(b.joined))
		for j := range b.joined {
			all = append(all, j)
		}
		b.mu.Unlock()
		for _, j := range all {
			if idleTime(j.client) >= most && idleTime(j.server) >= most {
				j.end()
			}
		}
	}
}

// serveHTTP forwards requests, as a Classic Load Balancer does:
// https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/x-forwarded-headers.html
func (b *balancer) serveHTTP() {
	idle := time.Duration(b.spec.Load().Idle) * time.Second
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		target, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		return b.dialCounted(ctx, target)
	}
	b.requests = &http.Transport{
		DialContext:            headerfields.Dialer(dial),
		DialTLSContext:         headerfields.Dialer(handshake.Dialer(dial, unverified, targetTime)),
		DisableCompression:     true,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        idle,
		ResponseHeaderTimeout:  idle,
		MaxResponseHeaderBytes: maxAnswerHeader,
	}
	scheme := "http"
	if b.spec.Load().TargetTLS {
		scheme += "s"
	}
	port := strconv.Itoa(int(b.spec.Load().Listen.Port()))
	forward := &httputil.ReverseProxy{
		Transport:     retrying{b},
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		FlushInterval: application.FlushInterval,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = scheme, "target", r.In.Host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
			r.Out.Header.Del("X-Forwarded-Host")
			if b.terminator != nil {
				r.Out.Header.Set("X-Forwarded-Proto", "https")
			}
			r.Out.Header.Set("X-Forwarded-Port", port)
			headerfields.DeleteShadows(r.Out.Header, "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Port")
			r.Out.Trailer = nil
			// As on AWS, there are no WebSockets.
			r.Out.Header.Del("Upgrade")
			r.Out.Header.Del("Connection")
			// It goes on as it came, also with what Go cannot parse.
			r.Out.URL.RawQuery = r.In.URL.RawQuery
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode < http.StatusOK { // net/http would panic, and httputil not close the connection
				return fmt.Errorf("the target answers with the status %d", r.StatusCode)
			}
			if headerfields.Count(r.Header, r.Trailer) > headerfields.Most {
				return headerfields.ErrMany
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			status := http.StatusBadGateway
			var timeout net.Error
			switch {
			case errors.Is(err, errNoTarget), errors.Is(err, errNoPlace):
				status = http.StatusServiceUnavailable
			case r.Context().Err() != nil:
				answerGone(w, r)
				return
			case errors.As(err, &timeout) && timeout.Timeout():
				status = http.StatusGatewayTimeout
			}
			w.WriteHeader(status)
		},
	}
	unwrap := func(client *connlimit.Conn) (stream, error) {
		inner, _, err := b.unwrapTLS(client)
		return inner, err
	}
	clients := fieldListener{b.listener, unwrap, idle}
	b.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			headerRead(r)
			refused := 0
			switch {
			case r.ProtoMajor != 1:
				refused = http.StatusHTTPVersionNotSupported
			case headerfields.Count(r.Header, r.Trailer) > headerfields.Most:
				refused = http.StatusBadRequest
			}
			if refused != 0 {
				w.Header().Set("Connection", "close")
				w.WriteHeader(refused)
				return
			}
			r, end := watchBody(w, r, idle)
			defer end()
			application.Continue(w, r, false)
			forward.ServeHTTP(w, r)
		}),
		ConnState: clients.observe, ConnContext: clients.inContext,
		ReadHeaderTimeout: idle, IdleTimeout: idle, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
	}
	b.done.Go(func() {
		if err := b.server.Serve(clients); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			b.log.Warn("a load balancer ended", "error", err)
		}
	})
}

// retrying sends each request to the next target, and to another one if that accepts no connection.
type retrying struct{ b *balancer }

// RoundTrip implements http.RoundTripper.
func (t retrying) RoundTrip(r *http.Request) (*http.Response, error) {
	spec := t.b.spec.Load()
	first := t.b.turn.Add(1)
	err := errNoTarget
	for i := range min(len(spec.Targets), mostTargetsTried) {
		target := spec.Targets[(first+uint64(i))%uint64(len(spec.Targets))]
		ctx, cancel := context.WithCancelCause(r.Context())
		next := r.Clone(headerfields.InContext(ctx))
		next.URL.Host = target.String()
		if r.Body != nil && r.Body != http.NoBody {
			next.Body = io.NopCloser(r.Body) // a target that accepts nothing must not close it for the next one
		}
		answer, failure := t.b.requests.RoundTrip(next)
		if failure == nil {
			answer.Body = &answerBody{answer.Body, time.Duration(spec.Idle) * time.Second, cancel}
			return answer, nil
		}
		cancel(failure)
		var dialing *net.OpError
		if err = failure; !errors.As(failure, &dialing) || dialing.Op != "dial" || r.Context().Err() != nil {
			return nil, fmt.Errorf("target %s: %w", target, failure) // it may have the request
		}
	}
	return nil, err
}
