//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// Content is not copied until the disk is full: what the daemon keeps there, etcd above all, would end.
func TestCopiesLeaveFreeDiskSpace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) {})
	stop := r.run()
	r.untilDisk("made", made)
	stop()
	if c := New(r.o); c.clones() {
		t.Skip("the file system clones files, which takes no space")
	}
	file := filepath.Join(r.o.Dir, volumeID, diskFile)
	write(t, file, 0, strings.Repeat("x", 4*copyAtOnce))

	// There is too little from the beginning.
	var free atomic.Int64
	r.o.Free = func(string) (int64, error) { return free.Load(), nil }
	free.Store(diskspace.Reserve + copyAtOnce)
	const restored, copied = "vol-0123456789abcdef1", "vol-0123456789abcdef2"
	r.volume(copied, func(v *record.Volume) { v.SourceVolumeID = volumeID })
	stop = r.run()
	failed := func(d record.VolumeDisk) bool {
		return d.Size == 0 && strings.Contains(d.Failure, "too little free disk space")
	}
	r.untilDiskOf(copied, "refused", failed)
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 1})
	eventually.True(t, "the snapshot is refused", func() bool {
		d, _, _ := get(r.ctx, record.SnapshotDisks(r.store), key(snapshotID))
		return strings.Contains(d.Failure, "too little free disk space")
	})
	stop()

	// Others fill the disk while it is copied.
	const second = "snap-0123456789abcdef1"
	free.Store(diskspace.Reserve + 64*copyAtOnce)
	putRow(r, record.Snapshots(r.store), second, record.Snapshot{EC2Resource: resource(second), VolumeID: volumeID,
		VolumeSize: 1})
	stop = r.run()
	eventually.True(t, "the snapshot is complete", func() bool {
		d, _, _ := get(r.ctx, record.SnapshotDisks(r.store), key(second))
		return d.Complete
	})
	stop()
	r.o.Free = func(dir string) (int64, error) {
		var at int64
		if info, err := os.Stat(filepath.Join(dir, restored, diskFile+".part")); err == nil && info.Size() > 0 {
			at = 63 * copyAtOnce // the copy has begun
		}
		return diskspace.Reserve + 64*copyAtOnce - at - 1, nil
	}
	r.volume(restored, func(v *record.Volume) { v.SnapshotID = second })
	r.run()
	r.untilDiskOf(restored, "ended early", failed)
	if left, err := os.ReadDir(filepath.Join(r.o.Dir, restored)); err != nil || len(left) > 0 {
		t.Errorf("what was copied is left: %v, %v", left, err)
	}
}

// What never works is said, and not tried for ever in silence.
func TestAVolumeThatIsTooLargeForTheHost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const size = 65536
	f, err := os.Create(filepath.Join(t.TempDir(), "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Truncate(size<<30) == nil {
		t.Skip("the file system has files of that size")
	}
	r.volume(volumeID, func(v *record.Volume) { v.Size = size })
	const grows = "vol-0123456789abcdef1"
	r.volume(grows, func(*record.Volume) {})
	r.run()
	failed := func(d record.VolumeDisk) bool { return strings.Contains(d.Failure, "no files of that size") }
	r.untilDisk("failed", failed)
	r.untilDiskOf(grows, "made", made)
	// One that cannot grow is attached nevertheless.
	r.volume(grows, func(v *record.Volume) { v.Size, v.InstanceID = size, instanceID })
	r.instance(device(func(d *record.InstanceBlockDevice) { d.VolumeID = grows }))
	r.untilDiskOf(grows, "failed", func(d record.VolumeDisk) bool { return failed(d) && d.Size == 1 && isAttached(d) })
}

func TestErrorsOfContentAreTold(t *testing.T) {
	t.Parallel()
	for _, err := range []error{unix.ENOSPC, unix.EIO, &os.PathError{Op: "truncate", Path: "/a/file", Err: unix.EINVAL}} {
		var known *failure
		if err := whyNotMade(fmt.Errorf("copy: %w", err)); !errors.As(err, &known) || strings.Contains(known.text, "/") {
			t.Errorf("told: %v", err)
		}
	}
	for _, err := range []error{nil, unix.EMFILE, errAbandoned, context.Canceled} {
		if got := whyNotMade(err); !errors.Is(got, err) {
			t.Errorf("%v is told as %v", err, got)
		}
	}
}

