// Package simulated stands in for machines on hosts without root, and for thousands of them.
//
// The [Controller] reads Instances and writes their Machines, as internal/host/machine does for real ones. An instance
// whose user data joins a cluster is a node of that cluster: it authenticates with its instance role through STS and
// the cluster's authenticator, registers a Node and renews its lease, and pods that are bound to it run, by the stages of kwok.
// Nothing runs in them.
package simulated

import (
	"context"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options are what a Controller needs. All but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Credentials are those of the role of an instance's profile, as its metadata would give them.
	Credentials func(ctx context.Context, instance record.Instance) (aws.Credentials, error)
	// Config is how a user reaches a cluster's API server.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	Log    *slog.Logger // slog.Default() when nil
}

// Controller simulates machines.
type Controller struct {
	o         Options
	log       *slog.Logger
	instances store.Table[record.Instance]
	machines  store.Table[record.Machine]
}

// New makes a controller; nothing happens before it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{o: o, log: o.Log, instances: record.Instances(o.Store), machines: record.Machines(o.Store)}
}

// Controllers is what reconcile.Run runs.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "simulated",
		Reconcile: func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil },
		Sources:   []reconcile.Source{reconcile.Table(c.instances, "")},
	}}
}
