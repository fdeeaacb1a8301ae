package events

import (
	"io"
	"log/slog"
	"testing"
	"time"
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
		if err := s.Close(); err != nil && err != ErrClosed {
			tb.Error(err)
		}
	})
	return s
}

// waitFor waits until something is true of a group.
func waitFor(tb testing.TB, s *Store, id GroupID, done func(*group) bool) {
	tb.Helper()
	deadline := time.After(time.Minute)
	for {
		g := s.make(id)
		g.mu.Lock()
		ok, changed := done(g), g.changed
		g.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			tb.Fatal("it did not come true within a minute")
		}
	}
}
