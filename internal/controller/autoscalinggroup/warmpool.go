package autoscalinggroup

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The warm pool of a group has instances that were launched and then stopped, or left running, until the group grows:
// it starts those before it launches others. An instance goes through Warmed:Pending, with a wait for lifecycle hooks,
// into Warmed:Stopped or Warmed:Running, and from there into Pending as one that was launched; or through
// Warmed:Terminating, when the pool is too large.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/warm-pool-instance-lifecycle.html

// waitsInPool reports whether an instance is in the warm pool to stay, or on its way there.
func (m *member) waitsInPool() bool { return m.row.Warm() && !m.terminating() || m.row.ToPool }

// isReady reports whether an instance of the warm pool may serve now.
func (m *member) isReady() bool {
	return m.row.State == types.LifecycleStateWarmedStopped || m.row.State == types.LifecycleStateWarmedRunning
}

// poolCapacity returns what the warm pool has.
func (v *view) poolCapacity() int32 {
	var sum int32
	for _, m := range v.members {
		if m.waitsInPool() {
			sum += m.row.Weight
		}
	}
	return sum
}

// missingFromPool returns the capacity that the warm pool lacks. Launches that are decided upon are not in it yet, but
// none is when instances are chosen to go.
func (v *view) missingFromPool() int32 { return max(v.group.Warm()-v.poolCapacity(), 0) }

// drawFromWarmPool takes instances from the warm pool for as much as the group lacks.
func (c *Controller) drawFromWarmPool(ctx context.Context, v *view) error {
	need := v.targetCapacity() - v.capacity()
	if need <= 0 || v.group.Deleting || v.suspended("Launch") {
		return nil
	}
	zones := make(map[string]int)
	var ready []*member
	for _, m := range v.members {
		if m.isCounted() {
			zones[m.row.Zone]++
		}
		if m.isReady() && slices.Contains(v.group.Zones, m.row.Zone) {
			ready = append(ready, m)
		}
	}
	for need > 0 && len(ready) > 0 {
		slices.SortStableFunc(ready, func(a, b *member) int {
			return cmp.Compare(zones[a.row.Zone],
				zones[b.row.Zone])
		})
		m := ready[0]
		ready = ready[1:]
		now := c.now()
		activity := v.newActivity(now, "", m.row.ID, "Launching a new EC2 instance from warm pool: "+m.row.ID,
			v.because()+growing(now, v.capacity(), v.targetCapacity()), m.row.Zone, m.instance.SubnetID)
		activity.StatusCode, activity.Progress = types.ScalingActivityStatusCodePreInService, 30
		m.row.State, m.row.FromPool, m.row.ActivityID = types.LifecycleStatePending, true, activity.ID
		if err := c.putInstance(ctx, m, c.activities.PutOp(v.activityKey(activity.ID), activity)); err != nil {
			return err
		}
		zones[m.row.Zone]++
		need -= m.row.Weight
		if err := c.advanceInstance(ctx, v, m); err != nil {
			return fmt.Errorf("instance %s: %w", m.row.ID, err)
		}
		v.again = true
	}
	return nil
}

// startInstance starts a stopped instance that the group has taken from its warm pool.
func (c *Controller) startInstance(ctx context.Context, v *view, m *member) error {
	if m.state != ec2types.InstanceStateNameStopped {
		return nil // it cannot be started before it has stopped
	}
	_, err := v.client.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{m.row.ID}})
	if err == nil {
		m.state = ec2types.InstanceStateNamePending
		return nil
	}
	if apierror.Code(err) == "" {
		return fmt.Errorf("start it: %w", err)
	}
	if apierror.Code(err) == "IncorrectInstanceState" {
		return nil // it has been started, or terminated, since: its row says so in a moment
	}
	m.machine.FailureCode, m.machine.Failure = apierror.Code(err), apierror.Message(err)
	return c.launchFailed(ctx, v, m)
}

