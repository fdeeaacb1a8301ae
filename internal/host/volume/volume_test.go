//go:build linux

package volume

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/internal/testenv"
)

const (
	account, region = "123456789012", "eu-west-1"
	volumeID        = "vol-0123456789abcdef0"
	snapshotID      = "snap-0123456789abcdef0"
	instanceID      = "i-0123456789abcdef0"
)

func key(id string) string { return record.EC2Key(account, region, id) }

func resource(id string) record.EC2Resource {
	return record.EC2Resource{Account: account, Region: region, ID: id, CreatedAt: time.Now()}
}

// rig is a controller with its records. The launchers of machines have no init.
type rig struct {
	t     *testing.T
	ctx   context.Context
	store *store.Store
	o     Options
}

func newRig(t *testing.T) *rig {
	t.Helper()
	testenv.NeedsRoot(t)
	var owner [8]byte
	_, _ = rand.Read(owner[:])
	dir := t.TempDir()
	r := &rig{t: t, ctx: t.Context(), store: storetest.New(t), o: Options{Owner: hex.EncodeToString(owner[:]),
		Dir: filepath.Join(dir, "volumes"), Machines: filepath.Join(dir, "machines")}}
	r.o.Store = r.store
	t.Cleanup(func() {
		if left, err := loopdevice.RemoveAll(r.o.Owner); err != nil {
			t.Errorf("devices %v: %v", left, err)
		}
	})
	return r
}

// run runs the controllers until the test ends or stop is called.
func (r *rig) run() (stop func()) { return r.runThis(New(r.o)) }

func (r *rig) runThis(c *Controller) (stop func()) { return r.runControllers(c.Controllers()...) }

func (r *rig) runControllers(controllers ...reconcile.Controller) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	go func() { done <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), controllers...) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
	r.t.Cleanup(stop)
	return stop
}

func putRow[T any](r *rig, table store.Table[T], id string, v T) {
	r.t.Helper()
	if _, err := table.Put(r.ctx, key(id), v); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) volume(id string, edit func(*record.Volume)) {
	r.t.Helper()
	v := record.Volume{EC2Resource: resource(id), Size: 1}
	if row, err := record.Volumes(r.store).Get(r.ctx, key(id)); err == nil {
		v = row.Value
	}
	edit(&v)
	putRow(r, record.Volumes(r.store), id, v)
}

// instance makes an instance whose machine runs, with a launcher.
func (r *rig) instance(devices ...record.InstanceBlockDevice) {
	r.t.Helper()
	dir := filepath.Join(r.o.Machines, instanceID)
	if _, err := os.Stat(dir); err != nil {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			r.t.Fatal(err)
		}
		if _, err := disks.Serve(disks.Options{Dir: dir, Owner: r.o.Owner, InstanceID: instanceID}); err != nil {
			r.t.Fatal(err)
		}
	}
	putRow(r, record.Instances(r.store), instanceID, record.Instance{EC2Resource: resource(instanceID),
		Wanted: types.InstanceStateNameRunning, BlockDevices: devices})
	r.machine(types.InstanceStateNameRunning)
}

func (r *rig) machine(state types.InstanceStateName) {
	r.t.Helper()
	putRow(r, record.Machines(r.store), instanceID, record.Machine{InstanceID: instanceID, State: state,
		LaunchedAt: time.Now()})
}

func (r *rig) untilDisk(what string, is func(record.VolumeDisk) bool) {
	r.t.Helper()
	r.untilDiskOf(volumeID, what, is)
}

func (r *rig) untilDiskOf(id, what string, is func(record.VolumeDisk) bool) {
	r.t.Helper()
	eventually.True(r.t, what, func() bool {
		d, _, err := get(r.ctx, record.VolumeDisks(r.store), key(id))
		return err == nil && is(d)
	})
}

func made(d record.VolumeDisk) bool { return d.Size == 1 }

func isAttached(d record.VolumeDisk) bool {
	return len(d.Attachments) == 1 && !d.Attachments[0].Busy && !d.Attachments[0].Attaching()
}

func isDetached(d record.VolumeDisk) bool { return len(d.Attachments) == 0 }

func (r *rig) devices() []loopdevice.Device {
	r.t.Helper()
	devices, err := loopdevice.List(r.o.Owner)
	if err != nil {
		r.t.Fatal(err)
	}
	return devices
}

func device(edit func(*record.InstanceBlockDevice)) record.InstanceBlockDevice {
	d := record.InstanceBlockDevice{DeviceName: "/dev/xvdaa", VolumeID: volumeID, AttachedAt: time.Now()}
	edit(&d)
	return d
}

func attached(*record.InstanceBlockDevice)    {}
func detaching(d *record.InstanceBlockDevice) { d.Detaching = time.Now() }

func TestTheLifeOfADisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) {})
	r.run()
	r.untilDisk("made", made)
	file := filepath.Join(r.o.Dir, volumeID, "disk")
	info, err := os.Stat(file)
	if err != nil || info.Size() != 1<<30 || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file is %v, %v", info, err)
	}

	r.instance(device(attached))
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.untilDisk("attached", isAttached)
	devices := r.devices()
	if len(devices) != 1 || devices[0].Name.InstanceID != instanceID {
		t.Fatalf("the devices are %v", devices)
	}
	// Paths of files of other accounts are not for machines, which see those of all devices.
	seen, err := os.ReadFile(filepath.Join("/sys/block", fmt.Sprint("loop", devices[0].Number), "loop/backing_file"))
	if err != nil || strings.TrimSpace(string(seen)) != "/disk" {
		t.Errorf("machines see %q, %v", seen, err)
	}

	r.volume(volumeID, func(v *record.Volume) { v.Size = 2 })
	r.untilDisk("grown", func(d record.VolumeDisk) bool { return d.Size == 2 })
	f, err := loopdevice.Open(devices[0].Number, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the device has grown", func() bool {
		size, err := f.Seek(0, 2)
		return err == nil && size == 2<<30
	})
	// A program that has it open keeps the number, and nothing else.
	r.instance(device(detaching))
	r.untilDisk("detached", isDetached)
	eventually.True(t, "the device is pulled", func() bool {
		devices := r.devices()
		return len(devices) == 1 && devices[0].Pulled
	})
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	r.instance()
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = "" })
	eventually.True(t, "the device is released", func() bool { return len(r.devices()) == 0 })

	r.volume(volumeID, func(v *record.Volume) { v.Deleted = time.Now() })
	eventually.True(t, "the disk is removed", func() bool {
		_, found, err := get(r.ctx, record.VolumeDisks(r.store), key(volumeID))
		return err == nil && !found
	})
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestAStoppedMachineHoldsNoDevice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.instance(device(attached))
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.run()
	r.untilDisk("attached", isAttached)
	stop := func(wanted types.InstanceStateName) {
		putRow(r, record.Instances(r.store), instanceID, record.Instance{EC2Resource: resource(instanceID),
			Wanted: wanted, BlockDevices: []record.InstanceBlockDevice{device(attached)}})
	}
	stop(types.InstanceStateNameStopped)
	r.machine(types.InstanceStateNameStopped)
	r.untilDisk("detached", isDetached)
	eventually.True(t, "the device is released", func() bool { return len(r.devices()) == 0 })
	stop(types.InstanceStateNameRunning)
	r.machine(types.InstanceStateNamePending)
	r.untilDisk("attached again", isAttached)
}

func write(t *testing.T, file string, at int64, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), at); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string, at int64, size int) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, size)
	if _, err := f.ReadAt(data, at); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestASnapshotHasTheContentOfItsMoment(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) {})
	r.run()
	r.untilDisk("made", made)
	file := filepath.Join(r.o.Dir, volumeID, "disk")
	write(t, file, 0, "first")
	write(t, file, 1<<29, "middle")
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 1})
	var d record.SnapshotDisk
	eventually.True(t, "the snapshot is complete", func() bool {
		d, _, _ = get(r.ctx, record.SnapshotDisks(r.store), key(snapshotID))
		return d.Complete
	})
	if d.UsedBytes == 0 || d.UsedBytes > 1<<20 || d.Progress != 100 {
		t.Errorf("the snapshot is %+v", d)
	}
	write(t, file, 0, "after")

	const other = "vol-0123456789abcdef1"
	r.volume(other, func(v *record.Volume) { v.SnapshotID, v.Size = snapshotID, 2 })
	r.untilDiskOf(other, "restored", func(d record.VolumeDisk) bool { return d.Size == 2 })
	restored := filepath.Join(r.o.Dir, other, "disk")
	if got := read(t, restored, 0, 5) + read(t, restored, 1<<29, 6); got != "firstmiddle" {
		t.Errorf("the restored disk has %q", got)
	}
	const copied = "vol-0123456789abcdef2"
	r.volume(copied, func(v *record.Volume) { v.SourceVolumeID = volumeID })
	r.untilDiskOf(copied, "copied", made)
	if got := read(t, filepath.Join(r.o.Dir, copied, "disk"), 0, 5); got != "after" {
		t.Errorf("the copy has %q", got)
	}
}

// A source that is deleted stays until what was begun from it is there.
func TestWhatIsMadeFromADeletedSource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) {})
	stop := r.run()
	r.untilDisk("made", made)
	write(t, filepath.Join(r.o.Dir, volumeID, "disk"), 0, "content")
	stop()
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 1})
	r.volume(volumeID, func(v *record.Volume) { v.Deleted = time.Now() })
	r.run()
	eventually.True(t, "the snapshot is complete", func() bool {
		d, _, _ := get(r.ctx, record.SnapshotDisks(r.store), key(snapshotID))
		return d.Complete
	})
	eventually.True(t, "the disk is removed", func() bool {
		_, found, err := get(r.ctx, record.VolumeDisks(r.store), key(volumeID))
		return err == nil && !found
	})
	if got := read(t, filepath.Join(r.o.Dir, snapshotID, "disk"), 0, 7); got != "content" {
		t.Errorf("the snapshot has %q", got)
	}
}

func TestAFullHostSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.o.Free = func(string) (int64, error) { return diskspace.Reserve - 1, nil }
	r.volume(volumeID, func(v *record.Volume) {})
	r.run()
	r.untilDisk("failed", func(d record.VolumeDisk) bool {
		return d.Size == 0 && strings.Contains(d.Failure, "too little free disk space") &&
			!strings.Contains(d.Failure, "/")
	})
}

// After a restore on another host the records are there and the disks are not: an empty one would be a lie.
func TestALostDiskIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) {})
	putRow(r, record.VolumeDisks(r.store), volumeID, record.VolumeDisk{VolumeID: volumeID, Size: 1})
	r.run()
	r.untilDisk("failed", func(d record.VolumeDisk) bool { return strings.Contains(d.Failure, "not on this host") })
	if _, err := os.Stat(filepath.Join(r.o.Dir, volumeID)); !os.IsNotExist(err) {
		t.Errorf("a disk was made: %v", err)
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := filepath.Join(r.o.Dir, "vol-0123456789abcdef9")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	testenv.NeedsLoopDevices(t)
	if _, err := loopdevice.Attach(f, loopdevice.Name{Owner: r.o.Owner, Volume: "vol-0123456789abcdef9",
		InstanceID: instanceID}); err != nil {
		t.Fatal(err)
	}
	r.run()
	eventually.True(t, "file and device are gone", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err) && len(r.devices()) == 0
	})
}

// What counted as left over, and has a record by now, stays.
func TestWhatHasARecordIsNotLeftOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.instance(device(attached))
	stop := r.run()
	r.untilDisk("attached", isAttached)
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 1})
	eventually.True(t, "the snapshot is complete", func() bool {
		d, _, _ := get(r.ctx, record.SnapshotDisks(r.store), key(snapshotID))
		return d.Complete
	})
	stop()
	c := New(r.o)
	before := r.devices()
	if result, err := c.reconcile(r.ctx, record.EC2Key("", "", volumeID)); err != nil || !result.Gone {
		t.Errorf("a volume: %+v, %v", result, err)
	}
	if result, err := c.reconcileSnapshot(r.ctx, record.EC2Key("", "", snapshotID)); err != nil || !result.Gone {
		t.Errorf("a snapshot: %+v, %v", result, err)
	}
	for _, id := range []string{volumeID, snapshotID} {
		if _, err := os.Stat(c.file(id)); err != nil {
			t.Error(err)
		}
	}
	if after := r.devices(); len(after) != 1 || after[0] != before[0] {
		t.Errorf("the devices were %v and are %v", before, after)
	}
	// Nothing that has a record is sent.
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	c.leftovers("")(ctx, func(key string) { t.Errorf("%s is left over", key) })
}

func TestCopiesOfChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	source, target := open("source"), open("target")
	if err := source.Truncate(64 << 20); err != nil {
		t.Fatal(err)
	}
	transferring := transfer{mayGo: func() error { return nil }, progress: func(int32) {}}
	put := func(at int64, text string) {
		if _, err := source.WriteAt(bytes.Repeat([]byte(text), 4096), at); err != nil {
			t.Fatal(err)
		}
	}
	put(0, "a")
	put(40<<20, "b")
	if err := transferring.sparse(t.Context(), target, source); err != nil {
		t.Fatal(err)
	}
	put(8<<20, "c")
	put(40<<20, "d")
	if err := unix.Fallocate(int(source.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := transferring.changes(t.Context(), target, source); err != nil {
		t.Fatal(err)
	}
	want, err1 := os.ReadFile(source.Name())
	got, err2 := os.ReadFile(target.Name())
	if err1 != nil || err2 != nil || !bytes.Equal(want, got) {
		t.Errorf("the copy differs (%v, %v)", err1, err2)
	}
	transferring.mayGo = func() error { return errAbandoned }
	if err := transferring.sparse(t.Context(), open("another"), source); !errors.Is(err, errAbandoned) {
		t.Errorf("a copy that is no longer wanted: %v", err)
	}
}

// TestCopiesOfAnySize has a file whose end no disk reads directly, and parts of all sizes.
func TestCopiesOfAnySize(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, err1 := os.Create(filepath.Join(dir, "source"))
	target, err2 := os.Create(filepath.Join(dir, "target"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close() })
	t.Cleanup(func() { target.Close() })
	for at, size := range map[int64]int{0: 1, 20 << 20: 4096, 30 << 20: copyAtOnce + bufferSize + 4096, 60 << 20: 12345} {
		if _, err := source.WriteAt(bytes.Repeat([]byte("0123456789"), size/10+1), at); err != nil {
			t.Fatal(err)
		}
	}
	var last int32
	transferring := transfer{mayGo: func() error { return nil }, progress: func(percent int32) { last = percent }}
	if err := transferring.sparse(t.Context(), target, source); err != nil {
		t.Fatal(err)
	}
	want, err1 := os.ReadFile(source.Name())
	got, err2 := os.ReadFile(target.Name())
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(want, got) {
		t.Errorf("the copy differs (%v)", err)
	}
	info, err := target.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if used := info.Sys().(*syscall.Stat_t).Blocks * 512; used > 16<<20 || last != 99 {
		t.Errorf("the copy has %d bytes on the disk, and came to %d %%", used, last)
	}
}
