package instance

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// launchInterface describes a network interface of a launch: one to create in a subnet, or one that exists.
type launchInterface struct {
	deviceIndex, networkCard int32
	deleteOnTermination      bool
	existing                 string // ID of an interface that exists
	subnet                   record.Subnet
	primary                  string // the private address; any when empty
	secondaryIPv4, ipv6      networkinterface.Addressing
	automatic                int // IPv4 addresses that may be any
	groups                   []string
	publicIP                 bool
	interfaceType            types.NetworkInterfaceType
	description              string
	primaryIPv6              bool

	// What an instance takes over from its primary interface.
	zone, vpcID, subnetID           string
	hostnameType                    types.HostnameType
	resourceNameA, resourceNameAAAA bool
	tenancy                         types.Tenancy
}

// resolveInterfaces resolves the network interfaces of a launch; the first is the primary one. What it relies on is
// required.
func resolveInterfaces(c *resource.Change, l *Launch) ([]launchInterface, error) {
	in := &l.request
	var interfaces []launchInterface
	for _, spec := range l.interfaces {
		p := launchInterface{
			deviceIndex: aws.ToInt32(spec.DeviceIndex), networkCard: aws.ToInt32(spec.NetworkCardIndex),
			existing: aws.ToString(spec.NetworkInterfaceId), description: aws.ToString(spec.Description),
			primaryIPv6:         aws.ToBool(spec.PrimaryIpv6),
			deleteOnTermination: spec.NetworkInterfaceId == nil,
		}
		if spec.DeleteOnTermination != nil {
			p.deleteOnTermination = *spec.DeleteOnTermination
		}
		var err error
		if p.existing != "" {
			err = useExistingInterface(c, &p)
		} else {
			err = readNewInterface(c, &p, l, spec)
		}
		if err != nil {
			return nil, err
		}
		if len(interfaces) > 0 && p.vpcID != interfaces[0].vpcID {
			return nil, wire.Errorf("InvalidParameterCombination",
				"Network interfaces must be in the same VPC. '%s' and '%s' are different.", interfaces[0].vpcID, p.vpcID)
		}
		if len(interfaces) > 0 && p.zone != interfaces[0].zone {
			return nil, wire.Errorf("InvalidParameterCombination",
				"You may not attach a network interface to an instance if they are not in the same availability zone")
		}
		interfaces = append(interfaces, p)
	}
	slices.SortStableFunc(interfaces, func(a, b launchInterface) int { return cmp.Compare(a.deviceIndex, b.deviceIndex) })
	first := &interfaces[0]
	if first.deviceIndex != 0 {
		return nil, wire.Errorf("InvalidParameterCombination",
			"A network interface with the device index 0 is required.")
	}
	for i, p := range interfaces[1:] {
		if p.deviceIndex == interfaces[i].deviceIndex && p.networkCard == interfaces[i].networkCard {
			return nil, resource.Invalid("Each network interface requires a unique device index.")
		}
	}
	if len(interfaces) > l.instanceType.MaxENIs {
		return nil, networkinterface.InterfaceLimitExceeded(len(interfaces), l.instanceType.Name)
	}
	if zone := placedIn(in.Placement); zone != "" {
		if z, ok := c.FindZone(zone); !ok || z.Name != first.zone {
			return nil, resource.InvalidValue(zone, "availabilityZone", fmt.Sprintf("Subnet '%s' is in the availability zone %s",
				first.subnetID, first.zone))
		}
	}
	vpc, err := c.VPCs.GetRecord(c.Scope, &first.vpcID)
	if err != nil {
		return nil, err
	}
	first.tenancy = types.TenancyDefault
	if in.Placement != nil {
		first.tenancy = cmp.Or(in.Placement.Tenancy, first.tenancy)
	}
	if vpc.Tenancy == types.TenancyDedicated {
		first.tenancy = types.TenancyDedicated
	}
	return interfaces, nil
}

// placedIn returns the zone that a request asks for.
func placedIn(p *types.Placement) string {
	if p == nil {
		return ""
	}
	return cmp.Or(aws.ToString(p.AvailabilityZone), aws.ToString(p.AvailabilityZoneId))
}

