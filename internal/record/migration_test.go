package record_test

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestMarkDiskless opens a store of version 1 with the volume of an instance.
func TestMarkDiskless(t *testing.T) {
	t.Parallel()
	ctx, client, prefix := t.Context(), storetest.Client(t), storetest.Prefix(t)
	open := func(migrations []store.Migration) *store.Store {
		s, err := store.Open(ctx, client, store.Options{Prefix: prefix, Migrations: migrations})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	v := record.Volume{EC2Resource: record.EC2Resource{Account: "1", Region: "r", ID: "vol-1"}, Size: 20,
		InstanceID: "i-1"}
	if _, err := record.Volumes(open(nil)).Create(ctx, v.Key(), v); err != nil {
		t.Fatal(err)
	}
	row, err := record.Volumes(open(record.Migrations)).Get(ctx, v.Key())
	if err != nil || !row.Value.Diskless || row.Value.Size != 20 || row.Value.InstanceID != "i-1" {
		t.Fatalf("migrated: %+v, %v", row.Value, err)
	}
	v.ID = "vol-2" // which has a disk
	if _, err := record.Volumes(open(record.Migrations)).Create(ctx, v.Key(), v); err != nil {
		t.Fatal(err)
	}
	if row, err := record.Volumes(open(record.Migrations)).Get(ctx, v.Key()); err != nil || row.Value.Diskless {
		t.Errorf("marked again: %+v, %v", row.Value, err)
	}
}
