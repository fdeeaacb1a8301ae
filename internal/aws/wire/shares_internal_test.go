package wire

import (
	"context"
	"errors"
	"net/netip"
	"testing"
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
