package stack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// stableFor bounds how long a resource may take to become stable.
const stableFor = 3 * time.Hour

// inProgress, complete and failed are the statuses of a resource during and after each action.
var (
	inProgress = map[record.StackAction]types.ResourceStatus{
		record.ResourceCreate: types.ResourceStatusCreateInProgress,
		record.ResourceUpdate: types.ResourceStatusUpdateInProgress,
		record.ResourceDelete: types.ResourceStatusDeleteInProgress,
		record.ResourceImport: types.ResourceStatusImportInProgress,
	}
	complete = map[record.StackAction]types.ResourceStatus{
		record.ResourceCreate: types.ResourceStatusCreateComplete,
		record.ResourceUpdate: types.ResourceStatusUpdateComplete,
		record.ResourceDelete: types.ResourceStatusDeleteComplete,
		record.ResourceImport: types.ResourceStatusImportComplete,
	}
	failed = map[record.StackAction]types.ResourceStatus{
		record.ResourceCreate: types.ResourceStatusCreateFailed,
		record.ResourceUpdate: types.ResourceStatusUpdateFailed,
		record.ResourceDelete: types.ResourceStatusDeleteFailed,
		record.ResourceImport: types.ResourceStatusImportFailed,
	}
)

// touch remembers what a resource was before the first change since all was as a revision has it.
func (p *pass) touch(r *record.StackResource) {
	if epoch := p.state.Value.Epoch; r.Touched != epoch {
		r.Touched, r.Before = epoch, r.Live
		r.Old = nil // what a cleanup could not delete is not the stack's any more
	}
}

// plan records that something is about to be done to a resource.
func (p *pass) plan(ctx context.Context, row store.Row[record.StackResource], w record.StackWork, reason string) (
	store.Row[record.StackResource], error) {
	w.OperationID, w.Token, w.Since = p.stack.Operation.ID, uuid.NewString(), p.c.now().UTC()
	row.Value.Work, row.Value.Failed = &w, ""
	if w.Action != record.ResourceDelete || row.Value.Live == nil {
		row.Value.Type, row.Value.Status, row.Value.Reason = w.Target.Type, statusOf(w), reason
	}
	if w.Action != record.ResourceDelete {
		if err := p.removeSignals(ctx, row.Value.LogicalID); err != nil {
			return row, err
		}
	}
	shown := w.Target
	if (w.Action == record.ResourceUpdate || w.Replaces) && row.Value.Live != nil {
		shown.PhysicalID, shown.Ref = row.Value.Live.PhysicalID, row.Value.Live.Ref
	}
	if slices.Contains(adding, p.state.Value.Status) {
		ctx = store.Limited(ctx) // this is where a stack grows
	}
	row, err := p.save(ctx, row, resourceEvent(row.Value.LogicalID, shown, statusOf(w), reason))
	afterPlanned.Here()
	return row, err
}

// adding are the statuses of a stack to which resources are added. All else must go on in an account that is full: its
// resources are deleted, too.
var adding = []types.StackStatus{types.StackStatusCreateInProgress, types.StackStatusUpdateInProgress,
	types.StackStatusImportInProgress}

// statusOf returns the status of a resource during work: AWS shows a replacement as an update.
func statusOf(w record.StackWork) types.ResourceStatus {
	if w.Replaces {
		return types.ResourceStatusUpdateInProgress
	}
	return inProgress[w.Action]
}

