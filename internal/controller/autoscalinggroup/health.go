package autoscalinggroup

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

const (
	terminatedOrStopped = "an EC2 health check indicating it has been terminated or stopped"
	statusChecks        = "an EC2 instance status checks failure"
	userCheck           = "a user health-check"
	balancerCheck       = "an ELB system health check failure"
)

// checkHealth finds instances that are ill, and has them replaced.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-health-checks.html
func (c *Controller) checkHealth(ctx context.Context, v *view) error {
	for _, m := range v.members {
		if !m.inService() {
			continue
		}
		why := c.illness(v, m)
		if ill := why != ""; ill != m.row.Unhealthy {
			m.row.Unhealthy = ill
			if err := c.putInstance(ctx, m); err != nil {
				return err
			}
		}
		if why == "" || v.suspended("ReplaceUnhealthy") || v.suspended("Terminate") {
			continue
		}
		now := c.now()
		if err := c.beginTermination(ctx, v, m, record.AutoScalingRequest{At: now,
			Cause: unhealthy(now, why)}); err != nil {
			return err
		}
		v.replacing++
	}
	return c.endLives(ctx, v)
}

// illness returns what an instance has, or nothing. EC2's checks do not count while they are suspended, nor what may
// pass within the grace period; that an instance is not there any more counts at once.
func (c *Controller) illness(v *view, m *member) string {
	now := c.now()
	grace := m.row.InServiceAt.Add(time.Duration(v.group.HealthCheckGracePeriod) * time.Second)
	inGrace := now.Before(grace)
	if m.order.HealthAt.After(m.row.InServiceAt) || m.order.HealthAt.Equal(m.row.InServiceAt) {
		switch {
		case m.order.Health != "Unhealthy":
		case inGrace && m.order.HealthAfterGrace:
			v.wakeAt(grace)
		default:
			return userCheck
		}
	}
	if v.suspended("HealthCheck") {
		return ""
	}
	if !m.isAlive() {
		return terminatedOrStopped
	}
	if m.machine.SystemStatus == ec2types.SummaryStatusImpaired ||
		m.machine.InstanceStatus == ec2types.SummaryStatusImpaired {
		if inGrace {
			v.wakeAt(grace)
			return ""
		}
		return statusChecks
	}
	if c.illBehind(v, m) {
		if inGrace {
			v.wakeAt(grace)
			return ""
		}
		return balancerCheck
	}
	return ""
}

// endLives replaces an instance that has lived as long as it may, one at a time.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/asg-max-instance-lifetime.html
func (c *Controller) endLives(ctx context.Context, v *view) error {
	if v.group.MaxInstanceLifetime == 0 || v.suspended("Terminate") {
		return nil
	}
	now := c.now()
	for _, m := range v.members {
		if m.row.State == types.LifecycleStateStandby || m.terminating() {
			continue
		}
		end := m.row.LaunchedAt.Add(time.Duration(v.group.MaxInstanceLifetime) * time.Second)
		if now.Before(end) {
			v.wakeAt(end)
			continue
		}
		if m.inService() && v.isStable() && !m.protected() && v.capacity() >= v.group.Desired {
			return c.beginTermination(ctx, v, m, record.AutoScalingRequest{At: now,
				Cause: unhealthy(now, "MaxInstanceLifetime")})
		}
	}
	return nil
}
