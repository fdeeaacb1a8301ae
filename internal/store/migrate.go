package store

import (
	"context"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Migration brings a store from schema version From to From+1. Run sees the raw keys below
// prefix and must be safe to repeat: a crash runs it again.
type Migration struct {
	From int
	Does string // for the log and errors: "split roles from policies"
	Run  func(ctx context.Context, client *clientv3.Client, prefix string) error
}

// Schema is the version that this program reads and writes.
const Schema = 1

// migrate upgrades the store to the version after the last migration, or marks a new store with it. It refuses a store
// that a newer program wrote.
func migrate(ctx context.Context, client *clientv3.Client, prefix string, migrations []Migration) error {
	key := prefix + "schema"
	want := Schema
	for _, m := range migrations {
		want = max(want, m.From+1)
	}
	resp, err := client.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("read the store's schema version: %w", err)
	}
	if len(resp.Kvs) == 0 {
		// Two daemons may get here at once: the first to write is right.
		_, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, strconv.Itoa(want))).Commit()
		if err != nil {
			return fmt.Errorf("write the store's schema version: %w", err)
		}
		return nil
	}
	have, err := strconv.Atoi(string(resp.Kvs[0].Value))
	if err != nil {
		return fmt.Errorf("the store's schema version %q is not a number: %w", resp.Kvs[0].Value, err)
	}
	if have > want {
		return fmt.Errorf(
			"the store has schema version %d, written by a newer coracle; this one knows up to %d: use the newer "+
				"program", have, want)
	}
	for _, m := range migrations {
		if m.From < have {
			continue
		}
		if err := m.Run(ctx, client, prefix+"t/"); err != nil {
			return fmt.Errorf("migrate the store from schema version %d (%s): %w", m.From, m.Does, err)
		}
		if _, err := client.Put(ctx, key, strconv.Itoa(m.From+1)); err != nil {
			return fmt.Errorf("write the store's schema version %d: %w", m.From+1, err)
		}
	}
	return nil
}
