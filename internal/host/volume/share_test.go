//go:build linux

package volume

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/record"
)

// hangingLauncher takes the place of the launcher of the machine, and answers nothing. It returns how often it was
// asked.
func (r *rig) hangingLauncher() *atomic.Int32 {
	r.t.Helper()
	dir := r.machineDir()
	if err := os.Remove(filepath.Join(dir, "disks.sock")); err != nil {
		r.t.Fatal(err)
	}
	d, err := os.Open(dir) // whose path may be too long for a socket
	if err != nil {
		r.t.Fatal(err)
	}
	defer d.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/disks.sock", d.Fd()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	asked := new(atomic.Int32)
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
			asked.Add(1)
		}
	}()
	return asked
}

// A machine that answers nothing when it is to hold its writes has no share in when the snapshot is made.
func TestAMachineDoesNotStopASnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.instance(device(attached))
	stop := r.run()
	r.untilDisk("attached", isAttached)
	stop()
	write(t, filepath.Join(r.o.Dir, volumeID, diskFile), 0, "content")

	asked := r.hangingLauncher()
	c := New(r.o)
	c.freezePatience = 10 * time.Millisecond
	f, err := loopdevice.Open(r.devices()[0].Number, unix.O_RDONLY|unix.O_EXCL) // as if it were mounted
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 1})
	controllers := c.Controllers()
	r.runControllers(controllers[len(controllers)-1])
	eventually.True(t, "the snapshot is complete", func() bool {
		d, _, _ := get(r.ctx, record.SnapshotDisks(r.store), key(snapshotID))
		return d.Complete
	})
	if asked.Load() == 0 {
		t.Error("the machine was not asked to hold its writes")
	}
	if got := read(t, filepath.Join(r.o.Dir, snapshotID, diskFile), 0, 7); got != "content" {
		t.Errorf("the snapshot has %q", got)
	}
}

// Writes are not held for longer than programs bear it: a snapshot that would need that is refused before.
func TestWritesAreNotHeldForLong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.instance(device(attached))
	stop := r.run()
	r.untilDisk("attached", isAttached)
	stop()
	c := New(r.o)
	if c.clones() {
		t.Skip("the file system clones files")
	}
	asked := r.hangingLauncher()
	f, err := loopdevice.Open(r.devices()[0].Number, unix.O_RDONLY|unix.O_EXCL) // as if it were mounted
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.holdLimit = -1
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 1})
	controllers := c.Controllers()
	r.runControllers(controllers[len(controllers)-1])
	eventually.True(t, "the snapshot fails", func() bool {
		d, _, _ := get(r.ctx, record.SnapshotDisks(r.store), key(snapshotID))
		return strings.Contains(d.Failure, "too much content")
	})
	if n := asked.Load(); n != 0 {
		t.Errorf("writes were to be held %d times", n)
	}
}

// A copy that was made soon is compared with the volume once, while writes are held.
func TestAQuickCopyIsComparedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.instance(device(attached))
	stop := r.run()
	r.untilDisk("attached", isAttached)
	stop()
	r.hangingLauncher()
	c := New(r.o)
	c.freezePatience = 10 * time.Millisecond
	if c.clones() {
		t.Skip("the file system clones files")
	}
	mounted, err := loopdevice.Open(r.devices()[0].Number, unix.O_RDONLY|unix.O_EXCL) // as if it were
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	write(t, c.file(volumeID), 0, "content")
	source, err1 := os.Open(c.file(volumeID))
	target, err2 := os.Create(filepath.Join(t.TempDir(), "copy"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	defer target.Close()
	parts := 0
	transferring := transfer{progress: func(int32) {}, mayGo: func() error {
		parts++
		return nil
	}}
	if err := c.capture(r.ctx, target, source, volumeID, transferring); err != nil {
		t.Fatal(err)
	}
	if got := read(t, target.Name(), 0, 7); got != "content" || parts != 2 {
		t.Errorf("the copy has %q, after %d looks at its one part instead of 2", got, parts)
	}
}

// Volumes are attached while content is copied, however many copies there are.
func TestCopiesDoNotStopAttachments(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) {})
	stop := r.run()
	r.untilDisk("made", made)
	file := filepath.Join(r.o.Dir, volumeID, diskFile)
	write(t, file, 0, "content")
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 1})
	eventually.True(t, "the snapshot is complete", func() bool {
		d, _, _ := get(r.ctx, record.SnapshotDisks(r.store), key(snapshotID))
		return d.Complete
	})
	stop()

	goOn := make(chan struct{})
	var waiting atomic.Int32
	r.o.Free = func(string) (int64, error) {
		waiting.Add(1)
		<-goOn
		return 2 * diskspace.Reserve, nil
	}
	const copies = 20
	id := func(i int) string { return fmt.Sprintf("vol-0123456789abcde%02d", i) }
	for i := range copies {
		r.volume(id(i), func(v *record.Volume) { v.SnapshotID = snapshotID })
	}
	r.run()
	eventually.True(t, "content is copied", func() bool { return waiting.Load() > 0 })
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.instance(device(attached))
	r.untilDisk("attached", isAttached)
	close(goOn)
	for i := range copies {
		r.untilDiskOf(id(i), "restored", made)
	}
}

// What is deleted while it is copied leaves nothing behind.
func TestAVolumeIsDeletedWhileItsContentIsCopied(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) {})
	stop := r.run()
	r.untilDisk("made", made)
	stop()
	write(t, filepath.Join(r.o.Dir, volumeID, diskFile), 0, "content")
	const copied = "vol-0123456789abcdef2"
	begun, goOn := make(chan struct{}, 1000), make(chan struct{})
	r.o.Free = func(string) (int64, error) {
		begun <- struct{}{}
		<-goOn
		return 2 * diskspace.Reserve, nil
	}
	r.volume(copied, func(v *record.Volume) { v.SourceVolumeID = volumeID })
	r.run()
	<-begun
	r.volume(copied, func(v *record.Volume) { v.Deleted = time.Now() })
	close(goOn)
	eventually.True(t, "nothing is left", func() bool {
		_, found, err := get(r.ctx, record.VolumeDisks(r.store), key(copied))
		_, gone := os.Stat(filepath.Join(r.o.Dir, copied))
		return err == nil && !found && os.IsNotExist(gone)
	})
}
