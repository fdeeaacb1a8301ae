package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) internetGatewayKind() kind[record.InternetGateway, types.InternetGateway] {
	type v = types.InternetGateway
	return kind[record.InternetGateway, v]{
		naming: naming{
			resource: types.ResourceTypeInternetGateway, prefix: "igw-", noun: "internetGateway ID",
			param:    "internetGatewayId",
			notFound: "InvalidInternetGatewayID.NotFound", malformed: "InvalidInternetGatewayId.Malformed",
		},
		table: record.InternetGateways(s.store),
		view: func(in scope, r record.InternetGateway) v {
			return v{Attachments: attachments(r.VPCID), InternetGatewayId: aws.String(r.ID),
				OwnerId: aws.String(r.Account), Tags: s.listTagSet(in, r.ID)}
		},
		tagged: func(x v) []types.Tag { return x.Tags },
		vpc:    func(r record.InternetGateway) string { return r.VPCID },
		filters: filters[v]{
			"attachment.state": func(x v) []string {
				return collectValues(x.Attachments,
					func(a types.InternetGatewayAttachment) *types.AttachmentStatus { return &a.State })
			},
			"attachment.vpc-id": func(x v) []string {
				return collectValues(x.Attachments, func(a types.InternetGatewayAttachment) *string { return a.VpcId })
			},
			"internet-gateway-id": stringFilter(func(x v) *string { return x.InternetGatewayId }),
			"owner-id":            stringFilter(func(x v) *string { return x.OwnerId }),
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

// gatewayHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) gatewayHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateInternetGateway, creating[ec2.CreateInternetGatewayInput](s,
			types.ResourceTypeInternetGateway)),
		wire.Handle(s.DescribeInternetGateways, onRegion),
		wire.Handle(s.AttachInternetGateway, touching[ec2.AttachInternetGatewayInput](s)),
		wire.Handle(s.DetachInternetGateway, touching[ec2.DetachInternetGatewayInput](s)),
		wire.Handle(s.DeleteInternetGateway, touching[ec2.DeleteInternetGatewayInput](s)),
		wire.Handle(s.CreateEgressOnlyInternetGateway, creating[ec2.CreateEgressOnlyInternetGatewayInput](s,
			types.ResourceTypeEgressOnlyInternetGateway)),
		wire.Handle(s.DescribeEgressOnlyInternetGateways, onRegion),
		wire.Handle(s.DeleteEgressOnlyInternetGateway, touching[ec2.DeleteEgressOnlyInternetGatewayInput](s)),
	}
}

// CreateInternetGateway makes an internet gateway.
func (s *Service) CreateInternetGateway(ctx context.Context, in *ec2.CreateInternetGatewayInput) (
	*ec2.CreateInternetGatewayOutput, error) {
	out, err := createResource(ctx, s, s.igws, creation{dryRun: in.DryRun, tags: in.TagSpecifications},
		func(c *change, id string) error {
			s.igws.createRecord(c, record.InternetGateway{EC2Resource: c.identity(id, nil)})
			return s.igws.checkQuota(c.scope, maxInternetGateways, nil, "InternetGatewayLimitExceeded",
				"internet gateways")
		})
	return &ec2.CreateInternetGatewayOutput{InternetGateway: out}, err
}

// DescribeInternetGateways lists internet gateways.
func (s *Service) DescribeInternetGateways(ctx context.Context, in *ec2.DescribeInternetGatewaysInput) (
	*ec2.DescribeInternetGatewaysOutput, error) {
	found, next, err := describe(ctx, s, s.igws, query{in.DryRun, in.InternetGatewayIds, in.Filters, in.MaxResults,
		in.NextToken})
	return &ec2.DescribeInternetGatewaysOutput{InternetGateways: found, NextToken: next}, err
}

