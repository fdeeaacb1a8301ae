package cluster

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// fargateProfilesOf lists the names of a cluster's Fargate profiles.
func (s *Service) fargateProfilesOf(ctx context.Context, c record.Cluster) ([]string, error) {
	profiles, err := resource.ValuesOf(
		ctx, s.fargateProfiles, c, func(p record.FargateProfile) string { return p.ClusterID },
	)
	names := []string{}
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names, err
}

// attachedHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) attachedHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.ListFargateProfiles, func(
			ctx context.Context, action string, in *eks.ListFargateProfilesInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
		wire.Handle(s.ListCapabilities, func(
			ctx context.Context, action string, in *eks.ListCapabilitiesInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// ListFargateProfiles lists the Fargate profiles of a cluster.
func (s *Service) ListFargateProfiles(
	ctx context.Context, in *eks.ListFargateProfilesInput,
) (*eks.ListFargateProfilesOutput, error) {
	row, err := s.Cluster(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	names, err := s.fargateProfilesOf(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	page, next, err := resource.PageNames(ctx, names, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &eks.ListFargateProfilesOutput{FargateProfileNames: page, NextToken: next}, nil
}

// ListCapabilities lists the EKS capabilities of a cluster. It tells the truth as long as nothing here can make one: a
// cluster has none.
func (s *Service) ListCapabilities(
	ctx context.Context, in *eks.ListCapabilitiesInput,
) (*eks.ListCapabilitiesOutput, error) {
	if _, err := s.Cluster(ctx, aws.ToString(in.ClusterName)); err != nil {
		return nil, err
	}
	return &eks.ListCapabilitiesOutput{Capabilities: []types.CapabilitySummary{}}, nil
}
