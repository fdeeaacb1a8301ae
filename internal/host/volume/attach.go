//go:build linux

package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// attachment is one of a volume, as it should be and as its machine is.
type attachment struct {
	volumeID string
	instance record.Instance
	machine  record.Machine
	device   record.InstanceBlockDevice
	// observed is the attachment as its record has it; nil when it has none.
	observed *record.DiskAttachment
	// claim writes an attachment into the record of the disk, before the machine gets it.
	claim func(record.DiskAttachment) error
	// wanted has it in the machine, and force takes it away though it is in use.
	wanted, force bool
	// ending is set when the machine is to end, and off when none runs that could have it.
	ending, off bool
	// checkDevices refuses another device for it where there are too many.
	checkDevices func() error
}

// attachAll attaches and detaches a volume as its instances say, and sets the attachments that are observed.
func (c *Controller) attachAll(ctx context.Context, key string, v record.Volume, d *record.VolumeDisk) (
	wait time.Duration, err error) {
	devices, err := c.devicesOf(c.o.Owner, v.ID)
	if errors.Is(err, loopdevice.ErrSilent) { // nobody can say which machine writes to the volume
		return 0, fail(err, "a disk of %s does not answer: terminate the instance that has it if that does not pass", v.ID)
	} else if err != nil {
		return 0, err
	}
	ids := append([]string{v.InstanceID}, v.MoreInstanceIDs...)
	for _, a := range d.Attachments {
		ids = append(ids, a.InstanceID)
	}
	for _, device := range devices {
		ids = append(ids, device.Name.InstanceID)
	}
	slices.Sort(ids)
	var attachments []attachment
	for _, id := range slices.Compact(ids) {
		if id == "" {
			continue
		}
		a, err := c.attachmentOf(ctx, key, v, d, id)
		if err != nil {
			return 0, err
		}
		a.checkDevices = func() error { return c.checkDevices(ctx, key, a.instance) }
		attachments = append(attachments, a)
	}
	// One machine loses the disk before another gets it.
	slices.SortStableFunc(attachments, func(a, b attachment) int { return cmp.Compare(a.priority(), b.priority()) })
	var observed []record.DiskAttachment
	var failed error
	for _, a := range attachments {
		if a.wanted && a.observed == nil && len(observed) > 0 && !v.MultiAttach {
			wait = soonest(wait, time.Second)
			continue
		}
		is, again, err := c.reconcileAttachment(ctx, a, devices, int64(d.Size)<<30)
		var known *failure
		if errors.As(err, &known) {
			failed = err
		} else if err != nil {
			return 0, err
		}
		wait = soonest(wait, again)
		if is != nil {
			observed = append(observed, *is)
		}
	}
	slices.SortFunc(observed, func(a, b record.DiskAttachment) int { return cmp.Compare(a.InstanceID, b.InstanceID) })
	d.Attachments = observed
	return wait, failed
}

// priority orders the attachments of a volume: what goes, what is there, what comes.
func (a attachment) priority() int {
	switch {
	case !a.wanted:
		return 0
	case a.observed != nil:
		return 1
	}
	return 2
}

// attachmentOf returns what the records say about a volume and an instance.
func (c *Controller) attachmentOf(ctx context.Context, volumeKey string, v record.Volume, d *record.VolumeDisk,
	instanceID string) (a attachment, err error) {
	key := record.EC2Key(v.Account, v.Region, instanceID)
	row, err := c.instances.Get(ctx, key)
	found := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return a, err
	}
	i := row.Value
	m, _, err := get(ctx, c.machines, key)
	if err != nil {
		return a, err
	}
	a = attachment{volumeID: v.ID, instance: i, machine: m, force: true}
	a.instance.ID = instanceID
	if at := slices.IndexFunc(d.Attachments, func(a record.DiskAttachment) bool {
		return a.InstanceID == instanceID
	}); at >= 0 {
		is := d.Attachments[at]
		is.Busy = false
		a.observed = &is
	}
	a.claim = func(claimed record.DiskAttachment) error {
		with := *d
		with.Attachments = append(slices.Clone(d.Attachments), claimed)
		err := c.o.Store.Txn(ctx, c.disks.PutOp(volumeKey, with), c.instances.CheckOp(row))
		if err == nil {
			*d = with
		}
		return err
	}
	if at := slices.IndexFunc(i.BlockDevices, func(d record.InstanceBlockDevice) bool {
		return d.VolumeID == v.ID
	}); at >= 0 {
		a.device = i.BlockDevices[at]
		a.wanted = found && a.device.Detaching.IsZero() && i.Wanted == ec2types.InstanceStateNameRunning &&
			v.Deleted.IsZero()
		a.force = a.device.Force
		a.ending = i.Wanted != ec2types.InstanceStateNameRunning
	}
	switch m.State {
	case ec2types.InstanceStateNameStopped, ec2types.InstanceStateNameTerminated, "":
		a.off = true
	}
	return a, nil
}

