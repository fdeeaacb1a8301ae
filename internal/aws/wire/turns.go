package wire

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxRunning is how many requests of one account are carried out at a time, until their clients have read the
	// answer. Others of the account wait for them.
	maxRunning = 64
	// maxWaiting is how many requests of one account wait.
	maxWaiting = 512
	// runWait is how long a request waits for others of its account to end.
	runWait = 30 * time.Second
)

// turns bounds how many requests of each account are carried out at a time, so that no account takes the processor or
// the memory from all others.
type turns struct {
	mu        sync.Mutex
	byAccount map[string]*accountTurns
}

type accountTurns struct {
	running  *semaphore.Weighted // which wakes them one by one, in their order
	requests int                 // that run or wait
}

// begin waits until few enough requests of an account are carried out. end is to be called when the client has read the
// answer. Requests without a signature, which are of no account, do not wait for each other.
func (t *turns) begin(ctx context.Context, account string) (end func(), err error) {
	if account == "" {
		return func() {}, nil
	}
	tooMany := &throttledError{fmt.Sprintf("Rate exceeded: %d requests of account %s are being carried out. Please try "+
		"again, with fewer at a time.", maxRunning, account)}
	t.mu.Lock()
	a := t.byAccount[account]
	if a == nil {
		a = &accountTurns{running: semaphore.NewWeighted(maxRunning)}
		t.byAccount[account] = a
	}
	if a.requests >= maxRunning+maxWaiting {
		t.mu.Unlock()
		return nil, tooMany
	}
	a.requests++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if a.requests--; a.requests == 0 {
			delete(t.byAccount, account)
		}
	}
	wait, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	if err := a.running.Acquire(wait, 1); err != nil {
		leave()
		return nil, tooMany
	}
	return func() { a.running.Release(1); leave() }, nil
}
