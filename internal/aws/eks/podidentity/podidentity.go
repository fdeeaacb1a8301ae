// Package podidentity serves the operations of the EKS API on pod identity associations.
//
// Those that an add-on owns are created, changed and deleted with it: see package addon.
//
// https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html
package podidentity

import (
	"context"
	"errors"

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

// Service serves the operations on pod identity associations.
type Service struct {
	*resource.Records
	principals *principal.Directory
}

// New returns the service over the records.
func New(records *resource.Records, principals *principal.Directory) *Service {
	return &Service{records, principals}
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	mux.Register(wire.EKS, s.handlers()...)
	mux.Register(wire.EKS, s.changeHandlers()...)
}

// handlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.ListPodIdentityAssociations, func(
			ctx context.Context, action string, in *eks.ListPodIdentityAssociationsInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
		wire.Handle(s.DescribePodIdentityAssociation, func(
			ctx context.Context, action string, in *eks.DescribePodIdentityAssociationInput,
		) ([]wire.Target, error) {
			return s.onAssociation(ctx, action, in.ClusterName, in.AssociationId)
		}),
	}
}

// ListPodIdentityAssociations lists the pod identity associations of a cluster, or of a namespace or service account in
// it.
func (s *Service) ListPodIdentityAssociations(
	ctx context.Context, in *eks.ListPodIdentityAssociationsInput,
) (*eks.ListPodIdentityAssociationsOutput, error) {
	row, err := s.Cluster(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	rows, err := s.AssociationsIn(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	summaries := []types.PodIdentityAssociationSummary{}
	for _, r := range rows {
		p := r.Value
		if in.Namespace != nil && p.Namespace != *in.Namespace ||
			in.ServiceAccount != nil && p.ServiceAccount != *in.ServiceAccount {
			continue
		}
		summaries = append(summaries, types.PodIdentityAssociationSummary{
			ClusterName: new(p.Cluster), Namespace: new(p.Namespace), ServiceAccount: new(p.ServiceAccount),
			AssociationArn: new(p.ARN()), AssociationId: new(p.ID), OwnerArn: resource.OrNil(p.OwnerARN),
		})
	}
	page, next, err := wire.Page(
		ctx, summaries, in.MaxResults, in.NextToken,
		func(p types.PodIdentityAssociationSummary) string { return *p.AssociationId },
	)
	if err != nil {
		return nil, err
	}
	return &eks.ListPodIdentityAssociationsOutput{Associations: page, NextToken: next}, nil
}

// onAssociation returns the association that a request names, whether or not it exists, as its authorization target.
func (s *Service) onAssociation(ctx context.Context, action string, cluster, id *string) ([]wire.Target, error) {
	at := resource.ScopeOf(ctx)
	p := record.PodIdentityAssociation{
		Account: at.Account, Region: at.Region, Cluster: aws.ToString(cluster), ID: aws.ToString(id),
	}
	row, err := s.Associations.Get(ctx, p.Key())
	if err == nil {
		p = row.Value
	} else if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return []wire.Target{resource.OnAssociation(action, p)}, nil
}

// DescribePodIdentityAssociation describes a pod identity association.
func (s *Service) DescribePodIdentityAssociation(
	ctx context.Context, in *eks.DescribePodIdentityAssociationInput,
) (*eks.DescribePodIdentityAssociationOutput, error) {
	row, _, err := s.association(ctx, in.ClusterName, in.AssociationId)
	if err != nil {
		return nil, err
	}
	return &eks.DescribePodIdentityAssociationOutput{Association: describe(row.Value)}, nil
}

// association returns a copy of an association of the caller's cluster, and the cluster; or a
// ResourceNotFoundException.
func (s *Service) association(ctx context.Context, cluster, id *string) (
	row store.Row[record.PodIdentityAssociation], c store.Row[record.Cluster], err error,
) {
	if c, err = s.Cluster(ctx, aws.ToString(cluster)); err != nil {
		return row, c, err
	}
	row, err = s.Associations.Copy(
		ctx, record.PodIdentityAssociationKey(c.Value.Account, c.Value.Region, c.Value.Name, aws.ToString(id)),
	)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ClusterID != c.Value.ID {
		return row, c, exception.NotFound(
			c.Value.Name, "No association found in cluster %s for ID: %s", c.Value.Name, aws.ToString(id),
		)
	}
	return row, c, err
}

// describe returns an association as the API shows it.
func describe(p record.PodIdentityAssociation) *types.PodIdentityAssociation {
	out := &types.PodIdentityAssociation{
		ClusterName: new(p.Cluster), Namespace: new(p.Namespace), ServiceAccount: new(p.ServiceAccount),
		RoleArn: new(p.RoleARN), AssociationArn: new(p.ARN()), AssociationId: new(p.ID),
		OwnerArn: resource.OrNil(p.OwnerARN), CreatedAt: new(p.CreatedAt), ModifiedAt: new(p.ModifiedAt),
		TargetRoleArn: resource.OrNil(p.TargetRoleARN), ExternalId: resource.OrNil(p.ExternalID),
		Policy: resource.OrNil(p.SessionPolicy), DisableSessionTags: new(p.DisableSessionTags), Tags: p.Tags,
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	return out
}
