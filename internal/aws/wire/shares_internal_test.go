package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
)

func TestSourcesShareWhatBodiesMayHave(t *testing.T) {
	t.Parallel()
	s := newShares[netip.Addr](100, 30)
	over, cancel := context.WithCancel(t.Context())
	cancel() // nobody waits
	a, b, c := sourceOf("10.0.0.1:1"), sourceOf("10.0.0.2:1"), sourceOf("[fd00::1%eth0]:1")
	for i, step := range []struct {
		source netip.Addr
		n      int64
		ok     bool
	}{
		{a, 20, true}, {a, 20, false}, {a, 10, true}, // its share
		{b, 30, true}, {c, 10, true}, {c, 1, false}, // all that is not the host's
		{sourceOf("127.0.0.1:1"), 20, true}, {sourceOf("[::1]:9"), 10, true}, {sourceOf(""), 1, false},
	} {
		if err := s.acquire(over, step.source, step.n); (err == nil) != step.ok ||
			err != nil && !errors.Is(err, errNoShare) {
			t.Errorf("step %d: %v", i, err)
		}
	}
	done := make(chan error)
	go func() { done <- s.acquire(t.Context(), c, 20) }() // waits for another
	s.release(b, 30)
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.release(c, 30)
	s.release(a, 30)
	s.release(host, 30)
	if len(s.by) != 0 || s.others != 0 {
		t.Errorf("%v and %d are left", s.by, s.others)
	}
}

// TestOnlyWhoCanGoOnIsWoken has requests of two sources wait, and gives back too little for most of them.
func TestOnlyWhoCanGoOnIsWoken(t *testing.T) {
	t.Parallel()
	s := newShares[netip.Addr](100, 30)
	a, b, c := sourceOf("10.0.0.1:1"), sourceOf("10.0.0.2:1"), sourceOf("10.0.0.3:1")
	for _, source := range []netip.Addr{a, b} {
		if err := s.acquire(t.Context(), source, 30); err != nil {
			t.Fatal(err)
		}
	}
	left := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waiting.Len()
	}
	over, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	for i, source := range []netip.Addr{a, a, a, c, c} {
		go func() { ended <- s.acquire(over, source, 15) }()
		eventually.Nil(t, "a request waits", func() error {
			if n := left(); n != i+1 {
				return fmt.Errorf("%d wait", n)
			}
			return nil
		})
	}
	for i, step := range []struct {
		release netip.Addr
		left    int
		by      map[netip.Addr]int64
	}{
		{b, 4, map[netip.Addr]int64{a: 30, b: 20, c: 15}}, // there is room for one of c, and a has its share
		{b, 3, map[netip.Addr]int64{a: 30, b: 10, c: 30}},
		{a, 3, map[netip.Addr]int64{a: 20, b: 10, c: 30}},
		{a, 2, map[netip.Addr]int64{a: 25, b: 10, c: 30}},
	} {
		s.release(step.release, 10)
		if n := left(); n != step.left || !maps.Equal(s.by, step.by) {
			t.Errorf("step %d: %d wait and %v is taken, want %d and %v", i, n, s.by, step.left, step.by)
		}
	}
	cancel()
	failed := 0
	for range 5 {
		if err := <-ended; err != nil {
			failed++
		}
	}
	if n := left(); failed != 2 || n != 0 {
		t.Errorf("%d requests failed and %d wait, want 2 and none", failed, n)
	}
}

// TestListsAreChargedToTheirAnswer shows that a request holds memory for what it lists of the store, beyond a part that
// is free, and never more than its account may have, so that the largest one succeeds alone.
func TestListsAreChargedToTheirAnswer(t *testing.T) {
	t.Parallel()
	s := newShares[string](9*freeRead, 3*freeRead)
	over, cancel := context.WithCancel(t.Context())
	cancel() // nobody waits
	a, b := &answer{shares: s}, &answer{shares: s}
	for i, step := range []struct {
		answer *answer
		bytes  int64
		held   int64 // by its account, after it
		ok     bool
	}{
		{a, freeRead, 0, true}, {a, freeRead, freeRead, true}, {b, freeRead, freeRead, true},
		{b, 2 * freeRead, 3 * freeRead, true}, {a, freeRead, 3 * freeRead, false},
	} {
		err := step.answer.chargeRead(over, "111122223333", step.bytes)
		if (err == nil) != step.ok || s.by["111122223333"] != step.held {
			t.Errorf("step %d: %v, %d bytes are held", i, err, s.by["111122223333"])
		}
	}
	a.release()
	b.release()
	alone := &answer{shares: s}
	if err := alone.chargeRead(over, "111122223333", 100*freeRead); err != nil {
		t.Errorf("a list larger than the account's share: %v", err)
	}
	alone.release()
	if len(s.by) != 0 {
		t.Errorf("%v is left", s.by)
	}
}

// TestTheLastHaveAPart shows that nobody takes more of what answers may have than they leave to others.
func TestTheLastHaveAPart(t *testing.T) {
	t.Parallel()
	s := newShares[string](900, 300)
	s.even = true
	over, cancel := context.WithCancel(t.Context())
	cancel() // nobody waits
	for i, step := range []struct {
		account string
		n       int64
		ok      bool
	}{
		{"a", 300, true}, {"a", 1, false}, {"b", 300, true}, {"c", 200, false}, {"c", 150, true}, {"d", 75, true},
		{"e", 37, true}, {"c", 1, false},
	} {
		if err := s.acquire(over, step.account, step.n); (err == nil) != step.ok {
			t.Errorf("step %d: %v", i, err)
		}
	}
}
