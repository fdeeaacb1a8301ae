//go:build linux

package mounttarget

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// How many mounts of an account are decided about at a time, and how long others wait for them: less than a launcher
// waits for the answer.
const (
	mostDeciding = 8
	decisionWait = 10 * time.Second
)

// turns bounds how many decisions of each account are made at a time: they are no requests of the APIs, which have a
// bound of their own, and what a decision takes depends on policies of the account.
type turns struct {
	mu       sync.Mutex
	accounts map[string]*accountTurns
}

type accountTurns struct {
	deciding *semaphore.Weighted
	requests int // that decide or wait
}

// begin waits for a turn of an account, and reports whether there was one in time. The caller calls end once.
func (t *turns) begin(ctx context.Context, account string) (end func(), ok bool) {
	t.mu.Lock()
	of := t.accounts[account]
	if of == nil {
		of = &accountTurns{deciding: semaphore.NewWeighted(mostDeciding)}
		t.accounts[account] = of
	}
	of.requests++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if of.requests--; of.requests == 0 {
			delete(t.accounts, account)
		}
	}
	wait, cancel := context.WithTimeout(ctx, decisionWait)
	defer cancel()
	if of.deciding.Acquire(wait, 1) != nil {
		leave()
		return nil, false
	}
	return func() { of.deciding.Release(1); leave() }, true
}
