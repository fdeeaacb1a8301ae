package efs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// step returns a part of a file system that is set by a call, once the file system is available.
func step(
	run func(context.Context, *efs.Client, *resource.Request) error, properties ...string,
) resource.Step[*efs.Client] {
	return resource.Step[*efs.Client]{
		Properties: properties,
		Run: func(ctx context.Context, c *efs.Client, r *resource.Request) error {
			out, err := describeFileSystem(ctx, c, r)
			if err != nil {
				return err
			}
			if out.LifeCycleState == types.LifeCycleStateCreating {
				return resource.ErrPending
			}
			return run(ctx, c, r)
		},
	}
}

// fileSystems is the handler of AWS::EFS::FileSystem.
var fileSystems = resource.Handle(resource.Table[*efs.Client, types.FileSystemDescription]{
	Client: newClient,
	Create: resource.Create((*efs.Client).CreateFileSystem, nil,
		func(out *efs.CreateFileSystemOutput) *string { return out.FileSystemId },
		func(r *resource.Request, in *efs.CreateFileSystemInput) error {
			in.CreationToken, in.Tags = &r.Token, resource.TagList(r.Wanted("FileSystemTags"), newTag)
			in.Backup = aws.Bool(backupStatus(r) == types.StatusEnabled)
			return nil
		}),
	Find: func(ctx context.Context, c *efs.Client, r *resource.Request) (string, error) {
		pages := efs.NewDescribeFileSystemsPaginator(c, &efs.DescribeFileSystemsInput{})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return "", err
			}
			for _, f := range page.FileSystems {
				if r.Owns(tagMap(f.Tags)) && f.LifeCycleState != types.LifeCycleStateDeleting &&
					!isReplaced(r, aws.ToString(f.FileSystemId)) {
					return aws.ToString(f.FileSystemId), nil
				}
			}
		}
		return "", resource.ErrNotFound
	},
	Describe: describeFileSystem,
	State: func(live *types.FileSystemDescription) (resource.State, error) {
		return stateOf(live.LifeCycleState, live.FileSystemId)
	},
	Configure: []resource.Step[*efs.Client]{
		step(setLifecycle, "LifecyclePolicies"),
		step(setPolicy, "FileSystemPolicy"),
		step(setProtection, "FileSystemProtection"),
		{
			Properties: []string{"BackupPolicy"}, Update: true,
			Run: func(ctx context.Context, c *efs.Client, r *resource.Request) error {
				_, err := c.PutBackupPolicy(ctx, &efs.PutBackupPolicyInput{
					FileSystemId: &r.PhysicalID, BackupPolicy: &types.BackupPolicy{Status: backupStatus(r)},
				})
				return err
			},
		},
		{
			Properties: []string{"ThroughputMode", "ProvisionedThroughputInMibps"}, Update: true, Run: setThroughput,
		},
		{Properties: []string{"BypassPolicyLockoutSafetyCheck"}, Update: true}, // for the policy
		setTags("FileSystemTags"),
	},
	Delete: func(ctx context.Context, c *efs.Client, r *resource.Request) error {
		_, err := c.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: &r.PhysicalID})
		return err
	},
	Slow: true,
	Attributes: func(_ *resource.Request, live *types.FileSystemDescription) map[string]any {
		return map[string]any{
			"Arn": aws.ToString(live.FileSystemArn), "FileSystemId": aws.ToString(live.FileSystemId),
		}
	},
	Properties: fileSystemProperties,
})

func describeFileSystem(ctx context.Context, c *efs.Client, r *resource.Request) (*types.FileSystemDescription, error) {
	out, err := c.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	return &out.FileSystems[0], nil
}

func isReplaced(r *resource.Request, id string) bool {
	for _, replaced := range r.Replaced {
		if replaced == id {
			return true
		}
	}
	return false
}

// backupStatus returns what the properties say of backups. CloudFormation makes no backups unless they say so.
func backupStatus(r *resource.Request) types.Status {
	if policy, ok := r.Properties["BackupPolicy"].(map[string]any); ok {
		if status := resource.Text(policy["Status"]); status != "" {
			return types.Status(status)
		}
	}
	return types.StatusDisabled
}

func setLifecycle(ctx context.Context, c *efs.Client, r *resource.Request) error {
	in := &efs.PutLifecycleConfigurationInput{LifecyclePolicies: []types.LifecyclePolicy{}}
	wanted := map[string]any{"LifecyclePolicies": r.Properties["LifecyclePolicies"]}
	if err := resource.Decode(wanted, in, nil); err != nil {
		return err
	}
	in.FileSystemId = &r.PhysicalID
	_, err := c.PutLifecycleConfiguration(ctx, in)
	return err
}

