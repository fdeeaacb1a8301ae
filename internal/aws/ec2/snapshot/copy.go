package snapshot

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/ec2/volume"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
)

// copied is the VolumeId of the copy of a snapshot, as on AWS.
const copied = "vol-ffffffff"

// sourceScope returns the scope in which the source of a copy is.
func sourceScope(sc resource.Scope, in *ec2.CopySnapshotInput) resource.Scope {
	sc.Region = aws.ToString(in.SourceRegion)
	sc.Context = wire.WithRegion(sc.Context, sc.Region)
	return sc
}

// copyTargets returns the source, whose permission AWS asks for as well, the copy, and the tagging of that.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-copy-snapshot.html
func (s *Service) copyTargets(ctx context.Context, action string, in *ec2.CopySnapshotInput) ([]wire.Target, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	from := sourceScope(sc, in)
	id := aws.ToString(in.SourceSnapshotId)
	source := s.ResourceTarget(from, action, types.ResourceTypeSnapshot, id)
	source.Conditions["ec2:Region"] = []string{sc.Region}
	copyOf := record.Snapshot{VolumeID: copied}
	row, err := s.UsableSnapshot(from, id)
	if err == nil {
		copyOf.VolumeSize, copyOf.Encrypted = row.Value.VolumeSize, row.Value.Encrypted
	} else if !resource.IsRefusal(err) {
		return nil, err
	}
	if err := s.encrypt(sc, &copyOf, in); err != nil && !resource.IsRefusal(err) {
		return nil, err
	}
	targets := s.copyTarget(sc, action, copyOf, in)
	if in.KmsKeyId != nil {
		targets[0].Conditions["ec2:KmsKeyId"] = []string{s.KeyARN(sc, *in.KmsKeyId)}
	}
	return append(targets, source), nil
}

// copyTarget returns the copy, and its tagging, as authorization targets.
func (s *Service) copyTarget(sc resource.Scope, action string, copyOf record.Snapshot, in *ec2.CopySnapshotInput) (
	targets []wire.Target) {
	fresh := wire.Target{Action: action, Resource: sc.ARN(types.ResourceTypeSnapshot, "*"),
		Conditions: map[string][]string{"ec2:Region": {sc.Region}}}
	copyOf.EC2Resource = record.EC2Resource{}
	s.SnapshotConditions(sc, fresh.Conditions, copyOf)
	delete(fresh.Conditions, "ec2:SnapshotTime")
	return resource.WithTagging(sc, fresh, resource.SpecifiedTags(types.ResourceTypeSnapshot, in.TagSpecifications))
}

// encrypt sets how a copy is encrypted: what is encrypted stays so, under the key that the request names or the default
// one.
func (s *Service) encrypt(sc resource.Scope, r *record.Snapshot, in *ec2.CopySnapshotInput) error {
	defaults, err := s.EBSDefaults(sc)
	if err != nil {
		return err
	}
	if r.Encrypted && in.Encrypted != nil && !*in.Encrypted {
		return resource.Invalid("The snapshot '%s' is encrypted, and Encrypted cannot be false for its copy.",
			aws.ToString(in.SourceSnapshotId))
	}
	r.Encrypted = r.Encrypted || aws.ToBool(in.Encrypted) || defaults.EncryptionByDefault
	key := aws.ToString(in.KmsKeyId)
	if key != "" && !r.Encrypted {
		return wire.Errorf("InvalidParameterDependency",
			"The parameter KmsKeyId requires the parameter Encrypted to be set.")
	}
	if r.Encrypted {
		r.KMSKeyID = cmp.Or(key, defaults.DefaultKMSKeyID, resource.ManagedKeyAlias)
	}
	return nil
}

// CopySnapshot copies a snapshot that the account may make volumes of, from any region of this daemon.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CopySnapshot.html
func (s *Service) CopySnapshot(ctx context.Context, in *ec2.CopySnapshotInput) (*ec2.CopySnapshotOutput, error) {
	for _, p := range []struct {
		asked bool
		name  string
	}{
		{in.DestinationOutpostArn != nil, "DestinationOutpostArn"},
		{in.DestinationAvailabilityZone != nil, "DestinationAvailabilityZone"},
		{in.CompletionDurationMinutes != nil, "CompletionDurationMinutes"},
	} {
		if p.asked {
			return nil, resource.Unsupported(p.name)
		}
	}
	view, err := s.snapshotView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications, Request: in},
		func(c *resource.Change, id string) error { return s.copy(c, id, in) })
	if err != nil {
		return nil, err
	}
	return &ec2.CopySnapshotOutput{SnapshotId: view.SnapshotId, Tags: view.Tags}, nil
}

func (s *Service) copy(c *resource.Change, id string, in *ec2.CopySnapshotInput) error {
	switch {
	case aws.ToString(in.SourceRegion) == "":
		return resource.MissingParameter("sourceRegion")
	case !region.Valid(*in.SourceRegion):
		return resource.Invalid("Invalid region: '%s'", *in.SourceRegion)
	}
	if err := checkDescription(in.Description); err != nil {
		return err
	}
	from := sourceScope(c.Scope, in)
	row, err := s.UsableSnapshot(from, aws.ToString(in.SourceSnapshotId))
	if err != nil {
		return err
	}
	source := row.Value
	if state := resource.SnapshotState(s.SnapshotDisk(from, source)); state != types.SnapshotStateCompleted {
		return wire.Errorf("IncorrectState", "Snapshot %s is in invalid state - %s", source.ID, state)
	}
	c.RequireSnapshot(row)
	if err := checkQuota(c, record.Volume{}, 1); err != nil {
		return err
	}
	r := record.Snapshot{
		EC2Resource: c.NewResource(id, nil), VolumeID: copied, VolumeSize: source.VolumeSize,
		Description: aws.ToString(in.Description), Encrypted: source.Encrypted,
		Source: &record.SnapshotSource{Account: source.Account, Region: source.Region, SnapshotID: source.ID},
	}
	defaults, err := s.EBSDefaults(c.Scope)
	if err != nil {
		return err
	}
	if err := c.HoldEBSDefaults(defaults); err != nil {
		return err
	}
	if err := s.encrypt(c.Scope, &r, in); err != nil {
		return err
	}
	if source.Encrypted {
		if _, err := s.UseKey(from, source.KMSKeyID, source.ID, volume.ReadActions...); err != nil {
			return err
		}
	}
	if r.Encrypted {
		actions := volume.MakeActions
		if source.Encrypted {
			actions = volume.RemakeActions
		}
		if r.KMSKeyID, err = s.UseKey(c.Scope, r.KMSKeyID, id, actions...); err != nil {
			return err
		}
	}
	c.Snapshots.CreateRecord(c, r)
	// The request was authorized by what it said when it came: settings and aliases of keys may have changed since.
	return wire.Authorize(c, s.copyTarget(c.Scope, "ec2:CopySnapshot", r, in)...)
}
