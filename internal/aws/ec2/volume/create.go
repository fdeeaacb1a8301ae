package volume

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// creationHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) creationHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateVolume, s.createTargets),
		wire.Handle(s.CopyVolumes, s.copyTargets),
		wire.Handle(s.DeleteVolume, resource.Touching[ec2.DeleteVolumeInput](s.Records)),
	}
}

func specOfCreation(in *ec2.CreateVolumeInput) Spec {
	return Spec{Type: in.VolumeType, Size: in.Size, IOPS: in.Iops, Throughput: in.Throughput,
		SnapshotID: aws.ToString(in.SnapshotId), Encrypted: in.Encrypted, KMSKeyID: aws.ToString(in.KmsKeyId),
		MultiAttach: aws.ToBool(in.MultiAttachEnabled)}
}

// createTargets returns the new volume, its tagging, and the snapshot that it is made of.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html#amazonec2-actions-as-permissions
func (s *Service) createTargets(ctx context.Context, action string, in *ec2.CreateVolumeInput) ([]wire.Target, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	d, err := NewDraft(s.Records, sc, specOfCreation(in))
	if err != nil && !resource.IsRefusal(err) {
		return nil, err
	}
	d.Volume.AvailabilityZone, _ = zoneOf(sc, in.AvailabilityZone, in.AvailabilityZoneId)
	targets := s.newVolumeTargets(sc, action, d.Volume, aws.ToString(in.KmsKeyId), in.TagSpecifications)
	if in.SnapshotId != nil {
		targets = append(targets, s.ResourceTarget(sc, action, types.ResourceTypeSnapshot, *in.SnapshotId))
	}
	return targets, nil
}

// newVolumeTargets returns a volume that is made, and its tagging, as authorization targets. key is the one that the
// request names: policies about it apply even if the request fails because it does not encrypt.
func (s *Service) newVolumeTargets(sc resource.Scope, action string, v record.Volume, key string,
	specifications []types.TagSpecification) []wire.Target {
	fresh := wire.Target{Action: action, Resource: sc.ARN(types.ResourceTypeVolume, "*"),
		Conditions: map[string][]string{"ec2:Region": {sc.Region}}}
	s.VolumeConditions(sc, fresh.Conditions, v)
	if key != "" {
		fresh.Conditions["ec2:KmsKeyId"] = []string{s.KeyARN(sc, key)}
	}
	return resource.WithTagging(sc, fresh, resource.SpecifiedTags(types.ResourceTypeVolume, specifications))
}

// authorizeDraft demands that the caller may make the volume of a draft as it is made: the request was authorized by
// what it said when it came, and since then settings and aliases of keys may have changed.
func (s *Service) authorizeDraft(c *resource.Change, action string, d Draft, tags []types.TagSpecification) error {
	return wire.Authorize(c, s.newVolumeTargets(c.Scope, action, d.Volume, "", tags)...)
}

// CreateVolume creates a volume, of a snapshot or empty.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html
func (s *Service) CreateVolume(ctx context.Context, in *ec2.CreateVolumeInput) (*ec2.CreateVolumeOutput, error) {
	for _, p := range []struct {
		asked bool
		name  string
	}{
		{in.OutpostArn != nil, "OutpostArn"}, {in.Operator != nil, "Operator"},
		{in.VolumeInitializationRate != nil, "VolumeInitializationRate"},
	} {
		if p.asked {
			return nil, resource.Unsupported(p.name)
		}
	}
	view, err := s.volumeView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
		Token: in.ClientToken, Request: in}, func(c *resource.Change, id string) error {
		zone, err := zoneOf(c.Scope, in.AvailabilityZone, in.AvailabilityZoneId)
		if err != nil {
			return err
		}
		d, err := NewDraft(s.Records, c.Scope, specOfCreation(in))
		if err == nil {
			err = d.Validate("InvalidParameterValue")
		}
		if err == nil {
			err = d.AuthorizeKeys(s.Records, c.Scope, id, false)
		}
		if err != nil {
			return err
		}
		if _, err := d.Create(c, id, in.ClientToken, zone, nil); err != nil {
			return err
		}
		d.Volume.AvailabilityZone = zone
		return s.authorizeDraft(c, "ec2:CreateVolume", d, in.TagSpecifications)
	})
	if err != nil {
		return nil, err
	}
	return &ec2.CreateVolumeOutput{
		Attachments: view.Attachments, AvailabilityZone: view.AvailabilityZone,
		AvailabilityZoneId: view.AvailabilityZoneId, CreateTime: view.CreateTime, Encrypted: view.Encrypted,
		Iops: view.Iops, KmsKeyId: view.KmsKeyId, MultiAttachEnabled: view.MultiAttachEnabled, Operator: view.Operator,
		OwnerId: view.OwnerId, Size: view.Size, SnapshotId: view.SnapshotId, SourceVolumeId: view.SourceVolumeId,
		State: view.State, Tags: view.Tags, Throughput: view.Throughput, VolumeArn: view.VolumeArn,
		VolumeId: view.VolumeId, VolumeType: view.VolumeType,
	}, nil
}

