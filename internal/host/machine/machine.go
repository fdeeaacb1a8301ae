//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

var (
	crashPrepared   = crash.At("machine/prepared")
	crashLaunched   = crash.At("machine/launched")
	crashStopped    = crash.At("machine/stopped")
	crashDiscarding = crash.At("machine/discarding")
	crashHidden     = crash.At("machine/hidden")
)

// Options configures a Controller.
type Options struct {
	Store *store.Store
	Owner string // datadir.Dir.Owner
	Dir   string // <data-dir>/machines: a directory for each instance
	// Processes runs the machines, and Subscribe tells what happens to them, as for control planes.
	Processes Processes
	Subscribe func(func(process.Event)) (cancel func())
	Network   Network
	// Images returns the parts that the machine of an instance is made of. Its errors are shown to the user: they
	// become the instance's state reason.
	Images func(ctx context.Context, instance record.Instance) (Image, error)
	// FargateToken returns the token for which the machine of a Fargate pod gets credentials (metadata.FargateToken).
	FargateToken func(instance record.Instance) (string, error)
	// Unavailable is the reason that this host cannot run machines; nil when it can. None is launched then, and those that
	// run stay.
	Unavailable error
	Log         *slog.Logger // slog.Default() when nil
}

// Processes is process.Supervisor, as far as machines need it.
type Processes interface {
	Ensure(ctx context.Context, spec process.Spec) (process.Status, error)
	Stop(ctx context.Context, name string) error
	List(prefix string) []process.Status
}

// Network is network.Network, as far as machines need it.
type Network interface {
	// Plugged reports whether all network interfaces of an instance are in its namespace and eth0 is configured.
	Plugged(instanceID string) (bool, error)
	// Namespace returns the path of a network namespace; a machine's is named by its instance ID.
	Namespace(name string) string
	// UserID returns the first of the host's user and group IDs of an instance's machine, whose user namespace owns its
	// network namespace; 0 when that is the host's own.
	UserID(instanceID string) (uint32, error)
	// Source returns a source of the EC2Keys of instances for which Plugged may have changed.
	Source() reconcile.Source
}

// Image has the parts that a machine is made of.
type Image struct {
	// Name names a version of the base image: what has the same name has the same content.
	Name string
	// Write makes dir the base image: the lower layer of root file systems (rootfs.Write). dir is complete when it is
	// there.
	Write func(dir string) error
	// Mounts are the programs that are bind-mounted over a base image (rootfs.Mounts).
	Mounts func() ([]rootfs.Mount, error)
	// Containerd is a directory of which each new machine has a copy as its /var/lib/containerd; nil: it begins empty.
	// The layers of images in it are shared by all machines, for reading.
	Containerd func(ctx context.Context) (dir string, err error)
	// Node is coracle-node on the host.
	Node string
}

// Controller reconciles the machines of instances.
type Controller struct {
	o         Options
	log       *slog.Logger
	instances store.Table[record.Instance]
	machines  store.Table[record.Machine]
	consoles  store.Table[record.MachineConsole]
	volumes   store.Table[record.Volume]
	disks     store.Table[record.VolumeDisk]
	files     *watcher

	keys       sync.Map // EC2Key by instance ID, of the instances seen so far
	consoled   sync.Map // size of the console that was written last, by instance ID
	writes     sync.Map // *rate.Limiter of rows of machines, by instance ID
	baseImages sync.Mutex
	memory     reservations
	hidden     chan string // EC2Keys of machines whose directories are to be removed
	removed    chan string // those whose directories have been
}

// namePrefix is that of the processes that stand for machines; the instance ID follows.
const namePrefix = "machine/"

// grace is the time that a machine may take to shut down before its power is cut.
const grace = 20 * time.Second

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{
		o: o, log: o.Log, files: newWatcher(o.Log),
		instances: record.Instances(o.Store), machines: record.Machines(o.Store),
		consoles: record.MachineConsoles(o.Store), volumes: record.Volumes(o.Store),
		disks: record.VolumeDisks(o.Store), hidden: make(chan string), removed: make(chan string),
	}
}

