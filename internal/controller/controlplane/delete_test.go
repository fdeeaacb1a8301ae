package controlplane

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// The access entries and updates of a deleted cluster are read and removed a part at a time: etcd takes no transaction
// of all of them, and no account is charged for what they hold.
func TestRecordsOfADeletedCluster(t *testing.T) {
	t.Parallel()
	const size = 4 << 10
	s := storetest.New(t)
	c := New(Options{Store: s})
	cluster := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "blue",
		ID: "0123456789ABCDEF0123456789ABCDEF", Deleting: true}
	other := cluster
	other.Name = "blue-2"
	if err := s.Txn(t.Context(), c.clusters.PutOp(cluster.Key(), cluster),
		c.accessEntries.PutOp(record.AccessEntryKey(other.Account, other.Region, other.Name, "p"), record.AccessEntry{}),
	); err != nil {
		t.Fatal(err)
	}
	for i := range 3*deleteBatch + 1 {
		e := record.AccessEntry{PrincipalARN: fmt.Sprintf("arn:aws:iam::111122223333:role/%d", i), ClusterID: cluster.ID,
			Username: strings.Repeat("x", size)}
		key := record.AccessEntryKey(cluster.Account, cluster.Region, cluster.Name, e.PrincipalARN)
		update := record.Update{ID: fmt.Sprint(i), Cluster: cluster.Name, ClusterID: cluster.ID}
		if err := s.Txn(t.Context(), c.accessEntries.PutOp(key, e),
			c.updates.PutOp(record.UpdateKey(cluster.Account, cluster.Region, cluster.Name, update.ID), update)); err != nil {
			t.Fatal(err)
		}
	}
	var most int64
	ctx := store.Metered(t.Context(), func(bytes int64) error { most = max(most, bytes); return nil })
	if err := c.deleteRecords(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	if most < size || most > 2*deleteBatch*size {
		t.Errorf("%d bytes were read at once", most)
	}
	if _, err := c.clusters.Get(t.Context(), cluster.Key()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the cluster: %v", err)
	}
	if entries, updates := c.accessEntries.Count(""), c.updates.Count(""); entries != 1 || updates != 0 {
		t.Errorf("%d access entries and %d updates are left, want one entry of another cluster", entries, updates)
	}
}
