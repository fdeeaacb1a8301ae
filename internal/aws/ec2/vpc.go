package ec2

import (
	"context"
	"crypto/rand"
	"net/netip"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Quotas. AWS starts lower with VPCs and addresses (five each), and raises them on request.
// https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html
const (
	maxVPCs              = 100
	maxCIDRsPerVPC       = 5
	maxSubnetsPerVPC     = 200
	maxInternetGateways  = 100
	maxAddresses         = 100
	maxRoutesPerTable    = 500
	maxRouteTablesPerVPC = 200
	maxACLsPerVPC        = 200
	maxGroups            = 2500
	// The rules of each direction in a group, and the groups of an interface.
	maxRulesPerGroup      = 60
	maxGroupsPerInterface = 5
)

func decimal(n int) string { return strconv.Itoa(n) }

func (s *Service) vpcKind() kind[record.VPC, types.Vpc] {
	type v = types.Vpc
	return kind[record.VPC, v]{
		naming: naming{
			resource: types.ResourceTypeVpc, prefix: "vpc-", noun: "vpc ID", param: "vpcId",
			notFound: "InvalidVpcID.NotFound", malformed: "InvalidVpcID.Malformed",
		},
		table:  record.VPCs(s.store),
		view:   s.viewVPC,
		tagged: func(x v) []types.Tag { return x.Tags },
		vpc:    func(r record.VPC) string { return r.ID },
		filters: filters[v]{
			"cidr": stringFilter(func(x v) *string { return x.CidrBlock }),
			"cidr-block-association.cidr-block": func(x v) []string {
				return collectValues(x.CidrBlockAssociationSet,
					func(a types.VpcCidrBlockAssociation) *string { return a.CidrBlock })
			},
			"cidr-block-association.association-id": func(x v) []string {
				return collectValues(x.CidrBlockAssociationSet,
					func(a types.VpcCidrBlockAssociation) *string { return a.AssociationId })
			},
			"cidr-block-association.state": func(x v) []string {
				return collectValues(x.CidrBlockAssociationSet,
					func(a types.VpcCidrBlockAssociation) *types.VpcCidrBlockStateCode { return &a.CidrBlockState.State })
			},
			"dhcp-options-id": stringFilter(func(x v) *string { return x.DhcpOptionsId }),
			"ipv6-cidr-block-association.ipv6-cidr-block": func(x v) []string {
				return collectValues(x.Ipv6CidrBlockAssociationSet,
					func(a types.VpcIpv6CidrBlockAssociation) *string { return a.Ipv6CidrBlock })
			},
			"ipv6-cidr-block-association.ipv6-pool": func(x v) []string {
				return collectValues(x.Ipv6CidrBlockAssociationSet,
					func(a types.VpcIpv6CidrBlockAssociation) *string { return a.Ipv6Pool })
			},
			"ipv6-cidr-block-association.association-id": func(x v) []string {
				return collectValues(x.Ipv6CidrBlockAssociationSet,
					func(a types.VpcIpv6CidrBlockAssociation) *string { return a.AssociationId })
			},
			"ipv6-cidr-block-association.state": func(x v) []string {
				return collectValues(x.Ipv6CidrBlockAssociationSet,
					func(a types.VpcIpv6CidrBlockAssociation) *types.VpcCidrBlockStateCode {
						return &a.Ipv6CidrBlockState.State
					})
			},
			"is-default": boolFilter(func(x v) *bool { return x.IsDefault }),
			"isDefault":  boolFilter(func(x v) *bool { return x.IsDefault }), // the older name, which tools still use
			"owner-id":   stringFilter(func(x v) *string { return x.OwnerId }),
			"state":      enumFilter(func(x v) types.VpcState { return x.State }),
			"vpc-id":     stringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewVPC(in scope, r record.VPC) types.Vpc {
	v := types.Vpc{
		CidrBlock:               aws.String(r.CIDRs[0].CIDR),
		CidrBlockAssociationSet: []types.VpcCidrBlockAssociation{},
		DhcpOptionsId:           aws.String(r.DHCPOptionsID),
		InstanceTenancy:         r.Tenancy,
		IsDefault:               aws.Bool(r.Default),
		OwnerId:                 aws.String(r.Account),
		State:                   types.VpcStateAvailable,
		Tags:                    s.listTags(in, r.ID),
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
			*viewIPv6CIDR(in, a, types.VpcCidrBlockStateCodeAssociated))
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

func viewIPv6CIDR(in scope, a record.CIDRAssociation,
	state types.VpcCidrBlockStateCode) *types.VpcIpv6CidrBlockAssociation {
	return &types.VpcIpv6CidrBlockAssociation{
		AssociationId:        aws.String(a.AssociationID),
		IpSource:             types.IpSourceAmazon,
		Ipv6AddressAttribute: types.Ipv6AddressAttributePublic,
		Ipv6CidrBlock:        aws.String(a.CIDR),
		Ipv6CidrBlockState:   &types.VpcCidrBlockState{State: state},
		Ipv6Pool:             aws.String("Amazon"),
		NetworkBorderGroup:   aws.String(in.region),
	}
}

// prepareVPC adds what every VPC begins with: its contents row and default security group, and makes the VPC, its main
// route table and its default network ACL (added too) for the caller to finish. The caller adds the first two.
func (c *change) prepareVPC(id string, block netip.Prefix, dhcpOptionsID string) (record.VPC, record.RouteTable,
	record.NetworkACL) {
	vpc := record.VPC{
		EC2Resource: c.identity(id, nil),
		CIDRs: []record.CIDRAssociation{{AssociationID: newID("vpc-cidr-assoc-"),
			CIDR: block.String()}},
		Tenancy:                     types.TenancyDefault,
		DHCPOptionsID:               dhcpOptionsID,
		MainRouteTableAssociationID: newID("rtbassoc-"),
		EnableDNSSupport:            true,
	}
	table := record.RouteTable{EC2Resource: c.identity(newID(c.s.routeTables.prefix), nil), VPCID: vpc.ID}
	vpc.MainRouteTableID = table.ID
	acl := record.NetworkACL{EC2Resource: c.identity(newID(c.s.acls.prefix), nil), VPCID: vpc.ID, Default: true,
		Entries: openEntries()}
	c.s.acls.createRecord(c, acl)
	group := c.newGroup(newID(c.s.groups.prefix), vpc.ID, "default", "default VPC security group")
	group.Rules = append(group.Rules, record.SecurityGroupRule{
		ID: newID(rulePrefix), Protocol: "-1", FromPort: -1, ToPort: -1, GroupID: group.ID,
	})
	c.s.groups.createRecord(c, group)
	c.add("contents/"+vpc.ID, &pending{op: func() store.Op {
		return c.s.contents.CreateOp(vpc.Key(),
			record.VPCContents{})
	}})
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
		return block, invalidValue(cidr, parameter, "This is not a valid CIDR block.")
	}
	return block.Masked(), nil
}

// newIPv6Block is a /56 of the documentation range, which is nobody's, so that nothing outside answers; and none of the
// account's other VPCs has it.
func (c *change) newIPv6Block() (record.CIDRAssociation, error) {
	for {
		a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
		rand.Read(a[4:7])
		block := record.CIDRAssociation{AssociationID: newID("vpc-cidr-assoc-"),
			CIDR: netip.PrefixFrom(netip.AddrFrom16(a), 56).String()}
		taken, err := c.s.vpcs.hasMatch(c.scope, func(r record.VPC) bool {
			return slices.ContainsFunc(r.IPv6CIDRs,
				func(other record.CIDRAssociation) bool { return other.CIDR == block.CIDR })
		})
		if err != nil || !taken {
			return block, err
		}
	}
}

// vpcHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) vpcHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateVpc, creating[ec2.CreateVpcInput](s, types.ResourceTypeVpc)),
		wire.Handle(s.DescribeVpcs, onRegion),
		wire.Handle(s.DeleteVpc, touching[ec2.DeleteVpcInput](s)),
	}
}

// CreateVpc makes a VPC with its main route table, default network ACL and default security group.
func (s *Service) CreateVpc(ctx context.Context, in *ec2.CreateVpcInput) (*ec2.CreateVpcOutput, error) {
	out, err := createResource(ctx, s, s.vpcs, creation{dryRun: in.DryRun, tags: in.TagSpecifications},
		func(c *change, id string) error {
			switch {
			case in.Ipv4IpamPoolId != nil || in.Ipv6IpamPoolId != nil:
				return unsupported("IpamPoolId")
			case in.Ipv6Pool != nil || in.Ipv6CidrBlock != nil:
				return unsupported("Ipv6Pool")
			case aws.ToString(in.CidrBlock) == "":
				return missing("cidrBlock")
			}
			block, err := vpcBlock(*in.CidrBlock)
			if err != nil {
				return err
			}
			region, err := s.regions.Get(c, store.Key(c.account, c.region))
			if err != nil {
				return err
			}
			if err := s.vpcs.checkQuota(c.scope, maxVPCs, nil, "VpcLimitExceeded", "VPCs"); err != nil {
				return err
			}
			options, err := c.firstDHCPOptions(region.Value)
			if err != nil {
				return err
			}
			vpc, table, _ := c.prepareVPC(id, block, options)
			switch in.InstanceTenancy {
			case "", types.TenancyDefault:
			case types.TenancyDedicated:
				vpc.Tenancy = in.InstanceTenancy
			default:
				return wire.Errorf("UnsupportedTenancy", "The tenancy value %s is not supported.", in.InstanceTenancy)
			}
			if aws.ToBool(in.AmazonProvidedIpv6CidrBlock) {
				block, err := c.newIPv6Block()
				if err != nil {
					return err
				}
				vpc.IPv6CIDRs = []record.CIDRAssociation{block}
			}
			s.vpcs.createRecord(c, vpc)
			s.routeTables.createRecord(c, table)
			return nil
		})
	if out != nil {
		out.State = types.VpcStatePending
	}
	return &ec2.CreateVpcOutput{Vpc: out}, err
}

// DescribeVpcs lists VPCs.
func (s *Service) DescribeVpcs(ctx context.Context, in *ec2.DescribeVpcsInput) (*ec2.DescribeVpcsOutput, error) {
	found, next, err := describe(ctx, s, s.vpcs, query{in.DryRun, in.VpcIds, in.Filters, in.MaxResults, in.NextToken})
	return &ec2.DescribeVpcsOutput{Vpcs: found, NextToken: next}, err
}

// DeleteVpc deletes a VPC in which nothing is left but what came with it.
func (s *Service) DeleteVpc(ctx context.Context, in *ec2.DeleteVpcInput) (*ec2.DeleteVpcOutput, error) {
	return &ec2.DeleteVpcOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		vpc, err := s.vpcs.deleteRecord(c, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		if err := c.requireUnchanged(vpc.ID); err != nil {
			return err
		}
		if used, err := c.anyInVPC(vpc); err != nil {
			return err
		} else if used {
			return dependency("vpc", vpc.ID)
		}
		groups, err := s.groups.list(c.scope, func(g record.SecurityGroup) bool { return g.VPCID == vpc.ID })
		if err != nil {
			return err
		}
		for _, g := range groups {
			if _, err := s.groups.deleteRecord(c, g.ID); err != nil {
				return err
			}
			c.untagRules(g.Rules...)
		}
		acl, err := s.defaultACL(c, vpc.ID)
		if err != nil {
			return err
		}
		if _, err := s.acls.deleteRecord(c, acl); err != nil {
			return err
		}
		if _, err := s.routeTables.deleteRecord(c, vpc.MainRouteTableID); err != nil {
			return err
		}
		c.release(vpc.ID)
		return nil
	})
}

// anyInVPC reports whether the VPC has anything that its owner must delete before it.
func (c *change) anyInVPC(vpc record.VPC) (bool, error) {
	s, in := c.s, c.scope
	for _, look := range []func() (bool, error){
		func() (bool, error) {
			return s.subnets.hasMatch(in, func(r record.Subnet) bool { return r.VPCID == vpc.ID })
		},
		func() (bool, error) {
			return s.groups.hasMatch(in, func(r record.SecurityGroup) bool {
				return r.VPCID == vpc.ID &&
					r.Name != "default"
			})
		},
		func() (bool, error) {
			return s.routeTables.hasMatch(in, func(r record.RouteTable) bool {
				return r.VPCID == vpc.ID &&
					r.ID != vpc.MainRouteTableID
			})
		},
		func() (bool, error) {
			return s.acls.hasMatch(in, func(r record.NetworkACL) bool { return r.VPCID == vpc.ID && !r.Default })
		},
		func() (bool, error) {
			return s.igws.hasMatch(in, func(r record.InternetGateway) bool { return r.VPCID == vpc.ID })
		},
		func() (bool, error) {
			return s.eigws.hasMatch(in, func(r record.EgressOnlyInternetGateway) bool { return r.VPCID == vpc.ID })
		},
		func() (bool, error) {
			return s.endpoints.hasMatch(in, func(r record.VPCEndpoint) bool { return r.VPCID == vpc.ID })
		},
	} {
		if used, err := look(); used || err != nil {
			return used, err
		}
	}
	return false, nil
}
