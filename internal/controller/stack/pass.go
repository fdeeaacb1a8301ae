package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/google/uuid"
	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/cloudformation/lookup"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/cloudformation/template"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/turn"
)

// pass is one reconcile of a stack. Its goroutines work on different resources.
type pass struct {
	c      *Controller
	key    string
	stack  record.Stack
	state  store.Row[record.StackState]
	config aws.Config

	secrets *revision.Secrets // that events and drifts do not show
	kept    keptTemplate
	end     time.Time // after which no more work is begun; zero before the first

	mu   sync.Mutex
	rows map[string]store.Row[record.StackResource] // by logical ID
	done map[string]bool                            // what is as the phase wants it
	last time.Time                                  // of an event
}

// parallel is the number of resources of a stack that are worked on at a time.
const parallel = 16

func (c *Controller) newPass(ctx context.Context, s record.Stack, state store.Row[record.StackState]) (*pass, error) {
	op := s.Operation
	p := &pass{c: c, key: state.Key, stack: s, state: state, config: c.configOf(s, op.ID, op.Caller, op.RoleARN)}
	if err := p.loadSecrets(ctx, op.Revision, state.Value.Revision, state.Value.Current); err != nil {
		return nil, err
	}
	return p, p.loadResources(ctx)
}

// loadSecrets reads the values of the NoEcho parameters of revisions.
func (p *pass) loadSecrets(ctx context.Context, ids ...string) error {
	var revisions []record.StackRevision
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if id == "" {
			continue
		}
		of, err := p.revision(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		revisions = append(revisions, of)
	}
	p.secrets = revision.SecretsOf(revisions...)
	return nil
}

func (p *pass) loadResources(ctx context.Context) error {
	rows, err := p.c.resources.List(ctx, store.Prefix(p.stack.Account, p.stack.Region, p.stack.ID))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows, p.done = map[string]store.Row[record.StackResource]{}, map[string]bool{}
	for _, row := range rows {
		p.rows[row.Value.LogicalID] = row
	}
	return nil
}

// row returns the record of a resource; its Revision is 0 if there is none.
func (p *pass) row(id string) store.Row[record.StackResource] {
	p.mu.Lock()
	defer p.mu.Unlock()
	row, ok := p.rows[id]
	if !ok {
		row.Key = record.StackResourceKey(p.stack.Account, p.stack.Region, p.stack.ID, id)
		row.Value = record.StackResource{Account: p.stack.Account, Region: p.stack.Region, StackID: p.stack.ID,
			LogicalID: id}
	}
	return row
}

// save writes the record of a resource with its events.
func (p *pass) save(ctx context.Context, row store.Row[record.StackResource], events ...record.StackEvent) (
	store.Row[record.StackResource], error) {
	row.Value.UpdatedAt = p.c.now().UTC()
	write := p.c.resources.UpdateOp(row)
	if row.Revision == 0 {
		write = p.c.resources.CreateOp(row.Key, row.Value)
	}
	ops := append([]store.Op{write}, p.events(events...)...)
	if err := p.c.store.Txn(ctx, ops...); err != nil {
		return row, fmt.Errorf("record resource %s of stack %s: %w", row.Value.LogicalID, p.stack.Name, err)
	}
	saved, err := p.c.resources.Get(ctx, row.Key)
	if err != nil {
		return row, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[row.Value.LogicalID] = saved
	return saved, nil
}

// deleteRecord deletes the record of a resource that is gone, with an event.
func (p *pass) deleteRecord(
	ctx context.Context, row store.Row[record.StackResource], events ...record.StackEvent,
) error {
	ops := append([]store.Op{p.c.resources.DeleteOp(row)}, p.events(events...)...)
	if err := p.c.store.Txn(ctx, ops...); err != nil {
		return fmt.Errorf("delete the record of resource %s of stack %s: %w", row.Value.LogicalID, p.stack.Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.rows, row.Value.LogicalID)
	return nil
}

func (p *pass) markDone(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[id] = true
}

func (p *pass) isDone(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done[id]
}

// ids returns the logical IDs of all resources that have a record.
func (p *pass) ids() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.rows))
}

// outcome is what a step did for a resource.
type outcome struct {
	progress bool          // something has changed: others may go on
	after    time.Duration // to be examined again
	err      error
}

// errPassEnds reports that a pass has taken as long as it may, and goes on in another one.
var errPassEnds = errors.New("the pass has taken as long as it may")

