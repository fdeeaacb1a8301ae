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

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/host/filetree"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
)

// make makes the disk of a volume. It reports false as long as its content is not there.
func (c *Controller) make(ctx context.Context, key string, v record.Volume, d *record.VolumeDisk) (
	made bool, err error) {
	info, err := os.Stat(c.file(v.ID))
	if err == nil {
		d.Size = int32(info.Size() >> 30)
		return true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if d.Size > 0 && !c.isFresh(v) {
		return false, fail(nil, "the content of the volume is not on this host: a backup of the daemon's state does "+
			"not have it")
	}
	if v.ContentID() != "" {
		if failed, ok := c.failures.Load(key); ok {
			if known := failed.(*attempt).failure; known != nil {
				return false, known
			}
		}
		return false, nil // fill makes it
	}
	if err := c.checkLeast("another volume", 0, c.reservedSpace(v)); err != nil {
		return false, err
	}
	if err := c.create(ctx, v.ID, int64(v.Size)<<30, func(*os.File) error { return nil }); err != nil {
		return false, whyNotMade(err)
	}
	d.Size = v.Size
	return true, nil
}

// fill makes the disk of a volume that begins with the content of something.
func (c *Controller) fill(ctx context.Context, key string) (reconcile.Result, error) {
	defer c.contents.lock(idOf(key))()
	v, found, err := get(ctx, c.volumes, key)
	if err != nil || !found || v.Diskless || !v.Deleted.IsZero() || v.ContentID() == "" {
		return reconcile.Result{Gone: err == nil && !found}, err
	}
	d, _, err := get(ctx, c.disks, key)
	if err != nil || d.Size > 0 || d.Final {
		return reconcile.Result{}, err
	}
	var last attempt
	if failed, ok := c.failures.Load(key); ok {
		last = *failed.(*attempt)
	}
	if last.failure != nil && last.failure.final {
		return reconcile.Result{}, nil
	}
	if wait := time.Until(last.next); wait > 0 {
		return reconcile.Result{After: wait}, nil
	}
	if _, err := os.Stat(c.file(v.ID)); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return reconcile.Result{}, err
	}
	wait, err := c.copyTo(ctx, key, v)
	var known *failure
	switch {
	case errors.As(err, &known):
		wait, err = c.failed(key, last, known), nil
	case err != nil:
		if ctx.Err() == nil {
			c.failed(key, last, last.failure)
		}
		return reconcile.Result{}, err
	case wait > 0:
		return reconcile.Result{After: wait}, nil
	default:
		c.failures.Delete(key)
	}
	select {
	case c.filled <- key:
	case <-ctx.Done():
	}
	return reconcile.Result{After: wait}, err
}

// attempt is the last one at making content, which has failed.
type attempt struct {
	failure *failure      // nil when its owner is told nothing
	pause   time.Duration // until the next one
	next    time.Time
}

// retryContentAtMost bounds the pause between attempts at content: each may copy and compare the whole.
const retryContentAtMost = time.Hour

// failed notes that an attempt has failed, and returns when the next one is to be made; 0 when none is.
func (c *Controller) failed(key string, last attempt, known *failure) (wait time.Duration) {
	a := attempt{failure: known, pause: min(max(retryFailed, 2*last.pause), retryContentAtMost)}
	a.next = time.Now().Add(a.pause)
	if known != nil && !known.passes {
		told := *known
		told.final = true
		a = attempt{failure: &told}
	}
	c.failures.Store(key, &a)
	return a.pause
}

// copyTo makes the disk of a volume from its source, and returns when to try again as long as that is not there.
func (c *Controller) copyTo(ctx context.Context, key string, v record.Volume) (wait time.Duration, err error) {
	from := v.ContentID()
	source, err := os.Open(c.file(from))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Second, c.checkOrigin(ctx, v)
	}
	if err != nil {
		return 0, err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() > int64(v.Size)<<30 {
		return 0, fail(nil, "%s has become larger than the volume", from)
	}
	if err := c.checkCopy("the content of the volume", source); err != nil {
		return 0, err
	}
	t := c.transfer(func() bool {
		now, found, err := get(ctx, c.volumes, key)
		return err == nil && (!found || !now.Deleted.IsZero())
	}, nil)
	err = c.create(ctx, v.ID, int64(v.Size)<<30, func(f *os.File) error {
		if v.SnapshotID != "" {
			return t.content(ctx, f, source)
		}
		return c.capture(ctx, f, source, from, t)
	})
	if errors.Is(err, errAbandoned) {
		return time.Second, nil
	}
	return 0, whyNotMade(err)
}

