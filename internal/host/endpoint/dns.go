package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/recovery"
)

// How many connections a source may have open to a resolver, and all of a VPC. The library ends one that is idle after
// seconds.
const (
	dnsPerSource   = 64
	dnsPerResolver = 1024
)

// maxUDP is the largest answer that travels in a datagram, in bytes, whatever a query allows: that of EC2's resolver.
const maxUDP = 4096

// resolver is a Resolver at work.
type resolver struct {
	spec     atomic.Pointer[Resolver]
	names    *atomic.Pointer[map[string][]netip.Addr]
	upstream *upstream
	servers  []*dns.Server
	asking   int // queries that wait for upstream, see [upstream.acquire]
	done     sync.WaitGroup
	log      *slog.Logger
}

func openResolver(spec Resolver, names *atomic.Pointer[map[string][]netip.Addr], up *upstream,
	log *slog.Logger) (r *resolver, err error) {
	r = &resolver{names: names, upstream: up, log: log}
	r.spec.Store(&spec)
	defer func() {
		if err != nil {
			r.close()
			r.done.Wait()
		}
	}()
	for _, a := range spec.Addresses {
		at := netip.AddrPortFrom(a, 53).String()
		packets, err := ListenPacket(context.Background(), spec.Namespace, "udp", at)
		if err != nil {
			return r, err
		}
		r.serveDNS(&dns.Server{PacketConn: packets, Handler: r}, log)
		streams, err := Listen(context.Background(), spec.Namespace, "tcp", at)
		if err != nil {
			return r, err
		}
		r.serveDNS(&dns.Server{Listener: connlimit.New(streams, connlimit.Limits{
			Share: spec.listenerKey(), PerSource: dnsPerSource, Total: dnsPerResolver,
		}), Handler: r}, log)
	}
	return r, nil
}

func (r *resolver) serveDNS(s *dns.Server, log *slog.Logger) {
	started := make(chan struct{})
	s.NotifyStartedFunc = func() { close(started) }
	r.servers = append(r.servers, s)
	r.done.Go(func() {
		if err := s.ActivateAndServe(); err != nil && !errors.Is(err, net.ErrClosed) {
			log.Warn("DNS server ended", "error", err)
		}
	})
	<-started
}

func (r *resolver) update(spec Resolver) { r.spec.Store(&spec) }

func (r *resolver) close() {
	for _, s := range r.servers { // without Shutdown, which waits for answers under way
		if s.PacketConn != nil {
			s.PacketConn.Close()
		}
		if s.Listener != nil {
			s.Listener.Close()
		}
	}
}

// ServeDNS answers one query. The library calls it in a goroutine of its own, whose panic would end the process.
func (r *resolver) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	var answer []byte
	err := recovery.Try(func() (err error) {
		reply := r.resolveQuery(query, addressOf(w.RemoteAddr()))
		if udp, ok := w.RemoteAddr().(*net.UDPAddr); ok && udp != nil {
			size := dns.MinMsgSize
			if opt := query.IsEdns0(); opt != nil {
				size = min(max(size, int(opt.UDPSize())), maxUDP)
			}
			reply.Truncate(size)
		}
		answer, err = reply.Pack()
		return err
	})
	if err != nil {
		r.log.Error("DNS query failed", "error", err)
		err = recovery.Try(func() (err error) {
			answer, err = new(dns.Msg).SetRcode(query, dns.RcodeServerFailure).Pack()
			return err
		})
	}
	if err == nil {
		w.Write(answer) //nolint:errcheck // who asked has gone
	}
}

// resolveQuery returns the reply to a query of from.
func (r *resolver) resolveQuery(query *dns.Msg, from netip.Addr) *dns.Msg {
	failure := func(code int) *dns.Msg { return new(dns.Msg).SetRcode(query, code) }
	switch {
	case query.Opcode != dns.OpcodeQuery:
		return failure(dns.RcodeNotImplemented)
	case len(query.Question) != 1:
		return failure(dns.RcodeFormatError)
	}
	var names map[string][]netip.Addr
	if known := r.names.Load(); known != nil {
		names = *known
	}
	if own := answerQuestion(r.spec.Load(), names, from, query.Question[0]); own != nil {
		code := own.Rcode
		own.SetRcode(query, code)
		own.Authoritative = false // it is a resolver
		own.RecursionAvailable = true
		if opt := query.IsEdns0(); opt != nil {
			own.SetEdns0(maxUDP, opt.Do())
		}
		return own
	}
	if reply := r.askUpstream(query); reply != nil {
		return reply
	}
	reply := failure(dns.RcodeServerFailure)
	reply.RecursionAvailable = true
	return reply
}

// askUpstream returns the answer of the host's resolvers, nil for none.
func (r *resolver) askUpstream(query *dns.Msg) *dns.Msg {
	if !r.upstream.acquire(&r.asking) {
		return nil
	}
	begun := time.Now()
	defer func() { // also after a panic
		if time.Since(begun) < upstreamTime {
			r.upstream.release(&r.asking)
		} else {
			time.AfterFunc(unansweredTime, func() { r.upstream.release(&r.asking) })
		}
	}()
	return r.upstream.forwardQuery(query)
}
