// Package stack is the controller of CloudFormation stacks: it makes, changes and deletes their resources.
//
// It reads the Stacks with their revisions, templates and signals, and alone writes StackStates, StackResources,
// StackExports and StackImportedValues, and all events but the first of an operation. Resources are made by the
// handlers in the packages below resource, which are clients of the services with the permissions of the caller, or of
// the stack's service role.
//
// The life of an operation is the status of its stack (operation.go). Going forward (forward.go), each resource is
// created, updated or replaced as soon as all that it depends on is as the revision has it. What has been replaced or
// removed goes once all of that is done (remove.go). When something fails, a rollback restores what resources were
// before, and then removes what is new (restore.go).
//
// A resource has one record. Before a handler is called the record tells what is about to be done, so that after a
// crash the handler is called again, and told so; handlers find what they have made. When the handler has answered, the
// record is written with the events in one transaction (work.go).
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html
package stack

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/sizedcache"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/turn"
)

// Options configures a Controller.
type Options struct {
	Store *store.Store
	Types TypeTable
	// Config returns the SDK's configuration with which CloudFormation acts for a caller, or under a role if it is not
	// empty, for the stack with that ARN.
	Config func(region string, caller record.ForwardedSession, roleARN, stackARN string) aws.Config
	// RetryFor and RemoveFor bound how long a change, and a deletion, that another resource is in the way of is tried
	// again; 3 and 10 minutes unless set.
	RetryFor, RemoveFor time.Duration
	Now                 func() time.Time // time.Now unless set
	Log                 *slog.Logger     // slog.Default() unless set
}

// Controller reconciles stacks.
type Controller struct {
	options Options

	store     *store.Store
	stacks    store.Table[record.Stack]
	states    store.Table[record.StackState]
	names     store.Table[record.StackName]
	revisions store.Table[record.StackRevision]
	templates store.Table[record.StackTemplate]
	resources store.Table[record.StackResource]
	events    store.Table[record.StackEvent]
	signals   store.Table[record.StackSignal]
	sets      store.Table[record.ChangeSet]
	exports   store.Table[record.StackExport]
	imported  store.Table[record.StackImportedValue]
	drifts    store.Table[record.StackDriftDetection]
	exportsOf store.Index[record.StackExport]        // by stack: an account may have many
	importsOf store.Index[record.StackImportedValue] // by stack
	now       func() time.Time
	log       *slog.Logger

	bound   *sizedcache.Cache[string, boundTemplate] // by operation and revision
	configs *sizedcache.Cache[string, aws.Config]    // by operation, for credentials that are used more than once
	parsing *turn.Places
	keeping *turn.Places // bytes
	steps   *turn.Places

	mu sync.Mutex
	// waiting has the resources that are not stable yet, by the key of their stack, and then their own. It is a hint:
	// after a restart all are examined at once.
	waiting map[string]map[string]*wait
}

// wait is when a resource is examined again.
type wait struct {
	called time.Time
	due    time.Time
	delay  time.Duration
	first  time.Time // since when calls fail
}

// How often resources that are not stable are examined: from firstDelay on, twice as long each time. What wakes the
// controller up makes it examine them at once, but not more often than minDelay.
const (
	firstDelay = 50 * time.Millisecond
	maxDelay   = time.Second
	minDelay   = 20 * time.Millisecond
)

// maxBound is the memory of templates that are remembered, in bytes, maxKept that of the templates which the passes
// over stacks of one account have meanwhile, whether they are remembered or not, and maxConfigs that of the credentials
// of operations. They have the session policies and tags of their callers: each takes configFactor times its session,
// and configSize more.
const (
	maxBound     = 256 << 20
	maxKept      = 256 << 20
	maxConfigs   = 64 << 20
	configFactor = 4
	configSize   = 6 << 10
)

// maxParsing is how many bytes of templates are parsed at a time: each takes some hundred bytes of memory. One account
// has half of that. The evaluation of one resource counts as evaluationWeight of them, a template as loopWeight at
// least: it may have loops.
const (
	maxParsing       = 2 << 20
	evaluationWeight = 64 << 10
	loopWeight       = maxParsing / 4
)

// maxSteps is the number of resources that are worked on at a time for all stacks of one account. Each may have some
// MiB of properties meanwhile; the daemon makes half as many requests at a time for an account, and the others wait.
const maxSteps = 32

// mostAsked limits what one request reads of the store, in bytes, that the evaluation of a template makes. It has a
// place that all accounts share, and so waits neither for a turn of its account nor for memory of it.
const mostAsked = 8 << 20

// passFor is the time after which a pass over a stack begins no more work, and lets those of others have its worker. It
// goes on in another pass. Calls that have begun may take callFor, and passTimeout ends what takes longer.
const (
	passFor     = 2 * time.Minute
	passTimeout = passFor + callFor + time.Minute
)