// request returns what the handler of a resource is told.
func (p *pass) request(ctx context.Context, row store.Row[record.StackResource], retried bool,
) (*resource.Request, error) {
	r, w := row.Value, row.Value.Work
	in := p.newRequest(r.LogicalID, w.Target)
	in.Token, in.Retried, in.Progress = w.Token, retried, maps.Clone(w.Progress)
	in.Creation = maps.Clone(w.Target.Creation)
	for _, old := range r.Old {
		in.Replaced = append(in.Replaced, old.PhysicalID)
	}
	if w.Action == record.ResourceCreate && r.Live != nil {
		in.Replaced = append(in.Replaced, r.Live.PhysicalID)
	}
	if w.Action == record.ResourceDelete && r.Live != nil && r.Live.PhysicalID != w.Target.PhysicalID {
		in.Replaced = append(in.Replaced, r.Live.PhysicalID)
	}
	if err := revision.Decode(w.Target.Properties, &in.Properties); err != nil {
		return in, err
	}
	if w.Action != record.ResourceDelete {
		of, err := p.revision(ctx, p.state.Value.Current)
		if err != nil {
			return in, err
		}
		in.Capabilities, in.AllowedTypes = of.Capabilities, of.AllowedTypes
	}
	if w.Action == record.ResourceUpdate {
		in.PreviousTags = maps.Clone(r.Live.Tags)
		if err := revision.Decode(r.Live.Properties, &in.Previous); err != nil {
			return in, err
		}
	}
	return in, nil
}

// newRequest returns a request about a resource.
func (p *pass) newRequest(id string, of record.StackPhysical) *resource.Request {
	return &resource.Request{
		Config: p.config, Account: p.stack.Account, Region: p.stack.Region, Partition: "aws", StackID: p.stack.ARN(),
		StackName: p.stack.Name, LogicalID: id, PhysicalID: of.PhysicalID, Name: of.Name, Tags: maps.Clone(of.Tags),
		Now: p.c.now,
	}
}

// callFor bounds one call of a handler.
const callFor = 2 * time.Minute

// perform calls the handler of a resource whose work has been recorded, and records what it says. retried tells that
// the handler may have been called for it already.
func (p *pass) perform(ctx context.Context, row store.Row[record.StackResource], retried bool) outcome {
	w := row.Value.Work
	if w.Stable {
		return p.followPolicy(ctx, row)
	}
	kind, ok := p.c.options.Types[w.Target.Type]
	if !ok {
		return p.endFailed(ctx, row, fmt.Sprintf("Unrecognized resource type: %s", w.Target.Type), resource.Result{})
	}
	in, err := p.request(ctx, row, retried)
	if err != nil {
		return outcome{err: err}
	}
	result, err := p.call(ctx, kind, *w, in)
	afterCalled.Here()
	if ctx.Err() != nil {
		return outcome{err: ctx.Err()}
	}
	switch {
	case errors.Is(err, resource.ErrReplace) && w.Action == record.ResourceUpdate:
		return p.replaceInstead(ctx, row)
	case err != nil && p.mayRetry(row, err):
		return p.retry(ctx, row, result, err)
	case w.Action == record.ResourceCreate && madeNothing(result, err, retried):
		return p.endRefused(ctx, row, resource.Reason(err, w.Token))
	case err != nil:
		return p.endFailed(ctx, row, resource.Reason(err, w.Token), result)
	case result.Pending > 0 && p.c.now().Sub(w.Since) > stableFor:
		return p.endFailed(ctx, row, "Resource did not stabilize within the allowed time", result)
	case result.Pending > 0:
		if err := p.saveProgress(ctx, row, result, ""); err != nil {
			return outcome{err: err}
		}
		p.c.setWait(p.key, row.Value.LogicalID, result.Pending, false)
		return outcome{after: p.c.dueIn(p.key, row.Value.LogicalID)}
	}
	return p.endHandled(ctx, row, result)
}

// call calls a handler. A panic is an error of the resource alone.
func (p *pass) call(ctx context.Context, kind resource.Type, w record.StackWork, in *resource.Request) (
	result resource.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	defer func() {
		if fault := recover(); fault != nil {
			p.c.log.Error("a resource handler panicked", "stack", p.stack.Name, "resource", in.LogicalID, "panic", fault)
			err = resource.Errorf(resource.InternalFailure, "internal failure")
		}
	}()
	switch w.Action {
	case record.ResourceCreate:
		return kind.Create(ctx, in)
	case record.ResourceUpdate:
		return kind.Update(ctx, in)
	case record.ResourceDelete:
		return kind.Delete(ctx, in)
	}
	properties, attributes, err := kind.Read(ctx, in)
	if errors.Is(err, resource.ErrNotFound) {
		return resource.Result{}, resource.Errorf(resource.NotFound, "Resource of type '%s' with identifier '%s' was "+
			"not found.", w.Target.Type, in.PhysicalID)
	}
	_ = properties // an import takes the resource as it is; drift detection tells where the template differs
	return resource.Result{PhysicalID: in.PhysicalID, Attributes: attributes}, err
}

