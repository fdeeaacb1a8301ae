package template

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// evaluator evaluates the functions of values.
type evaluator struct {
	ctx   context.Context
	bound *Bound
	state State // nil as long as no resource exists

	// trial leaves what is outside of the template Unknown: exports and SSM parameters.
	trial bool
	// anyBranch leaves out what Fn::If chooses from, for references that do not depend on parameters.
	anyBranch bool
	// outputs reports that outputs are evaluated, for errors.
	outputs bool
	// literals are the variables of Fn::ForEach, for the values that are evaluated while loops are expanded.
	literals map[string]any

	kept       int // of what was made before and is kept beside it, in bytes
	size       int // of what has been made, in bytes
	references int // dynamic ones that have been found
	lookups    int // of mappings within mappings that are under way
}

// errSkipped returns the error of references to resources whose condition does not hold.
func (e *evaluator) errSkipped(name string) error {
	if e.outputs {
		return errorf("Unresolved resource dependencies [%s] in the Outputs block of the template", name)
	}
	return errUnresolved([]string{name}, "Resources")
}

// noValue is the value of Ref of AWS::NoValue: the property or the element is left out.
type noValue struct{}

// addSize counts what a function has made.
func (e *evaluator) addSize(size int) error {
	if e.size += size + nodeSize; e.size > maxEvaluation {
		return errTooLarge
	}
	return e.bound.hold(e.kept + e.size)
}

// hold takes memory for what loops have made, and size bytes beside it.
func (b *Bound) hold(size int) error {
	if size += b.kept; b.inputs.Hold == nil || size <= freeSize+b.held {
		return nil
	}
	step := max(size-freeSize-b.held, holdStep)
	b.held += step
	return b.inputs.Hold(int64(holdFactor * step))
}

// evaluate returns a value with all its functions evaluated.
func (e *evaluator) evaluate(value any) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		if name, argument := functionOf(v); name != "" {
			return e.callFunction(name, argument)
		}
		object := make(map[string]any, len(v))
		for _, key := range sortedKeys(v) {
			inner, err := e.evaluate(v[key])
			if err != nil {
				return nil, err
			}
			if err := e.addSize(len(key)); err != nil {
				return nil, err
			}
			if inner != (noValue{}) {
				object[key] = inner
			}
		}
		return object, e.addSize(objectSize)
	case []any:
		list := make([]any, 0, len(v))
		for _, item := range v {
			inner, err := e.evaluate(item)
			if err != nil {
				return nil, err
			}
			if inner != (noValue{}) {
				list = append(list, inner)
			}
		}
		return list, e.addSize(0)
	case string:
		return v, e.addSize(len(v))
	}
	return value, e.addSize(0)
}

// evaluateList evaluates a value that must be a list. known is false when it is Unknown.
func (e *evaluator) evaluateList(value any, wrong error) (list []any, known bool, err error) {
	evaluated, err := e.evaluate(value)
	if err != nil || evaluated == any(Unknown) {
		return nil, false, err
	}
	list, ok := evaluated.([]any)
	if !ok {
		return nil, false, wrong
	}
	return list, true, nil
}

// evaluateText evaluates a value that must be a string, or a number or bool that stands for one.
func (e *evaluator) evaluateText(value any, wrong error) (text string, known bool, err error) {
	evaluated, err := e.evaluate(value)
	if err != nil || evaluated == any(Unknown) {
		return "", false, err
	}
	text, ok := scalarText(evaluated)
	if !ok {
		return "", false, wrong
	}
	return text, true, nil
}

