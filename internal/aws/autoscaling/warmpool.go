package autoscaling

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// warmPoolHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) warmPoolHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutWarmPool, func(
			ctx context.Context, action string, in *autoscaling.PutWarmPoolInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName}, func(c conditions) {
				c.addSizes(in.MinSize, nil)
			})
		}),
		wire.Handle(s.DescribeWarmPool, wire.OnAll),
		wire.Handle(s.DeleteWarmPool, func(
			ctx context.Context, action string, in *autoscaling.DeleteWarmPoolInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
	}
}

// PutWarmPool gives a group a warm pool, or changes the one it has: a parameter that is not given stays as it was.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PutWarmPool.html
func (s *Service) PutWarmPool(ctx context.Context, in *autoscaling.PutWarmPoolInput) (
	*autoscaling.PutWarmPoolOutput, error) {
	switch in.PoolState {
	case "", types.WarmPoolStateStopped, types.WarmPoolStateRunning:
	case types.WarmPoolStateHibernated:
		return nil, unserved("PoolState Hibernated",
			"its instances cannot hibernate; they start from Stopped in seconds")
	default:
		return nil,
			validation(
				"1 validation error detected: Value '%s' at 'poolState' failed to satisfy constraint: Member must "+
					"satisfy enum value set: [Stopped, Running, Hibernated]", in.PoolState)
	}
	if in.MinSize != nil && *in.MinSize < 0 {
		return nil,
			validation(
				"1 validation error detected: Value '%d' at 'minSize' failed to satisfy constraint: Member must have "+
					"value greater than or equal to 0", *in.MinSize)
	}
	if m := in.MaxGroupPreparedCapacity; m != nil && *m < -1 {
		return nil,
			validation(
				"1 validation error detected: Value '%d' at 'maxGroupPreparedCapacity' failed to satisfy constraint: "+
					"Member must have value greater than or equal to -1", *m)
	}
	err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		if refresh, progress, err := s.refreshOf(ctx, *g); err == nil && refresh.Key != "" &&
			isActive(progress.Status) {
			return nil, &types.InstanceRefreshInProgressFault{
				Message: aws.String("The warm pool of Auto Scaling group " + g.Name +
					" cannot be changed while instance refresh " + refresh.Value.ID + " is in progress")}
		}
		if err := s.checkPoolable(ctx, *g); err != nil {
			return nil, err
		}
		pool := record.AutoScalingWarmPool{State: types.WarmPoolStateStopped}
		if g.WarmPool != nil {
			pool = *g.WarmPool
		}
		if pool.Deleting {
			return nil, validation("The warm pool of Auto Scaling group %s is being deleted", g.Name)
		}
		if in.MinSize != nil {
			pool.Min = *in.MinSize
		}
		if m := in.MaxGroupPreparedCapacity; m != nil {
			if pool.MaxPrepared = m; *m == -1 {
				pool.MaxPrepared = nil
			}
		}
		if in.PoolState != "" {
			pool.State = in.PoolState
		}
		if in.InstanceReusePolicy != nil && in.InstanceReusePolicy.ReuseOnScaleIn != nil {
			pool.Reuse = *in.InstanceReusePolicy.ReuseOnScaleIn
		}
		g.WarmPool = &pool
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.PutWarmPoolOutput{}, nil
}

// checkPoolable refuses a warm pool for a group whose instances cannot be stopped and started again: those of the spot
// market.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html#warm-pools-limitations
func (s *Service) checkPoolable(ctx context.Context, g record.AutoScalingGroup) error {
	specs := []*types.LaunchTemplateSpecification{g.LaunchTemplate}
	if g.Mixed != nil {
		specs = []*types.LaunchTemplateSpecification{g.Mixed.LaunchTemplate.LaunchTemplateSpecification}
		for _, o := range g.Mixed.LaunchTemplate.Overrides {
			specs = append(specs, o.LaunchTemplateSpecification)
		}
		if d := g.Mixed.InstancesDistribution; d != nil && aws.ToInt32(d.OnDemandPercentageAboveBaseCapacity) < 100 {
			return validation(
				"You can't add a warm pool to an Auto Scaling group that has a mixed instances policy that requests " +
					"Spot Instances.")
		}
	}
	for _, spec := range specs {
		if spec == nil {
			continue
		}
		_, data, err := s.template(ctx, &types.LaunchTemplateSpecification{LaunchTemplateId: spec.LaunchTemplateId,
			Version: spec.Version})
		if err != nil {
			continue // it is gone: launches say so
		}
		if o := data.InstanceMarketOptions; o != nil && o.MarketType == ec2types.MarketTypeSpot {
			return validation(
				"You can't add a warm pool to an Auto Scaling group that has a launch template that requests Spot " +
					"Instances.")
		}
	}
	return nil
}