func setPolicy(ctx context.Context, c *efs.Client, r *resource.Request) error {
	if policy := r.Pointer("FileSystemPolicy"); policy != nil {
		_, err := c.PutFileSystemPolicy(ctx, &efs.PutFileSystemPolicyInput{
			FileSystemId: &r.PhysicalID, Policy: policy,
			BypassPolicyLockoutSafetyCheck: aws.ToBool(r.Flag("BypassPolicyLockoutSafetyCheck")),
		})
		return err
	}
	_, err := c.DeleteFileSystemPolicy(ctx, &efs.DeleteFileSystemPolicyInput{FileSystemId: &r.PhysicalID})
	return err
}

func setProtection(ctx context.Context, c *efs.Client, r *resource.Request) error {
	in := &efs.UpdateFileSystemProtectionInput{
		FileSystemId:                   &r.PhysicalID,
		ReplicationOverwriteProtection: types.ReplicationOverwriteProtectionEnabled,
	}
	if wanted, ok := r.Properties["FileSystemProtection"].(map[string]any); ok {
		if status := resource.Text(wanted["ReplicationOverwriteProtection"]); status != "" {
			in.ReplicationOverwriteProtection = types.ReplicationOverwriteProtection(status)
		}
	}
	_, err := c.UpdateFileSystemProtection(ctx, in)
	return err
}

func setThroughput(ctx context.Context, c *efs.Client, r *resource.Request) error {
	in := &efs.UpdateFileSystemInput{ThroughputMode: types.ThroughputModeBursting}
	wanted := map[string]any{
		"ThroughputMode":               r.Properties["ThroughputMode"],
		"ProvisionedThroughputInMibps": r.Properties["ProvisionedThroughputInMibps"],
	}
	if err := resource.Decode(wanted, in, nil); err != nil {
		return err
	}
	in.FileSystemId = &r.PhysicalID
	_, err := c.UpdateFileSystem(ctx, in)
	return err
}

func fileSystemProperties(
	ctx context.Context, c *efs.Client, r *resource.Request, live *types.FileSystemDescription,
) (map[string]any, error) {
	all := map[string]any{
		"PerformanceMode": string(live.PerformanceMode), "ThroughputMode": string(live.ThroughputMode),
		"Encrypted": aws.ToBool(live.Encrypted),
		"FileSystemProtection": map[string]any{
			"ReplicationOverwriteProtection": string(live.FileSystemProtection.ReplicationOverwriteProtection),
		},
	}
	for name, value := range map[string]*string{
		"KmsKeyId": live.KmsKeyId, "AvailabilityZoneName": live.AvailabilityZoneName,
	} {
		if value != nil {
			all[name] = *value
		}
	}
	if live.ProvisionedThroughputInMibps != nil {
		all["ProvisionedThroughputInMibps"] = *live.ProvisionedThroughputInMibps
	}
	backup, err := c.DescribeBackupPolicy(ctx, &efs.DescribeBackupPolicyInput{FileSystemId: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	all["BackupPolicy"] = map[string]any{"Status": string(backup.BackupPolicy.Status)}
	lifecycle, err := c.DescribeLifecycleConfiguration(ctx, &efs.DescribeLifecycleConfigurationInput{
		FileSystemId: &r.PhysicalID,
	})
	if err != nil {
		return nil, err
	}
	if policies := lifecyclePolicies(lifecycle.LifecyclePolicies); len(policies) > 0 {
		all["LifecyclePolicies"] = policies
	}
	policy, err := c.DescribeFileSystemPolicy(ctx, &efs.DescribeFileSystemPolicyInput{FileSystemId: &r.PhysicalID})
	switch {
	case err == nil:
		all["FileSystemPolicy"] = resource.Document(aws.ToString(policy.Policy))
	case !resource.HasCode(err, "PolicyNotFound"):
		return nil, err
	}
	if own := resource.TagObjects(r.LiveTags("FileSystemTags", tagMap(live.Tags))); own != nil {
		all["FileSystemTags"] = own
	}
	return all, nil
}

func lifecyclePolicies(policies []types.LifecyclePolicy) []any {
	all := make([]any, 0, len(policies))
	for _, p := range policies {
		policy := map[string]any{}
		for name, rule := range map[string]string{
			"TransitionToIA": string(p.TransitionToIA), "TransitionToArchive": string(p.TransitionToArchive),
			"TransitionToPrimaryStorageClass": string(p.TransitionToPrimaryStorageClass),
		} {
			if rule != "" {
				policy[name] = rule
			}
		}
		all = append(all, policy)
	}
	return all
}
