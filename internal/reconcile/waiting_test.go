package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coracle-eks/coracle/internal/metrics"
)

// blocked returns the number of watches of a controller that are blocked, as the metrics say.
func blocked(t *testing.T, controller string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "coracle_reconcile_blocked_watches" && m.GetLabel()[0].GetValue() == controller {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// TestKeysOfAPIServersAreBounded shows that an API server that makes up objects fills no queue: its watch waits until
// passes succeed, says so, and holds up no other cluster.
func TestKeysOfAPIServersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all = maxClusterKeys + 500
		var log bytes.Buffer
		var told, other, passed atomic.Int64
		var serves atomic.Bool
		c := Controller{
			Name: "bounded", Workers: 8, AccountWorkers: 4, ClusterWorkers: 2, MaxBackoff: time.Second,
			Watches: []Watch{func(ctx context.Context, changed func(context.Context, string) error) {
				for i := range all {
					key := fmt.Sprint("a/eu-west-1/hostile/", i)
					for range 2 { // what waits is told again at once
						if changed(ctx, key) != nil {
							return
						}
					}
					told.Add(1)
				}
			}, func(ctx context.Context, changed func(context.Context, string) error) {
				for i := range 10 {
					if changed(ctx, fmt.Sprint("a/eu-west-1/other/", i)) == nil {
						other.Add(1)
					}
				}
			}},
			Reconcile: func(_ context.Context, key string) (Result, error) {
				if strings.Contains(key, "hostile") && !serves.Load() {
					return Result{}, errors.New("the API server does not answer")
				}
				passed.Add(1)
				return Result{Gone: true}, nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Run(ctx, slog.New(slog.NewTextHandler(&log, nil)), c) }()
		time.Sleep(30 * time.Second) // of the bubble
		if n := told.Load(); n != maxClusterKeys {
			t.Errorf("%d keys of a cluster wait, not %d", n, maxClusterKeys)
		}
		if told, passed := other.Load(), passed.Load(); told != 10 || passed != 10 {
			t.Errorf("of 10 keys of another cluster %d were told, and %d worked on", told, passed)
		}
		if n := blocked(t, "bounded"); n != 1 {
			t.Errorf("%v watches are blocked", n)
		}
		serves.Store(true)
		time.Sleep(time.Minute)
		if told, passed := told.Load(), passed.Load(); told != all || passed != all+10 {
			t.Errorf("of %d keys %d were told, and %d worked on", all, told, passed)
		}
		if n := blocked(t, "bounded"); n != 0 {
			t.Errorf("%v watches are blocked at the end", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "a watch waits"); n != 1 {
			t.Errorf("the log says %d times that a watch waits", n)
		}
	})
}

// TestKeysOfAnAccountAreBounded shows that many clusters of an account have no more room than a few, that whoever waits
// ends with its context, and that nothing is kept of what is gone.
func TestKeysOfAnAccountAreBounded(t *testing.T) {
	t.Parallel()
	w := newWaiting("accounts", slog.New(slog.DiscardHandler))
	ended, end := context.WithCancel(t.Context())
	end()
	key := func(i int) string { return fmt.Sprintf("a/eu-west-1/%d/%d", i%10, i) }
	for i := range maxAccountKeys {
		if err := w.add(ended, key(i)); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	if err := w.add(ended, key(maxAccountKeys)); err == nil {
		t.Error("there is room for more")
	}
	if err := w.add(ended, "b/eu-west-1/0/0"); err != nil {
		t.Errorf("another account waits: %v", err)
	}
	w.remove("b/eu-west-1/0/0")
	w.remove("b/eu-west-1/0/1") // of another source
	for i := range maxAccountKeys {
		w.remove(key(i))
	}
	if len(w.keys) != 0 || len(w.accounts) != 0 {
		t.Errorf("%d keys of %d accounts are kept", len(w.keys), len(w.accounts))
	}
}

// TestBlockedWatchesSaySoOnceAMinute has clusters without keys wait for room in their account: each key that leaves
// wakes all of their watches, and makes room for one.
func TestBlockedWatchesSaySoOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWaiting("once a minute", slog.New(slog.NewTextHandler(&log, nil)))
		ctx, end := context.WithCancel(t.Context())
		defer end()
		key := func(i int) string { return fmt.Sprintf("a/eu-west-1/%d/%d", i%10, i) }
		for i := range maxAccountKeys {
			if err := w.add(ctx, key(i)); err != nil {
				t.Fatal(err)
			}
		}
		const others, left = 20, 5
		for i := range others {
			go func() { _ = w.add(ctx, fmt.Sprintf("a/eu-west-1/other-%d/1", i)) }() // the last end with ctx
		}
		expect := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if n := strings.Count(log.String(), "a watch waits"); n != want {
				t.Errorf("%s, the log says %d times that a watch waits, not %d", when, n, want)
			}
		}
		expect("at first", others)
		for i := range left {
			w.remove(key(i))
			expect("after a key has left", others)
		}
		time.Sleep(blockedEvery)
		w.remove(key(left))
		expect("a minute later", others+others-left-1)
		if n := len(w.said); n != others-left-1 {
			t.Errorf("%d clusters are kept", n)
		}
	})
}

// TestOneClusterHoldsNotAllWorkersOfItsAccount requires of a controller that leaves others of the account a worker.
func TestOneClusterHoldsNotAllWorkersOfItsAccount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		account, cluster int
		refused          bool
	}{"fewer": {8, 4, false}, "as many": {8, 8, true}, "more": {4, 8, true}, "any number of the account": {0, 8, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := Run(ctx, slog.New(slog.DiscardHandler), Controller{
				Name: "workers", Workers: 16, AccountWorkers: test.account, ClusterWorkers: test.cluster,
				Sources:   []Source{func(context.Context, func(string)) {}},
				Reconcile: func(context.Context, string) (Result, error) { return Result{}, nil },
			})
			if (err != nil) != test.refused {
				t.Error(err)
			}
		})
	}
}
