package events

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// open opens a store until the test ends.
func open(tb testing.TB, dir string, o Options) *Store {
	tb.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s, err := Open(dir, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, ErrClosed) {
			tb.Error(err)
		}
	})
	return s
}

// waitFor waits until something is true of a group.
func waitFor(tb testing.TB, s *Store, id GroupID, done func(*group) bool) {
	tb.Helper()
	deadline := time.After(eventually.Limit)
	for {
		g := s.ensureGroup(id)
		g.mu.Lock()
		ok, changed := done(g), g.changed
		g.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			tb.Fatal("it does not come true")
		}
	}
}

func TestLargeBatchesAndMessages(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealBytes: 4 << 20})
	b := noise(1, 20_000_000)
	b.Events = append(b.Events, Event{Stream: 2, Timestamp: 1, Message: strings.Repeat("large ", maxMessage/6)},
		Event{Stream: 2, Timestamp: 2})
	first, err := s.Append(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	waitIdle(t, s)
	seq := first
	for got, err := range s.Events(t.Context(), 1, Range{To: 1 << 60}) {
		if err != nil {
			t.Fatal(err)
		}
		want := b.Events[seq-first]
		if want.Seq = seq; got != want {
			t.Fatalf("event %d is not what was appended", seq)
		}
		seq++
	}
	if n := int(seq - first); n != len(b.Events) {
		t.Errorf("%d events are there of %d", n, len(b.Events))
	}
	if _, err := s.Append(t.Context(), Batch{Group: 1,
		Events: []Event{{Stream: 1, Message: strings.Repeat("x", maxMessage+1)}}}); err == nil {
		t.Error("a message that is too long is taken")
	}
	if got := s.LastSeq(1); got != seq-1 {
		t.Errorf("the last Seq is %d after %d", got, seq-1)
	}
}

// Whoever follows a group gets long messages a few at a time.
func TestSinceGivesFewLongMessages(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	var b Batch
	b.Group = 1
	for i := range 20 {
		b.Events = append(b.Events, Event{Stream: 1, Timestamp: int64(i), Message: strings.Repeat("long ", 200_000)})
	}
	b.Events = append(b.Events, Event{Stream: 1, Timestamp: 20, Message: strings.Repeat("x", maxMessage)})
	if _, err := s.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	n := 0
	for after := uint64(0); ; {
		list, err := s.Since(t.Context(), 1, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		bytes := 0
		for _, e := range list {
			if bytes += len(e.Message); e.Seq <= after {
				t.Fatalf("event %d comes again", e.Seq)
			}
			after = e.Seq
		}
		if n += len(list); bytes > sinceBytes && len(list) > 1 {
			t.Errorf("%d events have %d bytes", len(list), bytes)
		}
	}
	if n != len(b.Events) {
		t.Errorf("%d events of %d", n, len(b.Events))
	}
}
