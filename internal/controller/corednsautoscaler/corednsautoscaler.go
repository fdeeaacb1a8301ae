// Package corednsautoscaler scales the deployment of the add-on coredns with the size of the cluster, where the
// configuration of the add-on says autoScaling.
//
// The controller acts as the user eks:coredns-autoscaler. It watches the nodes of the clusters in which it has
// something to do (watch.go), and sets the number of replicas by the scale subresource of the deployment: one for 16
// nodes, and one for 256 CPU cores at least, within the bounds of the configuration. More are added at once; fewer are
// left step by step, once the peak of ten minutes is lower (history.go). An add-on whose configuration has a
// replicaCount keeps that.
//
// The package reads the tables of clusters, control planes, add-ons and updates, and writes nothing to the store: what
// it has decided is in the deployment. A daemon that starts takes the replicas that there are for a peak.
//
// https://docs.aws.amazon.com/eks/latest/userguide/coredns-autoscaling.html
package corednsautoscaler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// user is the user name of EKS when it scales CoreDNS, and userAgent its user agent in the audit log.
	user         = "eks:coredns-autoscaler"
	fieldManager = "eks-coredns-autoscaler"
	userAgent    = fieldManager + "/v0.0.0 (linux/amd64) kubernetes/$Format"

	// addonName is the name of the add-on, and of its deployment.
	addonName = "coredns"
)

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Config returns the configuration of a client of a cluster's API server, as the given user.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	Log    *slog.Logger     // slog.Default() when nil
	Clock  clock.WithTicker // the real one when nil
}

// Controller scales CoreDNS in all clusters.
type Controller struct {
	o       Options
	log     *slog.Logger
	clock   clock.WithTicker
	addons  store.Table[record.Addon]
	updates store.Table[record.Update]
	servers *apiserver.Connections[*server]
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Controller{o: o, log: o.Log, clock: o.Clock, addons: record.Addons(o.Store), updates: record.Updates(o.Store)}
	c.servers = apiserver.New[*server](apiserver.Options{
		Store: o.Store, Config: o.Config, User: user, Agent: userAgent, What: "watch nodes for the replicas of CoreDNS",
		Log: o.Log,
		Wanted: func(ctx context.Context, key string) bool {
			_, wanted, err := c.settings(ctx, key)
			return wanted && err == nil
		},
		Wakes: reconcile.Mapped(c.addons, "", clusterOf),
	})
	return c
}

// clusterOf returns the key of the cluster of an add-on, if that is coredns.
func clusterOf(key string) []string {
	parts := store.Parts(key)
	if len(parts) <= record.ClusterKeyParts || parts[record.ClusterKeyParts] != addonName {
		return nil
	}
	return []string{store.Key(parts[:record.ClusterKeyParts]...)}
}

// Controllers returns the controllers that reconcile.Run runs. A key is that of a cluster.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:       "coredns-autoscaler",
		Reconcile:  c.Reconcile,
		Sources:    []reconcile.Source{reconcile.Mapped(c.addons, "", clusterOf), c.watchNodes},
		Workers:    8,
		MaxBackoff: 15 * time.Second,
		Resync:     10 * time.Minute,

		AccountWorkers: 4, ClusterWorkers: 1, Timeout: time.Minute,
	}}
}

// Reconcile scales CoreDNS in one cluster.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	s, connected := c.servers.Get(key)
	if !connected {
		return reconcile.Result{Gone: true}, nil // there is nothing to do, or the watch wakes the key
	}
	bounds, wanted, err := c.settings(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !wanted {
		return reconcile.Result{Gone: true}, nil
	}
	deployments := s.apps.Deployments(metav1.NamespaceSystem)
	scale, err := deployments.GetScale(ctx, addonName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return reconcile.Result{After: time.Minute}, nil // the add-on makes it
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get the scale of CoreDNS: %w", err)
	}
	was := scale.Spec.Replicas
	replicas, after := s.decide(c.clock.Now(), was, bounds)
	if replicas != was {
		scale.Spec.Replicas = replicas
		_, err := deployments.UpdateScale(ctx, addonName, scale, metav1.UpdateOptions{FieldManager: fieldManager})
		if apierrors.IsConflict(err) {
			return reconcile.Result{After: time.Second}, nil // it has changed since
		}
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("scale CoreDNS: %w", err)
		}
		c.log.Info("scaled CoreDNS", "cluster", s.cluster, "from", was, "to", replicas)
	}
	return reconcile.Result{After: after}, nil
}

// settings returns the bounds for the replicas of CoreDNS of the cluster with the given key; false when they are not
// scaled.
func (c *Controller) settings(ctx context.Context, key string) (bounds, bool, error) {
	row, err := c.addons.Get(ctx, store.Key(append(store.Parts(key), addonName)...))
	if errors.Is(err, store.ErrNotFound) {
		return bounds{}, false, nil
	}
	if err != nil {
		return bounds{}, false, err
	}
	var last record.Update
	if id := row.Value.LastUpdateID; id != "" {
		update, err := c.updates.Get(ctx, store.Key(append(store.Parts(key), id)...))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return bounds{}, false, err
		}
		last = update.Value
	}
	if row.Value.Deleting {
		return bounds{}, false, nil
	}
	b, scaled := parse(row.Value.Now(last).Configuration)
	return b, scaled, nil
}
