package fargate

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// deleteHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) deleteHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DeleteFargateProfile, func(
			ctx context.Context, action string, in *eks.DeleteFargateProfileInput,
		) ([]wire.Target, error) {
			return s.OnFargateProfile(ctx, action, in.ClusterName, in.FargateProfileName)
		}),
	}
}

// DeleteFargateProfile marks a Fargate profile for deletion; the Fargate controller deletes the pods that run with it,
// and removes its row. One profile of a cluster can be in the process of deletion at a time. A profile that is on its
// way out already is described again.
func (s *Service) DeleteFargateProfile(
	ctx context.Context, in *eks.DeleteFargateProfileInput,
) (*eks.DeleteFargateProfileOutput, error) {
	for {
		row, c, err := s.FargateProfile(ctx, aws.ToString(in.ClusterName), aws.ToString(in.FargateProfileName))
		if err != nil {
			return nil, err
		}
		if p := &row.Value; !p.Deleting {
			if err := s.deletable(ctx, c.Value, *p); err != nil {
				return nil, err
			}
			p.Deleting = true
			// The cluster's row is written, too: no other profile is created or deleted at this moment.
			err := s.Store.Txn(ctx, s.Clusters.UpdateOp(c), s.FargateProfiles.UpdateOp(row))
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
		return &eks.DeleteFargateProfileOutput{FargateProfile: out}, nil
	}
}

// deletable returns an error when a profile can't be deleted now.
func (s *Service) deletable(ctx context.Context, c record.Cluster, p record.FargateProfile) error {
	_, last, err := s.Observe(ctx, c)
	if err != nil {
		return err
	}
	if last.Status == types.UpdateStatusInProgress {
		return nameOf(p).InUse(
			"Cannot Delete Fargate Profile %s because cluster %s currently has an update in progress", p.Name, c.Name,
		)
	}
	profiles, err := s.FargateProfilesOf(ctx, c)
	if err != nil {
		return err
	}
	other, status, err := s.firstOf(ctx, profiles, func(status types.FargateProfileStatus) bool {
		return status == types.FargateProfileStatusDeleting
	})
	if err == nil && other != "" {
		return nameOf(p).InUse(
			"Cannot Delete Fargate Profile %s because cluster %s currently has Fargate profile %s in status %s",
			p.Name, c.Name, other, status,
		)
	}
	return err
}
