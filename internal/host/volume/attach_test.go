//go:build linux

package volume

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// machineDir makes the directory of the machine, which has no launcher yet.
func (r *rig) machineDir() string {
	r.t.Helper()
	dir := filepath.Join(r.o.Machines, instanceID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	return dir
}

// wants makes the instance want volumes, in a machine whose launcher the test makes.
func (r *rig) wants(devices ...record.InstanceBlockDevice) {
	r.t.Helper()
	putRow(r, record.Instances(r.store), instanceID, record.Instance{EC2Resource: resource(instanceID),
		Wanted: types.InstanceStateNameRunning, BlockDevices: devices})
}

func (r *rig) serve(dir string) {
	r.t.Helper()
	if _, err := disks.Serve(disks.Options{Dir: dir, Owner: r.o.Owner, InstanceID: instanceID}); err != nil {
		r.t.Fatal(err)
	}
}

// A device that cannot be looked at stays what it is: its machine has mounted it.
func TestADeviceThatCannotBeLookedAtIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.instance(device(attached))
	stop := r.run()
	r.untilDisk("attached", isAttached)
	stop()
	before := r.devices()
	c := New(r.o)
	var looks atomic.Int32
	c.isDisk = func(number int, name loopdevice.Name) (bool, error) {
		if looks.Add(1) < 4 {
			return false, unix.EMFILE
		}
		return loopdevice.Is(number, name)
	}
	r.runThis(c)
	r.volume(volumeID, func(v *record.Volume) { v.Size = 2 })
	r.untilDisk("grown", func(d record.VolumeDisk) bool { return d.Size == 2 && isAttached(d) })
	eventually.True(t, "it is looked at again", func() bool { return looks.Load() >= 4 })
	if after := r.devices(); len(before) != 1 || len(after) != 1 || before[0] != after[0] {
		t.Errorf("the devices were %v and are %v", before, after)
	}
}

// As long as the launcher has not said that the machine has another device, nobody gets the number of the one before.
func TestADeviceIsReleasedAfterTheMachineHasLostIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	stop := r.run()
	r.untilDisk("made", made)
	stop()
	dir := r.machineDir()
	f, err := os.OpenFile(filepath.Join(r.o.Dir, volumeID, diskFile), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	testenv.NeedsLoopDevices(t)
	old, err := loopdevice.Attach(f, loopdevice.Name{Owner: r.o.Owner, Volume: volumeID, InstanceID: instanceID})
	if err != nil {
		t.Fatal(err)
	}
	r.wants(device(attached))
	r.machine(types.InstanceStateNamePending)
	r.run()
	listed := func() int {
		table, err := disks.ReadTable(dir)
		if err != nil || len(table.Disks) != 1 {
			return -1
		}
		return table.Disks[0].Loop
	}
	eventually.True(t, "another device is listed", func() bool { return listed() >= 0 && listed() != old })
	if devices := r.devices(); len(devices) != 2 || devices[0].Pulled || devices[1].Pulled {
		t.Errorf("without a launcher the devices are %v", devices)
	}
	r.serve(dir)
	eventually.True(t, "the other is released", func() bool {
		devices := r.devices()
		return len(devices) == 1 && devices[0].Number == listed()
	})
}

// The record names a machine before it has the disk, and as long as it may have it: the API takes a volume without an
// attachment for one that another machine may get.
func TestAnAttachmentIsSeenAsLongAsItMayBeThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	dir := r.machineDir()
	r.wants(device(attached))
	r.machine(types.InstanceStateNamePending)
	r.run()
	listed := func(detaching bool) bool {
		table, err := disks.ReadTable(dir)
		return err == nil && len(table.Disks) == 1 && table.Disks[0].Detaching == detaching
	}
	eventually.True(t, "it is listed", func() bool { return listed(false) })
	attaching := func(d record.VolumeDisk) bool { return len(d.Attachments) == 1 && d.Attachments[0].Attaching() }
	r.untilDisk("attaching", attaching)

	// Another machine waits until this one cannot have it any more.
	const other = "i-0123456789abcdef1"
	putRow(r, record.Instances(r.store), other, record.Instance{EC2Resource: resource(other),
		Wanted: types.InstanceStateNameRunning, BlockDevices: []record.InstanceBlockDevice{device(attached)}})
	putRow(r, record.Machines(r.store), other, record.Machine{InstanceID: other,
		State: types.InstanceStateNamePending, LaunchedAt: time.Now()})
	otherDir := filepath.Join(r.o.Machines, other)
	if err := os.MkdirAll(otherDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := disks.Serve(disks.Options{Dir: otherDir, Owner: r.o.Owner, InstanceID: other}); err != nil {
		t.Fatal(err)
	}
	r.wants(device(detaching))
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = other })
	eventually.True(t, "it is to be detached", func() bool { return listed(true) })
	d, _, err := get(r.ctx, record.VolumeDisks(r.store), key(volumeID))
	if err != nil || !attaching(d) || d.Attachments[0].InstanceID != instanceID {
		t.Errorf("the disk is %+v, %v", d, err)
	}
	r.serve(dir)
	r.untilDisk("attached to the other", func(d record.VolumeDisk) bool {
		return isAttached(d) && d.Attachments[0].InstanceID == other
	})
}

