package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The policies of deletion.
const (
	policyRetain               = "Retain"
	policySnapshot             = "Snapshot"
	policyRetainExceptOnCreate = "RetainExceptOnCreate"
)

// deletionPolicy returns how a resource goes: an empty text deletes it. creating tells that its creation is undone.
func (p *pass) deletionPolicy(of record.StackPhysical, creating bool) string {
	switch of.DeletionPolicy {
	case policyRetain:
		if creating && (of.Broken || p.stack.Operation.RetainExceptOnCreate) {
			return ""
		}
		return policyRetain
	case policyRetainExceptOnCreate:
		if creating {
			return ""
		}
		return policyRetain
	case policySnapshot:
		if creating {
			return ""
		}
		return policySnapshot
	}
	return ""
}

// condemn records of which resources nothing is to stay.
func (p *pass) condemn(ctx context.Context, creating bool, condemned func(record.StackResource) bool) error {
	for _, id := range p.ids() {
		row := p.row(id)
		r := &row.Value
		if r.Live == nil || !condemned(*r) {
			continue
		}
		old := *r.Live
		old.OnDelete = p.deletionPolicy(old, creating && old.CreatedIn == p.state.Value.Epoch)
		r.Old, r.Live = append(slices.Clone(r.Old), old), nil
		if _, err := p.save(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// removal is how the deletion of what is condemned ended.
type removal struct {
	done   bool
	failed []string
	after  time.Duration
}

// remove deletes what is condemned, the users of a resource before it. keep tells that the records of what is gone
// stay, for those who list the resources of the stack.
func (p *pass) remove(ctx context.Context, keep bool) (removal, error) {
	force := false // of the order, when resources of different revisions use each other
	for {
		after, err := p.runSteps(ctx, func(busy map[string]bool) []string { return p.removable(busy, force) },
			func(ctx context.Context, id string) outcome { return p.removeOne(ctx, id, keep) })
		if err != nil || p.superseded(ctx) {
			return removal{}, err
		}
		r := removal{after: after, done: true}
		for _, id := range p.ids() {
			row := p.row(id).Value
			if row.Failed == p.phase() {
				r.failed = append(r.failed, id)
			}
			if len(row.Old) > 0 && row.Failed != p.phase() {
				r.done = false
			}
		}
		if r.done || after > 0 {
			return r, nil
		}
		if len(r.failed) > 0 { // what is left is used by what could not be deleted
			r.done = true
			return r, nil
		}
		if force {
			return r, fmt.Errorf("resources of stack %s cannot be deleted", p.stack.Name)
		}
		force = true
	}
}

// removable returns the resources of which something can be deleted.
func (p *pass) removable(busy map[string]bool, force bool) (ready []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := map[string]map[string]bool{} // logical IDs by who uses them
	for id, row := range p.rows {
		for _, old := range row.Value.Old {
			for _, other := range old.DependsOn {
				if used[other] == nil {
					used[other] = map[string]bool{}
				}
				used[other][id] = true
			}
		}
	}
	phase := p.phase()
	for id, row := range p.rows {
		r := row.Value
		if busy[id] || len(r.Old) == 0 || r.Failed == phase {
			continue
		}
		users := len(used[id])
		if used[id][id] {
			users--
		}
		if users == 0 || force || r.Work != nil {
			ready = append(ready, id)
		}
	}
	slices.Sort(ready)
	return ready
}

// phase identifies what the operation does now: what failed in one phase is tried again in the next.
func (p *pass) phase() string { return p.stack.Operation.ID + "/" + string(p.state.Value.Status) }

// removeOne deletes the first condemned resource that a record has.
func (p *pass) removeOne(ctx context.Context, id string, keep bool) outcome {
	row := p.row(id)
	if w := row.Value.Work; w != nil {
		return p.removed(ctx, id, p.perform(ctx, row, true), keep)
	}
	old := row.Value.Old[0]
	if old.OnDelete == policyRetain || slices.Contains(p.stack.Operation.Retain, id) {
		return p.skip(ctx, row, "", keep)
	}
	if old.OnDelete == policySnapshot {
		if err := p.snapshot(ctx, id, old); err != nil {
			return p.failRemoval(ctx, row, resource.Reason(err, p.stack.Operation.ID))
		}
	}
	row, err := p.plan(ctx, row, record.StackWork{Action: record.ResourceDelete, Target: old}, "")
	if err != nil {
		return outcome{err: err}
	}
	return p.removed(ctx, id, p.perform(ctx, row, false), keep)
}

// removed completes a deletion: the record of a resource that is gone goes as well, unless it is kept.
func (p *pass) removed(ctx context.Context, id string, o outcome, keep bool) outcome {
	row := p.row(id)
	r := row.Value
	if o.err != nil {
		return o
	}
	if r.Failed == p.phase() && p.stack.Operation.Force {
		return p.skip(ctx, row, r.Reason, keep)
	}
	if !keep && row.Revision != 0 && r.Live == nil && len(r.Old) == 0 && r.Work == nil {
		if err := p.deleteRecord(ctx, row); err != nil {
			return outcome{err: err}
		}
	}
	return o
}

// skip leaves a resource alone that is condemned.
func (p *pass) skip(ctx context.Context, row store.Row[record.StackResource], reason string, keep bool) outcome {
	r := &row.Value
	old := r.Old[0]
	r.Old, r.Failed = r.Old[1:], ""
	event := resourceEvent(r.LogicalID, old, types.ResourceStatusDeleteSkipped, reason)
	if r.Live == nil {
		r.Status, r.Reason = types.ResourceStatusDeleteSkipped, reason
		r.Before = &old
	}
	if !keep && r.Live == nil && len(r.Old) == 0 {
		if err := p.deleteRecord(ctx, row, event); err != nil {
			return outcome{err: err}
		}
		return outcome{progress: true}
	}
	if _, err := p.save(ctx, row, event); err != nil {
		return outcome{err: err}
	}
	return outcome{progress: true}
}

// endDeleted records that a condemned resource is gone.
func (p *pass) endDeleted(ctx context.Context, row store.Row[record.StackResource]) outcome {
	r := &row.Value
	gone := r.Work.Target
	r.Work, r.Old = nil, r.Old[1:]
	if r.Live == nil {
		r.Status, r.Reason = types.ResourceStatusDeleteComplete, ""
		shown := gone
		shown.Properties, shown.Attributes, shown.Metadata = nil, nil, nil
		r.Before = &shown
	} else {
		r.Status, r.Reason = types.ResourceStatusUpdateComplete, ""
	}
	if _, err := p.save(ctx, row, resourceEvent(r.LogicalID, gone, types.ResourceStatusDeleteComplete, "")); err != nil {
		return outcome{err: err}
	}
	afterDone.Here()
	p.c.endWait(p.key, r.LogicalID)
	return outcome{progress: true}
}

func (p *pass) failRemoval(ctx context.Context, row store.Row[record.StackResource], reason string) outcome {
	r := &row.Value
	r.Failed, r.Reason = p.phase(), bound(reason)
	if r.Live == nil {
		r.Status = types.ResourceStatusDeleteFailed
	}
	if _, err := p.save(ctx, row, resourceEvent(r.LogicalID, r.Old[0], types.ResourceStatusDeleteFailed,
		r.Reason)); err != nil {
		return outcome{err: err}
	}
	return outcome{progress: true}
}

// snapshot makes a snapshot of a volume that is about to be deleted.
func (p *pass) snapshot(ctx context.Context, id string, of record.StackPhysical) error {
	if of.Type != "AWS::EC2::Volume" {
		return resource.Errorf(resource.InvalidRequest, "snapshots of %s are not supported by coracle", of.Type)
	}
	client := ec2.NewFromConfig(p.config)
	_, err := client.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: aws.String(of.PhysicalID),
		Description: aws.String("Created by CloudFormation for " + p.stack.Name + "-" + id),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSnapshot,
			Tags: resource.TagList(of.Tags, func(key, value string) ec2types.Tag {
				return ec2types.Tag{Key: aws.String(key), Value: aws.String(value)}
			})}}})
	return err
}

