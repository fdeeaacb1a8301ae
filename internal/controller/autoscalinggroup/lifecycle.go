package autoscalinggroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	launching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
	terminating = "autoscaling:EC2_INSTANCE_TERMINATING"

	proceed = "CONTINUE"
	abandon = "ABANDON"
)

// longestWait is the maximum duration of a lifecycle action, whatever heartbeats there are: 48 hours, or 100 heartbeat
// timeouts if that is less.
const longestWait = 48 * time.Hour

// attachInstances makes instances members that a user has said are to be.
func (c *Controller) attachInstances(ctx context.Context, v *view) error {
	for _, a := range v.attaches {
		m := &member{key: a.key, order: a.order}
		if err := c.loadInstance(ctx, m); err != nil {
			return err
		}
		r := a.order.Attach
		id := m.instance.ID
		if !m.isAlive() { // it has gone since
			if err := c.store.Txn(ctx, c.orders.RemoveOp(a.key)); err != nil {
				return err
			}
			continue
		}
		now := c.now()
		m.row = record.AutoScalingInstance{
			ID: id, GroupName: v.group.Name, GroupID: v.group.ID, InstanceType: string(m.instance.InstanceType),
			ImageID: m.instance.ImageID,
			Zone:    m.instance.AvailabilityZone, State: types.LifecycleStateInService, Weight: 1,
			Protected: v.group.ProtectNew,
			Spot:      m.instance.Lifecycle == ec2types.InstanceLifecycleTypeSpot, LaunchedAt: m.instance.CreatedAt,
			InServiceAt: now,
		}
		if t := m.instance.LaunchTemplateID; t != "" {
			m.row.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateId: &t,
				Version: new(m.instance.LaunchTemplateVersion)}
		}
		if _, err := v.client.CreateTags(ctx, &ec2.CreateTagsInput{
			Resources: []string{id}, Tags: []ec2types.Tag{{Key: aws.String(groupTag), Value: &v.group.Name}},
		}); err != nil {
			return fmt.Errorf("tag instance %s: %w", id, err)
		}
		activity := v.newActivity(r.At, r.ActivityID, id, "Attaching an existing EC2 instance: "+id, r.Cause,
			m.row.Zone, m.instance.SubnetID)
		activity.StatusCode, activity.EndTime, activity.Progress = types.ScalingActivityStatusCodeSuccessful, now, 100
		if err := c.putInstance(ctx, m, c.activities.PutOp(v.activityKey(activity.ID), activity)); err != nil {
			return err
		}
		v.members = append(v.members, m)
	}
	v.attaches = nil
	return nil
}

// advance moves each instance one or more states along, as far as EC2, its hooks and what users want of it let it.
func (c *Controller) advance(ctx context.Context, v *view) error {
	for _, m := range slices.Clone(v.members) {
		for range 8 { // states in a row, at most
			before := m.row.State
			if err := c.advanceInstance(ctx, v, m); err != nil {
				return fmt.Errorf("instance %s: %w", m.row.ID, err)
			}
			if m.row.State == before {
				break
			}
		}
	}
	return nil
}

// advanceInstance moves an instance from one state into the next, if it is time.
func (c *Controller) advanceInstance(ctx context.Context, v *view, m *member) error {
	switch m.row.State {
	case types.LifecycleStatePending, types.LifecycleStatePendingWait, types.LifecycleStatePendingProceed:
		switch {
		case m.order.Terminate != nil:
			return c.cancelLaunch(ctx, v, m, "", *m.order.Terminate)
		case m.row.FromPool && (m.state == ec2types.InstanceStateNameStopped ||
			m.state == ec2types.InstanceStateNameStopping):
			return c.startInstance(ctx, v, m)
		case !m.isAlive():
			return c.launchFailed(ctx, v, m)
		}
		return c.enterService(ctx, v, m)
	case types.LifecycleStateWarmedPending, types.LifecycleStateWarmedPendingWait,
		types.LifecycleStateWarmedPendingProceed:
		return c.enterWarmPool(ctx, v, m)
	case types.LifecycleStateWarmedStopped, types.LifecycleStateWarmedRunning:
		return c.replaceUnhealthyWarm(ctx, v, m)
	case types.LifecycleStateWarmedTerminatingWait:
		return c.leaveWait(ctx, v, m)
	case types.LifecycleStateInService, types.LifecycleStateStandby:
		switch {
		case m.order.Terminate != nil:
			return c.beginTermination(ctx, v, m, *m.order.Terminate)
		case m.order.Detach != nil:
			return c.detachInstance(ctx, v, m)
		case m.row.State == types.LifecycleStateStandby && !m.isAlive() &&
			m.state != ec2types.InstanceStateNameStopped &&
			m.state != ec2types.InstanceStateNameStopping:
			now := c.now()
			return c.beginTermination(ctx, v, m, record.AutoScalingRequest{At: now,
				Cause: unhealthy(now, terminatedOrStopped)})
		case m.order.StandbyBy != nil && m.order.Standby != (m.row.State == types.LifecycleStateStandby):
			return c.moveStandby(ctx, v, m)
		}
	case types.LifecycleStateEnteringStandby, types.LifecycleStateDetaching:
		return c.drainConnections(ctx, v, m)
	case types.LifecycleStateTerminating:
		if m.row.Draining {
			return c.drainConnections(ctx, v, m)
		}
	case types.LifecycleStateTerminatingWait:
		return c.leaveWait(ctx, v, m)
	}
	return nil
}

