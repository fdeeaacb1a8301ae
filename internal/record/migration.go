package record

import (
	"context"
	"encoding/json"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/store"
)

// Migrations bring the store of an earlier daemon up to date. Whoever opens the store of a daemon needs them.
var Migrations = []store.Migration{
	{From: 1, Does: "mark volumes that have no disks", Run: markDiskless},
}

// markDiskless marks all volumes as having no disk: until version 1 of the store the only ones were those that
// instances had been launched with, and no volume had a disk.
func markDiskless(ctx context.Context, client *clientv3.Client, prefix string) error {
	all, err := client.Get(ctx, prefix+"volumes/", clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("read volumes: %w", err)
	}
	for _, kv := range all.Kvs {
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(kv.Value, &fields); err != nil {
			return fmt.Errorf("read volume %s: %w", kv.Key, err)
		}
		fields["Diskless"] = json.RawMessage("true")
		value, err := json.Marshal(fields)
		if err != nil {
			return fmt.Errorf("mark volume %s: %w", kv.Key, err)
		}
		if _, err := client.Put(ctx, string(kv.Key), string(value)); err != nil {
			return fmt.Errorf("mark volume %s: %w", kv.Key, err)
		}
	}
	return nil
}
