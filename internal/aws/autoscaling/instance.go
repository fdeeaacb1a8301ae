package autoscaling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const maxInstances = 20 // of one request about instances

// getMember returns an instance of a group, as memberRecord does.
func (s *Service) getMember(ctx context.Context, id string) (record.AutoScalingInstance, error) {
	row, err := s.memberRecord(ctx, id)
	return row.Value, err
}

// memberRecord returns the record of an instance of a group, and a noInstance error if it is in none.
func (s *Service) memberRecord(ctx context.Context, id string) (store.Row[record.AutoScalingInstance], error) {
	row, err := s.instances.Get(ctx, scopeOf(ctx).instanceKey(id))
	if errors.Is(err, store.ErrNotFound) {
		return row, noInstance(id)
	}
	return row, err
}

// memberOf returns an instance of that group.
func (s *Service) memberOf(ctx context.Context, g record.AutoScalingGroup,
	id string) (store.Row[record.AutoScalingInstance], error) {
	row, err := s.memberRecord(ctx, id)
	if err != nil || row.Value.GroupID != g.ID {
		return row, validation("The instance %s is not part of Auto Scaling group %s.", id, g.Name)
	}
	return row, nil
}

// updateOrderOp returns the op that edits what is wanted of an instance.
func (s *Service) updateOrderOp(ctx context.Context, groupName, groupID, instance string,
	edit func(*record.AutoScalingOrder)) (store.Op, error) {
	key := scopeOf(ctx).instanceKey(instance)
	row, err := s.orders.Copy(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		fresh := record.AutoScalingOrder{GroupName: groupName, GroupID: groupID}
		edit(&fresh)
		return s.orders.CreateOp(key, fresh), nil
	case err != nil:
		return store.Op{}, err
	case row.Value.GroupID != groupID:
		row.Value = record.AutoScalingOrder{GroupName: groupName, GroupID: groupID} // of a group that it was in before
	}
	edit(&row.Value)
	return s.orders.UpdateOp(row), nil
}

// command edits what is wanted of an instance of a group, when the group itself stays as it is.
func (s *Service) command(ctx context.Context, id string, check func(record.AutoScalingInstance) error,
	edit func(*record.AutoScalingOrder)) error {
	for {
		row, err := s.memberRecord(ctx, id)
		if err != nil {
			return err
		}
		i := row.Value
		if err := check(i); err != nil {
			return err
		}
		op, err := s.updateOrderOp(ctx, i.GroupName, i.GroupID, id, edit)
		if err != nil {
			return err
		}
		err = s.store.Txn(ctx, op, s.instances.CheckOp(row))
		if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound) {
			continue
		}
		return err
	}
}

// startedActivity returns the activity that a request about an instance answers with. The controller records it under
// the same ID when it carries the request out.
func startedActivity(g record.AutoScalingGroup, r record.AutoScalingRequest, description, zone string) types.Activity {
	details, err := json.Marshal(map[string]string{"Availability Zone": zone})
	if err != nil {
		panic(err) // two strings
	}
	return types.Activity{
		ActivityId: &r.ActivityID, AutoScalingGroupName: &g.Name, AutoScalingGroupARN: new(g.ARN()), Cause: &r.Cause,
		Description: &description,
		Details:     new(string(details)), Progress: aws.Int32(0), StartTime: &r.At,
		StatusCode: types.ScalingActivityStatusCodeInProgress,
	}
}

func (s *Service) request(now time.Time, format string, args ...any) *record.AutoScalingRequest {
	return &record.AutoScalingRequest{ActivityID: newUUID(), At: now, Cause: fmt.Sprintf("At %s ", formatTime(now)) +
		fmt.Sprintf(format, args...)}
}

func tooSmall(g record.AutoScalingGroup) error {
	return validation(
		"Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's "+
			"min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.",
		g.Min)
}

// instanceHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) instanceHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.TerminateInstanceInAutoScalingGroup, func(
			ctx context.Context, action string, in *autoscaling.TerminateInstanceInAutoScalingGroupInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, instances: in.InstanceIds,
				instance: in.InstanceId})
		}),
		wire.Handle(s.DetachInstances, func(
			ctx context.Context, action string, in *autoscaling.DetachInstancesInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, instances: in.InstanceIds})
		}),
		wire.Handle(s.EnterStandby, func(
			ctx context.Context, action string, in *autoscaling.EnterStandbyInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, instances: in.InstanceIds})
		}),
		wire.Handle(s.ExitStandby, func(
			ctx context.Context, action string, in *autoscaling.ExitStandbyInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, instances: in.InstanceIds})
		}),
		wire.Handle(s.AttachInstances, func(
			ctx context.Context, action string, in *autoscaling.AttachInstancesInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, instances: in.InstanceIds})
		}),
		wire.Handle(s.SetInstanceHealth, func(
			ctx context.Context, action string, in *autoscaling.SetInstanceHealthInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{instance: in.InstanceId})
		}),
		wire.Handle(s.SetInstanceProtection, func(
			ctx context.Context, action string, in *autoscaling.SetInstanceProtectionInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, instances: in.InstanceIds})
		}),
	}
}

