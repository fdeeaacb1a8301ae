package clusterinsight

import (
	"context"
	"errors"
	"time"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// openRefresh returns the refresh of the cluster's insights that was asked for, with no revision when there is none.
// One that comes too soon after another stays in progress: wait is how long.
func (c *Controller) openRefresh(
	ctx context.Context, cluster record.Cluster,
) (row store.Row[record.InsightsRefresh], wait time.Duration, err error) {
	row, err = c.refreshes.Copy(ctx, cluster.Key())
	if errors.Is(err, store.ErrNotFound) ||
		err == nil && (row.Value.ClusterID != cluster.ID || !row.Value.EndedAt.IsZero()) {
		return store.Row[record.InsightsRefresh]{}, 0, nil
	}
	if err != nil {
		return row, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Clock.Now()
	if wait = c.refreshed[cluster.Key()].Add(refreshPause).Sub(now); wait > 0 {
		return store.Row[record.InsightsRefresh]{}, min(wait, refreshPause), nil
	}
	c.refreshed[cluster.Key()] = now
	return row, 0, nil
}

// endRefresh records that the insights have been made by a pass that began after they were asked for, or why not.
func (c *Controller) endRefresh(ctx context.Context, refresh store.Row[record.InsightsRefresh], failure error) error {
	if refresh.Revision == 0 {
		return nil
	}
	refresh.Value.EndedAt = c.o.Clock.Now().UTC()
	if failure != nil {
		refresh.Value.Failure = client.Cut(failure.Error())
	}
	_, err := c.refreshes.Update(ctx, refresh)
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		return nil // another daemon has ended it, or the cluster is gone
	}
	return err
}
