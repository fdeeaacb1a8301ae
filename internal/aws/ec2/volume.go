package ec2

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) volumeKind() kind[record.Volume, types.Volume] {
	type v = types.Volume
	attached := func(values func(types.VolumeAttachment) []string) func(v) []string {
		return func(x v) []string {
			if len(x.Attachments) == 0 {
				return nil
			}
			return values(x.Attachments[0])
		}
	}
	return kind[record.Volume, v]{
		naming: naming{
			resource: types.ResourceTypeVolume, prefix: "vol-", noun: "volume", param: "volumeId",
			notFound: "InvalidVolume.NotFound", malformed: "InvalidVolumeID.Malformed",
			absent: "The volume '%s' does not exist.",
		},
		table:  record.Volumes(s.store),
		view:   s.viewVolume,
		tagged: func(x v) []types.Tag { return x.Tags },
		filters: filters[v]{
			"attachment.attach-time": attached(func(a types.VolumeAttachment) []string {
				return []string{a.AttachTime.UTC().Format("2006-01-02T15:04:05.000Z")}
			}),
			"attachment.delete-on-termination": attached(
				boolFilter(func(a types.VolumeAttachment) *bool { return a.DeleteOnTermination })),
			"attachment.device": attached(
				stringFilter(func(a types.VolumeAttachment) *string { return a.Device })),
			"attachment.instance-id": attached(
				stringFilter(func(a types.VolumeAttachment) *string { return a.InstanceId })),
			"attachment.status": attached(
				enumFilter(func(a types.VolumeAttachment) types.VolumeAttachmentState { return a.State })),
			"availability-zone":    stringFilter(func(x v) *string { return x.AvailabilityZone }),
			"availability-zone-id": stringFilter(func(x v) *string { return x.AvailabilityZoneId }),
			"create-time": func(x v) []string {
				return []string{x.CreateTime.UTC().Format("2006-01-02T15:04:05.000Z")}
			},
			"encrypted":            boolFilter(func(x v) *bool { return x.Encrypted }),
			"fast-restored":        boolFilter(func(x v) *bool { return x.FastRestored }),
			"multi-attach-enabled": boolFilter(func(x v) *bool { return x.MultiAttachEnabled }),
			"operator.managed":     boolFilter(func(x v) *bool { return x.Operator.Managed }),
			"operator.principal":   stringFilter(func(x v) *string { return x.Operator.Principal }),
			"size":                 intFilter(func(x v) *int32 { return x.Size }),
			"snapshot-id":          stringFilter(func(x v) *string { return x.SnapshotId }),
			"status":               enumFilter(func(x v) types.VolumeState { return x.State }),
			"volume-id":            stringFilter(func(x v) *string { return x.VolumeId }),
			"volume-type":          enumFilter(func(x v) types.VolumeType { return x.VolumeType }),
		},
	}
}

func (s *Service) viewVolume(in scope, r record.Volume) types.Volume {
	z, _ := in.findZone(r.AvailabilityZone)
	v := types.Volume{
		Attachments: []types.VolumeAttachment{}, AvailabilityZone: aws.String(r.AvailabilityZone),
		AvailabilityZoneId: aws.String(z.ID),
		CreateTime:         aws.Time(r.CreatedAt), Encrypted: aws.Bool(r.Encrypted), KmsKeyId: optional(r.KMSKeyID),
		MultiAttachEnabled: aws.Bool(false),
		Operator:           &types.OperatorResponse{Managed: aws.Bool(false)}, Size: aws.Int32(r.Size),
		SnapshotId: aws.String(r.SnapshotID),
		State:      types.VolumeStateAvailable, Tags: s.listTags(in, r.ID), VolumeId: aws.String(r.ID),
		VolumeType: r.Type,
	}
	if r.IOPS > 0 {
		v.Iops = aws.Int32(r.IOPS)
	}
	if r.Throughput > 0 {
		v.Throughput = aws.Int32(r.Throughput)
	}
	if r.InstanceID != "" {
		v.State = types.VolumeStateInUse
		holder := mustRead(s.instances.table.Get(in, in.key(r.InstanceID))).Value
		if i := slices.IndexFunc(holder.BlockDevices,
			func(b record.InstanceBlockDevice) bool { return b.VolumeID == r.ID }); i >= 0 {
			b := holder.BlockDevices[i]
			v.Attachments = append(v.Attachments, types.VolumeAttachment{
				AttachTime: aws.Time(b.AttachedAt), DeleteOnTermination: aws.Bool(b.DeleteOnTermination),
				Device:     aws.String(b.DeviceName),
				InstanceId: aws.String(r.InstanceID), State: types.VolumeAttachmentStateAttached,
				VolumeId: aws.String(r.ID),
			})
		}
	}
	return v
}

// volumeHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) volumeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeVolumes, onRegion),
		wire.Handle(s.DescribeVolumeStatus, onRegion),
		wire.Handle(s.DeleteVolume, touching[ec2.DeleteVolumeInput](s)),
	}
}

// DescribeVolumes lists volumes.
func (s *Service) DescribeVolumes(ctx context.Context, in *ec2.DescribeVolumesInput) (*ec2.DescribeVolumesOutput,
	error) {
	found, next, err := describe(ctx, s, s.volumes, query{in.DryRun, in.VolumeIds, in.Filters, in.MaxResults,
		in.NextToken})
	if found == nil {
		found = []types.Volume{}
	}
	return &ec2.DescribeVolumesOutput{Volumes: found, NextToken: next}, err
}

// DescribeVolumeStatus lists the statuses of volumes: all is well with them.
func (s *Service) DescribeVolumeStatus(ctx context.Context, in *ec2.DescribeVolumeStatusInput) (
	*ec2.DescribeVolumeStatusOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.volumes.listByID(sc, in.VolumeIds)
	if err != nil {
		return nil, err
	}
	var items []item[types.VolumeStatusItem]
	for _, r := range rows {
		z, _ := sc.findZone(r.AvailabilityZone)
		items = append(items, item[types.VolumeStatusItem]{r.ID, types.VolumeStatusItem{
			Actions: []types.VolumeStatusAction{}, AvailabilityZone: aws.String(r.AvailabilityZone),
			AvailabilityZoneId: aws.String(z.ID), Events: []types.VolumeStatusEvent{},
			VolumeId: aws.String(r.ID),
			VolumeStatus: &types.VolumeStatusInfo{Status: types.VolumeStatusInfoStatusOk,
				Details: []types.VolumeStatusDetails{
					{Name: types.VolumeStatusNameIoEnabled, Status: aws.String("passed")},
					{Name: types.VolumeStatusNameIoPerformance, Status: aws.String("not-applicable")},
				}},
		}})
	}
	none := func(types.VolumeStatusItem) []string { return nil }
	found, next, err := describeItems(ctx, query{in.DryRun, in.VolumeIds, in.Filters, in.MaxResults, in.NextToken},
		"volumeIds", items, filters[types.VolumeStatusItem]{
			"action.code": none, "action.description": none, "action.event-id": none,
			"availability-zone": stringFilter(func(x types.VolumeStatusItem) *string { return x.AvailabilityZone }),
			"availability-zone-id": stringFilter(
				func(x types.VolumeStatusItem) *string { return x.AvailabilityZoneId }),
			"event.description": none, "event.event-id": none, "event.event-type": none, "event.not-after": none,
			"event.not-before": none,
			"volume-status.details-name": func(x types.VolumeStatusItem) []string {
				return collectValues(x.VolumeStatus.Details,
					func(d types.VolumeStatusDetails) *types.VolumeStatusName { return &d.Name })
			},
			"volume-status.details-status": func(x types.VolumeStatusItem) []string {
				return collectValues(x.VolumeStatus.Details,
					func(d types.VolumeStatusDetails) *string { return d.Status })
			},
			"volume-status.status": enumFilter(
				func(x types.VolumeStatusItem) types.VolumeStatusInfoStatus { return x.VolumeStatus.Status }),
		}, nil)
	if found == nil {
		found = []types.VolumeStatusItem{}
	}
	return &ec2.DescribeVolumeStatusOutput{VolumeStatuses: found, NextToken: next}, err
}

// DeleteVolume deletes a volume that no instance has any more.
func (s *Service) DeleteVolume(ctx context.Context, in *ec2.DeleteVolumeInput) (*ec2.DeleteVolumeOutput, error) {
	return &ec2.DeleteVolumeOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		r, err := s.volumes.deleteRecord(c, aws.ToString(in.VolumeId))
		if err == nil && r.InstanceID != "" {
			err = wire.Errorf("VolumeInUse", "Volume %s is currently attached to %s", r.ID, r.InstanceID)
		}
		return err
	})
}