// mayRetry reports whether a call that failed is made again.
func (p *pass) mayRetry(row store.Row[record.StackResource], err error) bool {
	limit := p.c.options.RetryFor
	if row.Value.Work.Action == record.ResourceDelete {
		limit = p.c.options.RemoveFor
	}
	since := p.c.failingSince(p.key, row.Value.LogicalID)
	return resource.Retryable(err) && (since.IsZero() || p.c.now().Sub(since) < limit)
}

// retry records why a call failed that is to be made again.
func (p *pass) retry(ctx context.Context, row store.Row[record.StackResource], result resource.Result,
	why error) outcome {
	if err := p.saveProgress(ctx, row, result, bound(resource.Problem(why))); err != nil {
		return outcome{err: err}
	}
	p.c.setWait(p.key, row.Value.LogicalID, 0, true)
	return outcome{after: max(p.c.dueIn(p.key, row.Value.LogicalID), time.Millisecond)}
}

// saveProgress records what a handler said of work that is not done.
func (p *pass) saveProgress(ctx context.Context, row store.Row[record.StackResource], result resource.Result,
	failing string) error {
	failing = bound(failing)
	w := *row.Value.Work
	physicalID := w.Target.PhysicalID
	if result.PhysicalID != "" {
		physicalID = result.PhysicalID
	}
	if physicalID == w.Target.PhysicalID && failing == w.Failing &&
		(result.Progress == nil || maps.Equal(result.Progress, w.Progress)) {
		return nil
	}
	var events []record.StackEvent
	if physicalID != "" && w.Target.PhysicalID == "" && w.Action == record.ResourceCreate {
		w.Target.PhysicalID, w.Target.Ref = physicalID, result.Ref
		events = append(events, resourceEvent(row.Value.LogicalID, w.Target, statusOf(w),
			"Resource creation Initiated"))
		row.Value.Reason = "Resource creation Initiated"
	}
	w.Target.PhysicalID, w.Failing = physicalID, failing
	if result.Progress != nil {
		w.Progress = result.Progress
	}
	row.Value.Work = &w
	_, err := p.save(ctx, row, events...)
	afterPending.Here()
	return err
}

// endHandled records that a handler is done. What a policy of the resource waits for comes next.
func (p *pass) endHandled(ctx context.Context, row store.Row[record.StackResource], result resource.Result) outcome {
	w := *row.Value.Work
	initiated := w.Action == record.ResourceCreate && w.Target.PhysicalID == ""
	if result.PhysicalID != "" {
		w.Target.PhysicalID = result.PhysicalID
	}
	if w.Action != record.ResourceDelete {
		w.Target.Ref = result.Ref
		switch {
		case len(result.Attributes) > 0:
			w.Target.Attributes = encode(result.Attributes)
		case w.Action != record.ResourceUpdate:
			w.Target.Attributes = nil
		}
	}
	row.Value.Work = &w
	p.c.endWait(p.key, row.Value.LogicalID)
	if len(w.Target.Attributes) > maxAttributes {
		w.Target.Attributes = nil
		return p.endFailed(ctx, row, fmt.Sprintf("the attributes of the resource have more than %d bytes", maxAttributes),
			resource.Result{})
	}
	var events []record.StackEvent
	if initiated {
		events = append(events, resourceEvent(row.Value.LogicalID, w.Target, statusOf(w),
			"Resource creation Initiated"))
	}
	if w.Action == record.ResourceDelete {
		return p.endDeleted(ctx, row)
	}
	waits, err := p.hasPolicy(ctx, row)
	if err != nil {
		return p.endFailed(ctx, row, err.Error(), resource.Result{})
	}
	if waits {
		w.Stable, w.Since = true, p.c.now().UTC()
		if _, err := p.save(ctx, row, events...); err != nil {
			return outcome{err: err}
		}
		return outcome{progress: true}
	}
	return p.endDone(ctx, row, events...)
}

