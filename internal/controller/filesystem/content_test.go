package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// newController returns a controller that is not run, with a file system that is ready.
func newController(t *testing.T) (*Controller, record.FileSystem) {
	t.Helper()
	s := storetest.New(t)
	c := New(Options{Store: s, EFS: finisher{s}, Dir: datadir.Dir(t.TempDir())})
	f := record.FileSystem{Account: "111122223333", Region: "eu-west-1", ID: "fs-0123456789abcdef0"}
	if err := create(t, c.fileSystems, f.Key(), f); err != nil {
		t.Fatal(err)
	}
	if _, err := c.reconcileFileSystem(t.Context(), f.Key()); err != nil {
		t.Fatal(err)
	}
	return c, f
}

func (c *Controller) fill(t *testing.T, f record.FileSystem, name string, size int) {
	t.Helper()
	dir := filepath.Join(c.o.Dir.FileSystemRoot(f.ID), "a", "b")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file system that is written to all the time is not measured all the time.
func TestSizesAreMeasuredOnceAMinute(t *testing.T) {
	t.Parallel()
	c, f := newController(t)
	c.fill(t, f, "one", 1<<20)
	measureNow := func() record.FileSystemContent {
		t.Helper()
		result, err := c.reconcileSize(t.Context(), f.Key())
		if err != nil || result.After <= 0 {
			t.Fatalf("%+v, %v", result, err)
		}
		row, err := c.contents.Get(t.Context(), f.Key())
		if err != nil {
			t.Fatal(err)
		}
		return row.Value
	}
	first := measureNow()
	if first.Size < 1<<20 || first.MeasuredAt.IsZero() {
		t.Errorf("measured %+v", first)
	}
	if err := os.Link(filepath.Join(c.o.Dir.FileSystemRoot(f.ID), "a", "b", "one"),
		filepath.Join(c.o.Dir.FileSystemRoot(f.ID), "again")); err != nil {
		t.Fatal(err)
	}
	c.fill(t, f, "two", 1<<20)
	if again := measureNow(); again != first {
		t.Errorf("within a minute: %+v, was %+v", again, first)
	}
	c.measured[f.Key()] = measurement{at: time.Now().Add(-measureAgain)}
	if later := measureNow(); later.Size < 2<<20 || later.Size >= 3<<20 { // one file has two names
		t.Errorf("after a minute: %+v", later)
	}
}

// Nothing is made on a disk that is nearly full. What is there is used, and what was not made is, once there is space.
func TestNothingIsMadeOnAFullDisk(t *testing.T) {
	t.Parallel()
	c, there := newController(t)
	full, free := true, 7
	c.o.CheckSpace = func(string) error {
		if !full {
			return nil
		}
		free++
		return fmt.Errorf("%w: %d MiB are free", diskspace.ErrFull, free)
	}
	f := record.FileSystem{Account: there.Account, Region: there.Region, ID: "fs-1"}
	if err := create(t, c.fileSystems, f.Key(), f); err != nil {
		t.Fatal(err)
	}
	row := func(f record.FileSystem) store.Row[record.FileSystemContent] {
		t.Helper()
		row, err := c.contents.Get(t.Context(), f.Key())
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	content := func(f record.FileSystem) record.FileSystemContent { return row(f).Value }
	pass := func() {
		t.Helper()
		if _, err := c.reconcileFileSystem(t.Context(), f.Key()); !errors.Is(err, diskspace.ErrFull) {
			t.Errorf("on a full disk: %v", err)
		}
	}
	pass()
	first := row(f)
	if got := first.Value; got.Ready || !strings.Contains(got.Failure, "free some space") {
		t.Errorf("on a full disk it is %+v", got)
	}
	pass()
	if again := row(f); again.Revision != first.Revision { // a write would be the reason for the next pass
		t.Errorf("with other free space it is written again: %+v, was %+v", again.Value, first.Value)
	}
	if isDirectory(c.o.Dir.FileSystemRoot(f.ID)) {
		t.Error("its directory was made")
	}
	if _, err := c.reconcileFileSystem(t.Context(), there.Key()); err != nil || !content(there).Ready {
		t.Errorf("one that is there: %+v, %v", content(there), err)
	}
	full = false
	if _, err := c.reconcileFileSystem(t.Context(), f.Key()); err != nil {
		t.Error(err)
	}
	if got := content(f); !got.Ready || got.Failure != "" || !isDirectory(c.o.Dir.FileSystemRoot(f.ID)) {
		t.Errorf("with space it is %+v", got)
	}
}

// A removal that does not end in time goes on later, from where it was; and nobody finds the files meanwhile.
func TestARemovalGoesOnLater(t *testing.T) {
	t.Parallel()
	c, f := newController(t)
	c.fill(t, f, "file", 1)
	open, err := os.Open(filepath.Join(c.o.Dir.FileSystemRoot(f.ID), "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := c.fileSystems.Modify(t.Context(), f.Key(), func(f *record.FileSystem) error {
		f.Deleted = time.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.removeContent(over, f.Key()); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if isDirectory(c.o.Dir.FileSystemRoot(f.ID)) {
		t.Error("the files are still found")
	}
	if result, err := c.reconcileRemoval(t.Context(), f.Key()); err != nil || !result.Gone {
		t.Errorf("%+v, %v", result, err)
	}
	if left, _ := os.ReadDir(c.o.Dir.FileSystemsDir()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := c.fileSystems.Get(t.Context(), f.Key()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the record: %v", err)
	}
	if os.Geteuid() == 0 { // who still has a directory open can make nothing in it
		info, err := open.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0 {
			t.Errorf("a directory that was open has mode %s", info.Mode())
		}
	}
}
