package template

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
)

// checkReferences checks the functions of all sections, also in resources whose condition does not hold.
func (b *Bound) checkReferences() error {
	kinds := make(map[string]string, len(b.resources))
	for name, r := range b.resources {
		kinds[name] = r.Type
	}
	c := &checker{template: b.template, resources: kinds, conditions: b.definitions, mappings: b.mappings}
	return c.checkSections(b.resources, b.outputs)
}

// checkTemplate checks what does not depend on parameters. With AWS::LanguageExtensions, all does.
func (t *Template) checkTemplate() error {
	if len(t.Transforms) > 0 || !t.isServed() {
		return nil
	}
	b := &Bound{template: t, definitions: t.conditions, mappings: t.mappings}
	if err := b.readExpanded(context.Background(), t.resources, t.outputs); err != nil {
		return err
	}
	return b.findDependenciesOf(&evaluator{bound: b, trial: true, anyBranch: true})
}

// checkSections checks conditions, resources and outputs.
func (c *checker) checkSections(resources map[string]Resource, outputs map[string]output) error {
	c.block = "Conditions"
	all := c.resources
	c.resources = nil
	for _, name := range sortedKeys(c.conditions) {
		if err := c.checkCondition(c.conditions[name]); err != nil {
			return err
		}
	}
	c.resources = all
	if len(c.unresolved) > 0 {
		return errorf("Template format error: Unresolved dependencies %s. Cannot reference resources in the Conditions "+
			"block of the template", inBrackets(c.unresolved))
	}
	c.block = "Resources"
	for _, name := range sortedKeys(resources) {
		r := resources[name]
		for _, id := range r.DependsOn {
			if _, ok := c.resources[id]; !ok {
				c.unresolved = append(c.unresolved, id)
			}
		}
		if err := c.checkCondition(map[string]any{"Condition": r.Condition}); r.Condition != "" && err != nil {
			return errorf("Template format error: Unresolved condition dependency %s in the Resources block of the template",
				r.Condition)
		}
		for _, part := range []any{r.Properties, r.Metadata, r.CreationPolicy, r.UpdatePolicy} {
			if err := c.checkReferences(part); err != nil {
				return err
			}
		}
	}
	if len(c.unresolved) > 0 {
		return errUnresolved(c.unresolved, c.block)
	}
	c.block = "Outputs"
	for _, name := range sortedKeys(outputs) {
		o := outputs[name]
		if err := c.checkCondition(map[string]any{"Condition": o.condition}); o.condition != "" && err != nil {
			return errorf("Template format error: Unresolved condition dependency %s in the Outputs block of the template",
				o.condition)
		}
		for _, part := range []any{o.value, o.export} {
			if err := c.checkReferences(part); err != nil {
				return err
			}
		}
		if c.dependsOnOthers(o.export) {
			return errorf("Template error: the Export Name of output %s must not depend on any resources, imported values, "+
				"or Fn::GetAZs", name)
		}
	}
	if len(c.unresolved) > 0 {
		return errUnresolved(c.unresolved, c.block)
	}
	return nil
}

// bindConditions evaluates all conditions.
func (b *Bound) bindConditions(ctx context.Context) error {
	e := &evaluator{ctx: ctx, bound: b, trial: true}
	for _, name := range sortedKeys(b.definitions) {
		if _, err := e.evaluateNamed(name, "Condition"); err != nil {
			return err
		}
	}
	return nil
}

// isConditionTrue reports whether a condition holds, or there is none.
func (b *Bound) isConditionTrue(condition string) bool {
	return condition == "" || b.conditions[condition]
}

