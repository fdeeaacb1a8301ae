// Package logshipper ships the logs of control planes to CloudWatch Logs, as EKS does: to the log group
// /aws/eks/<cluster>/cluster, one stream for each component, for the log types that are enabled for the cluster.
// https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html
//
// The components always append to files in <data directory>/clusters/<ID>/log, so that no component restarts when
// logging is enabled or disabled. The [Controller] reads the new lines of the files, creates an event for each line,
// and appends the events to the store of log events together with its offsets in the files. Both are in one atomic
// write: each line becomes an event exactly once, at whichever instruction the daemon is killed.
//
// The controller reads Clusters, LogGroups, LogStreams and LoggingUpdates. It creates groups and streams by calling
// CloudWatch Logs under the service-linked role of EKS. It is the only writer of the end of LoggingUpdates, and stores
// its offsets as marks in the store of log events (offsets.go).
//
// A change of the record of a cluster, or of one of its files (watch.go), starts a reconcile pass:
//
//  1. ship.go, switchOn: newly enabled types start at the present end of their files.
//  2. ship.go: every file of an enabled type is read to its end.
//  3. ship.go, switchOff: newly disabled types have been shipped up to this point, and no further.
//  4. tidy.go: files that are no longer read are removed from the disk.
//  5. The update that requested the change is ended.
package logshipper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/kube/componentlog"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store  *store.Store
	Events Events
	// Dir is the directory of the clusters' files, with one directory for each cluster, named by its ID.
	Dir string
	// Logs is a client with the permissions of AWSServiceRoleForAmazonEKS in that account.
	Logs func(account, region string) Logs

	Log   *slog.Logger     // slog.Default() when nil
	Clock clock.WithTicker // the real one when nil
	// Gather is the time for which lines are gathered before they are shipped; 150 ms when 0.
	Gather time.Duration
}

// Events is the part of the store of log events that is written to. *events.Store has it.
type Events interface {
	Append(context.Context, events.Batch) (first uint64, err error)
	Mark(key string) ([]byte, error)
	Marks(prefix string) (map[string][]byte, error)
	SetMarks(map[string][]byte) error
}

// Controller ships the logs of clusters.
type Controller struct {
	o     Options
	log   *slog.Logger
	clock clock.WithTicker
	free  func(dir string) (int64, error) // bytes of the disk

	clusters store.Table[record.Cluster]
	updates  store.Table[record.Update]
	groups   store.Table[record.LogGroup]
	streams  store.Table[record.LogStream]
	watch    *watch

	mu      sync.Mutex
	states  map[string]*clusterLogs // by cluster ID, of the clusters reconciled since the start
	buffers sync.Pool               // *[]byte of componentlog.MaxMessage bytes
}

// clusterLogs is the state of the logs of one cluster.
type clusterLogs struct {
	mu sync.Mutex // held while the cluster's logs are worked on

	offsets *offsets // nil until they are loaded
	stored  bool     // reports whether offsets are in the store
}

// The instructions at which a test kills the daemon.
var (
	crashSwitched = crash.At("logging/switched")
	crashRead     = crash.At("logging/read")
	crashAppended = crash.At("logging/appended")
	crashDeleting = crash.At("logging/deleting-a-file")
)

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Gather == 0 {
		o.Gather = 150 * time.Millisecond
	}
	return &Controller{
		o:        o,
		log:      o.Log,
		clock:    o.Clock,
		free:     diskspace.Free,
		clusters: record.Clusters(o.Store),
		updates:  record.Updates(o.Store),
		groups:   record.LogGroups(o.Store),
		streams:  record.LogStreams(o.Store),
		watch:    newWatch(o.Log),
		states:   map[string]*clusterLogs{},
		buffers: sync.Pool{New: func() any {
			b := make([]byte, componentlog.MaxMessage)
			return &b
		}},
	}
}

// Close ends the watching of files.
func (c *Controller) Close() error { return c.watch.close() }

