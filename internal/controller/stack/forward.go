package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/cloudformation/plan"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
	"github.com/coracle-eks/coracle/internal/cloudformation/stackpolicy"
	"github.com/coracle-eks/coracle/internal/cloudformation/template"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// forward makes all resources as the operation's revision has them.
func (p *pass) forward(ctx context.Context) (*transition, time.Duration, error) {
	op := p.stack.Operation
	bound, revision, err := p.bind(ctx, op.Revision)
	if err != nil {
		var fault *template.Error
		if errors.As(err, &fault) {
			return p.fail(fault.Message), 0, nil
		}
		return nil, 0, err
	}
	f := &forwarding{pass: p, bound: bound, tags: revision.Tags}
	if f.policy, err = stackpolicy.Parse(p.policyText()); err != nil {
		return p.fail(err.Error()), 0, nil
	}
	if reason := p.interrupted(ctx); reason != "" {
		return p.abandon(ctx, reason)
	}
	ids := bound.LogicalIDs()
	if err := f.protectRemoved(ctx, ids); err != nil {
		return nil, 0, err
	}
	after, err := p.runSteps(ctx, func(busy map[string]bool) []string { return f.ready(ctx, ids, busy) }, f.step)
	if err != nil || p.superseded(ctx) {
		return nil, 0, err
	}
	if reason := p.interrupted(ctx); reason != "" {
		return p.abandon(ctx, reason)
	}
	if wrong := p.failedNow(); len(wrong) > 0 {
		if len(p.working()) > 0 && op.OnFailure == types.OnFailureDoNothing {
			return nil, p.untilTimeout(after), nil // the others end what they do
		}
		verb := map[types.StackStatus]string{types.StackStatusCreateInProgress: "create",
			types.StackStatusImportInProgress: "import"}[p.state.Value.Status]
		if verb == "" {
			verb = p.verbOf(wrong)
		}
		return p.abandon(ctx, failedReason(verb, wrong))
	}
	for _, id := range ids {
		if !p.isDone(id) {
			return nil, p.untilTimeout(after), nil
		}
	}
	return p.finishForward(ctx, f)
}

// policyText returns the stack policy that protects resources during the operation.
func (p *pass) policyText() string {
	if p.stack.Operation.PolicyDuringUpdate != "" {
		return p.stack.Operation.PolicyDuringUpdate
	}
	return p.stack.Policy
}

// interrupted returns why the operation is to fail, though no resource did.
func (p *pass) interrupted(ctx context.Context) string {
	op := p.stack.Operation
	switch {
	case op.Kind == record.StackUpdate && p.canceled(ctx):
		return "User Initiated"
	case op.Timeout > 0 && p.state.Value.Status == types.StackStatusCreateInProgress &&
		p.c.now().After(op.StartedAt.Add(op.Timeout)):
		return "Stack creation time exceeded the specified timeout."
	}
	return ""
}

// untilTimeout returns when to look again at a stack that waits.
func (p *pass) untilTimeout(after time.Duration) time.Duration {
	op := p.stack.Operation
	if after == 0 {
		after = maxDelay
	}
	if op.Timeout > 0 && p.state.Value.Status == types.StackStatusCreateInProgress {
		after = min(after, max(op.StartedAt.Add(op.Timeout).Sub(p.c.now()), time.Millisecond))
	}
	return after
}

// abandon ends all work that is under way, and returns the transition of the failure.
func (p *pass) abandon(ctx context.Context, reason string) (*transition, time.Duration, error) {
	for _, id := range p.working() {
		row := p.row(id)
		target := row.Value.Work.Target
		p.abandonRolling(ctx, *row.Value.Work)
		endWork(&row.Value)
		if _, err := p.save(ctx, row, resourceEvent(id, target, row.Value.Status, row.Value.Reason)); err != nil {
			return nil, 0, err
		}
		p.c.endWait(p.key, id)
	}
	return p.fail(reason), 0, nil
}

