//go:build linux

// Package volume makes EBS volumes disks of this host, and attaches them to machines.
//
// The disk of a volume is a sparse file. A machine that has it gets a loop device of the host, by the launcher of the
// machine (package disks): one for each attachment, whose number no other disk gets as long as anybody has it open
// (package loopdevice). A snapshot is a file as well.
//
// # What a snapshot has
//
// The content of a snapshot is that of one moment, as after a loss of power: what programs had not written to the disk
// yet is not in it, as on EBS. A file system of the volume that is mounted is made to write what it has, and held for
// that moment. Where the file system of the data directory shares blocks between files (XFS, Btrfs), the file is cloned
// at once. Elsewhere it is copied while it is written, and so is once more what has changed, unless the copy was quick;
// then writes of the mounted file system are held, and the rest is copied. What has more content than can be compared
// in that time fails before. A disk that programs write without a file system cannot be held: its copy is made again
// until nothing was written during one, and the snapshot fails when that does not happen.
package volume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

var (
	crashMade      = crash.At("volume/made")
	crashClaimed   = crash.At("volume/claimed")
	crashLooped    = crash.At("volume/looped")
	crashListed    = crash.At("volume/listed")
	crashAttached  = crash.At("volume/attached")
	crashDetached  = crash.At("volume/detached")
	crashReleased  = crash.At("volume/released")
	crashGrown     = crash.At("volume/grown")
	crashDiscarded = crash.At("volume/discarded")
	crashCopied    = crash.At("volume/copied")
)

// Options configures a Controller.
type Options struct {
	Store    *store.Store
	Owner    string // datadir.Dir.Owner
	Dir      string // <data-dir>/volumes: a directory for each volume and snapshot
	Machines string // machine.Options.Dir
	Log      *slog.Logger
	// Free returns the bytes that are free on the disk of a directory; diskspace.Free when nil.
	Free func(dir string) (int64, error)
}

// Controller reconciles the disks of volumes and the content of snapshots.
type Controller struct {
	o             Options
	log           *slog.Logger
	volumes       store.Table[record.Volume]
	disks         store.Table[record.VolumeDisk]
	snapshots     store.Table[record.Snapshot]
	snapshotDisks store.Table[record.SnapshotDisk]
	instances     store.Table[record.Instance]
	machines      store.Table[record.Machine]
	// What is asked all the time is found without a look at what others have.
	disksByInstance    [record.MaxMultiAttach]store.Index[record.VolumeDisk]
	volumesByContent   store.Index[record.Volume]
	snapshotsByContent store.Index[record.Snapshot]
	tables             locks // of tables of disks, by instance ID
	contents           locks // of the making and the removal of disks, by volume ID
	kept               holds // of content, by the ID of the volume or snapshot
	// grown are the sizes in bytes that the file systems of root volumes were made as large as, by loop number.
	grown sync.Map
	// failures are the attempts (*attempt) at content that could not be made, by the key of the volume. filled wakes who
	// tells about it.
	failures sync.Map
	filled   chan string
	// freezePatience is the time in which a machine is to hold its writes, and holdLimit that for which it does.
	freezePatience, holdLimit time.Duration
	isDisk                    func(number int, name loopdevice.Name) (bool, error)
	freeDevices               func() (int, error)
	devicesOf                 func(owner, volumeID string) ([]loopdevice.Device, error)
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Free == nil {
		o.Free = diskspace.Free
	}
	s := o.Store
	return &Controller{
		o: o, log: o.Log, volumes: record.Volumes(s), disks: record.VolumeDisks(s), snapshots: record.Snapshots(s),
		snapshotDisks: record.SnapshotDisks(s), instances: record.Instances(s), machines: record.Machines(s),
		disksByInstance: record.VolumeDisksByInstance(s), volumesByContent: record.VolumesByContent(s),
		snapshotsByContent: record.SnapshotsByContent(s),
		isDisk:             loopdevice.Is, freeDevices: loopdevice.Free, filled: make(chan string),
		devicesOf: loopdevice.ListVolume, freezePatience: patience, holdLimit: holdLimit,
	}
}

// Controllers returns the controllers that reconcile.Run runs. What depends on a machine or on the size of content
// takes its time: the volumes of one account do not hold all workers, and copies none of those that attach and detach.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "volume",
		Reconcile: c.reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(c.volumes, ""), reconcile.Table(c.disks, ""), c.leftovers("vol-"),
			reconcile.Mapped(c.instances, "", c.ofInstance), reconcile.Mapped(c.machines, "", c.ofInstance),
			reconcile.Channel(c.filled),
		},
		Workers:        16,
		AccountWorkers: 4,
		Timeout:        2 * time.Minute,
		Resync:         30 * time.Second,
	}, {
		Name:           "volumecontent",
		Reconcile:      c.fill,
		Sources:        []reconcile.Source{reconcile.Table(c.volumes, "")},
		Workers:        8,
		AccountWorkers: 2,
		Resync:         time.Minute,
	}, {
		Name:      "snapshot",
		Reconcile: c.reconcileSnapshot,
		Sources: []reconcile.Source{
			reconcile.Table(c.snapshots, ""), reconcile.Table(c.snapshotDisks, ""), c.leftovers("snap-"),
		},
		Workers:        8,
		AccountWorkers: 2,
		Resync:         time.Minute,
	}}
}

