package ec2

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) networkInterfaceKind() kind[record.NetworkInterface, types.NetworkInterface] {
	type v = types.NetworkInterface
	type address = types.NetworkInterfacePrivateIpAddress
	attached := func(values func(types.NetworkInterfaceAttachment) []string) func(v) []string {
		return func(x v) []string {
			if x.Attachment == nil {
				return nil
			}
			return values(*x.Attachment)
		}
	}
	associated := func(member func(types.NetworkInterfaceAssociation) *string) func(v) []string {
		return func(x v) []string {
			return each(x.PrivateIpAddresses, func(a address) *string {
				if a.Association == nil {
					return nil
				}
				return member(*a.Association)
			})
		}
	}
	addresses := func(x v) []string {
		return each(x.PrivateIpAddresses, func(a address) *string { return a.PrivateIpAddress })
	}
	publicIP := associated(func(a types.NetworkInterfaceAssociation) *string { return a.PublicIp })
	ipOwner := associated(func(a types.NetworkInterfaceAssociation) *string { return a.IpOwnerId })
	return kind[record.NetworkInterface, v]{
		naming: naming{
			resource: types.ResourceTypeNetworkInterface, prefix: "eni-", noun: "networkInterface ID", param: "networkInterfaceId",
			notFound: "InvalidNetworkInterfaceID.NotFound", malformed: "InvalidNetworkInterfaceId.Malformed",
		},
		table:  record.NetworkInterfaces(s.store),
		view:   s.viewInterface,
		tagged: func(x v) []types.Tag { return x.TagSet },
		vpc:    func(r record.NetworkInterface) string { return r.VPCID },
		filters: filters[v]{
			"addresses.association.owner-id":  ipOwner,
			"addresses.association.public-ip": publicIP,
			"addresses.primary": func(x v) []string {
				var all []string
				for _, a := range x.PrivateIpAddresses {
					all = append(all, fmt.Sprint(aws.ToBool(a.Primary)))
				}
				return all
			},
			"addresses.private-ip-address": addresses,
			"association.allocation-id":    associated(func(a types.NetworkInterfaceAssociation) *string { return a.AllocationId }),
			"association.association-id":   associated(func(a types.NetworkInterfaceAssociation) *string { return a.AssociationId }),
			"association.ip-owner-id":      ipOwner,
			"association.public-dns-name":  associated(func(a types.NetworkInterfaceAssociation) *string { return a.PublicDnsName }),
			"association.public-ip":        publicIP,
			"attachment.attach-time": attached(func(a types.NetworkInterfaceAttachment) []string {
				return []string{a.AttachTime.Format("2006-01-02T15:04:05.000Z")}
			}),
			"attachment.attachment-id":         attached(text(func(a types.NetworkInterfaceAttachment) *string { return a.AttachmentId })),
			"attachment.delete-on-termination": attached(flag(func(a types.NetworkInterfaceAttachment) *bool { return a.DeleteOnTermination })),
			"attachment.device-index":          attached(number(func(a types.NetworkInterfaceAttachment) *int32 { return a.DeviceIndex })),
			"attachment.instance-id":           attached(text(func(a types.NetworkInterfaceAttachment) *string { return a.InstanceId })),
			"attachment.instance-owner-id":     attached(text(func(a types.NetworkInterfaceAttachment) *string { return a.InstanceOwnerId })),
			"attachment.status":                attached(word(func(a types.NetworkInterfaceAttachment) types.AttachmentStatus { return a.Status })),
			"availability-zone":                text(func(x v) *string { return x.AvailabilityZone }),
			"availability-zone-id":             text(func(x v) *string { return x.AvailabilityZoneId }),
			"description":                      text(func(x v) *string { return x.Description }),
			"group-id":                         func(x v) []string { return each(x.Groups, func(g types.GroupIdentifier) *string { return g.GroupId }) },
			"group-name": func(x v) []string {
				return each(x.Groups, func(g types.GroupIdentifier) *string { return g.GroupName })
			},
			"ipv6-addresses.ipv6-address": func(x v) []string {
				return each(x.Ipv6Addresses, func(a types.NetworkInterfaceIpv6Address) *string { return a.Ipv6Address })
			},
			"interface-type":       word(func(x v) types.NetworkInterfaceType { return x.InterfaceType }),
			"mac-address":          text(func(x v) *string { return x.MacAddress }),
			"network-interface-id": text(func(x v) *string { return x.NetworkInterfaceId }),
			"operator.managed":     flag(func(x v) *bool { return x.Operator.Managed }),
			"operator.principal":   text(func(x v) *string { return x.Operator.Principal }),
			"owner-id":             text(func(x v) *string { return x.OwnerId }),
			"private-dns-name":     text(func(x v) *string { return x.PrivateDnsName }),
			"private-ip-address":   addresses,
			"requester-id":         text(func(x v) *string { return x.RequesterId }),
			"requester-managed":    flag(func(x v) *bool { return x.RequesterManaged }),
			"source-dest-check":    flag(func(x v) *bool { return x.SourceDestCheck }),
			"status":               word(func(x v) types.NetworkInterfaceStatus { return x.Status }),
			"subnet-id":            text(func(x v) *string { return x.SubnetId }),
			"vpc-id":               text(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewInterface(in scope, r record.NetworkInterface) types.NetworkInterface {
	z, _ := in.zone(r.AvailabilityZone)
	vpc, _ := s.vpcs.value(in, &r.VPCID)
	v := types.NetworkInterface{
		Attachment:         viewAttachment(r.Attachment),
		AvailabilityZone:   aws.String(r.AvailabilityZone),
		AvailabilityZoneId: aws.String(z.id),
		Description:        aws.String(r.Description),
		Groups:             s.groupIdentifiers(in, r.SecurityGroupIDs),
		InterfaceType:      r.InterfaceType,
		Ipv4Prefixes:       viewIPv4Prefixes(r.IPv4Prefixes),
		Ipv6Addresses:      []types.NetworkInterfaceIpv6Address{},
		MacAddress:         aws.String(r.MACAddress),
		NetworkInterfaceId: aws.String(r.ID),
		Operator:           &types.OperatorResponse{Managed: aws.Bool(false)},
		OwnerId:            aws.String(r.Account),
		PrivateIpAddress:   aws.String(r.PrivateIPs[0]),
		PrivateIpAddresses: []types.NetworkInterfacePrivateIpAddress{},
		RequesterId:        aws.String(r.RequesterID),
		RequesterManaged:   aws.Bool(r.RequesterManaged),
		SourceDestCheck:    aws.Bool(r.SourceDestCheck),
		Status:             types.NetworkInterfaceStatusAvailable,
		SubnetId:           aws.String(r.SubnetID),
		TagSet:             s.tagSet(in, r.ID),
		VpcId:              aws.String(r.VPCID),
	}
	if r.Attachment != nil {
		v.Status = types.NetworkInterfaceStatusInUse
	}
	elastic := s.addressesOf(in, r.ID)
	for i, ip := range r.PrivateIPs {
		a := types.NetworkInterfacePrivateIpAddress{Primary: aws.Bool(i == 0), PrivateIpAddress: aws.String(ip)}
		if vpc.EnableDNSHostnames {
			a.PrivateDnsName = aws.String(privateDNSName(in.region, ip))
		}
		if e, ok := elastic[ip]; ok {
			a.Association = &types.NetworkInterfaceAssociation{
				AllocationId: aws.String(e.ID), AssociationId: aws.String(e.AssociationID), IpOwnerId: aws.String(e.Account),
				PublicDnsName: aws.String(publicDNSName(in.region, e.PublicIP)), PublicIp: aws.String(e.PublicIP),
			}
		}
		v.PrivateIpAddresses = append(v.PrivateIpAddresses, a)
	}
	v.PrivateDnsName, v.Association = v.PrivateIpAddresses[0].PrivateDnsName, v.PrivateIpAddresses[0].Association
	for i, ip := range r.IPv6IPs {
		v.Ipv6Addresses = append(v.Ipv6Addresses, types.NetworkInterfaceIpv6Address{Ipv6Address: aws.String(ip), IsPrimaryIpv6: aws.Bool(i == 0 && r.PrimaryIPv6)})
	}
	if len(r.IPv6IPs) > 0 {
		v.Ipv6Address = aws.String(r.IPv6IPs[0])
	}
	for _, p := range r.IPv6Prefixes {
		v.Ipv6Prefixes = append(v.Ipv6Prefixes, types.Ipv6PrefixSpecification{Ipv6Prefix: aws.String(p)})
	}
	return v
}

func viewIPv4Prefixes(prefixes []string) []types.Ipv4PrefixSpecification {
	var views []types.Ipv4PrefixSpecification
	for _, p := range prefixes {
		views = append(views, types.Ipv4PrefixSpecification{Ipv4Prefix: aws.String(p)})
	}
	return views
}

func viewAttachment(a *record.NetworkInterfaceAttachment) *types.NetworkInterfaceAttachment {
	if a == nil {
		return nil
	}
	return &types.NetworkInterfaceAttachment{
		AttachTime:          aws.Time(a.AttachedAt),
		AttachmentId:        aws.String(a.ID),
		DeleteOnTermination: aws.Bool(a.DeleteOnTermination),
		DeviceIndex:         aws.Int32(a.DeviceIndex),
		InstanceId:          optional(a.InstanceID),
		InstanceOwnerId:     aws.String(a.InstanceOwnerID),
		NetworkCardIndex:    aws.Int32(a.NetworkCardIndex),
		Status:              types.AttachmentStatusAttached,
	}
}

func (s *Service) groupIdentifiers(in scope, ids []string) []types.GroupIdentifier {
	groups := []types.GroupIdentifier{}
	for _, id := range ids {
		g, err := s.groups.value(in, &id)
		if err == nil {
			groups = append(groups, types.GroupIdentifier{GroupId: aws.String(id), GroupName: aws.String(g.Name)})
		}
	}
	return groups
}

// privateDNSName is the name of an address in its VPC: ip-10-0-1-5.eu-west-1.compute.internal.
func privateDNSName(region, ip string) string {
	name := "ip-" + strings.ReplaceAll(ip, ".", "-")
	if region == "us-east-1" {
		return name + ".ec2.internal"
	}
	return name + "." + region + ".compute.internal"
}

func publicDNSName(region, ip string) string {
	name := "ec2-" + strings.ReplaceAll(ip, ".", "-")
	if region == "us-east-1" {
		return name + ".compute-1.amazonaws.com"
	}
	return name + "." + region + ".compute.amazonaws.com"
}

// newMAC is a random, locally administered hardware address.
func newMAC() string {
	b := make([]byte, 6)
	rand.Read(b)
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", b[1], b[2], b[3], b[4], b[5])
}

// addressing is what a request wants of one address family.
type addressing struct {
	addresses, prefixes         []string
	addressCount, prefixesCount *int32
}

// assign books what is wanted out of a subnet's block for a network interface.
func (c *change) assign(interfaceID, subnetID, cidr string, want addressing) (addresses, prefixes []string, err error) {
	n, m := aws.ToInt32(want.addressCount), aws.ToInt32(want.prefixesCount)
	switch {
	case len(want.addresses)+len(want.prefixes) > 0 || n != 0 || m != 0:
		if cidr == "" {
			return nil, nil, invalid("The subnet '%s' has no IPv6 CIDR block.", subnetID)
		}
	default:
		return nil, nil, nil
	}
	if n < 0 || n > maxAddressesPerCall {
		return nil, nil, invalidValue(n, "addressCount", fmt.Sprintf("Expecting a value between 1 and %d.", maxAddressesPerCall))
	}
	if m < 0 || m > maxAddressesPerCall {
		return nil, nil, invalidValue(m, "prefixCount", fmt.Sprintf("Expecting a value between 1 and %d.", maxAddressesPerCall))
	}
	subnet := netip.MustParsePrefix(cidr)
	for _, a := range want.addresses {
		ip, err := netip.ParseAddr(a)
		switch {
		case err != nil:
			return nil, nil, invalid("invalid value for parameter address: %s", a)
		case !subnet.Contains(ip):
			return nil, nil, invalid("Address does not fall within the subnet's address range")
		case reserved(subnet, ip):
			return nil, nil, invalid("Address is in subnet's reserved address range")
		}
		if err := c.takeAddress(subnetID, ip, interfaceID); err != nil {
			return nil, nil, err
		}
		addresses = append(addresses, ip.String())
	}
	for _, p := range want.prefixes {
		prefix, err := netip.ParsePrefix(p)
		if err != nil || prefix != block(prefix.Addr()) || !delegable(subnet, prefix) {
			return nil, nil, invalid("The prefix %s cannot be delegated from the subnet's block %s.", p, cidr)
		}
		if err := c.takePrefix(subnetID, prefix, interfaceID); err != nil {
			return nil, nil, err
		}
		prefixes = append(prefixes, prefix.String())
	}
	for range n {
		a, err := c.pickAddress(subnetID, cidr, interfaceID)
		if err != nil {
			return nil, nil, err
		}
		addresses = append(addresses, a)
	}
	for range m {
		p, err := c.pickPrefix(subnetID, cidr, interfaceID)
		if err != nil {
			return nil, nil, err
		}
		prefixes = append(prefixes, p)
	}
	return addresses, prefixes, nil
}

// maxAddressesPerCall keeps a transaction within what etcd takes (128 operations); the largest instance has 50 addresses on an interface.
const maxAddressesPerCall = 50

// newInterface makes a network interface in a subnet with one private address: ip, or any when ip is empty. The
// caller finishes it and adds it to the change.
func (c *change) newInterface(id string, subnet record.Subnet, ip string) (record.NetworkInterface, error) {
	want := addressing{addressCount: aws.Int32(1)}
	if ip != "" {
		want = addressing{addresses: []string{ip}}
	}
	addresses, _, err := c.assign(id, subnet.ID, subnet.CIDR, want)
	c.touch(subnet.VPCID)
	return record.NetworkInterface{
		EC2Resource:      c.identity(id, nil),
		VPCID:            subnet.VPCID,
		SubnetID:         subnet.ID,
		AvailabilityZone: subnet.AvailabilityZone,
		MACAddress:       newMAC(),
		InterfaceType:    types.NetworkInterfaceTypeInterface,
		SourceDestCheck:  true,
		PrivateIPs:       addresses,
		RequesterID:      c.caller.UserID,
	}, err
}

// interfaceGroups are the groups of an interface in a VPC, which exist and stay: those wanted, or the VPC's default group.
func (c *change) interfaceGroups(vpcID string, wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		group, err := c.s.groupNamed(c.scope, vpcID, "default")
		return []string{group.ID}, err
	}
	if len(wanted) > maxGroupsPerInterface {
		return nil, wire.Errorf("SecurityGroupsPerInterfaceLimitExceeded", "The maximum number of security groups per interface has been reached.")
	}
	var ids []string
	for _, id := range wanted {
		group, err := c.s.groups.value(c.scope, &id)
		if err != nil {
			return nil, err
		}
		if group.VPCID != vpcID {
			return nil, wire.Errorf("InvalidParameter", "You have specified two resources that belong to different networks.")
		}
		if slices.Contains(ids, id) {
			return nil, invalid("Duplicate security group '%s' specified.", id)
		}
		if err := c.s.groups.require(c, id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// CreateNetworkInterface makes a network interface with addresses out of its subnet.
func (s *Service) CreateNetworkInterface(ctx context.Context, in *ec2.CreateNetworkInterfaceInput) (*ec2.CreateNetworkInterfaceOutput, error) {
	out, err := create(ctx, s, s.interfaces, creation{dryRun: in.DryRun, tags: in.TagSpecifications, token: in.ClientToken, request: in}, func(c *change, id string) error {
		subnet, err := s.subnets.value(c.scope, in.SubnetId)
		if err != nil {
			return err
		}
		if err := s.subnets.require(c, subnet.ID); err != nil {
			return err
		}
		primary, secondary, err := wantedAddresses(in)
		if err != nil {
			return err
		}
		ni, err := c.newInterface(id, subnet, primary)
		if err != nil {
			return err
		}
		ni.ClientToken, ni.Description = aws.ToString(in.ClientToken), aws.ToString(in.Description)
		switch in.InterfaceType {
		case "", types.NetworkInterfaceCreationTypeEfa, types.NetworkInterfaceCreationTypeEfaOnly, types.NetworkInterfaceCreationTypeBranch, types.NetworkInterfaceCreationTypeTrunk:
			ni.InterfaceType = types.NetworkInterfaceType(cmp.Or(string(in.InterfaceType), string(types.NetworkInterfaceTypeInterface)))
		default:
			return invalidValue(in.InterfaceType, "interfaceType", "")
		}
		if ni.SecurityGroupIDs, err = c.interfaceGroups(subnet.VPCID, in.Groups); err != nil {
			return err
		}
		if err := c.assignIPv4(&ni, subnet, secondary); err != nil {
			return err
		}
		six := addressing{addressCount: in.Ipv6AddressCount, prefixesCount: in.Ipv6PrefixCount}
		for _, a := range in.Ipv6Addresses {
			six.addresses = append(six.addresses, aws.ToString(a.Ipv6Address))
		}
		for _, p := range in.Ipv6Prefixes {
			six.prefixes = append(six.prefixes, aws.ToString(p.Ipv6Prefix))
		}
		if subnet.AssignIPv6AddressOnCreation && len(six.addresses) == 0 && in.Ipv6AddressCount == nil {
			six.addressCount = aws.Int32(1)
		}
		if err := c.assignIPv6(&ni, subnet, six); err != nil {
			return err
		}
		ni.PrimaryIPv6 = aws.ToBool(in.EnablePrimaryIpv6)
		if c.service() {
			// What the interface is attached to is the service's, out of the account's sight.
			ni.RequesterManaged = true
			ni.Attachment = &record.NetworkInterfaceAttachment{
				ID: newID("eni-attach-"), InstanceOwnerID: "amazon-aws", DeviceIndex: 1, AttachedAt: ni.CreatedAt,
			}
		}
		s.interfaces.create(c, ni)
		return nil
	})
	if out != nil {
		out.Status = "pending"
	}
	return &ec2.CreateNetworkInterfaceOutput{NetworkInterface: out, ClientToken: in.ClientToken}, err
}

// wantedAddresses reads the IPv4 addresses that a request wants; primary is empty when it may be any.
func wantedAddresses(in *ec2.CreateNetworkInterfaceInput) (primary string, secondary addressing, err error) {
	primary = aws.ToString(in.PrivateIpAddress)
	for _, a := range in.PrivateIpAddresses {
		switch {
		case !aws.ToBool(a.Primary):
			secondary.addresses = append(secondary.addresses, aws.ToString(a.PrivateIpAddress))
		case primary != "" && primary != aws.ToString(a.PrivateIpAddress):
			return "", secondary, wire.Errorf("InvalidParameterCombination", "Only one primary private IP address can be specified.")
		default:
			primary = aws.ToString(a.PrivateIpAddress)
		}
	}
	for _, p := range in.Ipv4Prefixes {
		secondary.prefixes = append(secondary.prefixes, aws.ToString(p.Ipv4Prefix))
	}
	secondary.addressCount, secondary.prefixesCount = in.SecondaryPrivateIpAddressCount, in.Ipv4PrefixCount
	return primary, secondary, exclusive(secondary)
}

// exclusive refuses both a list and a count.
func exclusive(want addressing) error {
	if len(want.addresses) > 0 && want.addressCount != nil || len(want.prefixes) > 0 && want.prefixesCount != nil {
		return wire.Errorf("InvalidParameterCombination", "Only one of a list and a count of addresses or prefixes may be specified.")
	}
	return nil
}

func (c *change) assignIPv4(ni *record.NetworkInterface, subnet record.Subnet, want addressing) error {
	ips, prefixes, err := c.assign(ni.ID, subnet.ID, subnet.CIDR, want)
	ni.PrivateIPs, ni.IPv4Prefixes = append(ni.PrivateIPs, ips...), append(ni.IPv4Prefixes, prefixes...)
	return err
}

func (c *change) assignIPv6(ni *record.NetworkInterface, subnet record.Subnet, want addressing) error {
	var cidr string
	if subnet.IPv6 != nil {
		cidr = subnet.IPv6.CIDR
	}
	ips, prefixes, err := c.assign(ni.ID, subnet.ID, cidr, want)
	ni.IPv6IPs, ni.IPv6Prefixes = append(ni.IPv6IPs, ips...), append(ni.IPv6Prefixes, prefixes...)
	return err
}

// DescribeNetworkInterfaces lists network interfaces.
func (s *Service) DescribeNetworkInterfaces(ctx context.Context, in *ec2.DescribeNetworkInterfacesInput) (*ec2.DescribeNetworkInterfacesOutput, error) {
	found, next, err := describe(ctx, s, s.interfaces, query{in.DryRun, in.NetworkInterfaceIds, in.Filters, in.MaxResults, in.NextToken})
	return &ec2.DescribeNetworkInterfacesOutput{NetworkInterfaces: found, NextToken: next}, err
}

// editInterface changes a network interface that is the caller's to change.
func (c *change) editInterface(id *string, edit func(*record.NetworkInterface) error) error {
	return c.s.interfaces.edit(c, aws.ToString(id), func(r *record.NetworkInterface) error {
		if err := c.mayManage(*r); err != nil {
			return err
		}
		return edit(r)
	})
}

// mayManage refuses everybody but the service that made an interface for the account.
func (c *change) mayManage(r record.NetworkInterface) error {
	role := func(userID string) string { id, _, _ := strings.Cut(userID, ":"); return id }
	if r.RequesterManaged && role(r.RequesterID) != role(c.caller.UserID) {
		return wire.Errorf("AuthFailure", "You do not have permission to access the specified resource.")
	}
	return nil
}

// DeleteNetworkInterface deletes a network interface that no instance uses.
func (s *Service) DeleteNetworkInterface(ctx context.Context, in *ec2.DeleteNetworkInterfaceInput) (*ec2.DeleteNetworkInterfaceOutput, error) {
	return &ec2.DeleteNetworkInterfaceOutput{}, s.write(ctx, in.DryRun, func(c *change) error {
		r, err := c.removeInterface(aws.ToString(in.NetworkInterfaceId))
		if err != nil {
			return err
		}
		if r.Attachment != nil && !r.RequesterManaged {
			return invalid("Network interface '%s' is currently in use.", r.ID)
		}
		return c.mayManage(r)
	})
}

// removeInterface deletes an interface, gives its addresses back and dissociates its elastic addresses.
func (c *change) removeInterface(id string) (record.NetworkInterface, error) {
	r, err := c.s.interfaces.remove(c, id)
	if err != nil {
		return r, err
	}
	if err := c.giveBack(r.SubnetID, slices.Concat(r.PrivateIPs, r.IPv6IPs), slices.Concat(r.IPv4Prefixes, r.IPv6Prefixes)); err != nil {
		return r, err
	}
	return r, c.dissociate(r.ID, r.PrivateIPs)
}

// DescribeNetworkInterfaceAttribute shows one attribute of a network interface.
func (s *Service) DescribeNetworkInterfaceAttribute(ctx context.Context, in *ec2.DescribeNetworkInterfaceAttributeInput) (*ec2.DescribeNetworkInterfaceAttributeOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.interfaces.value(sc, in.NetworkInterfaceId)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeNetworkInterfaceAttributeOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	switch in.Attribute {
	case types.NetworkInterfaceAttributeDescription:
		out.Description = &types.AttributeValue{Value: aws.String(r.Description)}
	case types.NetworkInterfaceAttributeGroupSet:
		out.Groups = s.groupIdentifiers(sc, r.SecurityGroupIDs)
	case types.NetworkInterfaceAttributeSourceDestCheck:
		out.SourceDestCheck = attribute(r.SourceDestCheck)
	case types.NetworkInterfaceAttributeAttachment:
		out.Attachment = viewAttachment(r.Attachment)
	case "":
		return nil, missing("attribute")
	default:
		return nil, invalidValue(in.Attribute, "attribute", "Unknown network interface attribute.")
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun
	}
	return out, nil
}

// ModifyNetworkInterfaceAttribute changes one attribute of a network interface.
func (s *Service) ModifyNetworkInterfaceAttribute(ctx context.Context, in *ec2.ModifyNetworkInterfaceAttributeInput) (*ec2.ModifyNetworkInterfaceAttributeOutput, error) {
	return &ec2.ModifyNetworkInterfaceAttributeOutput{}, s.write(ctx, in.DryRun, func(c *change) error {
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) (err error) {
			switch {
			case in.Description != nil:
				r.Description = aws.ToString(in.Description.Value)
			case len(in.Groups) > 0:
				r.SecurityGroupIDs, err = c.interfaceGroups(r.VPCID, in.Groups)
				c.touch(r.VPCID)
			case in.Attachment != nil:
				if r.Attachment == nil || r.Attachment.ID != aws.ToString(in.Attachment.AttachmentId) {
					return missingAttachment(aws.ToString(in.Attachment.AttachmentId))
				}
				r.Attachment.DeleteOnTermination = aws.ToBool(in.Attachment.DeleteOnTermination)
			case in.EnablePrimaryIpv6 != nil:
				if len(r.IPv6IPs) == 0 {
					return invalid("The network interface '%s' has no IPv6 address.", r.ID)
				}
				r.PrimaryIPv6 = *in.EnablePrimaryIpv6
			default:
				return setOne(setting{in.SourceDestCheck, &r.SourceDestCheck})
			}
			return err
		})
	})
}

// ResetNetworkInterfaceAttribute turns the source/destination check on again.
func (s *Service) ResetNetworkInterfaceAttribute(ctx context.Context, in *ec2.ResetNetworkInterfaceAttributeInput) (*ec2.ResetNetworkInterfaceAttributeOutput, error) {
	return &ec2.ResetNetworkInterfaceAttributeOutput{}, s.write(ctx, in.DryRun, func(c *change) error {
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			r.SourceDestCheck = true
			return nil
		})
	})
}

// AssignPrivateIpAddresses gives a network interface more IPv4 addresses or prefixes.
func (s *Service) AssignPrivateIpAddresses(ctx context.Context, in *ec2.AssignPrivateIpAddressesInput) (*ec2.AssignPrivateIpAddressesOutput, error) {
	out := &ec2.AssignPrivateIpAddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	return out, s.write(ctx, nil, func(c *change) error {
		want := addressing{in.PrivateIpAddresses, in.Ipv4Prefixes, in.SecondaryPrivateIpAddressCount, in.Ipv4PrefixCount}
		if err := exclusive(want); err != nil {
			return err
		}
		if len(want.addresses)+len(want.prefixes) == 0 && want.addressCount == nil && want.prefixesCount == nil {
			return missing("secondaryPrivateIpAddressCount")
		}
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			subnet, err := s.subnets.value(c.scope, &r.SubnetID)
			if err != nil {
				return err
			}
			if aws.ToBool(in.AllowReassignment) {
				if err := c.takeOver(*r, want.addresses); err != nil {
					return err
				}
			}
			had, prefixes := len(r.PrivateIPs), len(r.IPv4Prefixes)
			if err := c.assignIPv4(r, subnet, want); err != nil {
				return err
			}
			out.AssignedPrivateIpAddresses, out.AssignedIpv4Prefixes = []types.AssignedPrivateIpAddress{}, viewIPv4Prefixes(r.IPv4Prefixes[prefixes:])
			for _, ip := range r.PrivateIPs[had:] {
				out.AssignedPrivateIpAddresses = append(out.AssignedPrivateIpAddresses, types.AssignedPrivateIpAddress{PrivateIpAddress: aws.String(ip)})
			}
			return nil
		})
	})
}

