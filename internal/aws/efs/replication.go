package efs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// replicationHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) replicationHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateReplicationConfiguration, func(
			ctx context.Context, action string, in *efs.CreateReplicationConfigurationInput,
		) ([]wire.Target, error) {
			targets, err := s.onFileSystem(ctx, action, in.SourceFileSystemId)
			for _, d := range in.Destinations {
				if d.RoleArn != nil {
					targets = append(targets, wire.Target{Action: "iam:PassRole", Resource: *d.RoleArn,
						Conditions: map[string][]string{"iam:PassedToService": {"elasticfilesystem.amazonaws.com"}}})
				}
			}
			return targets, err
		}),
		wire.Handle(s.DeleteReplicationConfiguration, func(
			ctx context.Context, action string, in *efs.DeleteReplicationConfigurationInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.SourceFileSystemId)
		}),
		wire.Handle(s.DescribeReplicationConfigurations, func(
			ctx context.Context, action string, in *efs.DescribeReplicationConfigurationsInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
	}
}

// CreateReplicationConfiguration refuses: all file systems are on one host, where a copy of one protects from nothing.
func (s *Service) CreateReplicationConfiguration(ctx context.Context, in *efs.CreateReplicationConfigurationInput) (
	*efs.CreateReplicationConfigurationOutput, error) {
	row, err := s.available(ctx, in.SourceFileSystemId)
	if err != nil {
		return nil, err
	}
	return nil, badRequest("coracle does not replicate file systems: '%s' stays on this host. Copy its files to another "+
		"file system instead.", row.Value.ID)
}

// DeleteReplicationConfiguration finds no replication.
func (s *Service) DeleteReplicationConfiguration(ctx context.Context, in *efs.DeleteReplicationConfigurationInput) (
	*efs.DeleteReplicationConfigurationOutput, error) {
	row, err := s.fileSystem(ctx, in.SourceFileSystemId)
	if err != nil {
		return nil, err
	}
	return nil, replicationNotFound(row.Value.ID)
}

// DescribeReplicationConfigurations finds no replications.
func (s *Service) DescribeReplicationConfigurations(ctx context.Context,
	in *efs.DescribeReplicationConfigurationsInput) (*efs.DescribeReplicationConfigurationsOutput, error) {
	if in.FileSystemId == nil {
		return &efs.DescribeReplicationConfigurationsOutput{
			Replications: []types.ReplicationConfigurationDescription{}}, nil
	}
	row, err := s.fileSystem(ctx, in.FileSystemId)
	if err != nil {
		return nil, err
	}
	return nil, replicationNotFound(row.Value.ID)
}

func replicationNotFound(id string) error {
	return &types.ReplicationNotFound{
		ErrorCode_: new("ReplicationNotFound"), Message: text("The file system '%s' is not replicated.", id)}
}
