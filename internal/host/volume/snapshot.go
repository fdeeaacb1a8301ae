//go:build linux

package volume

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
)

func (c *Controller) reconcileSnapshot(ctx context.Context, key string) (reconcile.Result, error) {
	s, found, err := get(ctx, c.snapshots, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !found || !s.Deleted.IsZero() {
		return c.discardSnapshot(ctx, key)
	}
	d, _, err := get(ctx, c.snapshotDisks, key)
	if err != nil || d.Complete || d.Failure != "" {
		return reconcile.Result{}, err
	}
	d.SnapshotID = s.ID
	if _, err := os.Stat(c.file(s.ID)); errors.Is(err, fs.ErrNotExist) {
		wait, err := c.take(ctx, key, s, d)
		var known *failure
		switch err = whyNotMade(err); {
		case errors.As(err, &known):
		case errors.Is(err, errAbandoned):
			return reconcile.Result{After: time.Second}, nil
		case err != nil || wait > 0:
			return reconcile.Result{After: wait}, err
		}
		if known != nil {
			c.log.Error("a snapshot could not be made", "snapshot", s.ID, "error", errors.Join(known, known.cause))
			d.Failure = known.text
			return reconcile.Result{}, errors.Join(c.remove(s.ID), putIfChanged(ctx, c.snapshotDisks, key, d))
		}
	} else if err != nil {
		return reconcile.Result{}, err
	}
	crashCopied.Here()
	info, err := os.Stat(c.file(s.ID))
	if err != nil {
		return reconcile.Result{}, err
	}
	d.Complete, d.Progress, d.UsedBytes = true, 100, info.Sys().(*syscall.Stat_t).Blocks*512
	return reconcile.Result{}, putIfChanged(ctx, c.snapshotDisks, key, d)
}

// take makes the content of a snapshot. It returns when to try again as long as there is nothing to make it from.
func (c *Controller) take(ctx context.Context, key string, s record.Snapshot, d record.SnapshotDisk) (
	wait time.Duration, err error) {
	from := s.VolumeID
	if s.Source != nil {
		from = s.Source.SnapshotID
		source, _, err := get(ctx, c.snapshotDisks,
			record.EC2Key(s.Source.Account, s.Source.Region, s.Source.SnapshotID))
		if err != nil {
			return 0, err
		}
		if source.Failure != "" {
			return 0, fail(nil, "the snapshot %s has no content: %s", from, source.Failure)
		}
	} else if v, found, err := get(ctx, c.volumes, record.EC2Key(s.Account, s.Region, from)); err != nil {
		return 0, err
	} else if found && v.Diskless {
		return 0, fail(nil, "%s has no disk, of which a snapshot could be made", from)
	}
	source, err := os.Open(c.file(from))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Second, c.checkSource(ctx, s, from)
	}
	if err != nil {
		return 0, err
	}
	defer source.Close()
	if err := c.checkCopy("the snapshot", source); err != nil {
		return 0, err
	}
	info, err := source.Stat()
	if err != nil {
		return 0, err
	}
	size := cmp.Or(int64(s.VolumeSize)<<30, info.Size())
	if info.Size() > size {
		return 0, fail(nil, "%s has become larger than the snapshot", from)
	}
	abandoned := func() bool {
		now, found, err := get(ctx, c.snapshots, key)
		return err == nil && (!found || !now.Deleted.IsZero())
	}
	wrote := time.Now()
	progress := func(percent int32) {
		if percent <= d.Progress || time.Since(wrote) < time.Second {
			return
		}
		wrote, d.Progress = time.Now(), percent
		if err := putIfChanged(ctx, c.snapshotDisks, key, d); err != nil {
			c.log.Debug("the progress of a snapshot is not written", "snapshot", s.ID, "error", err)
		}
	}
	t := c.transfer(abandoned, progress)
	return 0, c.create(ctx, s.ID, size, func(f *os.File) error {
		if s.Source != nil {
			return t.content(ctx, f, source)
		}
		return c.capture(ctx, f, source, from, t)
	})
}

// checkSource returns a failure when what a snapshot is made from is not there, and never will be.
func (c *Controller) checkSource(ctx context.Context, s record.Snapshot, from string) error {
	if s.Source != nil {
		_, found, err := get(ctx, c.snapshots, record.EC2Key(s.Source.Account, s.Source.Region, from))
		if err != nil || found {
			return err
		}
		return fail(nil, "the snapshot %s is no longer there", from)
	}
	key := record.EC2Key(s.Account, s.Region, from)
	_, found, err := get(ctx, c.volumes, key)
	if err != nil {
		return err
	}
	d, _, err := get(ctx, c.disks, key)
	if err != nil {
		return err
	}
	if !found || d.Size > 0 {
		return fail(nil, "the content of the volume %s is no longer there", from)
	}
	return nil
}

// clones reports whether the file system of the data directory shares blocks between files.
func (c *Controller) clones() bool {
	dir, err := os.MkdirTemp(c.o.Dir, ".clone-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	const flags = os.O_CREATE | os.O_RDWR
	a, err := os.OpenFile(filepath.Join(dir, "a"), flags, 0o600)
	if err != nil {
		return false
	}
	defer a.Close()
	b, err := os.OpenFile(filepath.Join(dir, "b"), flags, 0o600)
	if err != nil {
		return false
	}
	defer b.Close()
	return unix.IoctlFileClone(int(b.Fd()), int(a.Fd())) == nil
}

// discardSnapshot removes the content of a snapshot that is deleted, as soon as nothing is to be made from it.
func (c *Controller) discardSnapshot(ctx context.Context, key string) (reconcile.Result, error) {
	if left, known, err := c.isOrphan(ctx, key); err != nil || left && known {
		return reconcile.Result{Gone: err == nil}, err
	}
	id := idOf(key)
	needed, err := c.snapshotNeeded(ctx, id)
	if err != nil {
		return reconcile.Result{}, err
	}
	if needed {
		return reconcile.Result{After: time.Second}, nil
	}
	released, ok := c.kept.tryRemoval(id)
	if !ok { // a backup reads it
		return reconcile.Result{After: time.Second}, nil
	}
	defer released()
	if err := c.remove(id); err != nil {
		return reconcile.Result{}, err
	}
	crashDiscarded.Here()
	return reconcile.Result{Gone: true}, c.o.Store.Txn(ctx, c.snapshotDisks.RemoveOp(key))
}

// snapshotNeeded reports whether something is still to be made from the content of a deleted snapshot, in any account.
func (c *Controller) snapshotNeeded(ctx context.Context, id string) (bool, error) {
	if _, err := os.Stat(c.file(id)); errors.Is(err, fs.ErrNotExist) {
		return false, nil // nothing can be made from it
	}
	copies, err := c.snapshotsByContent.List(ctx, id)
	if err != nil {
		return false, err
	}
	for _, s := range copies {
		if !s.Value.Deleted.IsZero() {
			continue
		}
		if d, _, err := get(ctx, c.snapshotDisks, s.Key); err != nil || !d.Complete && d.Failure == "" {
			return true, err
		}
	}
	return c.beginsWith(ctx, "", id, func(_ record.Volume, failure string) bool { return failure == "" })
}
