// Package certificate issues the certificates that were requested of AWS Certificate Manager, and renews them before
// they expire.
//
// The package reads certificates. It writes through [ACM], because internal/aws/acm is the only writer of their
// records.
package certificate

import (
	"context"
	"time"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// ACM writes the records of certificates. acm.Lifecycle (internal/aws/acm) implements it.
type ACM interface {
	// Reconcile issues or renews a certificate that is due. again is the delay until the next time-driven step, 0 when
	// there is none; gone reports whether there is no certificate.
	Reconcile(ctx context.Context, key string) (again time.Duration, gone bool, err error)
}

// Options configures a Controller.
type Options struct {
	Store *store.Store
	ACM   ACM
}

// Controller reconciles the certificates of all accounts and regions.
type Controller struct{ o Options }

// New returns a Controller.
func New(o Options) *Controller { return &Controller{o: o} }

// Controllers returns what reconcile.Run runs. Keys are those of Certificates.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "certificates",
		Reconcile: c.reconcile,
		Sources:   []reconcile.Source{reconcile.Table(record.Certificates(c.o.Store), "")},
		Workers:   2, // a key of RSA takes a CPU for a while
	}}
}

// longest is the longest time until a certificate is looked at again: timers of months are none.
const longest = 24 * time.Hour

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	again, gone, err := c.o.ACM.Reconcile(ctx, key)
	return reconcile.Result{After: min(again, longest), Gone: gone}, err
}
