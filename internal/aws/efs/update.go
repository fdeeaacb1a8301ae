package efs

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// The bounds of provisioned throughput, in MiB/s, and how long it stays as it is after it was lowered.
// https://docs.aws.amazon.com/efs/latest/ug/API_UpdateFileSystem.html
const (
	minThroughput = 1
	maxThroughput = 3414
	throughputAge = 24 * time.Hour
)

// updateHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) updateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.UpdateFileSystem, func(
			ctx context.Context, action string, in *efs.UpdateFileSystemInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
		wire.Handle(s.UpdateFileSystemProtection, func(
			ctx context.Context, action string, in *efs.UpdateFileSystemProtectionInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
	}
}

// checkThroughput refuses modes and a provisioned throughput that do not go together. provisioned reports whether the
// request names a throughput.
func checkThroughput(f record.FileSystem, provisioned bool) error {
	switch {
	case f.ThroughputMode == types.ThroughputModeElastic && f.PerformanceMode == types.PerformanceModeMaxIo:
		return badRequest("The throughput mode elastic is for the performance mode generalPurpose alone.")
	case f.ThroughputMode != types.ThroughputModeProvisioned && provisioned:
		return badRequest("ProvisionedThroughputInMibps is for the throughput mode provisioned alone, and not for %s.",
			f.ThroughputMode)
	case f.ThroughputMode != types.ThroughputModeProvisioned:
		return nil
	case f.ProvisionedThroughput == 0:
		return badRequest("The throughput mode provisioned needs ProvisionedThroughputInMibps.")
	case f.ProvisionedThroughput < minThroughput:
		return badRequest("ProvisionedThroughputInMibps must be %d at least.", minThroughput)
	case f.ProvisionedThroughput > maxThroughput:
		return &types.ThroughputLimitExceeded{ErrorCode_: new("ThroughputLimitExceeded"), Message: text(
			"The limit of provisioned throughput is %d MiB/s.", maxThroughput)}
	}
	return nil
}

// UpdateFileSystem changes the throughput of a file system.
// https://docs.aws.amazon.com/efs/latest/ug/API_UpdateFileSystem.html
func (s *Service) UpdateFileSystem(ctx context.Context, in *efs.UpdateFileSystemInput) (
	*efs.UpdateFileSystemOutput, error) {
	if in.ThroughputMode == "" && in.ProvisionedThroughputInMibps == nil {
		return nil, badRequest("Give ThroughputMode or ProvisionedThroughputInMibps: nothing else can be updated.")
	}
	f, err := s.modifyAvailable(ctx, in.FileSystemId, func(f *record.FileSystem) error {
		return s.changeThroughput(f, in)
	})
	if err != nil {
		return nil, err
	}
	content, err := s.contentOf(ctx, f)
	if err != nil {
		return nil, err
	}
	d := s.describe(f, content)
	return &efs.UpdateFileSystemOutput{
		CreationTime: d.CreationTime, CreationToken: d.CreationToken, FileSystemId: d.FileSystemId,
		LifeCycleState: d.LifeCycleState, NumberOfMountTargets: d.NumberOfMountTargets, OwnerId: d.OwnerId,
		PerformanceMode: d.PerformanceMode, SizeInBytes: d.SizeInBytes, Tags: d.Tags,
		AvailabilityZoneId: d.AvailabilityZoneId, AvailabilityZoneName: d.AvailabilityZoneName, Encrypted: d.Encrypted,
		FileSystemArn: d.FileSystemArn, FileSystemProtection: d.FileSystemProtection, KmsKeyId: d.KmsKeyId, Name: d.Name,
		ProvisionedThroughputInMibps: d.ProvisionedThroughputInMibps, ThroughputMode: d.ThroughputMode,
	}, nil
}

// changeThroughput changes the throughput of a file system as a request asks.
func (s *Service) changeThroughput(f *record.FileSystem, in *efs.UpdateFileSystemInput) error {
	before := *f
	if in.ThroughputMode != "" {
		f.ThroughputMode = in.ThroughputMode
	}
	switch {
	case in.ProvisionedThroughputInMibps != nil:
		f.ProvisionedThroughput = *in.ProvisionedThroughputInMibps
	case f.ThroughputMode != before.ThroughputMode:
		f.ProvisionedThroughput = 0
	}
	if err := checkThroughput(*f, in.ProvisionedThroughputInMibps != nil); err != nil {
		return err
	}
	mode := f.ThroughputMode != before.ThroughputMode
	lower := !mode && f.ProvisionedThroughput < before.ProvisionedThroughput
	if !mode && !lower {
		return nil
	}
	now := s.now().UTC()
	if age := now.Sub(f.ThroughputChangedAt); age < throughputAge {
		return &types.TooManyRequests{ErrorCode_: new("TooManyRequests"), Message: text(
			"The throughput mode was changed, or the provisioned throughput was decreased, less than 24 hours ago: try "+
				"again after %s.", f.ThroughputChangedAt.Add(throughputAge).Format(time.RFC3339))}
	}
	f.ThroughputChangedAt = now
	return nil
}

// UpdateFileSystemProtection says whether replication may overwrite a file system.
func (s *Service) UpdateFileSystemProtection(ctx context.Context, in *efs.UpdateFileSystemProtectionInput) (
	*efs.UpdateFileSystemProtectionOutput, error) {
	switch in.ReplicationOverwriteProtection {
	case types.ReplicationOverwriteProtectionReplicating:
		return nil, badRequest("ReplicationOverwriteProtection is REPLICATING for the destination of a replication, and " +
			"cannot be set to it: set ENABLED or DISABLED.")
	case "":
		return nil, badRequest("Give ReplicationOverwriteProtection: nothing else can be updated.")
	}
	f, err := s.modifyAvailable(ctx, in.FileSystemId, func(f *record.FileSystem) error {
		f.OverwriteUnprotected = in.ReplicationOverwriteProtection == types.ReplicationOverwriteProtectionDisabled
		return nil
	})
	return &efs.UpdateFileSystemProtectionOutput{ReplicationOverwriteProtection: overwriteProtection(f)}, err
}

func overwriteProtection(f record.FileSystem) types.ReplicationOverwriteProtection {
	if f.OverwriteUnprotected {
		return types.ReplicationOverwriteProtectionDisabled
	}
	return types.ReplicationOverwriteProtectionEnabled
}
