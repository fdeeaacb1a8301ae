package simulated

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Balancers simulates load balancers and the health of their targets, as internal/host/balancer has them for real
// machines: load balancers are active and targets healthy at once, and nothing answers.
type Balancers struct {
	reader    *balancing.Reader
	balancers store.Table[record.LoadBalancer]
	groups    store.Table[record.TargetGroup]
	statuses  store.Table[record.LoadBalancerStatus]
	healths   store.Table[record.TargetHealth]
}

// NewBalancers returns a Balancers over the tables of a store.
func NewBalancers(s *store.Store) *Balancers {
	return &Balancers{reader: balancing.NewReader(s), balancers: record.LoadBalancers(s), groups: record.TargetGroups(s),
		statuses: record.LoadBalancerStatuses(s), healths: record.TargetHealths(s)}
}

// Controllers returns the controllers that reconcile.Run runs. Their keys are those of load balancers and of the
// TargetHealths.
func (b *Balancers) Controllers() []reconcile.Controller {
	return []reconcile.Controller{
		{
			Name: "simulatedbalancers", Reconcile: b.reconcileBalancer,
			Sources: []reconcile.Source{reconcile.Table(b.balancers, ""), reconcile.Table(b.statuses, "")},
		},
		{
			Name: "simulatedtargets", Reconcile: b.reconcileTargets,
			Sources: []reconcile.Source{
				reconcile.Mapped(b.balancers, "", b.reader.PoolsOfBalancer),
				reconcile.Mapped(b.groups, "", balancing.PoolsOfGroup), reconcile.Table(b.healths, ""),
			},
		},
	}
}

func (b *Balancers) reconcileBalancer(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := b.balancers.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, deleteRow(ctx, b.statuses, key)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	status := record.LoadBalancerStatus{ID: row.Value.ID, Active: true}
	if old, err := b.statuses.Get(ctx, key); err == nil && old.Value == status {
		return reconcile.Result{}, nil
	}
	_, err = b.statuses.Put(ctx, key, status)
	return reconcile.Result{}, err
}

func (b *Balancers) reconcileTargets(ctx context.Context, key string) (reconcile.Result, error) {
	pool, user, err := b.reader.Pool(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, deleteRow(ctx, b.healths, key)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	old, err := b.healths.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	health := record.TargetHealth{Owner: pool.Owner, Targets: map[string]record.TargetState{}}
	for _, m := range pool.Members {
		if user == nil || !m.Deregistered.IsZero() {
			continue
		}
		state := old.Value.Targets[m.Name]
		if old.Value.Owner != pool.Owner || !state.RegisteredAt.Equal(m.RegisteredAt) || state.State != record.TargetHealthy {
			state = record.TargetState{RegisteredAt: m.RegisteredAt, State: record.TargetHealthy, HealthySince: time.Now().UTC()}
		}
		if !m.Address.IsValid() {
			state = record.TargetState{RegisteredAt: m.RegisteredAt, State: record.TargetUnhealthy,
				Reason: "Target.InvalidState", Description: "Target is in the stopped or terminated state"}
		}
		health.Targets[m.Name] = state
	}
	if old.Value.Owner == health.Owner && maps.Equal(old.Value.Targets, health.Targets) {
		return reconcile.Result{}, nil
	}
	_, err = b.healths.Put(ctx, key, health)
	return reconcile.Result{}, err
}
