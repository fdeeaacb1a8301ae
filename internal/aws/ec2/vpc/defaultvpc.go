package vpc

import (
	"context"
	"errors"
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// defaultVPCRange is the block of every default VPC; its default subnets are its first /20 blocks.
// https://docs.aws.amazon.com/vpc/latest/userguide/default-vpc-components.html
var defaultVPCRange = netip.MustParsePrefix("172.31.0.0/16")

// CreateDefaults creates what every account finds in a region: default DHCP options and a default VPC. Once made, it is
// the account's to delete.
func (s *Service) CreateDefaults(sc resource.Scope) error {
	key := store.Key(sc.Account, sc.Region)
	if _, err := s.Regions.Get(sc, key); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return s.CommitPlan(sc, nil, func(c *resource.Change) error {
		if _, err := s.Regions.Get(c, key); !errors.Is(err, store.ErrNotFound) {
			return err // another call was faster, or the store fails
		}
		domain := c.Region + ".compute.internal"
		if c.Region == "us-east-1" {
			domain = "ec2.internal"
		}
		options := record.DHCPOptions{
			EC2Resource: c.NewResource(resource.NewID(s.DHCPOptions.Prefix), nil),
			Options:     map[string][]string{"domain-name": {domain}, "domain-name-servers": {"AmazonProvidedDNS"}},
		}
		s.DHCPOptions.CreateRecord(c, options)
		c.Add("region", func() store.Op {
			return s.Regions.CreateOp(key, record.EC2Region{DefaultDHCPOptionsID: options.ID})
		})
		newDefaultVPC(c, resource.NewID(s.VPCs.Prefix), options.ID)
		return nil
	})
}

// newDefaultVPC adds a default VPC with a subnet in each zone and a way to the internet.
func newDefaultVPC(c *resource.Change, id, dhcpOptionsID string) {
	vpc, table, acl := prepareVPC(c, id, defaultVPCRange, dhcpOptionsID)
	vpc.Default, vpc.EnableDNSHostnames = true, true
	gateway := record.InternetGateway{
		EC2Resource: c.NewResource(resource.NewID(c.InternetGateways.Prefix), nil),
		VPCID:       vpc.ID,
	}
	table.Routes = []record.Route{{Destination: "0.0.0.0/0", Target: gateway.ID, Origin: types.RouteOriginCreateRoute}}
	c.VPCs.CreateRecord(c, vpc)
	c.RouteTables.CreateRecord(c, table)
	c.InternetGateways.CreateRecord(c, gateway)
	for i, z := range c.Zones() {
		c.Subnets.CreateRecord(c, newDefaultSubnet(c, resource.NewID(c.Subnets.Prefix), vpc.ID, acl.ID, z.Name,
			defaultSubnetRange(i)))
	}
}

// defaultSubnetRange returns the i-th /20 of the default VPC.
func defaultSubnetRange(i int) netip.Prefix {
	a := defaultVPCRange.Addr().As4()
	a[2] = byte(i << 4)
	return netip.PrefixFrom(netip.AddrFrom4(a), 20)
}

func newDefaultSubnet(c *resource.Change, id, vpcID, aclID, zone string, block netip.Prefix) record.Subnet {
	subnet := newSubnet(c, id, vpcID, aclID, zone, block)
	subnet.DefaultForAZ, subnet.MapPublicIPOnLaunch = true, true
	return subnet
}

// defaultVPCHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) defaultVPCHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateDefaultVpc, resource.OnRegion),
		wire.Handle(s.CreateDefaultSubnet, resource.OnRegion),
	}
}

// CreateDefaultVpc makes a default VPC for an account that deleted its own.
func (s *Service) CreateDefaultVpc(ctx context.Context, in *ec2.CreateDefaultVpcInput) (
	*ec2.CreateDefaultVpcOutput, error) {
	out, err := s.vpcView.Create(ctx, resource.Creation{DryRun: in.DryRun}, func(c *resource.Change, id string) error {
		if existing, err := s.DefaultVPC(c.Scope); err != nil {
			return err
		} else if existing != nil {
			return wire.Errorf("DefaultVpcAlreadyExists",
				"A Default VPC already exists for this account in this region.")
		}
		// Writing the region's row makes sure that of two calls one makes a VPC.
		key := store.Key(c.Account, c.Region)
		region, err := s.Regions.Get(c, key)
		if err != nil {
			return err
		}
		c.Add("region", func() store.Op { return s.Regions.UpdateOp(region) })
		options, err := firstDHCPOptions(c, region.Value)
		if err == nil {
			newDefaultVPC(c, id, options)
		}
		return err
	})
	return &ec2.CreateDefaultVpcOutput{Vpc: out}, err
}

// CreateDefaultSubnet makes the default subnet of a zone that has none, in the first /20 that is free.
func (s *Service) CreateDefaultSubnet(ctx context.Context, in *ec2.CreateDefaultSubnetInput) (
	*ec2.CreateDefaultSubnetOutput, error) {
	out, err := s.subnetView.Create(ctx, resource.Creation{DryRun: in.DryRun}, func(c *resource.Change, id string) error {
		name := aws.ToString(in.AvailabilityZone)
		if name == "" {
			name = aws.ToString(in.AvailabilityZoneId)
		}
		if name == "" {
			return resource.MissingParameter("availabilityZone")
		}
		z, ok := c.FindZone(name)
		if !ok {
			return invalidZone(c.Scope, name)
		}
		vpc, err := s.DefaultVPC(c.Scope)
		if err != nil {
			return err
		}
		if vpc == nil {
			return wire.Errorf("DefaultVpcDoesNotExist", "No default VPC exists for this account in this region.")
		}
		if err := c.RequireUnchanged(vpc.ID); err != nil {
			return err
		}
		siblings, err := subnetsOf(s.Records, c.Scope, vpc.ID)
		if err != nil {
			return err
		}
		for _, sub := range siblings {
			if sub.DefaultForAZ && sub.AvailabilityZone == z.Name {
				return wire.Errorf("DefaultSubnetAlreadyExistsInAvailabilityZone",
					"'%s' is already the default subnet in %s.", sub.ID, z.Name)
			}
		}
		acl, err := defaultACL(s.Records, c, vpc.ID)
		if err != nil {
			return err
		}
		for i := range 16 {
			block := defaultSubnetRange(i)
			if overlapping(siblings, block) == "" {
				s.Subnets.CreateRecord(c, newDefaultSubnet(c, id, vpc.ID, acl, z.Name, block))
				return nil
			}
		}
		return wire.Errorf("InvalidSubnet.Conflict",
			"The default VPC '%s' has no free /20 block for another default subnet.", vpc.ID)
	})
	return &ec2.CreateDefaultSubnetOutput{Subnet: out}, err
}
