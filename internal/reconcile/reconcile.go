// Package reconcile runs controllers.
//
// A [Controller] is one function that reconciles the actual state with the desired state in the store, for one key. It
// is called for every key at start, whenever one of its [Source]s says that the key changed, when it asked to be called
// again, and at each resync. It is level-triggered: it reads the current state, never the event, and may be killed at
// any instruction.
//
// [Run] gives every controller a client-go work queue: a key is never worked on twice at once, changes meanwhile are
// merged into one, and a key that fails is tried again with exponential back-off. Keys begin with an account; accounts,
// and clusters within an account, take turns. Where several daemons share a store, [Lead] lets one of them run the
// controllers at a time.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// Result is the result of a reconcile pass over a key: when the next one is due.
type Result struct {
	// After is the time until then; 0 is not before something changes or the resync.
	After time.Duration
	// Gone is set when nothing is left of the key: no resync reconciles it again.
	Gone bool
}

// Source calls changed with the keys that a controller must reconcile: all of them first, then each one that changes,
// until ctx ends.
type Source func(ctx context.Context, changed func(key string))

// Table returns a source of a table's own keys below prefix.
func Table[T any](t store.Table[T], prefix string) Source {
	return func(ctx context.Context, changed func(string)) { t.Notify(ctx, prefix, changed) }
}

// Mapped returns a source of the keys that of returns for a table's keys, so that a change of one record wakes the
// controller of another. of returns no key for a record that concerns none.
func Mapped[T any](t store.Table[T], prefix string, of func(key string) []string) Source {
	return func(ctx context.Context, changed func(string)) {
		t.Notify(ctx, prefix, func(key string) {
			for _, k := range of(key) {
				changed(k)
			}
		})
	}
}

// Above makes a function for [Mapped] of the key of the row that the first n parts of a key name: of the cluster of
// what belongs to one, say.
func Above(n int) func(key string) []string {
	return func(key string) []string { return []string{store.Key(store.Parts(key)[:n]...)} }
}

// Below makes a function for [Mapped] of the keys in a table that have the first n parts of a key: of what belongs to a
// cluster, say. It finds none while the table cannot be read; a controller that has it resyncs.
func Below[T any](t store.Table[T], n int) func(key string) []string {
	return func(key string) (keys []string) {
		rows, _ := t.List(context.Background(), store.Prefix(store.Parts(key)[:n]...))
		for _, row := range rows {
			keys = append(keys, row.Key)
		}
		return keys
	}
}

// Channel returns a source of keys that something outside the store sends, such as the death of a process.
func Channel(keys <-chan string) Source {
	return func(ctx context.Context, changed func(string)) {
		for {
			select {
			case k, ok := <-keys:
				if !ok {
					<-ctx.Done()
					return
				}
				changed(k)
			case <-ctx.Done():
				return
			}
		}
	}
}

// Controller reconciles the actual state with the store, one key at a time.
type Controller struct {
	// Name is for logs and metrics, and no other controller's: "controlplane".
	Name string
	// Reconcile reconciles the object with the given key. An error is logged, and the key is tried again.
	Reconcile func(ctx context.Context, key string) (Result, error)
	// Sources and Watches send the keys to reconcile. At least one of them is needed. Keys that come from API servers
	// are those of Watches.
	Sources []Source
	Watches []Watch
	// Workers is the number of keys that are reconciled at once, at least 2.
	Workers int
	// AccountWorkers and ClusterWorkers are the numbers of workers that the keys of one account, and of one cluster,
	// may hold at once. One worker at least is left to other accounts, also when they are 0. A controller whose passes
	// take as long as a tenant likes sets them, and Timeout: those that ask clusters' API servers, and that depend on
	// machines or on the number of files. ClusterWorkers is less than AccountWorkers, so that an account's other clusters
	// have workers, too. With AccountWorkers, the keys of one account are also worked on at most 100 times per second; its
	// clusters take turns.
	AccountWorkers, ClusterWorkers int
	// Timeout ends the context of a Reconcile that takes longer; never when 0.
	Timeout time.Duration
	// Resync is the interval at which every key that the sources ever named is reconciled without a change; never when
	// 0.
	Resync time.Duration
	// MinBackoff and MaxBackoff bound the wait after failures: 50 ms and 30 s when 0.
	MinBackoff, MaxBackoff time.Duration
	// Clock is the real one when nil.
	Clock clock.WithTicker
}

