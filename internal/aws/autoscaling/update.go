package autoscaling

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// updateHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) updateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.UpdateAutoScalingGroup, func(
			ctx context.Context, action string, in *autoscaling.UpdateAutoScalingGroupInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName}, func(c conditions) {
				c.addSizes(in.MinSize, in.MaxSize)
				c.launchTemplate(in.LaunchTemplate)
				c.addZones(in.VPCZoneIdentifier)
			})
		}),
		wire.Handle(s.SetDesiredCapacity, func(
			ctx context.Context, action string, in *autoscaling.SetDesiredCapacityInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
	}
}

// UpdateAutoScalingGroup changes what is wanted of a group. Instances that there are stay as they are.
func (s *Service) UpdateAutoScalingGroup(ctx context.Context, in *autoscaling.UpdateAutoScalingGroupInput) (
	*autoscaling.UpdateAutoScalingGroupOutput, error) {
	switch {
	case in.LaunchConfigurationName != nil && (in.LaunchTemplate != nil || in.MixedInstancesPolicy != nil),
		in.LaunchTemplate != nil && in.MixedInstancesPolicy != nil:
		return nil,
			validation(
				"Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or " +
					"MixedInstancesPolicy parameter.")
	case in.LaunchConfigurationName != nil:
		return nil, validation("Launch configuration name not found - Launch configuration %s not found",
			*in.LaunchConfigurationName)
	}
	err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		before := targetOf(*g)
		settings := changedSettings(in)
		if err := settings.apply(g); err != nil {
			return nil, err
		}
		if err := s.resolveZones(ctx, g, in.AvailabilityZones, in.AvailabilityZoneIds,
			in.VPCZoneIdentifier); err != nil {
			return nil, err
		}
		at := targetOf(*g)
		moved := !slices.Equal(before.subnets, g.SubnetIDs) || !slices.Equal(before.zones, g.Zones) ||
			before.placementGroup != g.PlacementGroup
		if in.LaunchTemplate != nil || in.MixedInstancesPolicy != nil {
			chosen, err := s.configure(ctx, in.LaunchTemplate, in.MixedInstancesPolicy, g.Mixed, at)
			if err != nil {
				return nil, err
			}
			g.LaunchTemplate, g.Mixed = chosen.template, chosen.mixed
			if g.WarmPool != nil {
				if err := s.checkPoolable(ctx, *g); err != nil {
					return nil, err
				}
			}
		} else if moved {
			if err := s.checkMove(ctx, g.LaunchTemplate, g.Mixed, at); err != nil {
				return nil, err
			}
		}
		if moved {
			if err := s.checkRefreshMove(ctx, *g, at); err != nil {
				return nil, err
			}
		}
		if err := s.ensureServiceRole(ctx, g, in.ServiceLinkedRoleARN); err != nil {
			return nil, err
		}
		return nil, resizeGroup(g, s.timestamp(), in.MinSize, in.MaxSize, in.DesiredCapacity,
			"a user request update of AutoScalingGroup constraints to")
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.UpdateAutoScalingGroupOutput{}, nil
}

// checkMove demands that who moves a group into other subnets or another placement group may launch there what the
// group launches.
func (s *Service) checkMove(ctx context.Context, template *types.LaunchTemplateSpecification,
	mixed *types.MixedInstancesPolicy, to target) error {
	var asked *types.MixedInstancesPolicy
	switch {
	case mixed != nil:
		asked = &types.MixedInstancesPolicy{} // all as before
	case template != nil:
		template = &types.LaunchTemplateSpecification{LaunchTemplateId: template.LaunchTemplateId,
			Version: template.Version}
	default:
		return nil
	}
	_, err := s.configure(ctx, template, asked, mixed, to)
	return err
}

// checkRefreshMove demands the same of what the instance refresh of a group launches, and would launch when it is
// rolled back.
func (s *Service) checkRefreshMove(ctx context.Context, g record.AutoScalingGroup, to target) error {
	row, progress, err := s.refreshOf(ctx, g)
	if err != nil || !isActive(progress.Status) || row.Value.Desired == nil {
		return err
	}
	desired, before := *row.Value.Desired, row.Value.Before
	if err := s.checkMove(ctx, desired.LaunchTemplate, desired.MixedInstancesPolicy, to); err != nil ||
		unchanged(g, before) {
		return err
	}
	return s.checkMove(ctx, before.LaunchTemplate, before.MixedInstancesPolicy, to)
}

// resizeGroup changes the sizes of a group. A desired capacity that is not given goes along with the others.
func resizeGroup(g *record.AutoScalingGroup, now time.Time, least, most, desired *int32, by string) error {
	if least == nil && most == nil && desired == nil {
		return nil
	}
	before := g.Desired
	if least != nil {
		g.Min = *least
	}
	if most != nil {
		g.Max = *most
	}
	if desired != nil {
		g.Desired = *desired
	} else if g.Min <= g.Max && g.Min >= 0 {
		g.Desired = min(max(g.Desired, g.Min), g.Max)
	}
	if err := checkSizes(*g); err != nil {
		return err
	}
	if g.Desired != before {
		g.Change = record.AutoScalingChange{
			ID: newUUID(), At: now, From: before, To: g.Desired,
			By: fmt.Sprintf("%s min: %d, max: %d, desired: %d", by, g.Min, g.Max, g.Desired),
		}
	}
	return nil
}

// SetDesiredCapacity changes how large a group is to be.
func (s *Service) SetDesiredCapacity(ctx context.Context, in *autoscaling.SetDesiredCapacityInput) (
	*autoscaling.SetDesiredCapacityOutput, error) {
	err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		switch want := *in.DesiredCapacity; {
		case want > g.Max:
			return nil, validation("New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.",
				want, g.Max)
		case want < g.Min:
			return nil, validation("New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.",
				want, g.Min)
		}
		if aws.ToBool(in.HonorCooldown) {
			if err := s.checkCooldown(ctx, *g, g.DefaultCooldown); err != nil {
				return nil, err
			}
		}
		setDesired(g, *in.DesiredCapacity, s.timestamp(), "a user request explicitly set group desired capacity")
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.SetDesiredCapacityOutput{}, nil
}

func setDesired(g *record.AutoScalingGroup, to int32, now time.Time, by string) {
	if g.Desired != to {
		g.Change = record.AutoScalingChange{ID: newUUID(), At: now, By: by, From: g.Desired, To: to}
		g.Desired = to
	}
}

// checkCooldown refuses a change of a group's capacity while a scaling activity is in progress, and for some seconds
// after the last.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-scaling-cooldowns.html
func (s *Service) checkCooldown(ctx context.Context, g record.AutoScalingGroup, seconds int32) error {
	rows, err := s.activities.List(ctx, store.Prefix(g.Account, g.Region, g.Name))
	if err != nil {
		return err
	}
	for _, row := range rows {
		a := row.Value
		if a.GroupID != g.ID {
			continue
		}
		if a.EndTime.IsZero() {
			return activityInProgress("Scaling activity %s is in progress and blocks this action", a.ID)
		}
		if a.StatusCode == "Successful" && s.now().Before(a.EndTime.Add(time.Duration(seconds)*time.Second)) {
			return activityInProgress(
				"Scaling activity %s has ended less than the cooldown of %d seconds ago, which blocks this action",
				a.ID, seconds)
		}
	}
	return nil
}
