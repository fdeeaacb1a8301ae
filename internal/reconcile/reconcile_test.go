package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

var quiet = slog.New(slog.DiscardHandler)

type thing struct{ N int }

// start runs controllers until the test ends.
func start(t *testing.T, c ...reconcile.Controller) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- reconcile.Run(ctx, quiet, c...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func receive(t *testing.T, from <-chan string, want string) {
	t.Helper()
	select {
	case got := <-from:
		if got != want {
			t.Fatalf("reconciled %q, want %q", got, want)
		}
	case <-time.After(eventually.Limit):
		t.Fatalf("%q was not reconciled", want)
	}
}

func TestRowsThatExistChangeOrFailAreReconciled(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	things := store.NewTable[thing](s, "things")
	owners := store.NewTable[thing](s, "owners")
	if _, err := things.Create(t.Context(), "old", thing{}); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 100)
	var failures atomic.Int32
	start(t, reconcile.Controller{
		Name: "things",
		Sources: []reconcile.Source{
			reconcile.Table(things, ""),
			reconcile.Mapped(owners, "", func(k string) []string { return []string{"owned-by-" + k} }),
		},
		MinBackoff: time.Millisecond,
		Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
			if key == "bad" {
				switch failures.Add(1) {
				case 1:
					return reconcile.Result{}, errors.New("once")
				case 2:
					panic("twice")
				}
			}
			seen <- key
			return reconcile.Result{}, nil
		},
	})
	receive(t, seen, "old")
	for _, k := range []string{"new", "bad"} {
		if _, err := things.Create(t.Context(), k, thing{}); err != nil {
			t.Fatal(err)
		}
		receive(t, seen, k)
	}
	if n := failures.Load(); n != 3 {
		t.Errorf("a key that failed twice was tried %d times", n)
	}
	if _, err := owners.Create(t.Context(), "me", thing{}); err != nil {
		t.Fatal(err)
	}
	receive(t, seen, "owned-by-me")
}

func TestAKeyIsNeverReconciledTwiceAtOnce(t *testing.T) {
	t.Parallel()
	keys := make(chan string)
	var at, most, total atomic.Int32
	finished, told := make(chan string, 100), make(chan struct{})
	start(t, reconcile.Controller{
		Name: "one", Workers: 4, Sources: []reconcile.Source{reconcile.Channel(keys)},
		Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
			if key == "last" {
				close(told)
				return reconcile.Result{}, nil
			}
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			if total.Add(1) == 1 {
				for range 20 { // told twenty times while at work: once more is enough
					keys <- "k"
				}
				keys <- "last"
				<-told // the source has told of all before it
			}
			finished <- "k"
			return reconcile.Result{}, nil
		},
	})
	keys <- "k"
	receive(t, finished, "k")
	receive(t, finished, "k")
	if most.Load() != 1 || total.Load() != 2 {
		t.Errorf("%d at once, %d in all", most.Load(), total.Load())
	}
}

func TestResyncAndAfterLookAgainUntilGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]reconcile.Controller{
		"resync": {Resync: time.Millisecond},
		"after":  {},
	} {
		keys := make(chan string, 1)
		seen := make(chan string, 100)
		n := 0
		c.Name, c.Sources = name, []reconcile.Source{reconcile.Channel(keys)}
		c.Reconcile = func(context.Context, string) (reconcile.Result, error) {
			n++
			seen <- fmt.Sprint(n)
			result := reconcile.Result{Gone: n == 3}
			if name == "after" && n < 3 {
				result.After = time.Millisecond
			}
			return result, nil
		}
		start(t, c)
		keys <- "k"
		for i := 1; i <= 3; i++ {
			receive(t, seen, fmt.Sprint(i))
		}
		keys <- "k"
		receive(t, seen, "4")
	}
}

