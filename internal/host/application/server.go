package application

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options configures a Server. All fields but those marked optional must be set.
type Options struct {
	// Dial connects from the load balancer to a target. The context has the time that the target has to accept.
	Dial func(ctx context.Context, target netip.AddrPort) (net.Conn, error)
	// Acquire counts a connection to a target, or a further request on a connection of a client, for the load balancer's
	// share of the process, and reports whether it may be. A request counts for its source, too; that of a connection to
	// a target is the zero Addr. Without it there is no bound (optional).
	Acquire func(source netip.Addr) (release func(), ok bool)
	// AccessLog is called with each entry of the access log, but for its last field, ip_address, and ConnectionLog with
	// each of the connection log. They must not wait (optional).
	AccessLog, ConnectionLog func(entry string)
	// Log is slog.Default() when nil (optional).
	Log *slog.Logger
	// now is the clock of cookies, sessions and slow start.
	now func() time.Time
}

// Server serves the connections to a listener of an Application Load Balancer.
type Server struct {
	o      Options
	proxy  *httputil.ReverseProxy
	ctx    context.Context // of all requests
	cancel context.CancelFunc
	state  atomic.Pointer[state]
	seed   atomic.Uint64    // of what is to be spread
	secret [secretSize]byte // in place of one that a listener does not have

	mu     sync.Mutex
	pools  map[string]*pool // of target groups, by their keys
	fronts map[frontKey]*front
	// provider is nil until there is an action authenticate-oidc.
	provider *provider
	closed   bool
	done     sync.WaitGroup
}

// New returns a Server, which serves nothing until it is given connections. An error tells what part of the listener
// it leaves out; see Update.
func New(listener Listener, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Acquire == nil {
		o.Acquire = func(netip.Addr) (func(), bool) { return func() {}, true }
	}
	if o.now == nil {
		o.now = time.Now
	}
	s := &Server{o: o, pools: map[string]*pool{}, fronts: map[frontKey]*front{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.proxy = newProxy(s)
	rand.Read(s.secret[:]) //nolint:errcheck // it never fails
	var seed [8]byte
	rand.Read(seed[:]) //nolint:errcheck
	s.seed.Store(binary.BigEndian.Uint64(seed[:]))
	return s, s.Update(listener)
}

// Update replaces the configuration. Requests under way go on by the earlier one, but those to targets that have gone.
// Connections of clients stay. It leaves out what is broken, such as a certificate that does not match its key, and
// returns why.
func (s *Server) Update(listener Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	next, err := s.compile(listener)
	s.state.Store(next)
	s.retireTargets(next)
	s.retireFronts(next.front)
	return err
}

// Serve serves the connections of a network listener until that is closed, or the Server is.
func (s *Server) Serve(l net.Listener) error {
	defer context.AfterFunc(s.ctx, func() { l.Close() })()
	for {
		c, err := l.Accept()
		if s.ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil { // no file descriptors, mostly
			s.o.Log.Warn("cannot take connections", "address", l.Addr(), "error", err)
			select {
			case <-time.After(acceptPause):
			case <-s.ctx.Done():
			}
			continue
		}
		if !s.runTask(func() { s.acceptClient(c) }) {
			c.Close()
		}
	}
}

// acceptPause is the time for which a listener that fails is left alone.
const acceptPause = 100 * time.Millisecond

// closeIdle closes the connections to targets that wait for a request.
func (s *Server) closeIdle() {
	s.mu.Lock()
	pools := slices.Collect(maps.Values(s.pools))
	s.mu.Unlock()
	for _, p := range pools {
		p.transport.CloseIdleConnections()
	}
}

// runTask runs f, for which Close waits, unless the server is closed.
func (s *Server) runTask(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.done.Go(f)
	return true
}

// Close ends all connections, and returns when nothing runs any more.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.cancel()
	for _, f := range s.fronts {
		f.close()
	}
	for _, p := range s.pools {
		s.done.Go(p.transport.CloseIdleConnections)
	}
	s.mu.Unlock()
	s.done.Wait()
}

// retireTargets ends the requests to targets that their groups no longer have, and forgets groups that are gone. mu is
// held, and those who wait for it do not wait for targets.
func (s *Server) retireTargets(next *state) {
	for key, p := range s.pools {
		g := next.pools[p]
		if g == nil {
			// Its requests under way end by themselves.
			delete(s.pools, key)
			s.done.Go(p.transport.CloseIdleConnections)
			continue
		}
		left := false
		for address, t := range p.targets {
			switch {
			case !g.isKeeping(address):
				delete(p.targets, address)
				t.end(errDeregistered)
				left = true
			case !g.acceptsNewRequests(t):
				left = true
			}
		}
		if left { // connections to a target that gets no request wait for none
			s.done.Go(p.transport.CloseIdleConnections)
		}
	}
}

// ServeHTTP serves a request of a client.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := newExchange(s, w, r)
	defer func() {
		if why := recover(); why != nil {
			if why != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				s.o.Log.Error("a request ends in a panic", "why", why, "stack", string(debug.Stack()))
			}
			e.finish()
			panic(http.ErrAbortHandler)
		}
		e.finish()
	}()
	e.serve()
}
