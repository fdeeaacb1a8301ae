package elb

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// SetSecurityGroups gives a load balancer other security groups, if it was created with some.
//
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_SetSecurityGroups.html
func (s V2) SetSecurityGroups(ctx context.Context, in *elasticloadbalancingv2.SetSecurityGroupsInput) (
	*elasticloadbalancingv2.SetSecurityGroupsOutput, error) {
	enforce := in.EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic
	switch {
	case hasDuplicate(in.SecurityGroups):
		return nil, wire.Errorf("InvalidSecurityGroup", "A security group is given twice")
	case enforce != "" && !slices.Contains(enforce.Values(), enforce):
		return nil, invalid("EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic '%s' must be one of: on, off", enforce)
	}
	out := &elasticloadbalancingv2.SetSecurityGroupsOutput{SecurityGroupIds: in.SecurityGroups}
	return out, s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.getBalancer(c, in.LoadBalancerArn)
		switch {
		case err != nil:
			return err
		case len(row.Value.SecurityGroupIDs) == 0:
			return invalidConfiguration("You cannot set security groups on a load balancer that was created without " +
				"security groups")
		case len(in.SecurityGroups) == 0:
			return invalidConfiguration("At least one security group must be specified")
		case enforce != "" && row.Value.Kind != record.NetworkLoadBalancer:
			return invalidConfiguration("EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic is for Network Load " +
				"Balancers")
		}
		if err := planGroups(c, &row.Value, in.SecurityGroups); err != nil {
			return err
		}
		if enforce != "" {
			row.Value.PrivateLinkUnfiltered = enforce == types.EnforceSecurityGroupInboundRulesOnPrivateLinkTrafficEnumOff
		}
		out.EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic = enforcedOnPrivateLink(row.Value)
		s.planUpdate(c, row)
		return nil
	})
}

// enforcedOnPrivateLink returns "on" or "off": whether the security groups of a Network Load Balancer are for traffic
// through AWS PrivateLink. It is empty for a load balancer to which that does not apply.
func enforcedOnPrivateLink(b record.LoadBalancer) types.EnforceSecurityGroupInboundRulesOnPrivateLinkTrafficEnum {
	switch {
	case b.Kind != record.NetworkLoadBalancer || len(b.SecurityGroupIDs) == 0:
		return ""
	case b.PrivateLinkUnfiltered:
		return types.EnforceSecurityGroupInboundRulesOnPrivateLinkTrafficEnumOff
	default:
		return types.EnforceSecurityGroupInboundRulesOnPrivateLinkTrafficEnumOn
	}
}

// SetSubnets gives a load balancer other subnets. Those that it keeps keep their network interfaces.
func (s V2) SetSubnets(ctx context.Context, in *elasticloadbalancingv2.SetSubnetsInput) (
	out *elasticloadbalancingv2.SetSubnetsOutput, err error) {
	out = &elasticloadbalancingv2.SetSubnetsOutput{IpAddressType: types.IpAddressTypeIpv4}
	return out, s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.getBalancer(c, in.LoadBalancerArn)
		if err != nil {
			return err
		}
		switch {
		case in.EnablePrefixForIpv6SourceNat == types.EnablePrefixForIpv6SourceNatEnumOn:
			return prefixesNeedIPv6()
		case row.Value.Kind == record.NetworkLoadBalancer:
			out.EnablePrefixForIpv6SourceNat = types.EnablePrefixForIpv6SourceNatEnumOff
		}
		wanted, err := requestedZones(row.Value, in.Subnets, in.SubnetMappings)
		if err != nil {
			return err
		}
		var kept, gone []record.LoadBalancerZone
		zones := len(row.Value.Zones)
		for _, z := range row.Value.Zones {
			if slices.ContainsFunc(wanted, func(w zoneRequest) bool { return w.subnet == z.SubnetID }) {
				kept = append(kept, z)
			} else {
				gone = append(gone, z)
			}
		}
		wanted = slices.DeleteFunc(wanted, func(w zoneRequest) bool {
			return slices.ContainsFunc(kept, func(z record.LoadBalancerZone) bool { return z.SubnetID == w.subnet })
		})
		row.Value.Zones = kept
		if err := s.planZones(c, &row.Value, wanted); err != nil {
			return err
		}
		if err := checkZones(row.Value); err != nil {
			return err
		}
		if len(row.Value.Zones) > zones {
			if err := s.checkWeight(c, row.Value); err != nil {
				return err
			}
		}
		if err := planRemoval(c, gone); err != nil {
			return err
		}
		out.AvailabilityZones = describeBalancer(row.Value, record.LoadBalancerStatus{}).AvailabilityZones
		s.planUpdate(c, row)
		return nil
	})
}

// SetIpAddressType accepts the only type that there is.
func (s V2) SetIpAddressType(ctx context.Context, in *elasticloadbalancingv2.SetIpAddressTypeInput) (
	*elasticloadbalancingv2.SetIpAddressTypeOutput, error) {
	if _, err := s.getBalancer(ctx, in.LoadBalancerArn); err != nil {
		return nil, err
	}
	if in.IpAddressType != types.IpAddressTypeIpv4 {
		return nil, invalidConfiguration("coracle has load balancers with the IP address type 'ipv4' alone, not '%s'",
			in.IpAddressType)
	}
	return &elasticloadbalancingv2.SetIpAddressTypeOutput{IpAddressType: in.IpAddressType}, nil
}
