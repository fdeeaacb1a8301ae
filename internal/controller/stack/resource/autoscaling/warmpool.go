package autoscaling

import (
	"context"

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
	Handler: resource.Handle(resource.Table[*autoscaling.Client, types.WarmPoolConfiguration]{
		Client: client,
		Create: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
			group := r.Text("AutoScalingGroupName")
			// PutWarmPool would take over a pool that somebody else has made.
			if _, err := describePool(ctx, c, group); err == nil {
				return "", resource.Errorf(resource.AlreadyExists, "The warm pool of %s already exists", group)
			} else if !resource.IsNotFound(err) {
				return "", err
			}
			return group, putPool(ctx, c, r, r.Properties)
		},
		Find: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
			group := r.Text("AutoScalingGroupName")
			_, err := describePool(ctx, c, group)
			return group, err
		},
		Describe: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (*types.WarmPoolConfiguration,
			error) {
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
				for name, value := range r.Properties {
					properties[name] = value
				}
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
	}),
}

func putPool(ctx context.Context, c *autoscaling.Client, r *resource.Request, properties map[string]any) error {
	called := *r
	called.Properties = properties
	_, err := resource.Call(ctx, c, &called, (*autoscaling.Client).PutWarmPool, nil)
	return err
}
