package resource

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

// The waiters of the SDKs ("aws eks wait cluster-active") ask every thirty seconds, which suits a
// cluster that takes ten minutes. Here it takes seconds, so the question of a waiter about a
// cluster on its way is answered when it has arrived.

// patience is the time for which a waiter's request is held: half of the time that the SDKs allow for a response.
const patience = 30 * time.Second

// waiterAgent finds the business metric by which SDKs mark a waiter's requests: m/...,B,...
// https://github.com/aws/aws-sdk-go-v2/blob/main/aws/middleware/user_agent.go
var waiterAgent = regexp.MustCompile(`(^| )m/([A-Za-z0-9+-]+,)*B(,| |$)`)

// Watch calls tell whenever something may have changed, until ctx ends.
type Watch func(ctx context.Context, tell func(string))

// waitUntil returns once arrived is true, at once unless a waiter asks.
func waitUntil(ctx context.Context, arrived func(context.Context) (bool, error), watches ...Watch) error {
	if !waiterAgent.MatchString(wire.UserAgentFrom(ctx)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	changed := make(chan struct{}, 1)
	tell := func(string) {
		select {
		case changed <- struct{}{}:
		default: // the next check is due anyway
		}
	}
	var listeners sync.WaitGroup
	defer listeners.Wait()
	defer cancel()
	for _, w := range watches {
		listeners.Go(func() { w(ctx, tell) })
	}
	for {
		if ok, err := arrived(ctx); ok || err != nil || !wire.Yield(ctx) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Notify returns a watch of what is below a prefix of a table's keys.
func Notify[T any](table store.Table[T], prefix string) Watch {
	return func(ctx context.Context, tell func(string)) { table.Notify(ctx, prefix, tell) }
}

// Await returns once arrived is true of the object with that key or there is none, at once unless a waiter asks.
func Await[T any](
	ctx context.Context, table store.Table[T], key string, arrived func(context.Context, T) (bool, error),
	watches ...Watch,
) error {
	return waitUntil(ctx, func(ctx context.Context) (bool, error) {
		row, err := table.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		return arrived(ctx, row.Value)
	}, append(watches, Notify(table, key))...)
}