// bindResources leaves out the resources whose condition does not hold, and orders the others.
func (b *Bound) bindResources(context.Context) error {
	maps.DeleteFunc(b.resources, func(_ string, r Resource) bool { return !b.isConditionTrue(r.Condition) })
	var unknown []string
	for _, r := range b.resources {
		if _, ok := schema.Of(r.Type); !ok || b.inputs.Served != nil && !b.inputs.Served(r.Type) {
			unknown = append(unknown, r.Type)
		}
	}
	if len(unknown) > 0 {
		return errorf("Template format error: Unrecognized resource types: %s", inBrackets(unknown))
	}
	return b.findDependencies()
}

// findDependencies finds what each resource needs, and refuses cycles.
func (b *Bound) findDependencies() error {
	return b.findDependenciesOf(&evaluator{bound: b, trial: true})
}

func (b *Bound) findDependenciesOf(e *evaluator) error {
	b.depends = make(map[string][]string, len(b.resources))
	for name, r := range b.resources {
		needs := make(map[string]bool)
		for _, id := range r.DependsOn {
			if _, ok := b.resources[id]; !ok {
				return errUnresolved([]string{id}, "Resources")
			}
			needs[id] = true
		}
		for _, part := range []any{r.Properties, r.Metadata, r.CreationPolicy, r.UpdatePolicy} {
			if err := e.collectReferences(part, needs); err != nil {
				return err
			}
		}
		b.depends[name] = sortedKeys(needs)
	}
	if cycle := b.findCycle(); len(cycle) > 0 {
		return errorf("Circular dependency between resources: %s", inBrackets(cycle))
	}
	b.addImpliedDependencies()
	return nil
}

// implied has types whose resources need one of another type that no property names. Templates leave DependsOn out all
// the same, eksctl's among them: on AWS, an internet gateway is attached long before there is an address to translate
// to.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-dependson.html
var implied = map[string]string{
	"AWS::EC2::NatGateway": "AWS::EC2::VPCGatewayAttachment",
	"AWS::EC2::Route":      "AWS::EC2::VPCGatewayAttachment",
}

// addImpliedDependencies adds dependencies by type, except on resources that need one of such a type themselves: there
// cannot be a cycle then.
func (b *Bound) addImpliedDependencies() {
	for _, name := range sortedKeys(b.resources) {
		kind := b.resources[name].Type
		if !slices.Contains(slices.Collect(maps.Values(implied)), kind) || b.needsImplied(name, map[string]bool{}) {
			continue
		}
		for other, r := range b.resources {
			if implied[r.Type] == kind && !slices.Contains(b.depends[other], name) {
				b.depends[other] = slices.Sorted(slices.Values(append(b.depends[other], name)))
			}
		}
	}
}

// needsImplied reports whether a resource depends, directly or not, on one of a type with implied dependencies. It
// skips those seen.
func (b *Bound) needsImplied(name string, seen map[string]bool) bool {
	return slices.ContainsFunc(b.depends[name], func(next string) bool {
		if seen[next] {
			return false
		}
		seen[next] = true
		return implied[b.resources[next].Type] != "" || b.needsImplied(next, seen)
	})
}