// callFunction evaluates a function.
func (e *evaluator) callFunction(name string, argument any) (any, error) {
	switch name {
	case "Ref":
		text, ok := argument.(string)
		if !ok {
			return nil, errRef
		}
		return e.ref(text)
	case "Fn::GetAtt":
		return e.getAtt(argument)
	case "Fn::Sub":
		return e.sub(argument)
	case "Fn::Join":
		return e.join(argument)
	case "Fn::Split":
		return e.split(argument)
	case "Fn::Select":
		return e.selectElement(argument)
	case "Fn::FindInMap":
		return e.findInMap(argument)
	case "Fn::If":
		return e.evaluateIf(argument)
	case "Fn::Base64":
		text, known, err := e.evaluateText(argument, errBase64)
		if err != nil || !known {
			return Unknown, err
		}
		encoded := base64.StdEncoding.EncodeToString([]byte(text))
		return encoded, e.addSize(len(encoded))
	case "Fn::GetAZs":
		return e.getAvailabilityZones(argument)
	case "Fn::Cidr":
		return e.cidr(argument)
	case "Fn::ImportValue":
		return e.importValue(argument)
	case "Fn::GetStackOutput":
		return e.stackOutput(argument)
	case "Fn::Length", "Fn::ToJsonString":
		if e.bound.template.hasExtensions() {
			return e.extension(name, argument)
		}
	case "Fn::Equals", "Fn::And", "Fn::Or", "Fn::Not":
		if e.bound.template.hasExtensions() {
			return e.condition(map[string]any{name: argument})
		}
		return nil, errorf("Template error: %s cannot be partially collapsed", name)
	case "Fn::Transform":
		return nil, errTransform(argument)
	}
	return nil, errUnsupported(name)
}

func (e *evaluator) ref(name string) (any, error) {
	if value, ok := e.literals[name]; ok {
		return value, e.addSizeOf(value)
	}
	if p, ok := e.bound.parameters[name]; ok {
		return p.value, e.addSizeOf(p.value)
	}
	if value, ok := e.bound.pseudoParameter(name); ok {
		return value, e.addSizeOf(value)
	}
	if _, ok := e.bound.resources[name]; !ok {
		return nil, e.errSkipped(name)
	}
	if e.state == nil {
		return Unknown, nil
	}
	value, known := e.state.Ref(name)
	if !known {
		return Unknown, nil
	}
	return value, e.addSize(len(value))
}