// TerminateInstanceInAutoScalingGroup terminates an instance; another takes its place unless the desired capacity goes
// down with it.
func (s *Service) TerminateInstanceInAutoScalingGroup(ctx context.Context,
	in *autoscaling.TerminateInstanceInAutoScalingGroupInput) (
	*autoscaling.TerminateInstanceInAutoScalingGroupOutput, error) {
	if in.InstanceId == nil || len(in.InstanceIds) > 0 {
		return nil,
			validation("InstanceId is required: coracle terminates one instance per request, and takes no InstanceIds")
	}
	i, err := s.getMember(ctx, *in.InstanceId)
	if err != nil {
		return nil, err
	}
	if group := in.AutoScalingGroupName; group != nil && *group != i.GroupName {
		return nil, validation("The instance %s is not part of Auto Scaling group %s.", i.ID, *group)
	}
	var activity types.Activity
	err = s.updateGroup(ctx, &i.GroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		row, err := s.memberRecord(ctx, *in.InstanceId)
		if err != nil {
			return nil, err
		}
		i := row.Value
		if err := notWarm(i, "TerminateInstanceInAutoScalingGroup"); err != nil {
			return nil, err
		}
		description, now := "Terminating EC2 instance: "+i.ID, s.timestamp()
		if row, err := s.orders.Get(ctx, scopeOf(ctx).instanceKey(i.ID)); err == nil && row.Value.GroupID == g.ID &&
			row.Value.Terminate != nil {
			activity = startedActivity(*g, *row.Value.Terminate, description, i.Zone) // it is on its way
			return nil, nil
		}
		if isTerminating(i.State) {
			if row, err := s.activities.Get(ctx, store.Key(g.Account, g.Region, g.Name, i.ActivityID)); err == nil {
				activity = showActivity(scopeOf(ctx), row.Value)
				return nil, nil
			}
		}
		r := s.request(now, "instance %s was taken out of service in response to a user request.", i.ID)
		if *in.ShouldDecrementDesiredCapacity && i.State != types.LifecycleStateStandby {
			if g.Desired-i.Weight < g.Min {
				return nil, tooSmall(*g)
			}
			r = s.request(now,
				"instance %s was taken out of service in response to a user request, shrinking the capacity from %d to %d.", i.ID, g.Desired, g.Desired-i.Weight)
			g.Desired -= i.Weight
		}
		activity = startedActivity(*g, *r, description, i.Zone)
		op, err := s.updateOrderOp(ctx, g.Name, g.ID, i.ID, func(o *record.AutoScalingOrder) { o.Terminate = r })
		return []store.Op{op, s.instances.CheckOp(row)}, err
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.TerminateInstanceInAutoScalingGroupOutput{Activity: &activity}, nil
}

// eachMember returns a change of a group together with orders about some of its instances.
func (s *Service) eachMember(ctx context.Context, group *string, ids []string, do func(g *record.AutoScalingGroup,
	i record.AutoScalingInstance, description *string) (func(*record.AutoScalingOrder), *record.AutoScalingRequest,
	error)) ([]types.Activity, error) {
	switch {
	case len(ids) == 0:
		return nil, validation("At least one instance ID is required")
	case len(ids) > maxInstances:
		return nil, validation("The number of instance ids (%d) exceeds the maximum of %d", len(ids), maxInstances)
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var activities []types.Activity
	err := s.updateGroup(ctx, group, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		activities = []types.Activity{}
		var ops []store.Op
		for _, id := range ids {
			row, err := s.memberOf(ctx, *g, id)
			if err != nil {
				return nil, err
			}
			i := row.Value
			var description string
			edit, r, err := do(g, i, &description)
			if err != nil {
				return nil, err
			}
			op, err := s.updateOrderOp(ctx, g.Name, g.ID, id, edit)
			if err != nil {
				return nil, err
			}
			ops = append(ops, op, s.instances.CheckOp(row))
			activities = append(activities, startedActivity(*g, *r, description+id, i.Zone))
		}
		return ops, nil
	})
	return activities, err
}

// DetachInstances takes instances out of a group and leaves them running.
func (s *Service) DetachInstances(ctx context.Context, in *autoscaling.DetachInstancesInput) (
	*autoscaling.DetachInstancesOutput, error) {
	activities, err := s.eachMember(ctx, in.AutoScalingGroupName, in.InstanceIds, func(
		g *record.AutoScalingGroup, i record.AutoScalingInstance, description *string,
	) (func(*record.AutoScalingOrder), *record.AutoScalingRequest, error) {
		if i.State != types.LifecycleStateInService && i.State != types.LifecycleStateStandby {
			return nil, nil, validation("The instance %s is not in InService or Standby.", i.ID)
		}
		*description = "Detaching EC2 instance: "
		r := s.request(s.timestamp(), "instance %s was detached in response to a user request.", i.ID)
		if *in.ShouldDecrementDesiredCapacity && i.State == types.LifecycleStateInService {
			if g.Desired-i.Weight < g.Min {
				return nil, nil, tooSmall(*g)
			}
			r = s.request(s.timestamp(),
				"instance %s was detached in response to a user request, shrinking the capacity from %d to %d.", i.ID,
				g.Desired, g.Desired-i.Weight)
			g.Desired -= i.Weight
		}
		return func(o *record.AutoScalingOrder) { o.Detach = r }, r, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.DetachInstancesOutput{Activities: activities}, nil
}

// EnterStandby takes instances out of service, running and in the group.
func (s *Service) EnterStandby(ctx context.Context, in *autoscaling.EnterStandbyInput) (
	*autoscaling.EnterStandbyOutput, error) {
	activities, err := s.eachMember(ctx, in.AutoScalingGroupName, in.InstanceIds, func(
		g *record.AutoScalingGroup, i record.AutoScalingInstance, description *string,
	) (func(*record.AutoScalingOrder), *record.AutoScalingRequest, error) {
		if i.State != types.LifecycleStateInService {
			return nil, nil, validation("The instance %s is not in InService.", i.ID)
		}
		*description = "Moving EC2 instance to Standby: "
		r := s.request(s.timestamp(), "instance %s was moved to standby in response to a user request.", i.ID)
		if *in.ShouldDecrementDesiredCapacity {
			if g.Desired-i.Weight < g.Min {
				return nil, nil, validation(
					"AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. To place into standby 1 "+
						"instance, please update the AutoScalingGroup sizes appropriately.", g.Name, g.Min, g.Max,
					g.Desired)
			}
			r = s.request(s.timestamp(),
				"instance %s was moved to standby in response to a user request, shrinking the capacity from %d to %d.",
				i.ID, g.Desired, g.Desired-i.Weight)
			g.Desired -= i.Weight
		}
		return func(o *record.AutoScalingOrder) { o.Standby, o.StandbyBy = true, r }, r, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.EnterStandbyOutput{Activities: activities}, nil
}

// ExitStandby puts instances that are in standby into service again.
func (s *Service) ExitStandby(ctx context.Context, in *autoscaling.ExitStandbyInput) (
	*autoscaling.ExitStandbyOutput, error) {
	activities, err := s.eachMember(ctx, in.AutoScalingGroupName, in.InstanceIds, func(
		g *record.AutoScalingGroup, i record.AutoScalingInstance, description *string,
	) (func(*record.AutoScalingOrder), *record.AutoScalingRequest, error) {
		if i.State != types.LifecycleStateStandby {
			return nil, nil, validation("The instance %s is not in Standby.", i.ID)
		}
		if g.Desired+i.Weight > g.Max {
			return nil, nil, validation(
				"AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. To remove from standby 1 "+
					"instance, please update the AutoScalingGroup sizes appropriately.", g.Name, g.Min, g.Max,
				g.Desired)
		}
		*description = "Moving EC2 instance out of Standby: "
		r := s.request(s.timestamp(),
			"instance %s was moved out of standby in response to a user request, increasing the capacity from %d to %d.", i.ID, g.Desired, g.Desired+i.Weight)
		g.Desired += i.Weight
		return func(o *record.AutoScalingOrder) { o.Standby, o.StandbyBy = false, r }, r, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.ExitStandbyOutput{Activities: activities}, nil
}

// AttachInstances makes running instances members of a group.
func (s *Service) AttachInstances(ctx context.Context, in *autoscaling.AttachInstancesInput) (
	*autoscaling.AttachInstancesOutput, error) {
	switch n := len(in.InstanceIds); {
	case n == 0:
		return nil, validation("At least one instance ID is required")
	case n > maxInstances:
		return nil, validation("The number of instance ids (%d) exceeds the maximum of %d", n, maxInstances)
	}
	ids := slices.Compact(slices.Sorted(slices.Values(in.InstanceIds)))
	at := scopeOf(ctx)
	err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		var ops []store.Op
		for _, id := range ids {
			instance, err := record.Instances(s.store).Get(ctx, at.instanceKey(id))
			if errors.Is(err, store.ErrNotFound) || err == nil && instance.Value.Fargate != nil {
				return nil, validation("Invalid Instance ID(s): [%s] specified", strings.Join(ids, ", "))
			} else if err != nil {
				return nil, err
			}
			machine, err := record.Machines(s.store).Get(ctx, at.instanceKey(id))
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			if i, err := s.getMember(ctx, id); err == nil {
				return nil, validation("The instance %s is already part of Auto Scaling group: %s", id, i.GroupName)
			}
			if row, err := s.orders.Get(ctx, at.instanceKey(id)); err == nil && row.Value.Attach != nil {
				return nil, validation("The instance %s is already part of Auto Scaling group: %s", id,
					row.Value.GroupName)
			}
			if state := record.InstanceState(instance.Value,
				machine.Value); state != ec2types.InstanceStateNameRunning {
				return nil, validation("Instance %s is not in correct state: it is %s, and must be running", id, state)
			}
			if !slices.Contains(g.Zones, instance.Value.AvailabilityZone) {
				return nil, validation("The availability zone %s of instance %s is not one of Auto Scaling group %s",
					instance.Value.AvailabilityZone, id, g.Name)
			}
			r := s.request(s.timestamp(),
				"an instance was added in response to user request, increasing the capacity from %d to %d.", g.Desired,
				g.Desired+1)
			g.Desired++
			op, err := s.updateOrderOp(ctx, g.Name, g.ID, id, func(o *record.AutoScalingOrder) { o.Attach = r })
			if err != nil {
				return nil, err
			}
			ops = append(ops, op)
		}
		if g.Desired > g.Max {
			return nil,
				validation(
					"AutoScalingGroup %s has min-size=%d, max-size=%d, desired-size=%d. To attach %d more instance, "+
						"please update the AutoScalingGroup sizes appropriately.", g.Name, g.Min, g.Max,
					g.Desired-int32(len(ids)), len(ids))
		}
		return ops, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.AttachInstancesOutput{}, nil
}

// SetInstanceHealth sets the health status of an instance; one that is unhealthy is replaced.
func (s *Service) SetInstanceHealth(ctx context.Context, in *autoscaling.SetInstanceHealthInput) (
	*autoscaling.SetInstanceHealthOutput, error) {
	if h := *in.HealthStatus; h != "Healthy" && h != "Unhealthy" {
		return nil, validation("Valid instance health states are: [Healthy, Unhealthy]. %s is not", h)
	}
	err := s.command(ctx, *in.InstanceId, func(i record.AutoScalingInstance) error {
		if isTerminating(i.State) {
			return noInstance(i.ID)
		}
		return notWarm(i, "SetInstanceHealth")
	}, func(o *record.AutoScalingOrder) {
		o.Health, o.HealthAt = *in.HealthStatus, s.timestamp()
		o.HealthAfterGrace = in.ShouldRespectGracePeriod == nil || *in.ShouldRespectGracePeriod
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.SetInstanceHealthOutput{}, nil
}

// SetInstanceProtection sets whether instances are protected from scale in.
func (s *Service) SetInstanceProtection(ctx context.Context, in *autoscaling.SetInstanceProtectionInput) (
	*autoscaling.SetInstanceProtectionOutput, error) {
	if n := len(in.InstanceIds); n == 0 || n > 50 {
		return nil, validation("The number of instance ids must be from 1 to 50, but is %d", n)
	}
	g, err := s.getGroup(ctx, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	for _, id := range in.InstanceIds {
		if _, err := s.memberOf(ctx, g.Value, id); err != nil {
			return nil, err
		}
	}
	for _, id := range in.InstanceIds {
		err := s.command(ctx, id, func(i record.AutoScalingInstance) error {
			if isTerminating(i.State) {
				return validation("The instance %s is not in InService or EnteringStandby or Standby.", id)
			}
			return notWarm(i, "SetInstanceProtection")
		}, func(o *record.AutoScalingOrder) { o.Protected = in.ProtectedFromScaleIn })
		if err != nil {
			return nil, err
		}
	}
	return &autoscaling.SetInstanceProtectionOutput{}, nil
}
