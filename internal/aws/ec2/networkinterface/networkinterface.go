package networkinterface

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

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) newNetworkInterfaceView() resource.View[record.NetworkInterface, types.NetworkInterface] {
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
			return resource.CollectValues(x.PrivateIpAddresses, func(a address) *string {
				if a.Association == nil {
					return nil
				}
				return member(*a.Association)
			})
		}
	}
	addresses := func(x v) []string {
		return resource.CollectValues(x.PrivateIpAddresses, func(a address) *string { return a.PrivateIpAddress })
	}
	publicIP := associated(func(a types.NetworkInterfaceAssociation) *string { return a.PublicIp })
	ipOwner := associated(func(a types.NetworkInterfaceAssociation) *string { return a.IpOwnerId })
	return resource.View[record.NetworkInterface, v]{
		Kind:   s.NetworkInterfaces,
		Show:   s.viewInterface,
		Tagged: func(x v) []types.Tag { return x.TagSet },
		Filters: resource.Filters[v]{
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
				resource.StringFilter(func(a types.NetworkInterfaceAttachment) *string { return a.AttachmentId })),
			"attachment.delete-on-termination": attached(
				resource.BoolFilter(func(a types.NetworkInterfaceAttachment) *bool { return a.DeleteOnTermination })),
			"attachment.device-index": attached(
				resource.IntFilter(func(a types.NetworkInterfaceAttachment) *int32 { return a.DeviceIndex })),
			"attachment.instance-id": attached(
				resource.StringFilter(func(a types.NetworkInterfaceAttachment) *string { return a.InstanceId })),
			"attachment.instance-owner-id": attached(
				resource.StringFilter(func(a types.NetworkInterfaceAttachment) *string { return a.InstanceOwnerId })),
			"attachment.status": attached(
				resource.EnumFilter(func(a types.NetworkInterfaceAttachment) types.AttachmentStatus { return a.Status })),
			"availability-zone":    resource.StringFilter(func(x v) *string { return x.AvailabilityZone }),
			"availability-zone-id": resource.StringFilter(func(x v) *string { return x.AvailabilityZoneId }),
			"description":          resource.StringFilter(func(x v) *string { return x.Description }),
			"group-id": func(x v) []string {
				return resource.CollectValues(x.Groups,
					func(g types.GroupIdentifier) *string { return g.GroupId })
			},
			"group-name": func(x v) []string {
				return resource.CollectValues(x.Groups, func(g types.GroupIdentifier) *string { return g.GroupName })
			},
			"ipv6-addresses.ipv6-address": func(x v) []string {
				return resource.CollectValues(x.Ipv6Addresses,
					func(a types.NetworkInterfaceIpv6Address) *string { return a.Ipv6Address })
			},
			"interface-type":       resource.EnumFilter(func(x v) types.NetworkInterfaceType { return x.InterfaceType }),
			"mac-address":          resource.StringFilter(func(x v) *string { return x.MacAddress }),
			"network-interface-id": resource.StringFilter(func(x v) *string { return x.NetworkInterfaceId }),
			"operator.managed":     resource.BoolFilter(func(x v) *bool { return x.Operator.Managed }),
			"operator.principal":   resource.StringFilter(func(x v) *string { return x.Operator.Principal }),
			"owner-id":             resource.StringFilter(func(x v) *string { return x.OwnerId }),
			"private-dns-name":     resource.StringFilter(func(x v) *string { return x.PrivateDnsName }),
			"private-ip-address":   addresses,
			"requester-id":         resource.StringFilter(func(x v) *string { return x.RequesterId }),
			"requester-managed":    resource.BoolFilter(func(x v) *bool { return x.RequesterManaged }),
			"source-dest-check":    resource.BoolFilter(func(x v) *bool { return x.SourceDestCheck }),
			"status":               resource.EnumFilter(func(x v) types.NetworkInterfaceStatus { return x.Status }),
			"subnet-id":            resource.StringFilter(func(x v) *string { return x.SubnetId }),
			"vpc-id":               resource.StringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewInterface(sc resource.Scope, r record.NetworkInterface) types.NetworkInterface {
	z, _ := sc.FindZone(r.AvailabilityZone)
	vpc := resource.MustRead(s.VPCs.Table.Get(sc, sc.Key(r.VPCID))).Value
	v := types.NetworkInterface{
		Attachment:         viewAttachment(r),
		AvailabilityZone:   aws.String(r.AvailabilityZone),
		AvailabilityZoneId: aws.String(z.ID),
		Description:        aws.String(r.Description),
		Groups:             s.SecurityGroupIdentifiers(sc, r.SecurityGroupIDs),
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
		RequesterManaged:   aws.Bool(r.ShownRequesterManaged()),
		SourceDestCheck:    aws.Bool(r.SourceDestCheck),
		Status:             types.NetworkInterfaceStatusAvailable,
		SubnetId:           aws.String(r.SubnetID),
		TagSet:             s.ListTagSet(sc, r.ID),
		VpcId:              aws.String(r.VPCID),
	}
	if resource.MustRead(isBranch(s.Records, sc, r)) {
		v.Status, v.InterfaceType = types.NetworkInterfaceStatusInUse, types.NetworkInterfaceTypeBranch
	}
	if r.Attachment != nil {
		v.Status = types.NetworkInterfaceStatusInUse
	}
	elastic := s.AddressesOf(sc, r.ID)
	for i, ip := range r.PrivateIPs {
		a := types.NetworkInterfacePrivateIpAddress{Primary: aws.Bool(i == 0), PrivateIpAddress: aws.String(ip)}
		if vpc.EnableDNSHostnames {
			a.PrivateDnsName = aws.String(PrivateDNSName(sc.Region, ip))
		}
		if e, ok := elastic[ip]; ok {
			a.Association = &types.NetworkInterfaceAssociation{
				AllocationId: aws.String(e.ID), AssociationId: aws.String(e.AssociationID),
				IpOwnerId:     aws.String(e.Account),
				PublicDnsName: aws.String(PublicDNSName(sc.Region, e.PublicIP)), PublicIp: aws.String(e.PublicIP),
			}
		} else if i == 0 && r.PublicIP != "" {
			a.Association = &types.NetworkInterfaceAssociation{
				IpOwnerId: aws.String(AmazonOwner), PublicDnsName: aws.String(PublicName(sc.Region, vpc, r.PublicIP)),
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

// PublicDNSName returns the DNS name of a public address.
func PublicDNSName(region, ip string) string {
	name := "ec2-" + strings.ReplaceAll(ip, ".", "-")
	if region == "us-east-1" {
		return name + ".compute-1.amazonaws.com"
	}
	return name + "." + region + ".compute.amazonaws.com"
}

// randomMAC returns a random, locally administered hardware address.
func randomMAC() string {
	b := make([]byte, 6)
	rand.Read(b)
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", b[1], b[2], b[3], b[4], b[5])
}

// CheckQuota refuses that many more network interfaces when the region would have too many.
func CheckQuota(c *resource.Change, more int) error {
	if c.NetworkInterfaces.Table.Count(c.KeyPrefix())+more > resource.MaxNetworkInterfaces {
		return wire.Errorf("NetworkInterfaceLimitExceeded", "The maximum number of network interfaces (%d) has been "+
			"reached: delete some that are not used.", resource.MaxNetworkInterfaces)
	}
	return nil
}

// NewInterface makes a network interface in a subnet with one private address: ip, or any when ip is empty. The
// caller has checked the quota, finishes it and adds it to the change.
func NewInterface(c *resource.Change, id string, subnet record.Subnet, ip string) (record.NetworkInterface, error) {
	want := Addressing{AddressCount: aws.Int32(1)}
	if ip != "" {
		want = Addressing{Addresses: []string{ip}}
	}
	addresses, _, err := assignAddresses(c, id, subnet.ID, subnet.CIDR, want)
	c.TouchVPC(subnet.VPCID)
	return record.NetworkInterface{
		EC2Resource:      c.NewResource(id, nil),
		VPCID:            subnet.VPCID,
		SubnetID:         subnet.ID,
		AvailabilityZone: subnet.AvailabilityZone,
		MACAddress:       randomMAC(),
		InterfaceType:    types.NetworkInterfaceTypeInterface,
		SourceDestCheck:  true,
		PrivateIPs:       addresses,
		RequesterID:      c.Caller.UserID,
	}, err
}

// SecurityGroups returns the groups of an interface in a VPC, which exist and stay: those wanted, or the VPC's default
// group.
func SecurityGroups(c *resource.Change, vpcID string, wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		group, err := c.SecurityGroupNamed(c.Scope, vpcID, "default")
		return []string{group.ID}, err
	}
	if len(wanted) > resource.MaxSecurityGroupsPerInterface {
		return nil, wire.Errorf("SecurityGroupsPerInterfaceLimitExceeded",
			"The maximum number of security groups per interface has been reached.")
	}
	var ids []string
	for _, id := range wanted {
		group, err := c.SecurityGroups.GetRecord(c.Scope, &id)
		if err != nil {
			return nil, err
		}
		if group.VPCID != vpcID {
			return nil, wire.Errorf("InvalidParameter",
				"You have specified two resources that belong to different networks.")
		}
		if slices.Contains(ids, id) {
			return nil, resource.Invalid("Duplicate security group '%s' specified.", id)
		}
		if err := c.SecurityGroups.Require(c, id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// networkInterfaceHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) networkInterfaceHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateNetworkInterface, resource.Creating[ec2.CreateNetworkInterfaceInput](s.Records,
			types.ResourceTypeNetworkInterface)),
		wire.Handle(s.DescribeNetworkInterfaces, resource.OnRegion),
		wire.Handle(s.DeleteNetworkInterface, resource.Touching[ec2.DeleteNetworkInterfaceInput](s.Records)),
		wire.Handle(
			s.DescribeNetworkInterfaceAttribute,
			resource.Touching[ec2.DescribeNetworkInterfaceAttributeInput](s.Records),
		),
		wire.Handle(
			s.ModifyNetworkInterfaceAttribute,
			resource.Touching[ec2.ModifyNetworkInterfaceAttributeInput](s.Records),
		),
		wire.Handle(s.ResetNetworkInterfaceAttribute, resource.Touching[ec2.ResetNetworkInterfaceAttributeInput](s.Records)),
	}
}

// CreateNetworkInterface makes a network interface with addresses out of its subnet.
func (s *Service) CreateNetworkInterface(ctx context.Context, in *ec2.CreateNetworkInterfaceInput) (
	*ec2.CreateNetworkInterfaceOutput, error) {
	out, err := s.networkInterfaceView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
		Token: in.ClientToken, Request: in}, func(c *resource.Change, id string) error {
		subnet, err := s.Subnets.GetRecord(c.Scope, in.SubnetId)
		if err != nil {
			return err
		}
		if err := s.Subnets.Require(c, subnet.ID); err != nil {
			return err
		}
		primary, secondary, err := RequestedAddresses(in)
		if err != nil {
			return err
		}
		if err := CheckQuota(c, 1); err != nil {
			return err
		}
		ni, err := NewInterface(c, id, subnet, primary)
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
			return resource.InvalidValue(in.InterfaceType, "interfaceType", "")
		}
		if ni.SecurityGroupIDs, err = SecurityGroups(c, subnet.VPCID, in.Groups); err != nil {
			return err
		}
		if err := AssignIPv4(c, &ni, subnet, secondary); err != nil {
			return err
		}
		six := Addressing{AddressCount: in.Ipv6AddressCount, PrefixCount: in.Ipv6PrefixCount}
		for _, a := range in.Ipv6Addresses {
			six.Addresses = append(six.Addresses, aws.ToString(a.Ipv6Address))
		}
		for _, p := range in.Ipv6Prefixes {
			six.Prefixes = append(six.Prefixes, aws.ToString(p.Ipv6Prefix))
		}
		if subnet.AssignIPv6AddressOnCreation && len(six.Addresses) == 0 && in.Ipv6AddressCount == nil {
			six.AddressCount = aws.Int32(1)
		}
		if err := AssignIPv6(c, &ni, subnet, six); err != nil {
			return err
		}
		ni.PrimaryIPv6 = aws.ToBool(in.EnablePrimaryIpv6)
		if c.IsService() {
			// What the interface is attached to is the service's, out of the account's sight.
			ni.RequesterManaged = true
			ni.Attachment = &record.NetworkInterfaceAttachment{
				ID: resource.NewID("eni-attach-"), InstanceOwnerID: record.EKSAccount, DeviceIndex: 1,
				DeleteOnTermination: true, AttachedAt: ni.CreatedAt,
			}
		}
		s.NetworkInterfaces.CreateRecord(c, ni)
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
	found, next, err := s.networkInterfaceView.Describe(
		ctx,
		resource.Query{Operation: "DescribeNetworkInterfaces", DryRun: in.DryRun, IDs: in.NetworkInterfaceIds,
			Filters: in.Filters,
			Max:     in.MaxResults, Token: in.NextToken},
	)
	return &ec2.DescribeNetworkInterfacesOutput{NetworkInterfaces: found, NextToken: next}, err
}

// Edit changes a network interface that is the caller's to change.
func Edit(c *resource.Change, id *string, edit func(*record.NetworkInterface) error) error {
	return c.NetworkInterfaces.UpdateRecord(c, aws.ToString(id), func(r *record.NetworkInterface) error {
		if err := CheckRequester(c, *r); err != nil {
			return err
		}
		return edit(r)
	})
}

// CheckRequester refuses everybody but the service that made an interface for the account.
func CheckRequester(c *resource.Change, r record.NetworkInterface) error {
	role := func(userID string) string { id, _, _ := strings.Cut(userID, ":"); return id }
	if r.RequesterManaged && role(r.RequesterID) != role(c.Caller.UserID) {
		return wire.Errorf("AuthFailure", "You do not have permission to access the specified resource.")
	}
	return nil
}

// DeleteNetworkInterface deletes a network interface that no instance uses.
func (s *Service) DeleteNetworkInterface(ctx context.Context, in *ec2.DeleteNetworkInterfaceInput) (
	*ec2.DeleteNetworkInterfaceOutput, error) {
	return &ec2.DeleteNetworkInterfaceOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		r, err := Delete(c, aws.ToString(in.NetworkInterfaceId))
		if err != nil {
			return err
		}
		if r.Attachment != nil && !r.RequesterManaged {
			return resource.Invalid("Network interface '%s' is currently in use.", r.ID)
		}
		return CheckRequester(c, r)
	})
}