// takeOver frees those of the addresses that other interfaces have as secondary ones.
func (c *change) takeOver(to record.NetworkInterface, addresses []string) error {
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			return invalid("invalid value for parameter address: %s", a)
		}
		owner := c.booked(to.SubnetID, ip)
		if owner == "" || owner == to.ID {
			continue
		}
		if err := c.editInterface(&owner, func(r *record.NetworkInterface) error {
			i := slices.Index(r.PrivateIPs, ip.String())
			if i < 1 {
				return wire.Errorf("InvalidIPAddress.InUse", "Address %s is in use.", ip) // as primary address, or in a prefix
			}
			r.PrivateIPs = slices.Delete(r.PrivateIPs, i, i+1)
			if err := c.dissociate(r.ID, []string{a}); err != nil {
				return err
			}
			return c.giveBack(r.SubnetID, []string{ip.String()}, nil)
		}); err != nil {
			return err
		}
	}
	return nil
}

// UnassignPrivateIpAddresses takes secondary IPv4 addresses and prefixes from a network interface.
func (s *Service) UnassignPrivateIpAddresses(ctx context.Context, in *ec2.UnassignPrivateIpAddressesInput) (*ec2.UnassignPrivateIpAddressesOutput, error) {
	return &ec2.UnassignPrivateIpAddressesOutput{}, s.write(ctx, nil, func(c *change) error {
		if len(in.PrivateIpAddresses)+len(in.Ipv4Prefixes) == 0 {
			return missing("privateIpAddress")
		}
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			if slices.Contains(in.PrivateIpAddresses, r.PrivateIPs[0]) {
				return invalid("Cannot unassign the primary private IP address %s of network interface '%s'.", r.PrivateIPs[0], r.ID)
			}
			if err := c.dissociate(r.ID, in.PrivateIpAddresses); err != nil {
				return err
			}
			return c.unassign(r, &r.PrivateIPs, &r.IPv4Prefixes, in.PrivateIpAddresses, in.Ipv4Prefixes)
		})
	})
}

