package autoscalinggroup

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// Passes wait for requests of their account, whose stacks make more of them: none holds a worker without an end, nor do
// those of a few accounts hold all.
func TestNoAccountHoldsTheWorkersOfGroups(t *testing.T) {
	t.Parallel()
	for _, o := range New(Options{Store: storetest.New(t)}).Controllers() {
		if o.AccountWorkers < 1 || 4*o.AccountWorkers > o.Workers || o.Timeout <= 0 {
			t.Errorf("%s has %d workers, %d for each account, and %s for a pass", o.Name, o.Workers, o.AccountWorkers,
				o.Timeout)
		}
	}
}
