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
	// maxIdle is how many requests of one account have given up their turn and not ended.
	maxIdle = 256
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
	requests int                 // that run, wait or are idle
	idle     int
}

// turn is that of a request. The zero value is of a request that needs none.
type turn struct {
	turns   *turns
	account string
	of      *accountTurns
	idle    bool
}

// begin waits until few enough requests of an account are carried out. The turn is to be ended when the client has read
// the answer. Requests without a signature, which are of no account, do not wait for each other.
func (t *turns) begin(ctx context.Context, account string) (turn, error) {
	if account == "" {
		return turn{}, nil
	}
	tooMany := &throttledError{fmt.Sprintf("Rate exceeded: %d requests of account %s are being carried out. Please try "+
		"again, with fewer at a time.", maxRunning, account)}
	t.mu.Lock()
	a := t.byAccount[account]
	if a == nil {
		a = &accountTurns{running: semaphore.NewWeighted(maxRunning)}
		t.byAccount[account] = a
	}
	if a.requests-a.idle >= maxRunning+maxWaiting {
		t.mu.Unlock()
		return turn{}, tooMany
	}
	a.requests++
	t.mu.Unlock()
	wait, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	if err := a.running.Acquire(wait, 1); err != nil {
		t.leave(account, a, false)
		return turn{}, tooMany
	}
	return turn{turns: t, account: account, of: a}, nil
}

func (t *turns) leave(account string, a *accountTurns, idle bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if idle {
		a.idle--
	}
	if a.requests--; a.requests == 0 {
		delete(t.byAccount, account)
	}
}

// yield lets another request have the turn, for good. It reports false, and does not, when too many of the account have
// done so already.
func (t *turn) yield() bool {
	if t.of == nil || t.idle {
		return true
	}
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	if t.of.idle >= maxIdle {
		return false
	}
	t.of.idle++
	t.idle = true
	t.of.running.Release(1)
	return true
}

// end ends the turn.
func (t *turn) end() {
	if t.of == nil {
		return
	}
	if !t.idle {
		t.of.running.Release(1)
	}
	t.turns.leave(t.account, t.of, t.idle)
	*t = turn{}
}