func TestOneLeaderAtATimeAndAnotherAfterIt(t *testing.T) {
	t.Parallel()
	client, key := storetest.Client(t), storetest.Prefix(t)
	var leaders atomic.Int32
	leading := make(chan context.CancelFunc)
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wg.Go(func() {
			err := reconcile.Lead(ctx, reconcile.Election{Client: client, Key: key, Identity: fmt.Sprint(i)}, quiet,
				func(ctx context.Context) error {
					if n := leaders.Add(1); n != 1 {
						t.Errorf("%d leaders", n)
					}
					defer leaders.Add(-1)
					leading <- cancel
					<-ctx.Done()
					return ctx.Err()
				})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 {
		select {
		case depose := <-leading:
			depose()
		case <-time.After(eventually.Limit):
			t.Fatal("nobody leads")
		}
	}
}

// TestATenantHoldsAShareOfTheWorkers runs clusters whose API servers never answer.
func TestATenantHoldsAShareOfTheWorkers(t *testing.T) {
	t.Parallel()
	const each = 50
	keys := make(chan string)
	seen := make(chan string, 10*each)
	answer := make(chan struct{})
	var mu sync.Mutex
	held, most := map[string]int{}, map[string]int{}
	count := func(n int, owners ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, owner := range owners {
			held[owner] += n
			most[owner] = max(most[owner], held[owner])
		}
	}
	start(t, reconcile.Controller{
		Name: "shares", Workers: 8, AccountWorkers: 4, ClusterWorkers: 2,
		Sources: []reconcile.Source{reconcile.Channel(keys)},
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			parts := store.Parts(key)
			cluster := store.Key(parts[:3]...)
			count(1, parts[0], cluster)
			defer count(-1, parts[0], cluster)
			if parts[0] == "hostile" {
				select {
				case <-answer:
				case <-ctx.Done():
				}
			}
			seen <- cluster
			return reconcile.Result{}, nil
		},
	})
	for i := range each {
		for _, cluster := range []string{"a", "b", "c"} {
			keys <- fmt.Sprintf("hostile/r/%s/%d", cluster, i)
		}
	}
	for range each {
		keys <- "good/r/a/1"
		receive(t, seen, "good/r/a")
	}
	close(answer) // nobody is forgotten
	for range 3 * each {
		select {
		case <-seen:
		case <-time.After(eventually.Limit):
			t.Fatal("keys are not reconciled")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if most["hostile"] != 4 || most["hostile/r/a"] != 2 || most["hostile/r/b"] > 2 || most["hostile/r/c"] > 2 {
		t.Errorf("workers were held by %v", most)
	}
}

// TestNoAccountHoldsAllWorkers runs keys of one account that take as long as it likes, such as the removal of as many
// files as a machine can make.
func TestNoAccountHoldsAllWorkers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]reconcile.Controller{
		"no numbers":               {},
		"one worker":               {Workers: 1},
		"workers alone":            {Workers: 4},
		"as many for each account": {Workers: 4, AccountWorkers: 4},
		"more for each account":    {Workers: 4, AccountWorkers: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, seen := make(chan string), make(chan string, 1)
			c.Name, c.Sources = name, []reconcile.Source{reconcile.Channel(keys)}
			c.Reconcile = func(ctx context.Context, key string) (reconcile.Result, error) {
				if store.Parts(key)[0] == "hostile" {
					<-ctx.Done()
					return reconcile.Result{}, ctx.Err()
				}
				seen <- key
				return reconcile.Result{}, nil
			}
			start(t, c)
			for i := range 20 {
				keys <- fmt.Sprintf("hostile/r/%d", i)
			}
			keys <- "good/r/1"
			receive(t, seen, "good/r/1")
		})
	}
}

func TestAPassHasADeadline(t *testing.T) {
	t.Parallel()
	keys, causes := make(chan string, 1), make(chan string, 100)
	start(t, reconcile.Controller{
		Name: "deadline", Timeout: time.Millisecond, MinBackoff: time.Millisecond,
		Sources: []reconcile.Source{reconcile.Channel(keys)},
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx).Error()
			return reconcile.Result{}, ctx.Err()
		},
	})
	keys <- "k"
	for range 2 { // it is tried again
		receive(t, causes, "it took longer than 1ms")
	}
}

// TestPassesOfAnAccountAreBounded runs against an API server that wakes a controller all the time.
func TestPassesOfAnAccountAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		passes := map[string]int{}
		err := reconcile.Run(ctx, quiet, reconcile.Controller{
			Name: "woken", AccountWorkers: 1,
			Sources: []reconcile.Source{func(ctx context.Context, changed func(string)) {
				for ctx.Err() == nil {
					changed("hostile/r/a")
					time.Sleep(time.Millisecond)
				}
			}, func(ctx context.Context, changed func(string)) {
				for ctx.Err() == nil {
					changed("good/r/a")
					time.Sleep(time.Second)
				}
			}},
			Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
				passes[key]++
				return reconcile.Result{}, nil
			},
		})
		// A thousand at once, and a hundred per second: as many for one cluster as for an account.
		if n := passes["hostile/r/a"]; err != nil || n < 1000 || n > 3001 || passes["good/r/a"] < 19 {
			t.Errorf("%v passes within 20 seconds, %v", passes, err)
		}
	})
}

// TestClustersOfAnAccountTakeTurns has one cluster whose API server wakes a controller for many keys, all the time, and
// others of its account, and of another one, that have something to do now and then.
func TestClustersOfAnAccountTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seconds, keys = 60, 900
		ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		defer cancel()
		var mu sync.Mutex
		told, longest, passes := map[string]time.Time{}, map[string]time.Duration{}, map[string]int{}
		now := func(key string) {
			mu.Lock()
			defer mu.Unlock()
			if told[key].IsZero() {
				told[key] = time.Now()
			}
		}
		err := reconcile.Run(ctx, quiet, reconcile.Controller{
			Name: "clusters", Workers: 16, AccountWorkers: 8, ClusterWorkers: 4,
			Sources: []reconcile.Source{func(ctx context.Context, changed func(string)) {
				for i := 0; ctx.Err() == nil; i++ {
					for n := range keys / 100 {
						changed(fmt.Sprintf("a/r/hostile/%d", (i+n*100)%keys))
					}
					time.Sleep(time.Millisecond)
				}
			}, func(ctx context.Context, changed func(string)) {
				for ctx.Err() == nil {
					for _, key := range []string{"a/r/good/1", "b/r/good/1"} {
						now(key)
						changed(key)
					}
					time.Sleep(time.Second)
				}
			}},
			Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				cluster := store.Key(store.Parts(key)[:3]...)
				passes[cluster]++
				if at := told[key]; !at.IsZero() {
					longest[key], told[key] = max(longest[key], time.Since(at)), time.Time{}
				}
				return reconcile.Result{}, nil
			},
		})
		if err != nil {
			t.Error(err)
		}
		// Eight workers wait for a hundredth of a second each.
		for _, key := range []string{"a/r/good/1", "b/r/good/1"} {
			if longest[key] > 100*time.Millisecond {
				t.Errorf("%s waits for %s", key, longest[key])
			}
		}
		if passes["a/r/good"] < seconds-1 || passes["b/r/good"] < seconds-1 || passes["a/r/hostile"] < seconds*95 {
			t.Errorf("%v passes within %d seconds", passes, seconds)
		}
	})
}