// enterWarmPool puts a launched instance, or one that was in service, into the state in which it waits.
func (c *Controller) enterWarmPool(ctx context.Context, v *view, m *member) error {
	switch m.state {
	case ec2types.InstanceStateNameTerminated, ec2types.InstanceStateNameShuttingDown:
		return c.launchFailed(ctx, v, m)
	}
	if m.row.State == types.LifecycleStateWarmedPending {
		if m.state != ec2types.InstanceStateNameRunning {
			return nil
		}
		m.row.State = types.LifecycleStateWarmedPendingProceed
		progress := types.ScalingActivityStatusCodeInProgress
		if m.row.Actions = c.actions(v, launching); len(m.row.Actions) > 0 {
			m.row.State, progress = types.LifecycleStateWarmedPendingWait,
				types.ScalingActivityStatusCodeMidLifecycleAction
		}
		ops, err := c.changeActivity(ctx, v, m, func(a *record.AutoScalingActivity) {
			a.StatusCode,
				a.Progress = progress, 30
		})
		if err != nil {
			return err
		}
		return c.putInstance(ctx, m, ops...)
	}
	if m.row.State == types.LifecycleStateWarmedPendingWait {
		switch c.outcome(v, m, abandon) {
		case "":
			return nil
		case abandon:
			return c.cancelLaunch(ctx, v, m,
				"Lifecycle action was abandoned: the instance did not get CONTINUE of its lifecycle hook.",
				record.AutoScalingRequest{
					At: c.now(), Cause: fmt.Sprintf(
						"At %s instance %s was taken out of the warm pool in response to a lifecycle hook that was "+
							"abandoned.", formatTime(c.now()), m.row.ID),
				})
		}
		m.row.State, m.row.Actions = types.LifecycleStateWarmedPendingProceed, nil
		return c.putInstance(ctx, m)
	}
	state := types.LifecycleStateWarmedRunning
	if v.group.WarmPool == nil || v.group.WarmPool.State != types.WarmPoolStateRunning {
		state = types.LifecycleStateWarmedStopped
		switch m.state {
		case ec2types.InstanceStateNameStopped:
		case ec2types.InstanceStateNameRunning:
			if m.isBooting() {
				return nil // its user data would not run again
			}
			_, err := v.client.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{m.row.ID}})
			if err != nil && apierror.Code(err) != "IncorrectInstanceState" {
				return fmt.Errorf("stop it: %w", err)
			}
			return nil
		default:
			return nil
		}
	} else if m.state != ec2types.InstanceStateNameRunning {
		return nil
	}
	ops, err := c.endActivity(ctx, v, m, types.ScalingActivityStatusCodeSuccessful, "")
	if err != nil {
		return err
	}
	m.row.State, m.row.ActivityID = state, ""
	if err := c.putInstance(ctx, m, ops...); err != nil {
		return err
	}
	v.again = true // the group may want it
	return c.launched(ctx, v)
}

// replaceUnhealthyWarm replaces an instance of the warm pool that has left the state in which it waits.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/warm-pools-health-checks-monitor-view-status.html
func (c *Controller) replaceUnhealthyWarm(ctx context.Context, v *view, m *member) error {
	expected := ec2types.InstanceStateNameStopped
	if m.row.State == types.LifecycleStateWarmedRunning {
		expected = ec2types.InstanceStateNameRunning
	}
	if m.state == expected || v.suspended("HealthCheck") || v.suspended("ReplaceUnhealthy") {
		return nil
	}
	m.row.Unhealthy = true
	return c.leavePool(ctx, v, m, fmt.Sprintf(
		"At %s an instance was taken out of the warm pool in response to an EC2 health check indicating it is %s "+
			"instead of %s.", formatTime(c.now()), m.state, expected))
}

