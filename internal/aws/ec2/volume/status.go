package volume

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/record"
)

// volumeStatus returns the status of a volume, and of its attachments.
func (s *Service) volumeStatus(sc resource.Scope, r record.Volume) (
	*types.VolumeStatusInfo, []types.VolumeStatusAttachmentStatus) {
	status, enabled := types.VolumeStatusInfoStatusOk, "passed"
	switch resource.VolumeState(r, s.VolumeDisk(sc, r.ID)) {
	case types.VolumeStateCreating, types.VolumeStateDeleting:
		status, enabled = types.VolumeStatusInfoStatusInsufficientData, "failed"
	case types.VolumeStateError:
		status, enabled = types.VolumeStatusInfoStatusImpaired, "failed"
	}
	var attached []types.VolumeStatusAttachmentStatus
	for _, id := range r.InstanceIDs() {
		attached = append(attached, types.VolumeStatusAttachmentStatus{InstanceId: aws.String(id),
			IoPerformance: aws.String("not-applicable")})
	}
	return &types.VolumeStatusInfo{Status: status, Details: []types.VolumeStatusDetails{
		{Name: types.VolumeStatusNameIoEnabled, Status: aws.String(enabled)},
		{Name: types.VolumeStatusNameIoPerformance, Status: aws.String("not-applicable")},
	}}, attached
}

// DescribeVolumeStatus lists the statuses of volumes: all is well with them unless they have no disk.
func (s *Service) DescribeVolumeStatus(ctx context.Context, in *ec2.DescribeVolumeStatusInput) (
	*ec2.DescribeVolumeStatusOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeVolumeStatus", DryRun: in.DryRun, IDs: in.VolumeIds, Filters: in.Filters,
		Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	rows, err := s.Volumes.ListByID(sc, in.VolumeIds)
	if err != nil {
		return nil, err
	}
	var items []resource.Item[types.VolumeStatusItem]
	for _, r := range rows {
		info, attached := s.volumeStatus(sc, r)
		z, _ := sc.FindZone(r.AvailabilityZone)
		items = append(items, resource.Item[types.VolumeStatusItem]{ID: r.ID, View: types.VolumeStatusItem{
			Actions: []types.VolumeStatusAction{}, AvailabilityZone: aws.String(r.AvailabilityZone),
			AvailabilityZoneId: aws.String(z.ID), Events: []types.VolumeStatusEvent{},
			VolumeId:           aws.String(r.ID),
			AttachmentStatuses: attached, VolumeStatus: info,
		}})
	}
	none := func(types.VolumeStatusItem) []string { return nil }
	found, next, err := resource.DescribeItems(
		ctx,
		query,
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