// Controller returns the controller that reconcile.Run runs.
func (c *Controller) Controller() reconcile.Controller {
	return reconcile.Controller{
		Name:      "logging",
		Reconcile: c.Reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(c.clusters, ""),
			reconcile.Mapped(c.updates, "", func(key string) []string {
				parts := store.Parts(key)
				return []string{record.ClusterKey(parts[0], parts[1], parts[2])}
			}),
			c.watchLogs,
		},
		// A pass waits for others of its account when it asks CloudWatch Logs.
		Workers: 8, AccountWorkers: 2, Timeout: 5 * time.Minute,
		// Files of types that are off are not watched, only kept small.
		Resync:     30 * time.Second,
		MaxBackoff: 5 * time.Second,
		Clock:      c.o.Clock,
	}
}

// Reconcile ships the new lines of the logs of the cluster with the given key.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := c.clusters.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, c.removeOffsets(ctx)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	more, err := c.shipCluster(ctx, row.Value, false)
	if err != nil || !more {
		return reconcile.Result{}, err
	}
	return reconcile.Result{After: time.Nanosecond}, nil
}

// Drain ships the last lines of a cluster whose components have all ended for good. The control-plane controller calls
// it before it removes the files.
func (c *Controller) Drain(ctx context.Context, cluster record.Cluster) error {
	for {
		more, err := c.shipCluster(ctx, cluster, true)
		if err != nil {
			return fmt.Errorf("ship the last lines of the control plane's logs: %w", err)
		}
		if !more {
			return nil
		}
	}
}

// shipCluster takes the five steps for a cluster, and reports whether there is more to read. ended reports that the
// components have ended: a last line without a newline is complete then.
func (c *Controller) shipCluster(ctx context.Context, cluster record.Cluster, ended bool) (more bool, err error) {
	p := c.clusterLogs(cluster.ID)
	p.mu.Lock()
	defer p.mu.Unlock()

	// Read the cluster after the update: its record must be at least as new as the update that is ended for it.
	update, err := c.openUpdate(ctx, cluster)
	if err != nil {
		return false, err
	}
	row, err := c.clusters.Get(ctx, cluster.Key())
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ID != cluster.ID {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cluster = row.Value
	if p.offsets == nil {
		if p.offsets, p.stored, err = c.loadOffsets(cluster); err != nil {
			return false, err
		}
	}

	s := &shipment{c: c, cluster: cluster, state: p, offsets: p.offsets.deepCopy(), ended: ended}
	// The watch comes first: whatever is written from here on leads to another reconcile pass.
	if !cluster.Deleting {
		if err := c.watch.watchDirectory(cluster.Key(), c.logDirectory(cluster.ID), cluster.LoggingTypes); err != nil {
			return false, err
		}
	}
	more, err = s.runSteps(ctx)
	if err != nil {
		p.offsets = nil // a failed write may have happened
		return false, err
	}
	if more {
		return true, nil
	}
	return false, c.endUpdate(ctx, update)
}

func (c *Controller) clusterLogs(id string) *clusterLogs {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.states[id]
	if p == nil {
		p = &clusterLogs{}
		c.states[id] = p
	}
	return p
}

// openUpdate returns the key of the cluster's update of its logging that is in progress; "" when there is none.
func (c *Controller) openUpdate(ctx context.Context, cluster record.Cluster) (string, error) {
	if cluster.LastUpdateID == "" {
		return "", nil
	}
	row, err := c.updates.Get(ctx, record.UpdateKey(cluster.Account, cluster.Region, cluster.Name,
		cluster.LastUpdateID))
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil || row.Value.Type != ekstypes.UpdateTypeLoggingUpdate ||
		row.Value.Status != ekstypes.UpdateStatusInProgress {
		return "", err
	}
	return row.Key, nil
}

// endUpdate marks an update Successful.
func (c *Controller) endUpdate(ctx context.Context, key string) error {
	if key == "" {
		return nil
	}
	crashSwitched.Here()
	_, err := c.updates.Modify(ctx, key, func(u *record.Update) error {
		if u.Status == ekstypes.UpdateStatusInProgress {
			u.Status = ekstypes.UpdateStatusSuccessful
		}
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("end the update of the logging: %w", err)
	}
	return nil
}

func (c *Controller) logDirectory(clusterID string) string {
	return filepath.Join(c.o.Dir, clusterID, "log")
}
