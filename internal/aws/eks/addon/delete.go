package addon

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

// deleteHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) deleteHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DeleteAddon, func(
			ctx context.Context, action string, in *eks.DeleteAddonInput,
		) ([]wire.Target, error) {
			return s.OnAddon(ctx, action, in.ClusterName, in.AddonName)
		}),
	}
}

// DeleteAddon marks an add-on for deletion; the add-on controller takes its objects away, or with preserve only EKS's
// ownership of them, and removes its row. Pod identity associations go with the add-on; with preserve they stay, and
// are nobody's from now on. An add-on that is on its way out already is described again, and when it can't leave it may
// be preserved after all.
func (s *Service) DeleteAddon(ctx context.Context, in *eks.DeleteAddonInput) (*eks.DeleteAddonOutput, error) {
	about := exception.About{Cluster: aws.ToString(in.ClusterName), Addon: aws.ToString(in.AddonName)}
	for {
		row, _, err := s.Addon(ctx, about)
		if err != nil {
			return nil, err
		}
		a := &row.Value
		state, last, err := s.observe(ctx, *a)
		if err != nil {
			return nil, err
		}
		now := status(*a, state, last)
		if now == types.AddonStatusUpdating || now == types.AddonStatusDeleting && a.Preserve != in.Preserve {
			return nil, about.InvalidRequest("Addon %s cannot be deleted as it is currently in %s state", a.Name, now)
		}
		if !a.Deleting || a.Preserve != in.Preserve {
			ops, err := s.release(ctx, *a, in.Preserve)
			if err != nil {
				return nil, err
			}
			a.Deleting, a.Preserve, a.ModifiedAt = true, in.Preserve, s.Timestamp()
			if a.Preserve {
				a.Wanted.PodIdentityAssociations = nil
			}
			if err := s.Store.Txn(ctx, append(ops, s.Addons.UpdateOp(row))...); resource.LostRace(err) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		out, err := s.describe(ctx, *a)
		if err != nil {
			return nil, err
		}
		return &eks.DeleteAddonOutput{Addon: out}, nil
	}
}

// release gives up the pod identity associations of an add-on that is to be deleted: to nobody, or to the controller
// that deletes them, if the caller may delete them.
func (s *Service) release(ctx context.Context, a record.Addon, preserve bool) ([]store.Op, error) {
	owned, err := s.associationsOf(ctx, a)
	if err != nil {
		return nil, err
	}
	var ops []store.Op
	for _, row := range owned {
		if preserve {
			row.Value.AddonID, row.Value.OwnerARN, row.Value.ModifiedAt = "", "", s.Timestamp()
			ops = append(ops, s.Associations.UpdateOp(row))
			continue
		}
		target := resource.OnAssociation("eks:DeletePodIdentityAssociation", row.Value)
		if err := wire.Authorize(ctx, target); err != nil {
			return nil, err
		}
	}
	return ops, nil
}