// enterService puts a launched instance into service once it runs and its hooks allow it.
func (c *Controller) enterService(ctx context.Context, v *view, m *member) error {
	if m.row.State == types.LifecycleStatePending {
		if m.state != ec2types.InstanceStateNameRunning {
			return nil
		}
		if actions := c.actions(v, launching); len(actions) > 0 {
			m.row.State, m.row.Actions = types.LifecycleStatePendingWait, actions
			ops, err := c.changeActivity(ctx, v, m, func(a *record.AutoScalingActivity) {
				a.StatusCode, a.Progress = types.ScalingActivityStatusCodeMidLifecycleAction, 30
			})
			if err != nil {
				return err
			}
			return c.putInstance(ctx, m, ops...)
		}
	}
	if m.row.State == types.LifecycleStatePendingWait {
		switch c.outcome(v, m, abandon) {
		case "":
			return nil
		case abandon:
			return c.cancelLaunch(ctx, v, m,
				"Lifecycle action was abandoned: the instance did not get CONTINUE of its lifecycle hook.",
				record.AutoScalingRequest{
					At: c.now(), Cause: fmt.Sprintf(
						"At %s instance %s was taken out of service in response to a lifecycle hook that was abandoned.", formatTime(c.now()), m.row.ID),
				})
		}
		m.row.State, m.row.Actions = types.LifecycleStatePendingProceed, nil
	}
	if err := c.registerMember(ctx, v, m); isRefusal(err) {
		c.recordFailure(v, "")
		if err := c.putStatus(ctx, v); err != nil {
			return err
		}
		now := c.now()
		return c.cancelLaunch(ctx, v, m, refusal(err), record.AutoScalingRequest{At: now,
			Cause: unhealthy(now, "a load balancer configuration that could not be updated")})
	} else if err != nil {
		return err
	}
	m.row.State, m.row.InServiceAt, m.row.FromPool = types.LifecycleStateInService, c.now(), false
	ops, err := c.endActivity(ctx, v, m, types.ScalingActivityStatusCodeSuccessful, "")
	if err != nil {
		return err
	}
	m.row.ActivityID = ""
	if err := c.putInstance(ctx, m, ops...); err != nil {
		return err
	}
	return c.launched(ctx, v)
}

// actions returns the lifecycle actions that an instance begins to wait for.
func (c *Controller) actions(v *view, transition string) []record.AutoScalingAction {
	var actions []record.AutoScalingAction
	for _, h := range v.group.Hooks {
		if h.Transition == transition {
			now := c.now()
			actions = append(actions, record.AutoScalingAction{
				Hook: h.Name, Token: uuid.NewString(), StartedAt: now,
				Deadline: now.Add(time.Duration(h.HeartbeatTimeout) * time.Second), DefaultResult: h.DefaultResult,
			})
		}
	}
	return actions
}

// outcome returns what an instance's actions came to: "CONTINUE" when all did, "ABANDON" when one did, "" while it
// waits. An action whose hook was deleted comes to orphaned.
func (c *Controller) outcome(v *view, m *member, orphaned string) string {
	now := c.now()
	waiting := false
	for _, a := range m.row.Actions {
		result := m.order.Actions[a.Token]
		i := slices.IndexFunc(v.group.Hooks, func(h record.AutoScalingHook) bool { return h.Name == a.Hook })
		switch {
		case result != "":
		case i < 0:
			result = orphaned
		default:
			timeout := time.Duration(v.group.Hooks[i].HeartbeatTimeout) * time.Second
			deadline := a.Deadline
			if beat := m.order.Heartbeats[a.Token]; !beat.IsZero() {
				deadline = beat.Add(timeout)
			}
			if last := a.StartedAt.Add(min(longestWait, 100*timeout)); deadline.After(last) {
				deadline = last
			}
			if now.Before(deadline) {
				waiting = true
				v.wakeAt(deadline)
				continue
			}
			result = a.DefaultResult
		}
		if result == abandon {
			return abandon
		}
	}
	if waiting {
		return ""
	}
	return proceed
}

