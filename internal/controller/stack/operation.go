package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Crash points: of each, something has just been recorded or done.
var (
	afterBegin   = crash.At("stack/after-begin")
	afterPlanned = crash.At("stack/after-work-recorded")
	afterCalled  = crash.At("stack/after-handler-called")
	afterPending = crash.At("stack/after-progress-recorded")
	afterDone    = crash.At("stack/after-work-completed")
	afterPhase   = crash.At("stack/after-phase-recorded")
	afterSwapped = crash.At("stack/after-replacement-undone")
)

// stable are the statuses after which a stack has what a revision says.
var stable = []types.StackStatus{
	types.StackStatusCreateComplete, types.StackStatusUpdateComplete, types.StackStatusUpdateRollbackComplete,
	types.StackStatusImportComplete, types.StackStatusImportRollbackComplete,
}

// beginOperation returns the state of a stack. It begins its operation if that is new.
func (c *Controller) beginOperation(ctx context.Context, s record.Stack) (store.Row[record.StackState], error) {
	key := record.StackKey(s.Account, s.Region, s.ID)
	row, err := c.states.Copy(ctx, key)
	fresh := errors.Is(err, store.ErrNotFound)
	if err != nil && !fresh {
		return row, err
	}
	op := s.Operation
	if row.Value.OperationID == op.ID {
		return row, nil
	}
	if err := c.endReplacedWork(ctx, s); err != nil {
		return row, err
	}
	state := &row.Value
	if fresh {
		row.Key = key
		*state = record.StackState{Account: s.Account, Region: s.Region, ID: s.ID}
	}
	switch op.Kind {
	case record.StackCreate, record.StackUpdate, record.StackImport:
		if fresh || slices.Contains(stable, state.Status) {
			state.Epoch = op.ID
		}
		if op.Kind == record.StackUpdate || op.Kind == record.StackImport && !fresh {
			state.UpdatedAt = op.StartedAt
		}
		state.Current = op.Revision
	case record.StackRollback:
		if op.Status == types.StackStatusUpdateRollbackInProgress {
			state.Current = state.Revision
		}
	}
	state.OperationID, state.Status, state.Reason = op.ID, op.Status, ""
	write := c.states.UpdateOp(row)
	if fresh {
		write = c.states.CreateOp(key, *state)
	}
	if err := c.store.Txn(ctx, write); err != nil {
		return row, fmt.Errorf("begin operation %s of stack %s: %w", op.ID, s.Name, err)
	}
	afterBegin.Here()
	c.removeWaiting(key)
	return c.states.Copy(ctx, key)
}

