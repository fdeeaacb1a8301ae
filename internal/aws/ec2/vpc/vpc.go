package vpc

import (
	"context"
	"crypto/rand"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/ec2/securitygroup"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func (s *Service) newVPCView() resource.View[record.VPC, types.Vpc] {
	type v = types.Vpc
	return resource.View[record.VPC, v]{
		Kind:   s.VPCs,
		Show:   s.viewVPC,
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"cidr": resource.StringFilter(func(x v) *string { return x.CidrBlock }),
			"cidr-block-association.cidr-block": func(x v) []string {
				return resource.CollectValues(x.CidrBlockAssociationSet,
					func(a types.VpcCidrBlockAssociation) *string { return a.CidrBlock })
			},
			"cidr-block-association.association-id": func(x v) []string {
				return resource.CollectValues(x.CidrBlockAssociationSet,
					func(a types.VpcCidrBlockAssociation) *string { return a.AssociationId })
			},
			"cidr-block-association.state": func(x v) []string {
				return resource.CollectValues(x.CidrBlockAssociationSet,
					func(a types.VpcCidrBlockAssociation) *types.VpcCidrBlockStateCode { return &a.CidrBlockState.State })
			},
			"dhcp-options-id": resource.StringFilter(func(x v) *string { return x.DhcpOptionsId }),
			"ipv6-cidr-block-association.ipv6-cidr-block": func(x v) []string {
				return resource.CollectValues(x.Ipv6CidrBlockAssociationSet,
					func(a types.VpcIpv6CidrBlockAssociation) *string { return a.Ipv6CidrBlock })
			},
			"ipv6-cidr-block-association.ipv6-pool": func(x v) []string {
				return resource.CollectValues(x.Ipv6CidrBlockAssociationSet,
					func(a types.VpcIpv6CidrBlockAssociation) *string { return a.Ipv6Pool })
			},
			"ipv6-cidr-block-association.association-id": func(x v) []string {
				return resource.CollectValues(x.Ipv6CidrBlockAssociationSet,
					func(a types.VpcIpv6CidrBlockAssociation) *string { return a.AssociationId })
			},
			"ipv6-cidr-block-association.state": func(x v) []string {
				return resource.CollectValues(x.Ipv6CidrBlockAssociationSet,
					func(a types.VpcIpv6CidrBlockAssociation) *types.VpcCidrBlockStateCode {
						return &a.Ipv6CidrBlockState.State
					})
			},
			"is-default": resource.BoolFilter(func(x v) *bool { return x.IsDefault }),
			"isDefault":  resource.BoolFilter(func(x v) *bool { return x.IsDefault }), // the older name, which tools still use
			"owner-id":   resource.StringFilter(func(x v) *string { return x.OwnerId }),
			"state":      resource.EnumFilter(func(x v) types.VpcState { return x.State }),
			"vpc-id":     resource.StringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewVPC(sc resource.Scope, r record.VPC) types.Vpc {
	v := types.Vpc{
		CidrBlock:               aws.String(r.CIDRs[0].CIDR),
		CidrBlockAssociationSet: []types.VpcCidrBlockAssociation{},
		DhcpOptionsId:           aws.String(r.DHCPOptionsID),
		InstanceTenancy:         r.Tenancy,
		IsDefault:               aws.Bool(r.Default),
		OwnerId:                 aws.String(r.Account),
		State:                   types.VpcStateAvailable,
		Tags:                    s.ListTags(sc, r.ID),
		VpcId:                   aws.String(r.ID),
		BlockPublicAccessStates: &types.BlockPublicAccessStates{
			InternetGatewayBlockMode: types.BlockPublicAccessModeOff},
	}
	for _, a := range r.CIDRs {
		v.CidrBlockAssociationSet = append(v.CidrBlockAssociationSet,
			*viewCIDR(a, types.VpcCidrBlockStateCodeAssociated))
	}
	for _, a := range r.IPv6CIDRs {
		v.Ipv6CidrBlockAssociationSet = append(v.Ipv6CidrBlockAssociationSet,
			*viewIPv6CIDR(sc, a, types.VpcCidrBlockStateCodeAssociated))
	}
	return v
}

func viewCIDR(a record.CIDRAssociation, state types.VpcCidrBlockStateCode) *types.VpcCidrBlockAssociation {
	return &types.VpcCidrBlockAssociation{
		AssociationId:  aws.String(a.AssociationID),
		CidrBlock:      aws.String(a.CIDR),
		CidrBlockState: &types.VpcCidrBlockState{State: state},
	}
}

func viewIPv6CIDR(sc resource.Scope, a record.CIDRAssociation,
	state types.VpcCidrBlockStateCode) *types.VpcIpv6CidrBlockAssociation {
	return &types.VpcIpv6CidrBlockAssociation{
		AssociationId:        aws.String(a.AssociationID),
		IpSource:             types.IpSourceAmazon,
		Ipv6AddressAttribute: types.Ipv6AddressAttributePublic,
		Ipv6CidrBlock:        aws.String(a.CIDR),
		Ipv6CidrBlockState:   &types.VpcCidrBlockState{State: state},
		Ipv6Pool:             aws.String("Amazon"),
		NetworkBorderGroup:   aws.String(sc.Region),
	}
}

// prepareVPC adds what every VPC begins with: its contents row and default security group, and makes the VPC, its main
// route table and its default network ACL (added too) for the caller to finish. The caller adds the first two.
func prepareVPC(c *resource.Change, id string, block netip.Prefix, dhcpOptionsID string) (
	record.VPC, record.RouteTable, record.NetworkACL) {
	vpc := record.VPC{
		EC2Resource: c.NewResource(id, nil),
		CIDRs: []record.CIDRAssociation{{AssociationID: resource.NewID("vpc-cidr-assoc-"),
			CIDR: block.String()}},
		Tenancy:                     types.TenancyDefault,
		DHCPOptionsID:               dhcpOptionsID,
		MainRouteTableAssociationID: resource.NewID("rtbassoc-"),
		EnableDNSSupport:            true,
	}
	table := record.RouteTable{EC2Resource: c.NewResource(resource.NewID(c.RouteTables.Prefix), nil), VPCID: vpc.ID}
	vpc.MainRouteTableID = table.ID
	acl := record.NetworkACL{
		EC2Resource: c.NewResource(resource.NewID(c.NetworkACLs.Prefix), nil),
		VPCID:       vpc.ID,
		Default:     true,
		Entries:     openEntries(),
	}
	c.NetworkACLs.CreateRecord(c, acl)
	group := securitygroup.NewGroup(
		c, resource.NewID(c.SecurityGroups.Prefix), vpc.ID, "default", "default VPC security group",
	)
	group.Rules = append(group.Rules, record.SecurityGroupRule{
		ID: resource.NewID(resource.RulePrefix), Protocol: "-1", FromPort: -1, ToPort: -1, GroupID: group.ID,
	})
	c.SecurityGroups.CreateRecord(c, group)
	c.Add("contents/"+vpc.ID, func() store.Op {
		return c.VPCContents.CreateOp(vpc.Key(),
			record.VPCContents{})
	})
	return vpc, table, acl
}

// vpcBlock reads an IPv4 block for a VPC: canonical, /16 to /28, and not one that no network can use.
func vpcBlock(cidr string) (netip.Prefix, error) {
	block, err := ipv4Block(cidr, "cidrBlock")
	if err != nil {
		return block, err
	}
	unusable := block.Addr().IsLoopback() || block.Addr().IsLinkLocalUnicast() || block.Addr().IsMulticast() ||
		block.Addr().IsUnspecified()
	if block.Bits() < 16 || block.Bits() > 28 || unusable {
		return block, wire.Errorf("InvalidVpc.Range", "The CIDR '%s' is invalid.", cidr)
	}
	return block, nil
}

// ipv4Block reads an IPv4 block in canonical form: bits beyond the mask are cleared, as AWS does.
func ipv4Block(cidr, parameter string) (netip.Prefix, error) {
	block, err := netip.ParsePrefix(cidr)
	if err != nil || !block.Addr().Is4() {
		return block, resource.InvalidValue(cidr, parameter, "This is not a valid CIDR block.")
	}
	return block.Masked(), nil
}

// newIPv6Block returns a /56 of the documentation range, which nobody uses, so that nothing outside answers. No other
// VPC of any account has the same block, since all reach the internet through one router.
func newIPv6Block(c *resource.Change) (record.CIDRAssociation, error) {
	all, err := c.VPCs.Table.List(store.Unmetered(c), "")
	if err != nil {
		return record.CIDRAssociation{}, err
	}
	for {
		a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
		rand.Read(a[4:7])
		block := record.CIDRAssociation{AssociationID: resource.NewID("vpc-cidr-assoc-"),
			CIDR: netip.PrefixFrom(netip.AddrFrom16(a), 56).String()}
		if !slices.ContainsFunc(all, func(r store.Row[record.VPC]) bool {
			return slices.ContainsFunc(r.Value.IPv6CIDRs,
				func(other record.CIDRAssociation) bool { return other.CIDR == block.CIDR })
		}) {
			return block, nil
		}
	}
}

// vpcHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) vpcHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateVpc, resource.Creating[ec2.CreateVpcInput](s.Records, types.ResourceTypeVpc)),
		wire.Handle(s.DescribeVpcs, resource.OnRegion),
		wire.Handle(s.DeleteVpc, resource.Touching[ec2.DeleteVpcInput](s.Records)),
	}
}

