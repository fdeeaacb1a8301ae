package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// vpcAttributeHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) vpcAttributeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeVpcAttribute, touching[ec2.DescribeVpcAttributeInput](s)),
		wire.Handle(s.ModifyVpcAttribute, touching[ec2.ModifyVpcAttributeInput](s)),
		wire.Handle(s.ModifyVpcTenancy, touching[ec2.ModifyVpcTenancyInput](s)),
	}
}

// DescribeVpcAttribute shows one attribute of a VPC.
func (s *Service) DescribeVpcAttribute(ctx context.Context, in *ec2.DescribeVpcAttributeInput) (
	*ec2.DescribeVpcAttributeOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	vpc, err := s.vpcs.getRecord(sc, in.VpcId)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeVpcAttributeOutput{VpcId: in.VpcId}
	switch in.Attribute {
	case types.VpcAttributeNameEnableDnsSupport:
		out.EnableDnsSupport = attribute(vpc.EnableDNSSupport)
	case types.VpcAttributeNameEnableDnsHostnames:
		out.EnableDnsHostnames = attribute(vpc.EnableDNSHostnames)
	case types.VpcAttributeNameEnableNetworkAddressUsageMetrics:
		out.EnableNetworkAddressUsageMetrics = attribute(vpc.EnableNetworkAddressUsageMetrics)
	case "":
		return nil, missing("attribute")
	default:
		return nil, invalidValue(in.Attribute, "attribute", "Unknown attribute.")
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun
	}
	return out, nil
}

func attribute(value bool) *types.AttributeBooleanValue {
	return &types.AttributeBooleanValue{Value: aws.Bool(value)}
}

// ModifyVpcAttribute changes one attribute of a VPC.
func (s *Service) ModifyVpcAttribute(ctx context.Context, in *ec2.ModifyVpcAttributeInput) (
	*ec2.ModifyVpcAttributeOutput, error) {
	return &ec2.ModifyVpcAttributeOutput{}, s.applyChange(ctx, nil, func(c *change) error {
		return s.vpcs.updateRecord(c, aws.ToString(in.VpcId), func(vpc *record.VPC) error {
			return applySetting(
				setting{in.EnableDnsSupport, &vpc.EnableDNSSupport},
				setting{in.EnableDnsHostnames, &vpc.EnableDNSHostnames},
				setting{in.EnableNetworkAddressUsageMetrics, &vpc.EnableNetworkAddressUsageMetrics},
			)
		})
	})
}

// setting is a wanted attribute and where it goes.
type setting struct {
	wanted *types.AttributeBooleanValue
	field  *bool
}

// applySetting applies the one setting that the request has.
func applySetting(settings ...setting) error {
	n := 0
	for _, s := range settings {
		if s.wanted != nil {
			*s.field = aws.ToBool(s.wanted.Value)
			n++
		}
	}
	switch n {
	case 0:
		return wire.Errorf("MissingParameter", "The request must contain an attribute to modify.")
	case 1:
		return nil
	}
	return wire.Errorf("InvalidParameterCombination",
		"Fields for multiple attribute types specified. A request may modify one attribute.")
}

// ModifyVpcTenancy changes a VPC of dedicated tenancy to default, the one change that AWS allows.
func (s *Service) ModifyVpcTenancy(ctx context.Context, in *ec2.ModifyVpcTenancyInput) (*ec2.ModifyVpcTenancyOutput,
	error) {
	return &ec2.ModifyVpcTenancyOutput{ReturnValue: aws.Bool(true)}, s.applyChange(ctx, in.DryRun,
		func(c *change) error {
			if in.InstanceTenancy != types.VpcTenancyDefault {
				return invalidValue(in.InstanceTenancy, "instanceTenancy",
					"The tenancy of a VPC can only be changed to default.")
			}
			return s.vpcs.updateRecord(c, aws.ToString(in.VpcId), func(vpc *record.VPC) error {
				vpc.Tenancy = types.TenancyDefault
				return nil
			})
		})
}
