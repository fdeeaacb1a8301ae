// Package filesystem reconciles EFS file systems and their mount targets with what is on the host.
//
// The content of a file system is a directory below [datadir.Dir.FileSystemsDir]. It is made once: a directory that is
// missing later, such as after a restore on another host, is not made again, because an empty one in its place would
// look like lost files. None is made on a disk that is nearly full. The directory of a file system that is deleted is
// given another name first, under which nothing finds it any more, and to an owner that no machine has; then it is
// removed, and once it has gone, so do the records. Sizes are measured from time to time.
//
// A mount target is available when its network interface is there and the host serves mounts by it.
//
// The package reads file systems, mount targets, network interfaces and listeners. It writes [record.FileSystemContent]
// and [record.MountTargetStatus]; and through [EFS], because internal/aws/efs is the only writer of the records of file
// systems and mount targets.
package filesystem

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/moby/locker"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// EFS writes the records of file systems and mount targets. efs.Lifecycle (internal/aws/efs) implements it.
type EFS interface {
	// FinishFileSystem deletes the record of a file system that is deleted and has no content any more, with all that
	// belongs to it. It does nothing for others, and for one that has gone.
	FinishFileSystem(ctx context.Context, key string) error
	// FinishMountTarget deletes the record of a mount target that is deleted, with its network interface. It does
	// nothing for others, and for one that has gone.
	FinishMountTarget(ctx context.Context, key string) error
}

// Options configures a Controller.
type Options struct {
	Store *store.Store
	EFS   EFS
	// Dir is the data directory, which has the content.
	Dir datadir.Dir
	// Listeners reports whether the host writes [record.MountTargetListener] of the mount targets that it serves. Where
	// it does not, nothing can be mounted, and mount targets are available as soon as they are there.
	Listeners bool
	Log       *slog.Logger
	Now       func() time.Time // time.Now unless set
	// CheckSpace returns an error when the disk of a directory has no space for new ones; diskspace.CheckReserve unless
	// set.
	CheckSpace func(dir string) error
}

// Controller reconciles the file systems of all accounts and regions.
type Controller struct {
	o            Options
	fileSystems  store.Table[record.FileSystem]
	contents     store.Table[record.FileSystemContent]
	mountTargets store.Table[record.MountTarget]
	statuses     store.Table[record.MountTargetStatus]
	listeners    store.Table[record.MountTargetListener]
	interfaces   store.Table[record.NetworkInterface]

	// locks are of file systems by key: one is not made while it is removed.
	locks *locker.Locker

	mu       sync.Mutex
	measured map[string]measurement // by key of the file system
}

// New returns a Controller.
func New(o Options) *Controller {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CheckSpace == nil {
		o.CheckSpace = diskspace.CheckReserve
	}
	return &Controller{
		o: o, fileSystems: record.FileSystems(o.Store), contents: record.FileSystemContents(o.Store),
		mountTargets: record.MountTargets(o.Store), statuses: record.MountTargetStatuses(o.Store),
		listeners: record.MountTargetListeners(o.Store), interfaces: record.NetworkInterfaces(o.Store),
		measured: map[string]measurement{}, locks: locker.New(),
	}
}

// Controllers returns what reconcile.Run runs. Keys are those of file systems and of mount targets.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{
		{
			Name:      "filesystems",
			Reconcile: c.reconcileFileSystem,
			Sources: []reconcile.Source{
				reconcile.Table(c.fileSystems, ""), reconcile.Table(c.contents, ""),
			},
			Workers: 4, AccountWorkers: 2,
		},
		{
			// Of its own, because a machine that still writes can make a removal long.
			Name:      "filesystem-removals",
			Reconcile: c.reconcileRemoval,
			Sources: []reconcile.Source{
				reconcile.Table(c.fileSystems, ""), reconcile.Table(c.contents, ""),
			},
			Workers: 4, AccountWorkers: 1, Timeout: turn,
		},
		{
			Name:      "filesystem-sizes",
			Reconcile: c.reconcileSize,
			Sources:   []reconcile.Source{reconcile.Table(c.contents, "")},
			Workers:   2, AccountWorkers: 1, Timeout: turn,
		},
		{
			Name:      "mount-targets",
			Reconcile: c.reconcileMountTarget,
			Sources: []reconcile.Source{
				reconcile.Table(c.mountTargets, ""), reconcile.Table(c.statuses, ""), reconcile.Table(c.listeners, ""),
			},
			Workers: 2,
		},
	}
}