// Delete deletes an interface, gives its addresses back and dissociates its elastic addresses.
func Delete(c *resource.Change, id string) (record.NetworkInterface, error) {
	r, err := c.NetworkInterfaces.DeleteRecord(c, id)
	if err != nil {
		return r, err
	}
	if err := giveBack(c, r.SubnetID, slices.Concat(r.PrivateIPs, r.IPv6IPs),
		slices.Concat(r.IPv4Prefixes, r.IPv6Prefixes)); err != nil {
		return r, err
	}
	ReleasePublicIP(c, &r)
	return r, dissociate(c, r.ID, r.PrivateIPs)
}

// DescribeNetworkInterfaceAttribute shows one attribute of a network interface.
func (s *Service) DescribeNetworkInterfaceAttribute(ctx context.Context,
	in *ec2.DescribeNetworkInterfaceAttributeInput) (*ec2.DescribeNetworkInterfaceAttributeOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.NetworkInterfaces.GetRecord(sc, in.NetworkInterfaceId)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeNetworkInterfaceAttributeOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	switch in.Attribute {
	case types.NetworkInterfaceAttributeDescription:
		out.Description = &types.AttributeValue{Value: aws.String(r.Description)}
	case types.NetworkInterfaceAttributeGroupSet:
		out.Groups = s.SecurityGroupIdentifiers(sc, r.SecurityGroupIDs)
	case types.NetworkInterfaceAttributeSourceDestCheck:
		out.SourceDestCheck = resource.BooleanAttribute(r.SourceDestCheck)
	case types.NetworkInterfaceAttributeAttachment:
		out.Attachment = viewAttachment(r)
	case "":
		return nil, resource.MissingParameter("attribute")
	default:
		return nil, resource.InvalidValue(in.Attribute, "attribute", "Unknown network interface attribute.")
	}
	if aws.ToBool(in.DryRun) {
		return nil, resource.ErrDryRun
	}
	return out, nil
}

