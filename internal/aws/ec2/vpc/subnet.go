package vpc

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) newSubnetView() resource.View[record.Subnet, types.Subnet] {
	type v = types.Subnet
	ipv6 := func(member func(types.SubnetIpv6CidrBlockAssociation) *string) func(v) []string {
		return func(x v) []string { return resource.CollectValues(x.Ipv6CidrBlockAssociationSet, member) }
	}
	options := func(member func(types.PrivateDnsNameOptionsOnLaunch) *bool) func(v) []string {
		return resource.BoolFilter(func(x v) *bool { return member(*x.PrivateDnsNameOptionsOnLaunch) })
	}
	none := func(v) []string { return nil }
	zoneName, zoneID := resource.StringFilter(func(x v) *string { return x.AvailabilityZone }),
		resource.StringFilter(func(x v) *string { return x.AvailabilityZoneId })
	cidr, forAZ := resource.StringFilter(func(x v) *string { return x.CidrBlock }),
		resource.BoolFilter(func(x v) *bool { return x.DefaultForAz })
	available := func(x v) []string { return []string{strconv.Itoa(int(*x.AvailableIpAddressCount))} }
	return resource.View[record.Subnet, v]{
		Kind:   s.Subnets,
		Show:   s.viewSubnet,
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			// Those that come twice have an older name too.
			"availability-zone": zoneName, "availabilityZone": zoneName,
			"availability-zone-id": zoneID, "availabilityZoneId": zoneID,
			"available-ip-address-count": available, "availableIpAddressCount": available,
			"cidr-block": cidr, "cidr": cidr, "cidrBlock": cidr,
			"default-for-az": forAZ, "defaultForAz": forAZ,
			"customer-owned-ipv4-pool":   none,
			"enable-dns64":               resource.BoolFilter(func(x v) *bool { return x.EnableDns64 }),
			"enable-lni-at-device-index": none,
			"ipv6-cidr-block-association.ipv6-cidr-block": ipv6(
				func(a types.SubnetIpv6CidrBlockAssociation) *string { return a.Ipv6CidrBlock }),
			"ipv6-cidr-block-association.association-id": ipv6(
				func(a types.SubnetIpv6CidrBlockAssociation) *string { return a.AssociationId }),
			"ipv6-cidr-block-association.state": ipv6(
				func(a types.SubnetIpv6CidrBlockAssociation) *string { return (*string)(&a.Ipv6CidrBlockState.State) }),
			"ipv6-native": resource.BoolFilter(func(x v) *bool { return x.Ipv6Native }),
			"map-customer-owned-ip-on-launch": resource.BoolFilter(
				func(x v) *bool { return x.MapCustomerOwnedIpOnLaunch }),
			"map-public-ip-on-launch": resource.BoolFilter(
				func(x v) *bool { return x.MapPublicIpOnLaunch }),
			"outpost-arn": none,
			"owner-id":    resource.StringFilter(func(x v) *string { return x.OwnerId }),
			"private-dns-name-options-on-launch.hostname-type": resource.EnumFilter(
				func(x v) types.HostnameType { return x.PrivateDnsNameOptionsOnLaunch.HostnameType }),
			"private-dns-name-options-on-launch.enable-resource-name-dns-a-record": options(
				func(o types.PrivateDnsNameOptionsOnLaunch) *bool { return o.EnableResourceNameDnsARecord }),
			"private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record": options(
				func(o types.PrivateDnsNameOptionsOnLaunch) *bool { return o.EnableResourceNameDnsAAAARecord }),
			"state":      resource.EnumFilter(func(x v) types.SubnetState { return x.State }),
			"subnet-arn": resource.StringFilter(func(x v) *string { return x.SubnetArn }),
			"subnet-id":  resource.StringFilter(func(x v) *string { return x.SubnetId }),
			"vpc-id":     resource.StringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewSubnet(sc resource.Scope, r record.Subnet) types.Subnet {
	z, _ := sc.FindZone(r.AvailabilityZone)
	v := types.Subnet{
		AssignIpv6AddressOnCreation: aws.Bool(r.AssignIPv6AddressOnCreation),
		AvailabilityZone:            aws.String(r.AvailabilityZone),
		AvailabilityZoneId:          aws.String(z.ID),
		AvailableIpAddressCount:     aws.Int32(int32(networkinterface.FreeAddresses(s.Records, sc, r))),
		BlockPublicAccessStates: &types.BlockPublicAccessStates{
			InternetGatewayBlockMode: types.BlockPublicAccessModeOff},
		CidrBlock:                   aws.String(r.CIDR),
		DefaultForAz:                aws.Bool(r.DefaultForAZ),
		EnableDns64:                 aws.Bool(r.EnableDNS64),
		Ipv6CidrBlockAssociationSet: []types.SubnetIpv6CidrBlockAssociation{},
		Ipv6Native:                  aws.Bool(false),
		MapCustomerOwnedIpOnLaunch:  aws.Bool(false),
		MapPublicIpOnLaunch:         aws.Bool(r.MapPublicIPOnLaunch),
		OwnerId:                     aws.String(r.Account),
		PrivateDnsNameOptionsOnLaunch: &types.PrivateDnsNameOptionsOnLaunch{
			HostnameType:                    r.HostnameType,
			EnableResourceNameDnsARecord:    aws.Bool(r.EnableResourceNameDNSARecord),
			EnableResourceNameDnsAAAARecord: aws.Bool(r.EnableResourceNameDNSAAAARecord),
		},
		State:     types.SubnetStateAvailable,
		SubnetArn: aws.String(sc.ARN(types.ResourceTypeSubnet, r.ID)),
		SubnetId:  aws.String(r.ID),
		Tags:      s.ListTags(sc, r.ID),
		VpcId:     aws.String(r.VPCID),
	}
	if r.IPv6 != nil {
		v.Ipv6CidrBlockAssociationSet = append(v.Ipv6CidrBlockAssociationSet,
			*viewSubnetIPv6(*r.IPv6, types.SubnetCidrBlockStateCodeAssociated))
	}
	return v
}

func viewSubnetIPv6(a record.CIDRAssociation,
	state types.SubnetCidrBlockStateCode) *types.SubnetIpv6CidrBlockAssociation {
	return &types.SubnetIpv6CidrBlockAssociation{
		AssociationId:        aws.String(a.AssociationID),
		IpSource:             types.IpSourceAmazon,
		Ipv6AddressAttribute: types.Ipv6AddressAttributePublic,
		Ipv6CidrBlock:        aws.String(a.CIDR),
		Ipv6CidrBlockState:   &types.SubnetCidrBlockState{State: state},
	}
}

// subnetsOf returns the subnets of a VPC.
func subnetsOf(s *resource.Records, sc resource.Scope, vpcID string) ([]record.Subnet, error) {
	return s.Subnets.List(sc, func(r record.Subnet) bool { return r.VPCID == vpcID })
}

// overlapping returns the ID of a subnet whose block overlaps with block; empty when there is none.
func overlapping(subnets []record.Subnet, block netip.Prefix) string {
	for _, r := range subnets {
		if netip.MustParsePrefix(r.CIDR).Overlaps(block) || r.IPv6 != nil &&
			netip.MustParsePrefix(r.IPv6.CIDR).Overlaps(block) {
			return r.ID
		}
	}
	return ""
}

// containsBlock reports whether one of a VPC's blocks holds all of block.
func containsBlock(blocks []record.CIDRAssociation, block netip.Prefix) bool {
	for _, a := range blocks {
		if p := netip.MustParsePrefix(a.CIDR); p.Contains(block.Addr()) && p.Bits() <= block.Bits() {
			return true
		}
	}
	return false
}

func newSubnet(c *resource.Change, id, vpcID, aclID, zone string, block netip.Prefix) record.Subnet {
	return record.Subnet{
		EC2Resource:             c.NewResource(id, nil),
		VPCID:                   vpcID,
		CIDR:                    block.String(),
		AvailabilityZone:        zone,
		HostnameType:            types.HostnameTypeIpName,
		NetworkACLID:            aclID,
		NetworkACLAssociationID: resource.NewID("aclassoc-"),
	}
}

func invalidZone(sc resource.Scope, name string) error {
	var names []string
	for _, z := range sc.Zones() {
		names = append(names, z.Name)
	}
	return resource.InvalidValue(name, "availabilityZone",
		fmt.Sprintf("Subnets can currently only be created in the following availability zones: %s.",
			strings.Join(names, ", ")))
}

// subnetHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) subnetHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateSubnet, resource.Creating[ec2.CreateSubnetInput](s.Records, types.ResourceTypeSubnet)),
		wire.Handle(s.DescribeSubnets, resource.OnRegion),
		wire.Handle(s.DeleteSubnet, resource.Touching[ec2.DeleteSubnetInput](s.Records)),
		wire.Handle(s.ModifySubnetAttribute, resource.Touching[ec2.ModifySubnetAttributeInput](s.Records)),
		wire.Handle(s.AssociateSubnetCidrBlock, resource.Touching[ec2.AssociateSubnetCidrBlockInput](s.Records)),
		wire.Handle(s.DisassociateSubnetCidrBlock, resource.Touching[ec2.DisassociateSubnetCidrBlockInput](s.Records)),
	}
}