// CreateVpc makes a VPC with its main route table, default network ACL and default security group.
func (s *Service) CreateVpc(ctx context.Context, in *ec2.CreateVpcInput) (*ec2.CreateVpcOutput, error) {
	out, err := s.vpcView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications},
		func(c *resource.Change, id string) error {
			switch {
			case in.Ipv4IpamPoolId != nil || in.Ipv6IpamPoolId != nil:
				return resource.Unsupported("IpamPoolId")
			case in.Ipv6Pool != nil || in.Ipv6CidrBlock != nil:
				return resource.Unsupported("Ipv6Pool")
			case aws.ToString(in.CidrBlock) == "":
				return resource.MissingParameter("cidrBlock")
			}
			block, err := vpcBlock(*in.CidrBlock)
			if err != nil {
				return err
			}
			region, err := s.Regions.Get(c, store.Key(c.Account, c.Region))
			if err != nil {
				return err
			}
			if err := s.VPCs.CheckQuota(c.Scope, resource.MaxVPCs, nil, "VpcLimitExceeded", "VPCs"); err != nil {
				return err
			}
			options, err := firstDHCPOptions(c, region.Value)
			if err != nil {
				return err
			}
			vpc, table, _ := prepareVPC(c, id, block, options)
			switch in.InstanceTenancy {
			case "", types.TenancyDefault:
			case types.TenancyDedicated:
				vpc.Tenancy = in.InstanceTenancy
			default:
				return wire.Errorf("UnsupportedTenancy", "The tenancy value %s is not supported.", in.InstanceTenancy)
			}
			if aws.ToBool(in.AmazonProvidedIpv6CidrBlock) {
				block, err := newIPv6Block(c)
				if err != nil {
					return err
				}
				vpc.IPv6CIDRs = []record.CIDRAssociation{block}
			}
			s.VPCs.CreateRecord(c, vpc)
			s.RouteTables.CreateRecord(c, table)
			return nil
		})
	if out != nil {
		out.State = types.VpcStatePending
	}
	return &ec2.CreateVpcOutput{Vpc: out}, err
}

