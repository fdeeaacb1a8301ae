// Package lifecycle does what follows for EC2 instances from what is observed of their machines.
//
// A machine that has ended takes its instance's network interfaces and volumes with it, those that are deleted on termination, and
// detaches the others; elastic addresses are dissociated. A machine that could not be launched ends its instance. One that
// was shut down from inside stops or terminates its instance, as the instance's shutdown behaviour says. A spot instance is
// terminated when its notice of interruption has run out. The rows of a terminated instance go after an hour, as on EC2.
//
// It reads instances, machines and network interfaces, and writes through ec2.Aftermath, because internal/aws/ec2 is the writer of these rows.
package lifecycle

import (
	"context"

	"github.com/coracle-eks/coracle/internal/aws/ec2"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options are what the controller needs.
type Options struct {
	Store *store.Store
	EC2   *ec2.Service
}

// Lifecycle is the controller.
type Lifecycle struct {
	o     Options
	after ec2.Aftermath
}

// New is a controller of the instances of all accounts and regions.
func New(o Options) *Lifecycle {
	return &Lifecycle{o: o, after: ec2.NewAftermath(o.EC2)}
}

// Controllers are what internal/reconcile runs. Keys are those of instances.
func (l *Lifecycle) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "instances",
		Reconcile: l.reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(record.Instances(l.o.Store), ""),
			reconcile.Table(record.Machines(l.o.Store), ""),
		},
		Workers: 4,
	}}
}

func (l *Lifecycle) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	again, gone, err := l.after.Follow(ctx, key)
	return reconcile.Result{After: again, Gone: gone}, err
}
