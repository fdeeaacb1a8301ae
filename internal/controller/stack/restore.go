package stack

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/cloudformation/plan"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// restore makes the resources what they were before the update. What is new is condemned.
func (p *pass) restore(ctx context.Context) (*transition, time.Duration, error) {
	// Before there is any work, which asks for the policies in it: whoever works on a resource waits for no memory. A
	// template that cannot be bound has none.
	if _, _, err := p.bind(ctx, p.state.Value.Current); err != nil && ctx.Err() != nil {
		return nil, 0, err
	}
	imported := p.state.Value.Status == types.StackStatusImportRollbackInProgress
	after, err := p.runSteps(ctx, p.restorable, func(ctx context.Context, id string) outcome {
		return p.restoreOne(ctx, id, imported)
	})
	if err != nil || p.superseded(ctx) {
		return nil, 0, err
	}
	var wrong []string
	for _, id := range p.ids() {
		if p.row(id).Value.Failed == p.phase() {
			wrong = append(wrong, id)
		}
	}
	for _, id := range p.ids() {
		if !p.isDone(id) && p.row(id).Value.Work != nil {
			return nil, max(after, firstDelay), nil
		}
	}
	if len(wrong) > 0 {
		return &transition{status: types.StackStatusUpdateRollbackFailed, reason: failedReason("update", wrong)}, 0, nil
	}
	if err := p.endImports(ctx, p.state.Value.Revision); err != nil {
		return nil, 0, err
	}
	if imported {
		return &transition{status: types.StackStatusImportRollbackComplete}, 0, nil
	}
	return &transition{status: types.StackStatusUpdateRollbackCompleteCleanupInProgress}, 0, nil
}

// restorable returns the resources that can be restored: those that they depended on are.
func (p *pass) restorable(busy map[string]bool) (ready []string) {
	for _, id := range p.ids() {
		r := p.row(id).Value
		if busy[id] || p.isDone(id) || r.Failed == p.phase() {
			continue
		}
		if r.Before != nil && r.Work == nil && slices.ContainsFunc(r.Before.DependsOn, func(other string) bool {
			return other != id && p.row(other).Revision != 0 && !p.isDone(other)
		}) {
			continue
		}
		ready = append(ready, id)
	}
	return ready
}

// restoreOne makes one resource what it was.
func (p *pass) restoreOne(ctx context.Context, id string, imported bool) outcome {
	row := p.row(id)
	r := &row.Value
	switch {
	case r.Work != nil:
		return p.perform(ctx, row, true)
	case r.Touched != p.state.Value.Epoch:
		p.markDone(id)
		return outcome{progress: true}
	case r.Before == nil && imported:
		p.markDone(id)
		if err := p.deleteRecord(ctx, row); err != nil {
			return outcome{err: err}
		}
		return outcome{progress: true}
	case r.Before == nil:
		return p.condemnNew(ctx, row)
	case slices.Contains(p.stack.Operation.Retain, id):
		return p.restored(ctx, row)
	case r.Live == nil || r.Live.PhysicalID != r.Before.PhysicalID || r.Live.Type != r.Before.Type:
		return p.undoReplacement(ctx, row)
	}
	old, err := revision.Resource(*r.Live)
	if err != nil {
		return outcome{err: err}
	}
	want, err := revision.Resource(*r.Before)
	if err != nil {
		return outcome{err: err}
	}
	if plan.Compare(old, want).IsEmpty() {
		if r.Status == types.ResourceStatusUpdateComplete || r.Status == types.ResourceStatusCreateComplete {
			p.markDone(id)
			return outcome{progress: true}
		}
		return p.restored(ctx, row)
	}
	row, err = p.plan(ctx, row, record.StackWork{Action: record.ResourceUpdate, Target: *r.Before}, "")
	if err != nil {
		return outcome{err: err}
	}
	return p.perform(ctx, row, false)
}

// condemnNew records that a resource which the update has made goes.
func (p *pass) condemnNew(ctx context.Context, row store.Row[record.StackResource]) outcome {
	r := &row.Value
	p.markDone(r.LogicalID)
	if r.Live == nil {
		if len(r.Old) > 0 {
			return outcome{progress: true}
		}
		if row.Revision == 0 {
			return outcome{progress: true}
		}
		if err := p.deleteRecord(ctx, row); err != nil {
			return outcome{err: err}
		}
		return outcome{progress: true}
	}
	made := *r.Live
	made.OnDelete = p.deletionPolicy(made, true)
	r.Old, r.Live = append(slices.Clone(r.Old), made), nil
	if _, err := p.save(ctx, row); err != nil {
		return outcome{err: err}
	}
	return outcome{progress: true}
}

// undoReplacement makes the resource live again that was replaced. What replaced it is condemned.
func (p *pass) undoReplacement(ctx context.Context, row store.Row[record.StackResource]) outcome {
	r := &row.Value
	before := *r.Before
	r.Old = slices.DeleteFunc(slices.Clone(r.Old), func(old record.StackPhysical) bool {
		return old.PhysicalID == before.PhysicalID && old.Type == before.Type
	})
	if r.Live != nil {
		made := *r.Live
		made.OnDelete = p.deletionPolicy(made, true)
		r.Old = append(r.Old, made)
	}
	o := p.restored(ctx, row)
	afterSwapped.Here()
	return o
}

// restored records that a resource is what it was.
func (p *pass) restored(ctx context.Context, row store.Row[record.StackResource]) outcome {
	r := &row.Value
	before := *r.Before
	r.Live, r.Type, r.Failed = &before, before.Type, ""
	r.Status, r.Reason = types.ResourceStatusUpdateComplete, ""
	if _, err := p.save(ctx, row, resourceEvent(r.LogicalID, before, r.Status, "")); err != nil {
		return outcome{err: err}
	}
	p.markDone(r.LogicalID)
	return outcome{progress: true}
}