// runSteps calls step for all that next returns, several at a time, until nothing makes progress any more. next gets
// what is worked on. It returns how long to wait for what is pending; 0 if nothing is.
func (p *pass) runSteps(ctx context.Context, next func(busy map[string]bool) []string,
	step func(ctx context.Context, id string) outcome) (time.Duration, error) {
	type result struct {
		id string
		outcome
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result)
	busy, waits := map[string]bool{}, map[string]time.Duration{}
	if p.end.IsZero() { // it may have waited for memory until now
		p.end = p.c.now().Add(passFor)
	}
	var failure error
	late := false
	var running conc.WaitGroup
	defer running.Wait()
	for {
		late = late || p.c.now().After(p.end)
		if failure == nil && !late && ctx.Err() == nil && !p.superseded(ctx) {
			for _, id := range next(busy) {
				if len(busy) >= parallel {
					break
				}
				if busy[id] {
					continue
				}
				if _, waiting := waits[id]; waiting {
					continue
				}
				if due := p.c.dueIn(p.key, id); due > 0 {
					waits[id] = due
					continue
				}
				busy[id] = true
				running.Go(func() {
					r := result{id: id, outcome: outcome{err: errors.New("the step did not return")}}
					defer func() { results <- r }()
					_, release, err := p.c.steps.Acquire(ctx, p.stack.Account)
					if err != nil {
						r.outcome = outcome{err: err}
						return
					}
					defer release()
					r.outcome = step(ctx, id)
				})
			}
		}
		if len(busy) == 0 {
			break
		}
		r := <-results
		delete(busy, r.id)
		switch {
		case r.err != nil:
			failure = errors.Join(failure, r.err)
		case r.after > 0:
			waits[r.id] = r.after
		}
	}
	if failure != nil {
		return 0, failure
	}
	if late {
		return 0, errPassEnds
	}
	after := time.Duration(0)
	for _, w := range waits {
		if after == 0 || w < after {
			after = w
		}
	}
	return after, ctx.Err()
}

// revision returns a revision of the stack.
func (p *pass) revision(ctx context.Context, id string) (record.StackRevision, error) {
	row, err := p.c.revisions.Get(ctx, record.StackRevisionKey(p.stack.Account, p.stack.Region, p.stack.ID, id))
	return row.Value, err
}

// boundTemplate is a template with its parameters, and the memory that it takes, in bytes.
type boundTemplate struct {
	*template.Bound
	size int64
}

// sizeOf returns the memory of a template beside that of what loops make of it, in bytes.
func sizeOf(body string) int64 { return int64(64<<10 + 60*len(body)) }

// keptTemplate is the template that a pass has: that of the revision which it has asked for last.
type keptTemplate struct {
	mu     sync.Mutex
	id     string // of the revision; empty before
	bound  *template.Bound
	shrink func(to int64) // gives back memory
}

// release gives back the memory of the template that the pass had.
func (p *pass) release() {
	p.kept.mu.Lock()
	defer p.kept.mu.Unlock()
	p.releaseTemplate()
}

func (p *pass) releaseTemplate() {
	if p.kept.shrink != nil {
		p.kept.shrink(0)
	}
	p.kept.id, p.kept.bound, p.kept.shrink = "", nil, nil
}

// bind returns the template of a revision with its parameters. The pass waits until those of other stacks of its
// account leave it the memory, which it has until it ends or asks for another revision. Nobody works on resources then:
// they ask for the one that was asked for before.
func (p *pass) bind(ctx context.Context, id string) (*template.Bound, record.StackRevision, error) {
	of, err := p.revision(ctx, id)
	if err != nil {
		return nil, of, err
	}
	p.kept.mu.Lock()
	defer p.kept.mu.Unlock()
	if p.kept.bound != nil && p.kept.id == id {
		return p.kept.bound, of, nil
	}
	cacheKey := p.key + "/" + id + "/" + p.stack.Operation.ID
	if p.kept.id != id {
		p.releaseTemplate()
		size, err := p.mostSize(ctx, cacheKey, id) // and nothing of the template meanwhile
		if err != nil {
			return nil, of, err
		}
		if _, p.kept.shrink, err = p.c.keeping.Reserve(ctx, p.stack.Account, size); err != nil {
			return nil, of, err
		}
		p.kept.id = id
	}
	known, ok := p.c.bound.Get(cacheKey)
	if !ok {
		body, err := p.body(ctx, id)
		if err != nil {
			return nil, of, err
		}
		if known, err = p.parse(ctx, body, of); err != nil {
			return nil, of, err
		}
		p.c.bound.Add(cacheKey, known, known.size)
	}
	p.kept.shrink(known.size)
	p.kept.bound = known.Bound
	return known.Bound, of, nil
}

// mostSize returns the memory that the template of a revision may take with its parameters.
func (p *pass) mostSize(ctx context.Context, cacheKey, id string) (int64, error) {
	if known, ok := p.c.bound.Get(cacheKey); ok {
		return known.size, nil
	}
	body, err := p.body(ctx, id)
	return sizeOf(body) + template.MaxLoopSize, err
}

