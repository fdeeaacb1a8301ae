package elb

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// V2 serves the API of Application, Network and Gateway Load Balancers.
type V2 struct{}

// handlers returns the handlers of this file's operations and how each is authorized.
func (v V2) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(v.DescribeLoadBalancers, wire.OnAll),
		wire.Handle(v.DescribeTags, wire.OnAll),
		wire.Handle(v.DescribeTargetGroups, wire.OnAll),
	}
}

// DescribeLoadBalancers describes load balancers: none.
func (V2) DescribeLoadBalancers(
	ctx context.Context, in *elasticloadbalancingv2.DescribeLoadBalancersInput,
) (*elasticloadbalancingv2.DescribeLoadBalancersOutput, error) {
	if len(in.Names) > 0 && len(in.LoadBalancerArns) > 0 {
		return nil, &wire.Error{
			Code: "ValidationError", Message: "Load balancer names and load balancer ARNs cannot be specified at the same time",
			Status: 400,
		}
	}
	if wanted := append(in.Names, in.LoadBalancerArns...); len(wanted) > 0 {
		return nil, loadBalancersNotFound(wanted)
	}
	page, next, err := wire.Page(ctx, []types.LoadBalancer{}, in.PageSize, in.Marker,
		func(b types.LoadBalancer) string { return aws.ToString(b.LoadBalancerArn) })
	if err != nil {
		return nil, err
	}
	return &elasticloadbalancingv2.DescribeLoadBalancersOutput{LoadBalancers: page, NextMarker: next}, nil
}

// DescribeTargetGroups describes target groups: none.
func (V2) DescribeTargetGroups(
	ctx context.Context, in *elasticloadbalancingv2.DescribeTargetGroupsInput,
) (*elasticloadbalancingv2.DescribeTargetGroupsOutput, error) {
	if in.LoadBalancerArn != nil {
		return nil, loadBalancersNotFound([]string{*in.LoadBalancerArn})
	}
	if len(in.Names) > 0 || len(in.TargetGroupArns) > 0 {
		return nil, &types.TargetGroupNotFoundException{Message: new("One or more target groups not found")}
	}
	page, next, err := wire.Page(ctx, []types.TargetGroup{}, in.PageSize, in.Marker,
		func(g types.TargetGroup) string { return aws.ToString(g.TargetGroupArn) })
	if err != nil {
		return nil, err
	}
	return &elasticloadbalancingv2.DescribeTargetGroupsOutput{TargetGroups: page, NextMarker: next}, nil
}

// DescribeTags describes the tags of resources, which must be named by their ARNs.
func (V2) DescribeTags(
	_ context.Context, in *elasticloadbalancingv2.DescribeTagsInput,
) (*elasticloadbalancingv2.DescribeTagsOutput, error) {
	for _, arn := range in.ResourceArns {
		parts := strings.SplitN(arn, ":", 6)
		switch {
		case len(parts) < 6 || parts[0] != "arn" || parts[2] != "elasticloadbalancing":
			return nil, &wire.Error{
				Code: "ValidationError", Message: fmt.Sprintf("'%s' is not a valid ARN", arn), Status: 400,
			}
		case strings.HasPrefix(parts[5], "targetgroup/"):
			return nil, &types.TargetGroupNotFoundException{
				Message: new(fmt.Sprintf("Target groups '%s' not found", arn)),
			}
		case strings.HasPrefix(parts[5], "loadbalancer/"):
			return nil, loadBalancersNotFound([]string{arn})
		default:
			return nil, &wire.Error{
				Code: "ValidationError", Message: fmt.Sprintf("'%s' is not the ARN of a load balancer or target group", arn),
				Status: 400,
			}
		}
	}
	return &elasticloadbalancingv2.DescribeTagsOutput{TagDescriptions: []types.TagDescription{}}, nil
}

func loadBalancersNotFound(wanted []string) error {
	return &types.LoadBalancerNotFoundException{
		Message: new(fmt.Sprintf("Load balancers '[%s]' not found", strings.Join(wanted, ", "))),
	}
}