// Controllers returns the controllers that reconcile.Run runs. A pass takes as long as a machine likes that is to end,
// and the removal of its files as long as there are some.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "machine",
		Reconcile: c.reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(c.instances, ""), c.o.Network.Source(), c.leftovers, c.watchProcesses, c.files.run,
			reconcile.Channel(c.removed),
			reconcile.Mapped(record.DHCPOptionsTable(c.o.Store), "", c.ofRegion),
			reconcile.Mapped(record.VPCs(c.o.Store), "", c.ofRegion),
			reconcile.Mapped(c.disks, "", c.ofVolume),
		},
		Workers: 8, AccountWorkers: 4, Timeout: 10 * time.Minute,
		Resync: 30 * time.Second,
	}, {
		Name:      "machine-removals",
		Reconcile: c.reconcileRemoval,
		Sources:   []reconcile.Source{reconcile.Channel(c.hidden), c.hiddenLeftovers},
		Workers:   8, AccountWorkers: 4, Timeout: turn,
	}}
}

// watchProcesses sends the keys of machines whose process started or died.
func (c *Controller) watchProcesses(ctx context.Context, changed func(string)) {
	defer c.o.Subscribe(func(e process.Event) {
		if id, ok := strings.CutPrefix(e.Name, namePrefix); ok {
			if key, ok := c.keys.Load(id); ok {
				changed(key.(string))
			}
		}
	})()
	<-ctx.Done()
}

// ofRegion returns the keys of the instances in the account and region of an EC2 resource.
func (c *Controller) ofRegion(key string) (keys []string) {
	at := strings.LastIndexByte(key, '/')
	rows, err := c.instances.List(context.Background(), key[:at+1])
	if err != nil {
		return nil
	}
	for _, r := range rows {
		keys = append(keys, r.Key)
	}
	return keys
}

// ofVolume returns the keys of the instances that wait for the volume with the given key.
func (c *Controller) ofVolume(key string) (keys []string) {
	v, err := c.volumes.Get(context.Background(), key)
	if err != nil || !v.Value.OfImage {
		return nil
	}
	for _, id := range v.Value.InstanceIDs() {
		keys = append(keys, record.EC2Key(v.Value.Account, v.Value.Region, id))
	}
	return keys
}

// leftovers sends the keys of what an earlier daemon left of deleted instances: records, directories and processes.
func (c *Controller) leftovers(ctx context.Context, changed func(string)) {
	if rows, err := c.machines.List(ctx, ""); err == nil {
		for _, r := range rows {
			c.keys.Store(r.Value.InstanceID, r.Key)
			changed(r.Key)
		}
	}
	if rows, err := c.instances.List(ctx, ""); err == nil {
		for _, r := range rows {
			c.keys.Store(r.Value.ID, r.Key)
		}
	}
	orphan := func(id string) {
		if _, known := c.keys.Load(id); !known && strings.HasPrefix(id, "i-") {
			changed(record.EC2Key("", "", id))
		}
	}
	if err := c.collectGarbage(); err != nil {
		c.log.Warn("could not remove what no machine uses", "error", err)
	}
	entries, _ := os.ReadDir(c.o.Dir)
	for _, e := range entries {
		orphan(e.Name())
	}
	for _, s := range c.o.Processes.List(namePrefix) {
		orphan(strings.TrimPrefix(s.Name, namePrefix))
	}
	<-ctx.Done()
}

func (c *Controller) machineDir(id string) string { return filepath.Join(c.o.Dir, id) }

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := c.instances.Get(ctx, key)
	id := key[strings.LastIndexByte(key, '/')+1:]
	if errors.Is(err, store.ErrNotFound) {
		gone, err := c.deleteMachine(ctx, key, id)
		return reconcile.Result{Gone: gone}, err
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	c.keys.Store(id, key)
	i := row.Value
	before, err := c.machines.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	m := before.Value
	m.InstanceID = id
	switch {
	case m.State == ec2types.InstanceStateNameTerminated:
		_, err := c.removeMachine(ctx, key, id)
		return reconcile.Result{}, err
	case i.Wanted == ec2types.InstanceStateNameTerminated, m.State == ec2types.InstanceStateNameShuttingDown:
		return reconcile.Result{}, c.terminate(ctx, key, m)
	case i.Wanted == ec2types.InstanceStateNameStopped, m.PoweredOff && m.Boot == i.Boot:
		return reconcile.Result{}, c.stopMachine(ctx, key, m)
	}
	return c.reconcileRunning(ctx, key, i, m)
}

