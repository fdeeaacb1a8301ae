package vpc

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) newInternetGatewayView() resource.View[record.InternetGateway, types.InternetGateway] {
	type v = types.InternetGateway
	return resource.View[record.InternetGateway, v]{
		Kind: s.InternetGateways,
		Show: func(sc resource.Scope, r record.InternetGateway) v {
			return v{Attachments: attachments(r.VPCID), InternetGatewayId: aws.String(r.ID),
				OwnerId: aws.String(r.Account), Tags: s.ListTagSet(sc, r.ID)}
		},
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"attachment.state": func(x v) []string {
				return resource.CollectValues(x.Attachments,
					func(a types.InternetGatewayAttachment) *types.AttachmentStatus { return &a.State })
			},
			"attachment.vpc-id": func(x v) []string {
				return resource.CollectValues(x.Attachments, func(a types.InternetGatewayAttachment) *string { return a.VpcId })
			},
			"internet-gateway-id": resource.StringFilter(func(x v) *string { return x.InternetGatewayId }),
			"owner-id":            resource.StringFilter(func(x v) *string { return x.OwnerId }),
		},
	}
}

// attachments shows what a gateway is attached to. The state is "available" for "attached", a habit of AWS's own.
func attachments(vpcID string) []types.InternetGatewayAttachment {
	if vpcID == "" {
		return []types.InternetGatewayAttachment{}
	}
	return []types.InternetGatewayAttachment{{State: "available", VpcId: aws.String(vpcID)}}
}

// gatewayHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) gatewayHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateInternetGateway, resource.Creating[ec2.CreateInternetGatewayInput](s.Records,
			types.ResourceTypeInternetGateway)),
		wire.Handle(s.DescribeInternetGateways, resource.OnRegion),
		wire.Handle(s.AttachInternetGateway, resource.Touching[ec2.AttachInternetGatewayInput](s.Records)),
		wire.Handle(s.DetachInternetGateway, resource.Touching[ec2.DetachInternetGatewayInput](s.Records)),
		wire.Handle(s.DeleteInternetGateway, resource.Touching[ec2.DeleteInternetGatewayInput](s.Records)),
		wire.Handle(s.CreateEgressOnlyInternetGateway, resource.Creating[ec2.CreateEgressOnlyInternetGatewayInput](s.Records,
			types.ResourceTypeEgressOnlyInternetGateway)),
		wire.Handle(s.DescribeEgressOnlyInternetGateways, resource.OnRegion),
		wire.Handle(
			s.DeleteEgressOnlyInternetGateway,
			resource.Touching[ec2.DeleteEgressOnlyInternetGatewayInput](s.Records),
		),
	}
}

// CreateInternetGateway makes an internet gateway.
func (s *Service) CreateInternetGateway(ctx context.Context, in *ec2.CreateInternetGatewayInput) (
	*ec2.CreateInternetGatewayOutput, error) {
	out, err := s.internetGatewayView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications},
		func(c *resource.Change, id string) error {
			s.InternetGateways.CreateRecord(c, record.InternetGateway{EC2Resource: c.NewResource(id, nil)})
			return s.InternetGateways.CheckQuota(c.Scope, resource.MaxInternetGateways, nil, "InternetGatewayLimitExceeded",
				"internet gateways")
		})
	return &ec2.CreateInternetGatewayOutput{InternetGateway: out}, err
}

// DescribeInternetGateways lists internet gateways.
func (s *Service) DescribeInternetGateways(ctx context.Context, in *ec2.DescribeInternetGatewaysInput) (
	*ec2.DescribeInternetGatewaysOutput, error) {
	found, next, err := s.internetGatewayView.Describe(
		ctx,
		resource.Query{Operation: "DescribeInternetGateways", DryRun: in.DryRun, IDs: in.InternetGatewayIds,
			Filters: in.Filters, Max: in.MaxResults,
			Token: in.NextToken},
	)
	return &ec2.DescribeInternetGatewaysOutput{InternetGateways: found, NextToken: next}, err
}

// AttachInternetGateway attaches an internet gateway to a VPC that has none.
func (s *Service) AttachInternetGateway(ctx context.Context, in *ec2.AttachInternetGatewayInput) (
	*ec2.AttachInternetGatewayOutput, error) {
	return &ec2.AttachInternetGatewayOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return s.InternetGateways.UpdateRecord(c, aws.ToString(in.InternetGatewayId), func(r *record.InternetGateway) error {
			vpc, err := s.VPCs.GetRecord(c.Scope, in.VpcId)
			if err != nil {
				return err
			}
			if r.VPCID != "" {
				return wire.Errorf("Resource.AlreadyAssociated", "resource %s is already attached to network %s", r.ID,
					r.VPCID)
			}
			if err := c.RequireUnchanged(vpc.ID); err != nil {
				return err
			}
			if has, err := s.InternetGateways.HasMatch(c.Scope,
				func(other record.InternetGateway) bool { return other.VPCID == vpc.ID }); err != nil {
				return err
			} else if has {
				return wire.Errorf("InvalidParameterValue", "Network %s already has an internet gateway attached",
					vpc.ID)
			}
			r.VPCID = vpc.ID
			return nil
		})
	})
}