// ModifyNetworkInterfaceAttribute changes one attribute of a network interface.
func (s *Service) ModifyNetworkInterfaceAttribute(ctx context.Context, in *ec2.ModifyNetworkInterfaceAttributeInput) (
	*ec2.ModifyNetworkInterfaceAttributeOutput, error) {
	return &ec2.ModifyNetworkInterfaceAttributeOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return Edit(c, in.NetworkInterfaceId, func(r *record.NetworkInterface) (err error) {
			switch {
			case in.Description != nil:
				r.Description = aws.ToString(in.Description.Value)
			case len(in.Groups) > 0:
				r.SecurityGroupIDs, err = SecurityGroups(c, r.VPCID, in.Groups)
				c.TouchVPC(r.VPCID)
			case in.Attachment != nil:
				if r.Attachment == nil || r.Attachment.ID != aws.ToString(in.Attachment.AttachmentId) {
					return missingAttachment(aws.ToString(in.Attachment.AttachmentId))
				}
				r.Attachment.DeleteOnTermination = aws.ToBool(in.Attachment.DeleteOnTermination)
			case in.EnablePrimaryIpv6 != nil:
				if len(r.IPv6IPs) == 0 {
					return resource.Invalid("The network interface '%s' has no IPv6 address.", r.ID)
				}
				r.PrimaryIPv6 = *in.EnablePrimaryIpv6
			default:
				return resource.ApplySetting(resource.Setting{Wanted: in.SourceDestCheck, Field: &r.SourceDestCheck})
			}
			return err
		})
	})
}

// ResetNetworkInterfaceAttribute turns the source/destination check on again.
func (s *Service) ResetNetworkInterfaceAttribute(ctx context.Context, in *ec2.ResetNetworkInterfaceAttributeInput) (
	*ec2.ResetNetworkInterfaceAttributeOutput, error) {
	return &ec2.ResetNetworkInterfaceAttributeOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return Edit(c, in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			r.SourceDestCheck = true
			return nil
		})
	})
}

// PublicName returns the public DNS name of an address in a VPC; empty in one without DNS hostnames.
func PublicName(region string, vpc record.VPC, ip string) string {
	if !vpc.EnableDNSHostnames {
		return ""
	}
	return PublicDNSName(region, ip)
}

// PrivateDNSName returns the name of an address in its VPC: ip-10-0-1-5.eu-west-1.compute.internal.
func PrivateDNSName(region, ip string) string {
	name := "ip-" + strings.ReplaceAll(ip, ".", "-")
	if region == "us-east-1" {
		return name + ".ec2.internal"
	}
	return name + "." + region + ".compute.internal"
}
