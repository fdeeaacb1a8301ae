package simulated

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Volumes simulates the disks of volumes and the content of snapshots, as internal/host/volume makes them for real
// machines: they are there and attached at once, and nothing is behind them.
type Volumes struct {
	volumes       store.Table[record.Volume]
	disks         store.Table[record.VolumeDisk]
	snapshots     store.Table[record.Snapshot]
	snapshotDisks store.Table[record.SnapshotDisk]
	instances     store.Table[record.Instance]
}

// NewVolumes returns a Volumes over the tables of a store.
func NewVolumes(s *store.Store) *Volumes {
	return &Volumes{volumes: record.Volumes(s), disks: record.VolumeDisks(s), snapshots: record.Snapshots(s),
		snapshotDisks: record.SnapshotDisks(s), instances: record.Instances(s)}
}

// Controllers returns the controllers that reconcile.Run runs. Their keys are those of volumes and of snapshots.
func (v *Volumes) Controllers() []reconcile.Controller {
	return []reconcile.Controller{
		{
			Name: "simulatedvolumes", Reconcile: v.reconcileVolume, Workers: 4,
			Sources: []reconcile.Source{reconcile.Table(v.volumes, ""), reconcile.Table(v.disks, ""), v.watchInstances},
		},
		{
			Name: "simulatedsnapshots", Reconcile: v.reconcileSnapshot,
			Sources: []reconcile.Source{reconcile.Table(v.snapshots, ""), reconcile.Table(v.snapshotDisks, "")},
		},
	}
}

// watchInstances tells of the volumes of an instance that has changed.
func (v *Volumes) watchInstances(ctx context.Context, changed func(string)) {
	v.instances.Notify(ctx, "", func(key string) {
		row, err := v.instances.Get(ctx, key)
		if err != nil {
			return
		}
		for _, b := range row.Value.BlockDevices {
			changed(record.EC2Key(row.Value.Account, row.Value.Region, b.VolumeID))
		}
	})
}

func (v *Volumes) reconcileVolume(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := v.volumes.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !row.Value.Deleted.IsZero() {
		return reconcile.Result{Gone: err != nil}, deleteRow(ctx, v.disks, key)
	}
	if err != nil || row.Value.Diskless {
		return reconcile.Result{}, err
	}
	old, err := v.disks.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	disk := record.VolumeDisk{VolumeID: row.Value.ID, Size: row.Value.Size}
	for _, id := range row.Value.InstanceIDs() {
		instance, err := v.instances.Get(ctx, record.EC2Key(row.Value.Account, row.Value.Region, id))
		if err != nil {
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			return reconcile.Result{}, err
		}
		if a, wanted := attachmentOf(instance.Value, row.Value.ID, old.Value); wanted {
			disk.Attachments = append(disk.Attachments, a)
		}
	}
	if reflect.DeepEqual(disk, old.Value) {
		return reconcile.Result{}, nil
	}
	_, err = v.disks.Put(ctx, key, disk)
	return reconcile.Result{}, err
}

// attachmentOf returns the attachment of a volume to an instance that wants it, as it was observed before or as of now.
func attachmentOf(instance record.Instance, volume string, old record.VolumeDisk) (record.DiskAttachment, bool) {
	i := slices.IndexFunc(instance.BlockDevices,
		func(b record.InstanceBlockDevice) bool { return b.VolumeID == volume && b.Detaching.IsZero() })
	if i < 0 {
		return record.DiskAttachment{}, false
	}
	a := record.DiskAttachment{InstanceID: instance.ID, Device: instance.BlockDevices[i].DeviceName,
		AttachedAt: time.Now().UTC()}
	for _, o := range old.Attachments {
		if o.InstanceID == a.InstanceID && o.Device == a.Device {
			a.AttachedAt = o.AttachedAt
		}
	}
	return a, true
}

func (v *Volumes) reconcileSnapshot(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := v.snapshots.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !row.Value.Deleted.IsZero() {
		return reconcile.Result{Gone: err != nil}, deleteRow(ctx, v.snapshotDisks, key)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	disk := record.SnapshotDisk{SnapshotID: row.Value.ID, Complete: true, Progress: 100}
	if old, err := v.snapshotDisks.Get(ctx, key); err == nil && old.Value == disk {
		return reconcile.Result{}, nil
	}
	_, err = v.snapshotDisks.Put(ctx, key, disk)
	return reconcile.Result{}, err
}

// deleteRow deletes a row if it is there.
func deleteRow[T any](ctx context.Context, table store.Table[T], key string) error {
	row, err := table.Get(ctx, key)
	if err == nil {
		err = table.Delete(ctx, row)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
