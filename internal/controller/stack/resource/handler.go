package resource

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Table describes a resource type by a few operations of a service, whose client is C and which describes a resource as
// L. What a type does not need is left nil. Handle makes a Handler of it.
//
// A resource is created once: a repeated Create finds what an earlier one made by its client token, which Create sends
// again, or by Find. The steps of Configure then run, all of them again after a crash, until State is Ready.
type Table[C, L any] struct {
	Client func(aws.Config) C
	// Create makes the resource. In a retried operation without client token or Find, it must itself cope with what it
	// made before.
	Create Creation[C]
	// Find returns the physical ID of the resource that an earlier Create of this logical ID made, ErrNotFound if there
	// is none. It is asked when a Create was retried, and by a Delete that knows no physical ID.
	Find Creation[C]
	// Describe returns the resource r.PhysicalID as it is now; an error of class NotFound if it is gone.
	Describe func(ctx context.Context, client C, r *Request) (*L, error)
	// State tells how far a resource is. Without it, a resource that is described is Ready.
	State func(live *L) (State, error)
	// Configure are the parts of the resource that calls other than Create set, in their order.
	Configure []Step[C]
	// Replace are the properties whose change the resource does not survive, where the schema says "conditionally".
	Replace []string
	// Delete removes r.PhysicalID. An error of class NotFound means that it is gone.
	Delete func(ctx context.Context, client C, r *Request) error
	// Slow tells that Delete only begins the deletion, which ends when Describe finds nothing, or State is Gone.
	Slow bool
	// Ref is what Ref returns, if that is not the physical ID.
	Ref func(r *Request, live *L) string
	// Attributes are what GetAtt returns. live is nil where the table has no Describe.
	Attributes func(r *Request, live *L) map[string]any
	// Properties returns the properties of a resource as it is. Without it, the members of L are properties by their
	// names, with the exceptions of Members.
	Properties func(ctx context.Context, client C, r *Request, live *L) (map[string]any, error)
	Members    Members
	// Poll is the time between two looks at a resource that is not stable; one second if zero. The engine is woken up
	// earlier by what it watches.
	Poll time.Duration
}

// State tells how far a resource is. An error beside it is why the resource will not come any further.
type State int

// The states of a resource.
const (
	Ready State = iota
	Creating
	Deleting
	Gone
)

// Step sets properties of a resource that exists. It is idempotent.
type Step[C any] struct {
	// Properties are what the step sets: it runs after creation if one of them is set, and in updates that change one.
	// Every property that can change in place is in one step or more.
	Properties []string
	// Tags tells that the step tags the resource: it runs in updates that change Properties or the tags of the stack,
	// and not after creation, as Create gives tags.
	Tags bool
	// Update tells that the step runs in updates only, as Create sets the properties.
	Update bool
	// Run returns ErrPending to be called again, with all steps before it, before those after it run. It is nil where
	// a change of the properties needs nothing done.
	Run func(ctx context.Context, client C, r *Request) error
}

// Handle returns the handler that a table describes.
func Handle[C, L any](table Table[C, L]) Handler {
	if table.Poll == 0 {
		table.Poll = time.Second
	}
	return handler[C, L]{table}
}

type handler[C, L any] struct{ table Table[C, L] }

// What a handler keeps in Progress.
const (
	configured = "configured" // all steps have run
	deleting   = "deleting"   // the deletion has begun
)

// Create is part of Handler.
func (h handler[C, L]) Create(ctx context.Context, r *Request) (Result, error) {
	client, called := h.table.Client(r.Config), *r
	for _, step := range h.table.Configure {
		called.stepped = append(called.stepped, step.Properties...)
	}
	if called.PhysicalID == "" {
		id, err := h.ensureCreated(ctx, client, &called)
		if err != nil {
			return Result{PhysicalID: id}, err
		}
		called.PhysicalID = id
	}
	if r.Progress[configured] == "" {
		for _, step := range h.table.Configure {
			if step.Run == nil || step.Tags || step.Update || !called.Changed(step.Properties...) {
				continue
			}
			err := step.Run(ctx, client, &called)
			if errors.Is(err, ErrPending) {
				return Result{PhysicalID: called.PhysicalID, Pending: h.table.Poll}, nil
			}
			if err != nil {
				return Result{PhysicalID: called.PhysicalID}, err
			}
		}
	}
	return h.observe(ctx, client, &called)
}

// ensureCreated makes the resource unless an earlier call has done so, and returns its physical ID.
func (h handler[C, L]) ensureCreated(ctx context.Context, client C, r *Request) (string, error) {
	if r.Retried && h.table.Find != nil {
		id, err := h.table.Find(ctx, client, r)
		switch {
		case err == nil:
			return id, nil
		case !IsNotFound(err):
			return "", err // whose the resource is was not found out: it is not named as the stack's
		}
	}
	return h.table.Create(ctx, client, r)
}

