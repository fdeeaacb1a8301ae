package elb

import (
	"context"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Attributes of Classic Load Balancers, as their records have them.
const (
	attributeIdle      = "idle_timeout"        // seconds
	attributeDraining  = "connection_draining" // seconds; absent where connections do not drain
	attributeCrossZone = "load_balancing.cross_zone.enabled"
	attributeDesync    = "elb.http.desyncmitigationmode"
)

// attributeHandlers returns the handlers of this file's operations and how each is authorized.
func (s Classic) attributeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeLoadBalancerAttributes, wire.OnAll),
		wire.Handle(s.ModifyLoadBalancerAttributes, func(
			ctx context.Context, action string, in *elasticloadbalancing.ModifyLoadBalancerAttributesInput,
		) ([]wire.Target, error) {
			return s.onClassics(ctx, action, []string{aws.ToString(in.LoadBalancerName)})
		}),
	}
}

// DescribeLoadBalancerAttributes returns the attributes of a load balancer.
func (s Classic) DescribeLoadBalancerAttributes(ctx context.Context,
	in *elasticloadbalancing.DescribeLoadBalancerAttributesInput) (
	*elasticloadbalancing.DescribeLoadBalancerAttributesOutput, error) {
	row, err := s.getClassic(ctx, in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	return &elasticloadbalancing.DescribeLoadBalancerAttributesOutput{
		LoadBalancerAttributes: classicAttributes(row.Value)}, nil
}

func classicAttributes(b record.LoadBalancer) *types.LoadBalancerAttributes {
	number := func(name, otherwise string) *int32 {
		n, _ := strconv.ParseInt(b.Attribute(name, otherwise), 10, 32)
		return aws.Int32(int32(n))
	}
	_, drains := b.Attributes[attributeDraining]
	return &types.LoadBalancerAttributes{
		AccessLog:              &types.AccessLog{},
		ConnectionDraining:     &types.ConnectionDraining{Enabled: drains, Timeout: number(attributeDraining, "300")},
		ConnectionSettings:     &types.ConnectionSettings{IdleTimeout: number(attributeIdle, "60")},
		CrossZoneLoadBalancing: &types.CrossZoneLoadBalancing{Enabled: b.CrossZone()},
		AdditionalAttributes: []types.AdditionalAttribute{{Key: aws.String(attributeDesync),
			Value: aws.String(b.Attribute(attributeDesync, "defensive"))}},
	}
}

// ModifyLoadBalancerAttributes changes the attributes that the request has.
func (s Classic) ModifyLoadBalancerAttributes(ctx context.Context,
	in *elasticloadbalancing.ModifyLoadBalancerAttributesInput) (
	*elasticloadbalancing.ModifyLoadBalancerAttributesOutput, error) {
	wanted := in.LoadBalancerAttributes
	if wanted == nil {
		return nil, invalid("LoadBalancerAttributes must be specified")
	}
	set, unset := map[string]string{}, []string{}
	if l := wanted.AccessLog; l != nil && l.Enabled {
		return nil, invalidConfiguration("Access logs go to Amazon S3, which coracle does not serve: disable them")
	}
	if c := wanted.CrossZoneLoadBalancing; c != nil {
		set[attributeCrossZone] = strconv.FormatBool(c.Enabled)
	}
	if c := wanted.ConnectionSettings; c != nil {
		if err := checkRange("ConnectionSettings IdleTimeout", aws.ToInt32(c.IdleTimeout), 1, 4000); err != nil {
			return nil, err
		}
		set[attributeIdle] = strconv.Itoa(int(*c.IdleTimeout))
	}
	if d := wanted.ConnectionDraining; d != nil && d.Enabled {
		timeout := int32(300)
		if d.Timeout != nil {
			timeout = *d.Timeout
		}
		if err := checkRange("ConnectionDraining Timeout", timeout, 1, 3600); err != nil {
			return nil, err
		}
		set[attributeDraining] = strconv.Itoa(int(timeout))
	} else if d != nil {
		unset = append(unset, attributeDraining)
	}
	for _, a := range wanted.AdditionalAttributes {
		if aws.ToString(a.Key) != attributeDesync {
			return nil, invalidConfiguration("There is no attribute '%s'", aws.ToString(a.Key))
		}
		switch mode := aws.ToString(a.Value); mode {
		case "monitor", "defensive", "strictest":
			set[attributeDesync] = mode
		default:
			return nil, invalidConfiguration("The attribute '%s' is monitor, defensive or strictest", attributeDesync)
		}
	}
	b, err := s.modify(ctx, in.LoadBalancerName, func(b *record.LoadBalancer) error {
		if b.Attributes == nil {
			b.Attributes = map[string]string{}
		}
		for k, v := range set {
			b.Attributes[k] = v
		}
		for _, k := range unset {
			delete(b.Attributes, k)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &elasticloadbalancing.ModifyLoadBalancerAttributesOutput{
		LoadBalancerName: in.LoadBalancerName, LoadBalancerAttributes: classicAttributes(b)}, nil
}