// CreateSubnet makes a subnet in one zone of a VPC.
func (s *Service) CreateSubnet(ctx context.Context, in *ec2.CreateSubnetInput) (*ec2.CreateSubnetOutput, error) {
	out, err := s.subnetView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications},
		func(c *resource.Change, id string) error {
			vpc, err := c.HoldVPC(in.VpcId)
			if err != nil {
				return err
			}
			switch {
			case in.OutpostArn != nil:
				return resource.Unsupported("OutpostArn")
			case in.Ipv4IpamPoolId != nil || in.Ipv6IpamPoolId != nil:
				return resource.Unsupported("IpamPoolId")
			case aws.ToBool(in.Ipv6Native):
				return resource.Unsupported("Ipv6Native")
			case aws.ToString(in.CidrBlock) == "":
				return resource.MissingParameter("cidrBlock")
			}
			z := c.Zones()[0]
			for _, name := range []*string{in.AvailabilityZone, in.AvailabilityZoneId} {
				if name != nil {
					var ok bool
					if z, ok = c.FindZone(*name); !ok {
						return invalidZone(c.Scope, *name)
					}
				}
			}
			block, err := ipv4Block(*in.CidrBlock, "cidrBlock")
			if err != nil {
				return err
			}
			if block.Bits() < 16 || block.Bits() > 28 || !containsBlock(vpc.CIDRs, block) {
				return wire.Errorf("InvalidSubnet.Range", "The CIDR '%s' is invalid.", block)
			}
			siblings, err := subnetsOf(s.Records, c.Scope, vpc.ID)
			if err != nil {
				return err
			}
			if overlapping(siblings, block) != "" {
				return wire.Errorf("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", block)
			}
			if len(siblings) >= resource.MaxSubnetsPerVPC {
				return wire.Errorf("SubnetLimitExceeded",
					"The maximum number of subnets for VPC '%s' has been reached.",
					vpc.ID)
			}
			acl, err := defaultACL(s.Records, c, vpc.ID)
			if err != nil {
				return err
			}
			subnet := newSubnet(c, id, vpc.ID, acl, z.Name, block)
			if in.Ipv6CidrBlock != nil {
				if subnet.IPv6, err = newSubnetIPv6(vpc, siblings, *in.Ipv6CidrBlock); err != nil {
					return err
				}
			}
			s.Subnets.CreateRecord(c, subnet)
			return nil
		})
	return &ec2.CreateSubnetOutput{Subnet: out}, err
}