// reconcileAttachment makes one attachment as it should be, and returns it as it is; nil when there is none.
func (c *Controller) reconcileAttachment(ctx context.Context, a attachment, devices []loopdevice.Device, size int64) (
	observed *record.DiskAttachment, wait time.Duration, err error) {
	defer c.tables.lock(a.instance.ID)()
	if a.device.Root {
		return c.settleRoot(a, devices, size)
	}
	dir := filepath.Join(c.o.Machines, a.instance.ID)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		wait, err := c.release(a, devices, -1)
		if a.wanted {
			wait = soonest(wait, time.Second) // until the machine has been prepared
		}
		return nil, wait, err
	}
	table, err := disks.ReadTable(dir)
	if err != nil {
		return nil, 0, err
	}
	at := slices.IndexFunc(table.Disks, func(d disks.Disk) bool { return d.VolumeID == a.volumeID })
	switch {
	case a.wanted && !a.off:
		return c.attach(ctx, a, dir, table, at, devices, size)
	case a.off && a.wanted:
		wait = time.Second // it is about to start
	case a.ending && !a.off: // what it has not written yet is written while it shuts down
		if at < 0 {
			return nil, time.Second, nil
		}
		return a.lastObserved(table.Disks[at]), time.Second, nil
	}
	if at >= 0 {
		still, again, err := c.detach(ctx, a, dir, table, at)
		if err != nil || still != nil {
			return still, again, err
		}
	}
	again, err := c.release(a, devices, -1)
	return nil, soonest(wait, again), err
}

// attach gives a machine the disk.
func (c *Controller) attach(ctx context.Context, a attachment, dir string, table disks.Table, at int,
	devices []loopdevice.Device, size int64) (*record.DiskAttachment, time.Duration, error) {
	name := c.name(a)
	if a.observed == nil {
		if connection, err := disks.Connect(dir); a.isUnserved(err) {
			return nil, 0, c.abortAttachment(ctx, a, dir, table, at, devices)
		} else if err == nil {
			_ = connection.Close() // nothing was sent
		}
		a.observed = &record.DiskAttachment{InstanceID: a.instance.ID, Device: a.device.DeviceName}
		if err := a.claim(*a.observed); err != nil {
			return nil, 0, err
		}
		crashClaimed.Here()
	}
	if at < 0 {
		at = len(table.Disks)
		table.Disks = append(table.Disks, disks.Disk{VolumeID: a.volumeID, Number: freeNumber(table), Loop: -1,
			AttachedAt: time.Now().UTC()})
	}
	d := table.Disks[at]
	d.Device, d.Detaching, d.Force = a.device.DeviceName, false, false
	kept := false
	if d.Loop >= 0 {
		var err error
		if kept, err = c.isDisk(d.Loop, name); err != nil {
			return a.keepIfSilent(err, d)
		}
	}
	if !kept {
		if err := a.checkDevices(); err != nil {
			return a.lastObserved(d), 0, err
		}
		loop, err := c.openLoop(name)
		if errors.Is(err, loopdevice.ErrUdev) {
			return a.lastObserved(d), 0, fail(err, "no volume is attached on this host: see coracle doctor")
		}
		if err != nil {
			return a.lastObserved(d), 0, fail(err, "the host has no loop device for the volume")
		}
		crashLooped.Here()
		d.Loop = loop
	}
	if d != table.Disks[at] || at == len(table.Disks)-1 {
		table.Disks[at] = d
		if err := table.Write(dir); err != nil {
			return nil, 0, err
		}
		crashListed.Here()
	}
	if err := loopdevice.Grow(d.Loop, size); err != nil {
		return a.keepIfSilent(err, d)
	}
	state, err := c.apply(ctx, dir, a.volumeID)
	switch {
	case a.isUnserved(err) && a.observed.Attaching():
		return nil, 0, c.abortAttachment(ctx, a, dir, table, at, append(slices.Clone(devices),
			loopdevice.Device{Number: d.Loop, Name: name}))
	case errors.Is(err, disks.ErrNotServed):
		return a.lastObserved(d), time.Second, nil // its launcher has not begun
	case err != nil:
		return nil, 0, err
	case state.State != disks.Attached:
		return a.lastObserved(d), 0, fail(errors.New(state.Error), "%s cannot have the volume: %s", a.instance.ID,
			state.Error)
	}
	crashAttached.Here()
	// The machine has lost what the table had before: others may get such a number from here on.
	wait, err := c.release(a, devices, d.Loop)
	is := a.lastObserved(d)
	is.AttachedAt = d.AttachedAt
	return is, wait, err
}

