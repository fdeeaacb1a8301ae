package nodegroup

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// change is a request to change a node group.
type change struct {
	group   exception.About
	token   *string
	request any // the SDK's input structure
	kind    types.UpdateType
	// apply changes what is wanted of the group and says so in the update's Params. n is a copy of its own, with the
	// template that counts now. It may run several times.
	apply func(n *record.Nodegroup, c record.Cluster, state record.NodegroupState, u *record.Update) error
}

// startUpdate records a change of a node group and its update object.
func (s *Service) startUpdate(ctx context.Context, ch change) (*types.Update, error) {
	g := ch.group
	return s.StartUpdate(ctx, func() (a resource.Attempt, err error) {
		row, c, err := s.Nodegroup(ctx, g.Cluster, g.Nodegroup)
		if err != nil {
			return a, err
		}
		n := &row.Value
		owner := resource.UpdateOwner{NodegroupID: n.ID}
		a, err = s.NewAttempt(ctx, c.Value, owner, ch.kind, ch.token, ch.request)
		if a.Before != nil || err != nil {
			return a, err
		}
		a.Update.NodegroupName = n.Name
		state, last, err := s.observe(ctx, *n)
		if err != nil {
			return a, err
		}
		switch now := status(*n, state, last); now {
		case types.NodegroupStatusActive, types.NodegroupStatusDegraded:
		case types.NodegroupStatusUpdating:
			return a, g.InUse(
				"Cannot %s because nodegroup %s currently has update %s in progress", ch.kind, g.Nodegroup, last.ID,
			)
		default:
			return a, g.InUse(
				"Cannot %s because nodegroup %s is in status %s: it must be ACTIVE or DEGRADED", ch.kind, g.Nodegroup, now,
			)
		}
		active, err := s.ActiveCluster(ctx, c.Value, g)
		if err != nil {
			return a, err
		}
		n.Template = n.Wanted(last)
		if err := ch.apply(n, active, state, &a.Update); err != nil {
			return a, err
		}
		n.LastUpdateID, n.ModifiedAt = a.Update.ID, a.Update.CreatedAt
		a.Ops = []store.Op{s.Nodegroups.UpdateOp(row)}
		return a, nil
	})
}

// updateHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) updateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.UpdateNodegroupConfig, func(
			ctx context.Context, action string, in *eks.UpdateNodegroupConfigInput,
		) ([]wire.Target, error) {
			return s.OnNodegroup(ctx, action, in.ClusterName, in.NodegroupName)
		}),
	}
}

// UpdateNodegroupConfig changes the size, labels, taints, update config, node auto repair or warm pool of a node group,
// and answers with the update object that follows the change.
func (s *Service) UpdateNodegroupConfig(
	ctx context.Context, in *eks.UpdateNodegroupConfigInput,
) (*eks.UpdateNodegroupConfigOutput, error) {
	g := exception.About{Cluster: aws.ToString(in.ClusterName), Nodegroup: aws.ToString(in.NodegroupName)}
	update, err := s.startUpdate(ctx, change{
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
				return g.InvalidParameter(
					"Nothing to update was provided: specify at least one of scalingConfig, labels, taints, " +
						"updateConfig, nodeRepairConfig and warmPoolConfig, with a change in it",
				)
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateNodegroupConfigOutput{Update: update}, nil
}
