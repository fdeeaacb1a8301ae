package controlplane

import (
	"context"
	"errors"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// openRefresh returns the refresh of the cluster's insights that is in progress, with no revision when there is none. A
// pass that begins after a refresh was asked for observes what insights are made of: the health of the cluster.
func (c *Controller) openRefresh(
	ctx context.Context, cluster record.Cluster,
) (store.Row[record.InsightsRefresh], error) {
	row, err := c.refreshes.Copy(ctx, cluster.Key())
	if errors.Is(err, store.ErrNotFound) ||
		err == nil && (row.Value.ClusterID != cluster.ID || !row.Value.EndedAt.IsZero()) {
		return store.Row[record.InsightsRefresh]{}, nil
	}
	return row, err
}

// endRefresh records that the insights have been refreshed. The pass has recorded its own failures as health issues,
// which are part of what insights tell.
func (c *Controller) endRefresh(ctx context.Context, refresh store.Row[record.InsightsRefresh]) error {
	if refresh.Revision == 0 {
		return nil
	}
	refresh.Value.EndedAt = c.clock.Now().UTC()
	_, err := c.refreshes.Update(ctx, refresh)
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		return nil // another daemon has ended it, or the cluster is gone
	}
	return err
}
