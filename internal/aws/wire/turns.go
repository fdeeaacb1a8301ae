package wire

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/coracle-eks/coracle/internal/turn"
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
	each     int           // requests of an account
	wait     time.Duration // for others of the account
	accounts *turn.Places
	sources  *turn.Places // of requests that are not signed, by the address
	idle     *turn.Places // of requests that have given up their turn, by account
}

// requestTurn is the turn of a request. The zero value is of a request that needs none.
type requestTurn struct {
	turns   *turns
	holder  string
	release func() // gives the place back; nil without one
	idle    func() // ends the idle time; nil before
}

func newTurns(each int, wait time.Duration) turns {
	return turns{each: each, wait: wait, accounts: turn.EachWaiting(int64(each), maxWaiting),
		sources: turn.EachWaiting(maxUnsignedRunning, maxWaiting), idle: turn.Each(maxIdle)}
}

// begin waits until few enough requests of an account are carried out, or of a source when they are of no account. The
// turn is to be ended when the client has read the answer.
func (t *turns) begin(ctx context.Context, account string, source netip.Addr) (requestTurn, error) {
	places, holder, running, whose := t.accounts, account, t.each, "of account "+account
	if account == "" {
		places, holder, running, whose = t.sources, source.String(), maxUnsignedRunning, "that are not signed"
	}
	wait, cancel := context.WithTimeout(ctx, t.wait)
	defer cancel()
	_, release, err := places.Acquire(wait, holder)
	if errors.Is(err, turn.ErrHeld) {
		return requestTurn{}, err
	}
	if err != nil {
		return requestTurn{}, &throttledError{fmt.Sprintf("Rate exceeded: %d requests %s are being carried out. Please try "+
			"again, with fewer at a time.", running, whose)}
	}
	return requestTurn{turns: t, holder: holder, release: release}, nil
}

// yield lets another request have the turn, for good. It reports false, and does not, when too many of the account have
// done so already.
func (t *requestTurn) yield() bool {
	if t.release == nil || t.idle != nil {
		return true
	}
	idle, ok := t.turns.idle.TryAcquire(t.holder)
	if ok {
		t.idle = idle
		t.release()
	}
	return ok
}

// end ends the turn.
func (t *requestTurn) end() {
	if t.release != nil {
		t.release()
	}
	if t.idle != nil {
		t.idle()
	}
	*t = requestTurn{}
}
