package wire

import (
	"container/list"
	"context"
	"errors"
	"net/netip"
	"sync"
)

// shares divides a number of bytes among the holders of requests, which are sources or accounts, so that none of them
// takes what the others need. One of them always has its share: the zero value, which is the host itself with the
// daemon's own clients, or no account.
type shares[K comparable] struct {
	total, each int64
	// even lets no holder have more than is left for others, so that those who come last have a part, however many have
	// taken theirs. The zero value is then a holder like any other.
	even bool

	mu      sync.Mutex
	others  int64 // that holders other than the zero value have
	by      map[K]int64
	waiting list.List // of *waiter[K], those first who have waited the longest
}

// waiter waits for bytes of shares. Only who can have them is woken, and has them then.
type waiter[K comparable] struct {
	holder K
	n      int64
	taken  chan struct{} // closed once it has them
}

// errNoShare reports that a holder has all that it may have, or all holders together.
var errNoShare = errors.New("no bytes are left for this request")

// host stands for all addresses of this host's loopback, and for clients in this process.
var host netip.Addr

func newShares[K comparable](total, each int64) *shares[K] {
	return &shares[K]{total: total, each: min(each, total), by: map[K]int64{}}
}

// sourceOf returns the source of a request with a remote address.
func sourceOf(remote string) netip.Addr {
	a, err := netip.ParseAddrPort(remote)
	if err != nil || a.Addr().Unmap().IsLoopback() {
		return host
	}
	return a.Addr().Unmap().WithZone("")
}

// acquire takes bytes for a holder, and waits for them until ctx ends.
func (s *shares[K]) acquire(ctx context.Context, holder K, n int64) error {
	s.mu.Lock()
	if s.take(holder, n) {
		s.mu.Unlock()
		return nil
	}
	w := &waiter[K]{holder, n, make(chan struct{})}
	element := s.waiting.PushBack(w)
	s.mu.Unlock()
	select {
	case <-w.taken:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.taken: // just now
		return nil
	default:
		s.waiting.Remove(element)
		return errNoShare
	}
}

// tryAcquire takes bytes for a holder, and reports whether it may have them now.
func (s *shares[K]) tryAcquire(holder K, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(holder, n)
}

// take takes bytes for a holder, if it may have them. The caller holds mu.
func (s *shares[K]) take(holder K, n int64) bool {
	var always K
	has := s.by[holder] + n
	full := holder != always && s.others+n > s.total-s.each
	if s.even {
		full = has > s.total-(s.others+s.by[always]+n)
	}
	if has > s.each || full {
		return false
	}
	s.by[holder] += n
	if holder != always {
		s.others += n
	}
	return true
}

// release gives bytes of a holder back.
func (s *shares[K]) release(holder K, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[holder] -= n; s.by[holder] == 0 {
		delete(s.by, holder)
	}
	var always K
	if holder != always {
		s.others -= n
	}
	for element := s.waiting.Front(); element != nil; {
		w, next := element.Value.(*waiter[K]), element.Next()
		if s.take(w.holder, w.n) {
			s.waiting.Remove(element)
			close(w.taken)
		}
		element = next
	}
}