// launchFailed ends the launch of an instance that EC2 took away, or never brought up.
func (c *Controller) launchFailed(ctx context.Context, v *view, m *member) error {
	reason := m.machine.Failure
	if m.machine.FailureCode != "" {
		reason = m.machine.FailureCode + ": " + reason
	} else if m.instance.StateReasonCode != "" {
		reason = m.instance.StateReasonCode + ": " + m.instance.StateReasonMessage
	}
	if reason == "" {
		reason = "the instance is " + string(m.state)
	}
	message := "Instance became unhealthy while waiting for instance to be in InService state. Termination Reason: " +
		reason
	ops, err := c.endActivity(ctx, v, m, types.ScalingActivityStatusCodeFailed, message)
	if err != nil {
		return err
	}
	m.row.ActivityID, m.row.Actions, m.row.Unhealthy = "", nil, true
	m.row.Draining = len(m.row.Traffic) > 0
	if m.row.Warm() {
		m.row.State = types.LifecycleStateWarmedTerminating
	} else {
		m.row.State = types.LifecycleStateTerminating
	}
	if m.machine.FailureCode != "" { // not something that a user has done: the next may fail as well
		c.recordFailure(v, "")
		ops = append(ops, c.statuses.PutOp(v.key, v.status))
	}
	return c.putInstance(ctx, m, ops...)
}

// cancelLaunch terminates an instance on its way into service.
func (c *Controller) cancelLaunch(ctx context.Context, v *view, m *member, message string,
	why record.AutoScalingRequest) error {
	code := types.ScalingActivityStatusCodeCancelled
	if message != "" {
		code = types.ScalingActivityStatusCodeFailed
	}
	ops, err := c.endActivity(ctx, v, m, code, message)
	if err != nil {
		return err
	}
	m.row.ActivityID, m.row.Actions = "", nil
	return c.beginTermination(ctx, v, m, why, ops...)
}

// beginTermination takes an instance out of service: its connections drain, it waits for its hooks, if it has any, and
// is terminated then.
func (c *Controller) beginTermination(ctx context.Context, v *view, m *member, why record.AutoScalingRequest,
	also ...store.Op) error {
	activity := v.newActivity(why.At, why.ActivityID, m.row.ID, "Terminating EC2 instance: "+m.row.ID, why.Cause,
		m.row.Zone, m.instance.SubnetID)
	warm := m.row.Warm()
	m.row.ActivityID, m.row.State = activity.ID, types.LifecycleStateTerminating
	if warm {
		m.row.State = types.LifecycleStateWarmedTerminating
	}
	m.row.Actions = nil
	if len(m.row.Traffic) > 0 {
		m.row.Draining, activity.StatusCode = true, types.ScalingActivityStatusCodeWaitingForELBConnectionDraining
	} else {
		activity.StatusCode = c.beginHooks(v, m)
	}
	return c.putInstance(ctx, m, append(also, c.activities.PutOp(v.activityKey(activity.ID), activity))...)
}

// beginHooks has a member that is Terminating wait for its hooks, if it has any, and returns the status of the activity
// then.
func (c *Controller) beginHooks(v *view, m *member) types.ScalingActivityStatusCode {
	warm := m.row.Warm()
	if !v.group.Deleting && !(warm && v.group.WarmPool != nil && v.group.WarmPool.Force) {
		m.row.Actions = c.actions(v, terminating)
	}
	if len(m.row.Actions) == 0 {
		return types.ScalingActivityStatusCodeInProgress
	}
	if m.row.State = types.LifecycleStateTerminatingWait; warm {
		m.row.State = types.LifecycleStateWarmedTerminatingWait
	}
	return types.ScalingActivityStatusCodeMidLifecycleAction
}

// waitForHooks has a member whose connections have drained wait for its hooks.
func (c *Controller) waitForHooks(ctx context.Context, v *view, m *member) error {
	m.row.Draining = false
	code := c.beginHooks(v, m)
	ops, err := c.changeActivity(ctx, v, m, func(a *record.AutoScalingActivity) { a.StatusCode = code })
	if err != nil {
		return err
	}
	return c.putInstance(ctx, m, ops...)
}

// leaveWait lets an instance be terminated once its hooks are done with it. Whatever they say, it goes.
func (c *Controller) leaveWait(ctx context.Context, v *view, m *member) error {
	forced := v.group.Deleting || m.row.Warm() && v.group.WarmPool != nil && v.group.WarmPool.Force
	if !forced && c.outcome(v, m, proceed) == "" {
		return nil
	}
	if m.row.Actions = nil; m.row.Warm() {
		m.row.State = types.LifecycleStateWarmedTerminatingProceed
	} else {
		m.row.State = types.LifecycleStateTerminatingProceed
	}
	ops, err := c.changeActivity(ctx, v, m, func(a *record.AutoScalingActivity) {
		a.StatusCode = types.ScalingActivityStatusCodeInProgress
	})
	if err != nil {
		return err
	}
	return c.putInstance(ctx, m, ops...)
}

