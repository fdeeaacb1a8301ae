package addon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// bootstrapUser is the user that applies the add-ons of a new cluster; the group authorizes it.
const (
	bootstrapUser  = "eks:cluster-bootstrap"
	bootstrapGroup = "system:masters"
)

// bootstrap gives new clusters their self-managed add-ons.
//
// Once a cluster's API server is ready it applies them, in the way of kubectl, unless the cluster was created with
// bootstrapSelfManagedAddons false. It does so once: from then on they are their users', and neither a change of theirs
// nor an upgrade of the cluster is undone or followed, as on AWS
// (https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html, "self-managed"). That it was done stands in the
// [record.SelfManagedAddons] row of the cluster, which this controller alone writes.
type bootstrap struct {
	o        Options
	clusters store.Table[record.Cluster]
	planes   store.Table[record.ControlPlane]
	addons   store.Table[record.SelfManagedAddons]
}

// The instructions at which a test kills the daemon.
var (
	crashBootstrapApplied  = crash.At("bootstrap/applied")
	crashBootstrapRecorded = crash.At("bootstrap/recorded")
)

func newBootstrap(o Options) *bootstrap {
	return &bootstrap{
		o: o, clusters: record.Clusters(o.Store), planes: record.ControlPlanes(o.Store),
		addons: record.SelfManagedAddonsTable(o.Store),
	}
}

// controller returns the controller that reconcile.Run runs. Its keys are those of clusters.
func (b *bootstrap) controller() reconcile.Controller {
	return reconcile.Controller{
		Name:      "bootstrap",
		Reconcile: b.Reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(b.clusters, ""),
			reconcile.Table(b.planes, ""),
			reconcile.Table(b.addons, ""),
		},
		Workers:    32,
		MaxBackoff: 15 * time.Second,

		AccountWorkers: 8, Timeout: passTimeout,
	}
}

// Reconcile applies the add-ons of the cluster of that key, if nobody has.
func (b *bootstrap) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	applied, err := b.addons.Get(ctx, key)
	done := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	row, err := b.clusters.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		if done {
			err = b.addons.Delete(ctx, applied)
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
	plane, err := b.planes.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && (!plane.Value.Ready || plane.Value.ClusterID != cluster.ID) {
		return reconcile.Result{}, nil // its row will change
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := b.applyAddons(ctx, cluster, plane.Value); err != nil {
		return reconcile.Result{}, fmt.Errorf("apply the add-ons of cluster %s: %w", cluster.Name, err)
	}
	crashBootstrapApplied.Here()
	_, err = b.addons.Put(ctx, key, record.SelfManagedAddons{ClusterID: cluster.ID, Version: plane.Value.Version,
		AppliedAt: time.Now().UTC()})
	crashBootstrapRecorded.Here()
	return reconcile.Result{}, err
}

// selfManaged returns the objects of the add-ons that a new cluster gets: the default versions for its Kubernetes
// version.
func selfManaged(c *catalog.Catalog, cluster record.Cluster, plane record.ControlPlane) ([]catalog.Object, error) {
	var all []catalog.Object
	for _, name := range []string{"vpc-cni", "kube-proxy", "coredns"} {
		addon, found := c.Addon(name)
		version, has := addon.Default(plane.Version)
		if !found || !has {
			return nil, fmt.Errorf("there is no add-on %s for Kubernetes %s", name, plane.Version)
		}
		objects, err := version.Render(catalog.RenderOptions{Cluster: cluster, Endpoint: plane.Endpoint,
			Minor: plane.Version})
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// applyAddons puts the add-ons into the cluster, as "kubectl apply" of its version does.
func (b *bootstrap) applyAddons(ctx context.Context, cluster record.Cluster, plane record.ControlPlane) error {
	objects, err := selfManaged(b.o.Catalog, cluster, plane)
	if err != nil {
		return err
	}
	config, err := b.o.Config(ctx, cluster, bootstrapUser, bootstrapGroup)
	if err != nil {
		return err
	}
	k, err := newKubectl(ctx, config, cluster.Name)
	if err != nil {
		return err
	}
	defer k.Close()
	// What runs pods comes last, so that all that they need is there.
	for _, workloads := range []bool{false, true} {
		group := recovery.Group(ctx).WithMaxGoroutines(8)
		for _, o := range objects {
			if workloads == (o.GroupVersionKind().Group == "apps") {
				group.Go(func(ctx context.Context) error { return k.createIfMissing(ctx, o.Unstructured) })
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}