// ofInstance returns the keys of the volumes that an instance has or had.
func (c *Controller) ofInstance(key string) (keys []string) {
	at := strings.LastIndexByte(key, '/') + 1
	if i, err := c.instances.Get(context.Background(), key); err == nil {
		for _, d := range i.Value.BlockDevices {
			keys = append(keys, key[:at]+d.VolumeID)
		}
	}
	for _, place := range c.disksByInstance {
		rows, err := place.List(context.Background(), key[at:])
		if err != nil {
			return keys
		}
		for _, r := range rows {
			if strings.HasPrefix(r.Key, key[:at]) {
				keys = append(keys, r.Key)
			}
		}
	}
	return keys
}

// leftovers sends the keys of files and devices of which there is no record. Records are read last: what is made in the
// meantime has one.
func (c *Controller) leftovers(prefix string) reconcile.Source {
	return func(ctx context.Context, changed func(string)) {
		found := map[string]bool{}
		entries, _ := os.ReadDir(c.o.Dir)
		for _, e := range entries {
			found[e.Name()] = true
		}
		devices, _ := loopdevice.List(c.o.Owner)
		for _, d := range devices {
			found[d.Name.Volume] = true
		}
		known, err := c.listIDs(ctx)
		if err != nil {
			c.log.Warn("could not look for what is left of deleted volumes", "error", err)
		} else {
			for id := range found {
				if strings.HasPrefix(id, prefix) && !known[id] {
					changed(record.EC2Key("", "", id))
				}
			}
		}
		<-ctx.Done()
	}
}

// listIDs returns the IDs of all volumes and snapshots.
func (c *Controller) listIDs(ctx context.Context) (map[string]bool, error) {
	ids := map[string]bool{}
	volumes, err1 := c.volumes.List(ctx, "")
	snapshots, err2 := c.snapshots.List(ctx, "")
	for _, v := range volumes {
		ids[v.Value.ID] = true
	}
	for _, s := range snapshots {
		ids[s.Value.ID] = true
	}
	return ids, errors.Join(err1, err2)
}

// isOrphan reports whether a key is of something that is left over, and still has no record.
func (c *Controller) isOrphan(ctx context.Context, key string) (left, known bool, err error) {
	if key != record.EC2Key("", "", idOf(key)) {
		return false, false, nil
	}
	ids, err := c.listIDs(ctx)
	return true, ids[idOf(key)], err
}

// idOf returns the ID in an EC2Key.
func idOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// get returns a record, or the zero value when there is none.
func get[T any](ctx context.Context, t store.Table[T], key string) (v T, found bool, err error) {
	row, err := t.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return v, false, nil
	}
	return row.Value, err == nil, err
}

