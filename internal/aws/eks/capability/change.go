package capability

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// changeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) changeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.UpdateCapability, func(
			ctx context.Context, action string, in *eks.UpdateCapabilityInput,
		) ([]wire.Target, error) {
			return s.OnCapability(ctx, action, in.ClusterName, in.CapabilityName)
		}),
		wire.Handle(s.DeleteCapability, func(
			ctx context.Context, action string, in *eks.DeleteCapabilityInput,
		) ([]wire.Target, error) {
			return s.OnCapability(ctx, action, in.ClusterName, in.CapabilityName)
		}),
	}
}

// UpdateCapability changes the role of a capability, and answers with the update object that follows the change. The
// types whose configuration can be changed do not run here: their capabilities are in CREATE_FAILED, in which none can
// be updated.
func (s *Service) UpdateCapability(
	ctx context.Context, in *eks.UpdateCapabilityInput,
) (*eks.UpdateCapabilityOutput, error) {
	about := exception.About{Cluster: aws.ToString(in.ClusterName)}
	update, err := s.StartUpdate(ctx, func() (at resource.Attempt, err error) {
		row, cluster, err := s.Capability(ctx, about.Cluster, aws.ToString(in.CapabilityName))
		if err != nil {
			return at, err
		}
		c := &row.Value
		owner := resource.UpdateOwner{CapabilityID: c.ID}
		at, err = s.NewAttempt(ctx, cluster.Value, owner, types.UpdateTypeCapabilityUpdate, in.ClientRequestToken, in)
		if at.Before != nil || err != nil {
			return at, err
		}
		at.Update.CapabilityName = c.Name
		if err := checkUpdate(about, *c, in); err != nil {
			return at, err
		}
		state, last, err := s.observe(ctx, *c)
		if err != nil {
			return at, err
		}
		switch now := record.CapabilityStatus(*c, state, last); now {
		case types.CapabilityStatusActive, types.CapabilityStatusDegraded:
		default:
			return at, about.InUse("Capability %s cannot be updated as it is currently in %s state", c.Name, now)
		}
		if _, err := s.ActiveCluster(ctx, cluster.Value, about); err != nil {
			return at, err
		}
		before := c.Now(last)
		c.Wanted = before
		if in.RoleArn != nil {
			c.Wanted.RoleARN = *in.RoleArn
			if at.Ops, err = s.grantAccess(ctx, cluster.Value, *c, c.Wanted.RoleARN); err != nil {
				return at, err
			}
			at.Update.Params = []types.UpdateParam{resource.UpdateParam(types.UpdateParamTypeRoleArn, *in.RoleArn)}
		}
		at.Update.PreviousCapability = &before
		c.Change++
		c.LastUpdateID, c.ModifiedAt = at.Update.ID, at.Update.CreatedAt
		// The cluster must not be deleted in between.
		at.Ops = append(at.Ops, s.Clusters.CheckOp(cluster), s.Capabilities.UpdateOp(row))
		return at, nil
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateCapabilityOutput{Update: update}, nil
}

// checkUpdate validates the members of a request to update a capability.
func checkUpdate(about exception.About, c record.Capability, in *eks.UpdateCapabilityInput) error {
	policy := in.DeletePropagationPolicy
	if policy != "" && policy != types.CapabilityDeletePropagationPolicyRetain {
		return about.InvalidParameter("deletePropagationPolicy %s is invalid: the only supported value is RETAIN", policy)
	}
	if in.RoleArn == nil && in.Configuration == nil && policy == "" {
		return about.InvalidParameter("No changes needed for the capability")
	}
	if in.Configuration == nil {
		return nil
	}
	return checkSections(about, c.Type, in.Configuration.Ack != nil, in.Configuration.ArgoCd != nil)
}

// DeleteCapability marks a capability for deletion; the capability controller ends its program and removes its record.
// What the capability made in the cluster stays, as does the access entry of its role. One that is being deleted is
// described again.
func (s *Service) DeleteCapability(
	ctx context.Context, in *eks.DeleteCapabilityInput,
) (*eks.DeleteCapabilityOutput, error) {
	for {
		row, _, err := s.Capability(ctx, aws.ToString(in.ClusterName), aws.ToString(in.CapabilityName))
		if err != nil {
			return nil, err
		}
		if c := &row.Value; !c.Deleting {
			state, last, err := s.observe(ctx, *c)
			if err != nil {
				return nil, err
			}
			if now := record.CapabilityStatus(*c, state, last); now == types.CapabilityStatusUpdating {
				return nil, exception.About{Cluster: c.Cluster}.InUse(
					"Cannot delete because capability %s currently has update %s in progress", c.Name, last.ID,
				)
			}
			c.Deleting, c.ModifiedAt = true, s.Timestamp()
			if row, err = s.Capabilities.Update(ctx, row); resource.LostRace(err) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		out, err := s.describe(ctx, row.Value)
		if err != nil {
			return nil, err
		}
		return &eks.DeleteCapabilityOutput{Capability: out}, nil
	}
}
