// Package clusterinsight makes the upgrade insights of clusters: whether the nodes, kube-proxy, the add-ons, the health
// of the cluster and the clients of its API allow the next Kubernetes version.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-insights.html
//
// The [Controller] reads the records of clusters, control planes and add-ons, the catalog of add-ons, the nodes and the
// DaemonSets of kube-proxy in the cluster (observe.go), and the files of its audit log (auditlog.go). It is the only
// writer of Insights, which ListInsights and DescribeInsight show. The checks themselves are pure (check.go,
// deprecation.go).
//
// Where EKS makes insights once a day, a pass is made when a record changes and each minute, for the audit log. The API
// server is asked when a record has changed, and every ten minutes.
package clusterinsight

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// pause is the time between two passes over a cluster in which nothing changes.
	pause = time.Minute
	// stale is the age at which what was read of an API server is read again, and fresh the age below which it is not,
	// even if records change.
	stale, fresh = 10 * time.Minute, 10 * time.Second
	// refreshPause is the least time from one refresh that users ask for to the next.
	refreshPause = 5 * time.Second
)

// Catalog knows the add-ons. *catalog.Catalog does.
type Catalog interface {
	Addon(name string) (catalog.Addon, bool)
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store   *store.Store
	Catalog Catalog
	// Config returns the configuration of a client of a cluster's API server, as the given user.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	// Dir is the directory of the clusters' files, with one directory for each cluster, named by its ID.
	Dir string

	Log   *slog.Logger // slog.Default() when nil
	Clock clock.Clock  // the real one when nil
}

// Controller makes the insights of all clusters.
type Controller struct {
	o         Options
	clusters  store.Table[record.Cluster]
	planes    store.Table[record.ControlPlane]
	updates   store.Table[record.Update]
	addons    store.Table[record.Addon]
	groups    store.Table[record.NodegroupState]
	insights  store.Table[record.Insights]
	refreshes store.Table[record.InsightsRefresh]

	mu sync.Mutex
	// unwritten has what passes have made of insights since they were last written, by their keys.
	unwritten map[string]store.Row[record.Insights]
	// refreshed is when the last refresh began that users asked for, by the key of the cluster.
	refreshed map[string]time.Time
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Controller{
		o: o, clusters: record.Clusters(o.Store), planes: record.ControlPlanes(o.Store),
		updates: record.Updates(o.Store), addons: record.Addons(o.Store), groups: record.NodegroupStates(o.Store),
		insights: record.InsightsOf(o.Store), refreshes: record.InsightsRefreshes(o.Store),
		unwritten: map[string]store.Row[record.Insights]{}, refreshed: map[string]time.Time{},
	}
}

// Controllers returns what reconcile.Run runs. Keys are those of clusters.
func (c *Controller) Controllers() []reconcile.Controller {
	toCluster := reconcile.Above(record.ClusterKeyParts)
	return []reconcile.Controller{{
		Name:      "clusterinsights",
		Reconcile: c.Reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(c.planes, ""),
			c.kept,
			reconcile.Table(c.refreshes, ""),
			reconcile.Mapped(c.addons, "", toCluster),
			reconcile.Mapped(c.groups, "", toCluster),
			reconcile.Mapped(c.updates, "", toCluster),
		},
		Workers: 4, AccountWorkers: 2, ClusterWorkers: 1,
		Timeout: time.Minute,
	}}
}

// kept is a source of the insights that there are when the daemon starts: of a cluster, maybe, that is gone. It is none
// of their changes, which are made here.
func (c *Controller) kept(ctx context.Context, changed func(key string)) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sent := map[string]bool{}
	c.insights.Notify(ctx, "", func(key string) {
		if !sent[key] {
			changed(key)
		}
		sent[key] = true
		stop() // after those that there are, or soon after that
	})
}

