package filesystem

import (
	"context"
	"testing"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// finisher stands in for EFS: it deletes the records of file systems that have no content.
type finisher struct{ s *store.Store }

func (f finisher) FinishFileSystem(ctx context.Context, key string) error {
	row, err := record.FileSystems(f.s).Get(ctx, key)
	if err != nil || row.Value.Deleted.IsZero() {
		return ignoreMissing(err)
	}
	if _, err := record.FileSystemContents(f.s).Get(ctx, key); err == nil {
		return nil
	}
	return record.FileSystems(f.s).Delete(ctx, row)
}

func (finisher) FinishMountTarget(context.Context, string) error { return nil }

// A mount target is available once the host listens for it, and says why when the host cannot.
func TestTheStateOfMountTargets(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	c := New(Options{Store: s, EFS: finisher{s}, Dir: datadir.Dir(t.TempDir()), Listeners: true})
	m := record.MountTarget{Account: "111122223333", Region: "eu-west-1", ID: "fsmt-1", NetworkInterfaceID: "eni-1"}
	put := func(table func(string) error) {
		t.Helper()
		if err := table(m.Key()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.reconcileMountTarget(t.Context(), m.Key()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, state string) {
		t.Helper()
		status, err := c.statuses.Get(t.Context(), m.Key())
		if err != nil {
			t.Fatal(err)
		}
		if got := string(m.State(status.Value)); got != state {
			t.Errorf("%s it is %s, want %s: %+v", when, got, state, status.Value)
		}
	}
	put(func(key string) error { return create(t, c.mountTargets, key, m) })
	want("without a network interface", "error")
	put(func(string) error {
		eni := record.NetworkInterface{EC2Resource: record.EC2Resource{Account: m.Account, Region: m.Region, ID: "eni-1"}}
		return create(t, c.interfaces, eni.Key(), eni)
	})
	want("before the host listens", "creating")
	put(func(key string) error {
		return create(t, c.listeners, key, record.MountTargetListener{MountTargetID: m.ID, Failure: "port 2049 is in use"})
	})
	want("when the host cannot listen", "error")
	put(func(key string) error {
		_, err := c.listeners.Put(t.Context(), key, record.MountTargetListener{MountTargetID: m.ID, Listening: true})
		return err
	})
	want("when the host listens", "available")
	row, err := c.mountTargets.Get(t.Context(), m.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.mountTargets.Delete(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if result, err := c.reconcileMountTarget(t.Context(), m.Key()); err != nil || !result.Gone {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := c.statuses.Get(t.Context(), m.Key()); err == nil {
		t.Error("its status is left")
	}
}

func create[T any](t *testing.T, table store.Table[T], key string, value T) error {
	t.Helper()
	_, err := table.Create(t.Context(), key, value)
	return err
}