// AttachInternetGateway attaches an internet gateway to a VPC that has none.
func (s *Service) AttachInternetGateway(ctx context.Context, in *ec2.AttachInternetGatewayInput) (
	*ec2.AttachInternetGatewayOutput, error) {
	return &ec2.AttachInternetGatewayOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		return s.igws.updateRecord(c, aws.ToString(in.InternetGatewayId), func(r *record.InternetGateway) error {
			vpc, err := s.vpcs.getRecord(c.scope, in.VpcId)
			if err != nil {
				return err
			}
			if r.VPCID != "" {
				return wire.Errorf("Resource.AlreadyAssociated", "resource %s is already attached to network %s", r.ID,
					r.VPCID)
			}
			if err := c.requireUnchanged(vpc.ID); err != nil {
				return err
			}
			if has, err := s.igws.hasMatch(c.scope,
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
	return &ec2.DetachInternetGatewayOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		return s.igws.updateRecord(c, aws.ToString(in.InternetGatewayId), func(r *record.InternetGateway) error {
			vpc, err := s.vpcs.getRecord(c.scope, in.VpcId)
			if err != nil {
				return err
			}
			if r.VPCID != vpc.ID {
				return wire.Errorf("Gateway.NotAttached", "resource %s is not attached to network %s", r.ID, vpc.ID)
			}
			if err := c.requireUnchanged(vpc.ID); err != nil {
				return err
			}
			if mapped, err := s.addresses.hasMatch(c.scope, func(a record.Address) bool {
				ni, err := s.interfaces.getRecord(c.scope, &a.NetworkInterfaceID)
				return err == nil && ni.VPCID == vpc.ID
			}); err != nil {
				return err
			} else if mapped {
				return mappedAddresses(vpc.ID)
			}
			if lent, err := s.interfaces.hasMatch(c.scope,
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
	return &ec2.DeleteInternetGatewayOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		r, err := s.igws.deleteRecord(c, aws.ToString(in.InternetGatewayId))
		if err == nil && r.VPCID != "" {
			err = dependency("internetGateway", r.ID)
		}
		return err
	})
}

func (s *Service) egressOnlyInternetGatewayKind() kind[record.EgressOnlyInternetGateway,
	types.EgressOnlyInternetGateway] {
	type v = types.EgressOnlyInternetGateway
	return kind[record.EgressOnlyInternetGateway, v]{
		naming: naming{
			resource: types.ResourceTypeEgressOnlyInternetGateway, prefix: "eigw-",
			noun: "egressOnlyInternetGateway ID", param: "egressOnlyInternetGatewayId",
			notFound: "InvalidGatewayID.NotFound", malformed: "InvalidEgressOnlyInternetGatewayId.Malformed",
		},
		table: record.EgressOnlyInternetGateways(s.store),
		view: func(in scope, r record.EgressOnlyInternetGateway) v {
			view := v{Attachments: attachments(r.VPCID), EgressOnlyInternetGatewayId: aws.String(r.ID),
				Tags: s.listTagSet(in, r.ID)}
			view.Attachments[0].State = types.AttachmentStatusAttached
			return view
		},
		tagged:  func(x v) []types.Tag { return x.Tags },
		vpc:     func(r record.EgressOnlyInternetGateway) string { return r.VPCID },
		filters: filters[v]{},
	}
}

// CreateEgressOnlyInternetGateway makes an egress-only internet gateway for a VPC.
func (s *Service) CreateEgressOnlyInternetGateway(ctx context.Context, in *ec2.CreateEgressOnlyInternetGatewayInput) (
	*ec2.CreateEgressOnlyInternetGatewayOutput, error) {
	out, err := createResource(ctx, s, s.eigws, creation{dryRun: in.DryRun, tags: in.TagSpecifications,
		token: in.ClientToken, request: in}, func(c *change, id string) error {
		vpc, err := c.holdVPC(in.VpcId)
		if err != nil {
			return err
		}
		s.eigws.createRecord(c, record.EgressOnlyInternetGateway{EC2Resource: c.identity(id, in.ClientToken),
			VPCID: vpc.ID})
		return nil
	})
	return &ec2.CreateEgressOnlyInternetGatewayOutput{EgressOnlyInternetGateway: out, ClientToken: in.ClientToken}, err
}

// DescribeEgressOnlyInternetGateways lists egress-only internet gateways.
func (s *Service) DescribeEgressOnlyInternetGateways(ctx context.Context,
	in *ec2.DescribeEgressOnlyInternetGatewaysInput) (*ec2.DescribeEgressOnlyInternetGatewaysOutput, error) {
	found, next, err := describe(ctx, s, s.eigws, query{in.DryRun, in.EgressOnlyInternetGatewayIds, in.Filters,
		in.MaxResults, in.NextToken})
	return &ec2.DescribeEgressOnlyInternetGatewaysOutput{EgressOnlyInternetGateways: found, NextToken: next}, err
}

// DeleteEgressOnlyInternetGateway deletes an egress-only internet gateway. Routes to it become black holes.
func (s *Service) DeleteEgressOnlyInternetGateway(ctx context.Context, in *ec2.DeleteEgressOnlyInternetGatewayInput) (
	*ec2.DeleteEgressOnlyInternetGatewayOutput, error) {
	err := s.applyChange(ctx, in.DryRun, func(c *change) error {
		_, err := s.eigws.deleteRecord(c, aws.ToString(in.EgressOnlyInternetGatewayId))
		return err
	})
	return &ec2.DeleteEgressOnlyInternetGatewayOutput{ReturnCode: aws.Bool(err == nil)}, err
}
