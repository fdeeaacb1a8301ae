package eks

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// observedAddon is what was last seen of an add-on (nothing, for a new one) and its newest update (nothing, for one that was never updated).
func (s *Service) observedAddon(ctx context.Context, a record.Addon) (state record.AddonState, last record.Update, err error) {
	state, err = resource.ObservedState(ctx, s.addonStates, a.Key(), func(state record.AddonState) bool { return state.AddonID == a.ID })
	if err != nil {
		return state, last, err
	}
	last, err = s.LastUpdate(ctx, clusterOf(a), a.LastUpdateID)
	return state, last, err
}

// clusterOf is as much of an add-on's cluster as finds what belongs to it.
func clusterOf(a record.Addon) record.Cluster {
	return record.Cluster{Account: a.Account, Region: a.Region, Name: a.Cluster, ID: a.ClusterID}
}

// addonStatus is an add-on's status, from what is wanted, what was observed, and the newest update.
func addonStatus(a record.Addon, state record.AddonState, last record.Update) types.AddonStatus {
	judged := state.Change == a.Change
	switch {
	case a.Deleting && state.DeleteFailed:
		return types.AddonStatusDeleteFailed
	case a.Deleting:
		return types.AddonStatusDeleting
	case last.Status == types.UpdateStatusInProgress:
		return types.AddonStatusUpdating
	case !state.Created && state.Failed && judged:
		return types.AddonStatusCreateFailed
	case !state.Created:
		return types.AddonStatusCreating
	case last.Status == types.UpdateStatusFailed && judged:
		return types.AddonStatusUpdateFailed
	case len(state.Issues) > 0:
		return types.AddonStatusDegraded
	}
	return types.AddonStatusActive
}

// describeAddon is the add-on as the API shows it.
func (s *Service) describeAddon(ctx context.Context, a record.Addon) (*types.Addon, error) {
	state, last, err := s.observedAddon(ctx, a)
	if err != nil {
		return nil, err
	}
	owned, err := s.associationsOf(ctx, a)
	if err != nil {
		return nil, err
	}
	now := a.Now(last)
	out := &types.Addon{
		AddonName:              new(a.Name),
		AddonArn:               new(a.ARN()),
		AddonVersion:           new(now.Version),
		ClusterName:            new(a.Cluster),
		ConfigurationValues:    resource.OrNil(now.Configuration),
		CreatedAt:              new(a.CreatedAt),
		ModifiedAt:             new(a.ModifiedAt),
		Health:                 &types.AddonHealth{Issues: state.Issues},
		MarketplaceInformation: a.Marketplace,
		NamespaceConfig:        &types.AddonNamespaceConfigResponse{Namespace: new(now.Namespace)},
		Owner:                  resource.OrNil(a.Owner),
		Publisher:              resource.OrNil(a.Publisher),
		ServiceAccountRoleArn:  resource.OrNil(now.ServiceAccountRoleARN),
		Status:                 addonStatus(a, state, last),
		Tags:                   a.Tags,
	}
	if state.ModifiedAt.After(a.ModifiedAt) {
		out.ModifiedAt = new(state.ModifiedAt)
	}
	for _, r := range owned {
		out.PodIdentityAssociations = append(out.PodIdentityAssociations, r.Value.ARN())
	}
	if out.Health.Issues == nil {
		out.Health.Issues = []types.AddonIssue{}
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	return out, nil
}

// addonHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) addonHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeAddon, func(
			ctx context.Context, action string, in *eks.DescribeAddonInput,
		) ([]wire.Target, error) {
			return s.OnAddon(ctx, action, in.ClusterName, in.AddonName)
		}),
		wire.Handle(s.ListAddons, func(
			ctx context.Context, action string, in *eks.ListAddonsInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// DescribeAddon describes an EKS add-on. A waiter is answered when there is something to tell.
func (s *Service) DescribeAddon(ctx context.Context, in *eks.DescribeAddonInput) (*eks.DescribeAddonOutput, error) {
	about := exception.About{Cluster: aws.ToString(in.ClusterName), Addon: aws.ToString(in.AddonName)}
	if err := s.awaitAddon(ctx, about); err != nil {
		return nil, err
	}
	row, _, err := s.Addon(ctx, about)
	if err != nil {
		return nil, err
	}
	out, err := s.describeAddon(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	return &eks.DescribeAddonOutput{Addon: out}, nil
}

// ListAddons lists the EKS add-ons of a cluster.
func (s *Service) ListAddons(ctx context.Context, in *eks.ListAddonsInput) (*eks.ListAddonsOutput, error) {
	row, err := s.Cluster(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	addons, err := s.AddonsOf(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, a := range addons {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	page, next, err := resource.PageNames(ctx, names, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &eks.ListAddonsOutput{Addons: page, NextToken: next}, nil
}

// awaitAddon returns once the add-on is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) awaitAddon(ctx context.Context, about exception.About) error {
	at := resource.PlaceOf(ctx)
	key := record.AddonKey(at.Account, at.Region, about.Cluster, about.Addon)
	return resource.Await(ctx, s.Addons, key, func(ctx context.Context, a record.Addon) (bool, error) {
		state, last, err := s.observedAddon(ctx, a)
		switch addonStatus(a, state, last) {
		case types.AddonStatusCreating, types.AddonStatusUpdating, types.AddonStatusDeleting:
			return false, err
		}
		return true, err
	}, resource.Notify(s.addonStates, key), resource.Notify(s.Updates, store.Prefix(at.Account, at.Region, about.Cluster)))
}
