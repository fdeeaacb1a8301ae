package volume

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// A volume may be modified so many times in so many hours, one modification after the other.
// https://docs.aws.amazon.com/ebs/latest/userguide/modify-volume-requirements.html
const (
	maxModifications = 4
	modificationTime = 24 * time.Hour
)

// modificationHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) modificationHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.ModifyVolume, s.modifyTargets),
		wire.Handle(s.DescribeVolumesModifications, resource.OnRegion),
	}
}

// modifyTargets returns the volume as the target: its condition keys are those that it has before.
func (s *Service) modifyTargets(ctx context.Context, action string, in *ec2.ModifyVolumeInput) ([]wire.Target, error) {
	targets, err := resource.Touching[ec2.ModifyVolumeInput](s.Records)(ctx, action, in)
	for i := range targets {
		for key, value := range map[string]*int32{"ec2:TargetVolumeSize": in.Size, "ec2:TargetVolumeIops": in.Iops,
			"ec2:TargetVolumeThroughput": in.Throughput} {
			if value != nil {
				targets[i].Conditions[key] = []string{resource.Decimal(int(*value))}
			}
		}
		if in.VolumeType != "" {
			targets[i].Conditions["ec2:TargetVolumeType"] = []string{string(in.VolumeType)}
		}
	}
	return targets, err
}