// A volume grows after what has a smaller size was made from it.
func TestAVolumeGrowsAfterItsSnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(*record.Volume) {})
	stop := r.run()
	r.untilDisk("made", made)
	stop()
	const copied = "vol-0123456789abcdef2"
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 1})
	r.volume(copied, func(v *record.Volume) { v.SourceVolumeID = volumeID })
	r.volume(volumeID, func(v *record.Volume) { v.Size = 2 })
	r.run()
	r.untilDisk("grown", func(d record.VolumeDisk) bool { return d.Size == 2 })
	c := New(r.o)
	for _, id := range []string{snapshotID, copied} {
		if info, err := os.Stat(c.file(id)); err != nil || info.Size() != 1<<30 {
			t.Errorf("%s is %v, %v", id, info, err)
		}
	}
	// A snapshot that was asked for after the modification has its size.
	const second = "snap-0123456789abcdef1"
	putRow(r, record.Snapshots(r.store), second, record.Snapshot{EC2Resource: resource(second), VolumeID: volumeID,
		VolumeSize: 3})
	eventually.True(t, "the snapshot is complete", func() bool {
		d, _, _ := get(r.ctx, record.SnapshotDisks(r.store), key(second))
		return d.Complete
	})
	if info, err := os.Stat(c.file(second)); err != nil || info.Size() != 3<<30 {
		t.Errorf("the snapshot is %v, %v", info, err)
	}
}

// A volume whose source has gone is not "creating" for ever.
func TestAVolumeWithoutItsSource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const restored, copied = "vol-0123456789abcdef1", "vol-0123456789abcdef2"
	r.volume(restored, func(v *record.Volume) { v.SnapshotID = snapshotID })
	r.volume(copied, func(v *record.Volume) { v.SourceVolumeID = volumeID })
	r.run()
	failed := func(d record.VolumeDisk) bool {
		return d.Size == 0 && strings.Contains(d.Failure, "there is no content")
	}
	r.untilDiskOf(restored, "failed", failed)
	r.untilDiskOf(copied, "failed", failed)
}

// Content that can never be made is tried once, and what it was to begin with can be deleted.
func TestAFailedCopyIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const copied = "vol-0123456789abcdef2"
	r.volume(volumeID, func(v *record.Volume) { v.Size = 2 })
	r.volume(copied, func(v *record.Volume) { v.SourceVolumeID = volumeID })
	stop := r.run()
	final := func(d record.VolumeDisk) bool {
		return d.Final && strings.Contains(d.Failure, "larger than the volume")
	}
	r.untilDiskOf(copied, "failed", final)
	stop()
	c := New(r.o) // of a daemon that has started again
	for range 2 {
		result, err := c.fill(r.ctx, key(copied))
		if err != nil || result.After != 0 {
			t.Errorf("it is tried again: %+v, %v", result, err)
		}
	}
	if _, ok := c.failures.Load(key(copied)); ok {
		t.Error("it was tried again")
	}
	r.volume(volumeID, func(v *record.Volume) { v.Deleted = time.Now() })
	r.run()
	eventually.True(t, "the source is removed", func() bool {
		_, found, err := get(r.ctx, record.VolumeDisks(r.store), key(volumeID))
		return err == nil && !found
	})
	if d, _, err := get(r.ctx, record.VolumeDisks(r.store), key(copied)); err != nil || !final(d) {
		t.Errorf("the copy is %+v, %v", d, err)
	}
}

// Content for which there is no space is tried again more and more seldom.
func TestCopiesWaitLongerEachTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const copied = "vol-0123456789abcdef2"
	r.volume(volumeID, func(*record.Volume) {})
	stop := r.run()
	r.untilDisk("made", made)
	stop()
	var asked atomic.Int64
	r.o.Free = func(string) (int64, error) { asked.Add(1); return 0, nil }
	r.volume(copied, func(v *record.Volume) { v.SourceVolumeID = volumeID })
	c := New(r.o)
	stop = r.runThis(c)
	r.untilDiskOf(copied, "failed", func(d record.VolumeDisk) bool { return d.Failure != "" && !d.Final })
	stop()
	before := asked.Load()
	result, err := c.fill(r.ctx, key(copied))
	if err != nil || result.After <= 0 || result.After > retryFailed || asked.Load() != before {
		t.Errorf("it does not wait: %+v, %v", result, err)
	}
	var last attempt
	for _, want := range []time.Duration{retryFailed, 2 * retryFailed, 4 * retryFailed} {
		wait := c.failed(copied, last, &failure{passes: true})
		kept, _ := c.failures.Load(copied)
		if last = *kept.(*attempt); wait != want || last.failure.final {
			t.Errorf("the pause is %v, want %v", wait, want)
		}
	}
	if wait := c.failed(copied, attempt{pause: retryContentAtMost}, nil); wait != retryContentAtMost {
		t.Errorf("the longest pause is %v", wait)
	}
}

// A copy that has failed copies nothing more: what cannot be read may be the first of many parts.
func TestACopyEndsWithItsFirstError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "source")
	source, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for i := range int64(32) {
		write(t, path, i*copyAtOnce, "x")
	}
	var copied atomic.Int32
	transferring := transfer{mayGo: func() error { return nil }}
	err = transferring.eachDirect(t.Context(), source, source, func(directFile, directFile, int64, int64) error {
		copied.Add(1)
		return unix.EIO
	}, func(int64, int64) {}, func(int64, int64) error { return nil })
	if n := copied.Load(); !errors.Is(err, unix.EIO) || n > atOnce {
		t.Errorf("after %d parts: %v", n, err)
	}
}
