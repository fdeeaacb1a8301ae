package ec2

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func (s *Service) natGatewayKind() kind[record.NATGateway, types.NatGateway] {
	type v = types.NatGateway
	return kind[record.NATGateway, v]{
		naming: naming{
			resource: types.ResourceTypeNatgateway, prefix: "nat-", noun: "natGateway ID", param: "natGatewayId",
			absent:   "NAT gateway %s was not found",
			notFound: "NatGatewayNotFound", malformed: "NatGatewayMalformed",
		},
		table:  record.NATGateways(s.store),
		view:   s.viewNAT,
		tagged: func(x v) []types.Tag { return x.Tags },
		vpc:    func(r record.NATGateway) string { return r.VPCID },
		filters: filters[v]{
			"nat-gateway-id": stringFilter(func(x v) *string { return x.NatGatewayId }),
			"state":          enumFilter(func(x v) types.NatGatewayState { return x.State }),
			"subnet-id":      stringFilter(func(x v) *string { return x.SubnetId }),
			"vpc-id":         stringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewNAT(in scope, r record.NATGateway) types.NatGateway {
	v := types.NatGateway{
		AvailabilityMode:    types.AvailabilityModeZonal,
		ConnectivityType:    r.ConnectivityType,
		CreateTime:          aws.Time(r.CreatedAt),
		NatGatewayAddresses: []types.NatGatewayAddress{},
		NatGatewayId:        aws.String(r.ID),
		State:               types.NatGatewayStateAvailable,
		SubnetId:            aws.String(r.SubnetID),
		Tags:                s.listTagSet(in, r.ID),
		VpcId:               aws.String(r.VPCID),
	}
	ni, err := s.interfaces.getRecord(in, &r.NetworkInterfaceID)
	if err != nil {
		return v // deleted with its gateway a moment ago
	}
	elastic := s.addressesOf(in, ni.ID)
	for i, ip := range ni.PrivateIPs {
		a := types.NatGatewayAddress{
			IsPrimary: aws.Bool(i == 0), NetworkInterfaceId: aws.String(ni.ID), PrivateIp: aws.String(ip),
			Status: types.NatGatewayAddressStatusSucceeded,
		}
		if e, ok := elastic[ip]; ok {
			a.AllocationId, a.AssociationId, a.PublicIp = aws.String(e.ID), aws.String(e.AssociationID),
				aws.String(e.PublicIP)
		}
		v.NatGatewayAddresses = append(v.NatGatewayAddresses, a)
	}
	return v
}

// natGatewayHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) natGatewayHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateNatGateway, creating[ec2.CreateNatGatewayInput](s, types.ResourceTypeNatgateway)),
		wire.Handle(s.DescribeNatGateways, onRegion),
		wire.Handle(s.DeleteNatGateway, touching[ec2.DeleteNatGatewayInput](s)),
	}
}

// CreateNatGateway makes a NAT gateway with a network interface in a subnet; a public one with an elastic address.
func (s *Service) CreateNatGateway(ctx context.Context, in *ec2.CreateNatGatewayInput) (*ec2.CreateNatGatewayOutput,
	error) {
	out, err := createResource(ctx, s, s.nats, creation{dryRun: in.DryRun, tags: in.TagSpecifications,
		token: in.ClientToken, request: in}, func(c *change, id string) error {
		if in.AvailabilityMode == types.AvailabilityModeRegional || in.VpcId != nil {
			return unsupported("AvailabilityMode")
		}
		if len(in.SecondaryAllocationIds) > 0 {
			return unsupported("SecondaryAllocationIds")
		}
		if len(in.AvailabilityZoneAddresses) > 0 {
			return unsupported("AvailabilityZoneAddress")
		}
		subnet, err := s.subnets.getRecord(c.scope, in.SubnetId)
		if err != nil {
			return err
		}
		if err := s.subnets.require(c, subnet.ID); err != nil {
			return err
		}
		kind := types.ConnectivityType(cmp.Or(string(in.ConnectivityType), string(types.ConnectivityTypePublic)))
		switch {
		case kind != types.ConnectivityTypePublic && kind != types.ConnectivityTypePrivate:
			return invalidValue(kind, "connectivityType", "")
		case kind == types.ConnectivityTypePublic && in.AllocationId == nil:
			return missing("allocationId")
		case kind == types.ConnectivityTypePrivate && in.AllocationId != nil:
			return invalid("A private NAT gateway cannot have an elastic IP address.")
		}
		ni, err := c.newInterface(newID(s.interfaces.prefix), subnet, aws.ToString(in.PrivateIpAddress))
		if err != nil {
			return err
		}
		secondary := addressing{addresses: in.SecondaryPrivateIpAddresses,
			addressCount: in.SecondaryPrivateIpAddressCount}
		if err := exclusive(secondary); err != nil {
			return err
		}
		if err := c.assignIPv4(&ni, subnet, secondary); err != nil {
			return err
		}
		ni.InterfaceType, ni.SourceDestCheck = types.NetworkInterfaceTypeNatGateway, false
		c.markManaged(&ni, "Interface for NAT Gateway "+id, "amazon-aws")
		if kind == types.ConnectivityTypePublic {
			if _, err := c.associate(*in.AllocationId, ni, "", false); err != nil {
				return err
			}
		}
		s.interfaces.createRecord(c, ni)
		s.nats.createRecord(c, record.NATGateway{
			EC2Resource: c.identity(id, in.ClientToken), VPCID: subnet.VPCID, SubnetID: subnet.ID,
			ConnectivityType: kind, NetworkInterfaceID: ni.ID,
		})
		return nil
	})
	if out != nil {
		out.State = types.NatGatewayStatePending
	}
	return &ec2.CreateNatGatewayOutput{NatGateway: out, ClientToken: in.ClientToken}, err
}

// markManaged makes an interface one that AWS runs for the account: only its owner's call changes it.
func (c *change) markManaged(ni *record.NetworkInterface, description, owner string) {
	ni.Description, ni.RequesterManaged, ni.RequesterID = description, true, owner
	ni.Attachment = &record.NetworkInterfaceAttachment{ID: newID("ela-attach-"), InstanceOwnerID: owner, DeviceIndex: 1,
		AttachedAt: ni.CreatedAt}
}

// DescribeNatGateways lists NAT gateways.
func (s *Service) DescribeNatGateways(ctx context.Context, in *ec2.DescribeNatGatewaysInput) (
	*ec2.DescribeNatGatewaysOutput, error) {
	found, next, err := describe(ctx, s, s.nats, query{in.DryRun, in.NatGatewayIds, in.Filter, in.MaxResults,
		in.NextToken})
	return &ec2.DescribeNatGatewaysOutput{NatGateways: found, NextToken: next}, err
}

// DeleteNatGateway deletes a NAT gateway with its interface and frees its elastic address. Routes to it become black
// holes.
func (s *Service) DeleteNatGateway(ctx context.Context, in *ec2.DeleteNatGatewayInput) (*ec2.DeleteNatGatewayOutput,
	error) {
	err := s.applyChange(ctx, in.DryRun, func(c *change) error {
		nat, err := s.nats.deleteRecord(c, aws.ToString(in.NatGatewayId))
		if err != nil {
			return err
		}
		_, err = c.removeInterface(nat.NetworkInterfaceID)
		return err
	})
	return &ec2.DeleteNatGatewayOutput{NatGatewayId: in.NatGatewayId}, err
}
