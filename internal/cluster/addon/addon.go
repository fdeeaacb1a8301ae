// Package addon puts into a new cluster what EKS runs there: the Amazon VPC CNI plugin (aws-node), kube-proxy and
// CoreDNS.
//
// The [Controller] reads Clusters and ControlPlanes. Once a cluster's API server is ready it applies the three, as the
// user eks:cluster-bootstrap and in the way of kubectl, unless the cluster was created with
// bootstrapSelfManagedAddons false. It does so once: from then on they are their users', and neither a change of theirs nor an
// upgrade of the cluster is undone or followed, as on AWS
// (https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html, "self-managed").
// That it was done stands in the [record.SelfManagedAddons] row of the cluster, which this controller alone writes.
//
// The manifests are the YAML templates in this directory, one file per add-on.
package addon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// user is who applies the add-ons; the group lets it.
const (
	user  = "eks:cluster-bootstrap"
	group = "system:masters"
)

// Options are what a Controller needs. All but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Config is how a user reaches a cluster's API server.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	// Images are the references of the images of a minor version in a region, by whatever names: an image is known by
	// the end of its repository, "amazon-k8s-cni".
	Images func(region, minor string) map[string]string
	Log    *slog.Logger // slog.Default() when nil
}

// Controller applies the add-ons of new clusters.
type Controller struct {
	o        Options
	log      *slog.Logger
	clusters store.Table[record.Cluster]
	planes   store.Table[record.ControlPlane]
	addons   store.Table[record.SelfManagedAddons]
}

// The instructions at which a test kills the daemon.
var (
	crashApplied  = crash.At("addon/applied")
	crashRecorded = crash.At("addon/recorded")
)

// New makes a controller; nothing happens before it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{
		o: o, log: o.Log,
		clusters: record.Clusters(o.Store), planes: record.ControlPlanes(o.Store), addons: record.SelfManagedAddonsTable(o.Store),
	}
}

// Controller is what reconcile.Run runs. Its keys are those of clusters.
func (c *Controller) Controller() reconcile.Controller {
	return reconcile.Controller{
		Name:      "addon",
		Reconcile: c.Reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(c.clusters, ""),
			reconcile.Table(c.planes, ""),
			reconcile.Table(c.addons, ""),
		},
		Workers:    8,
		MaxBackoff: 15 * time.Second,
	}
}

// Reconcile applies the add-ons of the cluster of that key, if nobody has.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	applied, err := c.addons.Get(ctx, key)
	done := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	row, err := c.clusters.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		if done {
			err = c.addons.Delete(ctx, applied)
		} else {
			err = nil
		}
		return reconcile.Result{Gone: true}, err
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	cluster := row.Value
	if done && applied.Value.ClusterID == cluster.ID || cluster.Deleting || !cluster.BootstrapSelfManagedAddons {
		return reconcile.Result{}, nil
	}
	plane, err := c.planes.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && (!plane.Value.Ready || plane.Value.ClusterID != cluster.ID) {
		return reconcile.Result{}, nil // its row will change
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.apply(ctx, cluster, plane.Value); err != nil {
		return reconcile.Result{}, fmt.Errorf("apply the add-ons of cluster %s: %w", cluster.Name, err)
	}
	crashApplied.Here()
	_, err = c.addons.Put(ctx, key, record.SelfManagedAddons{ClusterID: cluster.ID, Version: plane.Value.Version, AppliedAt: time.Now().UTC()})
	crashRecorded.Here()
	return reconcile.Result{}, err
}