// working returns the resources whose work is not done.
func (p *pass) working() (ids []string) {
	for _, id := range p.ids() {
		if p.row(id).Value.Work != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// failedNow returns the resources that failed in this operation.
func (p *pass) failedNow() (ids []string) {
	for _, id := range p.ids() {
		if p.row(id).Value.Failed == p.phase() {
			ids = append(ids, id)
		}
	}
	return ids
}

func (p *pass) verbOf(ids []string) string {
	for _, id := range ids {
		if p.row(id).Value.Status != types.ResourceStatusCreateFailed {
			return "update"
		}
	}
	return "create"
}

// forwarding is the work of a forward phase.
type forwarding struct {
	*pass
	bound  *template.Bound
	tags   map[string]string // of the stack
	policy stackpolicy.Policy
}

// ready returns the resources that can be worked on.
func (f *forwarding) ready(ctx context.Context, ids []string, busy map[string]bool) (ready []string) {
	stop := len(f.failedNow()) > 0 || f.interrupted(ctx) != ""
	if stop && f.stack.Operation.OnFailure != types.OnFailureDoNothing {
		return nil
	}
	for _, id := range ids {
		if busy[id] || f.isDone(id) {
			continue
		}
		r := f.row(id).Value
		if r.Failed == f.phase() || stop && r.Work == nil {
			continue
		}
		if r.Work == nil && slices.ContainsFunc(f.bound.Dependencies(id), func(other string) bool {
			return !f.isDone(other)
		}) {
			continue
		}
		ready = append(ready, id)
	}
	return ready
}

// protectRemoved refuses the removal of resources that the stack policy protects.
func (f *forwarding) protectRemoved(ctx context.Context, ids []string) error {
	for _, id := range f.ids() {
		row := f.row(id)
		if _, wanted := slices.BinarySearch(ids, id); wanted || row.Value.Live == nil || row.Value.Failed == f.phase() {
			continue
		}
		if denial := f.policy.Denial(stackpolicy.Delete, id, row.Value.Type); denial != "" {
			if o := f.recordRefusal(ctx, row, row.Value.Type, denial); o.err != nil {
				return o.err
			}
		}
	}
	return nil
}

// step does what can be done for a resource whose dependencies are done. What an account has no room for fails.
func (f *forwarding) step(ctx context.Context, id string) outcome {
	o := f.advance(ctx, id)
	var full *store.FullError
	if errors.As(o.err, &full) && !full.Recent {
		return f.recordRefusal(ctx, f.row(id), f.bound.Resource(id).Type, full.Error())
	}
	return o
}

func (f *forwarding) advance(ctx context.Context, id string) outcome {
	row := f.row(id)
	if row.Value.Work != nil {
		return f.perform(ctx, row, true)
	}
	held, release, err := f.evaluating(ctx)
	if err != nil {
		return outcome{err: err}
	}
	target, err := f.target(held, id)
	if err == nil {
		err = f.checkType(target)
	}
	release()
	if ctx.Err() != nil { // it is the pass that ends
		return outcome{err: ctx.Err()}
	}
	var full *store.FullError
	if errors.As(err, &full) { // for the use of an export
		return outcome{err: err}
	}
	if err != nil {
		reason := err.Error()
		var fault *template.Error
		if errors.As(err, &fault) {
			reason = fault.Message
		}
		return f.recordRefusal(ctx, row, f.bound.Resource(id).Type, reason)
	}
	live := row.Value.Live
	switch {
	case live == nil && f.stack.Operation.Imports[id] != nil:
		f.touch(&row.Value)
		target.PhysicalID = identifierOf(target.Type, f.stack.Operation.Imports[id])
		row, err = f.plan(ctx, row, record.StackWork{Action: record.ResourceImport, Target: target},
			"Resource import started.")
	case live == nil:
		f.touch(&row.Value)
		row, err = f.plan(ctx, row, record.StackWork{Action: record.ResourceCreate, Target: target}, "")
	default:
		return f.update(ctx, row, target)
	}
	if err != nil {
		return outcome{err: err}
	}
	return f.perform(ctx, row, false)
}

// update changes a resource that exists, if it is not as the revision has it.
func (f *forwarding) update(
	ctx context.Context, row store.Row[record.StackResource], target record.StackPhysical,
) outcome {
	id, live := row.Value.LogicalID, *row.Value.Live
	old, err := revision.Resource(live)
	if err != nil {
		return outcome{err: err}
	}
	want, err := revision.Resource(target)
	if err != nil {
		return outcome{err: err}
	}
	difference := plan.Compare(old, want)
	if live.Broken {
		difference.Replacement = plan.Always
	}
	if difference.IsEmpty() && !live.Broken {
		return f.recordMetadataChange(ctx, row, target)
	}
	if difference.Replacement != plan.Always && needsRollingUpdate(live, target) {
		all, err := f.policiesOf(ctx, id)
		if err != nil {
			return f.recordRefusal(ctx, row, target.Type, err.Error())
		}
		replacing, _ := all.update["AutoScalingReplacingUpdate"].(map[string]any)
		if boolOf(replacing["WillReplace"]) {
			difference.Replacement = plan.Always
		}
	}
	action := stackpolicy.Modify
	if difference.Replacement == plan.Always {
		action = stackpolicy.Replace
	}
	if denial := f.policy.Denial(action, id, target.Type); denial != "" {
		return f.recordRefusal(ctx, row, target.Type, denial)
	}
	f.touch(&row.Value)
	if difference.Replacement == plan.Always {
		if name := f.sharedName(live, old.Properties, want.Properties); name != "" && !live.Broken && !difference.Type {
			return f.recordRefusal(ctx, row, target.Type, fmt.Sprintf("CloudFormation cannot update a stack when a custom-named "+
				"resource requires replacing. Rename %s and update the stack again.", name))
		}
		if row, err = f.beginReplacement(ctx, row, target); err != nil {
			return outcome{err: err}
		}
		return f.perform(ctx, row, false)
	}
	target.PhysicalID, target.Ref, target.Name, target.CreatedIn = live.PhysicalID, live.Ref, live.Name, live.CreatedIn
	target.Attributes = live.Attributes
	onlyMetadata := len(difference.Properties) == 0 && !difference.Tags
	if row, err = f.plan(ctx, row, record.StackWork{Action: record.ResourceUpdate, Target: target}, ""); err != nil {
		return outcome{err: err}
	}
	if onlyMetadata {
		return f.endDone(ctx, row)
	}
	return f.perform(ctx, row, false)
}

// recordMetadataChange records what an update changes of a resource without a handler: its policies and dependencies.
func (f *forwarding) recordMetadataChange(
	ctx context.Context, row store.Row[record.StackResource], target record.StackPhysical,
) outcome {
	live := *row.Value.Live
	if live.DeletionPolicy != target.DeletionPolicy || live.UpdateReplacePolicy != target.UpdateReplacePolicy ||
		!slices.Equal(live.DependsOn, target.DependsOn) {
		live.DeletionPolicy, live.UpdateReplacePolicy = target.DeletionPolicy, target.UpdateReplacePolicy
		live.DependsOn = target.DependsOn
		f.touch(&row.Value)
		row.Value.Live = &live
		if _, err := f.save(store.Limited(ctx), row); err != nil {
			return outcome{err: err}
		}
	}
	f.markDone(row.Value.LogicalID)
	return outcome{progress: true}
}

// beginReplacement records that a resource is created in place of the live one.
func (p *pass) beginReplacement(ctx context.Context, row store.Row[record.StackResource],
	target record.StackPhysical) (store.Row[record.StackResource], error) {
	target.PhysicalID, target.Ref, target.Attributes = "", "", nil
	target.CreatedIn = p.state.Value.Epoch
	target.Name = p.newName(target.Type, row.Value.LogicalID)
	const reason = "Requested update requires the creation of a new physical resource; hence creating one."
	return p.plan(ctx, row, record.StackWork{Action: record.ResourceCreate, Target: target, Replaces: true}, reason)
}

// sharedName returns the custom name that a resource and what replaces it have in common.
func (f *forwarding) sharedName(live record.StackPhysical, old, want map[string]any) string {
	for _, property := range f.c.options.Types[live.Type].Names {
		name, _ := want[property].(string)
		if before, _ := old[property].(string); name != "" && name == before {
			return name
		}
	}
	return ""
}

// recordRefusal records that a resource fails before its handler is called.
func (f *forwarding) recordRefusal(
	ctx context.Context, row store.Row[record.StackResource], kind, reason string,
) outcome {
	f.touch(&row.Value)
	r := &row.Value
	r.Type, r.Failed, r.Reason = kind, f.phase(), bound(reason)
	r.Status = types.ResourceStatusCreateFailed
	shown := record.StackPhysical{Type: kind}
	if r.Live != nil {
		r.Status, shown = types.ResourceStatusUpdateFailed, *r.Live
	}
	if _, err := f.save(ctx, row, resourceEvent(r.LogicalID, shown, r.Status, r.Reason)); err != nil {
		return outcome{err: err}
	}
	return outcome{progress: true}
}

// Bounds of what records have, in bytes of JSON: the properties and attributes of a resource, and
// in bytes of text: the outputs of a stack.
const (
	maxProperties = template.MaxProperties
	maxAttributes = 256 << 10
	maxOutputs    = 512 << 10
)

// target returns a resource as the revision has it.
func (f *forwarding) target(ctx context.Context, id string) (record.StackPhysical, error) {
	r := f.bound.Resource(id)
	state := &known{pass: f.pass, ctx: ctx}
	properties, err := f.bound.Properties(ctx, id, state)
	if err != nil {
		return record.StackPhysical{}, err
	}
	metadata, err := f.bound.Metadata(ctx, id, state)
	if err != nil {
		return record.StackPhysical{}, err
	}
	if state.missing != "" {
		return record.StackPhysical{}, fmt.Errorf("Attribute '%s' does not exist", state.missing)
	}
	target := record.StackPhysical{
		Type: r.Type, Properties: encode(properties), Metadata: encode(metadata), DependsOn: f.bound.Dependencies(id),
		DeletionPolicy: r.DeletionPolicy, UpdateReplacePolicy: r.UpdateReplacePolicy, CreatedIn: f.state.Value.Epoch,
		Name: f.newName(r.Type, id),
	}
	if len(target.Properties)+len(target.Metadata) > maxProperties {
		return target, fmt.Errorf("the properties of the resource have %d bytes; coracle accepts %d",
			len(target.Properties)+len(target.Metadata), maxProperties)
	}
	if f.c.options.Types.IsTagged(r.Type) {
		target.Tags = revision.ResourceTags(f.stack, f.tags, id)
	}
	return target, nil
}

// checkType refuses what a type does not support: values are known now.
func (f *forwarding) checkType(target record.StackPhysical) error {
	refused, served := f.c.options.Types.Refused(target.Type)
	if !served {
		return fmt.Errorf("Unrecognized resource type: %s", target.Type) //nolint:staticcheck // AWS's text
	}
	want, err := revision.Resource(target)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want.Properties)) {
		if slices.Contains(refused, name) {
			return fmt.Errorf("property %s of %s is not supported by coracle", name, target.Type)
		}
	}
	kind, ok := schema.Of(target.Type)
	if !ok {
		return nil
	}
	if faults := kind.Validate(want.Properties); len(faults) > 0 {
		return fmt.Errorf( //nolint:staticcheck // AWS's text
			"Properties validation failed for resource with message:\n%v", faults[0])
	}
	return nil
}

