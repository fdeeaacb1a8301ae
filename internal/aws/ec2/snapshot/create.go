package snapshot

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

// Quotas of snapshots of an account in a region, and of those of a volume that are pending.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-resource-quotas.html
const (
	maxSnapshots  = 10_000
	maxPending    = 5
	maxPendingHDD = 1 // of st1 and sc1 volumes
)

// maxDescription is the number of characters that a description may have.
const maxDescription = 255

// creationHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) creationHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateSnapshot, s.createTargets),
		wire.Handle(s.CreateSnapshots, s.createAllTargets),
		wire.Handle(s.CopySnapshot, s.copyTargets),
	}
}

// newTargets returns a snapshot that is made of a volume, and its tagging, as authorization targets.
func (s *Service) newTargets(sc resource.Scope, action string, v record.Volume, tags []types.Tag) []wire.Target {
	fresh := wire.Target{Action: action, Resource: sc.ARN(types.ResourceTypeSnapshot, "*"),
		Conditions: map[string][]string{"ec2:Region": {sc.Region}}}
	s.SnapshotConditions(sc, fresh.Conditions, record.Snapshot{VolumeID: v.ID, VolumeSize: v.Size,
		Encrypted: v.Encrypted, KMSKeyID: v.KMSKeyID})
	delete(fresh.Conditions, "ec2:SnapshotTime")
	return resource.WithTagging(sc, fresh, tags)
}

// createTargets returns the volume, its new snapshot, and the tagging of that.
func (s *Service) createTargets(ctx context.Context, action string, in *ec2.CreateSnapshotInput) (
	[]wire.Target, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	v, err := s.Volumes.GetRecord(sc, in.VolumeId)
	if err != nil && !resource.IsRefusal(err) {
		return nil, err
	}
	v.ID = aws.ToString(in.VolumeId)
	return append(s.newTargets(sc, action, v, resource.SpecifiedTags(types.ResourceTypeSnapshot, in.TagSpecifications)),
		s.ResourceTarget(sc, action, types.ResourceTypeVolume, v.ID)), nil
}

func checkLocation(outpost *string, location types.SnapshotLocationEnum) error {
	switch {
	case outpost != nil:
		return resource.Unsupported("OutpostArn")
	case location != "" && location != types.SnapshotLocationEnumRegional:
		return resource.Unsupported("Location=" + string(location))
	}
	return nil
}

func checkDescription(text *string) error {
	if len(aws.ToString(text)) > maxDescription {
		return resource.Invalid("Invalid description: it may have %d characters.", maxDescription)
	}
	return nil
}

// CreateSnapshot creates a snapshot of a volume.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateSnapshot.html
func (s *Service) CreateSnapshot(ctx context.Context, in *ec2.CreateSnapshotInput) (*ec2.CreateSnapshotOutput, error) {
	if err := checkLocation(in.OutpostArn, in.Location); err != nil {
		return nil, err
	}
	view, err := s.snapshotView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications, Request: in},
		func(c *resource.Change, id string) error {
			if err := checkDescription(in.Description); err != nil {
				return err
			}
			return create(c, id, aws.ToString(in.VolumeId), in.Description, 1)
		})
	if err != nil {
		return nil, err
	}
	return &ec2.CreateSnapshotOutput{
		Description: view.Description, Encrypted: view.Encrypted, KmsKeyId: view.KmsKeyId, OwnerId: view.OwnerId,
		Progress: view.Progress, SnapshotId: view.SnapshotId, StartTime: view.StartTime, State: view.State,
		Tags: view.Tags, VolumeId: view.VolumeId, VolumeSize: view.VolumeSize,
	}, nil
}