// leavePool takes an instance out of the warm pool to have it terminated.
func (c *Controller) leavePool(ctx context.Context, v *view, m *member, cause string) error {
	var ops []store.Op
	var err error
	if m.row.ActivityID != "" {
		if ops, err = c.endActivity(ctx, v, m, types.ScalingActivityStatusCodeCancelled, ""); err != nil {
			return err
		}
	}
	return c.beginTermination(ctx, v, m, record.AutoScalingRequest{At: c.now(), Cause: cause}, ops...)
}

// fillWarmPool launches instances into the warm pool, once the group itself has what is desired.
func (c *Controller) fillWarmPool(ctx context.Context, v *view) error {
	need := v.missingFromPool()
	if need == 0 || v.capacity() < v.targetCapacity() || v.suspended("Launch") || c.resting(v) {
		return nil
	}
	now, have := c.now(), v.poolCapacity()
	_, err := c.launchInstances(ctx, v, need, true, func() string {
		return fmt.Sprintf(
			"At %s an instance was started in response to a difference between desired and actual capacity of the "+
				"warm pool, increasing its capacity from %d to %d.", formatTime(now), have, v.group.Warm())
	})
	return err
}

// coolDown terminates what the warm pool has beyond its size, and lets go of a pool that is being deleted when it is
// empty.
func (c *Controller) coolDown(ctx context.Context, v *view) error {
	pool := v.group.WarmPool
	if pool != nil && pool.Deleting && !v.group.Deleting && len(v.launches) == 0 && !slices.ContainsFunc(v.members,
		func(m *member) bool { return m.row.Warm() }) {
		return c.o.API.WarmPoolGone(ctx, v.group.Account, v.group.Region, v.group.Name)
	}
	excess := v.poolCapacity() - v.group.Warm()
	if excess <= 0 || v.suspended("Terminate") {
		return nil
	}
	var waiting []*member
	for _, m := range v.members {
		if m.row.Warm() && !m.terminating() {
			waiting = append(waiting, m)
		}
	}
	// Those that are not ready go first, then the oldest.
	slices.SortStableFunc(waiting, func(a, b *member) int {
		switch {
		case a.isReady() == b.isReady():
			return a.row.LaunchedAt.Compare(b.row.LaunchedAt)
		case b.isReady():
			return -1
		}
		return 1
	})
	now, have := c.now(), v.poolCapacity()
	for _, m := range waiting {
		if m.row.Weight > excess {
			continue
		}
		excess -= m.row.Weight
		if err := c.leavePool(ctx, v, m,
			fmt.Sprintf(
				"At %s an instance was taken out of the warm pool in response to a difference between desired and "+
					"actual capacity of the warm pool, shrinking its capacity from %d to %d.", formatTime(now), have,
				v.group.Warm())); err != nil {
			return err
		}
	}
	return nil
}

// returnToPool puts an instance that was scaled in into the warm pool instead of terminating it, unless there is no
// room for it any more.
func (c *Controller) returnToPool(ctx context.Context, v *view, m *member) (bool, error) {
	pool := v.group.WarmPool
	if pool == nil || pool.Deleting || v.group.Deleting || !m.isAlive() || v.poolCapacity() > v.group.Warm() {
		m.row.ToPool = false
		return false, c.putInstance(ctx, m)
	}
	ops, err := c.changeActivity(ctx, v, m, func(a *record.AutoScalingActivity) {
		a.StatusCode, a.Description = types.ScalingActivityStatusCodeInProgress, "Moving EC2 instance into warm pool: "+
			m.row.ID
	})
	if err != nil {
		return false, err
	}
	m.row.ToPool, m.row.State, m.row.Protected = false, types.LifecycleStateWarmedPendingProceed, false
	if err := c.putInstance(ctx, m, ops...); err != nil {
		return false, err
	}
	v.again = true
	return true, nil
}

// isBooting reports whether a running instance has not ended its user data.
func (m *member) isBooting() bool {
	return m.machine.InstanceStatus == ec2types.SummaryStatusInitializing || m.machine.UserData == "running"
}