// turn is how long a directory is walked at once. Other accounts have their turns then.
const turn = time.Minute

// reconcileFileSystem makes the content of a file system.
func (c *Controller) reconcileFileSystem(ctx context.Context, key string) (reconcile.Result, error) {
	c.locks.Lock(key)
	defer c.unlock(key)
	row, err := c.fileSystems.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !row.Value.Deleted.IsZero() {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return c.ensureContent(ctx, row.Value)
}

// reconcileRemoval removes the content of a file system that is deleted, and then its records.
func (c *Controller) reconcileRemoval(ctx context.Context, key string) (reconcile.Result, error) {
	c.locks.Lock(key)
	defer c.unlock(key)
	row, err := c.fileSystems.Get(ctx, key)
	if err == nil && row.Value.Deleted.IsZero() {
		return reconcile.Result{}, nil
	}
	if err := ignoreMissing(err); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.removeContent(ctx, key); err != nil {
		if ctx.Err() != nil { // it is large, or something still writes to it
			return reconcile.Result{After: time.Second}, nil
		}
		return reconcile.Result{}, err
	}
	return reconcile.Result{Gone: true}, c.o.EFS.FinishFileSystem(ctx, key)
}

func (c *Controller) unlock(key string) {
	if err := c.locks.Unlock(key); err != nil {
		panic(err) // it is locked
	}
}

// reconcileMountTarget observes a mount target, or finishes one that is deleted.
func (c *Controller) reconcileMountTarget(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := c.mountTargets.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	if err != nil || !row.Value.Deleted.IsZero() {
		if err := c.forgetStatus(ctx, key); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{Gone: true}, c.o.EFS.FinishMountTarget(ctx, key)
	}
	status, err := c.observeMountTarget(ctx, row.Value)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, put(ctx, c.statuses, key, status)
}

// observeMountTarget returns what there is of a mount target.
func (c *Controller) observeMountTarget(ctx context.Context, m record.MountTarget) (record.MountTargetStatus, error) {
	status := record.MountTargetStatus{MountTargetID: m.ID}
	_, err := c.interfaces.Get(ctx, record.EC2Key(m.Account, m.Region, m.NetworkInterfaceID))
	if errors.Is(err, store.ErrNotFound) {
		status.Failure = "its network interface " + m.NetworkInterfaceID + " does not exist any more: delete the mount target"
		return status, nil
	}
	if err != nil {
		return status, err
	}
	if !c.o.Listeners {
		status.Available = true
		return status, nil
	}
	listener, err := c.listeners.Get(ctx, m.Key())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return status, err
	}
	status.Available, status.Failure = listener.Value.Listening, listener.Value.Failure
	return status, nil
}

func (c *Controller) forgetStatus(ctx context.Context, key string) error {
	row, err := c.statuses.Get(ctx, key)
	if err == nil {
		err = c.statuses.Delete(ctx, row)
	}
	return ignoreMissing(err)
}

// put writes a record, unless it is there like that. It fails when the record changes meanwhile.
func put[T comparable](ctx context.Context, table store.Table[T], key string, value T) error {
	row, err := table.Get(ctx, key)
	if err == nil && row.Value == value {
		return nil
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		_, err = table.Create(ctx, key, value)
	case err == nil:
		row.Value = value
		_, err = table.Update(ctx, row)
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
