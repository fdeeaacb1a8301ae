package application

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coracle-eks/coracle/internal/handshake"
	"github.com/coracle-eks/coracle/internal/host/headerfields"
)

// connectTime is the time for which a request waits for a connection to a target.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-troubleshooting.html
const connectTime = 10 * time.Second

// mostTried bounds how many targets are tried for a request, of which the earlier ones accepted no connection.
const mostTried = 3

// group is a TargetGroup in the form in which requests need it. It does not change.
type group struct {
	spec    TargetGroup
	pool    *pool
	targets []*target
	since   []time.Time // of the targets
	slow    time.Duration
}

// pool has the connections to the targets of a group. It stays while the group changes.
type pool struct {
	server    *Server
	transport *http.Transport
	scheme    string
	turn      atomic.Uint64
	share     atomic.Int64               // of connectTime, for one target
	targets   map[netip.AddrPort]*target // by address; the Server's mu protects it
}

// target is the address of a target. It stays while its group changes.
type target struct {
	address     netip.AddrPort
	host        string // the same
	outstanding atomic.Int64
	ctx         context.Context // ends when requests to it do
	end         context.CancelCauseFunc
}

var (
	errNoTarget     = errors.New("the target group has no target")
	errDeregistered = errors.New("the target is no longer registered")
	errShare        = errors.New("the load balancer has all connections that it may have")
)

// dialError reports that a target accepted no connection.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// newGroup returns the group of a TargetGroup, with the connections that it has already. mu is held.
func (s *Server) newGroup(spec TargetGroup, idle time.Duration) *group {
	if spec.Version == "" {
		spec.Version = HTTP1
	}
	key := fmt.Sprint(spec.ID, " ", spec.Protocol, " ", spec.Version, " ", idle)
	p := s.pools[key]
	if p == nil {
		p = &pool{server: s, scheme: "http", targets: map[netip.AddrPort]*target{}}
		if spec.Protocol == "HTTPS" {
			p.scheme = "https"
		}
		p.transport = p.newTransport(spec, idle)
		s.pools[key] = p
	}
	g := &group{spec: spec, pool: p, slow: time.Duration(spec.SlowStart) * time.Second}
	for _, t := range spec.Targets {
		known := p.targets[t.Address]
		if known == nil {
			known = &target{address: t.Address, host: t.Address.String()}
			known.ctx, known.end = context.WithCancelCause(context.Background())
			p.targets[t.Address] = known
		}
		g.targets, g.since = append(g.targets, known), append(g.since, t.Since)
	}
	p.share.Store(int64(connectTime) / int64(max(1, min(len(g.targets), mostTried))))
	return g
}

// newTransport returns what sends requests to the targets of a group.
func (p *pool) newTransport(spec TargetGroup, idle time.Duration) *http.Transport {
	protocols := new(http.Protocols)
	switch {
	case spec.Version == HTTP1:
		protocols.SetHTTP1(true)
	case spec.Protocol == "HTTPS":
		protocols.SetHTTP2(true)
	default:
		protocols.SetUnencryptedHTTP2(true)
	}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		return p.dial(ctx, at)
	}
	// Load balancers do not verify the certificates of targets:
	// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-target-groups.html
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as on AWS
	if spec.Version != HTTP1 {
		config.NextProtos = []string{"h2"}
	}
	count := func(dial handshake.Dial) handshake.Dial {
		if spec.Version != HTTP1 { // it counts by itself
			return dial
		}
		return headerfields.Dialer(dial)
	}
	return &http.Transport{
		DialContext:    count(dial),
		DialTLSContext: count(handshake.Dialer(dial, config, connectTime)),
		Protocols:      protocols,
		HTTP2: &http.HTTP2Config{
			// What a request counts for (internal/connlimit) has room for it. There is no bound for a connection beside: clients
			// that do not read would fill that, and hold up all others.
			MaxReceiveBufferPerStream: 128 << 10,
			SendPingTimeout:           idle,
		},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    128,
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: maxAnswerHeader,
		WriteBufferSize:        8 << 10,
		ReadBufferSize:         8 << 10,
	}
}

// dial connects to a target. The connection counts for the load balancer.
func (p *pool) dial(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
	release, ok := p.server.o.Acquire(netip.Addr{})
	if !ok {
		p.server.closeIdle() // those that wait for a request make place
		if release, ok = p.server.o.Acquire(netip.Addr{}); !ok {
			return nil, errShare
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.share.Load()))
	defer cancel()
	c, err := p.server.o.Dial(ctx, at)
	if err != nil {
		release()
		return nil, dialError{err}
	}
	return &counted{Conn: c, release: sync.OnceFunc(release)}, nil
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	release func()
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}

// isKeeping reports whether requests to an address go on.
func (g *group) isKeeping(address netip.AddrPort) bool {
	return slices.ContainsFunc(g.targets, func(t *target) bool { return t.address == address }) ||
		slices.Contains(g.spec.Keeping, address)
}

// acceptsNewRequests reports whether a target gets new requests.
func (g *group) acceptsNewRequests(t *target) bool { return slices.Contains(g.targets, t) }

// findTarget returns the target with an address that gets new requests; nil if there is none.
func (g *group) findTarget(address netip.AddrPort) *target {
	for _, t := range g.targets {
		if t.address == address {
			return t
		}
	}
	return nil
}

// chooseTarget returns the target of a request, other than those that were tried; nil if there is none.
func (g *group) chooseTarget(e *exchange, tried []*target) *target {
	if e.sticky != nil && !slices.Contains(tried, e.sticky) {
		return e.sticky
	}
	n := uint64(len(g.targets))
	if n == 0 {
		return nil
	}
	turn := g.pool.turn.Add(1)
	if g.spec.Algorithm == WeightedRandom {
		turn = g.pool.server.random()
	}
	if g.spec.Algorithm == LeastOutstanding {
		var least *target
		for i := range n {
			t := g.targets[(turn+i)%n]
			if !slices.Contains(tried, t) && (least == nil || t.outstanding.Load() < least.outstanding.Load()) {
				least = t
			}
		}
		return least
	}
	var passed *target
	for i := range n {
		at := (turn + i) % n
		t := g.targets[at]
		if slices.Contains(tried, t) {
			continue
		}
		if g.takesTurn(int(at), e) {
			return t
		}
		if passed == nil {
			passed = t
		}
	}
	return passed
}

// takesTurn reports whether a target takes a request that is its turn. In slow start it takes a share of them that
// grows.
func (g *group) takesTurn(i int, e *exchange) bool {
	if g.slow == 0 || g.since[i].IsZero() {
		return true
	}
	age := e.server.o.now().Sub(g.since[i])
	if age >= g.slow {
		return true
	}
	return float64(e.server.random()>>11)/(1<<53) < float64(age)/float64(g.slow)
}

// random returns the next of numbers that are spread evenly. They need not be unpredictable.
func (s *Server) random() uint64 {
	z := s.seed.Add(0x9e3779b97f4a7c15) // splitmix64
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
