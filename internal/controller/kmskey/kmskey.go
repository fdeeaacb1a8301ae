// Package kmskey rotates the AWS KMS keys with automatic rotation, and deletes those whose waiting period has ended,
// with their key material, aliases and grants.
//
// The package reads keys. It writes through [KMS], because internal/aws/kms is the only writer of their records.
package kmskey

import (
	"context"
	"time"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// KMS writes the records of keys. kms.Lifecycle (internal/aws/kms) implements it.
type KMS interface {
	// Reconcile rotates or deletes a key that is due. again is the delay until the next time-driven step, 0 when there is
	// none; gone reports whether nothing is left of the key.
	Reconcile(ctx context.Context, key string) (again time.Duration, gone bool, err error)
}

// Options configures a Controller.
type Options struct {
	Store *store.Store
	KMS   KMS
}

// Controller reconciles the keys of all accounts and regions.
type Controller struct{ o Options }

// New returns a Controller.
func New(o Options) *Controller { return &Controller{o: o} }

// Controllers returns what reconcile.Run runs. Keys are those of KMSKeys.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "kmskeys",
		Reconcile: c.reconcile,
		Sources:   []reconcile.Source{reconcile.Table(record.KMSKeys(c.o.Store), "")},
		Workers:   2,
	}}
}

// longest is the longest time until a key is looked at again: timers of years are none.
const longest = 24 * time.Hour

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	again, gone, err := c.o.KMS.Reconcile(ctx, key)
	return reconcile.Result{After: min(again, longest), Gone: gone}, err
}
