// Package plan computes what an update does to the resources of a stack: which are added, changed in place, replaced
// and removed. Change sets show it, and the controller of stacks carries it out. It is pure.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-updating-stacks-update-behaviors.html
package plan

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
	"github.com/coracle-eks/coracle/internal/cloudformation/template"
)

// Resource is a resource as a stack has it, or is to have it.
type Resource struct {
	Type       string
	PhysicalID string // "" before it exists
	Ref        string
	Attributes map[string]any
	Properties map[string]any
	Metadata   any
	Tags       map[string]string // of the stack; nil for types without tags
}

// Action is the action of an update on a resource.
type Action string

// The actions.
const (
	Add    Action = "Add"
	Modify Action = "Modify"
	Remove Action = "Remove"
)

// Replacement reports whether an update replaces a resource.
type Replacement string

// The kinds of replacements.
const (
	Never       Replacement = "False"
	Conditional Replacement = "Conditional"
	Always      Replacement = "True"
)

// Change is the change that an update makes to one resource.
type Change struct {
	LogicalID string
	Action    Action
	Old, New  Resource // Old is zero for an addition, New for a removal
	Difference
}

// Difference is the difference between a resource and its desired state.
type Difference struct {
	Replacement    Replacement
	Properties     []schema.Change
	Metadata, Tags bool
	Type           bool
}

// IsEmpty reports whether nothing differs.
func (d Difference) IsEmpty() bool {
	return len(d.Properties) == 0 && !d.Metadata && !d.Tags && !d.Type
}

// Compare returns how a resource differs from what it is to be.
func Compare(old, want Resource) Difference {
	d := Difference{Replacement: Never}
	if old.Type != want.Type {
		return Difference{Replacement: Always, Type: true}
	}
	if kind, ok := schema.Of(want.Type); ok {
		d.Properties = kind.Diff(old.Properties, want.Properties)
	}
	for _, change := range d.Properties {
		switch change.RequiresRecreation {
		case schema.Always:
			d.Replacement = Always
		case schema.Conditionally:
			if d.Replacement == Never {
				d.Replacement = Conditional
			}
		}
	}
	d.Metadata = !Equal(old.Metadata, want.Metadata)
	d.Tags = want.Tags != nil && !maps.Equal(old.Tags, want.Tags)
	return d
}

// Equal reports whether two values of templates are the same.
func Equal(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && string(x) == string(y)
}

// Compute returns what an update to a template does, by logical ID. tags are those of a resource of a type, nil for a
// type without tags.
func Compute(ctx context.Context, bound *template.Bound, current map[string]Resource,
	tags func(resourceType, logicalID string) map[string]string) ([]Change, error) {
	p := &planner{ctx: ctx, bound: bound, values: bound.NewEvaluation(), current: current, tags: tags,
		planned: map[string]*Change{}}
	for _, id := range bound.LogicalIDs() {
		if err := p.planResource(id); err != nil {
			return nil, err
		}
	}
	var changes []Change
	for id, change := range p.planned {
		if change.Action == Add || !change.IsEmpty() {
			changes = append(changes, *p.planned[id])
		}
	}
	for id, old := range current {
		if p.planned[id] == nil {
			changes = append(changes, Change{LogicalID: id, Action: Remove, Old: old})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		if a.LogicalID < b.LogicalID {
			return -1
		}
		return 1
	})
	return changes, nil
}

type planner struct {
	ctx     context.Context
	bound   *template.Bound
	values  *template.Evaluation
	current map[string]Resource
	tags    func(resourceType, logicalID string) map[string]string
	planned map[string]*Change
}

// planResource plans a resource after those that it depends on.
func (p *planner) planResource(id string) error {
	// Without recursion: templates are written by tenants.
	stack := []string{id}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		if p.planned[id] != nil {
			stack = stack[:len(stack)-1]
			continue
		}
		ready := true
		for _, other := range p.bound.Dependencies(id) {
			if p.planned[other] == nil {
				stack, ready = append(stack, other), false
			}
		}
		if !ready {
			continue
		}
		stack = stack[:len(stack)-1]
		change, err := p.compareResource(id)
		if err != nil {
			return err
		}
		p.planned[id] = change
	}
	return nil
}

func (p *planner) compareResource(id string) (*Change, error) {
	r := p.bound.Resource(id)
	properties, metadata, err := p.values.Evaluate(p.ctx, id, p)
	if err != nil {
		return nil, err
	}
	want := Resource{Type: r.Type, Properties: properties, Metadata: metadata, Tags: p.tags(r.Type, id)}
	old, exists := p.current[id]
	if !exists {
		return &Change{LogicalID: id, Action: Add, New: want}, nil
	}
	return &Change{LogicalID: id, Action: Modify, Old: old, New: want, Difference: Compare(old, want)}, nil
}

// Ref is part of template.State: what is not replaced keeps its identity.
func (p *planner) Ref(id string) (string, bool) {
	change := p.planned[id]
	if change == nil || change.Action != Modify || change.Replacement == Always && !change.IsEmpty() {
		return "", false
	}
	if change.Old.Ref != "" {
		return change.Old.Ref, true
	}
	return change.Old.PhysicalID, true
}

// Attribute is part of template.State: what does not change keeps its attributes.
func (p *planner) Attribute(id, name string) (any, bool, error) {
	change := p.planned[id]
	if change == nil || change.Action != Modify || !change.IsEmpty() {
		return nil, false, nil
	}
	value, ok := change.Old.Attributes[name]
	return value, ok, nil
}
