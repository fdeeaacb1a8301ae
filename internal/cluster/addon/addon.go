// Package addon is what EKS does about add-ons in clusters: it puts those of a new cluster there (bootstrap.go), and keeps those that users create.
//
// The manifests of the bootstrap are the YAML templates in this directory, one file per add-on.
package addon

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
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

// Controller keeps the add-ons of all clusters.
type Controller struct {
	log       *slog.Logger
	bootstrap *bootstrap
}

// New makes a controller; nothing happens before it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{log: o.Log, bootstrap: newBootstrap(o)}
}

// Controllers is what reconcile.Run runs.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{c.bootstrap.controller()}
}