// A detachment that was asked for first is seen before a machine gets the disk.
func TestAnAttachmentIsNotClaimedForWhatWasDetached(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := New(r.o)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.wants(device(attached))
	v, _, err := get(r.ctx, record.Volumes(r.store), key(volumeID))
	if err != nil {
		t.Fatal(err)
	}
	d := record.VolumeDisk{VolumeID: volumeID, Size: 1}
	a, err := c.attachmentOf(r.ctx, key(volumeID), v, &d, instanceID)
	if err != nil || !a.wanted {
		t.Fatalf("the attachment is %+v, %v", a, err)
	}
	r.wants(device(detaching))
	if err := a.claim(record.DiskAttachment{InstanceID: instanceID}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("it was claimed: %v", err)
	}
	if now, found, err := get(r.ctx, record.VolumeDisks(r.store), key(volumeID)); err != nil || found {
		t.Errorf("the disk is %+v, %v", now, err)
	}
}

// A machine whose launcher knows no disks, of an earlier version, keeps no volume.
func TestAMachineWithoutALauncherOfDisks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	dir := r.machineDir()
	r.wants(device(attached))
	launched := func(at time.Time) {
		putRow(r, record.Machines(r.store), instanceID, record.Machine{InstanceID: instanceID,
			State: types.InstanceStateNameRunning, LaunchedAt: at})
	}
	unlisted := func() bool {
		table, err := disks.ReadTable(dir)
		return err == nil && len(table.Disks) == 0 && len(r.devices()) == 0
	}
	launched(time.Now().Add(-time.Hour))
	r.run()
	failed := func(d record.VolumeDisk) bool {
		return isDetached(d) && strings.Contains(d.Failure, "stop and start it")
	}
	r.untilDisk("refused", failed)
	if !unlisted() {
		t.Errorf("the devices are %v", r.devices())
	}
	// One that was claimed while the launcher could still begin is given up.
	launched(time.Now())
	r.untilDisk("claimed", func(d record.VolumeDisk) bool {
		return len(d.Attachments) == 1 && d.Attachments[0].Attaching()
	})
	launched(time.Now().Add(-time.Hour))
	r.untilDisk("refused again", failed)
	eventually.True(t, "nothing is left", unlisted)

	launched(time.Now())
	r.untilDisk("claimed again", func(d record.VolumeDisk) bool { return len(d.Attachments) == 1 })
	r.wants(device(detaching))
	launched(time.Now().Add(-time.Hour))
	r.untilDisk("detached", func(d record.VolumeDisk) bool { return isDetached(d) && d.Failure == "" })
	eventually.True(t, "nothing is left", unlisted)
}

