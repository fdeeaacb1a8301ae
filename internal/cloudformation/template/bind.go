package template

import (
	"context"
	"errors"
	"sync"
)

// ErrNotFound is returned by the functions of Inputs for an export or an SSM parameter that does not exist.
var ErrNotFound = errors.New("not found")

// Inputs are the values and functions with which a template is bound.
type Inputs struct {
	// Parameters are values by the names of the template's parameters.
	Parameters map[string]ParameterInput
	Pseudo     Pseudo

	// Served reports whether resources of a type can be made. When it is nil, all types that have a schema can.
	Served func(resourceType string) bool
	// Import returns the value of an export of this account and region, or ErrNotFound. It is called when
	// Fn::ImportValue is evaluated for a resource or an output, not by Bind.
	Import func(ctx context.Context, name string) (string, error)
	// StackOutput returns an output of another stack, or ErrNotFound, for Fn::GetStackOutput. It is called like Import.
	StackOutput func(ctx context.Context, output StackOutput) (string, error)
	// Parameter returns a parameter of the SSM Parameter Store, or ErrNotFound. The name may end in ":" and a version.
	// Secure reports that the template refers to it by ssm-secure. Bind calls it for parameters of the types
	// AWS::SSM::Parameter::*, and the methods of Bound call it for dynamic references.
	Parameter func(ctx context.Context, name string, secure bool) (StoredParameter, error)
	// Zones returns the names of the Availability Zones of a region, for Fn::GetAZs.
	Zones func(ctx context.Context, region string) ([]string, error)
	// ValueOf returns an attribute, such as "VpcId" or "Tags.Name", of what a parameter names, for Fn::ValueOf in rules.
	ValueOf func(ctx context.Context, parameterType, id, attribute string) (string, error)
	// Exists returns a *MissingError when one of the identifiers names nothing, for parameters of types such as
	// AWS::EC2::VPC::Id. Lists are passed with the type of their elements. When it is nil, nothing is checked.
	Exists func(ctx context.Context, parameterType string, ids []string) error
	// Hold takes memory, in bytes, for what loops and functions make of the template, which may be much larger than the
	// template is. It is called by and by, and its error ends what the memory is for. When it is nil, nothing is taken,
	// and Bound is safe for concurrent use.
	Hold func(bytes int64) error
}

// ParameterInput is the value of a parameter in a request.
type ParameterInput struct {
	Value string
	// UsePrevious takes Previous, the value in the last operation on the stack, nil when the parameter had none.
	UsePrevious bool
	Previous    *string
	// Resolved is the value that an SSM parameter had when the operation began, nil before that. It replaces a look
	// at the Parameter Store, so that all of an operation sees the same value.
	Resolved *string
	// Text is Value with its dynamic references replaced, from when the operation was requested; nil before that, and
	// without references.
	Text *string
}

// StoredParameter is a parameter of the SSM Parameter Store.
type StoredParameter struct {
	Type    string // "String", "StringList" or "SecureString"
	Value   string
	Version int64
}

// MissingError reports that an identifier names nothing.
type MissingError struct{ ID string }

func (e *MissingError) Error() string { return e.ID + " does not exist" }

// Pseudo has the values of pseudo parameters.
type Pseudo struct {
	AccountID, Region, Partition, URLSuffix, StackID, StackName string
	NotificationARNs                                            []string
}

// State knows what has become of the resources of a stack.
type State interface {
	// Ref returns what Ref of the resource returns, and whether it is known yet.
	Ref(logicalID string) (value string, known bool)
	// Attribute returns an attribute of the resource, and whether it is known yet.
	Attribute(logicalID, name string) (value any, known bool, err error)
}

// BoundParameter is a parameter with its value.
type BoundParameter struct {
	Key, Value string
	// ResolvedValue is the value of the SSM parameter that Value names, "" for other types.
	ResolvedValue string
	// Text is Value with its dynamic references replaced; nil without them.
	Text   *string
	NoEcho bool
}

// Output is an output with its value.
type Output struct {
	Key, Value, Description, Export string
}

