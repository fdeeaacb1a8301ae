// Package autoscaling has the handlers of the AWS::AutoScaling resource types of CloudFormation: Types is their table,
// which internal/controller/stack joins with those of the other services. They are clients of the Auto Scaling API.
//
// AWS::AutoScaling::LaunchConfiguration is left out: accounts made since October 2024 cannot create launch
// configurations, and those of Coracle are such.
package autoscaling

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Types are the resource types.
var Types = map[string]resource.Type{
	"AWS::AutoScaling::AutoScalingGroup": autoScalingGroup,
	"AWS::AutoScaling::LifecycleHook":    lifecycleHook,
	"AWS::AutoScaling::ScalingPolicy":    scalingPolicy,
	"AWS::AutoScaling::ScheduledAction":  scheduledAction,
	"AWS::AutoScaling::WarmPool":         warmPool,
}

// client returns the Auto Scaling client of a request.
func client(config aws.Config) *autoscaling.Client { return autoscaling.NewFromConfig(config) }

// describeGroup returns a group by its name. Auto Scaling lists nothing where there is none.
func describeGroup(ctx context.Context, c *autoscaling.Client, name string) (*types.AutoScalingGroup, error) {
	out, err := c.DescribeAutoScalingGroups(ctx,
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil {
		return nil, err
	}
	return first(out.AutoScalingGroups)
}

// ofGroup makes the description of what belongs to a group ErrNotFound if the group is gone, of which Auto Scaling says
// that the request is invalid.
func ofGroup[L any](ctx context.Context, c *autoscaling.Client, group string, live *L, err error) (*L, error) {
	if err == nil || !resource.HasCode(err, "ValidationError") {
		return live, err
	}
	if _, missing := describeGroup(ctx, c, group); resource.IsNotFound(missing) {
		return nil, resource.ErrNotFound
	}
	return nil, err
}

// first returns the first element of a list, ErrNotFound if there is none.
func first[L any](list []L) (*L, error) {
	if len(list) == 0 {
		return nil, resource.ErrNotFound
	}
	return &list[0], nil
}

// nameOr returns the name in a property, or the generated name if there is none.
func nameOr(r *resource.Request, property string) string {
	if name := r.Text(property); name != "" {
		return name
	}
	return r.Name
}