// newSubnetIPv6 reads the IPv6 block of a subnet: a /64 of its VPC's that no other subnet has.
func newSubnetIPv6(vpc record.VPC, siblings []record.Subnet, cidr string) (*record.CIDRAssociation, error) {
	block, err := netip.ParsePrefix(cidr)
	if err != nil || !block.Addr().Is6() || block.Bits() != 64 {
		return nil, resource.InvalidValue(cidr, "ipv6CidrBlock", "This is not a valid IPv6 CIDR block of size /64.")
	}
	block = block.Masked()
	if !containsBlock(vpc.IPv6CIDRs, block) {
		return nil, wire.Errorf("InvalidSubnet.Range", "The CIDR '%s' is invalid.", block)
	}
	if overlapping(siblings, block) != "" {
		return nil, wire.Errorf("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", block)
	}
	return &record.CIDRAssociation{AssociationID: resource.NewID("subnet-cidr-assoc-"), CIDR: block.String()}, nil
}

// DescribeSubnets lists subnets.
func (s *Service) DescribeSubnets(ctx context.Context, in *ec2.DescribeSubnetsInput) (
	*ec2.DescribeSubnetsOutput, error) {
	found, next, err := s.subnetView.Describe(
		ctx,
		resource.Query{Operation: "DescribeSubnets", DryRun: in.DryRun, IDs: in.SubnetIds, Filters: in.Filters,
			Max:   in.MaxResults,
			Token: in.NextToken},
	)
	return &ec2.DescribeSubnetsOutput{Subnets: found, NextToken: next}, err
}

