package cluster

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// deleteHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) deleteHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DeleteCluster, func(
			ctx context.Context, action string, in *eks.DeleteClusterInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.Name)
		}),
	}
}

// DeleteCluster marks a cluster for deletion; the control-plane controller takes it down and removes its rows. A
// cluster that is on its way out already is described again. Unlike AWS, one that is still being created can be
// deleted: what is slow to start here (a bundle that has to be built first) must not be in the way.
func (s *Service) DeleteCluster(ctx context.Context, in *eks.DeleteClusterInput) (*eks.DeleteClusterOutput, error) {
	name := aws.ToString(in.Name)
	for {
		row, err := s.Cluster(ctx, name)
		if err != nil {
			return nil, err
		}
		if !row.Value.Deleting {
			if err := s.deletable(ctx, row.Value); err != nil {
				return nil, err
			}
			row.Value.Deleting = true
			row, err = s.Clusters.Update(ctx, row)
			if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		out, err := s.describe(ctx, row.Value)
		if err != nil {
			return nil, err
		}
		return &eks.DeleteClusterOutput{Cluster: out}, nil
	}
}

// deletable returns an error when a cluster can't be deleted now. Protection is for clusters that have been active.
// https://docs.aws.amazon.com/eks/latest/userguide/deletion-protection.html
func (s *Service) deletable(ctx context.Context, c record.Cluster) error {
	cp, last, err := s.Observe(ctx, c)
	if err != nil {
		return err
	}
	if c.DeletionProtection && cp.Ready {
		return exception.InvalidRequest(
			c.Name,
			"Cluster %s can't be deleted because deletion protection is enabled. Disable deletion protection with "+
				"UpdateClusterConfig, then try again.",
			c.Name,
		)
	}
	if last.Status == types.UpdateStatusInProgress {
		return exception.InUse(c.Name, "Cannot delete because cluster %s currently has an update in progress", c.Name)
	}
	if groups, err := s.NodegroupsOf(ctx, c); err != nil {
		return err
	} else if len(groups) > 0 {
		return exception.InUse(c.Name, "Cluster has nodegroups attached")
	}
	if profiles, err := s.FargateProfilesOf(ctx, c); err != nil {
		return err
	} else if len(profiles) > 0 {
		return exception.InUse(c.Name, "Cluster has fargate profiles attached")
	}
	if capabilities, err := s.CapabilitiesOf(ctx, c); err != nil {
		return err
	} else if len(capabilities) > 0 {
		return exception.InUse(c.Name, "Cluster has capabilities attached")
	}
	return nil
}
