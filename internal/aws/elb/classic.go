package elb

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Classic serves the API of Classic Load Balancers.
type Classic struct{}

// handlers returns the handlers of this file's operations and how each is authorized.
func (c Classic) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(c.DescribeLoadBalancers, wire.OnAll),
		wire.Handle(c.DescribeTags, wire.OnAll),
	}
}

// DescribeLoadBalancers describes load balancers: none.
func (Classic) DescribeLoadBalancers(
	ctx context.Context, in *elasticloadbalancing.DescribeLoadBalancersInput,
) (*elasticloadbalancing.DescribeLoadBalancersOutput, error) {
	if len(in.LoadBalancerNames) > 0 {
		return nil, classicNotFound(in.LoadBalancerNames[0])
	}
	page, next, err := wire.Page(ctx, []types.LoadBalancerDescription{}, in.PageSize, in.Marker,
		func(b types.LoadBalancerDescription) string { return aws.ToString(b.LoadBalancerName) })
	if err != nil {
		return nil, err
	}
	return &elasticloadbalancing.DescribeLoadBalancersOutput{LoadBalancerDescriptions: page, NextMarker: next}, nil
}

// DescribeTags describes the tags of load balancers, which must be named.
func (Classic) DescribeTags(
	_ context.Context, in *elasticloadbalancing.DescribeTagsInput,
) (*elasticloadbalancing.DescribeTagsOutput, error) {
	if len(in.LoadBalancerNames) > 0 {
		return nil, classicNotFound(in.LoadBalancerNames[0])
	}
	return &elasticloadbalancing.DescribeTagsOutput{TagDescriptions: []types.TagDescription{}}, nil
}

func classicNotFound(name string) error {
	return &types.AccessPointNotFoundException{
		Message: new(fmt.Sprintf("There is no ACTIVE Load Balancer named '%s'", name)),
	}
}
