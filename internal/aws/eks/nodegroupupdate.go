package eks

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// nodegroupChange is a request to change a node group.
type nodegroupChange struct {
	group   groupName
	token   *string
	request any // the SDK's input structure
	kind    types.UpdateType
	// apply changes what is wanted of the group and says so in the update's Params. n is a copy of its own, with the template that counts now.
	// It may run several times.
	apply func(n *record.Nodegroup, c record.Cluster, state record.NodegroupState, u *record.Update) error
}

// startNodegroupUpdate records a change of a node group and its update object, both or neither. A group has one update at a time: the
// transaction demands that its row is as it was when nothing was found in progress, and every update writes the row.
func (s *Service) startNodegroupUpdate(ctx context.Context, ch nodegroupChange) (*types.Update, error) {
	hash, g := wire.Fingerprint(ch.request), ch.group
	for {
		row, c, err := s.nodegroup(ctx, g.cluster, g.name)
		if err != nil {
			return nil, err
		}
		n := &row.Value
		if started, err := s.startedBefore(ctx, c.Value, n.ID, ch.token, hash); started != nil || err != nil {
			return started, err
		}
		state, last, err := s.observedGroup(ctx, *n)
		if err != nil {
			return nil, err
		}
		switch now := nodegroupStatus(*n, state, last); now {
		case types.NodegroupStatusActive, types.NodegroupStatusDegraded:
		case types.NodegroupStatusUpdating:
			return nil, g.inUse("Cannot %s because nodegroup %s currently has update %s in progress", ch.kind, g.name, last.ID)
		default:
			return nil, g.inUse("Cannot %s because nodegroup %s is in status %s: it must be ACTIVE or DEGRADED", ch.kind, g.name, now)
		}
		if err := s.mustBeActive(ctx, c.Value, g); err != nil {
			return nil, err
		}
		_, clusterUpdate, err := s.observed(ctx, c.Value)
		if err != nil {
			return nil, err
		}
		c.Value.Version = c.Value.WantedVersion(clusterUpdate)
		n.Template = n.Wanted(last)
		u := record.Update{
			ID: newUUID(), Cluster: n.Cluster, ClusterID: n.ClusterID, NodegroupName: n.Name, NodegroupID: n.ID,
			Type: ch.kind, Status: types.UpdateStatusInProgress, CreatedAt: s.timestamp(),
			ClientRequestToken: aws.ToString(ch.token), RequestHash: hash,
		}
		if err := ch.apply(n, c.Value, state, &u); err != nil {
			return nil, err
		}
		n.LastUpdateID, n.ModifiedAt = u.ID, u.CreatedAt
		err = s.store.Txn(ctx, s.nodegroups.UpdateOp(row), s.updates.CreateOp(record.UpdateKey(n.Account, n.Region, n.Cluster, u.ID), u))
		if lostRace(err) {
			continue // the group changed meanwhile: judge again
		} else if err != nil {
			return nil, err
		}
		return describeUpdate(u), nil
	}
}

// UpdateNodegroupConfig changes the size, labels, taints, update config, node auto repair or warm pool of a node group, and answers with the
// update object that follows the change.
func (s *Service) UpdateNodegroupConfig(ctx context.Context, in *eks.UpdateNodegroupConfigInput) (*eks.UpdateNodegroupConfigOutput, error) {
	g := groupName{aws.ToString(in.ClusterName), aws.ToString(in.NodegroupName)}
	update, err := s.startNodegroupUpdate(ctx, nodegroupChange{
		group: g, token: in.ClientRequestToken, request: in, kind: types.UpdateTypeConfigUpdate,
		apply: func(n *record.Nodegroup, _ record.Cluster, state record.NodegroupState, u *record.Update) (err error) {
			said := func(params []types.UpdateParam) { u.Params = append(u.Params, params...) }
			var params []types.UpdateParam
			scaling := scalingNow(*n, state)
			if in.ScalingConfig != nil {
				if scaling, params, err = changeScaling(g, scaling, in.ScalingConfig); err != nil {
					return err
				}
				if params != nil {
					n.Scaling = scaling
					n.ScalingChange++
				}
				said(params)
			}
			if n.Labels, params, err = changeLabels(g, n.Labels, in.Labels); err != nil {
				return err
			}
			said(params)
			if n.Taints, params, err = changeTaints(g, n.Taints, in.Taints); err != nil {
				return err
			}
			said(params)
			if n.UpdateConfig, params, err = changeUpdateConfig(g, n.UpdateConfig, in.UpdateConfig); err != nil {
				return err
			}
			said(params)
			if err := checkUnavailable(g, n.UpdateConfig, scaling); err != nil {
				return err
			}
			if n.Repair, params, err = changeRepair(g, n.Repair, in.NodeRepairConfig); err != nil {
				return err
			}
			said(params)
			if n.WarmPool, params, err = changeWarmPool(g, *n, n.WarmPool, in.WarmPoolConfig); err != nil {
				return err
			}
			said(params)
			if len(u.Params) == 0 {
				return g.invalidParameter("Nothing to update was provided: specify at least one of scalingConfig, labels, taints, updateConfig, nodeRepairConfig and warmPoolConfig, with a change in it")
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateNodegroupConfigOutput{Update: update}, nil
}

// nodegroupID is the ID of the node group whose updates a request is about; empty when it names none.
func (s *Service) nodegroupID(ctx context.Context, cluster, name *string) (string, error) {
	if aws.ToString(name) == "" {
		return "", nil
	}
	row, _, err := s.nodegroup(ctx, aws.ToString(cluster), *name)
	return row.Value.ID, err
}
