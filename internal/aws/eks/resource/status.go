package resource

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Observe returns what was last observed of a cluster's control plane (nothing, for a new cluster) and its newest
// update (nothing, for one that was never updated).
func (r *Records) Observe(
	ctx context.Context, c record.Cluster,
) (cp record.ControlPlane, last record.Update, err error) {
	cp, err = ObservedState(
		ctx, r.ControlPlanes, c.Key(), func(cp record.ControlPlane) bool { return cp.ClusterID == c.ID },
	)
	if err != nil {
		return cp, last, err
	}
	last, err = r.LastUpdate(ctx, c, c.LastUpdateID)
	return cp, last, err
}

// LastUpdate returns the update with an ID, the newest one of a cluster or of what it has; nothing without an ID. The
// updates of a cluster that is being deleted are removed before it.
func (r *Records) LastUpdate(ctx context.Context, c record.Cluster, id string) (record.Update, error) {
	if id == "" {
		return record.Update{}, nil
	}
	row, err := r.Updates.Get(ctx, record.UpdateKey(c.Account, c.Region, c.Name, id))
	if errors.Is(err, store.ErrNotFound) {
		return record.Update{}, nil
	}
	return row.Value, err
}

// ClusterStatus derives a cluster's status from what is wanted, what was observed, and the newest update.
func ClusterStatus(c record.Cluster, cp record.ControlPlane, last record.Update) types.ClusterStatus {
	switch {
	case c.Deleting && cp.DeleteFailed != "":
		return types.ClusterStatusFailed
	case c.Deleting:
		return types.ClusterStatusDeleting
	case cp.Ready && last.Status == types.UpdateStatusInProgress:
		return types.ClusterStatusUpdating
	case cp.Ready:
		return types.ClusterStatusActive
	case cp.Failed != "":
		return types.ClusterStatusFailed
	}
	return types.ClusterStatusCreating
}

// ActiveCluster returns a cluster with the Kubernetes version that it has now. It refuses one that is being created,
// updated or deleted: nothing is created in it.
func (r *Records) ActiveCluster(ctx context.Context, c record.Cluster, about exception.About) (record.Cluster, error) {
	cp, last, err := r.Observe(ctx, c)
	if err != nil {
		return c, err
	}
	if ClusterStatus(c, cp, last) != types.ClusterStatusActive {
		return c, about.InvalidRequest("Cluster '%s' is not in ACTIVE status", c.Name)
	}
	c.Version = c.WantedVersion(last)
	return c, nil
}
