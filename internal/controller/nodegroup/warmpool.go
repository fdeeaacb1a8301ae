package nodegroup

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// poolStates are the states in which a pool keeps its instances, as Auto Scaling calls them.
var poolStates = map[ekstypes.WarmPoolState]astypes.WarmPoolState{
	"":                               astypes.WarmPoolStateStopped,
	ekstypes.WarmPoolStateStopped:    astypes.WarmPoolStateStopped,
	ekstypes.WarmPoolStateRunning:    astypes.WarmPoolStateRunning,
	ekstypes.WarmPoolStateHibernated: astypes.WarmPoolStateHibernated,
}

// reconcileWarmPool gives the Auto Scaling group the warm pool that is wanted, or takes it away.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html
func (g *group) reconcileWarmPool(ctx context.Context) error {
	want, have := g.row.WarmPool, g.asg.WarmPoolConfiguration
	if have != nil && have.Status == astypes.WarmPoolStatusPendingDelete {
		return nil // the row of the Auto Scaling group changes when it is gone
	}
	name := g.scalingName()
	if want == nil || !aws.ToBool(want.Enabled) {
		if have == nil {
			return nil
		}
		_, err := g.scaling.DeleteWarmPool(ctx, &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: &name})
		if err != nil {
			return fmt.Errorf("delete the warm pool of %s: %w", name, err)
		}
		return nil
	}
	in := &autoscaling.PutWarmPoolInput{
		AutoScalingGroupName: &name, MinSize: want.MinSize, MaxGroupPreparedCapacity: want.MaxGroupPreparedCapacity,
		PoolState: poolStates[want.PoolState],
	}
	if in.MaxGroupPreparedCapacity == nil && have != nil && have.MaxGroupPreparedCapacity != nil {
		in.MaxGroupPreparedCapacity = aws.Int32(-1) // which takes it away
	}
	if want.ReuseOnScaleIn != nil {
		in.InstanceReusePolicy = &astypes.InstanceReusePolicy{ReuseOnScaleIn: want.ReuseOnScaleIn}
	}
	if have != nil && aws.ToInt32(have.MinSize) == aws.ToInt32(in.MinSize) && have.PoolState == in.PoolState &&
		(in.MaxGroupPreparedCapacity == nil ||
			aws.ToInt32(have.MaxGroupPreparedCapacity) == *in.MaxGroupPreparedCapacity) &&
		aws.ToBool(want.ReuseOnScaleIn) ==
			(have.InstanceReusePolicy != nil && aws.ToBool(have.InstanceReusePolicy.ReuseOnScaleIn)) {
		return nil
	}
	if _, err := g.scaling.PutWarmPool(ctx, in); err != nil {
		return g.scalingRefused(ctx, err)
	}
	return nil
}
