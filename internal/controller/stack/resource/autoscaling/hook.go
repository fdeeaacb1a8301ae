package autoscaling

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// describeHook returns the lifecycle hook of a name in the group of the request.
func describeHook(ctx context.Context, c *autoscaling.Client, r *resource.Request, name string) (
	*types.LifecycleHook, error) {
	group := r.Text("AutoScalingGroupName")
	// To ask for a name that there is not is an error whose code says nothing.
	out, err := c.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: &group})
	if err != nil {
		return ofGroup[types.LifecycleHook](ctx, c, group, nil, err)
	}
	return first(slices.DeleteFunc(out.LifecycleHooks,
		func(hook types.LifecycleHook) bool { return aws.ToString(hook.LifecycleHookName) != name }))
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-autoscaling-lifecyclehook.html
var lifecycleHook = resource.Type{
	NameLimit: 255,
	Names:     []string{"LifecycleHookName"},
	// PutLifecycleHook would take over a hook that somebody else has made: its name is claimed.
	Handler: resource.Claim(resource.Table[*autoscaling.Client, types.LifecycleHook]{
		Client: client,
		Create: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
			name := nameOr(r, "LifecycleHookName")
			return name, putHook(ctx, c, r, name)
		},
		Describe: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (*types.LifecycleHook, error) {
			return describeHook(ctx, c, r, r.PhysicalID)
		},
		Configure: []resource.Step[*autoscaling.Client]{{
			Properties: []string{"DefaultResult", "HeartbeatTimeout", "LifecycleTransition", "NotificationMetadata",
				"NotificationTargetARN", "RoleARN"}, Update: true,
			Run: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
				return putHook(ctx, c, r, r.PhysicalID)
			}}},
		Delete: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
			if _, err := describeHook(ctx, c, r, r.PhysicalID); err != nil {
				return err
			}
			_, err := c.DeleteLifecycleHook(ctx, &autoscaling.DeleteLifecycleHookInput{
				AutoScalingGroupName: new(r.Text("AutoScalingGroupName")), LifecycleHookName: &r.PhysicalID})
			return err
		},
	}, func(r *resource.Request) (string, bool) {
		return nameOr(r, "LifecycleHookName"), r.Text("LifecycleHookName") == ""
	}),
}

func putHook(ctx context.Context, c *autoscaling.Client, r *resource.Request, name string) error {
	_, err := resource.Call(ctx, c, r, (*autoscaling.Client).PutLifecycleHook, nil,
		func(_ *resource.Request, in *autoscaling.PutLifecycleHookInput) error {
			in.LifecycleHookName = &name
			return nil
		})
	return err
}