// addSizeOf counts a value from outside of the template.
func (e *evaluator) addSizeOf(value any) error {
	switch v := value.(type) {
	case string:
		return e.addSize(len(v))
	case []any:
		for _, item := range v {
			if err := e.addSizeOf(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, item := range v {
			if err := e.addSize(len(key)); err != nil {
				return err
			}
			if err := e.addSizeOf(item); err != nil {
				return err
			}
		}
	}
	return e.addSize(0)
}

// pseudoParameter returns the value of a pseudo parameter.
func (b *Bound) pseudoParameter(name string) (any, bool) {
	p := b.inputs.Pseudo
	switch name {
	case "AWS::NoValue":
		return noValue{}, true
	case "AWS::AccountId":
		return p.AccountID, true
	case "AWS::Region":
		return p.Region, true
	case "AWS::Partition":
		return p.Partition, true
	case "AWS::URLSuffix":
		return p.URLSuffix, true
	case "AWS::StackId":
		return p.StackID, true
	case "AWS::StackName":
		return p.StackName, true
	case "AWS::NotificationARNs":
		list := make([]any, len(p.NotificationARNs))
		for i, arn := range p.NotificationARNs {
			list[i] = arn
		}
		return list, true
	}
	return nil, false
}

func (e *evaluator) getAtt(argument any) (any, error) {
	resource, attribute, err := splitGetAtt(argument)
	if err != nil {
		return nil, err
	}
	name, known, err := e.evaluateText(attribute, errGetAtt)
	if err != nil || !known {
		return Unknown, err
	}
	return e.attribute(resource, name)
}

func (e *evaluator) attribute(resource, name string) (any, error) {
	if _, ok := e.bound.resources[resource]; !ok {
		return nil, e.errSkipped(resource)
	}
	if e.state == nil {
		return Unknown, nil
	}
	value, known, err := e.state.Attribute(resource, name)
	if err != nil {
		return nil, err
	}
	if !known {
		return Unknown, nil
	}
	return value, e.addSizeOf(value)
}

func (e *evaluator) sub(argument any) (any, error) {
	text, variables, err := splitSub(argument)
	if err != nil {
		return nil, err
	}
	parts, err := parseSub(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	allKnown := true
	values := make(map[string]any, len(variables))
	for _, name := range sortedKeys(variables) {
		value, err := e.evaluate(variables[name])
		if err != nil {
			return nil, err
		}
		if _, isText := scalarText(value); !isText && value != any(Unknown) {
			return nil, errSubValue
		}
		values[name] = value
	}
	for _, part := range parts {
		b.WriteString(part.text)
		if err := e.addSize(len(part.text)); err != nil {
			return nil, err
		}
		if part.variable == "" {
			continue
		}
		value, given := values[part.variable]
		if !given {
			if value, err = e.variable(part.variable); err != nil {
				return nil, err
			}
		}
		if value == any(Unknown) {
			allKnown = false
			continue
		}
		text, ok := scalarText(value)
		if !ok {
			return nil, errorf("Template error: variable %s in Fn::Sub expression does not resolve to a string", part.variable)
		}
		if err := e.addSize(len(text)); err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	if !allKnown {
		return Unknown, nil
	}
	return b.String(), nil
}

// variable returns what ${Name} or ${Resource.Attribute} stands for.
func (e *evaluator) variable(name string) (any, error) {
	if resource, attribute, ok := strings.Cut(name, "."); ok {
		return e.attribute(resource, attribute)
	}
	return e.ref(name)
}

func (e *evaluator) join(argument any) (any, error) {
	list, ok := argument.([]any)
	if !ok || len(list) != 2 {
		return nil, errJoin
	}
	delimiter, ok := list[0].(string)
	if !ok {
		return nil, errJoin
	}
	items, known, err := e.evaluateList(list[1], errJoin)
	if err != nil || !known {
		return Unknown, err
	}
	var b strings.Builder
	for i, item := range items {
		if item == any(Unknown) {
			return Unknown, nil
		}
		text, ok := scalarText(item)
		if !ok {
			return nil, errJoin
		}
		if i > 0 {
			b.WriteString(delimiter)
		}
		b.WriteString(text)
		if err := e.addSize(len(delimiter) + len(text)); err != nil {
			return nil, err
		}
	}
	return b.String(), nil
}

func (e *evaluator) split(argument any) (any, error) {
	list, ok := argument.([]any)
	if !ok || len(list) != 2 {
		return nil, errSplit
	}
	delimiter, ok := list[0].(string)
	if !ok || delimiter == "" {
		return nil, errSplit
	}
	text, known, err := e.evaluateText(list[1], errSplit)
	if err != nil || !known {
		return Unknown, err
	}
	items := make([]any, 0, 8)
	for item := range strings.SplitSeq(text, delimiter) {
		if err := e.addSize(len(item)); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// selectElement evaluates Fn::Select.
func (e *evaluator) selectElement(argument any) (any, error) {
	list, ok := argument.([]any)
	if !ok || len(list) != 2 {
		return nil, errSelect
	}
	text, known, err := e.evaluateText(list[0], errSelect)
	if err != nil || !known {
		return Unknown, err
	}
	index, err := parseCount(text)
	if err != nil {
		return nil, errSelect
	}
	items, known, err := e.evaluateList(list[1], errSelect)
	if err != nil || !known {
		return Unknown, err
	}
	if index < 0 || index >= len(items) {
		return nil, errorf("Template error: Fn::Select cannot select nonexistent value at index %d", index)
	}
	return items[index], nil
}

func (e *evaluator) getAvailabilityZones(argument any) (any, error) {
	region, known, err := e.evaluateText(argument, errGetAZs)
	if err != nil || !known {
		return Unknown, err
	}
	if region == "" {
		region = e.bound.inputs.Pseudo.Region
	}
	if e.bound.inputs.Zones == nil {
		return Unknown, nil
	}
	names, err := e.bound.zonesOf(e.ctx, region)
	if err != nil {
		return nil, err
	}
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = name
	}
	return list, e.addSizeOf(list)
}

// zonesOf returns the Availability Zones of a region, which it remembers. Others evaluate the template while it asks.
func (b *Bound) zonesOf(ctx context.Context, region string) ([]string, error) {
	b.zonesMu.Lock()
	names, ok := b.zones[region]
	b.zonesMu.Unlock()
	if ok {
		return names, nil
	}
	names, err := b.inputs.Zones(ctx, region)
	if err != nil {
		return nil, err
	}
	b.zonesMu.Lock()
	defer b.zonesMu.Unlock()
	if b.zones == nil {
		b.zones = map[string][]string{}
	}
	b.zones[region] = names
	return names, nil
}

func (e *evaluator) importValue(argument any) (any, error) {
	name, known, err := e.evaluateText(argument, errImport)
	if err != nil || !known {
		return Unknown, err
	}
	if e.trial || e.bound.inputs.Import == nil {
		return Unknown, nil
	}
	value, err := e.bound.inputs.Import(e.ctx, name)
	if errors.Is(err, ErrNotFound) {
		return nil, errorf("No export named %s found", name)
	}
	if err != nil {
		return nil, err
	}
	return value, e.addSize(len(value))
}

// StackOutput names an output of another stack, for Fn::GetStackOutput.
type StackOutput struct {
	StackName, OutputName string
	Region                string // that of the stack itself unless the template says another
	RoleARN               string // a role that may read it, "" for the one of the stack itself
}

func (e *evaluator) stackOutput(argument any) (any, error) {
	object, err := stackOutputMembers(argument)
	if err != nil {
		return nil, err
	}
	output := StackOutput{Region: e.bound.inputs.Pseudo.Region}
	for name, into := range map[string]*string{"StackName": &output.StackName, "OutputName": &output.OutputName,
		"Region": &output.Region, "RoleArn": &output.RoleARN} {
		if object[name] == nil {
			continue
		}
		text, known, err := e.evaluateText(object[name], errStackOutput)
		if err != nil || !known {
			return Unknown, err
		}
		*into = text
	}
	if e.trial || e.bound.inputs.StackOutput == nil {
		return Unknown, nil
	}
	value, err := e.bound.inputs.StackOutput(e.ctx, output)
	if errors.Is(err, ErrNotFound) {
		return nil, errorf("Stack %s has no output %s", output.StackName, output.OutputName)
	}
	if err != nil {
		return nil, err
	}
	return value, e.addSize(len(value))
}

// stackOutputMembers checks the form of Fn::GetStackOutput.
func stackOutputMembers(argument any) (map[string]any, error) {
	object, _ := argument.(map[string]any)
	for name, value := range object {
		if !slices.Contains([]string{"StackName", "OutputName", "Region", "RoleArn"}, name) ||
			!isScalar(value) && !isFunction(value) {
			return nil, errStackOutput
		}
	}
	if object["StackName"] == nil || object["OutputName"] == nil {
		return nil, errStackOutput
	}
	return object, nil
}

// extension evaluates the functions of AWS::LanguageExtensions.
func (e *evaluator) extension(name string, argument any) (any, error) {
	value, err := e.evaluate(argument)
	if err != nil || value == any(Unknown) {
		return Unknown, err
	}
	if name == "Fn::Length" {
		list, ok := value.([]any)
		if !ok {
			return nil, errLength
		}
		return json.Number(itoa(len(list))), e.addSize(0)
	}
	switch value.(type) {
	case []any, map[string]any:
	default:
		return nil, errJSON
	}
	if hasUnknown(value) {
		return Unknown, nil
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(b.String(), "\n")
	return text, e.addSize(len(text))
}

// hasUnknown reports whether something within a value is Unknown.
func hasUnknown(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			if hasUnknown(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasUnknown)
	}
	return value == any(Unknown)
}
