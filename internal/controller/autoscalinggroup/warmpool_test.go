package autoscalinggroup

import (
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// User data run once: an instance that is stopped for its warm pool before their end never becomes a node.
func TestInstancesBootBeforeTheyAreStopped(t *testing.T) {
	t.Parallel()
	const initializing, ok, impaired = ec2types.SummaryStatusInitializing, ec2types.SummaryStatusOk,
		ec2types.SummaryStatusImpaired
	for _, c := range []struct {
		status   ec2types.SummaryStatus
		userData string
		booting  bool
	}{
		{initializing, "running", true}, {initializing, "", true}, {ok, "running", true}, {ok, "succeeded", false},
		{ok, "failed: exit status 1", false}, {ok, "", false}, {impaired, "", false},
	} {
		m := &member{machine: record.Machine{InstanceStatus: c.status, UserData: c.userData}}
		if m.isBooting() != c.booting {
			t.Errorf("status %s, user data %q: booting is %v", c.status, c.userData, m.isBooting())
		}
	}
}
