// Package fargate serves the operations of the EKS API on Fargate profiles, which select the pods of a cluster that run
// on Fargate.
//
// It records the desired state ([record.FargateProfile]). The Fargate controller carries it out and records what it
// observes ([record.FargateProfileState]), and DescribeFargateProfile puts the two together. The controller removes the
// record of a profile whose deletion is complete. A profile keeps its cluster from being deleted.
//
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-profile.html
package fargate

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Service serves the operations on Fargate profiles.
type Service struct {
	*resource.Records
	principals  *principal.Directory
	states      store.Table[record.FargateProfileState]
	pods        store.Table[record.FargatePod]
	instances   store.Table[record.Instance]
	subnets     store.Table[record.Subnet]
	vpcs        store.Table[record.VPC]
	routeTables store.Table[record.RouteTable]
	perCluster  int
}

// New returns the service over the records. perCluster is the quota of profiles, [DefaultPerCluster] if zero.
func New(records *resource.Records, principals *principal.Directory, perCluster int) *Service {
	if perCluster == 0 {
		perCluster = DefaultPerCluster
	}
	rows := records.Store
	return &Service{
		Records:     records,
		principals:  principals,
		states:      record.FargateProfileStates(rows),
		pods:        record.FargatePods(rows),
		instances:   record.Instances(rows),
		subnets:     record.Subnets(rows),
		vpcs:        record.VPCs(rows),
		routeTables: record.RouteTables(rows),
		perCluster:  perCluster,
	}
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{s.handlers(), s.createHandlers(), s.deleteHandlers()} {
		mux.Register(wire.EKS, handlers...)
	}
}

func nameOf(p record.FargateProfile) exception.About {
	return exception.About{Cluster: p.Cluster, FargateProfile: p.Name}
}

// observe returns the observed state of a profile, zero for a new one.
func (s *Service) observe(ctx context.Context, p record.FargateProfile) (record.FargateProfileState, error) {
	return resource.ObservedState(
		ctx, s.states, p.Key(), func(state record.FargateProfileState) bool { return state.ProfileID == p.ID },
	)
}

// describe returns the profile as the API shows it.
func (s *Service) describe(ctx context.Context, p record.FargateProfile) (*types.FargateProfile, error) {
	state, err := s.observe(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &types.FargateProfile{
		FargateProfileName:  new(p.Name),
		FargateProfileArn:   new(p.ARN()),
		ClusterName:         new(p.Cluster),
		CreatedAt:           new(p.CreatedAt),
		PodExecutionRoleArn: new(p.PodExecutionRoleARN),
		Subnets:             p.SubnetIDs,
		Status:              record.FargateProfileStatus(p, state),
		Health:              &types.FargateProfileHealth{Issues: state.Issues},
		Tags:                p.Tags,
	}
	for _, selector := range p.Selectors {
		out.Selectors = append(out.Selectors, types.FargateProfileSelector{
			Namespace: new(selector.Namespace), Labels: selector.Labels,
		})
	}
	if out.Health.Issues == nil {
		out.Health.Issues = []types.FargateProfileIssue{}
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	return out, nil
}

// handlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeFargateProfile, func(
			ctx context.Context, action string, in *eks.DescribeFargateProfileInput,
		) ([]wire.Target, error) {
			return s.OnFargateProfile(ctx, action, in.ClusterName, in.FargateProfileName)
		}),
		wire.Handle(s.ListFargateProfiles, func(
			ctx context.Context, action string, in *eks.ListFargateProfilesInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// DescribeFargateProfile describes a Fargate profile. A waiter is answered when there is something to tell.
func (s *Service) DescribeFargateProfile(
	ctx context.Context, in *eks.DescribeFargateProfileInput,
) (*eks.DescribeFargateProfileOutput, error) {
	cluster, name := aws.ToString(in.ClusterName), aws.ToString(in.FargateProfileName)
	if err := s.waitForStable(ctx, cluster, name); err != nil {
		return nil, err
	}
	row, _, err := s.FargateProfile(ctx, cluster, name)
	if err != nil {
		return nil, err
	}
	out, err := s.describe(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	return &eks.DescribeFargateProfileOutput{FargateProfile: out}, nil
}

// ListFargateProfiles lists the Fargate profiles of a cluster.
func (s *Service) ListFargateProfiles(
	ctx context.Context, in *eks.ListFargateProfilesInput,
) (*eks.ListFargateProfilesOutput, error) {
	row, err := s.Cluster(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	profiles, err := s.FargateProfilesOf(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	page, next, err := resource.PageNames(ctx, names, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &eks.ListFargateProfilesOutput{FargateProfileNames: page, NextToken: next}, nil
}

// waitForStable returns once the profile is neither being created nor deleted, at once unless a waiter asks.
func (s *Service) waitForStable(ctx context.Context, cluster, name string) error {
	at := resource.ScopeOf(ctx)
	key := record.FargateProfileKey(at.Account, at.Region, cluster, name)
	return resource.Await(ctx, s.FargateProfiles, key, func(
		ctx context.Context, p record.FargateProfile,
	) (bool, error) {
		state, err := s.observe(ctx, p)
		return !changing(record.FargateProfileStatus(p, state)), err
	}, resource.Notify(s.states, key))
}

// changing reports whether a profile of that status is about to have another one.
func changing(status types.FargateProfileStatus) bool {
	return status == types.FargateProfileStatusCreating || status == types.FargateProfileStatusDeleting
}