// checkOrigin returns a failure when what a volume begins with is not there, and never will be.
func (c *Controller) checkOrigin(ctx context.Context, v record.Volume) error {
	from := v.ContentID()
	ended, why := true, "it is no longer there"
	if v.SnapshotID == "" {
		key := record.EC2Key(v.Account, v.Region, from)
		_, found, err := get(ctx, c.volumes, key)
		if err != nil {
			return err
		}
		d, _, err := get(ctx, c.disks, key)
		if err != nil {
			return err
		}
		ended = !found || d.Size > 0
	} else {
		snapshots, err := c.snapshots.List(ctx, "") // of any account
		if err != nil {
			return err
		}
		for _, s := range snapshots {
			if s.Value.ID != from || s.Value.Region != v.Region {
				continue
			}
			d, _, err := get(ctx, c.snapshotDisks, s.Key)
			if err != nil {
				return err
			}
			ended = d.Complete || d.Failure != ""
			why = cmp.Or(d.Failure, why)
		}
	}
	if !ended {
		return nil
	}
	if _, err := os.Stat(c.file(from)); !errors.Is(err, fs.ErrNotExist) {
		return err // it is there by now
	}
	return fail(nil, "there is no content of %s: %s", from, why)
}

// errAbandoned is the error of what is no longer wanted while it is made.
var errAbandoned = errors.New("it was deleted meanwhile")

// whyNotMade returns what the owner of a volume or snapshot is told about an error that does not go away by itself.
func whyNotMade(err error) error {
	var of *fs.PathError
	switch {
	case errors.Is(err, unix.ENOSPC):
		return &failure{text: "the host has too little free disk space for the content", cause: err, passes: true}
	case errors.As(err, &of) && of.Op == "truncate" && (errors.Is(err, unix.EFBIG) || errors.Is(err, unix.EINVAL)):
		return fail(err, "the file system of the host has no files of that size")
	case errors.Is(err, unix.EIO):
		return fail(err, "the disk of the host does not read or write the content")
	}
	return err
}

// checkCopy refuses the copy of a file for which there is no disk space. A clone takes none.
func (c *Controller) checkCopy(what string, source *os.File) error {
	info, err := source.Stat()
	if err != nil {
		return err
	}
	err = c.checkSpace(what, info.Sys().(*syscall.Stat_t).Blocks*512)
	if err != nil && c.checkSpace(what, 0) == nil && c.clones() {
		return nil
	}
	return err
}

// create makes the file of a volume or snapshot at once: it has its name when its content is complete and durable.
func (c *Controller) create(ctx context.Context, id string, size int64, fill func(*os.File) error) error {
	dir := filepath.Join(c.o.Dir, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	part := filepath.Join(dir, diskFile+".part") // of an earlier attempt, which begins again
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = ctx.Err()
	}
	crashMade.Here()
	if err == nil {
		err = os.Rename(part, filepath.Join(dir, diskFile))
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return errors.Join(durable.SyncDir(dir), durable.SyncDir(c.o.Dir))
}

// remove removes the directory of a volume or snapshot.
func (c *Controller) remove(id string) error {
	dir := filepath.Join(c.o.Dir, id)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return filetree.RemoveAll(dir)
}

// grow gives the disk the size that the volume has been modified to. What is to be made from it with a smaller size is
// made before: its end would be cut off. It returns when to try again.
func (c *Controller) grow(ctx context.Context, key string, v record.Volume, d *record.VolumeDisk) (
	wait time.Duration, err error) {
	if d.Size >= v.Size {
		return 0, nil
	}
	if smaller, err := c.volumeNeeded(ctx, key, func(size int32, failure string) bool {
		return size > 0 && size < v.Size && failure == ""
	}); err != nil || smaller {
		return time.Second, err
	}
	if err := c.checkSpace("a larger volume", 0); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(c.file(v.ID), os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	err = f.Truncate(int64(v.Size) << 30)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, whyNotMade(err)
	}
	crashGrown.Here()
	d.Size = v.Size
	return 0, nil
}

// attempts is the number of copies of changes that are made before a disk counts as one that is always written.
const attempts = 4

// holdLimit is the time for which writes may be held: programs that wait for a disk get into trouble after some, and
// launchers end it after a minute.
const holdLimit = 25 * time.Second

// quickCopy is the part of holdLimit in which a copy is made of which changes are copied once, while writes are held.
const quickCopy = 5

// capture makes f have the content that the disk of a volume has at one moment: see the comment of the package.
func (c *Controller) capture(ctx context.Context, f, source *os.File, volumeID string, t transfer) error {
	if c.clones() {
		if _, err := c.withFrozenWrites(ctx, volumeID, source, func(context.Context) error {
			return unix.IoctlFileClone(int(f.Fd()), int(source.Fd()))
		}); err == nil || !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EXDEV) {
			return err
		}
	}
	before, err := stampOf(source)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := t.sparse(ctx, f, source); err != nil {
		return err
	}
	copied := time.Since(began)
	_, mounted, err := c.attachedLoops(volumeID)
	if err != nil {
		return err
	}
	if !mounted {
		if after, err := stampOf(source); err != nil || after == before {
			return err
		}
	}
	// Most of what has changed is copied before writes are held. It takes the time for which they would be. Where the copy
	// was made in a fraction of the time for which they may be, little has changed, and all is compared soon.
	if !mounted || copied > c.holdLimit/quickCopy {
		began := time.Now()
		if err := t.changes(ctx, f, source); err != nil {
			return err
		}
		if took := time.Since(began); mounted && took > c.holdLimit {
			return fail(nil, "the volume has too much content to hold its writes while it is compared, which took %d "+
				"seconds: unmount it, or keep the data directory on a file system that clones files (XFS, Btrfs)",
				int(took.Seconds()))
		}
	}
	for range attempts {
		limited, cancel := context.WithTimeout(ctx, 2*c.holdLimit)
		same, err := c.withFrozenWrites(limited, volumeID, source, func(ctx context.Context) error {
			return t.changes(ctx, f, source)
		})
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			break // others keep the disks of the host busy
		}
		if err != nil || same {
			return err
		}
	}
	return fail(nil, "the volume was written all the time while it was copied: unmount it, or keep the data directory on "+
		"a file system that clones files (XFS, Btrfs)")
}

