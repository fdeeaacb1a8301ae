package wire

import (
	"context"
	"errors"
	"net/netip"
	"sync"
)

// shares divides a number of bytes among the sources of requests, so that none of them takes what the others need. The
// host itself, with the daemon's own clients, always has its share.
type shares struct {
	total, each int64

	mu     sync.Mutex
	others int64 // that sources other than the host have
	by     map[netip.Addr]int64
	freed  chan struct{} // closed when bytes are given back
}

// errNoShare says that a source has all that it may have, or all sources together.
var errNoShare = errors.New("no bytes are left for this request")

// host stands for all addresses of this host's loopback, and for clients in this process.
var host netip.Addr

func newShares(total, each int64) *shares {
	return &shares{total: total, each: min(each, total), by: map[netip.Addr]int64{}, freed: make(chan struct{})}
}

// sourceOf returns the source of a request with a remote address.
func sourceOf(remote string) netip.Addr {
	a, err := netip.ParseAddrPort(remote)
	if err != nil || a.Addr().Unmap().IsLoopback() {
		return host
	}
	return a.Addr().Unmap().WithZone("")
}

// acquire takes bytes for a source, and waits for them until ctx ends.
func (s *shares) acquire(ctx context.Context, source netip.Addr, n int64) error {
	for {
		freed, ok := s.tryAcquire(source, n)
		if ok {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return errNoShare
		}
	}
}

func (s *shares) tryAcquire(source netip.Addr, n int64) (freed chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[source]+n > s.each || source != host && s.others+n > s.total-s.each {
		return s.freed, false
	}
	s.by[source] += n
	if source != host {
		s.others += n
	}
	return nil, true
}

// release gives bytes of a source back.
func (s *shares) release(source netip.Addr, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[source] -= n; s.by[source] == 0 {
		delete(s.by, source)
	}
	if source != host {
		s.others -= n
	}
	close(s.freed)
	s.freed = make(chan struct{})
}