// endReplacedWork ends the work of an operation that another one has replaced. What a handler may have made counts as
// made, so that it is deleted or updated by what follows.
func (c *Controller) endReplacedWork(ctx context.Context, s record.Stack) error {
	rows, err := c.resources.List(ctx, store.Prefix(s.Account, s.Region, s.ID))
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Value.Work == nil || row.Value.Work.OperationID == s.Operation.ID {
			continue
		}
		if row, err = c.resources.Copy(ctx, row.Key); err != nil {
			return err
		}
		endWork(&row.Value)
		row.Value.UpdatedAt = c.now().UTC()
		if _, err := c.resources.Update(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// endWork ends the work of a resource before it is done.
func endWork(r *record.StackResource) {
	w := r.Work
	r.Work = nil
	if w == nil {
		return
	}
	switch w.Action {
	case record.ResourceCreate:
		made := w.Target
		made.Broken, made.Creation = true, w.Progress
		if w.Replaces && r.Live != nil {
			replaceLive(r, made)
		} else {
			r.Live = &made
		}
		r.Status, r.Reason = types.ResourceStatusCreateFailed, "Resource creation cancelled"
	case record.ResourceUpdate:
		updated := w.Target
		r.Live = &updated
		r.Status, r.Reason = types.ResourceStatusUpdateFailed, "Resource update cancelled"
	case record.ResourceImport:
		r.Status, r.Reason = types.ResourceStatusImportFailed, "Resource import cancelled"
	}
}

// replaceLive makes a resource the live one. The one before is kept, to be deleted or restored.
func replaceLive(r *record.StackResource, made record.StackPhysical) {
	old := *r.Live
	old.OnDelete = old.UpdateReplacePolicy
	r.Old = append(r.Old, old)
	r.Live = &made
}

// run does what can be done now in the phase that the stack's status names.
func (p *pass) run(ctx context.Context) (reconcile.Result, error) {
	for {
		status := p.state.Value.Status
		var next *transition
		var after time.Duration
		var err error
		switch status {
		case types.StackStatusCreateInProgress, types.StackStatusUpdateInProgress:
			next, after, err = p.forward(ctx)
		case types.StackStatusImportInProgress:
			next, after, err = p.forward(ctx)
		case types.StackStatusUpdateCompleteCleanupInProgress, types.StackStatusUpdateRollbackCompleteCleanupInProgress:
			next, after, err = p.clean(ctx)
		case types.StackStatusRollbackInProgress:
			next, after, err = p.undoCreation(ctx)
		case types.StackStatusUpdateRollbackInProgress, types.StackStatusImportRollbackInProgress:
			next, after, err = p.restore(ctx)
		case types.StackStatusDeleteInProgress:
			next, after, err = p.deleteAll(ctx)
		default:
			return p.removeOldRecords(ctx)
		}
		switch {
		case errors.Is(err, errPassEnds):
			return reconcile.Result{After: time.Millisecond}, nil
		case err != nil:
			return reconcile.Result{}, err
		case p.superseded(ctx):
			return reconcile.Result{After: time.Millisecond}, nil
		case next == nil:
			return reconcile.Result{After: max(after, time.Millisecond)}, nil
		}
		err = p.enter(ctx, *next)
		var full *store.FullError
		if next.grows && errors.As(err, &full) && !full.Recent {
			err = p.enter(ctx, *p.fail(full.Error())) // with the exports that it had
		}
		switch {
		case next.grows && (errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists)): // of an export
			return reconcile.Result{After: time.Millisecond}, nil
		case err != nil:
			return reconcile.Result{}, err
		}
		afterPhase.Here()
	}
}

// transition is a change of a stack's status.
type transition struct {
	status types.StackStatus
	reason string
	edit   func(*record.StackState)
	ops    []store.Op
	grows  bool // the records of the stack and its exports, which an account that is full has no room for
}

// enter records a transition with its event.
func (p *pass) enter(ctx context.Context, t transition) error {
	row, err := p.c.states.Copy(ctx, p.state.Key)
	if err != nil {
		return err
	}
	row.Revision = p.state.Revision
	t.reason = bound(t.reason)
	row.Value.Status, row.Value.Reason = t.status, t.reason
	if t.edit != nil {
		t.edit(&row.Value)
	}
	ops := append([]store.Op{p.c.states.UpdateOp(row)}, t.ops...)
	ops = append(ops, p.events(p.stackEvent(t.status, t.reason))...)
	write := ctx
	if t.grows {
		write = store.Limited(ctx)
	}
	if err := p.c.store.Txn(write, ops...); err != nil {
		return fmt.Errorf("record status %s of stack %s: %w", t.status, p.stack.Name, err)
	}
	p.c.removeWaiting(p.key)
	if p.state, err = p.c.states.Copy(ctx, p.state.Key); err != nil {
		return err
	}
	return p.loadResources(ctx)
}

// fail returns the transition after a failure of a forward phase.
func (p *pass) fail(reason string) *transition {
	status := p.state.Value.Status
	op := p.stack.Operation
	requested := reason + " Rollback requested by user."
	switch status {
	case types.StackStatusCreateInProgress:
		switch op.OnFailure {
		case types.OnFailureDoNothing:
			return &transition{status: types.StackStatusCreateFailed, reason: reason}
		case types.OnFailureDelete:
			return &transition{status: types.StackStatusDeleteInProgress, reason: reason + " Delete requested by user."}
		}
		return &transition{status: types.StackStatusRollbackInProgress, reason: requested}
	case types.StackStatusImportInProgress:
		return &transition{status: types.StackStatusImportRollbackInProgress, reason: reason}
	}
	if op.OnFailure == types.OnFailureDoNothing && !op.Canceled || p.state.Value.Revision == "" {
		return &transition{status: types.StackStatusUpdateFailed, reason: reason}
	}
	return &transition{status: types.StackStatusUpdateRollbackInProgress, reason: reason, edit: func(
		s *record.StackState) {
		s.Current = s.Revision
	}}
}

// failedReason returns the reason of a stack whose resources failed.
func failedReason(verb string, ids []string) string {
	slices.Sort(ids)
	return fmt.Sprintf("The following resource(s) failed to %s: [%s].", verb, strings.Join(ids, ", "))
}

// superseded reports whether the stack is to do something else by now.
func (p *pass) superseded(ctx context.Context) bool {
	row, err := p.c.stacks.Get(ctx, p.key)
	return err != nil || row.Value.Operation.ID != p.stack.Operation.ID
}

// canceled reports whether the user has canceled the update.
func (p *pass) canceled(ctx context.Context) bool {
	row, err := p.c.stacks.Get(ctx, p.key)
	return err == nil && row.Value.Operation.Canceled && row.Value.Operation.ID == p.stack.Operation.ID
}