// DeleteSubnet deletes a subnet without network interfaces.
func (s *Service) DeleteSubnet(ctx context.Context, in *ec2.DeleteSubnetInput) (*ec2.DeleteSubnetOutput, error) {
	return &ec2.DeleteSubnetOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		subnet, err := s.Subnets.DeleteRecord(c, aws.ToString(in.SubnetId))
		if err != nil {
			return err
		}
		if err := c.RequireUnchanged(subnet.VPCID); err != nil {
			return err
		}
		if used, err := s.NetworkInterfaces.HasMatch(c.Scope,
			func(r record.NetworkInterface) bool { return r.SubnetID == subnet.ID }); err != nil {
			return err
		} else if used {
			return resource.DependencyViolation("subnet", subnet.ID)
		}
		return nil
	})
}

// ModifySubnetAttribute changes one attribute of a subnet.
func (s *Service) ModifySubnetAttribute(ctx context.Context, in *ec2.ModifySubnetAttributeInput) (
	*ec2.ModifySubnetAttributeOutput, error) {
	return &ec2.ModifySubnetAttributeOutput{}, s.ApplyChange(ctx, nil, func(c *resource.Change) error {
		if in.CustomerOwnedIpv4Pool != nil || in.MapCustomerOwnedIpOnLaunch != nil {
			return resource.Unsupported("CustomerOwnedIpv4Pool")
		}
		if in.EnableLniAtDeviceIndex != nil || in.DisableLniAtDeviceIndex != nil {
			return resource.Unsupported("EnableLniAtDeviceIndex")
		}
		return s.Subnets.UpdateRecord(c, aws.ToString(in.SubnetId), func(r *record.Subnet) error {
			switch in.PrivateDnsHostnameTypeOnLaunch {
			case "":
			case types.HostnameTypeIpName, types.HostnameTypeResourceName:
				r.HostnameType = in.PrivateDnsHostnameTypeOnLaunch
				return nil
			default:
				return resource.InvalidValue(in.PrivateDnsHostnameTypeOnLaunch, "privateDnsHostnameTypeOnLaunch", "")
			}
			if r.IPv6 == nil && in.AssignIpv6AddressOnCreation != nil &&
				aws.ToBool(in.AssignIpv6AddressOnCreation.Value) {
				return resource.Invalid(
					"Invalid value 'true' for assignIpv6AddressOnCreation. The subnet '%s' has no IPv6 CIDR block.",
					r.ID)
			}
			return resource.ApplySetting(
				resource.Setting{Wanted: in.MapPublicIpOnLaunch, Field: &r.MapPublicIPOnLaunch},
				resource.Setting{Wanted: in.AssignIpv6AddressOnCreation, Field: &r.AssignIPv6AddressOnCreation},
				resource.Setting{Wanted: in.EnableDns64, Field: &r.EnableDNS64},
				resource.Setting{Wanted: in.EnableResourceNameDnsARecordOnLaunch, Field: &r.EnableResourceNameDNSARecord},
				resource.Setting{Wanted: in.EnableResourceNameDnsAAAARecordOnLaunch, Field: &r.EnableResourceNameDNSAAAARecord},
			)
		})
	})
}