// unassign takes addresses and prefixes of one family from an interface; it must have them all.
func (c *change) unassign(r *record.NetworkInterface, hasAddresses, hasPrefixes *[]string, addresses, prefixes []string) error {
	for _, give := range []struct {
		has   *[]string
		takes []string
	}{{hasAddresses, addresses}, {hasPrefixes, prefixes}} {
		for _, a := range give.takes {
			i := slices.Index(*give.has, a)
			if i < 0 {
				return invalid("Some of the specified addresses are not assigned to interface %s", r.ID)
			}
			*give.has = slices.Delete(*give.has, i, i+1)
		}
	}
	return c.giveBack(r.SubnetID, addresses, prefixes)
}

// AssignIpv6Addresses gives a network interface IPv6 addresses or prefixes.
func (s *Service) AssignIpv6Addresses(ctx context.Context, in *ec2.AssignIpv6AddressesInput) (*ec2.AssignIpv6AddressesOutput, error) {
	out := &ec2.AssignIpv6AddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	return out, s.write(ctx, nil, func(c *change) error {
		want := addressing{in.Ipv6Addresses, in.Ipv6Prefixes, in.Ipv6AddressCount, in.Ipv6PrefixCount}
		if err := exclusive(want); err != nil {
			return err
		}
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			subnet, err := s.subnets.value(c.scope, &r.SubnetID)
			if err != nil {
				return err
			}
			// The subnet's IPv6 block must stay: those who take it away hold the VPC.
			if err := s.subnets.require(c, subnet.ID); err != nil {
				return err
			}
			c.touch(r.VPCID)
			had, prefixes := len(r.IPv6IPs), len(r.IPv6Prefixes)
			err = c.assignIPv6(r, subnet, want)
			out.AssignedIpv6Addresses, out.AssignedIpv6Prefixes = r.IPv6IPs[had:], r.IPv6Prefixes[prefixes:]
			return err
		})
	})
}

