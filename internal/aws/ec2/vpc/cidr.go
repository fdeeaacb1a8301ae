package vpc

import (
	"context"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// vpcCIDRHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) vpcCIDRHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AssociateVpcCidrBlock, resource.Touching[ec2.AssociateVpcCidrBlockInput](s.Records)),
		wire.Handle(s.DisassociateVpcCidrBlock, resource.Touching[ec2.DisassociateVpcCidrBlockInput](s.Records)),
	}
}

// AssociateVpcCidrBlock gives a VPC another IPv4 block, or an IPv6 block of Amazon's.
func (s *Service) AssociateVpcCidrBlock(ctx context.Context, in *ec2.AssociateVpcCidrBlockInput) (
	*ec2.AssociateVpcCidrBlockOutput, error) {
	six := aws.ToBool(in.AmazonProvidedIpv6CidrBlock)
	var added record.CIDRAssociation
	var region resource.Scope
	err := s.ApplyChange(ctx, nil, func(c *resource.Change) error {
		region = c.Scope
		switch {
		case in.Ipv4IpamPoolId != nil || in.Ipv6IpamPoolId != nil:
			return resource.Unsupported("IpamPoolId")
		case in.Ipv6CidrBlock != nil || in.Ipv6Pool != nil:
			return resource.Unsupported("Ipv6CidrBlock")
		case six == (in.CidrBlock != nil):
			return wire.Errorf("InvalidParameterCombination",
				"Exactly one of cidrBlock and amazonProvidedIpv6CidrBlock must be specified.")
		}
		return s.VPCs.UpdateRecord(c, aws.ToString(in.VpcId), func(r *record.VPC) error {
			if err := c.RequireUnchanged(r.ID); err != nil {
				return err
			}
			if len(r.CIDRs)+len(r.IPv6CIDRs) >= resource.MaxCIDRsPerVPC {
				return wire.Errorf("CidrLimitExceeded",
					"This network '%s' has met its maximum number of allowed CIDRs: %d", r.ID, resource.MaxCIDRsPerVPC)
			}
			if six {
				var err error
				added, err = newIPv6Block(c)
				r.IPv6CIDRs = append(r.IPv6CIDRs, added)
				return err
			}
			block, err := vpcBlock(*in.CidrBlock)
			if err != nil {
				return err
			}
			for _, a := range r.CIDRs {
				if netip.MustParsePrefix(a.CIDR).Overlaps(block) {
					return wire.Errorf("InvalidVpc.Range", "The CIDR '%s' conflicts with another CIDR of network %s",
						block, r.ID)
				}
			}
			added = record.CIDRAssociation{AssociationID: resource.NewID("vpc-cidr-assoc-"), CIDR: block.String()}
			r.CIDRs = append(r.CIDRs, added)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	out := &ec2.AssociateVpcCidrBlockOutput{VpcId: in.VpcId}
	if six {
		out.Ipv6CidrBlockAssociation = viewIPv6CIDR(region, added, types.VpcCidrBlockStateCodeAssociating)
	} else {
		out.CidrBlockAssociation = viewCIDR(added, types.VpcCidrBlockStateCodeAssociating)
	}
	return out, nil
}

// DisassociateVpcCidrBlock takes a block other than the primary one from a VPC in which no subnet uses it.
func (s *Service) DisassociateVpcCidrBlock(ctx context.Context, in *ec2.DisassociateVpcCidrBlockInput) (
	*ec2.DisassociateVpcCidrBlockOutput, error) {
	id := aws.ToString(in.AssociationId)
	out := &ec2.DisassociateVpcCidrBlockOutput{}
	return out, s.ApplyChange(ctx, nil, func(c *resource.Change) error {
		has := func(a record.CIDRAssociation) bool { return a.AssociationID == id }
		found, err := s.VPCs.List(c.Scope, func(r record.VPC) bool {
			return slices.ContainsFunc(r.CIDRs, has) || slices.ContainsFunc(r.IPv6CIDRs, has)
		})
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return wire.Errorf("InvalidVpcCidrBlockAssociationID.NotFound",
				"The vpc CIDR block with association ID '%s' does not exist", id)
		}
		return s.VPCs.UpdateRecord(c, found[0].ID, func(r *record.VPC) error {
			if r.CIDRs[0].AssociationID == id {
				return wire.Errorf("OperationNotPermitted",
					"The vpc CIDR block with association ID %s may not be disassociated. It is the primary IPv4 CIDR "+
						"block of the VPC", id)
			}
			if err := c.RequireUnchanged(r.ID); err != nil {
				return err
			}
			subnets, err := subnetsOf(s.Records, c.Scope, r.ID)
			if err != nil {
				return err
			}
			blocks := &r.CIDRs
			if slices.ContainsFunc(r.IPv6CIDRs, has) {
				blocks = &r.IPv6CIDRs
			}
			i := slices.IndexFunc(*blocks, has)
			gone := (*blocks)[i]
			if used := overlapping(subnets, netip.MustParsePrefix(gone.CIDR)); used != "" {
				return wire.Errorf("InvalidCidrBlock.InUse",
					"The vpc CIDR block %s with association ID %s is in use by subnet %s.", gone.CIDR, id, used)
			}
			*blocks = slices.Delete(*blocks, i, i+1)
			out.VpcId = aws.String(r.ID)
			if blocks == &r.CIDRs {
				out.CidrBlockAssociation = viewCIDR(gone, types.VpcCidrBlockStateCodeDisassociating)
			} else {
				out.Ipv6CidrBlockAssociation = viewIPv6CIDR(c.Scope, gone, types.VpcCidrBlockStateCodeDisassociating)
			}
			return nil
		})
	})
}
