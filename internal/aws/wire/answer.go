package wire

import (
	"context"
	"sync"

	"github.com/coracle-eks/coracle/internal/store"
)

// DefaultMaxAnswers limits the memory of all large answers together, in bytes, unless [Options] says otherwise.
// One account has at most a third of it, and no more than it leaves to others.
const DefaultMaxAnswers = 1 << 30

const (
	// freeRead is the number of bytes that each request may read from the store before they count toward its answer.
	freeRead = 1 << 20
	// freeAnswer is the size in bytes from which an answer holds memory until its client has read it.
	freeAnswer = 64 << 10
)

// answer accounts for the memory that one answer holds, of that of all answers, until its client has read it.
type answer struct {
	shares *shares[string]
	// part is set for a request in this process that another one makes, or a webhook: whose work it is has a turn already,
	// and is charged for what both read, or is bounded. It waits for no turn of its own, whoever signed it: nobody who
	// has a turn waits for one of another account.
	part bool

	mu      sync.Mutex
	account string
	held    int64
	read    int64 // of the store
	turn    requestTurn
}

// newAnswer returns what accounts for the answer to a request. The daemon's own requests have memory apart from those
// of users, so that controllers do not wait for users. Each account has its share of that, too: users choose how many
// stacks there are, and what these read.
func (m *Mux) newAnswer(ctx context.Context) *answer {
	if !IsInProcess(ctx) {
		return &answer{shares: m.answers}
	}
	if outer := callFrom(ctx).answer; outer != nil {
		return &answer{shares: outer.shares, part: true}
	}
	return &answer{shares: m.ownAnswers, part: store.IsMetered(ctx)}
}

// HoldAnswer takes memory for the answer to the request of ctx from what the answers to the caller's account, and to
// all, may have: for operations whose answers can be many MiB. The memory is given back when the client has read the
// answer. A handler takes all that it needs at once, before it has any of it. While others have too much it waits for
// them to end, and then fails with the service's code for throttling, after which SDKs try again.
func HoldAnswer(ctx context.Context, bytes int64) error {
	c := callFrom(ctx)
	if c.answer == nil {
		return nil
	}
	return c.answer.hold(ctx, c.caller.Account, bytes)
}

// Yield gives up the turn of the request of ctx; turns bound how many requests of an account are carried out at a time.
// It is for operations that wait for something and do little afterwards. It reports false, and the operation should not
// wait, when too many of the account wait already.
func Yield(ctx context.Context) bool {
	a := callFrom(ctx).answer
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.turn.yield()
}

// hold takes memory for what the answer holds beyond what it has.
func (a *answer) hold(ctx context.Context, account string, bytes int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	bytes = min(bytes, a.shares.each-a.held) // the largest answer goes alone
	if bytes <= 0 {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	if err := a.shares.acquire(wait, account, bytes); err != nil {
		return &throttledError{"Rate exceeded: too many large answers are being read. Please try again, with fewer at " +
			"a time or smaller pages."}
	}
	a.account, a.held = account, a.held+bytes
	return nil
}

// chargeRead charges what a request reads of the store, in bytes, to its answer: whatever the operation is, what it
// makes of the rows is of the order of their size. The first freeRead are free.
func (a *answer) chargeRead(ctx context.Context, account string, bytes int64) error {
	a.mu.Lock()
	before := max(a.read, freeRead)
	a.read += bytes
	over := a.read - before
	a.mu.Unlock()
	if over <= 0 {
		return nil
	}
	return a.hold(ctx, account, over)
}

// release gives back what the answer holds, and ends the turn of its request. A stream releases it with each event that
// has been written: what is read for the next one counts anew.
func (a *answer) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn.end()
	a.read = 0
	a.giveBackHeld()
}

// giveBack gives back what is held so far. The request goes on.
func (a *answer) giveBack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.giveBackHeld()
}

// giveBackHeld is giveBack, called with mu held.
func (a *answer) giveBackHeld() {
	if a.held > 0 {
		a.shares.release(a.account, a.held)
		a.held = 0
	}
}
