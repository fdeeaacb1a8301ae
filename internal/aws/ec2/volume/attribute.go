package volume

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// attributeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) attributeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeVolumeAttribute, resource.Touching[ec2.DescribeVolumeAttributeInput](s.Records)),
		wire.Handle(s.ModifyVolumeAttribute, resource.Touching[ec2.ModifyVolumeAttributeInput](s.Records)),
	}
}

// DescribeVolumeAttribute returns one attribute of a volume.
func (s *Service) DescribeVolumeAttribute(ctx context.Context, in *ec2.DescribeVolumeAttributeInput) (
	*ec2.DescribeVolumeAttributeOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	v, err := s.Volumes.GetRecord(sc, in.VolumeId)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeVolumeAttributeOutput{VolumeId: in.VolumeId}
	switch in.Attribute {
	case types.VolumeAttributeNameAutoEnableIO:
		out.AutoEnableIO = resource.BooleanAttribute(v.AutoEnableIO)
	case types.VolumeAttributeNameProductCodes:
		out.ProductCodes = []types.ProductCode{}
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

// ModifyVolumeAttribute changes what happens to a volume whose data may be inconsistent.
func (s *Service) ModifyVolumeAttribute(ctx context.Context, in *ec2.ModifyVolumeAttributeInput) (
	*ec2.ModifyVolumeAttributeOutput, error) {
	return &ec2.ModifyVolumeAttributeOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return c.Volumes.UpdateRecord(c, aws.ToString(in.VolumeId), func(v *record.Volume) error {
			if !v.Deleted.IsZero() {
				return c.Volumes.Missing(v.ID)
			}
			return resource.ApplySetting(resource.Setting{Wanted: in.AutoEnableIO, Field: &v.AutoEnableIO})
		})
	})
}
