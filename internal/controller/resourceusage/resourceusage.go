// Package resourceusage samples, once a minute, what this host has and what is spent of it: the metrics of EC2
// instances (namespace AWS/EC2), and what the daemon, control planes and machines take (namespace Coracle).
//
// The controller reads the tables of instances, machines, clusters and volumes, and the kernel. It writes data points
// alone (internal/datapoint). Counters of the kernel become the increase within a minute; a counter that began anew,
// because a process or machine was started again, has no data point for that minute.
//
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/viewing_metrics_with_cloudwatch.html
package resourceusage

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/datapoint"
	"github.com/coracle-eks/coracle/internal/host/filetree"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// diskInterval is the time between two measurements of what directories take: all their files are looked at.
const diskInterval = 5 * time.Minute

// Machine is what a machine has taken: memory now, the others since it was started.
type Machine struct {
	Memory int64
	CPU    time.Duration
	// Network reports whether the counters of its network interfaces are known: bytes and packets.
	Network               bool
	In, Out               int64
	PacketsIn, PacketsOut int64
}

// DiskActivity is what was read from and written to a volume since it was attached.
type DiskActivity struct{ ReadOps, WriteOps, ReadBytes, WriteBytes int64 }

// Options configures a Controller.
type Options struct {
	Store *store.Store
	// Account is the account that has the metrics of the host.
	Account string
	Points  *datapoint.Store
	// Processes lists the processes of the daemon: "<cluster ID>/<component>", "machine/<instance ID>", "etcd".
	Processes interface {
		List(prefix string) []process.Status
	}
	Dir     string // the data directory
	Volumes string // the directory with one for each volume, which has its disk
	// Machine measures the machine of an instance, by the process that launched it, and Disks the volumes of all
	// instances, by instance and volume. Both are nil where machines are simulated, which take nothing.
	Machine func(instanceID string, launcher int) (Machine, error)
	Disks   func() (map[string]map[string]DiskActivity, error)

	Clock clock.WithTicker // the real one when nil
	Log   *slog.Logger     // slog.Default() when nil
}

// Controller samples.
type Controller struct {
	o         Options
	instances store.Table[record.Instance]
	machines  store.Table[record.Machine]
	clusters  store.Table[record.Cluster]
	volumes   store.Table[record.Volume]

	// Of the last pass.
	last     time.Time
	counters map[string]counter

	mu          sync.Mutex
	directories map[string]int64 // bytes of what is in the data directory, by name, since the last measurement
	clusterDirs map[string]int64 // by ID of the cluster
}

// counter is the value of a counter of the kernel, and of what: one that was started again counts anew.
type counter struct {
	of    string
	value float64
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{o: o, instances: record.Instances(o.Store), machines: record.Machines(o.Store),
		clusters: record.Clusters(o.Store), volumes: record.Volumes(o.Store)}
}

// Keys of the controller.
const (
	usage = "usage"
	disk  = "disk"
)

// Controllers returns the controllers that reconcile.Run runs.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "resource-usage",
		Reconcile: c.reconcile,
		Sources: []reconcile.Source{func(ctx context.Context, changed func(string)) {
			changed(usage)
			changed(disk)
			<-ctx.Done()
		}},
		Workers: 2,
		Clock:   c.o.Clock,
	}}
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if key == disk {
		return reconcile.Result{After: diskInterval}, c.measureDirectories(ctx)
	}
	now := c.o.Clock.Now()
	next := reconcile.Result{After: now.Truncate(datapoint.Period).Add(datapoint.Period).Sub(now)}
	if !c.last.IsZero() && now.Sub(c.last) < datapoint.Period/2 {
		return next, nil // the clock was set, or an attempt failed
	}
	p, err := c.newPass(ctx, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	p.addHost()
	p.addProcesses()
	p.addInstances()
	p.addDirectories()
	c.last, c.counters = now, p.counters
	// A pass at the beginning of a minute is about the one before.
	if err := c.o.Points.Add(now.Add(-datapoint.Period/2), p.samples); err != nil {
		c.o.Log.Warn("metrics are dropped", "error", err)
	}
	return next, nil
}

// measureDirectories measures what the directories in the data directory take, and those of clusters.
func (c *Controller) measureDirectories(ctx context.Context) error {
	entries, err := os.ReadDir(c.o.Dir)
	if err != nil {
		return err
	}
	directories, clusterDirs := map[string]int64{}, map[string]int64{}
	var all filetree.Meter // a file counts once, in the first directory that has it
	for _, e := range entries {
		before, path := all.Bytes, filepath.Join(c.o.Dir, e.Name())
		if !e.IsDir() {
			all.AddFile(path)
			directories[""] += all.Bytes - before
			continue
		}
		if err := all.Add(ctx, path); err != nil {
			return err
		}
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.Contains(name, "\x00") {
			name = ""
		}
		directories[name] += all.Bytes - before
	}
	clusters, err := os.ReadDir(filepath.Join(c.o.Dir, "clusters"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range clusters {
		var one filetree.Meter
		if err := one.Add(ctx, filepath.Join(c.o.Dir, "clusters", e.Name())); err != nil {
			return err
		}
		clusterDirs[e.Name()] = one.Bytes
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.directories, c.clusterDirs = directories, clusterDirs
	return nil
}
