// Package eventually waits, in tests, for an effect of another goroutine or process.
//
// A machine may be ten times slower than the one a test was written on. So there is one limit, the same for all, and it
// is only how long a test that will never pass takes to say so. What the product promises within a time is a benchmark.
package eventually

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Limit is the time that tests wait for anything.
const Limit = 10 * time.Minute

// interval is the time from the first look to the second. Looks are cheap: mostly at memory, or at an API on this host.
const interval = 10 * time.Millisecond

// maxInterval is the longest time from one look to the next.
const maxInterval = time.Second

// Nil calls look until it returns no error, and fails the test with the last one after [Limit], or at once with one
// made by [Never]. The message begins with what.
func Nil(t testing.TB, what string, look func() error) {
	t.Helper()
	if err := Try(interval, look); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// True is like [Nil], for checks that only return true or false.
func True(t testing.TB, what string, look func() bool) {
	t.Helper()
	Nil(t, what, func() error {
		if !look() {
			return errors.New("it is not so")
		}
		return nil
	})
}

// Try is like [Nil], and returns the error. It is for goroutines other than the test's own, and for tests that log more
// when they fail. The second look comes after the given interval. What has taken long is looked at less often, every
// sixteenth of that time, up to once a second: looks at an API take the time that others need on a busy machine.
func Try(interval time.Duration, look func() error) error {
	start := time.Now()
	for {
		err := look()
		if err == nil {
			return nil
		}
		var last never
		if errors.As(err, &last) {
			return last.error
		}
		passed := time.Since(start)
		if passed > Limit {
			return fmt.Errorf("not after %s: %w", Limit, err)
		}
		time.Sleep(max(interval, min(passed/16, maxInterval)))
	}
}

// WithLimit tests something that takes longer than a limit that does not apply to it. It calls try with limits, the
// shortest first, until one returns no error: on a slow machine, what the limit does apply to may exceed a short one.
func WithLimit(t testing.TB, try func(limit time.Duration) error) {
	t.Helper()
	var err error
	for _, limit := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second} {
		if err = try(limit); err == nil {
			return
		}
		t.Logf("with a limit of %v: %v", limit, err)
	}
	t.Error(err)
}

// Never wraps an error that further checks will not resolve.
func Never(err error) error { return never{err} }

type never struct{ error }