// Bound is a template with its parameters.
type Bound struct {
	template *Template
	inputs   Inputs

	parameters  map[string]boundParameter
	mappings    map[string]any // without loops, as are the following
	definitions map[string]any // of conditions
	conditions  map[string]bool
	resources   map[string]Resource // whose condition holds, once bindResources has run
	outputs     map[string]output   // whose condition holds, once bindOutputs has run
	depends     map[string][]string
	processed   map[string]any // the sections after transforms; nil when there are none

	evaluating map[string]bool // conditions, to find those that depend on themselves; empty after Bind

	kept int // of what loops have made, in bytes
	held int // for which Inputs.Hold was called, in bytes

	zonesMu sync.Mutex
	zones   map[string][]string // by region
}

// boundParameter is the value of a parameter: a string, or a list of strings.
type boundParameter struct {
	text     string  // as given
	resolved string  // of the SSM parameter that it names
	expanded *string // text with its dynamic references replaced; nil without them
	value    any
}

// Bind gives the template its parameters. Faults of the template and of parameters are *Error; other errors are those
// of the functions of Inputs.
func (t *Template) Bind(ctx context.Context, inputs Inputs) (*Bound, error) {
	if err := t.checkTransforms(); err != nil {
		return nil, err
	}
	b := &Bound{template: t, inputs: inputs, conditions: make(map[string]bool), evaluating: make(map[string]bool),
		definitions: t.conditions, mappings: t.mappings}
	for _, step := range []func(context.Context) error{
		b.bindParameters, b.checkRules, b.expandTransforms, b.bindConditions, b.bindResources, b.bindOutputs, b.evaluateAll,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// DropProcessed lets go of the template as its transforms have made it, with all that loops made of resources whose
// condition does not hold. It is for those who keep a Bound; Processed, ResourceTypes and Capabilities come before.
func (b *Bound) DropProcessed() { b.processed = nil }

// LoopSize returns how many bytes of memory what loops have made of the template may take. The template itself may be
// much smaller.
func (b *Bound) LoopSize() int64 { return loopFactor * int64(b.kept) }

// MaxLoopSize is the greatest LoopSize that a template may have. No text tells that a template has none: keys may be
// written in many ways, and what has a transform is copied without loops, too.
const MaxLoopSize = loopFactor * maxExpansion

// expandTransforms applies AWS::LanguageExtensions, and reads the sections that may have loops.
func (b *Bound) expandTransforms(ctx context.Context) error {
	t := b.template
	resources, outputs := t.resources, t.outputs
	if t.hasExtensions() {
		x := &expander{evaluator: evaluator{trial: true, literals: make(map[string]any)}}
		defer func() { b.kept = x.size }()
		for _, section := range []*map[string]any{&b.mappings, &b.definitions, &resources, &outputs} {
			expanded, err := b.expandSection(ctx, x, *section)
			if err != nil {
				return err
			}
			*section = expanded
		}
		b.processed = map[string]any{"Conditions": b.definitions, "Mappings": b.mappings, "Resources": resources,
			"Outputs": outputs}
		expanded := &Template{root: make(map[string]any, len(t.root)), Transforms: t.Transforms, parameters: t.parameters}
		for name, value := range t.root {
			expanded.root[name] = value
		}
		for name, value := range b.processed {
			if section := value.(map[string]any); section != nil {
				expanded.root[name] = section
			}
		}
		for _, read := range []func() error{expanded.readMappings, expanded.readConditions, expanded.readResources,
			expanded.readOutputs} {
			if err := read(); err != nil {
				return err
			}
		}
	}
	return b.readExpanded(ctx, resources, outputs)
}

// readExpanded reads resources and outputs once loops are expanded.
func (b *Bound) readExpanded(ctx context.Context, resources, outputs map[string]any) error {
	b.resources = make(map[string]Resource, len(resources))
	policies := &evaluator{ctx: ctx, bound: b, trial: true}
	for _, name := range sortedKeys(resources) {
		value := resources[name]
		if object, ok := value.(map[string]any); ok && b.template.hasExtensions() {
			var err error
			if value, err = policies.evaluatePolicies(object); err != nil {
				return err
			}
		}
		r, err := b.template.readResource(name, value)
		if err != nil {
			return err
		}
		b.resources[name] = r
	}
	b.outputs = make(map[string]output, len(outputs))
	for _, name := range sortedKeys(outputs) {
		o, err := readOutput(name, outputs[name])
		if err != nil {
			return err
		}
		b.outputs[name] = o
	}
	return b.checkReferences()
}