// body returns the text of the template of a revision.
func (p *pass) body(ctx context.Context, id string) (string, error) {
	row, err := p.c.templates.Get(ctx, record.StackRevisionKey(p.stack.Account, p.stack.Region, p.stack.ID, id))
	if err != nil {
		return "", err
	}
	return revision.Decompress(row.Value.Body)
}

// parse parses the template of a revision, and gives it its parameters.
func (p *pass) parse(ctx context.Context, body string, of record.StackRevision) (boundTemplate, error) {
	weight := max(min(int64(len(body)), maxParsing), loopWeight) // it may have loops
	ctx, release, err := p.c.parsing.AcquireN(ctx, p.stack.Account, weight)
	if err != nil {
		return boundTemplate{}, err
	}
	defer release()
	parsed, err := template.Parse(body)
	if err != nil {
		return boundTemplate{}, err
	}
	in := revision.Inputs(p.stack, of)
	lookup.Fill(&in, p.config)
	parameter, zones := in.Parameter, in.Zones
	in.Parameter = func(ctx context.Context, name string, secure bool) (template.StoredParameter, error) {
		return parameter(withLookupLimit(ctx), name, secure)
	}
	in.Zones = func(ctx context.Context, region string) ([]string, error) { return zones(withLookupLimit(ctx), region) }
	in.Exists = nil // it did when the operation was requested
	in.Import = importer{p.c, p.stack}.value
	bound, err := parsed.Bind(ctx, in)
	if err != nil {
		return boundTemplate{}, err
	}
	if err := checkAllowed(parsed, bound, of); err != nil {
		return boundTemplate{}, err
	}
	bound.DropProcessed()
	return boundTemplate{bound, sizeOf(body) + bound.LoopSize()}, nil
}

// evaluating waits for a place to evaluate a part of a template, which all accounts share.
func (p *pass) evaluating(ctx context.Context) (held context.Context, release func(), err error) {
	return p.c.parsing.AcquireN(ctx, p.stack.Account, evaluationWeight)
}

// withLookupLimit returns the context of a request about what a template refers to. Who has a place for the evaluation
// of templates waits for no turn of its account, which would make all other accounts wait.
func withLookupLimit(ctx context.Context) context.Context {
	if turn.IsHeld(ctx) {
		return store.Bounded(ctx, mostAsked)
	}
	return ctx
}

// checkAllowed refuses a template that has become another than the one that was allowed: with resources of other types,
// or that need other capabilities.
func checkAllowed(t *template.Template, b *template.Bound, of record.StackRevision) error {
	for _, kind := range b.ResourceTypes() {
		if of.Types != nil && !slices.Contains(of.Types, kind) {
			return &template.Error{Message: "The template did not have resources of type " + kind +
				" when the operation was requested."}
		}
	}
	needs, _ := b.Capabilities()
	if missing := t.MissingCapabilities(needs, of.Capabilities); of.Types != nil && len(missing) > 0 {
		return &template.Error{Message: "Requires capabilities : [" + strings.Join(missing, ", ") + "]"}
	}
	return nil
}

// events returns the ops that record events, in their order.
func (p *pass) events(events ...record.StackEvent) []store.Op {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ops []store.Op
	for _, e := range events {
		now := p.c.now().UTC()
		if !now.After(p.last) {
			now = p.last.Add(time.Microsecond)
		}
		p.last = now
		e.Properties = p.secrets.JSON(e.Properties)
		e.Account, e.ID, e.Token, e.At = p.stack.Account, uuid.NewString(), p.stack.Operation.Token, now
		ops = append(ops, p.c.events.CreateOp(
			record.StackEventKey(p.stack.Account, p.stack.Region, p.stack.ID, e.At, e.ID), e))
	}
	return ops
}

func (p *pass) stackEvent(status types.StackStatus, reason string) record.StackEvent {
	return record.StackEvent{LogicalID: p.stack.Name, PhysicalID: p.stack.ARN(), Type: "AWS::CloudFormation::Stack",
		Status: types.ResourceStatus(status), Reason: bound(reason)}
}

// resourceEvent returns an event of a resource.
func resourceEvent(id string, of record.StackPhysical, status types.ResourceStatus, reason string) record.StackEvent {
	e := record.StackEvent{LogicalID: id, PhysicalID: of.ID(), Type: of.Type, Status: status, Reason: bound(reason)}
	if len(of.Properties) < maxEventProperties {
		e.Properties = of.Properties
	}
	return e
}

// maxEventProperties is the number of bytes of properties that events show.
const maxEventProperties = 4 << 10

// encode returns a value of a template as JSON.
func encode(value any) json.RawMessage {
	if value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil // it came of JSON
	}
	return text
}
