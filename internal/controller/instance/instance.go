// Package instance reconciles the records of EC2 instances with the observed state of their machines.
//
// When a machine has ended, the network interfaces and volumes of its instance are deleted or detached, as their
// DeleteOnTermination attribute says, and elastic addresses are disassociated. An instance whose machine could not be
// launched is terminated. An instance that was shut down from inside is stopped or terminated, as its shutdown behavior
// says. A spot instance is terminated two minutes after its interruption notice. The record of a terminated instance is
// deleted after an hour, as on EC2.
//
// The package reads instances and machines. It writes through [EC2], because internal/aws/ec2 is the only writer of the
// records of instances, network interfaces and volumes.
package instance

import (
	"context"
	"time"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// EC2 writes the records of instances. instance.Lifecycle (internal/aws/ec2/instance) implements it.
type EC2 interface {
	// Reconcile reconciles the instance with the given key. again is the delay until the next time-driven step, 0 when
	// there is none; gone reports whether nothing is left of the instance.
	Reconcile(ctx context.Context, key string) (again time.Duration, gone bool, err error)
}

// Options configures a Controller.
type Options struct {
	Store *store.Store
	EC2   EC2
}

// Controller reconciles the instances of all accounts and regions.
type Controller struct{ o Options }

// New returns a Controller.
func New(o Options) *Controller { return &Controller{o: o} }

// Controllers returns what reconcile.Run runs. Keys are those of instances.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "instances",
		Reconcile: c.reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(record.Instances(c.o.Store), ""),
			reconcile.Table(record.Machines(c.o.Store), ""),
		},
		Workers: 4,
	}}
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	again, gone, err := c.o.EC2.Reconcile(ctx, key)
	return reconcile.Result{After: again, Gone: gone}, err
}
