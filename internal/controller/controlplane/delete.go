package controlplane

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// deletePlane takes away everything that belongs to a cluster, and the cluster's row last.
func (c *Controller) deletePlane(ctx context.Context, cluster record.Cluster) error {
	err := c.dismantle(ctx, cluster)
	if err == nil {
		return nil
	}
	// The row says why deletion does not get on, and the key is tried again.
	noted := c.observe(ctx, cluster, func(o *record.ControlPlane) { o.DeleteFailed = record.Reason(err.Error()) })
	if errors.Is(noted, store.ErrNotFound) {
		noted = nil
	}
	return errors.Join(err, noted)
}

func (c *Controller) dismantle(ctx context.Context, cluster record.Cluster) error {
	group := recovery.Group(ctx)
	for _, s := range c.o.Host.List(cluster.ID + "/") {
		group.Go(func(ctx context.Context) error { return c.o.Host.Stop(ctx, s.Name) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	crashStopped.Here()
	if c.o.Secrets != nil {
		if err := c.o.Secrets.Remove(ctx, cluster); err != nil {
			return err
		}
	}
	if c.o.Stopped != nil {
		if err := c.o.Stopped(ctx, cluster); err != nil {
			return err
		}
	}
	if err := c.removeEtcdUser(ctx, cluster.ID); err != nil {
		return err
	}
	crashExpelled.Here()
	if err := c.removeNetwork(ctx, cluster); err != nil {
		return err
	}
	crashDetached.Here()
	if err := errors.Join(c.removeSockets(ctx, cluster), os.RemoveAll(c.clusterDir(cluster.ID))); err != nil {
		return err
	}
	crashDirectory.Here()
	if err := c.deleteRecords(ctx, cluster); err != nil {
		return err
	}
	crashDeleted.Here()
	c.mu.Lock()
	delete(c.keyOf, cluster.ID)
	delete(c.encrypted, cluster.ID)
	c.mu.Unlock()
	c.log.Info("cluster is gone", "cluster", cluster.Name)
	return nil
}

// removeSockets removes those that API servers have left behind: one that is killed cannot.
func (c *Controller) removeSockets(ctx context.Context, cluster record.Cluster) error {
	seen, err := c.planes.Get(ctx, cluster.Key())
	if errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	for _, port := range []int{seen.Value.ServerPort, seen.Value.StandbyPort} {
		err := os.Remove(c.o.Endpoints.ServerSocket(port))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// deleteBatch is the number of records that are read and removed at a time.
const deleteBatch = 50

// deleteRecords removes all that the store knows of the cluster. What there is any number of goes first, a part at a
// time: nobody sees a cluster that is being deleted as whole. The rest goes at once.
func (c *Controller) deleteRecords(ctx context.Context, cluster record.Cluster) error {
	key := cluster.Key()
	below := store.Prefix(cluster.Account, cluster.Region, cluster.Name)
	if err := deleteBelow(ctx, c.o.Store, c.accessEntries, below); err != nil {
		return err
	}
	if err := deleteBelow(ctx, c.o.Store, c.updates, below); err != nil {
		return err
	}
	row, err := c.clusters.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.o.Store.Txn(ctx, c.planes.RemoveOp(key), c.secrets.RemoveOp(key), c.issuers.RemoveOp(store.Key(cluster.ID)),
		c.refreshes.RemoveOp(key), c.clusters.DeleteOp(row))
}

// deleteBelow removes the records of a table whose keys begin with prefix.
func deleteBelow[T any](ctx context.Context, s *store.Store, table store.Table[T], prefix string) error {
	for {
		rows, _, err := table.Page(ctx, prefix, "", deleteBatch)
		if err != nil || len(rows) == 0 {
			return err
		}
		ops := make([]store.Op, len(rows))
		for i, row := range rows {
			ops[i] = table.RemoveOp(row.Key)
		}
		if err := s.Txn(ctx, ops...); err != nil {
			return err
		}
	}
}