// create adds the snapshot of a volume to a change, which makes so many of them.
func create(c *resource.Change, id, volume string, description *string, many int) error {
	var v record.Volume
	// The record is written, so that the size of the volume does not change meanwhile.
	if err := c.Volumes.UpdateRecord(c, volume, func(r *record.Volume) error {
		v = *r
		switch state := resource.VolumeState(v, c.VolumeDisk(c.Scope, v.ID)); {
		case !v.Deleted.IsZero():
			return c.Volumes.Missing(v.ID)
		case v.Diskless:
			return wire.Errorf("UnsupportedOperation", "The volume '%s' is of the AMI of an instance, and the instance "+
				"keeps its files elsewhere: coracle has no disk for it that could be snapshotted.", v.ID)
		case state != types.VolumeStateAvailable && state != types.VolumeStateInUse:
			return wire.Errorf("IncorrectState",
				"The volume '%s' is in the state '%s', in which there is nothing to snapshot.", v.ID, state)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := checkQuota(c, v, many); err != nil {
		return err
	}
	c.Snapshots.CreateRecord(c, record.Snapshot{
		EC2Resource: c.NewResource(id, nil), VolumeID: v.ID, VolumeSize: v.Size,
		Description: aws.ToString(description), Encrypted: v.Encrypted, KMSKeyID: v.KMSKeyID,
	})
	return nil
}

// checkQuota refuses more snapshots than an account and, at a time, a volume may have. Those that are deleted count as
// long as they have a record: until then their content may be on the disk, or be copied.
func checkQuota(c *resource.Change, v record.Volume, many int) error {
	pending := 0
	all, err := c.Snapshots.List(c.Scope, nil)
	if err != nil {
		return err
	}
	if len(all)+many > maxSnapshots {
		return wire.Errorf("SnapshotLimitExceeded",
			"The maximum number of snapshots of the account in the region, %d, has been reached.", maxSnapshots)
	}
	if v.ID == "" {
		return nil
	}
	for _, r := range all {
		if r.VolumeID == v.ID && resource.SnapshotState(c.SnapshotDisk(c.Scope, r)) == types.SnapshotStatePending {
			pending++
		}
	}
	most := maxPending
	if v.Type == types.VolumeTypeSt1 || v.Type == types.VolumeTypeSc1 {
		most = maxPendingHDD
	}
	if pending >= most {
		return wire.Errorf("ConcurrentSnapshotLimitExceeded",
			"Maximum allowed in-progress snapshots for a single volume exceeded: volume '%s' has %d.", v.ID, pending)
	}
	return nil
}

// snapshotted returns the volumes of an instance of which a request wants snapshots.
func snapshotted(r record.Instance, spec *types.InstanceSpecification) ([]string, error) {
	var ids []string
	for _, id := range spec.ExcludeDataVolumeIds {
		i := slices.IndexFunc(r.BlockDevices, func(b record.InstanceBlockDevice) bool { return b.VolumeID == id })
		switch {
		case i < 0:
			return nil, resource.InvalidValue(id, "ExcludeDataVolumeIds", "The instance has no such volume.")
		case i == 0:
			return nil, resource.InvalidValue(id, "ExcludeDataVolumeIds",
				"It is the root volume: exclude that with ExcludeBootVolume.")
		}
	}
	for i, b := range r.BlockDevices {
		if i == 0 && aws.ToBool(spec.ExcludeBootVolume) || slices.Contains(spec.ExcludeDataVolumeIds, b.VolumeID) {
			continue
		}
		ids = append(ids, b.VolumeID)
	}
	return ids, nil
}

// tagsOf returns the tags of the snapshot of a volume of an instance.
func (s *Service) tagsOf(sc resource.Scope, in *ec2.CreateSnapshotsInput, volume string) []types.Tag {
	tags := resource.SpecifiedTags(types.ResourceTypeSnapshot, in.TagSpecifications)
	if in.CopyTagsFromSource != types.CopyTagsFromSourceVolume {
		return tags
	}
	for _, t := range s.ListTags(sc, volume) {
		given := func(other types.Tag) bool { return aws.ToString(other.Key) == *t.Key }
		if !resource.ReservedTag(t.Key) && !slices.ContainsFunc(tags, given) {
			tags = append(tags, t)
		}
	}
	return tags
}

// createAllTargets returns the instance, its volumes, their new snapshots, and the tagging of these, whether the tags
// come from the request or from the volumes.
func (s *Service) createAllTargets(ctx context.Context, action string, in *ec2.CreateSnapshotsInput) (
	[]wire.Target, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	spec := in.InstanceSpecification
	if spec == nil {
		return resource.OnRegion(ctx, action, in)
	}
	targets := []wire.Target{s.ResourceTarget(sc, action, types.ResourceTypeInstance, aws.ToString(spec.InstanceId))}
	r, err := s.Instances.GetRecord(sc, spec.InstanceId)
	if err != nil {
		if !resource.IsRefusal(err) {
			return nil, err
		}
		return targets, nil
	}
	ids, err := snapshotted(r, spec)
	if err != nil {
		return targets, nil //nolint:nilerr // the operation returns it
	}
	for _, id := range ids {
		v, err := s.Volumes.GetRecord(sc, &id)
		if err != nil && !resource.IsRefusal(err) {
			return nil, err
		}
		v.ID = id
		targets = append(targets, s.ResourceTarget(sc, action, types.ResourceTypeVolume, id))
		targets = append(targets, s.newTargets(sc, action, v, s.tagsOf(sc, in, id))...)
	}
	return targets, nil
}

// CreateSnapshots creates snapshots of the volumes of an instance.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateSnapshots.html
func (s *Service) CreateSnapshots(ctx context.Context, in *ec2.CreateSnapshotsInput) (
	*ec2.CreateSnapshotsOutput, error) {
	if err := checkLocation(in.OutpostArn, in.Location); err != nil {
		return nil, err
	}
	spec := in.InstanceSpecification
	if spec == nil || aws.ToString(spec.InstanceId) == "" {
		return nil, resource.MissingParameter("InstanceSpecification.InstanceId")
	}
	if err := resource.CheckEnum(in.CopyTagsFromSource, "copyTagsFromSource"); err != nil {
		return nil, err
	}
	var made []string
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		made = nil
		if err := checkDescription(in.Description); err != nil {
			return err
		}
		r, err := c.Instances.GetRecord(c.Scope, spec.InstanceId)
		if err != nil {
			return err
		}
		volumes, err := snapshotted(r, spec)
		switch {
		case err != nil:
			return err
		case len(volumes) == 0:
			return resource.Invalid("The instance '%s' has no volumes but those that the request excludes.", r.ID)
		}
		if err := c.Instances.Require(c, r.ID); err != nil {
			return err
		}
		for _, volume := range volumes {
			id := resource.NewID(s.Snapshots.Prefix)
			if err := create(c, id, volume, in.Description, len(volumes)); err != nil {
				return err
			}
			// The tags of specifications are checked as those of any creation are.
			if err := c.AddTags(types.ResourceTypeSnapshot, id, in.TagSpecifications); err != nil {
				return err
			}
			if tags := s.tagsOf(c.Scope, in, volume); len(tags) > 0 {
				if err := c.SetTags(types.ResourceTypeSnapshot, id, tags); err != nil {
					return err
				}
			}
			made = append(made, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	out := &ec2.CreateSnapshotsOutput{Snapshots: []types.SnapshotInfo{}}
	rows, err := s.Snapshots.ListByID(sc, made)
	for _, r := range rows {
		v := s.viewSnapshot(sc, r)
		out.Snapshots = append(out.Snapshots, types.SnapshotInfo{
			Description: v.Description, Encrypted: v.Encrypted, OwnerId: v.OwnerId, Progress: v.Progress,
			SnapshotId: v.SnapshotId, StartTime: v.StartTime, State: v.State, Tags: v.Tags, VolumeId: v.VolumeId,
			VolumeSize: v.VolumeSize,
		})
	}
	return out, err
}