// putIfChanged writes a record, if it has changed.
func putIfChanged[T any](ctx context.Context, t store.Table[T], key string, v T) error {
	before, found, err := get(ctx, t, key)
	if err != nil || found && reflect.DeepEqual(before, v) {
		return err
	}
	_, err = t.Put(ctx, key, v)
	return err
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	v, found, err := get(ctx, c.volumes, key)
	if err != nil || v.Diskless {
		return reconcile.Result{}, err
	}
	d, _, err := get(ctx, c.disks, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	d.VolumeID = idOf(key)
	if !found || !v.Deleted.IsZero() {
		return c.discard(ctx, key, d)
	}
	if d.Final {
		return reconcile.Result{}, nil
	}
	d.Failure = ""
	var wait time.Duration
	made, err := c.make(ctx, key, v, &d)
	if err == nil && made {
		grows, grown := c.grow(ctx, key, v, &d)
		if wait, err = c.attachAll(ctx, key, v, &d); err == nil {
			wait, err = soonest(wait, grows), grown
		}
	}
	var known *failure
	if errors.As(err, &known) {
		c.log.Error("a volume is not as it should be", "volume", v.ID, "error", errors.Join(known, known.cause))
		d.Failure, d.Final, err, wait = known.text, known.final, nil, soonest(wait, retryFailed)
	}
	// What machines have is written although they took all the time to say so.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryFailed)
	defer cancel()
	return reconcile.Result{After: wait}, errors.Join(err, putIfChanged(ctx, c.disks, key, d))
}

// retryFailed is the time after which what has failed is tried again.
const retryFailed = 10 * time.Second

func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// failure is an error that the owner of a volume or snapshot is told: without paths of the host.
type failure struct {
	text  string
	cause error
	// passes reports that it may pass by itself, as a full disk does. final is set for content that is not tried again.
	passes, final bool
}

func (f *failure) Error() string { return f.text }

func fail(cause error, format string, args ...any) error {
	return &failure{text: record.Reason(fmt.Sprintf(format, args...)), cause: cause}
}

// discard detaches and removes the disk of a volume that is deleted.
func (c *Controller) discard(ctx context.Context, key string, d record.VolumeDisk) (reconcile.Result, error) {
	if left, known, err := c.isOrphan(ctx, key); err != nil || left && known {
		return reconcile.Result{Gone: err == nil}, err
	}
	wait, err := c.attachAll(ctx, key, record.Volume{EC2Resource: resourceOf(key)}, &d)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(d.Attachments) > 0 || wait > 0 {
		return reconcile.Result{After: max(wait, time.Second)}, putIfChanged(ctx, c.disks, key, d)
	}
	needed, err := c.volumeNeeded(ctx, key, func(_ int32, failure string) bool { return failure == "" })
	if err != nil {
		return reconcile.Result{}, err
	}
	if needed {
		return reconcile.Result{After: time.Second}, nil
	}
	unlock, ok := c.contents.try(idOf(key))
	if !ok { // it is being made, which ends now
		return reconcile.Result{After: time.Second}, nil
	}
	defer unlock()
	released, ok := c.kept.tryRemoval(idOf(key))
	if !ok { // a backup reads it
		return reconcile.Result{After: time.Second}, nil
	}
	defer released()
	c.failures.Delete(key)
	if err := c.remove(idOf(key)); err != nil {
		return reconcile.Result{}, err
	}
	crashDiscarded.Here()
	return reconcile.Result{Gone: true}, c.o.Store.Txn(ctx, c.disks.RemoveOp(key))
}

// resourceOf returns the identity of a resource of which there is no record.
func resourceOf(key string) record.EC2Resource {
	r := record.EC2Resource{ID: idOf(key)}
	if parts := store.Parts(key); len(parts) == 3 {
		r.Account, r.Region = parts[0], parts[1]
	}
	return r
}

// volumeNeeded reports whether something is still to be made from the disk of a volume, of those whose size and failure
// count.
func (c *Controller) volumeNeeded(ctx context.Context, key string, counts func(size int32, failure string) bool) (
	bool, error) {
	prefix, id := key[:strings.LastIndexByte(key, '/')+1], idOf(key)
	snapshots, err := c.snapshotsByContent.List(ctx, id)
	if err != nil {
		return false, err
	}
	for _, s := range snapshots {
		if !strings.HasPrefix(s.Key, prefix) || !s.Value.Deleted.IsZero() || !counts(s.Value.VolumeSize, "") {
			continue
		}
		if d, _, err := get(ctx, c.snapshotDisks, s.Key); err != nil || !d.Complete && d.Failure == "" {
			return true, err
		}
	}
	return c.beginsWith(ctx, prefix, id, func(v record.Volume, failure string) bool {
		return counts(v.Size, failure)
	})
}

// beginsWith reports whether a volume that begins with the content of a snapshot or volume has no disk yet, of those
// that count.
func (c *Controller) beginsWith(ctx context.Context, prefix, id string,
	counts func(v record.Volume, failure string) bool) (bool, error) {
	volumes, err := c.volumesByContent.List(ctx, id)
	if err != nil {
		return false, err
	}
	for _, v := range volumes {
		if !strings.HasPrefix(v.Key, prefix) || !v.Value.Deleted.IsZero() {
			continue
		}
		d, _, err := get(ctx, c.disks, v.Key)
		if err != nil {
			return false, err
		}
		if d.Size == 0 && counts(v.Value, d.Failure) {
			return true, nil
		}
	}
	return false, nil
}

// file returns the file of a volume or a snapshot.
func (c *Controller) file(id string) string { return filepath.Join(c.o.Dir, id, diskFile) }

const diskFile = "disk"

// checkSpace refuses what would need disk space when there is little.
func (c *Controller) checkSpace(what string, need int64) error {
	return c.checkLeast(what, need, diskspace.Reserve)
}

// checkLeast refuses what would leave less disk space than that.
func (c *Controller) checkLeast(what string, need, least int64) error {
	if err := os.MkdirAll(c.o.Dir, 0o700); err != nil {
		return err
	}
	free, err := c.o.Free(c.o.Dir)
	if err != nil {
		return err
	}
	if free-need < least {
		return &failure{passes: true, text: fmt.Sprintf("the host has too little free disk space for %s: %d MiB are free, "+
			"of which %d MiB are reserved", what, free>>20, least>>20)}
	}
	return nil
}
