//go:build linux

package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
	"github.com/coracle-eks/coracle/internal/record"
)

// The root volume of an instance gets its device before there is a machine, which cannot be prepared without. It stands
// in no table: the machine has its file system, and neither a node nor the right to open one.

// settleRoot makes the attachment of a root volume as it should be.
func (c *Controller) settleRoot(a attachment, devices []loopdevice.Device, size int64) (
	observed *record.DiskAttachment, wait time.Duration, err error) {
	switch {
	case a.wanted && !a.off:
		return c.attachRoot(a, devices, size)
	case a.off && a.wanted:
		wait = time.Second // it is about to start
	case a.ending && !a.off:
		return a.observed, time.Second, nil
	}
	again, err := c.releaseRoot(a, devices)
	if errors.Is(err, loopdevice.ErrInUse) { // what the machine has written is still being written to the disk
		return a.observed, time.Second, nil
	}
	return nil, soonest(wait, again), err
}

// attachRoot gives a machine the device.
func (c *Controller) attachRoot(a attachment, devices []loopdevice.Device, size int64) (
	*record.DiskAttachment, time.Duration, error) {
	if a.observed == nil {
		a.observed = &record.DiskAttachment{InstanceID: a.instance.ID, Device: a.device.DeviceName}
		if err := a.claim(*a.observed); err != nil {
			return nil, 0, err
		}
		crashClaimed.Here()
	}
	is := *a.observed
	loop := -1
	if at := slices.IndexFunc(devices, func(d loopdevice.Device) bool {
		return d.Name == c.name(a) && !d.Pulled
	}); at >= 0 {
		loop = devices[at].Number
	}
	if loop < 0 {
		is.AttachedAt = time.Time{}
		if err := a.checkDevices(); err != nil {
			return &is, 0, err
		}
		var err error
		if loop, err = c.openLoop(c.name(a)); err != nil {
			return &is, 0, fail(err, "the host has no loop device for the root volume")
		}
		c.grown.Delete(loop)
		crashLooped.Here()
	}
	err := loopdevice.Grow(loop, size)
	if grown, ok := c.grown.Load(loop); err == nil && !is.Attaching() && (!ok || grown != size) {
		// The machine may have mounted it.
		if err = rootvolume.Grow(loop, c.name(a), c.o.Dir); err == nil {
			c.grown.Store(loop, size)
		}
	}
	if errors.Is(err, loopdevice.ErrManyGroups) {
		return &is, 0, fail(err, "the file system of the root volume cannot become as large as the volume, since it began "+
			"too small: launch an instance with a larger root volume")
	}
	if errors.Is(err, loopdevice.ErrSilent) {
		return &is, 0, fail(err, "the disk of %s does not answer: terminate the instance if that does not pass",
			a.instance.ID)
	} else if err != nil {
		return nil, 0, err
	}
	if is.Attaching() {
		is.AttachedAt = time.Now().UTC()
	}
	crashAttached.Here()
	wait, err := c.release(a, devices, loop)
	return &is, wait, err
}

// releaseRoot releases the devices of a root volume whose machine is off: at once where the volume goes with its
// instance, otherwise as soon as the file system is unmounted.
func (c *Controller) releaseRoot(a attachment, devices []loopdevice.Device) (wait time.Duration, err error) {
	if a.instance.Wanted == ec2types.InstanceStateNameTerminated && a.device.DeleteOnTermination {
		return c.release(a, devices, -1)
	}
	for _, d := range devices {
		if d.Name != c.name(a) {
			continue
		}
		if err := loopdevice.ReleaseUnmounted(d.Number, d.Name); err != nil {
			return 0, err
		}
		crashReleased.Here()
	}
	return 0, nil
}

// reservedSpace returns the disk space that is to stay free when a volume is made: a root volume is made where a
// machine is.
func (c *Controller) reservedSpace(v record.Volume) int64 {
	if v.OfImage {
		return diskspace.Machine
	}
	return diskspace.Reserve
}

// isFresh reports whether a volume of an image, whose disk has been there, may begin again: after the restore of a
// backup without it, in which its instance has no files either. A machine then boots from its AMI once more.
func (c *Controller) isFresh(v record.Volume) bool {
	if !v.OfImage || v.InstanceID == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(c.o.Machines, v.InstanceID))
	return errors.Is(err, fs.ErrNotExist)
}