// Reconcile makes the insights of one cluster.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	cluster, err := c.clusters.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, c.remove(ctx, key)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	plane, err := c.planes.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	if !plane.Value.Ready || plane.Value.ClusterID != cluster.Value.ID || cluster.Value.Deleting {
		return reconcile.Result{}, nil // a change of the record makes the next pass
	}
	before, err := c.insights.Copy(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	wanted, wait, err := c.openRefresh(ctx, cluster.Value)
	if err != nil {
		return reconcile.Result{}, err
	}
	row, err := c.latest(ctx, key, cluster.Value.ID, before)
	if err != nil {
		return reconcile.Result{}, err
	}
	asked := wanted.Revision != 0
	if asked {
		row.Value.ObservedAt = time.Time{} // what was read of the API server is old
	}
	again, failure := c.refresh(ctx, cluster.Value, plane.Value, &row.Value)
	if wait > 0 {
		again = min(again, wait)
	}
	failure = errors.Join(failure, c.save(ctx, before, row, asked))
	return reconcile.Result{After: again}, errors.Join(c.endRefresh(ctx, wanted, failure), failure)
}

// refresh brings the insights of a cluster up to date. It returns when that is due again. With an error the insights
// are as true as they can be without an answer of the API server.
func (c *Controller) refresh(ctx context.Context, cluster record.Cluster, plane record.ControlPlane,
	in *record.Insights) (time.Duration, error) {
	now := c.o.Clock.Now().UTC().Truncate(time.Second)
	more, err := c.readAuditLog(cluster, in, now)
	if err != nil {
		c.o.Log.Warn("the audit log is not read for insights", "cluster", cluster.Name, "error", err)
	}
	again := pause
	if more {
		again = time.Second
	}
	addons, err := c.addons.List(ctx, store.Prefix(cluster.Account, cluster.Region, cluster.Name))
	if err != nil {
		return 0, err
	}
	state := state{plane: plane, clusterARN: cluster.ARN(), catalog: c.o.Catalog}
	for _, row := range addons {
		if row.Value.ClusterID != cluster.ID || row.Value.Deleting {
			continue
		}
		var last store.Row[record.Update]
		if id := row.Value.LastUpdateID; id != "" {
			last, err = c.updates.Get(ctx, record.UpdateKey(cluster.Account, cluster.Region, cluster.Name, id))
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return 0, err
			}
		}
		state.addons = append(state.addons, installed{
			row.Value.Name, row.Value.ARN(), row.Value.Now(last.Value).Version,
		})
	}
	source, err := c.digest(ctx, cluster, plane)
	if err != nil {
		return 0, err
	}
	var failure error
	age, limit := now.Sub(in.ObservedAt), stale
	if !allPassing(in.Checks) {
		limit = pause // somebody is about to change that
	}
	switch {
	case in.ObservedAt.IsZero() || age >= limit || source != in.Source && age >= fresh:
		if failure = c.observe(ctx, cluster, plane, in); failure == nil {
			in.ObservedAt, in.Source = now, source
		} else {
			state.unread = failure
		}
	case source != in.Source:
		again = min(again, fresh-age)
	}
	in.Checks, in.CheckedAt = makeChecks(state.with(in), in.Checks, now), now
	return again, failure
}

// remove deletes the insights of a cluster that is gone.
func (c *Controller) remove(ctx context.Context, key string) error {
	c.mu.Lock()
	delete(c.unwritten, key)
	delete(c.refreshed, key)
	c.mu.Unlock()
	row, err := c.insights.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	err = c.insights.Delete(ctx, row)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (c *Controller) logDir(clusterID string) string { return filepath.Join(c.o.Dir, clusterID, "log") }

// digest tells whether something has changed by which nodes or DaemonSets may have.
func (c *Controller) digest(ctx context.Context, cluster record.Cluster, plane record.ControlPlane) (string, error) {
	below := store.Prefix(cluster.Account, cluster.Region, cluster.Name)
	updates, err := c.updates.List(ctx, below)
	if err != nil {
		return "", err
	}
	groups, err := c.groups.List(ctx, below)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, row := range updates {
		fmt.Fprintln(h, row.Value.ID, row.Value.Status)
	}
	for _, row := range groups {
		fmt.Fprintln(h, row.Value.NodegroupID, row.Value.Created)
	}
	fmt.Fprintln(h, plane.FullVersion)
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func allPassing(checks []record.InsightCheck) bool {
	return !slices.ContainsFunc(checks, func(c record.InsightCheck) bool {
		return c.Status != ekstypes.InsightStatusValuePassing
	})
}
