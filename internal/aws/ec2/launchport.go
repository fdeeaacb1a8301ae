package ec2

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// port is where a launch plugs a network interface in: one that it makes in a subnet, or one that exists.
type port struct {
	deviceIndex, networkCard int32
	deleteOnTermination      bool
	existing                 string // ID of an interface that exists
	subnet                   record.Subnet
	primary                  string // the private address; any when empty
	secondary, six           addressing
	automatic                int // IPv4 addresses that may be any
	groups                   []string
	publicIP                 bool
	kind                     types.NetworkInterfaceType
	description              string
	primaryIPv6              bool

	// What an instance takes over from its first port.
	zone, vpcID, subnetID           string
	hostnameType                    types.HostnameType
	resourceNameA, resourceNameAAAA bool
	tenancy                         types.Tenancy
}

// resolvePorts reads where a launch plugs its interfaces in; the first is the primary one. What it relies on is
// required.
func (c *change) resolvePorts(l *launch) ([]port, error) {
	in := &l.request
	var ports []port
	for _, spec := range l.interfaces {
		p := port{
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
			err = c.portOfExisting(&p)
		} else {
			err = c.portOfNew(&p, l, spec)
		}
		if err != nil {
			return nil, err
		}
		if len(ports) > 0 && p.vpcID != ports[0].vpcID {
			return nil, wire.Errorf("InvalidParameterCombination",
				"Network interfaces must be in the same VPC. '%s' and '%s' are different.", ports[0].vpcID, p.vpcID)
		}
		if len(ports) > 0 && p.zone != ports[0].zone {
			return nil, wire.Errorf("InvalidParameterCombination",
				"You may not attach a network interface to an instance if they are not in the same availability zone")
		}
		ports = append(ports, p)
	}
	slices.SortStableFunc(ports, func(a, b port) int { return cmp.Compare(a.deviceIndex, b.deviceIndex) })
	first := &ports[0]
	if first.deviceIndex != 0 {
		return nil, wire.Errorf("InvalidParameterCombination",
			"A network interface with the device index 0 is required.")
	}
	for i, p := range ports[1:] {
		if p.deviceIndex == ports[i].deviceIndex && p.networkCard == ports[i].networkCard {
			return nil, invalid("Each network interface requires a unique device index.")
		}
	}
	if len(ports) > l.kind.MaxENIs {
		return nil, interfaceLimit(len(ports), l.kind.Name)
	}
	if zone := placedIn(in.Placement); zone != "" {
		if z, ok := c.findZone(zone); !ok || z.Name != first.zone {
			return nil, invalidValue(zone, "availabilityZone", fmt.Sprintf("Subnet '%s' is in the availability zone %s",
				first.subnetID, first.zone))
		}
	}
	vpc, err := c.s.vpcs.getRecord(c.scope, &first.vpcID)
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
	return ports, nil
}

func interfaceLimit(count int, kind string) error {
	return wire.Errorf("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s", count, kind)
}

func addressLimit() error {
	return wire.Errorf("PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit.")
}

// placedIn is the zone that a request asks for.
func placedIn(p *types.Placement) string {
	if p == nil {
		return ""
	}
	return cmp.Or(aws.ToString(p.AvailabilityZone), aws.ToString(p.AvailabilityZoneId))
}

func (c *change) portOfExisting(p *port) error {
	ni, err := c.s.interfaces.getRecord(c.scope, &p.existing)
	if err != nil {
		return err
	}
	if err := c.mayManage(ni); err != nil {
		return err
	}
	if ni.Attachment != nil {
		return wire.Errorf("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", ni.ID)
	}
	subnet, err := c.s.subnets.getRecord(c.scope, &ni.SubnetID)
	p.vpcID, p.subnetID, p.zone, p.hostnameType = ni.VPCID, ni.SubnetID, ni.AvailabilityZone, subnet.HostnameType
	p.resourceNameA, p.resourceNameAAAA = subnet.EnableResourceNameDNSARecord, subnet.EnableResourceNameDNSAAAARecord
	return err
}