// DescribeWarmPool returns a group's warm pool and the instances in it.
func (s *Service) DescribeWarmPool(ctx context.Context, in *autoscaling.DescribeWarmPoolInput) (
	*autoscaling.DescribeWarmPoolOutput, error) {
	if err := pagesOf50.check(in.MaxRecords); err != nil {
		return nil, err
	}
	row, err := s.getGroup(ctx, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	at := scopeOf(ctx)
	rows, err := s.instances.List(ctx, at.keyPrefix())
	if err != nil {
		return nil, err
	}
	var warm []store.Row[record.AutoScalingInstance]
	for _, r := range rows {
		if r.Value.GroupID == row.Value.ID && r.Value.Warm() {
			warm = append(warm, r)
		}
	}
	warm, next, err := paginate(ctx, warm, pagesOf50, in.MaxRecords, in.NextToken,
		func(r store.Row[record.AutoScalingInstance]) string { return r.Key })
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeWarmPoolOutput{Instances: []types.Instance{}, NextToken: next,
		WarmPoolConfiguration: showPool(row.Value)}
	for _, r := range warm {
		out.Instances = append(out.Instances, s.showInstance(ctx, at, r))
	}
	return out, nil
}

// showPool returns a group's warm pool as the API shows it: nil without one.
func showPool(g record.AutoScalingGroup) *types.WarmPoolConfiguration {
	p := g.WarmPool
	if p == nil {
		return nil
	}
	out := &types.WarmPoolConfiguration{MinSize: &p.Min, MaxGroupPreparedCapacity: p.MaxPrepared, PoolState: p.State}
	if p.Reuse {
		out.InstanceReusePolicy = &types.InstanceReusePolicy{ReuseOnScaleIn: &p.Reuse}
	}
	if p.Deleting {
		out.Status = types.WarmPoolStatusPendingDelete
	}
	return out
}

// DeleteWarmPool deletes a group's warm pool: the controller terminates its instances, and it goes with the last of
// them. ForceDelete does not wait for lifecycle hooks.
func (s *Service) DeleteWarmPool(ctx context.Context, in *autoscaling.DeleteWarmPoolInput) (
	*autoscaling.DeleteWarmPoolOutput, error) {
	err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		if g.WarmPool == nil {
			return nil, validation("No warm pool found for Auto Scaling group %s", g.Name)
		}
		pool := *g.WarmPool
		pool.Deleting, pool.Force = true, pool.Force || aws.ToBool(in.ForceDelete)
		g.WarmPool = &pool
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.DeleteWarmPoolOutput{}, nil
}

// WarmPoolGone takes a warm pool off its group that was being deleted and has no instances any more.
func (u Upkeep) WarmPoolGone(ctx context.Context, account, region, group string) error {
	err := u.s.updateGroup(accountContext(ctx, account, region), &group,
		func(g *record.AutoScalingGroup) ([]store.Op, error) {
			if g.WarmPool != nil && g.WarmPool.Deleting {
				g.WarmPool = nil
			}
			return nil, nil
		})
	return err
}

// notWarm refuses what cannot be done with an instance in a warm pool.
func notWarm(i record.AutoScalingInstance, operation string) error {
	if i.Warm() {
		return validation(
			"The instance %s is in the warm pool of Auto Scaling group %s, where %s cannot be called on it", i.ID,
			i.GroupName, operation)
	}
	return nil
}
