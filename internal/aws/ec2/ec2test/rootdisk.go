package ec2test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// ObserveRootDisk stands in for internal/host/volume, for the volume with the given key if it was launched as the root
// volume of an instance: its disk is there, and attached as long as the instance wants that. Disks of other volumes are
// up to the test.
func ObserveRootDisk(ctx context.Context, s *store.Store, key string) error {
	disks := record.VolumeDisks(s)
	row, err := record.Volumes(s).Get(ctx, key)
	v := row.Value
	if errors.Is(err, store.ErrNotFound) || err == nil && (v.Diskless || !v.OfImage) {
		return nil
	}
	if err != nil {
		return err
	}
	old, err := disks.Get(ctx, key)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case !v.Deleted.IsZero() && err == nil:
		return disks.Delete(ctx, old)
	case !v.Deleted.IsZero():
		return nil
	}
	want := record.VolumeDisk{VolumeID: v.ID, Size: v.Size}
	for _, id := range v.InstanceIDs() {
		i, err := record.Instances(s).Get(ctx, record.EC2Key(v.Account, v.Region, id))
		if err != nil {
			continue
		}
		if at := slices.IndexFunc(i.Value.BlockDevices, func(b record.InstanceBlockDevice) bool {
			return b.VolumeID == v.ID && b.Root && b.Detaching.IsZero()
		}); at >= 0 {
			want.Attachments = []record.DiskAttachment{{InstanceID: id, Device: i.Value.BlockDevices[at].DeviceName,
				AttachedAt: time.Now()}}
		}
	}
	if old.Value.Size == want.Size && len(old.Value.Attachments) == len(want.Attachments) {
		return nil
	}
	_, err = disks.Put(ctx, key, want)
	return err
}

// VolumesOf returns the keys of the volumes of the instance with the given key.
func VolumesOf(s *store.Store, key string) (keys []string) {
	row, err := record.Instances(s).Get(context.Background(), key)
	if err != nil {
		return nil
	}
	for _, b := range row.Value.BlockDevices {
		keys = append(keys, record.EC2Key(row.Value.Account, row.Value.Region, b.VolumeID))
	}
	return keys
}