func (c *change) portOfNew(p *port, l *launch, spec types.InstanceNetworkInterfaceSpecification) (err error) {
	if p.subnet, err = c.launchSubnet(l, spec); err != nil {
		return err
	}
	if err := c.s.subnets.require(c, p.subnet.ID); err != nil {
		return err
	}
	p.vpcID, p.subnetID, p.zone, p.hostnameType = p.subnet.VPCID, p.subnet.ID, p.subnet.AvailabilityZone,
		p.subnet.HostnameType
	p.resourceNameA, p.resourceNameAAAA = p.subnet.EnableResourceNameDNSARecord,
		p.subnet.EnableResourceNameDNSAAAARecord
	// One interface without a group named by name has the group's ID now.
	groups := slices.Clone(spec.Groups)
	for _, name := range l.groupNames {
		group, err := c.s.groupNamed(c.scope, p.subnet.VPCID, name)
		if err != nil {
			return err
		}
		groups = append(groups, group.ID)
	}
	if p.groups, err = c.interfaceGroups(p.subnet.VPCID, groups); err != nil {
		return err
	}
	if p.primary, p.secondary, err = wantedAddresses(&ec2.CreateNetworkInterfaceInput{
		PrivateIpAddress: spec.PrivateIpAddress, PrivateIpAddresses: spec.PrivateIpAddresses,
		SecondaryPrivateIpAddressCount: spec.SecondaryPrivateIpAddressCount,
		Ipv4Prefixes:                   spec.Ipv4Prefixes, Ipv4PrefixCount: spec.Ipv4PrefixCount,
	}); err != nil {
		return err
	}
	p.automatic = int(aws.ToInt32(p.secondary.addressCount))
	if p.primary == "" {
		p.automatic++
	}
	if 1+requestedCount(p.secondary) > l.kind.IPv4PerENI {
		return addressLimit()
	}
	p.six = addressing{addressCount: spec.Ipv6AddressCount, prefixesCount: spec.Ipv6PrefixCount}
	for _, a := range spec.Ipv6Addresses {
		p.six.addresses = append(p.six.addresses, aws.ToString(a.Ipv6Address))
	}
	for _, x := range spec.Ipv6Prefixes {
		p.six.prefixes = append(p.six.prefixes, aws.ToString(x.Ipv6Prefix))
	}
	if err := exclusive(p.six); err != nil {
		return err
	}
	if p.subnet.AssignIPv6AddressOnCreation && len(p.six.addresses) == 0 && p.six.addressCount == nil {
		p.six.addressCount = aws.Int32(1)
	}
	if requestedCount(p.six) > l.kind.IPv6PerENI {
		return addressLimit()
	}
	p.publicIP = p.subnet.MapPublicIPOnLaunch && p.deviceIndex == 0 && len(l.interfaces) == 1
	if spec.AssociatePublicIpAddress != nil {
		p.publicIP = *spec.AssociatePublicIpAddress
	}
	p.kind = types.NetworkInterfaceTypeInterface
	switch kind := aws.ToString(spec.InterfaceType); kind {
	case "", "interface":
	case "efa", "efa-only":
		p.kind = types.NetworkInterfaceType(kind)
	default:
		return invalidValue(kind, "interfaceType", "")
	}
	return nil
}

// requestedCount is how many addresses and prefixes a request wants; each takes one of the places that an interface
// has.
func requestedCount(want addressing) int {
	return len(want.addresses) + len(want.prefixes) + int(aws.ToInt32(want.addressCount)+
		aws.ToInt32(want.prefixesCount))
}

// launchSubnet is the subnet of a new interface: the one that is asked for, or the default subnet of the zone.
func (c *change) launchSubnet(l *launch, spec types.InstanceNetworkInterfaceSpecification) (record.Subnet, error) {
	if aws.ToString(spec.SubnetId) != "" {
		return c.s.subnets.getRecord(c.scope, spec.SubnetId)
	}
	vpc, err := c.s.defaultVPC(c.scope)
	if err != nil {
		return record.Subnet{}, err
	}
	if vpc == nil {
		return record.Subnet{}, wire.Errorf("VPCIdNotSpecified",
			"No default VPC for this user. GroupName is only supported for EC2-Classic and default VPC.")
	}
	wanted := placedIn(l.request.Placement)
	if wanted != "" {
		z, ok := c.findZone(wanted)
		if !ok {
			return record.Subnet{}, invalidValue(wanted, "availabilityZone", "Invalid availability zone.")
		}
		wanted = z.Name
	}
	subnets, err := c.s.subnets.list(c.scope, func(r record.Subnet) bool {
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

// attachPort attaches an interface to a new instance; alone says that it is the only one.
func (c *change) attachPort(r *record.Instance, p port, l *launch, alone bool) error {
	attachment := &record.NetworkInterfaceAttachment{
		ID: newID("eni-attach-"), InstanceID: r.ID, InstanceOwnerID: c.account, DeviceIndex: p.deviceIndex,
		NetworkCardIndex:    p.networkCard,
		DeleteOnTermination: p.deleteOnTermination, AttachedAt: r.LaunchTime,
	}
	if p.existing != "" {
		return c.editInterface(&p.existing, func(ni *record.NetworkInterface) error {
			if ni.Attachment != nil {
				return wire.Errorf("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", ni.ID)
			}
			ni.Attachment = attachment
			return nil
		})
	}
	ni, err := c.newInterface(newID(c.s.interfaces.prefix), p.subnet, p.primary)
	if err != nil {
		return err
	}
	ni.SecurityGroupIDs, ni.InterfaceType, ni.Description, ni.Attachment, ni.PrimaryIPv6 = p.groups, p.kind,
		p.description, attachment, p.primaryIPv6
	if err := c.assignIPv4(&ni, p.subnet, p.secondary); err != nil {
		return err
	}
	if err := c.assignIPv6(&ni, p.subnet, p.six); err != nil {
		return err
	}
	if p.publicIP && alone {
		ni.AutoPublicIP = true
		if err := c.assignPublicIP(&ni); err != nil {
			return err
		}
	}
	c.s.interfaces.createRecord(c, ni)
	return c.tagLaunched(types.ResourceTypeNetworkInterface, ni.ID, l, nil)
}

// assignPublicIP gives the primary address of an interface a public address of Amazon's. There is no elastic one that
// points at it.
func (c *change) assignPublicIP(ni *record.NetworkInterface) (err error) {
	ni.PublicIP, err = c.pickPublicIP(ni.ID)
	return err
}

// takeBack takes the public address from an interface that it was lent to, if one was.
func (c *change) takeBack(ni *record.NetworkInterface) {
	if ni.PublicIP != "" {
		c.freePublicIP(ni.PublicIP)
		ni.PublicIP = ""
	}
}
