package logshipper

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// Passes wait for requests of their account, whose stacks make more of them: none holds a worker without an end, nor do
// those of a few accounts hold all.
func TestNoAccountHoldsTheWorkersOfLogs(t *testing.T) {
	t.Parallel()
	c := New(Options{Store: storetest.New(t)})
	defer c.Close() //nolint:errcheck // it watches nothing
	if o := c.Controller(); o.AccountWorkers < 1 || 4*o.AccountWorkers > o.Workers || o.Timeout <= 0 {
		t.Errorf("%d workers, %d for each account, and %s for a pass", o.Workers, o.AccountWorkers, o.Timeout)
	}
}
