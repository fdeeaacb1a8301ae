package autoscaling

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// describeAction returns the scheduled action of a name in the group of the request.
func describeAction(ctx context.Context, c *autoscaling.Client, r *resource.Request, name string) (
	*types.ScheduledUpdateGroupAction, error) {
	group := r.Text("AutoScalingGroupName")
	out, err := c.DescribeScheduledActions(ctx, &autoscaling.DescribeScheduledActionsInput{
		AutoScalingGroupName: &group, ScheduledActionNames: []string{name}})
	if err != nil {
		return ofGroup[types.ScheduledUpdateGroupAction](ctx, c, group, nil, err)
	}
	return first(out.ScheduledUpdateGroupActions)
}

// putAction makes a scheduled action what the properties say; it is repeatable.
func putAction(ctx context.Context, c *autoscaling.Client, r *resource.Request, name string) error {
	_, err := resource.Call(ctx, c, r, (*autoscaling.Client).PutScheduledUpdateGroupAction, nil,
		func(_ *resource.Request, in *autoscaling.PutScheduledUpdateGroupActionInput) error {
			in.ScheduledActionName = &name
			return nil
		})
	return err
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-autoscaling-scheduledaction.html
var scheduledAction = resource.Type{
	NameLimit: 255,
	Handler: resource.Handle(resource.Table[*autoscaling.Client, types.ScheduledUpdateGroupAction]{
		Client: client,
		Create: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
			return r.Name, putAction(ctx, c, r, r.Name)
		},
		Find: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
			_, err := describeAction(ctx, c, r, r.Name)
			return r.Name, err
		},
		Describe: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (
			*types.ScheduledUpdateGroupAction, error) {
			return describeAction(ctx, c, r, r.PhysicalID)
		},
		Configure: []resource.Step[*autoscaling.Client]{{
			Properties: []string{"DesiredCapacity", "EndTime", "MaxSize", "MinSize", "Recurrence", "StartTime", "TimeZone"},
			Update:     true,
			Run: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
				return putAction(ctx, c, r, r.PhysicalID)
			}}},
		Delete: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
			if _, err := describeAction(ctx, c, r, r.PhysicalID); err != nil {
				return err
			}
			_, err := c.DeleteScheduledAction(ctx, &autoscaling.DeleteScheduledActionInput{
				AutoScalingGroupName: new(r.Text("AutoScalingGroupName")), ScheduledActionName: &r.PhysicalID})
			return err
		},
		Attributes: func(_ *resource.Request, a *types.ScheduledUpdateGroupAction) map[string]any {
			return map[string]any{"ScheduledActionName": aws.ToString(a.ScheduledActionName)}
		},
	}),
}