// DescribeVpcs lists VPCs.
func (s *Service) DescribeVpcs(ctx context.Context, in *ec2.DescribeVpcsInput) (*ec2.DescribeVpcsOutput, error) {
	found, next, err := s.vpcView.Describe(
		ctx,
		resource.Query{Operation: "DescribeVpcs", DryRun: in.DryRun, IDs: in.VpcIds, Filters: in.Filters,
			Max: in.MaxResults, Token: in.NextToken},
	)
	return &ec2.DescribeVpcsOutput{Vpcs: found, NextToken: next}, err
}

// DeleteVpc deletes a VPC in which nothing is left but what came with it.
func (s *Service) DeleteVpc(ctx context.Context, in *ec2.DeleteVpcInput) (*ec2.DeleteVpcOutput, error) {
	return &ec2.DeleteVpcOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		vpc, err := s.VPCs.DeleteRecord(c, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		if err := c.RequireUnchanged(vpc.ID); err != nil {
			return err
		}
		if used, err := anyInVPC(c, vpc); err != nil {
			return err
		} else if used {
			return resource.DependencyViolation("vpc", vpc.ID)
		}
		groups, err := s.SecurityGroups.List(c.Scope, func(g record.SecurityGroup) bool { return g.VPCID == vpc.ID })
		if err != nil {
			return err
		}
		for _, g := range groups {
			if _, err := s.SecurityGroups.DeleteRecord(c, g.ID); err != nil {
				return err
			}
			securitygroup.UntagRules(c, g.Rules...)
		}
		acl, err := defaultACL(s.Records, c, vpc.ID)
		if err != nil {
			return err
		}
		if _, err := s.NetworkACLs.DeleteRecord(c, acl); err != nil {
			return err
		}
		if _, err := s.RouteTables.DeleteRecord(c, vpc.MainRouteTableID); err != nil {
			return err
		}
		c.ReleaseVPC(vpc.ID)
		return nil
	})
}

// anyInVPC reports whether the VPC has anything that its owner must delete before it.
func anyInVPC(c *resource.Change, vpc record.VPC) (bool, error) {
	s, sc := c.Records, c.Scope
	for _, look := range []func() (bool, error){
		func() (bool, error) {
			return s.Subnets.HasMatch(sc, func(r record.Subnet) bool { return r.VPCID == vpc.ID })
		},
		func() (bool, error) {
			return s.SecurityGroups.HasMatch(sc, func(r record.SecurityGroup) bool {
				return r.VPCID == vpc.ID &&
					r.Name != "default"
			})
		},
		func() (bool, error) {
			return s.RouteTables.HasMatch(sc, func(r record.RouteTable) bool {
				return r.VPCID == vpc.ID &&
					r.ID != vpc.MainRouteTableID
			})
		},
		func() (bool, error) {
			return s.NetworkACLs.HasMatch(sc, func(r record.NetworkACL) bool { return r.VPCID == vpc.ID && !r.Default })
		},
		func() (bool, error) {
			return s.InternetGateways.HasMatch(sc, func(r record.InternetGateway) bool { return r.VPCID == vpc.ID })
		},
		func() (bool, error) {
			return s.EgressOnlyInternetGateways.HasMatch(sc, func(r record.EgressOnlyInternetGateway) bool {
				return r.VPCID == vpc.ID
			})
		},
		func() (bool, error) {
			return s.VPCEndpoints.HasMatch(sc, func(r record.VPCEndpoint) bool { return r.VPCID == vpc.ID })
		},
	} {
		if used, err := look(); used || err != nil {
			return used, err
		}
	}
	return false, nil
}