// observe returns the result of a Create or an Update whose calls have all been made.
func (h handler[C, L]) observe(ctx context.Context, client C, r *Request) (Result, error) {
	result := Result{PhysicalID: r.PhysicalID, Progress: map[string]string{configured: "true"}}
	var live *L
	if h.table.Describe != nil {
		var err error
		if live, err = h.table.Describe(ctx, client, r); err != nil {
			return result, err
		}
		state, err := h.state(live)
		if err != nil {
			return result, err
		}
		switch state {
		case Creating:
			result.Pending = h.table.Poll
		case Deleting, Gone:
			return result, Errorf(NotStabilized, "resource %s was deleted while it was expected to become available",
				r.PhysicalID)
		}
	}
	if h.table.Ref != nil {
		result.Ref = h.table.Ref(r, live)
	}
	if h.table.Attributes != nil {
		result.Attributes = h.table.Attributes(r, live)
	}
	return result, nil
}

func (h handler[C, L]) state(live *L) (State, error) {
	if h.table.State == nil {
		return Ready, nil
	}
	return h.table.State(live)
}

// Update is part of Handler.
func (h handler[C, L]) Update(ctx context.Context, r *Request) (Result, error) {
	client, called := h.table.Client(r.Config), *r
	if r.Progress[configured] == "" {
		if r.Changed(h.table.Replace...) {
			return Result{PhysicalID: r.PhysicalID}, ErrReplace
		}
		if property := h.fixed(r); property != "" {
			return Result{PhysicalID: r.PhysicalID}, Errorf(NotUpdatable, "property %s cannot be updated", property)
		}
		for _, step := range h.table.Configure {
			due := r.Changed(step.Properties...) || step.Tags && !maps.Equal(r.Tags, r.PreviousTags)
			if step.Run == nil || !due {
				continue
			}
			err := step.Run(ctx, client, &called)
			if errors.Is(err, ErrPending) {
				return Result{PhysicalID: called.PhysicalID, Pending: h.table.Poll}, nil
			}
			if err != nil {
				return Result{PhysicalID: called.PhysicalID}, err
			}
		}
	}
	return h.observe(ctx, client, &called)
}

// fixed returns a property that an update would change, and no step does.
func (h handler[C, L]) fixed(r *Request) string {
	names := slices.Collect(maps.Keys(r.Properties))
	names = slices.AppendSeq(names, maps.Keys(r.Previous))
	slices.Sort(names)
	for _, name := range names {
		if r.Changed(name) && !slices.ContainsFunc(h.table.Configure, func(step Step[C]) bool {
			return slices.Contains(step.Properties, name)
		}) {
			return name
		}
	}
	return ""
}

// Delete is part of Handler.
func (h handler[C, L]) Delete(ctx context.Context, r *Request) (Result, error) {
	client, called := h.table.Client(r.Config), *r
	if called.PhysicalID == "" {
		if h.table.Find == nil {
			return Result{}, nil
		}
		id, err := h.table.Find(ctx, client, &called)
		if IsNotFound(err) {
			return Result{}, nil
		}
		if err != nil {
			return Result{}, err
		}
		called.PhysicalID = id
	}
	result := Result{PhysicalID: called.PhysicalID}
	begun := r.Progress[deleting] != ""
	if !begun && r.Retried && h.table.Slow {
		live, err := h.table.Describe(ctx, client, &called)
		if IsNotFound(err) {
			return result, nil
		}
		if err != nil {
			return result, err
		}
		state, err := h.state(live)
		begun = err == nil && (state == Deleting || state == Gone)
	}
	if !begun {
		err := h.table.Delete(ctx, client, &called)
		if IsNotFound(err) {
			return result, nil
		}
		if err != nil {
			return result, err
		}
	}
	if !h.table.Slow {
		return result, nil
	}
	result.Progress = map[string]string{deleting: "true"}
	live, err := h.table.Describe(ctx, client, &called)
	if IsNotFound(err) {
		return result, nil
	}
	if err != nil {
		return result, err
	}
	state, err := h.state(live)
	switch {
	case state == Gone:
		return result, nil
	case state == Deleting && err != nil:
		return result, err
	}
	result.Pending = h.table.Poll
	return result, nil
}

// Read is part of Handler.
func (h handler[C, L]) Read(ctx context.Context, r *Request) (properties, attributes map[string]any, err error) {
	client := h.table.Client(r.Config)
	if h.table.Describe == nil {
		return nil, nil, Errorf(UnsupportedTarget, "resources of this type cannot be read")
	}
	live, err := h.table.Describe(ctx, client, r)
	if IsNotFound(err) {
		return nil, nil, ErrNotFound
	}
	if err != nil {
		return nil, nil, err
	}
	if state, _ := h.state(live); state == Gone {
		return nil, nil, ErrNotFound
	}
	if h.table.Properties != nil {
		if properties, err = h.table.Properties(ctx, client, r, live); err != nil {
			return nil, nil, err
		}
	} else {
		properties = Encode(live, h.table.Members)
	}
	if h.table.Attributes != nil {
		attributes = h.table.Attributes(r, live)
	}
	return properties, attributes, nil
}

// Updatable returns the properties that a handler changes in place, or answers with ErrReplace, and whether it tells.
// Handlers that are none of Handle tell by a method of that name. The tests of tables compare them with the schema.
func Updatable(h Handler) (properties []string, known bool) {
	table, ok := h.(interface{ Updatable() []string })
	if !ok {
		return nil, false
	}
	return table.Updatable(), true
}

// Updatable returns the properties that the handler changes in place.
func (h handler[C, L]) Updatable() []string {
	all := slices.Clone(h.table.Replace)
	for _, step := range h.table.Configure {
		all = append(all, step.Properties...)
	}
	return all
}
