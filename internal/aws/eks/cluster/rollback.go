package cluster

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/kubernetes"
)

const (
	// rollbackWindow is the time after an upgrade for which the cluster can return to the version before.
	rollbackWindow = 7 * 24 * time.Hour
	// leastTimeout and mostTimeout bound rollbackConfig.timeoutMinutes, which is about the nodes of EKS Auto Mode.
	leastTimeout, mostTimeout = 120, 10080
)

// checkRollbackConfig validates the rollback configuration of a request.
func checkRollbackConfig(cluster string, in *types.RollbackConfig) error {
	if in == nil || in.TimeoutMinutes == nil {
		return nil
	}
	if n := *in.TimeoutMinutes; n < leastTimeout || n > mostTimeout {
		return exception.InvalidParameter(
			cluster, "rollbackConfig.timeoutMinutes %d is invalid: it must be between %d and %d", n, leastTimeout,
			mostTimeout,
		)
	}
	return nil
}

// rollBack returns a control plane to the minor version before its last upgrade. What is in etcd stays, as do node
// groups and add-ons: newer nodes have to be rolled back first.
// https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html
func (s *Service) rollBack(
	ctx context.Context, in *eks.UpdateClusterVersionInput, to kubernetes.Version,
) (*eks.UpdateClusterVersionOutput, error) {
	update, err := s.startUpdate(ctx, change{
		cluster: aws.ToString(in.Name), token: in.ClientRequestToken, request: in,
		kind: types.UpdateTypeVersionRollback,
		apply: func(c *record.Cluster, _ record.ControlPlane, u *record.Update) ([]store.Op, error) {
			if kubernetes.MinorNumber(to.Minor) != kubernetes.MinorNumber(c.Version)-1 {
				return nil, unsupportedUpdate(c, to)
			}
			if err := s.checkSupport(c, to); err != nil {
				return nil, err
			}
			upgraded, err := s.upgradedAt(ctx, *c)
			if err != nil {
				return nil, err
			}
			if upgraded.IsZero() {
				return nil, unsupportedUpdate(c, to)
			}
			if s.Now().Sub(upgraded) > rollbackWindow {
				return nil, exception.InvalidRequest(c.Name, "Cluster %s can't be rolled back to version %s because it was "+
					"upgraded more than 7 days ago", c.Name, to.Minor)
			}
			if names, err := s.nodegroups.TooNewFor(ctx, to.Minor, *c); err != nil {
				return nil, err
			} else if names != "" && !in.Force {
				return nil, &types.InvalidStateException{ClusterName: &c.Name, Message: new(
					"Nodegroups " + names + " have a newer version than " + to.Minor + ". Roll them back, or set force to " +
						"override rollback-blocking readiness checks.")}
			}
			u.PreviousVersion = c.Version
			u.Params = []types.UpdateParam{
				resource.UpdateParam(types.UpdateParamTypeVersion, to.Minor),
				resource.UpdateParam(types.UpdateParamTypePlatformVersion, to.PlatformVersion),
			}
			c.Version = to.Minor
			return nil, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateClusterVersionOutput{Update: update}, nil
}

// upgradedAt returns when a cluster was upgraded to the version that it has; zero when it was created with it, or has
// been rolled back to it.
func (s *Service) upgradedAt(ctx context.Context, c record.Cluster) (at time.Time, err error) {
	all, err := s.UpdatesOf(ctx, c, resource.UpdateOwner{})
	for _, u := range all {
		if u.ChangesVersion() && u.Status == types.UpdateStatusSuccessful && u.CreatedAt.After(at) {
			at = u.CreatedAt
		}
	}
	for _, u := range all { // the newest change must be an upgrade
		if u.CreatedAt.Equal(at) && u.Type == types.UpdateTypeVersionRollback {
			return time.Time{}, err
		}
	}
	return at, err
}
