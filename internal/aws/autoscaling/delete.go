package autoscaling

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// deleteHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) deleteHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DeleteAutoScalingGroup, func(
			ctx context.Context, action string, in *autoscaling.DeleteAutoScalingGroupInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
	}
}

// DeleteAutoScalingGroup deletes a group that has no instances or, with ForceDelete, a group with its instances. The
// group is there, and its status says so, until the last of them has gone.
func (s *Service) DeleteAutoScalingGroup(ctx context.Context, in *autoscaling.DeleteAutoScalingGroupInput) (
	*autoscaling.DeleteAutoScalingGroupOutput, error) {
	force := aws.ToBool(in.ForceDelete)
	row, err := s.getGroup(ctx, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if row.Value.Deleting && force {
		return &autoscaling.DeleteAutoScalingGroupOutput{}, nil
	}
	err = s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		switch {
		case g.DeletionProtection == types.DeletionProtectionPreventAllDeletion,
			g.DeletionProtection == types.DeletionProtectionPreventForceDeletion && force:
			return nil, resourceInUse("AutoScalingGroup '%s' has deletion protection (%s) enabled", g.Name,
				g.DeletionProtection)
		}
		if !force {
			members, err := s.members(ctx, *g)
			if err != nil {
				return nil, err
			}
			launches, err := s.launches.List(ctx, store.Prefix(g.Account, g.Region, g.Name))
			if err != nil {
				return nil, err
			}
			terminatingOnly := len(members) > 0
			for _, m := range members {
				terminatingOnly = terminatingOnly && isTerminating(m.State)
			}
			switch {
			case terminatingOnly:
				return nil, activityInProgress(
					"You cannot delete an AutoScalingGroup while there are scaling activities in progress for that group.")
			case len(members) > 0 || len(launches) > 0 || g.Desired > 0 && !suspended(*g, "Launch"):
				return nil, resourceInUse(
					"You cannot delete an AutoScalingGroup while there are instances or pending Spot instance " +
						"request(s) still in the group.")
			}
		}
		g.Deleting = true
		g.Min = 0
		setDesired(g, 0, s.timestamp(), "a user request force deleted AutoScalingGroup")
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.DeleteAutoScalingGroupOutput{}, nil
}

func suspended(g record.AutoScalingGroup, process string) bool {
	_, ok := g.Suspended[process]
	return ok
}

// members returns the instances of a group.
func (s *Service) members(ctx context.Context, g record.AutoScalingGroup) ([]record.AutoScalingInstance, error) {
	rows, err := s.instances.List(ctx, store.Prefix(g.Account, g.Region))
	var members []record.AutoScalingInstance
	for _, row := range rows {
		if row.Value.GroupID == g.ID {
			members = append(members, row.Value)
		}
	}
	return members, err
}

func isTerminating(state types.LifecycleState) bool {
	switch state {
	case types.LifecycleStateTerminating, types.LifecycleStateTerminatingWait, types.LifecycleStateTerminatingProceed,
		types.LifecycleStateTerminated,
		types.LifecycleStateWarmedTerminating, types.LifecycleStateWarmedTerminatingWait,
		types.LifecycleStateWarmedTerminatingProceed:
		return true
	}
	return false
}