// reclaimIO takes from a machine what launchers of earlier versions gave it.
func (c *Controller) reclaimIO(id string) error {
	host, err := cgroup.Open()
	if err != nil {
		return err
	}
	return host.Group(c.o.Owner, id).ReclaimIO()
}

// writeMachine writes the observed record of a machine, if it has changed.
func (c *Controller) writeMachine(ctx context.Context, key string, m record.Machine) error {
	if now, err := c.machines.Get(ctx, key); err == nil && now.Value == m {
		return nil
	}
	_, err := c.machines.Put(ctx, key, m)
	return err
}

// reconcileRunning ensures that the machine runs the desired boot, and records what it observes.
func (c *Controller) reconcileRunning(ctx context.Context, key string, i record.Instance,
	m record.Machine) (reconcile.Result, error) {
	dir := c.machineDir(i.ID)
	alive := c.isRunning(i.ID)
	if prepared, err := launch.Read(filepath.Join(dir, launch.SpecFile)); alive && err == nil &&
		prepared.Boot == i.Boot {
		// The machine runs the desired boot: newer programs do not restart it.
		if err := c.reclaimIO(i.ID); err != nil {
			c.log.Warn("a machine of an earlier version may limit writes of the host", "instance", i.ID, "error", err)
		}
		if err := c.writeDHCPLease(ctx, i); err != nil {
			return reconcile.Result{}, err
		}
	} else {
		if m.Boot != i.Boot || m.State == "" {
			m = record.Machine{
				InstanceID: i.ID, State: ec2types.InstanceStateNamePending, Boot: i.Boot,
				SystemStatus: ec2types.SummaryStatusInitializing, InstanceStatus: ec2types.SummaryStatusInitializing,
			}
			if err := c.writeMachine(ctx, key, m); err != nil {
				return reconcile.Result{}, err
			}
		}
		ready, err := c.prepare(ctx, i)
		if err != nil {
			return c.recordFailure(ctx, key, i, m, err)
		}
		if !ready {
			return reconcile.Result{After: time.Second}, nil // the network tells, too
		}
		crashPrepared.Here()
	}
	if err := c.files.add(dir, key); err != nil {
		return reconcile.Result{}, err
	}
	status, err := c.o.Processes.Ensure(ctx, c.processSpec(i))
	if err != nil {
		return reconcile.Result{}, err
	}
	crashLaunched.Here()
	return c.observe(ctx, key, i, m, status)
}

// processSpec returns the process of a machine. It changes with each boot only: a new version of coracle must not
// restart machines.
func (c *Controller) processSpec(i record.Instance) process.Spec {
	dir := c.machineDir(i.ID)
	return process.Spec{
		Name:     namePrefix + i.ID,
		Path:     filepath.Join(dir, launcher),
		Args:     []string{"launch", "--spec", filepath.Join(dir, launch.SpecFile)},
		Env:      []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		Revision: strconv.Itoa(i.Boot),
		Log:      filepath.Join(dir, consoleFile),
		LogLimit: 4 << 20,
		Grace:    grace,
	}
}

func (c *Controller) isRunning(id string) bool {
	for _, s := range c.o.Processes.List(namePrefix + id) {
		if s.Name == namePrefix+id {
			return s.Running
		}
	}
	return false
}

// recordFailure records why a boot could not be prepared. A new instance is terminated, as on EC2; one that has run
// before is tried again.
func (c *Controller) recordFailure(ctx context.Context, key string, i record.Instance, m record.Machine,
	err error) (reconcile.Result, error) {
	if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
		return reconcile.Result{}, err
	}
	code := internalError
	var known *Failure
	if errors.As(err, &known) {
		code = known.Code
	}
	c.log.Error("could not launch a machine", "instance", i.ID, "error", err)
	m.FailureCode, m.Failure = code, record.Reason(err.Error())
	if m.Boot > 1 || !m.LaunchedAt.IsZero() {
		m.SystemStatus = ec2types.SummaryStatusImpaired
		if m.ImpairedSince.IsZero() {
			m.ImpairedSince = time.Now().UTC()
		}
		return reconcile.Result{After: 10 * time.Second}, c.writeMachine(ctx, key, m)
	}
	return reconcile.Result{}, c.terminate(ctx, key, m)
}