// takeDown terminates the instances that are out of service, and lets go of those that EC2 has terminated.
func (c *Controller) takeDown(ctx context.Context, v *view) error {
	var ids []string
	for _, m := range slices.Clone(v.members) {
		switch m.row.State {
		case types.LifecycleStateTerminating, types.LifecycleStateTerminatingProceed,
			types.LifecycleStateWarmedTerminating, types.LifecycleStateWarmedTerminatingProceed:
		default:
			continue
		}
		if m.row.Draining {
			continue
		}
		if m.row.ToPool {
			returned, err := c.returnToPool(ctx, v, m)
			if err != nil {
				return err
			}
			if returned {
				continue
			}
		}
		switch m.state {
		case ec2types.InstanceStateNameTerminated:
			ops, err := c.endActivity(ctx, v, m, types.ScalingActivityStatusCodeSuccessful, "")
			if err != nil {
				return err
			}
			if err := c.removeInstance(ctx, v, m, ops...); err != nil {
				return err
			}
		case ec2types.InstanceStateNameShuttingDown:
		default:
			ids = append(ids, m.row.ID)
		}
	}
	for some := range slices.Chunk(ids, 100) {
		if err := c.terminate(ctx, v, some); err != nil {
			return err
		}
	}
	return nil
}

// terminate asks EC2 to terminate instances: together, or one by one when that fails because of one of them.
func (c *Controller) terminate(ctx context.Context, v *view, ids []string) error {
	_, err := v.client.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	if err == nil || apierror.Code(err) == "InvalidInstanceID.NotFound" && len(ids) == 1 {
		return nil
	}
	if len(ids) == 1 {
		return fmt.Errorf("terminate instance %s: %w", ids[0], err)
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, c.terminate(ctx, v, []string{id}))
	}
	return errors.Join(errs...)
}

// removeInstance removes an instance from its group.
func (c *Controller) removeInstance(ctx context.Context, v *view, m *member, also ...store.Op) error {
	err := c.store.Txn(ctx, append(also, c.members.RemoveOp(m.key), c.orders.RemoveOp(m.key))...)
	if err == nil {
		v.removeMember(m)
		v.again = true // its rows are gone, so nobody else will say that something has changed
	}
	return err
}

// detachInstance lets an instance go on running without the group.
func (c *Controller) detachInstance(ctx context.Context, v *view, m *member) error {
	if len(m.row.Traffic) > 0 { // its connections drain first
		m.row.State = types.LifecycleStateDetaching
		return c.putInstance(ctx, m)
	}
	if m.isAlive() {
		_, err := v.client.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{m.row.ID},
			Tags: []ec2types.Tag{{Key: aws.String(groupTag)}}})
		if err != nil && apierror.Code(err) != "InvalidInstanceID.NotFound" {
			return fmt.Errorf("untag it: %w", err)
		}
	}
	r := m.order.Detach
	activity := v.newActivity(r.At, r.ActivityID, m.row.ID, "Detaching EC2 instance: "+m.row.ID, r.Cause, m.row.Zone,
		m.instance.SubnetID)
	activity.StatusCode, activity.EndTime, activity.Progress = types.ScalingActivityStatusCodeSuccessful, c.now(), 100
	return c.removeInstance(ctx, v, m, c.activities.PutOp(v.activityKey(activity.ID), activity))
}

// moveStandby puts an instance into standby, or into service again.
func (c *Controller) moveStandby(ctx context.Context, v *view, m *member) error {
	if len(m.row.Traffic) > 0 { // its connections drain first
		m.row.State = types.LifecycleStateEnteringStandby
		return c.putInstance(ctx, m)
	}
	r := m.order.StandbyBy
	description := "Moving EC2 instance out of Standby: "
	m.row.State = types.LifecycleStateInService
	if m.order.Standby {
		description, m.row.State = "Moving EC2 instance to Standby: ", types.LifecycleStateStandby
	} else {
		m.row.InServiceAt = c.now()
	}
	activity := v.newActivity(r.At, r.ActivityID, m.row.ID, description+m.row.ID, r.Cause, m.row.Zone,
		m.instance.SubnetID)
	activity.StatusCode, activity.EndTime, activity.Progress = types.ScalingActivityStatusCodeSuccessful, c.now(), 100
	return c.putInstance(ctx, m, c.activities.PutOp(v.activityKey(activity.ID), activity))
}