// endDone records that a resource is created, updated or imported.
func (p *pass) endDone(ctx context.Context, row store.Row[record.StackResource], events ...record.StackEvent) outcome {
	w := row.Value.Work
	made := w.Target
	made.Broken, made.Creation = false, nil
	switch {
	case w.Replaces && row.Value.Live != nil:
		replaceLive(&row.Value, made)
	default:
		row.Value.Live = &made
	}
	row.Value.Work, row.Value.Reason = nil, ""
	row.Value.Status = complete[w.Action]
	if w.Replaces {
		row.Value.Status = types.ResourceStatusUpdateComplete
	}
	events = append(events, resourceEvent(row.Value.LogicalID, made, row.Value.Status, ""))
	if _, err := p.save(ctx, row, events...); err != nil {
		return outcome{err: err}
	}
	afterDone.Here()
	p.c.endWait(p.key, row.Value.LogicalID)
	p.markDone(row.Value.LogicalID)
	return outcome{progress: true}
}

// endFailed records that a change of a resource has failed.
func (p *pass) endFailed(ctx context.Context, row store.Row[record.StackResource], reason string,
	result resource.Result) outcome {
	r := &row.Value
	w := *r.Work
	if result.PhysicalID != "" {
		w.Target.PhysicalID = result.PhysicalID
	}
	r.Work, r.Failed = nil, p.phase()
	status := failed[w.Action]
	if w.Replaces {
		status = types.ResourceStatusUpdateFailed
	}
	r.Reason = bound(reason)
	if w.Action != record.ResourceDelete || r.Live == nil {
		r.Status = status
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
	case record.ResourceUpdate:
		// A part of it may have been done. A rollback undoes all; one that fails is tried again.
		if p.state.Value.Status != types.StackStatusUpdateRollbackInProgress {
			updated := w.Target
			r.Live = &updated
		}
	}
	if _, err := p.save(ctx, row, resourceEvent(r.LogicalID, w.Target, status, r.Reason)); err != nil {
		return outcome{err: err}
	}
	afterDone.Here()
	p.c.endWait(p.key, r.LogicalID)
	return outcome{progress: true}
}

// madeNothing reports whether a Create has failed without making anything, now or earlier.
func madeNothing(result resource.Result, err error, retried bool) bool {
	return errors.Is(err, resource.ErrNothingMade) ||
		!retried && result.PhysicalID == "" && resource.IsRefusal(err)
}

// endRefused records that a resource was refused when it was to be created: there is nothing to delete.
func (p *pass) endRefused(ctx context.Context, row store.Row[record.StackResource], reason string) outcome {
	r := &row.Value
	status, shown := types.ResourceStatusCreateFailed, r.Work.Target
	if r.Work.Replaces {
		status = types.ResourceStatusUpdateFailed
	}
	r.Work, r.Failed, r.Status, r.Reason = nil, p.phase(), status, bound(reason)
	if _, err := p.save(ctx, row, resourceEvent(r.LogicalID, shown, status, r.Reason)); err != nil {
		return outcome{err: err}
	}
	afterDone.Here()
	p.c.endWait(p.key, r.LogicalID)
	return outcome{progress: true}
}

// maxReason is the number of bytes of a reason.
const maxReason = 4 << 10

func bound(text string) string {
	if len(text) <= maxReason {
		return text
	}
	const more = "..."
	return strings.ToValidUTF8(text[:maxReason-len(more)], "") + more
}

// replaceInstead replaces a resource that its handler cannot update in place.
func (p *pass) replaceInstead(ctx context.Context, row store.Row[record.StackResource]) outcome {
	target := row.Value.Work.Target
	row.Value.Work = nil
	if _, err := p.beginReplacement(ctx, row, target); err != nil {
		return outcome{err: err}
	}
	return outcome{progress: true}
}
