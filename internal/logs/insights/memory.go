package insights

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/dustin/go-humanize"
)

// DefaultMemory limits the memory of all workers of a plan unless Options.Memory says otherwise, in bytes.
const DefaultMemory = 128 << 20

// ErrMemory is wrapped by the errors of Push and Finish when a query would hold more than Options.Memory. Their text
// says which command holds it and what to do.
var ErrMemory = errors.New("the query needs too much memory")

// ErrStopped is returned by Push and Finish once Options.Done is closed.
var ErrStopped = errors.New("the query was stopped")

// budget is the memory that all workers of a plan share.
type budget struct {
	limit int64
	used  atomic.Int64
}

// account is one holder's part of a budget. It tells the budget only about changes that matter, so that workers don't
// meet at every row.
type account struct {
	budget  *budget
	pending int64
	held    int64
	command string // who holds it, for the error
	advice  string
}

// reserve adds bytes to the account, or with a negative number gives them back.
func (a *account) reserve(bytes int) error {
	a.pending += int64(bytes)
	if step := min(a.budget.limit/64, 64<<10); -step < a.pending && a.pending < step {
		return nil
	}
	a.held += a.pending
	used := a.budget.used.Add(a.pending)
	more := a.pending > 0
	a.pending = 0
	if more && used > a.budget.limit {
		return fmt.Errorf("%s holds more than the %s that a query may take: %s: %w", a.command,
			humanize.IBytes(uint64(a.budget.limit)), a.advice, ErrMemory)
	}
	return nil
}

// release gives everything back.
func (a *account) release() {
	a.budget.used.Add(-a.held)
	a.held, a.pending = 0, 0
}
