//go:build linux

package volume

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/record"
)

// rooted makes the volume the root volume of the instance, which has no machine yet.
func (r *rig) rooted(wanted types.InstanceStateName, edit func(*record.InstanceBlockDevice)) {
	r.t.Helper()
	r.volume(volumeID, func(v *record.Volume) {
		v.OfImage, v.SnapshotID, v.InstanceID = true, "snap-0fedcba9876543210", instanceID
	})
	putRow(r, record.Instances(r.store), instanceID, record.Instance{EC2Resource: resource(instanceID), Wanted: wanted,
		BlockDevices: []record.InstanceBlockDevice{device(func(d *record.InstanceBlockDevice) {
			d.Root = true
			edit(d)
		})}})
}

// TestTheDeviceOfARootVolume attaches a root volume before its machine has a directory or a launcher, takes no device
// whose file system is mounted from a machine that has stopped, and leaves none behind.
func TestTheDeviceOfARootVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rooted(types.InstanceStateNameRunning, attached)
	r.run()
	r.untilDisk("made, with nothing of the snapshot", made)
	if devices := r.devices(); len(devices) > 0 {
		t.Errorf("before there is a machine the devices are %v", devices)
	}
	r.machine(types.InstanceStateNamePending)
	r.untilDisk("attached", isAttached)
	devices := r.devices()
	if len(devices) != 1 || devices[0].Name.InstanceID != instanceID {
		t.Fatalf("the devices are %v", devices)
	}
	if table, err := disks.ReadTable(filepath.Join(r.o.Machines, instanceID)); err != nil || len(table.Disks) > 0 {
		t.Errorf("the machine is to have the disks %+v, %v", table, err)
	}
	r.machine(types.InstanceStateNameRunning)
	r.volume(volumeID, func(v *record.Volume) { v.Size = 2 })
	r.untilDisk("grown", func(d record.VolumeDisk) bool { return d.Size == 2 && isAttached(d) })
	if now := r.devices(); len(now) != 1 || now[0] != devices[0] {
		t.Errorf("the devices were %v and are %v", devices, now)
	}

	f, err := loopdevice.Open(devices[0].Number, os.O_RDONLY|os.O_EXCL) // as a mount has it
	if err != nil {
		t.Fatal(err)
	}
	r.rooted(types.InstanceStateNameStopped, attached)
	r.machine(types.InstanceStateNameStopped)
	r.volume(volumeID, func(v *record.Volume) { v.Size = 3 })
	r.untilDisk("still attached", func(d record.VolumeDisk) bool { return d.Size == 3 && isAttached(d) })
	if now := r.devices(); len(now) != 1 || now[0] != devices[0] {
		t.Errorf("mounted, the devices were %v and are %v", devices, now)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r.untilDisk("detached", isDetached)
	if now := r.devices(); len(now) > 0 {
		t.Errorf("stopped, the machine has %v", now)
	}

	r.rooted(types.InstanceStateNameRunning, attached)
	r.machine(types.InstanceStateNamePending)
	r.untilDisk("attached again", isAttached)
	r.rooted(types.InstanceStateNameTerminated, func(d *record.InstanceBlockDevice) {
		d.DeleteOnTermination, d.Detaching, d.Force = true, time.Now(), true
	})
	r.machine(types.InstanceStateNameTerminated)
	r.untilDisk("detached", isDetached)
	eventually.True(t, "the device is released", func() bool { return len(r.devices()) == 0 })
}

// TestARootVolumeBeginsAgain restores a backup without volumes, in which no machine has a directory, and misses a file
// of a machine that has one.
func TestARootVolumeBeginsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	putRow(r, record.VolumeDisks(r.store), volumeID, record.VolumeDisk{VolumeID: volumeID, Size: 1,
		Attachments: []record.DiskAttachment{{InstanceID: instanceID, Device: "/dev/xvda", AttachedAt: time.Now()}}})
	r.rooted(types.InstanceStateNameRunning, attached)
	r.machine(types.InstanceStateNamePending)
	stop := r.run()
	eventually.True(t, "it has a device", func() bool { return len(r.devices()) == 1 })
	r.untilDisk("attached", isAttached)
	stop()
	if _, err := loopdevice.RemoveAll(r.o.Owner); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(r.o.Dir, volumeID)); err != nil {
		t.Fatal(err)
	}
	r.machineDir()
	r.run()
	r.untilDisk("missed", func(d record.VolumeDisk) bool { return d.Failure != "" })
}

// TestARootVolumeNeedsTheSpaceOfAMachine makes a root volume where other volumes are refused.
func TestARootVolumeNeedsTheSpaceOfAMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.o.Free = func(string) (int64, error) { return diskspace.Reserve - 1, nil }
	const other = "vol-0fedcba9876543210"
	r.rooted(types.InstanceStateNameRunning, attached)
	putRow(r, record.Volumes(r.store), other, record.Volume{EC2Resource: resource(other), Size: 1})
	r.run()
	r.untilDisk("made", made)
	r.untilDiskOf(other, "refused", func(d record.VolumeDisk) bool { return d.Failure != "" })
}