// identifierOf returns the physical ID of a resource that is imported.
func identifierOf(kind string, identifier map[string]string) string {
	known, ok := schema.Of(kind)
	if !ok {
		return ""
	}
	var parts []string
	for _, name := range known.PrimaryIdentifier {
		parts = append(parts, identifier[name])
	}
	return strings.Join(parts, "|")
}

// finishForward returns the transition after all resources are as the revision has them.
func (p *pass) finishForward(ctx context.Context, f *forwarding) (*transition, time.Duration, error) {
	held, release, err := p.evaluating(ctx)
	if err != nil {
		return nil, 0, err
	}
	outputs, err := f.bound.Outputs(held, &known{pass: p, ctx: held})
	release()
	if ctx.Err() != nil { // it is the pass that ends
		return nil, 0, ctx.Err()
	}
	if err != nil {
		return p.fail(err.Error()), 0, nil
	}
	stored, size := storedOutputs(outputs), 0
	for _, o := range stored {
		size += len(o.Key) + len(o.Value) + len(o.Description) + len(o.Export)
	}
	if size > maxOutputs {
		return p.fail(fmt.Sprintf("the outputs of the stack have %d bytes; coracle accepts %d", size, maxOutputs)), 0, nil
	}
	ops, reason, err := p.exportOps(ctx, outputs)
	if err != nil {
		return nil, 0, err
	}
	if reason != "" {
		return p.fail(reason), 0, nil
	}
	unused, err := p.importOps(ctx, p.stack.Operation.Revision)
	if err != nil {
		return nil, 0, err
	}
	ops = append(ops, unused...)
	t := &transition{status: types.StackStatusCreateComplete, grows: true, ops: ops, edit: func(s *record.StackState) {
		s.Revision, s.Current, s.Outputs, s.RoleARN = p.stack.Operation.Revision, p.stack.Operation.Revision,
			stored, p.stack.Operation.RoleARN
		if s.CreatedAt.IsZero() {
			s.CreatedAt = p.stack.Operation.StartedAt
		}
	}}
	switch p.state.Value.Status {
	case types.StackStatusUpdateInProgress:
		t.status = types.StackStatusUpdateCompleteCleanupInProgress
	case types.StackStatusImportInProgress:
		t.status = types.StackStatusImportComplete
	}
	return t, 0, nil
}

func storedOutputs(outputs []template.Output) []record.StackOutput {
	var list []record.StackOutput
	for _, o := range outputs {
		list = append(list, record.StackOutput(o))
	}
	return list
}

// newName returns a new physical name: <stack>-<logical ID>-<RANDOM>, not longer than the type allows.
func (p *pass) newName(kind, id string) string {
	t := p.c.options.Types[kind]
	if t.NameLimit == 0 {
		return ""
	}
	return physicalName(p.stack.Name, id, t)
}

const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func physicalName(stack, id string, t resource.Type) string {
	var b [12]byte
	rand.Read(b[:])
	suffix := make([]byte, len(b))
	for i, v := range b {
		suffix[i] = nameLetters[int(v)%len(nameLetters)]
	}
	room := t.NameLimit - len(suffix) - 2
	if len(stack)+len(id) > room {
		half := room / 2
		switch {
		case len(stack) <= half:
			id = id[:room-len(stack)]
		case len(id) <= room-half:
			stack = stack[:room-len(id)]
		default:
			stack, id = stack[:half], id[:room-half]
		}
	}
	name := stack + "-" + id + "-" + string(suffix)
	if t.NameLower {
		name = strings.ToLower(name)
	}
	return name
}
