package efs

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxFileSystems is the quota of file systems of an account in a region.
// https://docs.aws.amazon.com/efs/latest/ug/limits.html
const maxFileSystems = 1000

// fileSystemHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) fileSystemHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateFileSystem, createFileSystemTargets),
		wire.Handle(s.DescribeFileSystems, func(
			ctx context.Context, action string, in *efs.DescribeFileSystemsInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
		wire.Handle(s.DeleteFileSystem, func(
			ctx context.Context, action string, in *efs.DeleteFileSystemInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
	}
}

func createFileSystemTargets(ctx context.Context, action string, in *efs.CreateFileSystemInput) ([]wire.Target, error) {
	t := anyOf(ctx, action, "file-system")
	encrypted := "false"
	if aws.ToBool(in.Encrypted) {
		encrypted = "true"
	}
	t.Conditions["elasticfilesystem:Encrypted"] = []string{encrypted}
	addRequestTags(t.Conditions, in.Tags)
	return withTagging([]wire.Target{t}, t.Resource, in.Tags), nil
}

// CreateFileSystem creates an empty file system.
// https://docs.aws.amazon.com/efs/latest/ug/API_CreateFileSystem.html
func (s *Service) CreateFileSystem(ctx context.Context, in *efs.CreateFileSystemInput) (
	*efs.CreateFileSystemOutput, error) {
	at := placeOf(ctx)
	f := record.FileSystem{
		Account: at.account, Region: at.region, CreatedAt: s.timestamp(), CreationToken: aws.ToString(in.CreationToken),
		PerformanceMode: in.PerformanceMode, ThroughputMode: in.ThroughputMode,
		ProvisionedThroughput: aws.ToFloat64(in.ProvisionedThroughputInMibps), Encrypted: aws.ToBool(in.Encrypted),
		AvailabilityZone: aws.ToString(in.AvailabilityZoneName), Backup: aws.ToBool(in.Backup),
	}
	if f.PerformanceMode == "" {
		f.PerformanceMode = types.PerformanceModeGeneralPurpose
	}
	if f.ThroughputMode == "" {
		f.ThroughputMode = types.ThroughputModeBursting
	}
	if f.AvailabilityZone != "" && in.Backup == nil {
		f.Backup = true
	}
	if err := checkCreation(at, f, in); err != nil {
		return nil, err
	}
	var err error
	if f.Tags, err = tagMap(ctx, in.Tags); err != nil {
		return nil, err
	}
	_, err = retry(func() (struct{}, error) { return struct{}{}, s.create(ctx, at, &f, in.KmsKeyId) })
	if err != nil {
		return nil, err
	}
	d := s.describe(f, record.FileSystemContent{})
	return &efs.CreateFileSystemOutput{
		CreationTime: d.CreationTime, CreationToken: d.CreationToken, FileSystemId: d.FileSystemId,
		LifeCycleState: d.LifeCycleState, NumberOfMountTargets: d.NumberOfMountTargets, OwnerId: d.OwnerId,
		PerformanceMode: d.PerformanceMode, SizeInBytes: d.SizeInBytes, Tags: d.Tags,
		AvailabilityZoneId: d.AvailabilityZoneId, AvailabilityZoneName: d.AvailabilityZoneName, Encrypted: d.Encrypted,
		FileSystemArn: d.FileSystemArn, FileSystemProtection: d.FileSystemProtection, KmsKeyId: d.KmsKeyId, Name: d.Name,
		ProvisionedThroughputInMibps: d.ProvisionedThroughputInMibps, ThroughputMode: d.ThroughputMode,
	}, nil
}

// checkCreation refuses a file system that cannot be.
func checkCreation(at place, f record.FileSystem, in *efs.CreateFileSystemInput) error {
	if err := at.checkRegion(); err != nil {
		return err
	}
	if f.AvailabilityZone != "" && zoneID(at.region, f.AvailabilityZone) == "" {
		return badRequest("The Availability Zone '%s' does not exist in %s.", f.AvailabilityZone, at.region)
	}
	if f.AvailabilityZone != "" && f.PerformanceMode == types.PerformanceModeMaxIo {
		return badRequest("One Zone file systems have the performance mode generalPurpose alone.")
	}
	if in.KmsKeyId != nil && !f.Encrypted {
		return badRequest("Encrypted must be true when KmsKeyId is given.")
	}
	return checkThroughput(f, in.ProvisionedThroughputInMibps != nil)
}

// create records a file system, unless its creation token has created one.
func (s *Service) create(ctx context.Context, at place, f *record.FileSystem, key *string) error {
	token := record.FileSystemTokenKey(at.account, at.region, "fs-", f.CreationToken)
	row, err := s.tokens.Get(ctx, token)
	if err == nil {
		return &types.FileSystemAlreadyExists{
			ErrorCode_: new("FileSystemAlreadyExists"), FileSystemId: &row.Value.ResourceID,
			Message: text("File system '%s' already exists with creation token '%s'", row.Value.ResourceID,
				f.CreationToken),
		}
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if s.fileSystems.Count(store.Prefix(at.account, at.region)) >= maxFileSystems {
		return &types.FileSystemLimitExceeded{
			ErrorCode_: new("FileSystemLimitExceeded"), Message: text(
				"The account has %d file systems in %s, which is as many as it may have.", maxFileSystems, at.region)}
	}
	f.ID = newID("fs-")
	if f.Encrypted {
		if f.KMSKeyID, err = s.useKey(ctx, aws.ToString(key), f.ID); err != nil {
			return err
		}
	}
	return s.store.Txn(ctx, s.fileSystems.CreateOp(f.Key(), *f),
		s.tokens.CreateOp(token, record.FileSystemToken{ResourceID: f.ID}))
}

// useKey authorizes the caller to use the KMS key of a file system, and returns the key's ARN. Empty is the AWS managed
// key of EFS.
// https://docs.aws.amazon.com/efs/latest/ug/encryption-at-rest.html
func (s *Service) useKey(ctx context.Context, key, id string) (string, error) {
	if s.keys == nil {
		return "", badRequest("Encryption is not supported without KMS.")
	}
	const managed = "elasticfilesystem"
	if key == "" || key == "alias/aws/"+managed {
		var err error
		if key, err = s.keys.ManagedKey(ctx, managed); err != nil {
			return "", err
		}
	}
	arn, err := s.keys.UseVia(ctx, managed, key, map[string]string{"aws:elasticfilesystem:filesystem:id": id},
		"kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:CreateGrant")
	return arn, keyError(err)
}

// atMost100 returns the number of items of a page: EFS has no more than 100 on one, whatever a request says.
func atMost100(asked *int32) *int32 {
	if asked != nil && *asked > 100 {
		return aws.Int32(100)
	}
	return asked
}

// DescribeFileSystems describes a file system, or all of the account in the region.
func (s *Service) DescribeFileSystems(ctx context.Context, in *efs.DescribeFileSystemsInput) (
	*efs.DescribeFileSystemsOutput, error) {
	if in.FileSystemId != nil && in.CreationToken != nil {
		return nil, badRequest("Give FileSystemId or CreationToken, not both.")
	}
	var found []record.FileSystem
	if in.FileSystemId != nil {
		row, err := s.fileSystem(ctx, in.FileSystemId)
		if err != nil {
			return nil, err
		}
		found = append(found, row.Value)
	} else {
		at := placeOf(ctx)
		rows, err := s.fileSystems.List(ctx, store.Prefix(at.account, at.region))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if in.CreationToken == nil || row.Value.CreationToken == *in.CreationToken {
				found = append(found, row.Value)
			}
		}
	}
	page, next, err := wire.Page(ctx, found, atMost100(in.MaxItems), in.Marker,
		func(f record.FileSystem) string { return f.ID })
	if err != nil {
		return nil, err
	}
	views := make([]types.FileSystemDescription, 0, len(page))
	for _, f := range page {
		content, err := s.contentOf(ctx, f)
		if err != nil {
			return nil, err
		}
		views = append(views, s.describe(f, content))
	}
	return &efs.DescribeFileSystemsOutput{FileSystems: views, Marker: in.Marker, NextMarker: next}, nil
}

// DeleteFileSystem deletes a file system that has no mount targets, with its content and its access points.
func (s *Service) DeleteFileSystem(ctx context.Context, in *efs.DeleteFileSystemInput) (
	*efs.DeleteFileSystemOutput, error) {
	_, err := s.modify(ctx, in.FileSystemId, func(f *record.FileSystem) error {
		if ids := f.MountTargetIDs(); len(ids) > 0 {
			return &types.FileSystemInUse{ErrorCode_: new("FileSystemInUse"), Message: text(
				"The file system '%s' has mount targets: delete them first: %s", f.ID, strings.Join(ids, ", "))}
		}
		if f.Deleted.IsZero() {
			f.Deleted = s.now().UTC()
		}
		return nil
	})
	return &efs.DeleteFileSystemOutput{}, err
}

// fileSystem returns a file system that a request names.
func (s *Service) fileSystem(ctx context.Context, id *string) (store.Row[record.FileSystem], error) {
	n := fileSystemName(ctx, id)
	row, err := s.fileSystems.Get(ctx, n.key())
	if errors.Is(err, store.ErrNotFound) {
		err = fileSystemNotFound(aws.ToString(id))
	}
	return row, err
}

// contentOf returns the observed content of a file system; the zero value when there is none.
func (s *Service) contentOf(ctx context.Context, f record.FileSystem) (record.FileSystemContent, error) {
	return of(ctx, s.contents, name{place{f.Account, f.Region}, f.ID})
}

// available returns a file system that a request names, which must be available.
func (s *Service) available(ctx context.Context, id *string) (store.Row[record.FileSystem], error) {
	row, err := s.fileSystem(ctx, id)
	if err != nil {
		return row, err
	}
	return row, s.requireAvailable(ctx, row.Value)
}

func (s *Service) requireAvailable(ctx context.Context, f record.FileSystem) error {
	content, err := s.contentOf(ctx, f)
	if err != nil {
		return err
	}
	if state := f.State(content); state != types.LifeCycleStateAvailable {
		return incorrectState(f.ID, state)
	}
	return nil
}

// modify changes the record of a file system that a request names.
func (s *Service) modify(ctx context.Context, id *string, change func(*record.FileSystem) error) (
	record.FileSystem, error) {
	row, err := s.fileSystems.Modify(ctx, fileSystemName(ctx, id).key(), change)
	if errors.Is(err, store.ErrNotFound) {
		err = fileSystemNotFound(aws.ToString(id))
	}
	return row.Value, err
}

// modifyAvailable changes the record of a file system that is available.
func (s *Service) modifyAvailable(ctx context.Context, id *string, change func(*record.FileSystem) error) (
	record.FileSystem, error) {
	return s.modify(ctx, id, func(f *record.FileSystem) error {
		if err := s.requireAvailable(ctx, *f); err != nil {
			return err
		}
		return change(f)
	})
}

// zoneID returns the ID of an Availability Zone of a region; empty for one that does not exist.
func zoneID(code, zone string) string {
	r, _ := region.Get(code)
	i := slices.IndexFunc(r.Zones, func(z region.Zone) bool { return z.Name == zone })
	if i < 0 {
		return ""
	}
	return r.Zones[i].ID
}

// describe returns a file system as the API shows it.
func (s *Service) describe(f record.FileSystem, content record.FileSystemContent) types.FileSystemDescription {
	d := types.FileSystemDescription{
		OwnerId: new(f.Account), CreationToken: new(f.CreationToken), FileSystemId: new(f.ID),
		FileSystemArn: new(f.ARN()), CreationTime: new(f.CreatedAt), LifeCycleState: f.State(content),
		NumberOfMountTargets: int32(len(f.MountTargets)), //nolint:gosec // at most one in each zone
		PerformanceMode:      f.PerformanceMode, ThroughputMode: f.ThroughputMode, Encrypted: new(f.Encrypted),
		Tags: tagList(f.Tags), Name: nameTag(f.Tags),
		SizeInBytes: &types.FileSystemSize{Value: content.Size, ValueInStandard: new(content.Size),
			ValueInIA: new(int64(0)), ValueInArchive: new(int64(0))},
		FileSystemProtection: &types.FileSystemProtectionDescription{
			ReplicationOverwriteProtection: overwriteProtection(f)},
	}
	if !content.MeasuredAt.IsZero() {
		d.SizeInBytes.Timestamp = new(content.MeasuredAt)
	}
	if f.KMSKeyID != "" {
		d.KmsKeyId = new(f.KMSKeyID)
	}
	if f.ProvisionedThroughput > 0 {
		d.ProvisionedThroughputInMibps = new(f.ProvisionedThroughput)
	}
	if f.AvailabilityZone != "" {
		d.AvailabilityZoneName, d.AvailabilityZoneId = new(f.AvailabilityZone), new(zoneID(f.Region, f.AvailabilityZone))
	}
	return d
}
