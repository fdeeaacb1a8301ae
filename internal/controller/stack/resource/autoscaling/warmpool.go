package autoscaling

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// describePool returns the warm pool of a group.
func describePool(ctx context.Context, c *autoscaling.Client, group string) (*types.WarmPoolConfiguration, error) {
	out, err := c.DescribeWarmPool(ctx, &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: &group})
	if err != nil {
		return ofGroup[types.WarmPoolConfiguration](ctx, c, group, nil, err)
	}
	if out.WarmPoolConfiguration == nil {
		return nil, resource.ErrNotFound
	}
	return out.WarmPoolConfiguration, nil
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-autoscaling-warmpool.html
var warmPool = resource.Type{
	Handler: resource.Claim(resource.Table[*autoscaling.Client, types.WarmPoolConfiguration]{
		Client: client,
		Create: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
			group := r.Text("AutoScalingGroupName")
			// PutWarmPool would take over a pool that somebody else has made.
			if _, err := describePool(ctx, c, group); err == nil {
				return "", resource.Errorf(resource.AlreadyExists, "The warm pool of %s already exists", group)
			} else if !resource.IsNotFound(err) {
				return "", err
			}
			if err := putPool(ctx, c, r, r.Properties); err != nil {
				return "", err
			}
			return group, nil
		},
		Find: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
			group := r.Text("AutoScalingGroupName")
			pool, err := describePool(ctx, c, group)
			if err != nil {
				return "", err
			}
			made := *r
			made.Previous = resource.Encode(pool, nil)
			made.Previous["AutoScalingGroupName"] = group
			if made.Changed(slices.Collect(maps.Keys(r.Properties))...) {
				return "", resource.ErrNotFound // somebody else's
			}
			return group, nil
		},
		Describe: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (
			*types.WarmPoolConfiguration, error) {
			return describePool(ctx, c, r.PhysicalID)
		},
		State: func(pool *types.WarmPoolConfiguration) (resource.State, error) {
			if pool.Status == types.WarmPoolStatusPendingDelete {
				return resource.Deleting, nil
			}
			return resource.Ready, nil
		},
		Configure: []resource.Step[*autoscaling.Client]{{
			Properties: []string{"InstanceReusePolicy", "MaxGroupPreparedCapacity", "MinSize", "PoolState"}, Update: true,
			Run: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
				properties := map[string]any{"MinSize": "0", "MaxGroupPreparedCapacity": "-1", "PoolState": "Stopped",
					"InstanceReusePolicy": map[string]any{"ReuseOnScaleIn": false}}
				maps.Copy(properties, r.Properties)
				return putPool(ctx, c, r, properties)
			}}},
		Delete: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
			if _, err := describePool(ctx, c, r.PhysicalID); err != nil {
				return err
			}
			_, err := c.DeleteWarmPool(ctx, &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: &r.PhysicalID,
				ForceDelete: new(true)})
			return err
		},
		Slow: true,
		Properties: func(_ context.Context, _ *autoscaling.Client, r *resource.Request, pool *types.WarmPoolConfiguration) (
			map[string]any, error) {
			properties := resource.Encode(pool, nil)
			delete(properties, "Status")
			properties["AutoScalingGroupName"] = r.PhysicalID
			return properties, nil
		},
	}, func(r *resource.Request) (string, bool) { return r.Text("AutoScalingGroupName"), false }),
}

func putPool(ctx context.Context, c *autoscaling.Client, r *resource.Request, properties map[string]any) error {
	called := *r
	called.Properties = properties
	_, err := resource.Call(ctx, c, &called, (*autoscaling.Client).PutWarmPool, nil)
	return err
}