// collectReferences adds the resources that a value refers to, in the branches that are taken.
func (e *evaluator) collectReferences(value any, needs map[string]bool) error {
	switch v := value.(type) {
	case map[string]any:
		switch name, argument := functionOf(v); name {
		case "Ref":
			text, _ := argument.(string)
			return e.addReference(text, needs)
		case "Fn::GetAtt":
			resource, attribute, err := splitGetAtt(argument)
			if err != nil {
				return err
			}
			if err := e.addReference(resource, needs); err != nil {
				return err
			}
			return e.collectReferences(attribute, needs)
		case "Fn::Sub":
			text, variables, err := splitSub(argument)
			if err != nil {
				return err
			}
			parts, err := parseSub(text)
			if err != nil {
				return err
			}
			for _, part := range parts {
				if _, given := variables[part.variable]; given {
					continue
				}
				resource, _, _ := strings.Cut(part.variable, ".")
				if err := e.addReference(resource, needs); err != nil {
					return err
				}
			}
			return e.collectReferences(map[string]any(variables), needs)
		case "Fn::If":
			if e.anyBranch {
				return nil
			}
			taken, err := e.selectBranch(argument)
			if err != nil {
				return err
			}
			return e.collectReferences(taken, needs)
		}
		for _, key := range sortedKeys(v) {
			if err := e.collectReferences(v[key], needs); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := e.collectReferences(item, needs); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *evaluator) addReference(name string, needs map[string]bool) error {
	if name == "" || e.bound.template.parameters[name] != nil || slices.Contains(pseudoParameters, name) {
		return nil
	}
	if _, ok := e.bound.resources[name]; !ok {
		return e.errSkipped(name)
	}
	needs[name] = true
	return nil
}

// findCycle returns the resources that are in a cycle, or need one that is.
func (b *Bound) findCycle() []string {
	missing := make(map[string]int, len(b.depends))
	neededBy := make(map[string][]string, len(b.depends))
	var ready []string
	for name, needs := range b.depends {
		missing[name] = len(needs)
		if len(needs) == 0 {
			ready = append(ready, name)
		}
		for _, id := range needs {
			neededBy[id] = append(neededBy[id], name)
		}
	}
	for len(ready) > 0 {
		name := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		delete(missing, name)
		for _, other := range neededBy[name] {
			if missing[other]--; missing[other] == 0 {
				ready = append(ready, other)
			}
		}
	}
	return sortedKeys(missing)
}

// bindOutputs leaves out the outputs whose condition does not hold.
func (b *Bound) bindOutputs(context.Context) error {
	maps.DeleteFunc(b.outputs, func(_ string, o output) bool { return !b.isConditionTrue(o.condition) })
	return nil
}

// evaluateAll evaluates all that the template has as if no resource existed, so that what is wrong with it is found
// before anything is made.
func (b *Bound) evaluateAll(ctx context.Context) error {
	size, references := 0, 0
	for _, name := range b.LogicalIDs() {
		r := b.resources[name]
		e := &evaluator{ctx: ctx, bound: b, trial: true}
		policies := make([]any, 3)
		for i, part := range []any{r.CreationPolicy, r.UpdatePolicy, r.Metadata} {
			var err error
			if policies[i], err = e.evaluate(part); err != nil {
				return err
			}
			if policies[i] == any(noValue{}) {
				policies[i] = nil
			}
		}
		if err := r.checkPolicies(policies[0], policies[1]); err != nil {
			return err
		}
		if _, err := e.addValues("metadata of resource "+name, policies[2]); err != nil {
			return err
		}
		if _, err := b.properties(e, name); err != nil {
			return err
		}
		if references += e.references; references > maxDynamic {
			return errorf("Template error: the number of dynamic references is greater than maximum allowed, %d", maxDynamic)
		}
		if size += e.size; size > maxBound {
			return errAllTooLarge
		}
	}
	e := &evaluator{ctx: ctx, bound: b, trial: true, outputs: true}
	_, err := b.evaluateOutputs(e)
	return err
}

// LogicalIDs returns the logical IDs of the resources whose condition holds.
func (b *Bound) LogicalIDs() []string { return sortedKeys(b.resources) }

// Resource returns a resource whose condition holds.
func (b *Bound) Resource(logicalID string) Resource { return b.resources[logicalID] }

// Dependencies returns the logical IDs of the resources that must exist before a resource is made, by DependsOn and by
// references.
func (b *Bound) Dependencies(logicalID string) []string { return slices.Clone(b.depends[logicalID]) }

// Properties returns the properties of a resource, with its functions evaluated and its values of the types that the
// schema wants. State may be nil as long as no resource exists. What is wrong with the properties of a resource is an
// *Error, also when it shows only now that attributes of other resources are known.
func (b *Bound) Properties(ctx context.Context, logicalID string, state State) (map[string]any, error) {
	return b.properties(&evaluator{ctx: ctx, bound: b, state: state}, logicalID)
}

func (b *Bound) properties(e *evaluator, logicalID string) (map[string]any, error) {
	r, ok := b.resources[logicalID]
	if !ok {
		return nil, e.errSkipped(logicalID)
	}
	value, err := e.evaluate(r.Properties)
	if err != nil {
		return nil, err
	}
	if value, err = e.resolveReferences(value, path{r.Type, "Properties"}); err != nil {
		return nil, err
	}
	properties, _ := value.(map[string]any)
	if properties == nil {
		properties = map[string]any{}
	}
	if err := e.addProperties(logicalID, properties); err != nil {
		return nil, err
	}
	kind, _ := schema.Of(r.Type)
	if problems := kind.Validate(properties); len(problems) > 0 {
		texts := make([]string, len(problems))
		for i, problem := range problems {
			texts[i] = problem.Error()
		}
		return nil, errorf("Properties validation failed for resource %s with message:\n%s", logicalID,
			strings.Join(texts, "\n"))
	}
	return kind.Coerce(properties), nil
}

// addProperties refuses properties that are too large, and counts the values that their texts become: whatever
// functions make is bounded here, before it is validated and converted.
func (e *evaluator) addProperties(logicalID string, properties map[string]any) error {
	what := "properties of resource " + logicalID
	memory, err := e.addValues(what, properties)
	if err != nil {
		return err
	}
	parsed := 0
	visitValues(properties, func(value any) {
		if s, ok := value.(string); ok {
			parsed += schema.ParsedSize(s)
		}
	})
	if memory+parsed > maxValues {
		return errTooManyValues(what, memory+parsed)
	}
	return e.addSize(parsed)
}

// addValues refuses what is too large to be recorded, and counts its copy. It returns the bytes of memory that take.
func (e *evaluator) addValues(what string, value any) (int, error) {
	text, memory := 0, 0
	visitValues(value, func(value any) {
		memory += nodeSize
		switch v := value.(type) {
		case string:
			text += len(v)
		case map[string]any:
			memory += objectSize
		}
	})
	if text > MaxProperties {
		return 0, errorf("Template error: the %s have %d bytes; coracle accepts %d", what, text, MaxProperties)
	}
	if memory += text; memory > maxValues {
		return 0, errTooManyValues(what, memory)
	}
	return memory, e.addSize(memory)
}

func errTooManyValues(what string, memory int) error {
	return errorf("Template error: the %s have more values than coracle accepts: they take %d bytes of memory, and may "+
		"take %d", what, memory, maxValues)
}

// visitValues visits all values within a value and itself, also the keys of objects.
func visitValues(value any, visit func(any)) {
	visit(value)
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			visit(key)
			visitValues(inner, visit)
		}
	case []any:
		for _, inner := range v {
			visitValues(inner, visit)
		}
	}
}

