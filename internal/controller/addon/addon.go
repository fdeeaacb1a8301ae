// Package addon reconciles EKS add-ons: it installs the self-managed default add-ons in new clusters (bootstrap.go),
// and applies the add-ons that users create.
//
// The versions and objects of add-ons are in the [catalog].
package addon

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Config returns the configuration of a client of a cluster's API server, as the given user.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	// Catalog has the add-ons.
	Catalog *catalog.Catalog
	// Standard reports whether every cluster has an object, whatever its add-ons: it stays when an add-on that has it as
	// well is deleted. It is optional.
	Standard func(record.AddonObject) bool
	// Provide gets an image that pods of an add-on are to run into the registry, or says in plain words why it cannot
	// be had. It may take minutes; when nil, nobody looks for images.
	Provide func(ctx context.Context, image catalog.Image) error
	// Timeout is the time that the pods of an add-on may take to become ready in a creation or an update; 15 minutes
	// when 0. Patience is the time for which a problem that may well pass (an API server that is unreachable, a webhook
	// that cannot be called) has to last before it counts; 15 seconds when 0.
	Timeout, Patience time.Duration
	Log               *slog.Logger // slog.Default() when nil
}

// Controller reconciles the add-ons of all clusters.
type Controller struct {
	log       *slog.Logger
	bootstrap *bootstrap
	engine    *engine
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Timeout, o.Patience = cmp.Or(o.Timeout, 15*time.Minute), cmp.Or(o.Patience, 15*time.Second)
	return &Controller{log: o.Log, bootstrap: newBootstrap(o), engine: newEngine(o)}
}

// Controllers returns the controllers that reconcile.Run runs.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{c.bootstrap.controller(), c.engine.controller()}
}
