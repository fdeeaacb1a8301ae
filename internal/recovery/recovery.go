// Package recovery keeps the panic of one piece of work from ending the daemon, which all clusters and accounts share:
// what work reads is often a tenant's.
//
// Goroutines that another goroutine waits for are those of github.com/sourcegraph/conc, which hand a panic to whoever
// waits: in the end a Reconcile, whose panics internal/reconcile makes errors. Goroutines that nobody waits for call
// [Repeat].
package recovery

import (
	"context"
	"log/slog"
	"time"

	"github.com/sourcegraph/conc/panics"
	"github.com/sourcegraph/conc/pool"
)

// pause is the time that Repeat waits after a panic.
const pause = 5 * time.Second

// Group returns a group of goroutines whose context ends with the first error, which Wait returns. Wait panics when one
// of them has.
func Group(ctx context.Context) *pool.ContextPool {
	return pool.New().WithContext(ctx).WithCancelOnError().WithFirstError()
}

// Try calls f. A panic of f is its error, with the stack.
func Try(f func() error) (err error) {
	if p := panics.Try(func() { err = f() }); p != nil {
		return p.AsError()
	}
	return err
}

// Repeat calls f until it returns. When f panics, Repeat logs the panic and calls f again after a pause, until ctx
// ends. what says what f does, as in "follow the pods of a cluster".
func Repeat(ctx context.Context, log *slog.Logger, what string, f func()) {
	for {
		p := panics.Try(f)
		if p == nil {
			return
		}
		log.Error("a panic in the daemon; trying again", "while", what, "panic", p.AsError())
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
