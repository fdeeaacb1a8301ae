package volume

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Lifecycle updates the records of volumes and snapshots when what is observed of their disks changes. The controller
// internal/controller/volume calls it, because only this package writes these records.
type Lifecycle struct{ s *Service }

// NewLifecycle returns the lifecycle of the volumes of a service.
func NewLifecycle(s *Service) Lifecycle { return Lifecycle{s} }

// ReconcileVolume reconciles the volume with the given key: it ends attachments whose disks are detached, completes
// modifications, and deletes what has no disk any more. gone reports whether nothing is left of the volume.
func (l Lifecycle) ReconcileVolume(ctx context.Context, key string) (gone bool, err error) {
	row, err := l.s.Volumes.Table.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil || row.Value.Diskless {
		return false, err
	}
	v := row.Value
	sc := resource.Scope{Context: ctx, Account: v.Account, Region: v.Region}
	for _, id := range v.InstanceIDs() {
		if err := l.s.CommitPlan(sc, nil, func(c *resource.Change) error { return endDetachment(c, v.ID, id) }); err != nil {
			return false, err
		}
	}
	err = l.s.CommitPlan(sc, nil, func(c *resource.Change) error {
		gone, err = finish(c, v.ID)
		return err
	})
	return gone, err
}

// endDetachment removes the entry of a volume from an instance that is to lose it, once its disk was seen detached; and
// the instance from the volume.
func endDetachment(c *resource.Change, volume, instance string) error {
	v, err := c.Volumes.Table.Get(c, c.Key(volume))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || !slices.Contains(v.Value.InstanceIDs(), instance) {
		return err
	}
	i, err := c.Instances.Table.Get(c, c.Key(instance))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	at := slices.IndexFunc(i.Value.BlockDevices, func(b record.InstanceBlockDevice) bool { return b.VolumeID == volume })
	if at >= 0 && i.Value.BlockDevices[at].Detaching.IsZero() {
		return nil
	}
	disk, _, err := c.ObserveDisk(volume)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(disk.Attachments, func(a record.DiskAttachment) bool { return a.InstanceID == instance }) {
		c.Reset()
		return nil
	}
	terminated := false
	if at >= 0 { // an instance that has gone, or has lost it, has no entry
		if err := c.Instances.WithHidden().UpdateRecord(c, instance, func(r *record.Instance) error {
			r.BlockDevices = slices.DeleteFunc(slices.Clone(r.BlockDevices), func(b record.InstanceBlockDevice) bool {
				if b.VolumeID != volume || b.Detaching.IsZero() {
					return false
				}
				terminated = b.DeleteOnTermination && r.Wanted == types.InstanceStateNameTerminated
				return true
			})
			return nil
		}); err != nil {
			return err
		}
	}
	return c.Volumes.WithHidden().UpdateRecord(c, volume, func(v *record.Volume) error {
		v.Detach(instance)
		if terminated && v.InstanceID == "" {
			v.Deleted = c.Now().UTC()
			c.ReleaseToken(c.Volumes.Naming, &v.EC2Resource)
		}
		return nil
	})
}

// finish completes the modification of a volume whose disk has its size, and deletes the record of one that is deleted
// and has no disk.
func finish(c *resource.Change, id string) (gone bool, err error) {
	row, err := c.Volumes.Table.Get(c, c.Key(id))
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	v := row.Value
	modified := v.Modification != nil && v.Modification.CompletedAt.IsZero()
	if v.Deleted.IsZero() && !modified {
		return false, nil
	}
	disk, there, err := c.ObserveDisk(id)
	switch {
	case err != nil:
		return false, err
	case !v.Deleted.IsZero() && !there:
		_, err := c.Volumes.WithHidden().DeleteRecord(c, id)
		return err == nil, err
	case modified && disk.Size >= v.Size:
		return false, c.Volumes.WithHidden().UpdateRecord(c, id, func(v *record.Volume) error {
			m := *v.Modification
			m.CompletedAt = c.Now().UTC()
			v.Modification = &m
			return nil
		})
	}
	c.Reset()
	return false, nil
}

// ReconcileSnapshot deletes the record of the snapshot with the given key once it is deleted and has no content.
func (l Lifecycle) ReconcileSnapshot(ctx context.Context, key string) (gone bool, err error) {
	row, err := l.s.Snapshots.Table.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil || row.Value.Deleted.IsZero() {
		return false, err
	}
	r := row.Value
	sc := resource.Scope{Context: ctx, Account: r.Account, Region: r.Region}
	err = l.s.CommitPlan(sc, nil, func(c *resource.Change) error {
		gone = false
		if _, err := c.SnapshotDisks.Get(c, key); !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if _, err := c.Snapshots.Table.Get(c, key); errors.Is(err, store.ErrNotFound) {
			gone = true
			return nil
		}
		c.Add("snapshotdisk/"+r.ID, func() store.Op { return c.SnapshotDisks.AbsentOp(key) })
		_, err := c.Snapshots.DeleteRecord(c, r.ID)
		gone = err == nil
		return err
	})
	return gone, err
}
