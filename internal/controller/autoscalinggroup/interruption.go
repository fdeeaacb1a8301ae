package autoscalinggroup

import (
	"context"
	"fmt"
	"time"

	"github.com/coracle-eks/coracle/internal/record"
)

// A group with capacity rebalancing replaces a spot instance that EC2 is about to interrupt before it does: it launches
// another first, beyond what is desired, and terminates the instance, through its lifecycle hooks, once that is in
// service. Without it, an instance is replaced when it is gone.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-capacity-rebalancing.html

// isAtRisk reports whether an instance that serves is about to be interrupted. EC2 gives its recommendation to
// rebalance with the notice.
func (v *view) isAtRisk(m *member) bool {
	return v.group.CapacityRebalance && m.inService() && m.row.Spot && !m.instance.SpotInterruption.IsZero()
}

// replacements returns the capacity that is launched ahead of interruptions. With it a group may exceed its maximum by
// a tenth of what is desired.
func (v *view) replacements() int32 {
	var sum int32
	for _, m := range v.members {
		if v.isAtRisk(m) {
			sum += m.row.Weight
		}
	}
	if sum == 0 {
		return 0
	}
	most := max(v.group.Max, v.group.Desired) + max(v.group.Desired/10, 1)
	return max(min(sum, most-v.group.Desired), 0)
}

// replaceInterrupted terminates instances that are about to be interrupted and whose replacements serve.
func (c *Controller) replaceInterrupted(ctx context.Context, v *view) error {
	if v.group.Deleting || v.suspended("Terminate") {
		return nil
	}
	var serving int32
	for _, m := range v.members {
		if m.inService() {
			serving += m.row.Weight
		}
	}
	for _, m := range v.members {
		if !v.isAtRisk(m) || serving-m.row.Weight < v.group.Desired {
			continue
		}
		now := c.now()
		serving -= m.row.Weight
		if err := c.beginTermination(ctx, v, m, record.AutoScalingRequest{At: now,
			Cause: unhealthy(now, "an EC2 instance rebalance recommendation")}); err != nil {
			return err
		}
	}
	return nil
}

// rebalanceCause returns why an instance is launched before another is interrupted.
func rebalanceCause(now time.Time) string {
	return fmt.Sprintf("At %s an instance was launched in response to an EC2 instance rebalance recommendation.",
		formatTime(now))
}