// AssociateSubnetCidrBlock gives a subnet its IPv6 block.
func (s *Service) AssociateSubnetCidrBlock(ctx context.Context, in *ec2.AssociateSubnetCidrBlockInput) (
	*ec2.AssociateSubnetCidrBlockOutput, error) {
	var given *record.CIDRAssociation
	err := s.ApplyChange(ctx, nil, func(c *resource.Change) error {
		if in.Ipv6IpamPoolId != nil {
			return resource.Unsupported("Ipv6IpamPoolId")
		}
		return s.Subnets.UpdateRecord(c, aws.ToString(in.SubnetId), func(r *record.Subnet) error {
			if r.IPv6 != nil {
				return wire.Errorf("InvalidSubnet.Conflict", "The subnet '%s' has the IPv6 CIDR block %s already.",
					r.ID, r.IPv6.CIDR)
			}
			vpc, err := s.VPCs.GetRecord(c.Scope, &r.VPCID)
			if err != nil {
				return err
			}
			if err := c.RequireUnchanged(vpc.ID); err != nil {
				return err
			}
			siblings, err := subnetsOf(s.Records, c.Scope, vpc.ID)
			if err != nil {
				return err
			}
			given, err = newSubnetIPv6(vpc, siblings, aws.ToString(in.Ipv6CidrBlock))
			r.IPv6 = given
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return &ec2.AssociateSubnetCidrBlockOutput{SubnetId: in.SubnetId, Ipv6CidrBlockAssociation: viewSubnetIPv6(*given,
		types.SubnetCidrBlockStateCodeAssociating)}, nil
}

// DisassociateSubnetCidrBlock takes the IPv6 block from a subnet in which nobody uses it.
func (s *Service) DisassociateSubnetCidrBlock(ctx context.Context, in *ec2.DisassociateSubnetCidrBlockInput) (
	*ec2.DisassociateSubnetCidrBlockOutput, error) {
	id := aws.ToString(in.AssociationId)
	var taken record.CIDRAssociation
	var subnetID string
	err := s.ApplyChange(ctx, nil, func(c *resource.Change) error {
		found, err := s.Subnets.List(c.Scope, func(r record.Subnet) bool {
			return r.IPv6 != nil &&
				r.IPv6.AssociationID == id
		})
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return wire.Errorf("InvalidSubnetCidrBlockAssociationID.NotFound",
				"The subnet CIDR block with association ID '%s' does not exist", id)
		}
		taken, subnetID = *found[0].IPv6, found[0].ID
		if err := c.RequireUnchanged(found[0].VPCID); err != nil {
			return err
		}
		if used, err := s.NetworkInterfaces.HasMatch(c.Scope, func(r record.NetworkInterface) bool {
			return r.SubnetID == subnetID && len(r.IPv6IPs)+len(r.IPv6Prefixes) > 0
		}); err != nil {
			return err
		} else if used {
			return wire.Errorf("InvalidCidrBlock.InUse", "The IPv6 CIDR block '%s' of subnet '%s' is in use.",
				taken.CIDR, subnetID)
		}
		return s.Subnets.UpdateRecord(c, subnetID, func(r *record.Subnet) error {
			r.IPv6, r.AssignIPv6AddressOnCreation = nil, false
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return &ec2.DisassociateSubnetCidrBlockOutput{SubnetId: &subnetID, Ipv6CidrBlockAssociation: viewSubnetIPv6(taken,
		types.SubnetCidrBlockStateCodeDisassociating)}, nil
}