// isUnserved reports whether an error says that the machine runs, and nobody can give it disks as long as it does.
func (a attachment) isUnserved(err error) bool {
	return errors.Is(err, disks.ErrNotServed) && a.machine.State == ec2types.InstanceStateNameRunning &&
		time.Since(a.machine.LaunchedAt) > patience
}

// abortAttachment takes back what was prepared for a machine that cannot have the disk, and returns the failure that
// says so. The table loses the disk first: a launcher that has come meanwhile reads that, and the device is released
// only when there is none.
func (c *Controller) abortAttachment(ctx context.Context, a attachment, dir string, table disks.Table, at int,
	devices []loopdevice.Device) error {
	if at >= 0 {
		table.Disks = slices.Delete(table.Disks, at, at+1)
		if err := table.Write(dir); err != nil {
			return err
		}
	}
	if _, err := c.apply(ctx, dir, a.volumeID); !errors.Is(err, disks.ErrNotServed) {
		return fmt.Errorf("the launcher of %s has come: %w", a.instance.ID, cmp.Or(err, errComing))
	}
	if _, err := c.release(a, devices, -1); err != nil {
		return err
	}
	return fail(disks.ErrNotServed, "%s was started by a version of Coracle that had no volumes: stop and start it",
		a.instance.ID)
}

// errComing is the error when a launcher has begun to give a machine disks: another pass finds it.
var errComing = errors.New("it is asked again")

// lastObserved returns an attachment as it was observed before: of a machine that may have the disk.
func (a attachment) lastObserved(d disks.Disk) *record.DiskAttachment {
	if a.observed == nil {
		return &record.DiskAttachment{InstanceID: a.instance.ID, Device: d.Device}
	}
	is := *a.observed
	is.Device = d.Device
	return &is
}

// keepIfSilent returns what is left of an attachment when something about its device has failed: where that does not
// answer, the owner of the volume is told, and the rest of the pass goes on.
func (a attachment) keepIfSilent(err error, d disks.Disk) (*record.DiskAttachment, time.Duration, error) {
	if !errors.Is(err, loopdevice.ErrSilent) {
		return nil, 0, err
	}
	return a.lastObserved(d), 0, fail(err, "the disk of %s does not answer: terminate the instance if that does not pass",
		a.instance.ID)
}

// keptOpen is the number of devices that a machine may have beside those of its volumes: of disks that were detached
// and that its programs keep open.
const keptOpen = 16

// checkDevices returns a failure when the machine of an instance has more devices than that, or when an account would
// leave others fewer than it has itself.
func (c *Controller) checkDevices(ctx context.Context, volumeKey string, i record.Instance) error {
	all, err := loopdevice.List(c.o.Owner)
	if err != nil {
		return err
	}
	ofInstance := 0
	for _, d := range all {
		if d.Name.InstanceID == i.ID {
			ofInstance++
		}
	}
	if ofInstance >= len(i.BlockDevices)+keptOpen {
		return fail(nil, "programs in %s keep %d detached disks open: end them, or stop and start the instance", i.ID,
			ofInstance-len(i.BlockDevices)+1)
	}
	free, err := c.freeDevices()
	if err != nil {
		return err
	}
	if len(all) < free {
		return nil
	}
	account, _, _ := strings.Cut(volumeKey, "/")
	rows, err := c.disks.List(ctx, account+"/")
	if err != nil {
		return err
	}
	own := map[string]bool{}
	for _, r := range rows {
		own[r.Value.VolumeID] = true
	}
	ofAccount := 0
	for _, d := range all {
		if own[d.Name.Volume] {
			ofAccount++
		}
	}
	if ofAccount >= free {
		return fail(nil, "the account has %d of the host's loop devices, and %d are free for all: detach volumes, and end "+
			"programs that keep detached ones open", ofAccount, free)
	}
	return nil
}