// withFrozenWrites calls do while writes of a mounted file system of the volume are frozen, and reports whether the
// disk was the same all the time.
func (c *Controller) withFrozenWrites(
	ctx context.Context, volumeID string, source *os.File, do func(context.Context) error,
) (same bool, err error) {
	devices, _, err := c.attachedLoops(volumeID)
	if err != nil {
		return false, err
	}
	for _, d := range devices {
		defer c.freezeWrites(ctx, d.Name)()
		if err := loopdevice.Sync(d.Number); err != nil && !isGone(err) {
			return false, err
		}
	}
	before, err := stampOf(source)
	if err != nil {
		return false, err
	}
	if err := do(ctx); err != nil {
		return false, err
	}
	after, err := stampOf(source)
	return before == after, err
}

// freezeWrites holds writes of a mounted file system in one machine until release is called. A machine may keep its
// file system from being held, for ever too: then its writes go on, and whether there were any is seen.
func (c *Controller) freezeWrites(ctx context.Context, name loopdevice.Name) (release func()) {
	limited, cancel := context.WithTimeout(ctx, c.freezePatience)
	defer cancel()
	thaw, frozen, err := disks.Freeze(limited, filepath.Join(c.o.Machines, name.InstanceID), name.Volume)
	if err != nil && !errors.Is(err, disks.ErrNotServed) {
		c.log.Warn("writes of a volume cannot be held", "volume", name.Volume, "instance", name.InstanceID, "error", err)
	}
	if err != nil || !frozen {
		return func() {}
	}
	return func() {
		done := make(chan struct{})
		go func() {
			thaw()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(c.freezePatience): // its launcher hangs
		}
	}
}

// isGone reports an error of a device that has been released in the meantime.
func isGone(err error) bool { return errors.Is(err, unix.ENXIO) || errors.Is(err, fs.ErrNotExist) }

// attachedLoops returns the devices of a volume, and whether one is mounted.
func (c *Controller) attachedLoops(volumeID string) (devices []loopdevice.Device, mounted bool, err error) {
	all, err := c.devicesOf(c.o.Owner, volumeID)
	if err != nil {
		return nil, false, err
	}
	for _, d := range all {
		if d.Pulled {
			continue
		}
		devices = append(devices, d)
		is, err := loopdevice.Mounted(d.Number)
		if err != nil && !isGone(err) {
			return nil, false, err
		}
		mounted = mounted || is
	}
	return devices, mounted, nil
}

// stamp changes with each write of a file.
type stamp struct{ changed, modified unix.StatxTimestamp }

func stampOf(f *os.File) (stamp, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_CTIME|unix.STATX_MTIME, &st); err != nil {
		return stamp{}, err
	}
	return stamp{st.Ctime, st.Mtime}, nil
}