// DetachInternetGateway detaches an internet gateway from a VPC in which nothing has a public address. Routes to the
// gateway become black holes.
func (s *Service) DetachInternetGateway(ctx context.Context, in *ec2.DetachInternetGatewayInput) (
	*ec2.DetachInternetGatewayOutput, error) {
	return &ec2.DetachInternetGatewayOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return s.InternetGateways.UpdateRecord(c, aws.ToString(in.InternetGatewayId), func(r *record.InternetGateway) error {
			vpc, err := s.VPCs.GetRecord(c.Scope, in.VpcId)
			if err != nil {
				return err
			}
			if r.VPCID != vpc.ID {
				return wire.Errorf("Gateway.NotAttached", "resource %s is not attached to network %s", r.ID, vpc.ID)
			}
			if err := c.RequireUnchanged(vpc.ID); err != nil {
				return err
			}
			if mapped, err := s.Addresses.HasMatch(c.Scope, func(a record.Address) bool {
				ni, err := s.NetworkInterfaces.GetRecord(c.Scope, &a.NetworkInterfaceID)
				return err == nil && ni.VPCID == vpc.ID
			}); err != nil {
				return err
			} else if mapped {
				return mappedAddresses(vpc.ID)
			}
			if lent, err := s.NetworkInterfaces.HasMatch(c.Scope,
				func(ni record.NetworkInterface) bool { return ni.VPCID == vpc.ID && ni.PublicIP != "" }); err != nil {
				return err
			} else if lent {
				return mappedAddresses(vpc.ID)
			}
			r.VPCID, r.RouteTableID, r.RouteTableAssociationID = "", "", ""
			return nil
		})
	})
}

func mappedAddresses(vpcID string) error {
	return wire.Errorf("DependencyViolation",
		"Network %s has some mapped public address(es). Please unmap those public address(es) before detaching the "+
			"gateway.", vpcID)
}

// DeleteInternetGateway deletes an internet gateway that is attached to no VPC.
func (s *Service) DeleteInternetGateway(ctx context.Context, in *ec2.DeleteInternetGatewayInput) (
	*ec2.DeleteInternetGatewayOutput, error) {
	return &ec2.DeleteInternetGatewayOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		r, err := s.InternetGateways.DeleteRecord(c, aws.ToString(in.InternetGatewayId))
		if err == nil && r.VPCID != "" {
			err = resource.DependencyViolation("internetGateway", r.ID)
		}
		return err
	})
}

func (s *Service) newEgressOnlyInternetGatewayView() resource.View[record.EgressOnlyInternetGateway,
	types.EgressOnlyInternetGateway] {
	type v = types.EgressOnlyInternetGateway
	return resource.View[record.EgressOnlyInternetGateway, v]{
		Kind: s.EgressOnlyInternetGateways,
		Show: func(sc resource.Scope, r record.EgressOnlyInternetGateway) v {
			view := v{Attachments: attachments(r.VPCID), EgressOnlyInternetGatewayId: aws.String(r.ID),
				Tags: s.ListTagSet(sc, r.ID)}
			view.Attachments[0].State = types.AttachmentStatusAttached
			return view
		},
		Tagged:  func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{},
	}
}

// CreateEgressOnlyInternetGateway makes an egress-only internet gateway for a VPC.
func (s *Service) CreateEgressOnlyInternetGateway(ctx context.Context, in *ec2.CreateEgressOnlyInternetGatewayInput) (
	*ec2.CreateEgressOnlyInternetGatewayOutput, error) {
	out, err := s.egressOnlyInternetGatewayView.Create(
		ctx,
		resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
			Token: in.ClientToken, Request: in},
		func(c *resource.Change, id string) error {
			vpc, err := c.HoldVPC(in.VpcId)
			if err != nil {
				return err
			}
			s.EgressOnlyInternetGateways.CreateRecord(
				c,
				record.EgressOnlyInternetGateway{EC2Resource: c.NewResource(id, in.ClientToken),
					VPCID: vpc.ID},
			)
			return nil
		},
	)
	return &ec2.CreateEgressOnlyInternetGatewayOutput{EgressOnlyInternetGateway: out, ClientToken: in.ClientToken}, err
}

// DescribeEgressOnlyInternetGateways lists egress-only internet gateways.
func (s *Service) DescribeEgressOnlyInternetGateways(ctx context.Context,
	in *ec2.DescribeEgressOnlyInternetGatewaysInput) (*ec2.DescribeEgressOnlyInternetGatewaysOutput, error) {
	found, next, err := s.egressOnlyInternetGatewayView.Describe(
		ctx,
		resource.Query{Operation: "DescribeEgressOnlyInternetGateways", DryRun: in.DryRun,
			IDs: in.EgressOnlyInternetGatewayIds, Filters: in.Filters,
			Max: in.MaxResults, Token: in.NextToken},
	)
	return &ec2.DescribeEgressOnlyInternetGatewaysOutput{EgressOnlyInternetGateways: found, NextToken: next}, err
}

// DeleteEgressOnlyInternetGateway deletes an egress-only internet gateway. Routes to it become black holes.
func (s *Service) DeleteEgressOnlyInternetGateway(ctx context.Context, in *ec2.DeleteEgressOnlyInternetGatewayInput) (
	*ec2.DeleteEgressOnlyInternetGatewayOutput, error) {
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		_, err := s.EgressOnlyInternetGateways.DeleteRecord(c, aws.ToString(in.EgressOnlyInternetGatewayId))
		return err
	})
	return &ec2.DeleteEgressOnlyInternetGatewayOutput{ReturnCode: aws.Bool(err == nil)}, err
}