// Evaluation evaluates resources for a caller that keeps the values of all of them: what functions make is bounded for
// all resources together.
type Evaluation struct {
	bound *Bound
	size  int // of what has been made, in bytes
}

// NewEvaluation returns an Evaluation of no resources yet.
func (b *Bound) NewEvaluation() *Evaluation { return &Evaluation{bound: b} }

// Evaluate returns the properties of a resource as [Bound.Properties] does, and its Metadata.
func (v *Evaluation) Evaluate(ctx context.Context, logicalID string, state State) (
	properties map[string]any, metadata any, err error) {
	e := &evaluator{ctx: ctx, bound: v.bound, state: state, kept: v.size}
	if properties, err = v.bound.properties(e, logicalID); err != nil {
		return nil, nil, err
	}
	if metadata, err = v.bound.metadata(e, logicalID); err != nil {
		return nil, nil, err
	}
	if v.size += e.size; v.size > maxBound {
		return nil, nil, errAllTooLarge
	}
	return properties, metadata, nil
}

// Metadata returns the Metadata of a resource with its functions evaluated. It is bounded as properties are.
func (b *Bound) Metadata(ctx context.Context, logicalID string, state State) (any, error) {
	return b.metadata(&evaluator{ctx: ctx, bound: b, state: state}, logicalID)
}

