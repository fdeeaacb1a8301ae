package stack

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Deleted stacks are shown for as long as on AWS, and not more than so many in an account and region.
const (
	keepDeleted = 90 * 24 * time.Hour
	maxDeleted  = 200
	maxEvents   = 2000 // of a stack
)

// removeOldRecords tidies up after an operation.
func (p *pass) removeOldRecords(ctx context.Context) (reconcile.Result, error) {
	if err := p.removeOldEvents(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if err := p.removeRevisions(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if p.state.Value.Status != types.StackStatusDeleteComplete {
		return reconcile.Result{Gone: true}, nil
	}
	if err := p.removeChangeSets(ctx); err != nil {
		return reconcile.Result{}, err
	}
	left := p.state.Value.DeletedAt.Add(keepDeleted).Sub(p.c.now())
	if left <= 0 {
		return reconcile.Result{Gone: true}, p.c.purge(ctx, p.stack)
	}
	if err := p.removeOldest(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{After: left}, nil
}

func (p *pass) removeOldEvents(ctx context.Context) error {
	prefix := store.Prefix(p.stack.Account, p.stack.Region, p.stack.ID)
	n := p.c.events.Count(prefix) - maxEvents
	if n <= 0 {
		return nil
	}
	rows, _, err := p.c.events.Page(ctx, prefix, "", n)
	if err != nil {
		return err
	}
	return removeAll(ctx, p.c.store, p.c.events, rows)
}

// removeRevisions deletes the revisions that neither the stack nor a change set has.
func (p *pass) removeRevisions(ctx context.Context) error {
	s := p.stack
	prefix := store.Prefix(s.Account, s.Region, s.ID)
	needed := []string{s.Operation.Revision, p.state.Value.Revision, p.state.Value.Current}
	sets, err := p.c.sets.List(ctx, prefix)
	if err != nil {
		return err
	}
	for _, set := range sets {
		needed = append(needed, set.Value.Revision)
	}
	rows, err := p.c.revisions.List(ctx, prefix)
	if err != nil {
		return err
	}
	for _, row := range rows {
		id := store.Parts(row.Key)[3]
		// A request that has just written a revision names it only afterwards.
		if slices.Contains(needed, id) || p.c.now().Sub(row.Value.CreatedAt) < time.Minute {
			continue
		}
		if err := p.c.store.Txn(ctx, p.c.revisions.RemoveOp(row.Key), p.c.templates.RemoveOp(row.Key)); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) removeChangeSets(ctx context.Context) error {
	rows, err := p.c.sets.List(ctx, store.Prefix(p.stack.Account, p.stack.Region, p.stack.ID))
	if err != nil {
		return err
	}
	return removeAll(ctx, p.c.store, p.c.sets, rows)
}

// statesAtOnce is the number of states of stacks that are read together: their outputs may be long.
const statesAtOnce = 10

// removeOldest purges the stacks that were deleted first, if there are too many.
func (p *pass) removeOldest(ctx context.Context) error {
	prefix := store.Prefix(p.stack.Account, p.stack.Region)
	if p.c.states.Count(prefix) <= maxDeleted {
		return nil
	}
	type deletion struct {
		key string
		at  time.Time
	}
	var deleted []deletion
	for after := ""; ; {
		rows, next, err := p.c.states.Page(ctx, prefix, after, statesAtOnce)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Value.Status == types.StackStatusDeleteComplete {
				deleted = append(deleted, deletion{row.Key, row.Value.DeletedAt})
			}
		}
		if after = next; next == "" {
			break
		}
	}
	slices.SortFunc(deleted, func(a, b deletion) int { return a.at.Compare(b.at) })
	for _, d := range deleted[:max(0, len(deleted)-maxDeleted)] {
		stack, err := p.c.stacks.Get(ctx, d.key)
		if err != nil {
			continue
		}
		if err := p.c.purge(ctx, stack.Value); err != nil {
			return err
		}
	}
	return nil
}

// purge deletes all records of a stack that is gone.
func (c *Controller) purge(ctx context.Context, s record.Stack) error {
	prefix, key := store.Prefix(s.Account, s.Region, s.ID), record.StackKey(s.Account, s.Region, s.ID)
	for _, remove := range []func() error{
		func() error { return removePrefix(ctx, c.store, c.events, prefix) },
		func() error { return removePrefix(ctx, c.store, c.resources, prefix) },
		func() error { return removePrefix(ctx, c.store, c.signals, prefix) },
		func() error { return removePrefix(ctx, c.store, c.sets, prefix) },
		func() error { return removePrefix(ctx, c.store, c.revisions, prefix) },
		func() error { return removePrefix(ctx, c.store, c.templates, prefix) },
	} {
		if err := remove(); err != nil {
			return err
		}
	}
	if name, err := c.names.Get(ctx, record.StackNameKey(s.Account, s.Region, s.Name)); err == nil &&
		name.Value.ID == s.ID {
		if err := c.names.Delete(ctx, name); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	if s.Drift != "" {
		if err := c.store.Txn(ctx, c.drifts.RemoveOp(record.StackDriftDetectionKey(s.Account, s.Region,
			s.Drift))); err != nil {
			return err
		}
	}
	return c.store.Txn(ctx, c.states.RemoveOp(key), c.stacks.RemoveOp(key))
}

func removePrefix[T any](ctx context.Context, s *store.Store, table store.Table[T], prefix string) error {
	rows, err := table.List(ctx, prefix)
	if err != nil {
		return err
	}
	return removeAll(ctx, s, table, rows)
}

// removeAll deletes rows, some in each transaction.
func removeAll[T any](ctx context.Context, s *store.Store, table store.Table[T], rows []store.Row[T]) error {
	const each = 50
	for some := range slices.Chunk(rows, each) {
		var ops []store.Op
		for _, row := range some {
			ops = append(ops, table.RemoveOp(row.Key))
		}
		if err := s.Txn(ctx, ops...); err != nil {
			return err
		}
	}
	return nil
}
