package eks

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// An EKS add-on goes as a node group does: what is wanted is recorded here ([record.Addon], and [record.Update] for a change on its way), the
// add-on controller makes it so and writes what it sees ([record.AddonState]), and DescribeAddon puts the rows together. The controller ends updates,
// and removes the row of an add-on whose deletion is complete and those of a cluster that is gone: add-ons are not in the way of DeleteCluster.
//
// https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html

// addon is an add-on of the caller's cluster, for the caller to change, and the cluster; or a ResourceNotFoundException.
func (s *Service) addon(ctx context.Context, about subject) (store.Row[record.Addon], store.Row[record.Cluster], error) {
	c, err := s.cluster(ctx, about.cluster)
	if err != nil {
		return store.Row[record.Addon]{}, c, err
	}
	row, err := s.addons.Copy(ctx, record.AddonKey(c.Value.Account, c.Value.Region, about.cluster, about.addon))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ClusterID != c.Value.ID {
		return row, c, about.notFound("No addon: %s found in cluster: %s", about.addon, about.cluster)
	}
	return row, c, err
}

// addonsOf are a cluster's add-ons.
func (s *Service) addonsOf(ctx context.Context, c record.Cluster) ([]record.Addon, error) {
	return valuesOf(ctx, s.addons, c, func(a record.Addon) string { return a.ClusterID })
}

// observedAddon is what was last seen of an add-on (nothing, for a new one) and its newest update (nothing, for one that was never updated).
func (s *Service) observedAddon(ctx context.Context, a record.Addon) (state record.AddonState, last record.Update, err error) {
	state, err = seen(ctx, s.addonStates, a.Key(), func(state record.AddonState) bool { return state.AddonID == a.ID })
	if err != nil {
		return state, last, err
	}
	last, err = s.lastUpdate(ctx, clusterOf(a), a.LastUpdateID)
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
		ConfigurationValues:    orNil(now.Configuration),
		CreatedAt:              new(a.CreatedAt),
		ModifiedAt:             new(a.ModifiedAt),
		Health:                 &types.AddonHealth{Issues: state.Issues},
		MarketplaceInformation: a.Marketplace,
		NamespaceConfig:        &types.AddonNamespaceConfigResponse{Namespace: new(now.Namespace)},
		Owner:                  orNil(a.Owner),
		Publisher:              orNil(a.Publisher),
		ServiceAccountRoleArn:  orNil(now.ServiceAccountRoleARN),
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
			return s.onAddon(ctx, action, in.ClusterName, in.AddonName)
		}),
		wire.Handle(s.ListAddons, func(
			ctx context.Context, action string, in *eks.ListAddonsInput,
		) ([]wire.Target, error) {
			return s.onCluster(ctx, action, in.ClusterName)
		}),
	}
}

// DescribeAddon describes an EKS add-on. A waiter is answered when there is something to tell.
func (s *Service) DescribeAddon(ctx context.Context, in *eks.DescribeAddonInput) (*eks.DescribeAddonOutput, error) {
	about := subject{cluster: aws.ToString(in.ClusterName), addon: aws.ToString(in.AddonName)}
	if err := s.awaitAddon(ctx, about); err != nil {
		return nil, err
	}
	row, _, err := s.addon(ctx, about)
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
	row, err := s.cluster(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	addons, err := s.addonsOf(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, a := range addons {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	page, next, err := wire.Page(ctx, names, in.MaxResults, in.NextToken, itself)
	if err != nil {
		return nil, err
	}
	return &eks.ListAddonsOutput{Addons: page, NextToken: next}, nil
}
