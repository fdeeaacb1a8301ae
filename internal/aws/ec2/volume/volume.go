package volume

import (
	"context"
	"slices"

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
			if len(x.Attachments) == 0 {
				return nil
			}
			return values(x.Attachments[0])
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
			"snapshot-id":          resource.StringFilter(func(x v) *string { return x.SnapshotId }),
			"status":               resource.EnumFilter(func(x v) types.VolumeState { return x.State }),
			"volume-id":            resource.StringFilter(func(x v) *string { return x.VolumeId }),
			"volume-type":          resource.EnumFilter(func(x v) types.VolumeType { return x.VolumeType }),
		},
	}
}

func (s *Service) viewVolume(sc resource.Scope, r record.Volume) types.Volume {
	z, _ := sc.FindZone(r.AvailabilityZone)
	v := types.Volume{
		Attachments: []types.VolumeAttachment{}, AvailabilityZone: aws.String(r.AvailabilityZone),
		AvailabilityZoneId: aws.String(z.ID),
		CreateTime:         aws.Time(r.CreatedAt), Encrypted: aws.Bool(r.Encrypted), KmsKeyId: resource.OrNil(r.KMSKeyID),
		MultiAttachEnabled: aws.Bool(false),
		Operator:           &types.OperatorResponse{Managed: aws.Bool(false)}, Size: aws.Int32(r.Size),
		SnapshotId: aws.String(r.SnapshotID),
		State:      types.VolumeStateAvailable, Tags: s.ListTags(sc, r.ID), VolumeId: aws.String(r.ID),
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
		holder := resource.MustRead(s.Instances.Table.Get(sc, sc.Key(r.InstanceID))).Value
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

// volumeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) volumeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeVolumes, resource.OnRegion),
		wire.Handle(s.DescribeVolumeStatus, resource.OnRegion),
		wire.Handle(s.DeleteVolume, resource.Touching[ec2.DeleteVolumeInput](s.Records)),
	}
}

// DescribeVolumes lists volumes.
func (s *Service) DescribeVolumes(ctx context.Context, in *ec2.DescribeVolumesInput) (*ec2.DescribeVolumesOutput,
	error) {
	found, next, err := s.volumeView.Describe(
		ctx,
		resource.Query{DryRun: in.DryRun, IDs: in.VolumeIds, Filters: in.Filters, Max: in.MaxResults,
			Token: in.NextToken},
	)
	if found == nil {
		found = []types.Volume{}
	}
	return &ec2.DescribeVolumesOutput{Volumes: found, NextToken: next}, err
}

// DescribeVolumeStatus lists the statuses of volumes: all is well with them.
func (s *Service) DescribeVolumeStatus(ctx context.Context, in *ec2.DescribeVolumeStatusInput) (
	*ec2.DescribeVolumeStatusOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.Volumes.ListByID(sc, in.VolumeIds)
	if err != nil {
		return nil, err
	}
	var items []resource.Item[types.VolumeStatusItem]
	for _, r := range rows {
		z, _ := sc.FindZone(r.AvailabilityZone)
		items = append(items, resource.Item[types.VolumeStatusItem]{ID: r.ID, View: types.VolumeStatusItem{
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
	found, next, err := resource.DescribeItems(
		ctx,
		resource.Query{DryRun: in.DryRun, IDs: in.VolumeIds, Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken},
		"volumeIds",
		items,
		resource.Filters[types.VolumeStatusItem]{
			"action.code": none, "action.description": none, "action.event-id": none,
			"availability-zone": resource.StringFilter(func(x types.VolumeStatusItem) *string { return x.AvailabilityZone }),
			"availability-zone-id": resource.StringFilter(
				func(x types.VolumeStatusItem) *string { return x.AvailabilityZoneId }),
			"event.description": none, "event.event-id": none, "event.event-type": none, "event.not-after": none,
			"event.not-before": none,
			"volume-status.details-name": func(x types.VolumeStatusItem) []string {
				return resource.CollectValues(x.VolumeStatus.Details,
					func(d types.VolumeStatusDetails) *types.VolumeStatusName { return &d.Name })
			},
			"volume-status.details-status": func(x types.VolumeStatusItem) []string {
				return resource.CollectValues(x.VolumeStatus.Details,
					func(d types.VolumeStatusDetails) *string { return d.Status })
			},
			"volume-status.status": resource.EnumFilter(
				func(x types.VolumeStatusItem) types.VolumeStatusInfoStatus { return x.VolumeStatus.Status }),
		},
		nil,
	)
	if found == nil {
		found = []types.VolumeStatusItem{}
	}
	return &ec2.DescribeVolumeStatusOutput{VolumeStatuses: found, NextToken: next}, err
}

// DeleteVolume deletes a volume that no instance has any more.
func (s *Service) DeleteVolume(ctx context.Context, in *ec2.DeleteVolumeInput) (*ec2.DeleteVolumeOutput, error) {
	return &ec2.DeleteVolumeOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		r, err := s.Volumes.DeleteRecord(c, aws.ToString(in.VolumeId))
		if err == nil && r.InstanceID != "" {
			err = wire.Errorf("VolumeInUse", "Volume %s is currently attached to %s", r.ID, r.InstanceID)
		}
		return err
	})
}
