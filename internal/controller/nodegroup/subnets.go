package nodegroup

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// missingSubnets returns the group's subnets that are gone.
func (g *group) missingSubnets(ctx context.Context) []string {
	var ids []string
	for _, id := range g.row.SubnetIDs {
		if _, err := record.Subnets(g.c.o.Store).Get(ctx, record.EC2Key(g.row.Account, g.row.Region, id)); err != nil &&
			store.IgnoreNotFound(err) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// checkPublicAddresses refuses to launch nodes without a public address into public subnets: they would reach nothing.
// A launch template of the user's may have its own mind about addresses.
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-concepts
func (g *group) checkPublicAddresses(ctx context.Context) error {
	if g.asg != nil || g.cluster.IPFamily == ekstypes.IpFamilyIpv6 {
		return nil
	}
	if want := g.row.Wanted(g.last); want.LaunchTemplate != nil {
		data, err := g.usersTemplate(ctx, *want.LaunchTemplate)
		if err != nil {
			return err
		}
		for _, n := range data.NetworkInterfaces {
			if aws.ToBool(n.AssociatePublicIpAddress) {
				return nil
			}
		}
	}
	var ids []string
	for _, id := range g.row.SubnetIDs {
		subnet, err := record.Subnets(g.c.o.Store).Get(ctx, record.EC2Key(g.row.Account, g.row.Region, id))
		if err != nil {
			return err
		}
		public, err := g.isPublicSubnet(ctx, subnet.Value)
		if err != nil {
			return err
		}
		if public && !subnet.Value.MapPublicIPOnLaunch {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return &problem{ekstypes.Issue{
		Code: ekstypes.NodegroupIssueCodeEc2SubnetInvalidConfiguration, ResourceIds: ids,
		Message: ptr("One or more Amazon EC2 Subnets of [" + strings.Join(ids, ", ") + "] for node group " +
			g.row.Name + " does not automatically assign public IP addresses to instances launched into it. " +
			"If you want your instances to be assigned a public IP address, then you need to enable auto-assign " +
			"public IP address for the subnet. " +
			"See IP addressing in VPC guide: " +
			"https://docs.aws.amazon.com/vpc/latest/userguide/vpc-ip-addressing.html#subnet-public-ip"),
	}}
}

// isPublicSubnet reports whether a subnet's default route goes through an internet gateway.
func (g *group) isPublicSubnet(ctx context.Context, s record.Subnet) (bool, error) {
	id := s.RouteTableID
	if id == "" {
		vpc, err := record.VPCs(g.c.o.Store).Get(ctx, record.EC2Key(g.row.Account, g.row.Region, s.VPCID))
		if err != nil {
			return false, err
		}
		id = vpc.Value.MainRouteTableID
	}
	table, err := record.RouteTables(g.c.o.Store).Get(ctx, record.EC2Key(g.row.Account, g.row.Region, id))
	if err != nil {
		return false, store.IgnoreNotFound(err)
	}
	return slices.ContainsFunc(table.Value.Routes, func(r record.Route) bool {
		to, err := netip.ParsePrefix(r.Destination)
		return err == nil && to.Bits() == 0 && to.Addr().Is4() && strings.HasPrefix(r.Target, "igw-")
	}), nil
}
