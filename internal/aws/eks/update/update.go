// Package update serves the operations of the EKS API on update objects, of clusters, node groups, add-ons and
// capabilities. An update starts with the operation that asks for it ([resource.Records.StartUpdate]) and a controller
// ends it.
//
// https://docs.aws.amazon.com/eks/latest/APIReference/API_Update.html
package update

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Service serves the operations on updates.
type Service struct{ *resource.Records }

// New returns the service over the records.
func New(records *resource.Records) *Service { return &Service{records} }

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) { mux.Register(wire.EKS, s.handlers()...) }

// owner names what the updates are of that a request asks for.
type owner struct{ cluster, nodegroup, addon, capability *string }

// ownerOf returns the owner of the updates that a request asks for: a cluster, a node group, an add-on or a capability.
func (s *Service) ownerOf(ctx context.Context, o owner) (of resource.UpdateOwner, err error) {
	if aws.ToString(o.nodegroup) != "" {
		row, _, err := s.Nodegroup(ctx, aws.ToString(o.cluster), *o.nodegroup)
		if err != nil {
			return of, err
		}
		of.NodegroupID = row.Value.ID
	}
	if aws.ToString(o.addon) != "" {
		row, _, err := s.Addon(ctx, exception.About{Cluster: aws.ToString(o.cluster), Addon: *o.addon})
		if err != nil {
			return of, err
		}
		of.AddonID = row.Value.ID
	}
	if aws.ToString(o.capability) != "" {
		row, _, err := s.Capability(ctx, aws.ToString(o.cluster), *o.capability)
		if err != nil {
			return of, err
		}
		of.CapabilityID = row.Value.ID
	}
	return of, nil
}

// handlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeUpdate, func(
			ctx context.Context, action string, in *eks.DescribeUpdateInput,
		) ([]wire.Target, error) {
			return s.onUpdated(ctx, action, owner{in.Name, in.NodegroupName, in.AddonName, in.CapabilityName})
		}),
		wire.Handle(s.ListUpdates, func(
			ctx context.Context, action string, in *eks.ListUpdatesInput,
		) ([]wire.Target, error) {
			return s.onUpdated(ctx, action, owner{in.Name, in.NodegroupName, in.AddonName, in.CapabilityName})
		}),
		wire.Handle(s.CancelUpdate, func(
			ctx context.Context, action string, in *eks.CancelUpdateInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.Name)
		}),
	}
}

// DescribeUpdate describes an update of a cluster, or of one of its node groups, add-ons or capabilities.
func (s *Service) DescribeUpdate(ctx context.Context, in *eks.DescribeUpdateInput) (*eks.DescribeUpdateOutput, error) {
	of, err := s.ownerOf(ctx, owner{in.Name, in.NodegroupName, in.AddonName, in.CapabilityName})
	if err != nil {
		return nil, err
	}
	u, err := s.update(ctx, aws.ToString(in.Name), aws.ToString(in.UpdateId))
	if err != nil {
		return nil, err
	}
	if resource.OwnerOf(u) != of {
		return nil, updateNotFound(aws.ToString(in.Name), aws.ToString(in.UpdateId))
	}
	return &eks.DescribeUpdateOutput{Update: resource.DescribeUpdate(u)}, nil
}

// ListUpdates lists the ids of the updates of a cluster, or of one of its node groups, add-ons or capabilities.
func (s *Service) ListUpdates(ctx context.Context, in *eks.ListUpdatesInput) (*eks.ListUpdatesOutput, error) {
	row, err := s.Cluster(ctx, aws.ToString(in.Name))
	if err != nil {
		return nil, err
	}
	of, err := s.ownerOf(ctx, owner{in.Name, in.NodegroupName, in.AddonName, in.CapabilityName})
	if err != nil {
		return nil, err
	}
	all, err := s.UpdatesOf(ctx, row.Value, of)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, u := range all {
		ids = append(ids, u.ID)
	}
	page, next, err := resource.PageNames(ctx, ids, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &eks.ListUpdatesOutput{UpdateIds: page, NextToken: next}, nil
}

// CancelUpdate refuses: AWS cancels version rollbacks while they roll nodes of EKS Auto Mode back, and no cluster here
// has such nodes. Once the rollback of the control plane has begun, there is no way out of it.
func (s *Service) CancelUpdate(ctx context.Context, in *eks.CancelUpdateInput) (*eks.CancelUpdateOutput, error) {
	name := aws.ToString(in.Name)
	u, err := s.update(ctx, name, aws.ToString(in.UpdateId))
	if err != nil {
		return nil, err
	}
	if u.Status != types.UpdateStatusInProgress {
		return nil, exception.InvalidRequest(
			name, "Update %s can't be cancelled because its status is %s", u.ID, u.Status,
		)
	}
	return nil, exception.InvalidRequest(
		name, "Update %s can't be cancelled: updates of type %s don't support cancellation", u.ID, u.Type,
	)
}

func (s *Service) update(ctx context.Context, cluster, id string) (record.Update, error) {
	row, err := s.Cluster(ctx, cluster)
	if err != nil {
		return record.Update{}, err
	}
	c := row.Value
	u, err := s.Updates.Get(ctx, record.UpdateKey(c.Account, c.Region, c.Name, id))
	if errors.Is(err, store.ErrNotFound) || err == nil && u.Value.ClusterID != c.ID {
		return record.Update{}, updateNotFound(cluster, id)
	}
	return u.Value, err
}

func updateNotFound(cluster, id string) error {
	return exception.NotFound(cluster, "No update found for ID: %s", id)
}

// onUpdated returns what has an update as the target: a cluster, or a node group, an add-on or a capability of it.
func (s *Service) onUpdated(ctx context.Context, action string, o owner) ([]wire.Target, error) {
	switch {
	case aws.ToString(o.nodegroup) != "":
		return s.OnNodegroup(ctx, action, o.cluster, o.nodegroup)
	case aws.ToString(o.addon) != "":
		return s.OnAddon(ctx, action, o.cluster, o.addon)
	case aws.ToString(o.capability) != "":
		return s.OnCapability(ctx, action, o.cluster, o.capability)
	}
	return s.OnCluster(ctx, action, o.cluster)
}