// A machine that keeps detached disks open keeps their numbers, of which the host has a few thousand.
func TestAMachineHasAFewDevicesOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) {})
	stop := r.run()
	r.untilDisk("made", made)
	stop()
	f, err := os.OpenFile(filepath.Join(r.o.Dir, volumeID, diskFile), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var open []*os.File
	name := loopdevice.Name{Owner: r.o.Owner, Volume: "vol-0123456789abcdef9", InstanceID: instanceID}
	for range keptOpen + 1 {
		testenv.NeedsLoopDevices(t)
		number, err := loopdevice.Attach(f, name)
		if err != nil {
			t.Fatal(err)
		}
		program, err := loopdevice.Open(number, unix.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, program)
		if err := loopdevice.Release(number, name); !errors.Is(err, loopdevice.ErrInUse) {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, program := range open {
			_ = program.Close()
		}
	}()
	putRow(r, record.Volumes(r.store), name.Volume, record.Volume{EC2Resource: resource(name.Volume), Size: 1})
	r.instance(device(attached))
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	c := New(r.o)
	if _, err := c.reconcile(r.ctx, key(volumeID)); err != nil {
		t.Fatal(err)
	}
	r.untilDisk("refused", func(d record.VolumeDisk) bool {
		return strings.Contains(d.Failure, "keep 17 detached disks open") && !isAttached(d)
	})
	if devices := r.devices(); len(devices) != keptOpen+1 {
		t.Errorf("the devices are %v", devices)
	}
	if err := open[0].Close(); err != nil {
		t.Error(err)
	}
	r.run()
	r.untilDisk("attached", isAttached)
}

// Each account leaves others as many devices as it has.
func TestAnAccountHasItsShareOfDevices(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	const second = "vol-0123456789abcdef1"
	r.instance(device(attached))
	c := New(r.o)
	free := 1
	c.freeDevices = func() (int, error) { return free, nil }
	reconcile := func(id string) {
		t.Helper()
		if _, err := c.reconcile(r.ctx, key(id)); err != nil {
			t.Fatal(err)
		}
	}
	reconcile(volumeID)
	r.untilDisk("attached", isAttached)
	r.instance(device(attached), device(func(d *record.InstanceBlockDevice) {
		d.VolumeID, d.DeviceName = second, "/dev/xvdab"
	}))
	r.volume(second, func(v *record.Volume) { v.InstanceID = instanceID })
	reconcile(second)
	r.untilDiskOf(second, "refused", func(d record.VolumeDisk) bool {
		return strings.Contains(d.Failure, "the account has 1 of the host's loop devices, and 1 are free")
	})
	free = 2
	reconcile(second)
	r.untilDiskOf(second, "attached", func(d record.VolumeDisk) bool { return isAttached(d) && d.Failure == "" })
}

// What is asked of a device that does not answer fails, and is no end of the attachment.
func TestADiskThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.instance(device(attached))
	stop := r.run()
	r.untilDisk("attached", isAttached)
	stop()
	c := New(r.o)
	c.isDisk = func(int, loopdevice.Name) (bool, error) { return false, loopdevice.ErrSilent }
	if _, err := c.reconcile(r.ctx, key(volumeID)); err != nil {
		t.Error(err)
	}
	r.untilDisk("told", func(d record.VolumeDisk) bool {
		return isAttached(d) && strings.Contains(d.Failure, "the disk of "+instanceID+" does not answer")
	})
}

// A volume whose device does not answer a daemon that has just started is attached, though its machine is gone.
func TestADeviceOfAVolumeThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	r.instance(device(attached))
	stop := r.run()
	r.untilDisk("attached", isAttached)
	stop()
	if err := os.RemoveAll(r.machineDir()); err != nil {
		t.Fatal(err)
	}
	c := New(r.o)
	c.devicesOf = func(string, string) ([]loopdevice.Device, error) { return nil, loopdevice.ErrSilent }
	if _, err := c.reconcile(r.ctx, key(volumeID)); err != nil {
		t.Error(err)
	}
	r.untilDisk("told", func(d record.VolumeDisk) bool {
		return isAttached(d) && strings.Contains(d.Failure, "a disk of "+volumeID+" does not answer")
	})
	if _, _, err := c.attachedLoops(volumeID); !errors.Is(err, loopdevice.ErrSilent) {
		t.Errorf("a snapshot takes it for one without devices: %v", err)
	}
	c.devicesOf = loopdevice.ListVolume
	if _, err := c.reconcile(r.ctx, key(volumeID)); err != nil {
		t.Error(err)
	}
	r.untilDisk("detached", func(d record.VolumeDisk) bool { return isDetached(d) && d.Failure == "" })
	if devices := r.devices(); len(devices) > 0 {
		t.Errorf("the devices are %v", devices)
	}
}

// An event of an instance concerns the volumes that it has and had, and no others of its account.
func TestVolumesOfAnInstance(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const had, several, other = "vol-0123456789abcdef1", "vol-0123456789abcdef2", "vol-0123456789abcdef3"
	r.wants(device(attached))
	c := New(r.o)
	for id, instances := range map[string][]string{had: {instanceID}, other: {"i-0123456789abcdef1"},
		several: {"i-0123456789abcdef1", "i-0123456789abcdef2", instanceID}} {
		d := record.VolumeDisk{VolumeID: id, Size: 1}
		for _, instance := range instances {
			d.Attachments = append(d.Attachments, record.DiskAttachment{InstanceID: instance})
		}
		putRow(r, record.VolumeDisks(r.store), id, d)
	}
	got := c.ofInstance(key(instanceID))
	slices.Sort(got)
	if want := []string{key(volumeID), key(had), key(several)}; !slices.Equal(got, want) {
		t.Errorf("they are %v, want %v", got, want)
	}
	if got := c.ofInstance(record.EC2Key("210987654321", region, instanceID)); len(got) > 0 {
		t.Errorf("those of another account are %v", got)
	}
}