func useExistingInterface(c *resource.Change, p *launchInterface) error {
	ni, err := c.NetworkInterfaces.GetRecord(c.Scope, &p.existing)
	if err != nil {
		return err
	}
	if err := networkinterface.CheckRequester(c, ni); err != nil {
		return err
	}
	if err := networkinterface.CheckFree(c, ni); err != nil {
		return err
	}
	subnet, err := c.Subnets.GetRecord(c.Scope, &ni.SubnetID)
	p.vpcID, p.subnetID, p.zone, p.hostnameType = ni.VPCID, ni.SubnetID, ni.AvailabilityZone, subnet.HostnameType
	p.resourceNameA, p.resourceNameAAAA = subnet.EnableResourceNameDNSARecord, subnet.EnableResourceNameDNSAAAARecord
	return err
}

func readNewInterface(
	c *resource.Change,
	p *launchInterface,
	l *Launch,
	spec types.InstanceNetworkInterfaceSpecification,
) (err error) {
	if p.subnet, err = launchSubnet(c, l, spec); err != nil {
		return err
	}
	if err := c.Subnets.Require(c, p.subnet.ID); err != nil {
		return err
	}
	p.vpcID, p.subnetID, p.zone, p.hostnameType = p.subnet.VPCID, p.subnet.ID, p.subnet.AvailabilityZone,
		p.subnet.HostnameType
	p.resourceNameA, p.resourceNameAAAA = p.subnet.EnableResourceNameDNSARecord,
		p.subnet.EnableResourceNameDNSAAAARecord
	// One interface without a group named by name has the group's ID now.
	groups := slices.Clone(spec.Groups)
	for _, name := range l.groupNames {
		group, err := c.SecurityGroupNamed(c.Scope, p.subnet.VPCID, name)
		if err != nil {
			return err
		}
		groups = append(groups, group.ID)
	}
	if p.groups, err = networkinterface.SecurityGroups(c, p.subnet.VPCID, groups); err != nil {
		return err
	}
	if p.primary, p.secondaryIPv4, err = networkinterface.RequestedAddresses(&ec2.CreateNetworkInterfaceInput{
		PrivateIpAddress: spec.PrivateIpAddress, PrivateIpAddresses: spec.PrivateIpAddresses,
		SecondaryPrivateIpAddressCount: spec.SecondaryPrivateIpAddressCount,
		Ipv4Prefixes:                   spec.Ipv4Prefixes, Ipv4PrefixCount: spec.Ipv4PrefixCount,
	}); err != nil {
		return err
	}
	p.automatic = int(aws.ToInt32(p.secondaryIPv4.AddressCount))
	if p.primary == "" {
		p.automatic++
	}
	if 1+requestedCount(p.secondaryIPv4) > l.instanceType.IPv4PerENI {
		return networkinterface.AddressLimitExceeded()
	}
	p.ipv6 = networkinterface.Addressing{AddressCount: spec.Ipv6AddressCount, PrefixCount: spec.Ipv6PrefixCount}
	for _, a := range spec.Ipv6Addresses {
		p.ipv6.Addresses = append(p.ipv6.Addresses, aws.ToString(a.Ipv6Address))
	}
	for _, x := range spec.Ipv6Prefixes {
		p.ipv6.Prefixes = append(p.ipv6.Prefixes, aws.ToString(x.Ipv6Prefix))
	}
	if err := networkinterface.CheckExclusive(p.ipv6); err != nil {
		return err
	}
	if p.subnet.AssignIPv6AddressOnCreation && len(p.ipv6.Addresses) == 0 && p.ipv6.AddressCount == nil {
		p.ipv6.AddressCount = aws.Int32(1)
	}
	if requestedCount(p.ipv6) > l.instanceType.IPv6PerENI {
		return networkinterface.AddressLimitExceeded()
	}
	p.publicIP = p.subnet.MapPublicIPOnLaunch && p.deviceIndex == 0 && len(l.interfaces) == 1
	if spec.AssociatePublicIpAddress != nil {
		p.publicIP = *spec.AssociatePublicIpAddress
	}
	p.interfaceType = types.NetworkInterfaceTypeInterface
	switch kind := aws.ToString(spec.InterfaceType); kind {
	case "", "interface":
	case "efa", "efa-only":
		p.interfaceType = types.NetworkInterfaceType(kind)
	default:
		return resource.InvalidValue(kind, "interfaceType", "")
	}
	return nil
}

