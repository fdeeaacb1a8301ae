package ec2

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) subnetKind() kind[record.Subnet, types.Subnet] {
	type v = types.Subnet
	ipv6 := func(member func(types.SubnetIpv6CidrBlockAssociation) *string) func(v) []string {
		return func(x v) []string { return collectValues(x.Ipv6CidrBlockAssociationSet, member) }
	}
	options := func(member func(types.PrivateDnsNameOptionsOnLaunch) *bool) func(v) []string {
		return boolFilter(func(x v) *bool { return member(*x.PrivateDnsNameOptionsOnLaunch) })
	}
	none := func(v) []string { return nil }
	zoneName, zoneID := stringFilter(func(x v) *string { return x.AvailabilityZone }),
		stringFilter(func(x v) *string { return x.AvailabilityZoneId })
	cidr, forAZ := stringFilter(func(x v) *string { return x.CidrBlock }),
		boolFilter(func(x v) *bool { return x.DefaultForAz })
	available := func(x v) []string { return []string{strconv.Itoa(int(*x.AvailableIpAddressCount))} }
	return kind[record.Subnet, v]{
		naming: naming{
			resource: types.ResourceTypeSubnet, prefix: "subnet-", noun: "subnet ID", param: "subnetId",
			notFound: "InvalidSubnetID.NotFound", malformed: "InvalidSubnetID.Malformed",
		},
		table:  record.Subnets(s.store),
		view:   s.viewSubnet,
		tagged: func(x v) []types.Tag { return x.Tags },
		vpc:    func(r record.Subnet) string { return r.VPCID },
		filters: filters[v]{
			// Those that come twice have an older name too.
			"availability-zone": zoneName, "availabilityZone": zoneName,
			"availability-zone-id": zoneID, "availabilityZoneId": zoneID,
			"available-ip-address-count": available, "availableIpAddressCount": available,
			"cidr-block": cidr, "cidr": cidr, "cidrBlock": cidr,
			"default-for-az": forAZ, "defaultForAz": forAZ,
			"customer-owned-ipv4-pool":   none,
			"enable-dns64":               boolFilter(func(x v) *bool { return x.EnableDns64 }),
			"enable-lni-at-device-index": none,
			"ipv6-cidr-block-association.ipv6-cidr-block": ipv6(
				func(a types.SubnetIpv6CidrBlockAssociation) *string { return a.Ipv6CidrBlock }),
			"ipv6-cidr-block-association.association-id": ipv6(
				func(a types.SubnetIpv6CidrBlockAssociation) *string { return a.AssociationId }),
			"ipv6-cidr-block-association.state": ipv6(
				func(a types.SubnetIpv6CidrBlockAssociation) *string { return (*string)(&a.Ipv6CidrBlockState.State) }),
			"ipv6-native": boolFilter(func(x v) *bool { return x.Ipv6Native }),
			"map-customer-owned-ip-on-launch": boolFilter(
				func(x v) *bool { return x.MapCustomerOwnedIpOnLaunch }),
			"map-public-ip-on-launch": boolFilter(
				func(x v) *bool { return x.MapPublicIpOnLaunch }),
			"outpost-arn": none,
			"owner-id":    stringFilter(func(x v) *string { return x.OwnerId }),
			"private-dns-name-options-on-launch.hostname-type": enumFilter(
				func(x v) types.HostnameType { return x.PrivateDnsNameOptionsOnLaunch.HostnameType }),
			"private-dns-name-options-on-launch.enable-resource-name-dns-a-record": options(
				func(o types.PrivateDnsNameOptionsOnLaunch) *bool { return o.EnableResourceNameDnsARecord }),
			"private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record": options(
				func(o types.PrivateDnsNameOptionsOnLaunch) *bool { return o.EnableResourceNameDnsAAAARecord }),
			"state":      enumFilter(func(x v) types.SubnetState { return x.State }),
			"subnet-arn": stringFilter(func(x v) *string { return x.SubnetArn }),
			"subnet-id":  stringFilter(func(x v) *string { return x.SubnetId }),
			"vpc-id":     stringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewSubnet(in scope, r record.Subnet) types.Subnet {
	z, _ := in.findZone(r.AvailabilityZone)
	v := types.Subnet{
		AssignIpv6AddressOnCreation: aws.Bool(r.AssignIPv6AddressOnCreation),
		AvailabilityZone:            aws.String(r.AvailabilityZone),
		AvailabilityZoneId:          aws.String(z.ID),
		AvailableIpAddressCount:     aws.Int32(int32(s.freeAddresses(in, r))),
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
		SubnetArn: aws.String(in.arn(types.ResourceTypeSubnet, r.ID)),
		SubnetId:  aws.String(r.ID),
		Tags:      s.listTags(in, r.ID),
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

// subnetsOf are the subnets of a VPC.
func (s *Service) subnetsOf(in scope, vpcID string) ([]record.Subnet, error) {
	return s.subnets.list(in, func(r record.Subnet) bool { return r.VPCID == vpcID })
}

// overlapping is the id of a subnet whose block overlaps with block, empty when there is none.
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

func (c *change) newSubnet(id, vpcID, aclID, zone string, block netip.Prefix) record.Subnet {
	return record.Subnet{
		EC2Resource:             c.identity(id, nil),
		VPCID:                   vpcID,
		CIDR:                    block.String(),
		AvailabilityZone:        zone,
		HostnameType:            types.HostnameTypeIpName,
		NetworkACLID:            aclID,
		NetworkACLAssociationID: newID("aclassoc-"),
	}
}

func invalidZone(in scope, name string) error {
	var names []string
	for _, z := range in.listZones() {
		names = append(names, z.Name)
	}
	return invalidValue(name, "availabilityZone",
		fmt.Sprintf("Subnets can currently only be created in the following availability zones: %s.",
			strings.Join(names, ", ")))
}

// subnetHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) subnetHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateSubnet, creating[ec2.CreateSubnetInput](s, types.ResourceTypeSubnet)),
		wire.Handle(s.DescribeSubnets, onRegion),
		wire.Handle(s.DeleteSubnet, touching[ec2.DeleteSubnetInput](s)),
		wire.Handle(s.ModifySubnetAttribute, touching[ec2.ModifySubnetAttributeInput](s)),
		wire.Handle(s.AssociateSubnetCidrBlock, touching[ec2.AssociateSubnetCidrBlockInput](s)),
		wire.Handle(s.DisassociateSubnetCidrBlock, touching[ec2.DisassociateSubnetCidrBlockInput](s)),
	}
}

// CreateSubnet makes a subnet in one zone of a VPC.
func (s *Service) CreateSubnet(ctx context.Context, in *ec2.CreateSubnetInput) (*ec2.CreateSubnetOutput, error) {
	out, err := createResource(ctx, s, s.subnets, creation{dryRun: in.DryRun, tags: in.TagSpecifications},
		func(c *change, id string) error {
			vpc, err := c.holdVPC(in.VpcId)
			if err != nil {
				return err
			}
			switch {
			case in.OutpostArn != nil:
				return unsupported("OutpostArn")
			case in.Ipv4IpamPoolId != nil || in.Ipv6IpamPoolId != nil:
				return unsupported("IpamPoolId")
			case aws.ToBool(in.Ipv6Native):
				return unsupported("Ipv6Native")
			case aws.ToString(in.CidrBlock) == "":
				return missing("cidrBlock")
			}
			z := c.listZones()[0]
			for _, name := range []*string{in.AvailabilityZone, in.AvailabilityZoneId} {
				if name != nil {
					var ok bool
					if z, ok = c.findZone(*name); !ok {
						return invalidZone(c.scope, *name)
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
			siblings, err := s.subnetsOf(c.scope, vpc.ID)
			if err != nil {
				return err
			}
			if overlapping(siblings, block) != "" {
				return wire.Errorf("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", block)
			}
			if len(siblings) >= maxSubnetsPerVPC {
				return wire.Errorf("SubnetLimitExceeded",
					"The maximum number of subnets for VPC '%s' has been reached.",
					vpc.ID)
			}
			acl, err := s.defaultACL(c, vpc.ID)
			if err != nil {
				return err
			}
			subnet := c.newSubnet(id, vpc.ID, acl, z.Name, block)
			if in.Ipv6CidrBlock != nil {
				if subnet.IPv6, err = newSubnetIPv6(vpc, siblings, *in.Ipv6CidrBlock); err != nil {
					return err
				}
			}
			s.subnets.createRecord(c, subnet)
			return nil
		})
	return &ec2.CreateSubnetOutput{Subnet: out}, err
}

// newSubnetIPv6 reads the IPv6 block of a subnet: a /64 of its VPC's that no other subnet has.
func newSubnetIPv6(vpc record.VPC, siblings []record.Subnet, cidr string) (*record.CIDRAssociation, error) {
	block, err := netip.ParsePrefix(cidr)
	if err != nil || !block.Addr().Is6() || block.Bits() != 64 {
		return nil, invalidValue(cidr, "ipv6CidrBlock", "This is not a valid IPv6 CIDR block of size /64.")
	}
	block = block.Masked()
	if !containsBlock(vpc.IPv6CIDRs, block) {
		return nil, wire.Errorf("InvalidSubnet.Range", "The CIDR '%s' is invalid.", block)
	}
	if overlapping(siblings, block) != "" {
		return nil, wire.Errorf("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", block)
	}
	return &record.CIDRAssociation{AssociationID: newID("subnet-cidr-assoc-"), CIDR: block.String()}, nil
}

// DescribeSubnets lists subnets.
func (s *Service) DescribeSubnets(ctx context.Context, in *ec2.DescribeSubnetsInput) (*ec2.DescribeSubnetsOutput,
	error) {
	found, next, err := describe(ctx, s, s.subnets, query{in.DryRun, in.SubnetIds, in.Filters, in.MaxResults,
		in.NextToken})
	return &ec2.DescribeSubnetsOutput{Subnets: found, NextToken: next}, err
}

// DeleteSubnet deletes a subnet without network interfaces.
func (s *Service) DeleteSubnet(ctx context.Context, in *ec2.DeleteSubnetInput) (*ec2.DeleteSubnetOutput, error) {
	return &ec2.DeleteSubnetOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		subnet, err := s.subnets.deleteRecord(c, aws.ToString(in.SubnetId))
		if err != nil {
			return err
		}
		if err := c.requireUnchanged(subnet.VPCID); err != nil {
			return err
		}
		if used, err := s.interfaces.hasMatch(c.scope,
			func(r record.NetworkInterface) bool { return r.SubnetID == subnet.ID }); err != nil {
			return err
		} else if used {
			return dependency("subnet", subnet.ID)
		}
		return nil
	})
}

// ModifySubnetAttribute changes one attribute of a subnet.
func (s *Service) ModifySubnetAttribute(ctx context.Context, in *ec2.ModifySubnetAttributeInput) (
	*ec2.ModifySubnetAttributeOutput, error) {
	return &ec2.ModifySubnetAttributeOutput{}, s.applyChange(ctx, nil, func(c *change) error {
		if in.CustomerOwnedIpv4Pool != nil || in.MapCustomerOwnedIpOnLaunch != nil {
			return unsupported("CustomerOwnedIpv4Pool")
		}
		if in.EnableLniAtDeviceIndex != nil || in.DisableLniAtDeviceIndex != nil {
			return unsupported("EnableLniAtDeviceIndex")
		}
		return s.subnets.updateRecord(c, aws.ToString(in.SubnetId), func(r *record.Subnet) error {
			switch in.PrivateDnsHostnameTypeOnLaunch {
			case "":
			case types.HostnameTypeIpName, types.HostnameTypeResourceName:
				r.HostnameType = in.PrivateDnsHostnameTypeOnLaunch
				return nil
			default:
				return invalidValue(in.PrivateDnsHostnameTypeOnLaunch, "privateDnsHostnameTypeOnLaunch", "")
			}
			if r.IPv6 == nil && in.AssignIpv6AddressOnCreation != nil &&
				aws.ToBool(in.AssignIpv6AddressOnCreation.Value) {
				return invalid(
					"Invalid value 'true' for assignIpv6AddressOnCreation. The subnet '%s' has no IPv6 CIDR block.",
					r.ID)
			}
			return applySetting(
				setting{in.MapPublicIpOnLaunch, &r.MapPublicIPOnLaunch},
				setting{in.AssignIpv6AddressOnCreation, &r.AssignIPv6AddressOnCreation},
				setting{in.EnableDns64, &r.EnableDNS64},
				setting{in.EnableResourceNameDnsARecordOnLaunch, &r.EnableResourceNameDNSARecord},
				setting{in.EnableResourceNameDnsAAAARecordOnLaunch, &r.EnableResourceNameDNSAAAARecord},
			)
		})
	})
}

// AssociateSubnetCidrBlock gives a subnet its IPv6 block.
func (s *Service) AssociateSubnetCidrBlock(ctx context.Context, in *ec2.AssociateSubnetCidrBlockInput) (
	*ec2.AssociateSubnetCidrBlockOutput, error) {
	var given *record.CIDRAssociation
	err := s.applyChange(ctx, nil, func(c *change) error {
		if in.Ipv6IpamPoolId != nil {
			return unsupported("Ipv6IpamPoolId")
		}
		return s.subnets.updateRecord(c, aws.ToString(in.SubnetId), func(r *record.Subnet) error {
			if r.IPv6 != nil {
				return wire.Errorf("InvalidSubnet.Conflict", "The subnet '%s' has the IPv6 CIDR block %s already.",
					r.ID, r.IPv6.CIDR)
			}
			vpc, err := s.vpcs.getRecord(c.scope, &r.VPCID)
			if err != nil {
				return err
			}
			if err := c.requireUnchanged(vpc.ID); err != nil {
				return err
			}
			siblings, err := s.subnetsOf(c.scope, vpc.ID)
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
	err := s.applyChange(ctx, nil, func(c *change) error {
		found, err := s.subnets.list(c.scope, func(r record.Subnet) bool {
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
		if err := c.requireUnchanged(found[0].VPCID); err != nil {
			return err
		}
		if used, err := s.interfaces.hasMatch(c.scope, func(r record.NetworkInterface) bool {
			return r.SubnetID == subnetID && len(r.IPv6IPs)+len(r.IPv6Prefixes) > 0
		}); err != nil {
			return err
		} else if used {
			return wire.Errorf("InvalidCidrBlock.InUse", "The IPv6 CIDR block '%s' of subnet '%s' is in use.",
				taken.CIDR, subnetID)
		}
		return s.subnets.updateRecord(c, subnetID, func(r *record.Subnet) error {
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
