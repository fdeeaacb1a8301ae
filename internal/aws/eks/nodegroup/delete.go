package nodegroup

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// deleteHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) deleteHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DeleteNodegroup, func(
			ctx context.Context, action string, in *eks.DeleteNodegroupInput,
		) ([]wire.Target, error) {
			return s.OnNodegroup(ctx, action, in.ClusterName, in.NodegroupName)
		}),
	}
}

// DeleteNodegroup marks a node group for deletion; the node-group controller drains its nodes, takes everything down
// that EKS made for it, and removes its row. A group that is on its way out already is described again.
func (s *Service) DeleteNodegroup(
	ctx context.Context, in *eks.DeleteNodegroupInput,
) (*eks.DeleteNodegroupOutput, error) {
	for {
		row, _, err := s.Nodegroup(ctx, aws.ToString(in.ClusterName), aws.ToString(in.NodegroupName))
		if err != nil {
			return nil, err
		}
		if n := &row.Value; !n.Deleting {
			_, last, err := s.observe(ctx, *n)
			if err != nil {
				return nil, err
			}
			if last.Status == types.UpdateStatusInProgress {
				return nil, nameOf(*n).InUse(
					"Cannot delete because nodegroup %s currently has update %s in progress", n.Name, last.ID,
				)
			}
			n.Deleting, n.ModifiedAt = true, s.Timestamp()
			row, err = s.Nodegroups.Update(ctx, row)
			if resource.LostRace(err) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		out, err := s.describe(ctx, row.Value)
		if err != nil {
			return nil, err
		}
		return &eks.DeleteNodegroupOutput{Nodegroup: out}, nil
	}
}