// patience is the time in which the launcher of a machine that runs is there.
const patience = 30 * time.Second

// detach takes the disk from a machine, and returns the attachment as long as it is there.
func (c *Controller) detach(ctx context.Context, a attachment, dir string, table disks.Table, at int) (
	*record.DiskAttachment, time.Duration, error) {
	d := table.Disks[at]
	if !d.Detaching || d.Force != a.force {
		d.Detaching, d.Force = true, a.force
		table.Disks[at] = d
		if err := table.Write(dir); err != nil {
			return nil, 0, err
		}
	}
	still := a.lastObserved(d)
	state, err := c.apply(ctx, dir, a.volumeID)
	switch {
	case errors.Is(err, disks.ErrNotServed) && a.off:
	case a.isUnserved(err) && still.Attaching(): // it never had the disk, and nobody can give it to it
	case errors.Is(err, disks.ErrNotServed): // its launcher is about to end, or to begin
		return still, time.Second, nil
	case err != nil:
		return nil, 0, err
	case state.State == disks.Busy:
		still.Busy = true
		return still, time.Second, nil
	case state.State != disks.Detached:
		return still, 0, fail(errors.New(state.Error), "%s keeps the volume: %s", a.instance.ID, state.Error)
	}
	crashDetached.Here()
	if err := loopdevice.Release(d.Loop, c.name(a)); err != nil && !errors.Is(err, loopdevice.ErrInUse) {
		return a.keepIfSilent(err, d)
	}
	crashReleased.Here()
	table.Disks = slices.Delete(table.Disks, at, at+1)
	return nil, 0, table.Write(dir)
}

// apply makes the launcher of a machine read its table, and returns the state of one disk.
func (c *Controller) apply(ctx context.Context, dir, volumeID string) (disks.State, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	states, err := disks.Apply(ctx, dir)
	if err != nil {
		return disks.State{}, err
	}
	for _, s := range states {
		if s.VolumeID == volumeID {
			return s, nil
		}
	}
	return disks.State{State: disks.Failed, Error: "the machine does not know it"}, nil
}

func (c *Controller) name(a attachment) loopdevice.Name {
	return loopdevice.Name{Owner: c.o.Owner, Volume: a.volumeID, InstanceID: a.instance.ID}
}

// release releases the devices of an attachment but one, and those that wait for programs to close them.
func (c *Controller) release(a attachment, devices []loopdevice.Device, keep int) (wait time.Duration, err error) {
	for _, d := range devices {
		if d.Name != c.name(a) || d.Number == keep {
			continue
		}
		if err := loopdevice.Release(d.Number, d.Name); errors.Is(err, loopdevice.ErrInUse) {
			wait = retryFailed
		} else if err != nil {
			return 0, err
		}
	}
	return wait, nil
}

// freeNumber returns the lowest number of an NVMe name that no disk of a table has.
func freeNumber(t disks.Table) int {
	for number := 1; ; number++ {
		if !slices.ContainsFunc(t.Disks, func(d disks.Disk) bool { return d.Number == number }) {
			return number
		}
	}
}

// openLoop makes the file of a volume a device. The file is opened by a mount of its directory that is nowhere:
// machines read the paths of such files, of all devices of the host, and learn nothing by this one.
func (c *Controller) openLoop(name loopdevice.Name) (int, error) {
	dir := filepath.Join(c.o.Dir, name.Volume)
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(tree)
	fd, err := unix.Openat(tree, diskFile, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), diskFile)
	defer f.Close()
	return loopdevice.Attach(f, name)
}