// stopMachine shuts a machine down, by its power button at first.
func (c *Controller) stopMachine(ctx context.Context, key string, m record.Machine) error {
	if m.State == ec2types.InstanceStateNameStopped && !c.isRunning(m.InstanceID) {
		return nil
	}
	m.State = ec2types.InstanceStateNameStopping
	if err := c.writeMachine(ctx, key, m); err != nil {
		return err
	}
	if err := c.stopProcess(ctx, m.InstanceID); err != nil {
		return err
	}
	crashStopped.Here()
	if err := c.writeConsole(ctx, key, m.InstanceID); err != nil {
		return err
	}
	m.State, m.SystemStatus, m.InstanceStatus, m.ImpairedSince = ec2types.InstanceStateNameStopped, "", "", time.Time{}
	m.FailureCode, m.Failure = "", ""
	return c.writeMachine(ctx, key, m)
}

// terminate shuts a machine down and removes its disk. It is shutting down until nothing is left of that: an account
// has no more machines than it may have, those included that are being removed.
func (c *Controller) terminate(ctx context.Context, key string, m record.Machine) error {
	m.State = ec2types.InstanceStateNameShuttingDown
	if err := c.writeMachine(ctx, key, m); err != nil {
		return err
	}
	if err := c.stopProcess(ctx, m.InstanceID); err != nil {
		return err
	}
	crashStopped.Here()
	if err := c.writeConsole(ctx, key, m.InstanceID); err != nil {
		return err
	}
	if removed, err := c.removeMachine(ctx, key, m.InstanceID); err != nil || !removed {
		return err
	}
	m.State, m.SystemStatus, m.InstanceStatus, m.ImpairedSince = ec2types.InstanceStateNameTerminated, "", "",
		time.Time{}
	return c.writeMachine(ctx, key, m)
}

// deleteMachine removes the machine and the observed records of an instance whose record is gone. It reports whether
// nothing is left.
func (c *Controller) deleteMachine(ctx context.Context, key, id string) (bool, error) {
	if removed, err := c.removeMachine(ctx, key, id); err != nil || !removed {
		return false, err
	}
	c.memory.release(id)
	c.keys.Delete(id)
	c.consoled.Delete(id)
	c.writes.Delete(id)
	return true, c.o.Store.Txn(ctx, c.machines.RemoveOp(key), c.consoles.RemoveOp(key))
}

// stopProcess ends the process of a machine and removes its cgroup. A launcher can wait in the kernel for what its
// machine does not answer: it ends when the machine has ended, and the next pass finds that.
func (c *Controller) stopProcess(ctx context.Context, id string) error {
	defer c.memory.release(id)
	stopped := c.o.Processes.Stop(ctx, namePrefix+id)
	if stopped != nil && !errors.Is(stopped, process.ErrStuck) {
		return stopped
	}
	host, err := cgroup.Open()
	if err != nil {
		return errors.Join(stopped, err)
	}
	c.thaw(id)
	return errors.Join(stopped, host.Group(c.o.Owner, id).Remove())
}

// thaw lets writes go on that a launcher held which was killed with its holder: those who write could not be killed.
func (c *Controller) thaw(id string) {
	err := disks.ThawLeft(c.machineDir(id), c.o.Owner, id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("writes of volumes may still be held", "instance", id, "error", err)
	}
}

// Remove removes the cgroups of an owner's machines, and kills what runs in them, for "coracle reset": the processes
// that stand for machines are found by their marks (process.Kill) and take their namespaces and mounts with them. It
// needs neither a daemon nor a store, and returns the directories that it removed.
func Remove(owner string) (removed []string, err error) {
	host, err := cgroup.Open()
	if errors.Is(err, cgroup.ErrUnavailable) {
		return nil, nil // without cgroups there are no machines
	}
	if err != nil {
		return nil, fmt.Errorf("find the cgroups of machines: %w", err)
	}
	if removed, err = host.RemoveAll(owner); err == nil {
		return removed, nil
	}
	thawed := loopdevice.ThawAll(owner) // those whose writes are held cannot be killed
	if removed, err = host.RemoveAll(owner); err != nil {
		err = errors.Join(err, thawed)
	}
	return removed, err
}
