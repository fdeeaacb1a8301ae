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

func (s *Service) newVolumeView() resource.View[record.Volume, types.Volume] {
	type v = types.Volume
	attached := func(values func(types.VolumeAttachment) []string) func(v) []string {
		return func(x v) []string {
			var all []string
			for _, a := range x.Attachments {
				all = append(all, values(a)...)
			}
			return all
		}
	}
	return resource.View[record.Volume, v]{
		Kind:   s.Volumes,
		Show:   s.viewVolume,
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"attachment.attach-time": attached(func(a types.VolumeAttachment) []string {
				return []string{a.AttachTime.UTC().Format("2006-01-02T15:04:05.000Z")}
			}),
			"attachment.delete-on-termination": attached(
				resource.BoolFilter(func(a types.VolumeAttachment) *bool { return a.DeleteOnTermination })),
			"attachment.device": attached(
				resource.StringFilter(func(a types.VolumeAttachment) *string { return a.Device })),
			"attachment.instance-id": attached(
				resource.StringFilter(func(a types.VolumeAttachment) *string { return a.InstanceId })),
			"attachment.status": attached(
				resource.EnumFilter(func(a types.VolumeAttachment) types.VolumeAttachmentState { return a.State })),
			"availability-zone":    resource.StringFilter(func(x v) *string { return x.AvailabilityZone }),
			"availability-zone-id": resource.StringFilter(func(x v) *string { return x.AvailabilityZoneId }),
			"create-time": func(x v) []string {
				return []string{x.CreateTime.UTC().Format("2006-01-02T15:04:05.000Z")}
			},
			"encrypted":            resource.BoolFilter(func(x v) *bool { return x.Encrypted }),
			"fast-restored":        resource.BoolFilter(func(x v) *bool { return x.FastRestored }),
			"multi-attach-enabled": resource.BoolFilter(func(x v) *bool { return x.MultiAttachEnabled }),
			"operator.managed":     resource.BoolFilter(func(x v) *bool { return x.Operator.Managed }),
			"operator.principal":   resource.StringFilter(func(x v) *string { return x.Operator.Principal }),
			"size":                 resource.IntFilter(func(x v) *int32 { return x.Size }),
			"source-volume-id":     resource.StringFilter(func(x v) *string { return x.SourceVolumeId }),
			"snapshot-id":          resource.StringFilter(func(x v) *string { return x.SnapshotId }),
			"status":               resource.EnumFilter(func(x v) types.VolumeState { return x.State }),
			"volume-id":            resource.StringFilter(func(x v) *string { return x.VolumeId }),
			"volume-type":          resource.EnumFilter(func(x v) types.VolumeType { return x.VolumeType }),
		},
	}
}

func (s *Service) viewVolume(sc resource.Scope, r record.Volume) types.Volume {
	z, _ := sc.FindZone(r.AvailabilityZone)
	disk := s.VolumeDisk(sc, r.ID)
	v := types.Volume{
		Attachments: []types.VolumeAttachment{}, AvailabilityZone: aws.String(r.AvailabilityZone),
		AvailabilityZoneId: aws.String(z.ID),
		CreateTime:         aws.Time(r.CreatedAt), Encrypted: aws.Bool(r.Encrypted), KmsKeyId: resource.OrNil(r.KMSKeyID),
		Iops: positive(r.IOPS), MultiAttachEnabled: aws.Bool(r.MultiAttach),
		Operator: &types.OperatorResponse{Managed: aws.Bool(false)}, Size: aws.Int32(shownSize(r, disk)),
		SnapshotId: aws.String(r.SnapshotID), SourceVolumeId: resource.OrNil(r.SourceVolumeID),
		State: resource.VolumeState(r, disk), Tags: s.ListTags(sc, r.ID), Throughput: positive(r.Throughput),
		VolumeId: aws.String(r.ID), VolumeType: r.Type,
	}
	for _, id := range r.InstanceIDs() {
		holder := resource.MustRead(s.Instances.Table.Get(sc, sc.Key(id))).Value
		if a, there := s.ShowAttachment(sc, holder, r.ID); there {
			v.Attachments = append(v.Attachments, a)
		}
	}
	return v
}

// volumeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) volumeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeVolumes, resource.OnRegion),
		wire.Handle(s.DescribeVolumeStatus, resource.OnRegion),
	}
}

// DescribeVolumes lists volumes.
func (s *Service) DescribeVolumes(ctx context.Context, in *ec2.DescribeVolumesInput) (
	*ec2.DescribeVolumesOutput, error) {
	found, next, err := s.volumeView.Describe(
		ctx,
		resource.Query{Operation: "DescribeVolumes", DryRun: in.DryRun, IDs: in.VolumeIds, Filters: in.Filters,
			Max:   in.MaxResults,
			Token: in.NextToken},
	)
	if found == nil {
		found = []types.Volume{}
	}
	return &ec2.DescribeVolumesOutput{Volumes: found, NextToken: next}, err
}
