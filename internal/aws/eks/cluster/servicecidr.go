package cluster

import (
	"context"
	"crypto/rand"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/record"
)

var rfc1918 = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
}

// The blocks that EKS chooses from for services.
const serviceCIDRIn10, serviceCIDRIn172 = "10.100.0.0/16", "172.20.0.0/16"

func withinRFC1918(p netip.Prefix) bool {
	for _, private := range rfc1918 {
		if private.Contains(p.Addr()) && p.Bits() >= private.Bits() {
			return true
		}
	}
	return false
}

// chooseServiceCIDR gives a new cluster the block of its services' addresses, away from its VPC's.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
func (s *Service) chooseServiceCIDR(
	ctx context.Context, c *record.Cluster, in *types.KubernetesNetworkConfigRequest,
) error {
	if in == nil {
		in = &types.KubernetesNetworkConfigRequest{}
	}
	v4, v6, err := s.vpcPrefixes(ctx, *c)
	if err != nil {
		return err
	}
	asked := aws.ToString(in.ServiceIpv4Cidr)
	switch c.IPFamily = in.IpFamily; c.IPFamily {
	case types.IpFamilyIpv6:
		if asked != "" {
			return exception.InvalidParameter(c.Name, "serviceIpv4Cidr can't be specified when ipFamily is ipv6")
		}
		return s.chooseIPv6(ctx, c, v6)
	case types.IpFamilyIpv4:
	case "":
		c.IPFamily = types.IpFamilyIpv4
	default:
		return exception.InvalidParameter(c.Name, "ipFamily %s is invalid: it must be one of [ipv4, ipv6]", in.IpFamily)
	}
	if asked == "" {
		var ok bool
		if c.ServiceIPv4CIDR, ok = defaultServiceCIDR(v4); !ok {
			return exception.InvalidParameter(
				c.Name, "VPC %s overlaps with %s and %s, which services get addresses from by default: specify serviceIpv4Cidr",
				c.VPCID, serviceCIDRIn10, serviceCIDRIn172,
			)
		}
		return nil
	}
	p, err := netip.ParsePrefix(asked)
	switch {
	case err != nil || !p.Addr().Is4():
		return exception.InvalidParameter(c.Name, "serviceIpv4Cidr %s is not a valid IPv4 CIDR block", asked)
	case p != p.Masked():
		return exception.InvalidParameter(
			c.Name, "serviceIpv4Cidr %s has bits set beyond its mask: did you mean %s?", asked, p.Masked(),
		)
	case p.Bits() < 12 || p.Bits() > 24:
		return exception.InvalidParameter(c.Name, "serviceIpv4Cidr %s must be between /24 and /12", asked)
	case !withinRFC1918(p):
		return exception.InvalidParameter(
			c.Name,
			"serviceIpv4Cidr %s must be within one of the following private IP address blocks: 10.0.0.0/8, "+
				"172.16.0.0/12, or 192.168.0.0/16",
			asked,
		)
	}
	for _, block := range v4 {
		if p.Overlaps(block) {
			return exception.InvalidParameter(
				c.Name, "serviceIpv4Cidr %s overlaps with the CIDR block %s of VPC %s", asked, block, c.VPCID,
			)
		}
	}
	c.ServiceIPv4CIDR = asked
	return nil
}

// defaultServiceCIDR returns 10.100.0.0/16, or 172.20.0.0/16 when the VPC has addresses in 10.0.0.0/8; the other one if
// the VPC overlaps with that, and none if it overlaps with both.
func defaultServiceCIDR(vpc []netip.Prefix) (cidr string, ok bool) {
	overlaps := func(block netip.Prefix) bool { return slices.ContainsFunc(vpc, block.Overlaps) }
	choices := []string{serviceCIDRIn10, serviceCIDRIn172}
	if overlaps(rfc1918[0]) {
		slices.Reverse(choices)
	}
	for _, choice := range choices {
		if !overlaps(netip.MustParsePrefix(choice)) {
			return choice, true
		}
	}
	return "", false
}

// chooseIPv6 gives the cluster a block of unique local addresses (RFC 4193), as EKS does.
func (s *Service) chooseIPv6(ctx context.Context, c *record.Cluster, vpc []netip.Prefix) error {
	if len(vpc) == 0 {
		return exception.InvalidParameter(c.Name, "VPC %s must have an IPv6 CIDR block when ipFamily is ipv6", c.VPCID)
	}
	for _, id := range c.SubnetIDs {
		row, err := s.subnets.Get(ctx, record.EC2Key(c.Account, c.Region, id))
		if err != nil {
			return err
		}
		if row.Value.IPv6 == nil {
			return exception.InvalidParameter(
				c.Name, "Subnet %s must have an IPv6 CIDR block when ipFamily is ipv6", id,
			)
		}
	}
	var a [16]byte
	rand.Read(a[1:6])
	a[0] = 0xfd
	c.ServiceIPv6CIDR = netip.PrefixFrom(netip.AddrFrom16(a), 108).String()
	return nil
}
