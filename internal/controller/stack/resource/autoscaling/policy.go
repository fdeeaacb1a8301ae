package autoscaling

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// splitPolicyARN returns the group and the name of a scaling policy, whose physical ID is its ARN.
func splitPolicyARN(arn string) (group, name string) {
	_, rest, _ := strings.Cut(arn, ":autoScalingGroupName/")
	group, name, _ = strings.Cut(rest, ":policyName/")
	return group, name
}

// policies lists the policies of a name in a group.
func policies(ctx context.Context, c *autoscaling.Client, group, name string) (*types.ScalingPolicy, error) {
	out, err := c.DescribePolicies(ctx, &autoscaling.DescribePoliciesInput{AutoScalingGroupName: &group,
		PolicyNames: []string{name}})
	if err != nil {
		return ofGroup[types.ScalingPolicy](ctx, c, group, nil, err)
	}
	return first(out.ScalingPolicies)
}

// putPolicy makes a policy what the properties say; it is repeatable.
func putPolicy(ctx context.Context, c *autoscaling.Client, r *resource.Request, name string) (string, error) {
	out, err := resource.Call(ctx, c, r, (*autoscaling.Client).PutScalingPolicy, nil,
		func(_ *resource.Request, in *autoscaling.PutScalingPolicyInput) error {
			in.PolicyName = &name
			return nil
		})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.PolicyARN), nil
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-autoscaling-scalingpolicy.html
var scalingPolicy = resource.Type{
	NameLimit: 255,
	Refused:   []string{"PredictiveScalingConfiguration", "TargetTrackingConfiguration"},
	Handler: resource.Handle(resource.Table[*autoscaling.Client, types.ScalingPolicy]{
		Client: client,
		Create: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
			return putPolicy(ctx, c, r, r.Name)
		},
		Find: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
			p, err := policies(ctx, c, r.Text("AutoScalingGroupName"), r.Name)
			if err != nil {
				return "", err
			}
			return aws.ToString(p.PolicyARN), nil
		},
		Describe: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (*types.ScalingPolicy, error) {
			group, name := splitPolicyARN(r.PhysicalID)
			return policies(ctx, c, group, name)
		},
		Configure: []resource.Step[*autoscaling.Client]{{
			Properties: []string{"AdjustmentType", "Cooldown", "EstimatedInstanceWarmup", "MetricAggregationType",
				"MinAdjustmentMagnitude", "PolicyType", "ScalingAdjustment", "StepAdjustments"}, Update: true,
			Run: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
				_, name := splitPolicyARN(r.PhysicalID)
				_, err := putPolicy(ctx, c, r, name)
				return err
			}}},
		Delete: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
			group, name := splitPolicyARN(r.PhysicalID)
			if _, err := policies(ctx, c, group, name); err != nil {
				return err
			}
			_, err := c.DeletePolicy(ctx, &autoscaling.DeletePolicyInput{AutoScalingGroupName: &group, PolicyName: &name})
			return err
		},
		Attributes: func(r *resource.Request, _ *types.ScalingPolicy) map[string]any {
			_, name := splitPolicyARN(r.PhysicalID)
			return map[string]any{"Arn": r.PhysicalID, "PolicyName": name}
		},
	}),
}