// configOf returns the SDK's configuration for an operation.
func (c *Controller) configOf(s record.Stack, operation string, caller record.ForwardedSession,
	roleARN string) aws.Config {
	key := s.ID + "/" + operation
	if config, ok := c.configs.Get(key); ok {
		return config
	}
	config := c.options.Config(s.Region, caller, roleARN, s.ARN())
	if session, err := json.Marshal(caller); err == nil {
		c.configs.Add(key, config, int64(configSize+configFactor*len(session)))
	}
	return config
}

// New returns a controller.
func New(o Options) *Controller {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.RetryFor == 0 {
		o.RetryFor = 3 * time.Minute
	}
	if o.RemoveFor == 0 {
		o.RemoveFor = 10 * time.Minute
	}
	return &Controller{
		options: o, store: o.Store, stacks: record.Stacks(o.Store), states: record.StackStates(o.Store),
		names: record.StackNames(o.Store), revisions: record.StackRevisions(o.Store),
		templates: record.StackTemplates(o.Store), resources: record.StackResources(o.Store),
		events: record.StackEvents(o.Store), signals: record.StackSignals(o.Store), sets: record.ChangeSets(o.Store),
		exports: record.StackExports(o.Store), imported: record.StackImportedValues(o.Store),
		drifts: record.StackDriftDetections(o.Store), exportsOf: record.StackExportsByStack(o.Store),
		importsOf: record.StackImportedValuesByStack(o.Store), now: o.Now, log: o.Log,
		bound: sizedcache.New[string, boundTemplate](maxBound), waiting: map[string]map[string]*wait{},
		configs: sizedcache.New[string, aws.Config](maxConfigs), parsing: turn.Shared(maxParsing, maxParsing/2),
		keeping: turn.Each(maxKept), steps: turn.Each(maxSteps),
	}
}

// Controllers returns what reconciles stacks, and what detects drift.
func (c *Controller) Controllers() []reconcile.Controller {
	sources := append([]reconcile.Source{
		reconcile.Table(c.stacks, ""),
		reconcile.Mapped(c.signals, "", reconcile.Above(3)),
	}, c.wakeups()...)
	return []reconcile.Controller{
		{Name: "stack", Sources: sources, Reconcile: c.Reconcile, Workers: 32, AccountWorkers: 16,
			Timeout: passTimeout},
		{Name: "stackdrift", Sources: []reconcile.Source{reconcile.Table(c.drifts, "")}, Reconcile: c.detectDrift,
			Workers: 4, AccountWorkers: 2},
	}
}

// Reconcile does what can be done now for a stack.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	ctx = store.Paced(ctx) // users choose how often stacks are written
	stack, err := c.stacks.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		c.removeWaiting(key)
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if stack.Value.Operation.ID == "" {
		return reconcile.Result{Gone: true}, nil // it has change sets only
	}
	state, err := c.beginOperation(ctx, stack.Value)
	if err != nil {
		return reconcile.Result{}, err
	}
	p, err := c.newPass(ctx, stack.Value, state)
	if err != nil {
		return reconcile.Result{}, err
	}
	defer p.release()
	return p.run(ctx)
}

// TypeTable has the resource types that stacks may contain.
type TypeTable map[string]resource.Type

// Refused implements cloudformation.Types.
func (t TypeTable) Refused(resourceType string) (properties []string, served bool) {
	r, served := t[resourceType]
	return r.Refused, served
}

// IsTagged implements cloudformation.Types.
func (t TypeTable) IsTagged(resourceType string) bool { return t[resourceType].Tagged }

// setWait says when a resource is examined again: after delay, or earlier while it is examined for the first times.
func (c *Controller) setWait(stackKey, key string, most time.Duration, failing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.waiting[stackKey]
	if all == nil {
		all = map[string]*wait{}
		c.waiting[stackKey] = all
	}
	w := all[key]
	if w == nil {
		w = &wait{}
		all[key] = w
	}
	now := c.now()
	w.delay = min(max(2*w.delay, firstDelay), maxDelay)
	if most > 0 {
		w.delay = min(w.delay, max(most, firstDelay))
	}
	w.called, w.due = now, now.Add(w.delay)
	switch {
	case !failing:
		w.first = time.Time{}
	case w.first.IsZero():
		w.first = now
	}
}

// failingSince returns since when calls for a resource fail; zero if the last did not.
func (c *Controller) failingSince(stackKey, key string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[stackKey][key]; w != nil {
		return w.first
	}
	return time.Time{}
}

// dueIn returns how long a resource is not to be examined yet.
func (c *Controller) dueIn(stackKey, key string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[stackKey][key]; w != nil {
		return w.due.Sub(c.now())
	}
	return 0
}

func (c *Controller) endWait(stackKey, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting[stackKey], key)
	if len(c.waiting[stackKey]) == 0 {
		delete(c.waiting, stackKey)
	}
}

func (c *Controller) removeWaiting(stackKey string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, stackKey)
}