// ModifyVolume changes the size, the type and the performance of a volume, also while it is in use.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyVolume.html
func (s *Service) ModifyVolume(ctx context.Context, in *ec2.ModifyVolumeInput) (*ec2.ModifyVolumeOutput, error) {
	var view types.VolumeModification
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		if in.Size == nil && in.VolumeType == "" && in.Iops == nil && in.Throughput == nil &&
			in.MultiAttachEnabled == nil {
			return wire.Errorf("InvalidParameterValue", "The request must contain a modification: Size, VolumeType, "+
				"Iops, Throughput or MultiAttachEnabled.")
		}
		return c.Volumes.UpdateRecord(c, aws.ToString(in.VolumeId), func(v *record.Volume) error {
			disk := s.VolumeDisk(c.Scope, v.ID)
			if err := modify(c, v, disk, in); err != nil {
				return err
			}
			view = viewModification(*v, disk)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return &ec2.ModifyVolumeOutput{VolumeModification: &view}, nil
}

// modify changes the record of a volume as a request says.
func modify(c *resource.Change, v *record.Volume, disk record.VolumeDisk, in *ec2.ModifyVolumeInput) error {
	now := c.Now().UTC()
	state := resource.VolumeState(*v, disk)
	if !v.Deleted.IsZero() {
		return c.Volumes.Missing(v.ID)
	}
	if state != types.VolumeStateAvailable && state != types.VolumeStateInUse {
		return wire.Errorf("IncorrectState", "Volume %s is in the state '%s': it must be 'available' or 'in-use'.", v.ID,
			state)
	}
	var times []time.Time
	if m := v.Modification; m != nil {
		if s := modificationState(*v, disk); s != types.VolumeModificationStateCompleted &&
			s != types.VolumeModificationStateFailed {
			return wire.Errorf("IncorrectModificationState", "Volume %s cannot be modified in modification state %s",
				v.ID, strings.ToUpper(string(s)))
		}
		times = slices.DeleteFunc(slices.Clone(m.Times), func(t time.Time) bool {
			return now.Sub(t) >= modificationTime
		})
	}
	size := shownSize(*v, disk)
	d := Draft{Volume: *v, least: 1, spec: Spec{Size: in.Size, IOPS: in.Iops, Throughput: in.Throughput}}
	d.Volume.Size = cmp.Or(aws.ToInt32(in.Size), size)
	switch {
	case in.Size != nil && *in.Size < size:
		return resource.Invalid("New size cannot be smaller than existing size")
	case v.Diskless && d.Volume.Size != size:
		return noDisk(v.ID, "made larger")
	case in.MultiAttachEnabled != nil && len(v.InstanceIDs()) > 0 && *in.MultiAttachEnabled != v.MultiAttach:
		return wire.Errorf("IncorrectState",
			"Multi-Attach of volume %s can be changed only while it is in the 'available' state.", v.ID)
	}
	if d.Volume.Size != v.Size {
		if err := checkPending(c, v.ID); err != nil {
			return err
		}
	}
	retype(&d, in)
	if err := d.Validate("InvalidParameterValue"); err != nil {
		return err
	}
	if len(times) >= maxModifications {
		return wire.Errorf("VolumeModificationRateExceeded", "You've reached the maximum modification rate per volume "+
			"limit: volume %s has been modified %d times in 24 hours. Wait until %s.", v.ID, len(times),
			times[0].Add(modificationTime).Format(time.RFC3339))
	}
	if !v.Diskless {
		more, volumes := d.Volume.Size-v.Size, 0
		if d.Volume.Type != v.Type {
			more = d.Volume.Size
		}
		if err := checkQuota(c, d.Volume.Type, more, volumes); err != nil {
			return err
		}
	}
	before := *v
	*v = d.Volume
	v.Modification = &record.VolumeModification{
		StartedAt: now, OriginalSize: size, OriginalType: before.Type, OriginalIOPS: before.IOPS,
		OriginalThroughput: before.Throughput, OriginalMultiAttach: before.MultiAttach, Times: append(times, now),
	}
	if v.Diskless || disk.Size >= v.Size {
		v.Modification.CompletedAt = now
	}
	return nil
}

// checkPending refuses to change the size of a volume of which a snapshot or a copy is being made: it has the size that
// the volume had when it was asked for. Both write the record of the volume.
func checkPending(c *resource.Change, id string) error {
	snapshots, err := c.Snapshots.List(c.Scope, func(r record.Snapshot) bool {
		return r.VolumeID == id && r.Deleted.IsZero() &&
			resource.SnapshotState(c.SnapshotDisk(c.Scope, r)) == types.SnapshotStatePending
	})
	if err != nil {
		return err
	}
	copies, err := c.Volumes.List(c.Scope, func(r record.Volume) bool {
		return r.SourceVolumeID == id &&
			resource.VolumeState(r, c.VolumeDisk(c.Scope, r.ID)) == types.VolumeStateCreating
	})
	if err != nil {
		return err
	}
	if len(snapshots)+len(copies) > 0 {
		return wire.Errorf("IncorrectState",
			"The size of volume %s can be changed when the snapshots and copies that are being made of it are complete.", id)
	}
	return nil
}

// retype sets the type and performance of a modified volume. What the request leaves open stays, unless the new type
// cannot have it.
func retype(d *Draft, in *ec2.ModifyVolumeInput) {
	v := &d.Volume
	old := v.Type
	v.Type = cmp.Or(in.VolumeType, v.Type)
	limit := volumeLimits[v.Type]
	switch {
	case limit.mostIOPS == 0 && v.Type != types.VolumeTypeGp2:
		v.IOPS = 0
	case v.Type == types.VolumeTypeGp2:
		v.IOPS = gp2IOPS(v.Size)
	case in.Iops != nil:
		v.IOPS = *in.Iops
	case old != v.Type && limit.defaultIOPS > 0:
		v.IOPS = max(limit.defaultIOPS, min(v.IOPS, limit.mostIOPS, limit.ratio*v.Size))
	case old != v.Type && volumeLimits[old].mostIOPS == 0:
		v.IOPS = 0 // which a request for io1 and io2 must say
	}
	switch {
	case limit.mostThroughput == 0:
		v.Throughput = 0
	case in.Throughput != nil:
		v.Throughput = *in.Throughput
	default:
		v.Throughput = max(v.Throughput, limit.defaultThroughput)
	}
	if in.MultiAttachEnabled != nil {
		v.MultiAttach = *in.MultiAttachEnabled
	}
}

// shownSize returns the size that a volume has by now.
func shownSize(v record.Volume, disk record.VolumeDisk) int32 {
	if !v.Diskless && disk.Size > 0 && disk.Size < v.Size {
		return disk.Size
	}
	return v.Size
}

// modificationState returns the state of the last modification of a volume.
func modificationState(v record.Volume, disk record.VolumeDisk) types.VolumeModificationState {
	switch m := v.Modification; {
	case !m.CompletedAt.IsZero():
		return types.VolumeModificationStateCompleted
	case !v.Diskless && disk.Size < v.Size && disk.Failure != "":
		return types.VolumeModificationStateFailed
	}
	return types.VolumeModificationStateModifying
}

func viewModification(v record.Volume, disk record.VolumeDisk) types.VolumeModification {
	m := v.Modification
	view := types.VolumeModification{
		ModificationState: modificationState(v, disk), OriginalSize: aws.Int32(m.OriginalSize),
		OriginalVolumeType: m.OriginalType, OriginalMultiAttachEnabled: aws.Bool(m.OriginalMultiAttach),
		OriginalIops: positive(m.OriginalIOPS), OriginalThroughput: positive(m.OriginalThroughput),
		Progress: aws.Int64(0), StartTime: aws.Time(m.StartedAt), TargetSize: aws.Int32(v.Size),
		TargetVolumeType: v.Type, TargetMultiAttachEnabled: aws.Bool(v.MultiAttach), TargetIops: positive(v.IOPS),
		TargetThroughput: positive(v.Throughput), VolumeId: aws.String(v.ID),
	}
	switch view.ModificationState {
	case types.VolumeModificationStateCompleted:
		view.Progress, view.EndTime = aws.Int64(100), aws.Time(m.CompletedAt)
	case types.VolumeModificationStateFailed:
		view.StatusMessage = aws.String(resource.WithoutPaths(disk.Failure))
	}
	return view
}

// positive returns a member that AWS leaves out when it is 0.
func positive(n int32) *int32 {
	if n == 0 {
		return nil
	}
	return &n
}

// DescribeVolumesModifications lists the last modifications of volumes.
func (s *Service) DescribeVolumesModifications(ctx context.Context, in *ec2.DescribeVolumesModificationsInput) (
	*ec2.DescribeVolumesModificationsOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeVolumesModifications", DryRun: in.DryRun, IDs: in.VolumeIds,
		Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	rows, err := s.Volumes.ListByID(sc, in.VolumeIds)
	if err != nil {
		return nil, err
	}
	items := []resource.Item[types.VolumeModification]{}
	for _, v := range rows {
		if v.Modification != nil {
			items = append(items, resource.Item[types.VolumeModification]{ID: v.ID,
				View: viewModification(v, s.VolumeDisk(sc, v.ID))})
		} else if slices.Contains(in.VolumeIds, v.ID) {
			return nil, wire.Errorf("InvalidVolumeModification.NotFound",
				"Modification for volume '%s' does not exist.", v.ID)
		}
	}
	type m = types.VolumeModification
	found, next, err := resource.DescribeItems(ctx, query, items, resource.Filters[m]{
		"modification-state": resource.EnumFilter(func(x m) types.VolumeModificationState {
			return x.ModificationState
		}),
		"original-iops":                 resource.IntFilter(func(x m) *int32 { return x.OriginalIops }),
		"original-multi-attach-enabled": resource.BoolFilter(func(x m) *bool { return x.OriginalMultiAttachEnabled }),
		"original-size":                 resource.IntFilter(func(x m) *int32 { return x.OriginalSize }),
		"original-throughput":           resource.IntFilter(func(x m) *int32 { return x.OriginalThroughput }),
		"original-volume-type":          resource.EnumFilter(func(x m) types.VolumeType { return x.OriginalVolumeType }),
		"start-time":                    resource.TimeFilter(func(x m) *time.Time { return x.StartTime }),
		"target-iops":                   resource.IntFilter(func(x m) *int32 { return x.TargetIops }),
		"target-multi-attach-enabled":   resource.BoolFilter(func(x m) *bool { return x.TargetMultiAttachEnabled }),
		"target-size":                   resource.IntFilter(func(x m) *int32 { return x.TargetSize }),
		"target-throughput":             resource.IntFilter(func(x m) *int32 { return x.TargetThroughput }),
		"target-volume-type":            resource.EnumFilter(func(x m) types.VolumeType { return x.TargetVolumeType }),
		"volume-id":                     resource.StringFilter(func(x m) *string { return x.VolumeId }),
	}, nil)
	if found == nil {
		found = []m{}
	}
	return &ec2.DescribeVolumesModificationsOutput{VolumesModifications: found, NextToken: next}, err
}
