package eks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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

// startUpdate records a change of a cluster and its update object.
func (s *Service) startUpdate(ctx context.Context, ch change) (*types.Update, error) {
	return s.start(ctx, func() (a attempt, err error) {
		row, err := s.clusters.Copy(ctx, placeOf(ctx).clusterKey(ch.cluster))
		if errors.Is(err, store.ErrNotFound) {
			return a, clusterNotFound(ch.cluster)
		} else if err != nil {
			return a, err
		}
		c := &row.Value
		if a, err = s.attempt(ctx, *c, owner{}, ch.kind, ch.token, ch.request); a.before != nil || err != nil {
			return a, err
		}
		cp, last, err := s.observed(ctx, *c)
		if err != nil {
			return a, err
		}
		if last.Status == types.UpdateStatusInProgress {
			return a, inUse(c.Name, "Cannot %s because cluster %s currently has update %s in progress", ch.kind, c.Name, last.ID)
		}
		if now := status(*c, cp, last); now != types.ClusterStatusActive {
			return a, inUse(c.Name, "Cannot %s because cluster %s is in status %s: it must be ACTIVE", ch.kind, c.Name, now)
		}
		c.Version = c.WantedVersion(last)
		if a.ops, err = ch.apply(c, cp, &a.update); err != nil {
			return a, err
		}
		c.LastUpdateID = a.update.ID
		a.ops = append(a.ops, s.clusters.UpdateOp(row))
		return a, nil
	})
}

// attempt is what one look at a request to change something says: the update that it starts, and what is written with it; or the update that
// this very request has started before.
type attempt struct {
	key    string // of the update
	update record.Update
	ops    []store.Op
	before *types.Update
}

// start records a change and its update object, both or neither. A cluster, a node group and an add-on have one update at a time: look demands, by
// the operations that it returns, that the row is as it was when nothing was found in progress, and every update writes the row. It may run
// several times.
func (s *Service) start(ctx context.Context, look func() (attempt, error)) (*types.Update, error) {
	for {
		a, err := look()
		if err != nil || a.before != nil {
			return a.before, err
		}
		err = s.store.Txn(ctx, append(a.ops, s.updates.CreateOp(a.key, a.update))...)
		if lostRace(err) {
			continue // something changed meanwhile: judge again
		} else if err != nil {
			return nil, err
		}
		return describeUpdate(a.update), nil
	}
}

// owner is what an update is of: the node group or the add-on with that ID, or with neither the cluster itself.
type owner struct{ nodegroup, addon string }

// attempt begins an update of a cluster, or of what it has; or finds the one that the request, the SDK's input structure, has started before.
func (s *Service) attempt(ctx context.Context, c record.Cluster, of owner, kind types.UpdateType, token *string, request any) (attempt, error) {
	u := record.Update{
		ID: newUUID(), Cluster: c.Name, ClusterID: c.ID, NodegroupID: of.nodegroup, AddonID: of.addon,
		Type: kind, Status: types.UpdateStatusInProgress, CreatedAt: s.timestamp(),
		ClientRequestToken: aws.ToString(token), RequestHash: wire.Fingerprint(request),
	}
	a := attempt{key: record.UpdateKey(c.Account, c.Region, c.Name, u.ID), update: u}
	if u.ClientRequestToken == "" {
		return a, nil
	}
	all, err := s.updatesOf(ctx, c, of)
	if err != nil {
		return a, err
	}
	for _, b := range all {
		if same, err := wire.Repeated(ctx, token, u.RequestHash, b.ClientRequestToken, b.RequestHash); err != nil {
			return a, err
		} else if same {
			a.before = describeUpdate(b)
		}
	}
	return a, nil
}

// updatesOf are the updates of a cluster, or of one of its node groups or add-ons.
func (s *Service) updatesOf(ctx context.Context, c record.Cluster, of owner) ([]record.Update, error) {
	all, err := valuesOf(ctx, s.updates, c, func(u record.Update) string { return u.ClusterID })
	return slices.DeleteFunc(all, func(u record.Update) bool { return (owner{u.NodegroupID, u.AddonID}) != of }), err
}

// ownerOf is what the updates are of that a request asks for.
func (s *Service) ownerOf(ctx context.Context, cluster, nodegroup, addon *string) (of owner, err error) {
	if aws.ToString(nodegroup) != "" {
		row, _, err := s.nodegroup(ctx, aws.ToString(cluster), *nodegroup)
		if err != nil {
			return of, err
		}
		of.nodegroup = row.Value.ID
	}
	if aws.ToString(addon) != "" {
		row, _, err := s.addon(ctx, subject{cluster: aws.ToString(cluster), addon: *addon})
		if err != nil {
			return of, err
		}
		of.addon = row.Value.ID
	}
	return of, nil
}

// updateHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) updateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeUpdate, func(
			ctx context.Context, action string, in *eks.DescribeUpdateInput,
		) ([]wire.Target, error) {
			return s.onUpdated(ctx, action, in.Name, in.NodegroupName, in.AddonName)
		}),
		wire.Handle(s.ListUpdates, func(
			ctx context.Context, action string, in *eks.ListUpdatesInput,
		) ([]wire.Target, error) {
			return s.onUpdated(ctx, action, in.Name, in.NodegroupName, in.AddonName)
		}),
		wire.Handle(s.CancelUpdate, func(
			ctx context.Context, action string, in *eks.CancelUpdateInput,
		) ([]wire.Target, error) {
			return s.onCluster(ctx, action, in.Name)
		}),
	}
}

// DescribeUpdate describes an update of a cluster, or of one of its node groups or add-ons.
func (s *Service) DescribeUpdate(ctx context.Context, in *eks.DescribeUpdateInput) (*eks.DescribeUpdateOutput, error) {
	of, err := s.ownerOf(ctx, in.Name, in.NodegroupName, in.AddonName)
	if err != nil {
		return nil, err
	}
	u, err := s.update(ctx, aws.ToString(in.Name), aws.ToString(in.UpdateId))
	if err != nil {
		return nil, err
	}
	if (owner{u.NodegroupID, u.AddonID}) != of || in.CapabilityName != nil {
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
	of, err := s.ownerOf(ctx, in.Name, in.NodegroupName, in.AddonName)
	if err != nil {
		return nil, err
	}
	all, err := s.updatesOf(ctx, row.Value, of)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, u := range all {
		if in.CapabilityName == nil {
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