// Run runs the controllers until ctx ends and every Reconcile under way has returned.
func Run(ctx context.Context, log *slog.Logger, controllers ...Controller) error {
	group := recovery.Group(ctx)
	for _, c := range controllers {
		group.Go(func(ctx context.Context) error { return c.run(ctx, log.With("controller", c.Name)) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (c Controller) run(ctx context.Context, log *slog.Logger) error {
	if c.Reconcile == nil || len(c.Sources)+len(c.Watches) == 0 {
		return fmt.Errorf("controller %q needs Reconcile and Sources", c.Name)
	}
	if c.ClusterWorkers > 0 && c.ClusterWorkers >= c.AccountWorkers {
		return fmt.Errorf("controller %q lets one cluster hold %d workers, and its account %d: the account's other clusters "+
			"have none", c.Name, c.ClusterWorkers, c.AccountWorkers)
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.MinBackoff == 0 {
		c.MinBackoff = 50 * time.Millisecond
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = 30 * time.Second
	}
	defer c.forgetFailures()
	workers := max(2, c.Workers)
	order := newTurns(workers, c.AccountWorkers, c.ClusterWorkers)
	passes := newAccountRates(passRate, passBurst)
	if c.AccountWorkers == 0 {
		passes.limit = rate.Inf
	}
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedMaxOfRateLimiter(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](c.MinBackoff, c.MaxBackoff),
			retryRate{newAccountRates(200, 1000)},
		),
		workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[string]{Name: c.Name, Clock: c.Clock, MetricsProvider: queueMetrics{},
				Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: c.Name, Clock: c.Clock,
					MetricsProvider: queueMetrics{}, Queue: order})},
		)},
	)
	waiting := newWaiting(c.Name, log)
	var running conc.WaitGroup
	for _, watch := range c.Watches {
		running.Go(func() {
			recovery.Repeat(ctx, log, "watch API servers", func() {
				watch(ctx, func(ctx context.Context, key string) error {
					err := waiting.add(ctx, key)
					if err == nil {
						queue.Add(key)
					}
					return err
				})
			})
		})
	}
	for _, source := range c.Sources {
		running.Go(func() {
			recovery.Repeat(ctx, log, "watch a source", func() { source(ctx, queue.Add) })
		})
	}
	for range workers {
		running.Go(func() {
			for c.reconcileNext(ctx, log, queue, order, passes, waiting) {
			}
		})
	}
	running.Go(func() {
		<-ctx.Done()
		queue.ShutDown()
	})
	running.Wait()
	return nil
}

func (c Controller) reconcileNext(ctx context.Context, log *slog.Logger,
	queue workqueue.TypedRateLimitingInterface[string], order *turns, passes *accountRates, waiting *waiting) bool {
	key, down := queue.Get()
	if down {
		return false
	}
	defer order.release(key) // and then this worker asks for the next
	defer queue.Done(key)
	if ctx.Err() != nil {
		return false
	}
	// It waits with its worker, so that keys come in the order of their turns: one cluster leaves passes to the others of
	// its account. Nobody waits longer for that than the account's workers together.
	if passes.limiterOf(key).Wait(ctx) != nil {
		return false
	}
	began := c.Clock.Now()
	var result Result
	err := recovery.Try(func() (err error) { // the other keys are served on
		ctx := ctx
		if c.Timeout > 0 {
			within, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %s", c.Timeout))
			defer cancel()
			ctx = within
		}
		result, err = c.Reconcile(ctx, key)
		return err
	})
	if ctx.Err() == nil {
		c.observe(key, c.Clock.Since(began), err)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.Error("reconcile failed; trying again", "key", key, "failures", queue.NumRequeues(key)+1, "error",
			textOf(err))
		queue.AddRateLimited(key)
	default:
		waiting.remove(key)
		queue.Forget(key)
		if result.Gone {
			break
		}
		if after := result.After; after > 0 && (c.Resync == 0 || after < c.Resync) {
			queue.AddAfter(key, after)
		} else if c.Resync > 0 {
			queue.AddAfter(key, c.Resync)
		}
	}
	return true
}
