package efs

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// settingHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) settingHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutLifecycleConfiguration, func(
			ctx context.Context, action string, in *efs.PutLifecycleConfigurationInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
		wire.Handle(s.DescribeLifecycleConfiguration, func(
			ctx context.Context, action string, in *efs.DescribeLifecycleConfigurationInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
		wire.Handle(s.PutBackupPolicy, func(
			ctx context.Context, action string, in *efs.PutBackupPolicyInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
		wire.Handle(s.DescribeBackupPolicy, func(
			ctx context.Context, action string, in *efs.DescribeBackupPolicyInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
		wire.Handle(s.PutAccountPreferences, wire.OnAll[efs.PutAccountPreferencesInput]),
		wire.Handle(s.DescribeAccountPreferences, wire.OnAll[efs.DescribeAccountPreferencesInput]),
	}
}

// PutLifecycleConfiguration records when files would be moved to other storage classes. There is one here.
// https://docs.aws.amazon.com/efs/latest/ug/API_PutLifecycleConfiguration.html
func (s *Service) PutLifecycleConfiguration(ctx context.Context, in *efs.PutLifecycleConfigurationInput) (
	*efs.PutLifecycleConfigurationOutput, error) {
	if err := checkLifecycle(in.LifecyclePolicies); err != nil {
		return nil, err
	}
	f, err := s.modifyAvailable(ctx, in.FileSystemId, func(f *record.FileSystem) error {
		f.LifecyclePolicies = in.LifecyclePolicies
		return nil
	})
	return &efs.PutLifecycleConfigurationOutput{LifecyclePolicies: f.LifecyclePolicies}, err
}

// checkLifecycle refuses policies that do not go together.
func checkLifecycle(policies []types.LifecyclePolicy) error {
	days := map[string]int{}
	for _, p := range policies {
		given := map[string]string{"TransitionToIA": string(p.TransitionToIA), "TransitionToArchive": string(
			p.TransitionToArchive), "TransitionToPrimaryStorageClass": string(p.TransitionToPrimaryStorageClass)}
		count := 0
		for transition, rule := range given {
			if rule == "" {
				continue
			}
			if _, there := days[transition]; there {
				return badRequest("%s is given twice: once is enough.", transition)
			}
			count, days[transition] = count+1, daysOf(rule)
		}
		if count != 1 {
			return badRequest("Each LifecyclePolicy has one transition, and one of these has %d.", count)
		}
	}
	ia, hasIA := days["TransitionToIA"]
	archive, hasArchive := days["TransitionToArchive"]
	if hasIA && hasArchive && archive <= ia {
		return badRequest("TransitionToArchive must be later than TransitionToIA.")
	}
	return nil
}

// daysOf returns the days of a rule such as AFTER_30_DAYS.
func daysOf(rule string) int {
	parts := strings.Split(rule, "_")
	n, _ := strconv.Atoi(parts[min(1, len(parts)-1)])
	return n
}

// DescribeLifecycleConfiguration returns what was recorded of storage classes.
func (s *Service) DescribeLifecycleConfiguration(ctx context.Context, in *efs.DescribeLifecycleConfigurationInput) (
	*efs.DescribeLifecycleConfigurationOutput, error) {
	row, err := s.fileSystem(ctx, in.FileSystemId)
	return &efs.DescribeLifecycleConfigurationOutput{
		LifecyclePolicies: slices.Clone(row.Value.LifecyclePolicies)}, err
}

// PutBackupPolicy records whether AWS Backup would back up the file system.
func (s *Service) PutBackupPolicy(ctx context.Context, in *efs.PutBackupPolicyInput) (
	*efs.PutBackupPolicyOutput, error) {
	status := in.BackupPolicy.Status
	if status != types.StatusEnabled && status != types.StatusDisabled {
		return nil, badRequest("The Status of a backup policy is set to ENABLED or DISABLED, and not to %s.", status)
	}
	f, err := s.modifyAvailable(ctx, in.FileSystemId, func(f *record.FileSystem) error {
		f.Backup = status == types.StatusEnabled
		return nil
	})
	return &efs.PutBackupPolicyOutput{BackupPolicy: backupPolicy(f)}, err
}

// DescribeBackupPolicy returns whether AWS Backup would back up the file system.
func (s *Service) DescribeBackupPolicy(ctx context.Context, in *efs.DescribeBackupPolicyInput) (
	*efs.DescribeBackupPolicyOutput, error) {
	row, err := s.fileSystem(ctx, in.FileSystemId)
	return &efs.DescribeBackupPolicyOutput{BackupPolicy: backupPolicy(row.Value)}, err
}

func backupPolicy(f record.FileSystem) *types.BackupPolicy {
	if f.Backup {
		return &types.BackupPolicy{Status: types.StatusEnabled}
	}
	return &types.BackupPolicy{Status: types.StatusDisabled}
}

// PutAccountPreferences accepts the only preference that there still is: long IDs.
// https://docs.aws.amazon.com/efs/latest/ug/API_PutAccountPreferences.html
func (s *Service) PutAccountPreferences(_ context.Context, in *efs.PutAccountPreferencesInput) (
	*efs.PutAccountPreferencesOutput, error) {
	if in.ResourceIdType != types.ResourceIdTypeLongId {
		return nil, badRequest("Short resource IDs are not available any more: ResourceIdType must be LONG_ID.")
	}
	return &efs.PutAccountPreferencesOutput{ResourceIdPreference: idPreference()}, nil
}

// DescribeAccountPreferences returns the preferences of every account.
func (s *Service) DescribeAccountPreferences(context.Context, *efs.DescribeAccountPreferencesInput) (
	*efs.DescribeAccountPreferencesOutput, error) {
	return &efs.DescribeAccountPreferencesOutput{ResourceIdPreference: idPreference()}, nil
}

func idPreference() *types.ResourceIdPreference {
	return &types.ResourceIdPreference{ResourceIdType: types.ResourceIdTypeLongId,
		Resources: []types.Resource{types.ResourceFileSystem, types.ResourceMountTarget}}
}
