package vpc

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func (s *Service) newNATGatewayView() resource.View[record.NATGateway, types.NatGateway] {
	type v = types.NatGateway
	return resource.View[record.NATGateway, v]{
		Kind:   s.NATGateways,
		Show:   s.viewNAT,
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"nat-gateway-id": resource.StringFilter(func(x v) *string { return x.NatGatewayId }),
			"state":          resource.EnumFilter(func(x v) types.NatGatewayState { return x.State }),
			"subnet-id":      resource.StringFilter(func(x v) *string { return x.SubnetId }),
			"vpc-id":         resource.StringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewNAT(sc resource.Scope, r record.NATGateway) types.NatGateway {
	v := types.NatGateway{
		AvailabilityMode:    types.AvailabilityModeZonal,
		ConnectivityType:    r.ConnectivityType,
		CreateTime:          aws.Time(r.CreatedAt),
		NatGatewayAddresses: []types.NatGatewayAddress{},
		NatGatewayId:        aws.String(r.ID),
		State:               types.NatGatewayStateAvailable,
		SubnetId:            aws.String(r.SubnetID),
		Tags:                s.ListTagSet(sc, r.ID),
		VpcId:               aws.String(r.VPCID),
	}
	ni, err := s.NetworkInterfaces.GetRecord(sc, &r.NetworkInterfaceID)
	if err != nil {
		return v // deleted with its gateway a moment ago
	}
	elastic := s.AddressesOf(sc, ni.ID)
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

// natGatewayHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) natGatewayHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(
			s.CreateNatGateway,
			resource.Creating[ec2.CreateNatGatewayInput](s.Records, types.ResourceTypeNatgateway),
		),
		wire.Handle(s.DescribeNatGateways, resource.OnRegion),
		wire.Handle(s.DeleteNatGateway, resource.Touching[ec2.DeleteNatGatewayInput](s.Records)),
	}
}

// CreateNatGateway makes a NAT gateway with a network interface in a subnet; a public one with an elastic address.
func (s *Service) CreateNatGateway(ctx context.Context, in *ec2.CreateNatGatewayInput) (
	*ec2.CreateNatGatewayOutput, error) {
	out, err := s.natGatewayView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
		Token: in.ClientToken, Request: in}, func(c *resource.Change, id string) error {
		if in.AvailabilityMode == types.AvailabilityModeRegional || in.VpcId != nil {
			return resource.Unsupported("AvailabilityMode")
		}
		if len(in.SecondaryAllocationIds) > 0 {
			return resource.Unsupported("SecondaryAllocationIds")
		}
		if len(in.AvailabilityZoneAddresses) > 0 {
			return resource.Unsupported("AvailabilityZoneAddress")
		}
		subnet, err := s.Subnets.GetRecord(c.Scope, in.SubnetId)
		if err != nil {
			return err
		}
		if err := s.Subnets.Require(c, subnet.ID); err != nil {
			return err
		}
		kind := types.ConnectivityType(cmp.Or(string(in.ConnectivityType), string(types.ConnectivityTypePublic)))
		switch {
		case kind != types.ConnectivityTypePublic && kind != types.ConnectivityTypePrivate:
			return resource.InvalidValue(kind, "connectivityType", "")
		case kind == types.ConnectivityTypePublic && in.AllocationId == nil:
			return resource.MissingParameter("allocationId")
		case kind == types.ConnectivityTypePrivate && in.AllocationId != nil:
			return resource.Invalid("A private NAT gateway cannot have an elastic IP address.")
		}
		// Each is a network namespace of the host.
		if s.NATGateways.Table.Count(c.KeyPrefix()) >= resource.MaxNATGateways {
			return wire.Errorf("NatGatewayLimitExceeded", "The maximum number of NAT gateways (%d) has been reached.",
				resource.MaxNATGateways)
		}
		if err := networkinterface.CheckQuota(c, 1); err != nil {
			return err
		}
		ni, err := networkinterface.NewInterface(
			c, resource.NewID(s.NetworkInterfaces.Prefix), subnet, aws.ToString(in.PrivateIpAddress),
		)
		if err != nil {
			return err
		}
		secondary := networkinterface.Addressing{Addresses: in.SecondaryPrivateIpAddresses,
			AddressCount: in.SecondaryPrivateIpAddressCount}
		if err := networkinterface.CheckExclusive(secondary); err != nil {
			return err
		}
		if err := networkinterface.AssignIPv4(c, &ni, subnet, secondary); err != nil {
			return err
		}
		ni.InterfaceType, ni.SourceDestCheck = types.NetworkInterfaceTypeNatGateway, false
		markManaged(&ni, "Interface for NAT Gateway "+id, "amazon-aws")
		if kind == types.ConnectivityTypePublic {
			if _, err := networkinterface.AssociateAddress(c, *in.AllocationId, ni, "", false); err != nil {
				return err
			}
		}
		s.NetworkInterfaces.CreateRecord(c, ni)
		s.NATGateways.CreateRecord(c, record.NATGateway{
			EC2Resource: c.NewResource(id, in.ClientToken), VPCID: subnet.VPCID, SubnetID: subnet.ID,
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
func markManaged(ni *record.NetworkInterface, description, owner string) {
	ni.Description, ni.RequesterManaged, ni.RequesterID = description, true, owner
	ni.Attachment = &record.NetworkInterfaceAttachment{
		ID:              resource.NewID("ela-attach-"),
		InstanceOwnerID: owner,
		DeviceIndex:     1,
		AttachedAt:      ni.CreatedAt,
	}
}

// DescribeNatGateways lists NAT gateways.
func (s *Service) DescribeNatGateways(ctx context.Context, in *ec2.DescribeNatGatewaysInput) (
	*ec2.DescribeNatGatewaysOutput, error) {
	found, next, err := s.natGatewayView.Describe(
		ctx,
		resource.Query{Operation: "DescribeNatGateways", DryRun: in.DryRun, IDs: in.NatGatewayIds, Filters: in.Filter,
			Max:   in.MaxResults,
			Token: in.NextToken},
	)
	return &ec2.DescribeNatGatewaysOutput{NatGateways: found, NextToken: next}, err
}

// DeleteNatGateway deletes a NAT gateway with its interface and frees its elastic address. Routes to it become black
// holes.
func (s *Service) DeleteNatGateway(ctx context.Context, in *ec2.DeleteNatGatewayInput) (
	*ec2.DeleteNatGatewayOutput, error) {
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		nat, err := s.NATGateways.DeleteRecord(c, aws.ToString(in.NatGatewayId))
		if err != nil {
			return err
		}
		_, err = networkinterface.Delete(c, nat.NetworkInterfaceID)
		return err
	})
	return &ec2.DeleteNatGatewayOutput{NatGatewayId: in.NatGatewayId}, err
}
