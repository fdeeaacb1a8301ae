package ec2

import (
	"context"
	"errors"
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// defaultVPCRange is the block of every default VPC; its default subnets are its first /20 blocks.
// https://docs.aws.amazon.com/vpc/latest/userguide/default-vpc-components.html
var defaultVPCRange = netip.MustParsePrefix("172.31.0.0/16")

// ensureDefaults makes what every account finds in a region: default DHCP options and a default VPC. Once made, it is
// the account's to delete.
func (s *Service) ensureDefaults(in scope) error {
	key := store.Key(in.account, in.region)
	if _, err := s.regions.Get(in, key); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return s.commitPlan(in, nil, func(c *change) error {
		if _, err := s.regions.Get(c, key); !errors.Is(err, store.ErrNotFound) {
			return err // another call was faster, or the store fails
		}
		domain := c.region + ".compute.internal"
		if c.region == "us-east-1" {
			domain = "ec2.internal"
		}
		options := record.DHCPOptions{
			EC2Resource: c.identity(newID(s.dhcpOptions.prefix), nil),
			Options:     map[string][]string{"domain-name": {domain}, "domain-name-servers": {"AmazonProvidedDNS"}},
		}
		s.dhcpOptions.createRecord(c, options)
		c.add("region", &pending{op: func() store.Op {
			return s.regions.CreateOp(key, record.EC2Region{DefaultDHCPOptionsID: options.ID})
		}})
		c.newDefaultVPC(newID(s.vpcs.prefix), options.ID)
		return nil
	})
}

// newDefaultVPC adds a default VPC with a subnet in each zone and a way to the internet.
func (c *change) newDefaultVPC(id, dhcpOptionsID string) {
	vpc, table, acl := c.prepareVPC(id, defaultVPCRange, dhcpOptionsID)
	vpc.Default, vpc.EnableDNSHostnames = true, true
	gateway := record.InternetGateway{EC2Resource: c.identity(newID(c.s.igws.prefix), nil), VPCID: vpc.ID}
	table.Routes = []record.Route{{Destination: "0.0.0.0/0", Target: gateway.ID, Origin: types.RouteOriginCreateRoute}}
	c.s.vpcs.createRecord(c, vpc)
	c.s.routeTables.createRecord(c, table)
	c.s.igws.createRecord(c, gateway)
	for i, z := range c.listZones() {
		c.s.subnets.createRecord(c, c.newDefaultSubnet(newID(c.s.subnets.prefix), vpc.ID, acl.ID, z.Name,
			defaultSubnetRange(i)))
	}
}

// defaultSubnetRange is the i-th /20 of the default VPC.
func defaultSubnetRange(i int) netip.Prefix {
	a := defaultVPCRange.Addr().As4()
	a[2] = byte(i << 4)
	return netip.PrefixFrom(netip.AddrFrom4(a), 20)
}

func (c *change) newDefaultSubnet(id, vpcID, aclID, zone string, block netip.Prefix) record.Subnet {
	subnet := c.newSubnet(id, vpcID, aclID, zone, block)
	subnet.DefaultForAZ, subnet.MapPublicIPOnLaunch = true, true
	return subnet
}

// defaultVPC is the default VPC of the scope, or nil.
func (s *Service) defaultVPC(in scope) (*record.VPC, error) {
	found, err := s.vpcs.list(in, func(v record.VPC) bool { return v.Default })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// defaultVPCHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) defaultVPCHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateDefaultVpc, onRegion),
		wire.Handle(s.CreateDefaultSubnet, onRegion),
	}
}

// CreateDefaultVpc makes a default VPC for an account that deleted its own.
func (s *Service) CreateDefaultVpc(ctx context.Context, in *ec2.CreateDefaultVpcInput) (*ec2.CreateDefaultVpcOutput,
	error) {
	out, err := createResource(ctx, s, s.vpcs, creation{dryRun: in.DryRun}, func(c *change, id string) error {
		if existing, err := s.defaultVPC(c.scope); err != nil {
			return err
		} else if existing != nil {
			return wire.Errorf("DefaultVpcAlreadyExists",
				"A Default VPC already exists for this account in this region.")
		}
		// Writing the region's row makes sure that of two calls one makes a VPC.
		key := store.Key(c.account, c.region)
		region, err := s.regions.Get(c, key)
		if err != nil {
			return err
		}
		c.add("region", &pending{op: func() store.Op { return s.regions.UpdateOp(region) }})
		options, err := c.firstDHCPOptions(region.Value)
		if err == nil {
			c.newDefaultVPC(id, options)
		}
		return err
	})
	return &ec2.CreateDefaultVpcOutput{Vpc: out}, err
}

// CreateDefaultSubnet makes the default subnet of a zone that has none, in the first /20 that is free.
func (s *Service) CreateDefaultSubnet(ctx context.Context, in *ec2.CreateDefaultSubnetInput) (
	*ec2.CreateDefaultSubnetOutput, error) {
	out, err := createResource(ctx, s, s.subnets, creation{dryRun: in.DryRun}, func(c *change, id string) error {
		name := aws.ToString(in.AvailabilityZone)
		if name == "" {
			name = aws.ToString(in.AvailabilityZoneId)
		}
		if name == "" {
			return missing("availabilityZone")
		}
		z, ok := c.findZone(name)
		if !ok {
			return invalidZone(c.scope, name)
		}
		vpc, err := s.defaultVPC(c.scope)
		if err != nil {
			return err
		}
		if vpc == nil {
			return wire.Errorf("DefaultVpcDoesNotExist", "No default VPC exists for this account in this region.")
		}
		if err := c.requireUnchanged(vpc.ID); err != nil {
			return err
		}
		siblings, err := s.subnetsOf(c.scope, vpc.ID)
		if err != nil {
			return err
		}
		for _, sub := range siblings {
			if sub.DefaultForAZ && sub.AvailabilityZone == z.Name {
				return wire.Errorf("DefaultSubnetAlreadyExistsInAvailabilityZone",
					"'%s' is already the default subnet in %s.", sub.ID, z.Name)
			}
		}
		acl, err := s.defaultACL(c, vpc.ID)
		if err != nil {
			return err
		}
		for i := range 16 {
			block := defaultSubnetRange(i)
			if overlapping(siblings, block) == "" {
				s.subnets.createRecord(c, c.newDefaultSubnet(id, vpc.ID, acl, z.Name, block))
				return nil
			}
		}
		return wire.Errorf("InvalidSubnet.Conflict",
			"The default VPC '%s' has no free /20 block for another default subnet.", vpc.ID)
	})
	return &ec2.CreateDefaultSubnetOutput{Subnet: out}, err
}
