//go:build linux

package metadata

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// Programs that boot in a warm pool learn from it that they are not to serve yet.
func TestTheStateThatAWarmPoolIsAbout(t *testing.T) {
	t.Parallel()
	for state, want := range map[types.LifecycleState]string{
		"Warmed:Pending": "Warmed:Running", "Warmed:Pending:Wait": "Warmed:Running", "Warmed:Stopped": "Warmed:Stopped",
		"Warmed:Terminating:Wait": "Warmed:Terminated",
	} {
		if got := warmTarget(record.AutoScalingInstance{State: state}, "Running"); got != want {
			t.Errorf("%s leads to %s, want %s", state, got, want)
		}
	}
	if got := warmTarget(record.AutoScalingInstance{State: types.LifecycleStateTerminatingWait, ToPool: true},
		"Stopped"); got != "Warmed:Stopped" {
		t.Errorf("an instance that returns to its pool goes to %s", got)
	}
}
