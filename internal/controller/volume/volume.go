// Package volume reconciles the records of EBS volumes and snapshots with what is observed of their disks.
//
// An attachment that is to end is over once the disk was seen detached. A modification is complete once the disk has
// its size. The record of a deleted volume or snapshot goes once there is no disk or content any more.
//
// The package reads volumes, snapshots and their disks, and instances. It writes through [EC2], because
// internal/aws/ec2 is the only writer of the records of volumes, snapshots and instances.
package volume

import (
	"context"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// EC2 writes the records of volumes and snapshots. volume.Lifecycle (internal/aws/ec2/volume) implements it.
type EC2 interface {
	// ReconcileVolume reconciles the volume with the given key; gone reports whether nothing is left of it.
	ReconcileVolume(ctx context.Context, key string) (gone bool, err error)
	// ReconcileSnapshot reconciles the snapshot with the given key.
	ReconcileSnapshot(ctx context.Context, key string) (gone bool, err error)
}

// Options configures a Controller.
type Options struct {
	Store *store.Store
	EC2   EC2
}

// Controller reconciles the volumes and snapshots of all accounts and regions.
type Controller struct{ o Options }

// New returns a Controller.
func New(o Options) *Controller { return &Controller{o: o} }

// Controllers returns what reconcile.Run runs. Keys are those of volumes and of snapshots.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{
		{
			Name:      "volumes",
			Reconcile: result(c.o.EC2.ReconcileVolume),
			Sources: []reconcile.Source{
				reconcile.Table(record.Volumes(c.o.Store), ""),
				reconcile.Table(record.VolumeDisks(c.o.Store), ""),
				c.watchInstances,
			},
			Workers: 4,
		},
		{
			Name:      "snapshots",
			Reconcile: result(c.o.EC2.ReconcileSnapshot),
			Sources: []reconcile.Source{
				reconcile.Table(record.Snapshots(c.o.Store), ""),
				reconcile.Table(record.SnapshotDisks(c.o.Store), ""),
			},
			Workers: 2,
		},
	}
}

func result(reconcileKey func(context.Context, string) (bool, error)) func(context.Context, string) (
	reconcile.Result, error) {
	return func(ctx context.Context, key string) (reconcile.Result, error) {
		gone, err := reconcileKey(ctx, key)
		return reconcile.Result{Gone: gone}, err
	}
}

// watchInstances tells of the volumes that an instance is to lose.
func (c *Controller) watchInstances(ctx context.Context, changed func(string)) {
	instances := record.Instances(c.o.Store)
	instances.Notify(ctx, "", func(key string) {
		row, err := instances.Get(ctx, key)
		if err != nil {
			return
		}
		for _, b := range row.Value.BlockDevices {
			if !b.Detaching.IsZero() {
				changed(record.EC2Key(row.Value.Account, row.Value.Region, b.VolumeID))
			}
		}
	})
}