func (b *Bound) metadata(e *evaluator, logicalID string) (any, error) {
	value, err := e.evaluate(b.resources[logicalID].Metadata)
	if err != nil || value == any(noValue{}) {
		return nil, err
	}
	_, err = e.addValues("metadata of resource "+logicalID, value)
	return value, err
}

// Policies returns the CreationPolicy and the UpdatePolicy of a resource with their functions evaluated.
func (b *Bound) Policies(ctx context.Context, logicalID string, state State) (creation, update any, err error) {
	r, e := b.resources[logicalID], &evaluator{ctx: ctx, bound: b, state: state}
	if creation, err = e.evaluate(r.CreationPolicy); err != nil {
		return nil, nil, err
	}
	if update, err = e.evaluate(r.UpdatePolicy); err != nil {
		return nil, nil, err
	}
	if creation == any(noValue{}) {
		creation = nil
	}
	if update == any(noValue{}) {
		update = nil
	}
	return creation, update, nil
}

// Outputs returns the outputs whose condition holds, by key. A value that is not known yet is the text of [Unknown].
func (b *Bound) Outputs(ctx context.Context, state State) ([]Output, error) {
	return b.evaluateOutputs(&evaluator{ctx: ctx, bound: b, state: state, outputs: true})
}

func (b *Bound) evaluateOutputs(e *evaluator) ([]Output, error) {
	all := make([]Output, 0, len(b.outputs))
	exported := make(map[string]string)
	for _, name := range sortedKeys(b.outputs) {
		o := b.outputs[name]
		value, err := e.evaluate(o.value)
		if err != nil {
			return nil, err
		}
		evaluated := Output{Key: name, Description: o.description}
		if evaluated.Value, err = outputText(value); err != nil {
			return nil, err
		}
		if o.export != nil {
			value, err := e.evaluate(o.export)
			if err != nil {
				return nil, err
			}
			if evaluated.Export, err = outputText(value); err != nil {
				return nil, err
			}
			if err := checkExport(name, evaluated.Export, value, exported); err != nil {
				return nil, err
			}
		}
		all = append(all, evaluated)
	}
	return all, nil
}

// checkExport checks the name of an export.
func checkExport(name, export string, value any, exported map[string]string) error {
	if value == any(Unknown) {
		return nil
	}
	if export == "" || len(export) > maxName || strings.ContainsFunc(export, func(r rune) bool {
		return r >= 128 || !isAlphanumeric(string(r)) && r != ':' && r != '-'
	}) {
		return errorf("Template format error: Output %s has an export name with characters other than letters, digits, "+
			"colons and hyphens", name)
	}
	if other, ok := exported[export]; ok {
		return errorf("Template format error: Output %s and %s have the same Export name %s", other, name, export)
	}
	exported[export] = name
	return nil
}

// outputText returns the text of the value of an output.
func outputText(value any) (string, error) {
	if value == any(Unknown) {
		return Unknown.String(), nil
	}
	text, ok := scalarText(value)
	if !ok {
		return "", errorf("Template format error: Every Value member must be a string.")
	}
	return text, nil
}

// evaluatePolicies returns a resource whose DeletionPolicy and UpdateReplacePolicy have no functions.
func (e *evaluator) evaluatePolicies(object map[string]any) (map[string]any, error) {
	for _, member := range []string{"DeletionPolicy", "UpdateReplacePolicy"} {
		if !isFunction(object[member]) {
			continue
		}
		wrong := errorf("Template format error: Every %s member must be a string.", member)
		text, known, err := e.evaluateText(object[member], wrong)
		if err != nil {
			return nil, err
		}
		if !known {
			return nil, wrong
		}
		object = maps.Clone(object)
		object[member] = text
	}
	return object, nil
}
