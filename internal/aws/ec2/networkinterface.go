package ec2

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
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
			return collectValues(x.PrivateIpAddresses, func(a address) *string {
				if a.Association == nil {
					return nil
				}
				return member(*a.Association)
			})
		}
	}
	addresses := func(x v) []string {
		return collectValues(x.PrivateIpAddresses, func(a address) *string { return a.PrivateIpAddress })
	}
	publicIP := associated(func(a types.NetworkInterfaceAssociation) *string { return a.PublicIp })
	ipOwner := associated(func(a types.NetworkInterfaceAssociation) *string { return a.IpOwnerId })
	return kind[record.NetworkInterface, v]{
		naming: naming{
			resource: types.ResourceTypeNetworkInterface, prefix: "eni-", noun: "networkInterface ID",
			param:    "networkInterfaceId",
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
			"association.allocation-id": associated(
				func(a types.NetworkInterfaceAssociation) *string { return a.AllocationId }),
			"association.association-id": associated(
				func(a types.NetworkInterfaceAssociation) *string { return a.AssociationId }),
			"association.ip-owner-id": ipOwner,
			"association.public-dns-name": associated(
				func(a types.NetworkInterfaceAssociation) *string { return a.PublicDnsName }),
			"association.public-ip": publicIP,
			"attachment.attach-time": attached(func(a types.NetworkInterfaceAttachment) []string {
				return []string{a.AttachTime.Format("2006-01-02T15:04:05.000Z")}
			}),
			"attachment.attachment-id": attached(
				stringFilter(func(a types.NetworkInterfaceAttachment) *string { return a.AttachmentId })),
			"attachment.delete-on-termination": attached(
				boolFilter(func(a types.NetworkInterfaceAttachment) *bool { return a.DeleteOnTermination })),
			"attachment.device-index": attached(
				intFilter(func(a types.NetworkInterfaceAttachment) *int32 { return a.DeviceIndex })),
			"attachment.instance-id": attached(
				stringFilter(func(a types.NetworkInterfaceAttachment) *string { return a.InstanceId })),
			"attachment.instance-owner-id": attached(
				stringFilter(func(a types.NetworkInterfaceAttachment) *string { return a.InstanceOwnerId })),
			"attachment.status": attached(
				enumFilter(func(a types.NetworkInterfaceAttachment) types.AttachmentStatus { return a.Status })),
			"availability-zone":    stringFilter(func(x v) *string { return x.AvailabilityZone }),
			"availability-zone-id": stringFilter(func(x v) *string { return x.AvailabilityZoneId }),
			"description":          stringFilter(func(x v) *string { return x.Description }),
			"group-id": func(x v) []string {
				return collectValues(x.Groups,
					func(g types.GroupIdentifier) *string { return g.GroupId })
			},
			"group-name": func(x v) []string {
				return collectValues(x.Groups, func(g types.GroupIdentifier) *string { return g.GroupName })
			},
			"ipv6-addresses.ipv6-address": func(x v) []string {
				return collectValues(x.Ipv6Addresses,
					func(a types.NetworkInterfaceIpv6Address) *string { return a.Ipv6Address })
			},
			"interface-type":       enumFilter(func(x v) types.NetworkInterfaceType { return x.InterfaceType }),
			"mac-address":          stringFilter(func(x v) *string { return x.MacAddress }),
			"network-interface-id": stringFilter(func(x v) *string { return x.NetworkInterfaceId }),
			"operator.managed":     boolFilter(func(x v) *bool { return x.Operator.Managed }),
			"operator.principal":   stringFilter(func(x v) *string { return x.Operator.Principal }),
			"owner-id":             stringFilter(func(x v) *string { return x.OwnerId }),
			"private-dns-name":     stringFilter(func(x v) *string { return x.PrivateDnsName }),
			"private-ip-address":   addresses,
			"requester-id":         stringFilter(func(x v) *string { return x.RequesterId }),
			"requester-managed":    boolFilter(func(x v) *bool { return x.RequesterManaged }),
			"source-dest-check":    boolFilter(func(x v) *bool { return x.SourceDestCheck }),
			"status":               enumFilter(func(x v) types.NetworkInterfaceStatus { return x.Status }),
			"subnet-id":            stringFilter(func(x v) *string { return x.SubnetId }),
			"vpc-id":               stringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewInterface(in scope, r record.NetworkInterface) types.NetworkInterface {
	z, _ := in.findZone(r.AvailabilityZone)
	vpc := mustRead(s.vpcs.table.Get(in, in.key(r.VPCID))).Value
	v := types.NetworkInterface{
		Attachment:         viewAttachment(r.Attachment),
		AvailabilityZone:   aws.String(r.AvailabilityZone),
		AvailabilityZoneId: aws.String(z.ID),
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
		TagSet:             s.listTagSet(in, r.ID),
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
				AllocationId: aws.String(e.ID), AssociationId: aws.String(e.AssociationID),
				IpOwnerId:     aws.String(e.Account),
				PublicDnsName: aws.String(publicDNSName(in.region, e.PublicIP)), PublicIp: aws.String(e.PublicIP),
			}
		} else if i == 0 && r.PublicIP != "" {
			a.Association = &types.NetworkInterfaceAssociation{
				IpOwnerId: aws.String(amazon), PublicDnsName: aws.String(publicName(in.region, vpc, r.PublicIP)),
				PublicIp: aws.String(r.PublicIP),
			}
		}
		v.PrivateIpAddresses = append(v.PrivateIpAddresses, a)
	}
	v.PrivateDnsName, v.Association = v.PrivateIpAddresses[0].PrivateDnsName, v.PrivateIpAddresses[0].Association
	for i, ip := range r.IPv6IPs {
		v.Ipv6Addresses = append(v.Ipv6Addresses, types.NetworkInterfaceIpv6Address{Ipv6Address: aws.String(ip),
			IsPrimaryIpv6: aws.Bool(i == 0 && r.PrimaryIPv6)})
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

func (s *Service) groupIdentifiers(in scope, ids []string) []types.GroupIdentifier {
	groups := []types.GroupIdentifier{}
	for _, id := range ids {
		g, err := s.groups.getRecord(in, &id)
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

// randomMAC is a random, locally administered hardware address.
func randomMAC() string {
	b := make([]byte, 6)
	rand.Read(b)
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", b[1], b[2], b[3], b[4], b[5])
}

// newInterface makes a network interface in a subnet with one private address: ip, or any when ip is empty. The
// caller finishes it and adds it to the change.
func (c *change) newInterface(id string, subnet record.Subnet, ip string) (record.NetworkInterface, error) {
	want := addressing{addressCount: aws.Int32(1)}
	if ip != "" {
		want = addressing{addresses: []string{ip}}
	}
	addresses, _, err := c.assignAddresses(id, subnet.ID, subnet.CIDR, want)
	c.touchVPC(subnet.VPCID)
	return record.NetworkInterface{
		EC2Resource:      c.identity(id, nil),
		VPCID:            subnet.VPCID,
		SubnetID:         subnet.ID,
		AvailabilityZone: subnet.AvailabilityZone,
		MACAddress:       randomMAC(),
		InterfaceType:    types.NetworkInterfaceTypeInterface,
		SourceDestCheck:  true,
		PrivateIPs:       addresses,
		RequesterID:      c.caller.UserID,
	}, err
}

// interfaceGroups are the groups of an interface in a VPC, which exist and stay: those wanted, or the VPC's default
// group.
func (c *change) interfaceGroups(vpcID string, wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		group, err := c.s.groupNamed(c.scope, vpcID, "default")
		return []string{group.ID}, err
	}
	if len(wanted) > maxGroupsPerInterface {
		return nil, wire.Errorf("SecurityGroupsPerInterfaceLimitExceeded",
			"The maximum number of security groups per interface has been reached.")
	}
	var ids []string
	for _, id := range wanted {
		group, err := c.s.groups.getRecord(c.scope, &id)
		if err != nil {
			return nil, err
		}
		if group.VPCID != vpcID {
			return nil, wire.Errorf("InvalidParameter",
				"You have specified two resources that belong to different networks.")
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

// networkInterfaceHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) networkInterfaceHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateNetworkInterface, creating[ec2.CreateNetworkInterfaceInput](s,
			types.ResourceTypeNetworkInterface)),
		wire.Handle(s.DescribeNetworkInterfaces, onRegion),
		wire.Handle(s.DeleteNetworkInterface, touching[ec2.DeleteNetworkInterfaceInput](s)),
		wire.Handle(s.DescribeNetworkInterfaceAttribute, touching[ec2.DescribeNetworkInterfaceAttributeInput](s)),
		wire.Handle(s.ModifyNetworkInterfaceAttribute, touching[ec2.ModifyNetworkInterfaceAttributeInput](s)),
		wire.Handle(s.ResetNetworkInterfaceAttribute, touching[ec2.ResetNetworkInterfaceAttributeInput](s)),
	}
}

// CreateNetworkInterface makes a network interface with addresses out of its subnet.
func (s *Service) CreateNetworkInterface(ctx context.Context, in *ec2.CreateNetworkInterfaceInput) (
	*ec2.CreateNetworkInterfaceOutput, error) {
	out, err := createResource(ctx, s, s.interfaces, creation{dryRun: in.DryRun, tags: in.TagSpecifications,
		token: in.ClientToken, request: in}, func(c *change, id string) error {
		subnet, err := s.subnets.getRecord(c.scope, in.SubnetId)
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
		case "", types.NetworkInterfaceCreationTypeEfa, types.NetworkInterfaceCreationTypeEfaOnly,
			types.NetworkInterfaceCreationTypeBranch, types.NetworkInterfaceCreationTypeTrunk:
			ni.InterfaceType = types.NetworkInterfaceType(cmp.Or(string(in.InterfaceType),
				string(types.NetworkInterfaceTypeInterface)))
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
		s.interfaces.createRecord(c, ni)
		return nil
	})
	if out != nil {
		out.Status = "pending"
	}
	return &ec2.CreateNetworkInterfaceOutput{NetworkInterface: out, ClientToken: in.ClientToken}, err
}

// DescribeNetworkInterfaces lists network interfaces.
func (s *Service) DescribeNetworkInterfaces(ctx context.Context, in *ec2.DescribeNetworkInterfacesInput) (
	*ec2.DescribeNetworkInterfacesOutput, error) {
	found, next, err := describe(ctx, s, s.interfaces, query{in.DryRun, in.NetworkInterfaceIds, in.Filters,
		in.MaxResults, in.NextToken})
	return &ec2.DescribeNetworkInterfacesOutput{NetworkInterfaces: found, NextToken: next}, err
}

// editInterface changes a network interface that is the caller's to change.
func (c *change) editInterface(id *string, edit func(*record.NetworkInterface) error) error {
	return c.s.interfaces.updateRecord(c, aws.ToString(id), func(r *record.NetworkInterface) error {
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
func (s *Service) DeleteNetworkInterface(ctx context.Context, in *ec2.DeleteNetworkInterfaceInput) (
	*ec2.DeleteNetworkInterfaceOutput, error) {
	return &ec2.DeleteNetworkInterfaceOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
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
	r, err := c.s.interfaces.deleteRecord(c, id)
	if err != nil {
		return r, err
	}
	if err := c.giveBack(r.SubnetID, slices.Concat(r.PrivateIPs, r.IPv6IPs),
		slices.Concat(r.IPv4Prefixes, r.IPv6Prefixes)); err != nil {
		return r, err
	}
	c.takeBack(&r)
	return r, c.dissociate(r.ID, r.PrivateIPs)
}

// DescribeNetworkInterfaceAttribute shows one attribute of a network interface.
func (s *Service) DescribeNetworkInterfaceAttribute(ctx context.Context,
	in *ec2.DescribeNetworkInterfaceAttributeInput) (*ec2.DescribeNetworkInterfaceAttributeOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.interfaces.getRecord(sc, in.NetworkInterfaceId)
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
func (s *Service) ModifyNetworkInterfaceAttribute(ctx context.Context, in *ec2.ModifyNetworkInterfaceAttributeInput) (
	*ec2.ModifyNetworkInterfaceAttributeOutput, error) {
	return &ec2.ModifyNetworkInterfaceAttributeOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) (err error) {
			switch {
			case in.Description != nil:
				r.Description = aws.ToString(in.Description.Value)
			case len(in.Groups) > 0:
				r.SecurityGroupIDs, err = c.interfaceGroups(r.VPCID, in.Groups)
				c.touchVPC(r.VPCID)
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
				return applySetting(setting{in.SourceDestCheck, &r.SourceDestCheck})
			}
			return err
		})
	})
}

// ResetNetworkInterfaceAttribute turns the source/destination check on again.
func (s *Service) ResetNetworkInterfaceAttribute(ctx context.Context, in *ec2.ResetNetworkInterfaceAttributeInput) (
	*ec2.ResetNetworkInterfaceAttributeOutput, error) {
	return &ec2.ResetNetworkInterfaceAttributeOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			r.SourceDestCheck = true
			return nil
		})
	})
}
