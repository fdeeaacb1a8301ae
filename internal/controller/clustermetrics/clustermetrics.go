// Package clustermetrics counts the nodes and pods of all clusters for the metrics of the daemon.
//
// The controller acts as the user eks:k8s-metrics, who asks each ready cluster every minute, and keeps no connection in
// between: an API server tells with the first object of a list how many there are. It reads the tables of clusters and
// control planes, and writes metrics alone (metrics.go).
package clustermetrics

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// user is the user name of EKS when it counts, and userAgent its user agent in the audit log.
	user      = "eks:k8s-metrics"
	userAgent = "eks-k8s-metrics/v0.0.0 (linux/amd64) kubernetes/$Format"

	// interval is the time between two counts of a cluster.
	interval = time.Minute
)

// Options configures a Controller. All fields must be set.
type Options struct {
	Store *store.Store
	// Config returns the configuration of a client of a cluster's API server, as the given user.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
}

// Controller counts what is in all clusters.
type Controller struct {
	o        Options
	clusters store.Table[record.Cluster]
	planes   store.Table[record.ControlPlane]

	mu     sync.Mutex
	counts map[string]counts // by the key of the cluster
}

// counts are of one cluster.
type counts struct{ nodes, pods int64 }

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	return &Controller{o: o, clusters: record.Clusters(o.Store), planes: record.ControlPlanes(o.Store),
		counts: map[string]counts{}}
}

// Controllers returns the controllers that reconcile.Run runs. A key is that of a cluster.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:       "cluster-metrics",
		Reconcile:  c.Reconcile,
		Sources:    []reconcile.Source{reconcile.Table(c.planes, "")},
		Workers:    4,
		MaxBackoff: interval,

		AccountWorkers: 2, ClusterWorkers: 1, Timeout: 30 * time.Second,
	}}
}

// Reconcile counts what is in one cluster.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	plane, err := c.planes.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !plane.Value.Ready {
		c.forget(key)
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	cluster, err := c.clusters.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && cluster.Value.Deleting {
		c.forget(key)
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	n, err := c.count(ctx, cluster.Value)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("count the nodes and pods of cluster %s: %w", cluster.Value.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[key] = n
	c.publish()
	return reconcile.Result{After: interval}, nil
}

func (c *Controller) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.counts, key)
	c.publish()
}

// count asks an API server how much there is.
func (c *Controller) count(ctx context.Context, cluster record.Cluster) (n counts, err error) {
	config, err := c.o.Config(ctx, cluster, user)
	if err != nil {
		return n, err
	}
	clients, err := client.New(config, cluster.Name, userAgent)
	if err != nil {
		return n, err
	}
	defer clients.Close()
	first := metav1.ListOptions{Limit: 1}
	nodes, err := clients.Core.Nodes().List(ctx, first)
	if err != nil {
		return n, err
	}
	pods, err := clients.Core.Pods(metav1.NamespaceAll).List(ctx, first)
	if err != nil {
		return n, err
	}
	n.nodes = total(len(nodes.Items), nodes.RemainingItemCount)
	n.pods = total(len(pods.Items), pods.RemainingItemCount)
	return n, nil
}

// total returns the length of a list, given that of its first page.
func total(page int, remaining *int64) int64 {
	if remaining == nil {
		return int64(page)
	}
	return int64(page) + max(*remaining, 0)
}