// clean deletes what an update has replaced or removed, or what an update made that was rolled back.
func (p *pass) clean(ctx context.Context) (*transition, time.Duration, error) {
	success := p.state.Value.Status == types.StackStatusUpdateCompleteCleanupInProgress
	if success {
		wanted, err := p.logicalIDs(ctx, p.state.Value.Revision)
		if err != nil {
			return nil, 0, err
		}
		if err := p.condemn(ctx, false, func(r record.StackResource) bool { return !wanted[r.LogicalID] }); err != nil {
			return nil, 0, err
		}
	}
	r, err := p.remove(ctx, false)
	if err != nil || !r.done {
		return nil, r.after, err
	}
	t := &transition{status: types.StackStatusUpdateComplete}
	if !success {
		t.status = types.StackStatusUpdateRollbackComplete
	}
	if len(r.failed) > 0 {
		t.reason = "Update successful. One or more resources could not be deleted."
	}
	return t, 0, nil
}

// logicalIDs returns the resources of a revision.
func (p *pass) logicalIDs(ctx context.Context, revision string) (map[string]bool, error) {
	bound, _, err := p.bind(ctx, revision)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, id := range bound.LogicalIDs() {
		ids[id] = true
	}
	return ids, nil
}

// undoCreation deletes what a creation that failed has made.
func (p *pass) undoCreation(ctx context.Context) (*transition, time.Duration, error) {
	if err := p.condemn(ctx, true, func(record.StackResource) bool { return true }); err != nil {
		return nil, 0, err
	}
	r, err := p.remove(ctx, true)
	if err != nil || !r.done {
		return nil, r.after, err
	}
	if len(r.failed) > 0 {
		return &transition{status: types.StackStatusRollbackFailed, reason: failedReason("delete", r.failed)}, 0, nil
	}
	if err := p.endImports(ctx, ""); err != nil {
		return nil, 0, err
	}
	return &transition{status: types.StackStatusRollbackComplete}, 0, nil
}

// deleteAll deletes the resources of a stack that goes.
func (p *pass) deleteAll(ctx context.Context) (*transition, time.Duration, error) {
	creating := p.stack.Operation.Kind == record.StackCreate // OnFailure is DELETE
	if err := p.condemn(ctx, creating, func(record.StackResource) bool { return true }); err != nil {
		return nil, 0, err
	}
	if reason, err := p.removeExports(ctx); err != nil || reason != "" {
		return &transition{status: types.StackStatusDeleteFailed, reason: reason}, 0, err
	}
	r, err := p.remove(ctx, true)
	if err != nil || !r.done {
		return nil, r.after, err
	}
	if len(r.failed) > 0 {
		reason := strings.TrimSuffix(failedReason("delete", r.failed), ".") + ". "
		return &transition{status: types.StackStatusDeleteFailed, reason: reason}, 0, nil
	}
	if err := p.endImports(ctx, ""); err != nil {
		return nil, 0, err
	}
	return &transition{status: types.StackStatusDeleteComplete, edit: func(s *record.StackState) {
		s.DeletedAt = p.c.now().UTC()
	}}, 0, nil
}
