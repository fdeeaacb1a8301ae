package eks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// change is a request to change a cluster.
type change struct {
	cluster string
	token   *string
	request any // the SDK's input structure
	kind    types.UpdateType
	// apply changes what is wanted of the cluster and says so in the update's Params. c is a copy of its own. What it returns is written in the
	// same transaction. It may run several times.
	apply func(c *record.Cluster, cp record.ControlPlane, u *record.Update) ([]store.Op, error)
}

// startUpdate records a change and its update object, both or neither. A cluster has one update at a time: the transaction
// demands that the cluster is as it was when nothing was found in progress, and every update writes the cluster.
func (s *Service) startUpdate(ctx context.Context, ch change) (*types.Update, error) {
	hash := wire.Fingerprint(ch.request)
	for {
		row, err := s.clusters.Copy(ctx, placeOf(ctx).clusterKey(ch.cluster))
		if errors.Is(err, store.ErrNotFound) {
			return nil, clusterNotFound(ch.cluster)
		} else if err != nil {
			return nil, err
		}
		c := &row.Value
		if started, err := s.startedBefore(ctx, *c, "", ch.token, hash); started != nil || err != nil {
			return started, err
		}
		cp, last, err := s.observed(ctx, *c)
		if err != nil {
			return nil, err
		}
		if last.Status == types.UpdateStatusInProgress {
			return nil, inUse(c.Name, "Cannot %s because cluster %s currently has update %s in progress", ch.kind, c.Name, last.ID)
		}
		if now := status(*c, cp, last); now != types.ClusterStatusActive {
			return nil, inUse(c.Name, "Cannot %s because cluster %s is in status %s: it must be ACTIVE", ch.kind, c.Name, now)
		}
		c.Version = c.WantedVersion(last)
		u := record.Update{
			ID:        newUUID(),
			Cluster:   c.Name,
			ClusterID: c.ID,
			Type:      ch.kind,
			Status:    types.UpdateStatusInProgress,
			CreatedAt: s.timestamp(),

			ClientRequestToken: aws.ToString(ch.token),
			RequestHash:        hash,
		}
		ops, err := ch.apply(c, cp, &u)
		if err != nil {
			return nil, err
		}
		c.LastUpdateID = u.ID
		ops = append(ops, s.clusters.UpdateOp(row), s.updates.CreateOp(record.UpdateKey(c.Account, c.Region, c.Name, u.ID), u))
		if err := s.store.Txn(ctx, ops...); errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
			continue // the cluster changed meanwhile: judge again
		} else if err != nil {
			return nil, err
		}
		return describeUpdate(u), nil
	}
}

// startedBefore is the update that this very request has started already, if it has: of the node group with that ID, or of the cluster.
func (s *Service) startedBefore(ctx context.Context, c record.Cluster, nodegroupID string, token *string, hash string) (*types.Update, error) {
	if aws.ToString(token) == "" {
		return nil, nil
	}
	all, err := s.updatesOf(ctx, c, nodegroupID)
	if err != nil {
		return nil, err
	}
	for _, u := range all {
		if same, err := wire.Repeated(ctx, token, hash, u.ClientRequestToken, u.RequestHash); err != nil {
			return nil, err
		} else if same {
			return describeUpdate(u), nil
		}
	}
	return nil, nil
}

// updatesOf are the updates of a cluster's node group with that ID, or with an empty one those of the cluster itself and its add-ons.
func (s *Service) updatesOf(ctx context.Context, c record.Cluster, nodegroupID string) ([]record.Update, error) {
	rows, err := s.updates.List(ctx, store.Prefix(c.Account, c.Region, c.Name))
	if err != nil {
		return nil, err
	}
	var all []record.Update
	for _, r := range rows {
		if r.Value.ClusterID == c.ID && r.Value.NodegroupID == nodegroupID {
			all = append(all, r.Value)
		}
	}
	return all, nil
}