// UnassignIpv6Addresses takes IPv6 addresses and prefixes from a network interface.
func (s *Service) UnassignIpv6Addresses(ctx context.Context, in *ec2.UnassignIpv6AddressesInput) (*ec2.UnassignIpv6AddressesOutput, error) {
	err := s.write(ctx, nil, func(c *change) error {
		if len(in.Ipv6Addresses)+len(in.Ipv6Prefixes) == 0 {
			return missing("ipv6Addresses")
		}
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			return c.unassign(r, &r.IPv6IPs, &r.IPv6Prefixes, in.Ipv6Addresses, in.Ipv6Prefixes)
		})
	})
	return &ec2.UnassignIpv6AddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId, UnassignedIpv6Addresses: in.Ipv6Addresses, UnassignedIpv6Prefixes: in.Ipv6Prefixes}, err
}

func missingAttachment(id string) error {
	return wire.Errorf("InvalidAttachmentID.NotFound", "Attachment '%s' does not exist", id)
}

// AttachNetworkInterface attaches a network interface to an instance.
func (s *Service) AttachNetworkInterface(ctx context.Context, in *ec2.AttachNetworkInterfaceInput) (*ec2.AttachNetworkInterfaceOutput, error) {
	return nil, s.write(ctx, in.DryRun, func(c *change) error {
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			if r.Attachment != nil {
				return wire.Errorf("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", r.ID)
			}
			return noInstance(aws.ToString(in.InstanceId))
		})
	})
}

// DetachNetworkInterface ends an attachment.
func (s *Service) DetachNetworkInterface(ctx context.Context, in *ec2.DetachNetworkInterfaceInput) (*ec2.DetachNetworkInterfaceOutput, error) {
	return &ec2.DetachNetworkInterfaceOutput{}, s.write(ctx, in.DryRun, func(c *change) error {
		id := aws.ToString(in.AttachmentId)
		if id == "" {
			return missing("attachmentId")
		}
		found, err := s.interfaces.list(c.scope, func(r record.NetworkInterface) bool { return r.Attachment != nil && r.Attachment.ID == id })
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return missingAttachment(id)
		}
		if found[0].RequesterManaged && c.mayManage(found[0]) != nil {
			return wire.Errorf("OperationNotPermitted", "You are not allowed to manage '%s' attachments.", "ela-attach")
		}
		return c.editInterface(&found[0].ID, func(r *record.NetworkInterface) error {
			r.Attachment = nil
			return nil
		})
	})
}
