package wire

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxRunning limits the requests of one account that run at a time, until their clients have read the
	// answer. Others of the account wait for them.
	maxRunning = 64
	// maxWaiting limits the waiting requests of one account or source.
	maxWaiting = 512
	// maxIdle limits the requests of one account that have given up their turn and not ended.
	maxIdle = 256
	// maxUnsignedRunning limits the requests without a signature that run at a time for one source. Nobody has
	// shown to be allowed anything, and they are short: the signature of a web identity token is verified.
	maxUnsignedRunning = 8
	// runWait limits the time that a request waits for others of its account to end.
	runWait = 30 * time.Second
	// maxOwnRunning limits the requests that the daemon makes for one account at a time, and ownRunWait how long one of
	// them waits: about as long as a controller waits for its answer.
	maxOwnRunning = 16
	ownRunWait    = 2 * time.Minute
)

// turns bounds how many requests of each account are carried out at a time, and of each source that has not signed
// them, so that none of them takes the processor or the memory from all others.
type turns struct {
	each int           // requests of an account
	wait time.Duration // for others of the account

	mu       sync.Mutex
	byHolder map[string]*holderTurns // by account, or by the address of a source
}

type holderTurns struct {
	running  *semaphore.Weighted // which wakes them one by one, in their order
	requests int                 // that run, wait or are idle
	idle     int
}

// turn is that of a request. The zero value is of a request that needs none.
type turn struct {
	turns  *turns
	holder string
	of     *holderTurns
	idle   bool
}

// begin waits until few enough requests of an account are carried out, or of a source when they are of no account. The
// turn is to be ended when the client has read the answer.
func (t *turns) begin(ctx context.Context, account string, source netip.Addr) (turn, error) {
	holder, running, whose := account, t.each, "of account "+account
	if account == "" {
		holder, running, whose = source.String(), maxUnsignedRunning, "that are not signed"
	}
	tooMany := &throttledError{fmt.Sprintf("Rate exceeded: %d requests %s are being carried out. Please try again, with "+
		"fewer at a time.", running, whose)}
	t.mu.Lock()
	a := t.byHolder[holder]
	if a == nil {
		a = &holderTurns{running: semaphore.NewWeighted(int64(running))}
		t.byHolder[holder] = a
	}
	if a.requests-a.idle >= running+maxWaiting {
		t.mu.Unlock()
		return turn{}, tooMany
	}
	a.requests++
	t.mu.Unlock()
	wait, cancel := context.WithTimeout(ctx, t.wait)
	defer cancel()
	if err := a.running.Acquire(wait, 1); err != nil {
		t.leave(holder, a, false)
		return turn{}, tooMany
	}
	return turn{turns: t, holder: holder, of: a}, nil
}

func (t *turns) leave(holder string, a *holderTurns, idle bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if idle {
		a.idle--
	}
	if a.requests--; a.requests == 0 {
		delete(t.byHolder, holder)
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
	t.turns.leave(t.holder, t.of, t.idle)
	*t = turn{}
}