// draftOfCopy returns the volume that a copy of another is. It has its type and performance unless the request says
// otherwise.
func (s *Service) draftOfCopy(sc resource.Scope, in *ec2.CopyVolumesInput, source record.Volume) (Draft, error) {
	spec := Spec{Type: in.VolumeType, Size: in.Size, IOPS: in.Iops, Throughput: in.Throughput, Encrypted: in.Encrypted,
		KMSKeyID: aws.ToString(in.KmsKeyId), MultiAttach: aws.ToBool(in.MultiAttachEnabled)}
	if spec.Type == "" && source.Type != "" {
		spec.Type = source.Type
		limit := volumeLimits[spec.Type]
		if spec.IOPS == nil && limit.mostIOPS > 0 {
			spec.IOPS = &source.IOPS
		}
		if spec.Throughput == nil && limit.mostThroughput > 0 {
			spec.Throughput = &source.Throughput
		}
	}
	d := Draft{spec: spec, least: source.Size, sourceKey: source.KMSKeyID, inherited: source.KMSKeyID}
	d.Volume.SourceVolumeID, d.Volume.AvailabilityZone = aws.ToString(in.SourceVolumeId), source.AvailabilityZone
	return d, d.fill(s.Records, sc)
}

// copyTargets returns the volume that is copied, its copy, and the tagging of that.
func (s *Service) copyTargets(ctx context.Context, action string, in *ec2.CopyVolumesInput) ([]wire.Target, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	source, err := s.Volumes.GetRecord(sc, in.SourceVolumeId)
	if err != nil && !resource.IsRefusal(err) {
		return nil, err
	}
	d, err := s.draftOfCopy(sc, in, source)
	if err != nil {
		return nil, err
	}
	return append(s.newVolumeTargets(sc, action, d.Volume, aws.ToString(in.KmsKeyId), in.TagSpecifications),
		s.ResourceTarget(sc, action, types.ResourceTypeVolume, aws.ToString(in.SourceVolumeId))), nil
}

// CopyVolumes copies a volume within its Availability Zone.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-copying-volume.html
func (s *Service) CopyVolumes(ctx context.Context, in *ec2.CopyVolumesInput) (*ec2.CopyVolumesOutput, error) {
	view, err := s.volumeView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
		Token: in.ClientToken, Request: in}, func(c *resource.Change, id string) error {
		var d Draft
		var source record.Volume
		// The record is written, so that the size of the source does not change meanwhile.
		if err := c.Volumes.UpdateRecord(c, aws.ToString(in.SourceVolumeId), func(v *record.Volume) (err error) {
			d, err = s.draftOfCopy(c.Scope, in, *v)
			source = *v
			if err != nil {
				return err
			}
			switch state := resource.VolumeState(*v, s.VolumeDisk(c.Scope, v.ID)); {
			case !v.Deleted.IsZero():
				return s.Volumes.Missing(v.ID)
			case v.Diskless:
				return noDisk(v.ID, "copied")
			case state != types.VolumeStateAvailable && state != types.VolumeStateInUse:
				return wire.Errorf("IncorrectState",
					"The volume '%s' is in the state '%s', in which it cannot be copied.", v.ID, state)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := d.Validate("InvalidParameterValue"); err != nil {
			return err
		}
		if err := d.AuthorizeKeys(s.Records, c.Scope, id, false); err != nil {
			return err
		}
		if _, err := d.Create(c, id, in.ClientToken, source.AvailabilityZone, nil); err != nil {
			return err
		}
		return s.authorizeDraft(c, "ec2:CopyVolumes", d, in.TagSpecifications)
	})
	if err != nil {
		return nil, err
	}
	return &ec2.CopyVolumesOutput{Volumes: []types.Volume{*view}}, nil
}

// noDisk returns the error about a volume of an AMI for which there is no disk.
func noDisk(id, done string) error {
	return wire.Errorf("UnsupportedOperation",
		"The volume '%s' is of the AMI of an instance, and the instance keeps its files elsewhere: coracle has no disk "+
			"for it that could be %s.", id, done)
}

// DeleteVolume deletes a volume that no instance has any more.
func (s *Service) DeleteVolume(ctx context.Context, in *ec2.DeleteVolumeInput) (*ec2.DeleteVolumeOutput, error) {
	return &ec2.DeleteVolumeOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return remove(c, aws.ToString(in.VolumeId))
	})
}

// remove deletes a volume that no instance has: at once if there is no disk for it, else as soon as the disk has gone.
func remove(c *resource.Change, id string) error {
	r, err := c.Volumes.GetRecord(c.Scope, &id)
	if err != nil {
		return err
	}
	if r.Diskless {
		r, err := c.Volumes.DeleteRecord(c, id)
		if err == nil && r.InstanceID != "" {
			err = inUse(r, r.InstanceIDs())
		}
		return err
	}
	disk, _, err := c.ObserveDisk(id)
	if err != nil {
		return err
	}
	return c.Volumes.UpdateRecord(c, id, func(v *record.Volume) error {
		switch {
		case !v.Deleted.IsZero():
			return c.Volumes.Missing(id)
		case v.InstanceID != "":
			return inUse(*v, v.InstanceIDs())
		case len(disk.Attachments) > 0:
			return inUse(*v, []string{disk.Attachments[0].InstanceID})
		}
		v.Deleted = c.Now().UTC()
		c.ReleaseToken(c.Volumes.Naming, &v.EC2Resource)
		return nil
	})
}

func inUse(v record.Volume, instances []string) error {
	return wire.Errorf("VolumeInUse", "Volume %s is currently attached to %s", v.ID, strings.Join(instances, ", "))
}
