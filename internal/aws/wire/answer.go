package wire

import (
	"context"
	"net/http"
	"sync"
)

// DefaultMaxAnswers is how much memory all large answers together may hold, in bytes, unless [Options] says otherwise.
// One account has at most a third of it.
const DefaultMaxAnswers = 1 << 30

// answer is what the answer to a request holds of what all answers may have, until its client has read it.
type answer struct {
	shares *shares[string]

	mu      sync.Mutex
	account string
	held    int64
}

// HoldAnswer takes memory for the answer to the request of ctx from what the answers to the caller's account, and to
// all, may have: for operations whose answers can be many MiB. The memory is given back when the client has read the
// answer. A handler takes all that it needs at once, before it has any of it. While others have too much it waits for
// them to end, and then fails with a ThrottlingException, after which SDKs try again.
func HoldAnswer(ctx context.Context, bytes int64) error {
	c := callFrom(ctx)
	if c.answer == nil {
		return nil
	}
	a := c.answer
	bytes = min(bytes, a.shares.each) // the largest answer goes alone
	wait, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	if err := a.shares.acquire(wait, c.caller.Account, bytes); err != nil {
		return &Error{
			Code: "ThrottlingException", Status: http.StatusBadRequest, Err: err,
			Message: "Rate exceeded: too many large answers are being read. Please try again, with fewer at a time or " +
				"smaller pages.",
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.account, a.held = c.caller.Account, a.held+bytes
	return nil
}

// release gives back what the answer holds.
func (a *answer) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held > 0 {
		a.shares.release(a.account, a.held)
		a.held = 0
	}
}