// requestedCount returns the number of addresses and prefixes that a request wants; each counts against the limit of
// the interface.
func requestedCount(want networkinterface.Addressing) int {
	return len(want.Addresses) + len(want.Prefixes) + int(aws.ToInt32(want.AddressCount)+
		aws.ToInt32(want.PrefixCount))
}

// launchSubnet returns the subnet of a new interface: the requested one, or the default subnet of the zone.
func launchSubnet(
	c *resource.Change,
	l *Launch,
	spec types.InstanceNetworkInterfaceSpecification,
) (record.Subnet, error) {
	if aws.ToString(spec.SubnetId) != "" {
		return c.Subnets.GetRecord(c.Scope, spec.SubnetId)
	}
	vpc, err := c.DefaultVPC(c.Scope)
	if err != nil {
		return record.Subnet{}, err
	}
	if vpc == nil {
		return record.Subnet{}, wire.Errorf("VPCIdNotSpecified",
			"No default VPC for this user. GroupName is only supported for EC2-Classic and default VPC.")
	}
	wanted := placedIn(l.request.Placement)
	if wanted != "" {
		z, ok := c.FindZone(wanted)
		if !ok {
			return record.Subnet{}, resource.InvalidValue(wanted, "availabilityZone", "Invalid availability zone.")
		}
		wanted = z.Name
	}
	subnets, err := c.Subnets.List(c.Scope, func(r record.Subnet) bool {
		return r.VPCID == vpc.ID && r.DefaultForAZ && (wanted == "" || r.AvailabilityZone == wanted)
	})
	if err != nil {
		return record.Subnet{}, err
	}
	if len(subnets) == 0 {
		if wanted != "" {
			return record.Subnet{}, wire.Errorf("InvalidInput", "No default subnet for availability zone: '%s'.",
				wanted)
		}
		return record.Subnet{}, wire.Errorf("MissingInput",
			"No subnets found for the default VPC '%s'. Please specify a subnet.", vpc.ID)
	}
	return slices.MinFunc(subnets, func(a, b record.Subnet) int {
		return cmp.Compare(a.AvailabilityZone,
			b.AvailabilityZone)
	}), nil
}

// attachInterface attaches an interface to a new instance; alone says that it is the only one.
func attachInterface(c *resource.Change, r *record.Instance, p launchInterface, l *Launch, alone bool) error {
	attachment := &record.NetworkInterfaceAttachment{
		ID: resource.NewID("eni-attach-"), InstanceID: r.ID, InstanceOwnerID: c.Account, DeviceIndex: p.deviceIndex,
		NetworkCardIndex:    p.networkCard,
		DeleteOnTermination: p.deleteOnTermination, AttachedAt: r.LaunchTime,
	}
	if p.existing != "" {
		return networkinterface.Edit(c, &p.existing, func(ni *record.NetworkInterface) error {
			if err := networkinterface.CheckFree(c, *ni); err != nil {
				return err
			}
			if err := networkinterface.CheckTrunk(*ni, nil, l.instanceType); err != nil {
				return err
			}
			ni.Attachment = attachment
			return nil
		})
	}
	ni, err := networkinterface.NewInterface(c, resource.NewID(c.NetworkInterfaces.Prefix), p.subnet, p.primary)
	if err != nil {
		return err
	}
	ni.SecurityGroupIDs, ni.InterfaceType, ni.Description, ni.Attachment, ni.PrimaryIPv6 = p.groups, p.interfaceType,
		p.description, attachment, p.primaryIPv6
	if err := networkinterface.AssignIPv4(c, &ni, p.subnet, p.secondaryIPv4); err != nil {
		return err
	}
	if err := networkinterface.AssignIPv6(c, &ni, p.subnet, p.ipv6); err != nil {
		return err
	}
	if p.publicIP && alone {
		ni.AutoPublicIP = true
		if err := networkinterface.AssignPublicIP(c, &ni); err != nil {
			return err
		}
	}
	c.NetworkInterfaces.CreateRecord(c, ni)
	return tagLaunched(c, types.ResourceTypeNetworkInterface, ni.ID, l, nil)
}
