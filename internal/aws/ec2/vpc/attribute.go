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

// vpcAttributeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) vpcAttributeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeVpcAttribute, resource.Touching[ec2.DescribeVpcAttributeInput](s.Records)),
		wire.Handle(s.ModifyVpcAttribute, resource.Touching[ec2.ModifyVpcAttributeInput](s.Records)),
		wire.Handle(s.ModifyVpcTenancy, resource.Touching[ec2.ModifyVpcTenancyInput](s.Records)),
	}
}

// DescribeVpcAttribute shows one attribute of a VPC.
func (s *Service) DescribeVpcAttribute(ctx context.Context, in *ec2.DescribeVpcAttributeInput) (
	*ec2.DescribeVpcAttributeOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	vpc, err := s.VPCs.GetRecord(sc, in.VpcId)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeVpcAttributeOutput{VpcId: in.VpcId}
	switch in.Attribute {
	case types.VpcAttributeNameEnableDnsSupport:
		out.EnableDnsSupport = resource.BooleanAttribute(vpc.EnableDNSSupport)
	case types.VpcAttributeNameEnableDnsHostnames:
		out.EnableDnsHostnames = resource.BooleanAttribute(vpc.EnableDNSHostnames)
	case types.VpcAttributeNameEnableNetworkAddressUsageMetrics:
		out.EnableNetworkAddressUsageMetrics = resource.BooleanAttribute(vpc.EnableNetworkAddressUsageMetrics)
	case "":
		return nil, resource.MissingParameter("attribute")
	default:
		return nil, resource.InvalidValue(in.Attribute, "attribute", "Unknown attribute.")
	}
	if aws.ToBool(in.DryRun) {
		return nil, resource.ErrDryRun
	}
	return out, nil
}

// ModifyVpcAttribute changes one attribute of a VPC.
func (s *Service) ModifyVpcAttribute(ctx context.Context, in *ec2.ModifyVpcAttributeInput) (
	*ec2.ModifyVpcAttributeOutput, error) {
	return &ec2.ModifyVpcAttributeOutput{}, s.ApplyChange(ctx, nil, func(c *resource.Change) error {
		return s.VPCs.UpdateRecord(c, aws.ToString(in.VpcId), func(vpc *record.VPC) error {
			return resource.ApplySetting(
				resource.Setting{Wanted: in.EnableDnsSupport, Field: &vpc.EnableDNSSupport},
				resource.Setting{Wanted: in.EnableDnsHostnames, Field: &vpc.EnableDNSHostnames},
				resource.Setting{Wanted: in.EnableNetworkAddressUsageMetrics, Field: &vpc.EnableNetworkAddressUsageMetrics},
			)
		})
	})
}

// ModifyVpcTenancy changes a VPC of dedicated tenancy to default, the one change that AWS allows.
func (s *Service) ModifyVpcTenancy(ctx context.Context, in *ec2.ModifyVpcTenancyInput) (
	*ec2.ModifyVpcTenancyOutput, error) {
	return &ec2.ModifyVpcTenancyOutput{ReturnValue: aws.Bool(true)}, s.ApplyChange(ctx, in.DryRun,
		func(c *resource.Change) error {
			if in.InstanceTenancy != types.VpcTenancyDefault {
				return resource.InvalidValue(in.InstanceTenancy, "instanceTenancy",
					"The tenancy of a VPC can only be changed to default.")
			}
			return s.VPCs.UpdateRecord(c, aws.ToString(in.VpcId), func(vpc *record.VPC) error {
				vpc.Tenancy = types.TenancyDefault
				return nil
			})
		})
}