// DescribeUpdate describes an update of a cluster, or of one of its node groups or add-ons.
func (s *Service) DescribeUpdate(ctx context.Context, in *eks.DescribeUpdateInput) (*eks.DescribeUpdateOutput, error) {
	nodegroup, err := s.nodegroupID(ctx, in.Name, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	u, err := s.update(ctx, aws.ToString(in.Name), aws.ToString(in.UpdateId))
	if err != nil {
		return nil, err
	}
	if u.NodegroupID != nodegroup || u.AddonName != aws.ToString(in.AddonName) || in.CapabilityName != nil {
		return nil, updateNotFound(aws.ToString(in.Name), aws.ToString(in.UpdateId))
	}
	return &eks.DescribeUpdateOutput{Update: describeUpdate(u)}, nil
}

// ListUpdates lists the ids of the updates of a cluster, or of one of its node groups or add-ons.
func (s *Service) ListUpdates(ctx context.Context, in *eks.ListUpdatesInput) (*eks.ListUpdatesOutput, error) {
	row, err := s.cluster(ctx, aws.ToString(in.Name))
	if err != nil {
		return nil, err
	}
	nodegroup, err := s.nodegroupID(ctx, in.Name, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	all, err := s.updatesOf(ctx, row.Value, nodegroup)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, u := range all {
		if u.AddonName == aws.ToString(in.AddonName) && in.CapabilityName == nil {
			ids = append(ids, u.ID)
		}
	}
	page, next, err := wire.Page(ctx, ids, in.MaxResults, in.NextToken, itself)
	if err != nil {
		return nil, err
	}
	return &eks.ListUpdatesOutput{UpdateIds: page, NextToken: next}, nil
}

// CancelUpdate refuses: AWS cancels version rollbacks of EKS Auto Mode clusters only, and Coracle has neither.
func (s *Service) CancelUpdate(ctx context.Context, in *eks.CancelUpdateInput) (*eks.CancelUpdateOutput, error) {
	name := aws.ToString(in.Name)
	u, err := s.update(ctx, name, aws.ToString(in.UpdateId))
	if err != nil {
		return nil, err
	}
	if u.Status != types.UpdateStatusInProgress {
		return nil, invalidRequest(name, "Update %s can't be cancelled because its status is %s", u.ID, u.Status)
	}
	return nil, invalidRequest(name, "Update %s can't be cancelled: updates of type %s don't support cancellation", u.ID, u.Type)
}

func (s *Service) update(ctx context.Context, cluster, id string) (record.Update, error) {
	row, err := s.cluster(ctx, cluster)
	if err != nil {
		return record.Update{}, err
	}
	c := row.Value
	u, err := s.updates.Get(ctx, record.UpdateKey(c.Account, c.Region, c.Name, id))
	if errors.Is(err, store.ErrNotFound) || err == nil && u.Value.ClusterID != c.ID {
		return record.Update{}, updateNotFound(cluster, id)
	}
	return u.Value, err
}

func updateNotFound(cluster, id string) error {
	return notFound(cluster, "No update found for ID: %s", id)
}

// describeUpdate is an update as the API shows it.
func describeUpdate(u record.Update) *types.Update {
	out := &types.Update{
		Id:        new(u.ID),
		Status:    u.Status,
		Type:      u.Type,
		Params:    u.Params,
		CreatedAt: new(u.CreatedAt),
		Errors:    u.Errors,
	}
	if out.Params == nil {
		out.Params = []types.UpdateParam{}
	}
	if out.Errors == nil {
		out.Errors = []types.ErrorDetail{}
	}
	return out
}

func param(kind types.UpdateParamType, value string) types.UpdateParam {
	return types.UpdateParam{Type: kind, Value: &value}
}

// asJSON renders the value of an update's parameter.
func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("eks: render an update's parameter: %v", err)) // the values are made of strings and numbers
	}
	return string(raw)
}
