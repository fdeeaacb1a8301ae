// Package addon serves the operations of the EKS API on EKS add-ons.
//
// What is wanted is recorded here ([record.Addon], and [record.Update] for a change under way). The add-on controller
// carries it out and writes what it observes ([record.AddonState]), and DescribeAddon puts the two together. The
// controller ends updates, and removes the record of an add-on whose deletion is complete and those of a cluster that
// is gone: add-ons do not keep a cluster from being deleted.
//
// https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html
package addon

import (
	"context"
	"slices"

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

// Service serves the operations on EKS add-ons.
type Service struct {
	*resource.Records
	principals  *principal.Directory
	addonStates store.Table[record.AddonState]
	catalog     Catalog
}

// New returns the service over the records, with the add-ons of a catalog.
func New(records *resource.Records, principals *principal.Directory, catalog Catalog) *Service {
	return &Service{
		Records:     records,
		principals:  principals,
		addonStates: record.AddonStates(records.Store),
		catalog:     catalog,
	}
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.handlers(), s.createHandlers(), s.deleteHandlers(), s.updateHandlers(), s.versionHandlers(),
	} {
		mux.Register(wire.EKS, handlers...)
	}
}

// observe returns the observed state of an add-on (zero for a new one) and its newest update (zero for one that was
// never updated).
func (s *Service) observe(
	ctx context.Context, a record.Addon,
) (state record.AddonState, last record.Update, err error) {
	state, err = resource.ObservedState(
		ctx, s.addonStates, a.Key(), func(state record.AddonState) bool { return state.AddonID == a.ID },
	)
	if err != nil {
		return state, last, err
	}
	last, err = s.LastUpdate(ctx, clusterOf(a), a.LastUpdateID)
	return state, last, err
}

// clusterOf returns an add-on's cluster, with the fields that identify it and what belongs to it.
func clusterOf(a record.Addon) record.Cluster {
	return record.Cluster{Account: a.Account, Region: a.Region, Name: a.Cluster, ID: a.ClusterID}
}

// status returns an add-on's status, from the desired state, the observed state, and the newest update.
func status(a record.Addon, state record.AddonState, last record.Update) types.AddonStatus {
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

// describe returns the add-on as the API shows it.
func (s *Service) describe(ctx context.Context, a record.Addon) (*types.Addon, error) {
	state, last, err := s.observe(ctx, a)
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
		Status:                 status(a, state, last),
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

// handlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) handlers() []wire.Handler {
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
	if err := s.waitForStable(ctx, about); err != nil {
		return nil, err
	}
	row, _, err := s.Addon(ctx, about)
	if err != nil {
		return nil, err
	}
	out, err := s.describe(ctx, row.Value)
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

// waitForStable returns once the add-on is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) waitForStable(ctx context.Context, about exception.About) error {
	at := resource.ScopeOf(ctx)
	key := record.AddonKey(at.Account, at.Region, about.Cluster, about.Addon)
	updates := resource.Notify(s.Updates, store.Prefix(at.Account, at.Region, about.Cluster))
	return resource.Await(ctx, s.Addons, key, func(ctx context.Context, a record.Addon) (bool, error) {
		state, last, err := s.observe(ctx, a)
		switch status(a, state, last) {
		case types.AddonStatusCreating, types.AddonStatusUpdating, types.AddonStatusDeleting:
			return false, err
		}
		return true, err
	}, resource.Notify(s.addonStates, key), updates)
}
