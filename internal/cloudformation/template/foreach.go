package template

import (
	"context"
	"slices"
	"strings"
)

// expander expands Fn::ForEach, and evaluates the functions that AWS::LanguageExtensions allows where the language
// itself wants text.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/transform-aws-languageextensions.html
type expander struct {
	evaluator evaluator
	size      int // of what has been made, in bytes
}

// errExtension returns an error of the transform.
func errExtension(format string, args ...any) error {
	return errorf("Transform AWS::LanguageExtensions failed with: "+format, args...)
}

// expandSections returns a section of the template without loops.
func (b *Bound) expandSection(ctx context.Context, x *expander, section map[string]any) (map[string]any, error) {
	if section == nil {
		return nil, nil
	}
	x.evaluator.ctx, x.evaluator.bound = ctx, b
	value, err := x.expandValue(section)
	if err != nil {
		return nil, err
	}
	return value.(map[string]any), nil
}

func (x *expander) addSize(size int) error {
	if x.size += size + nodeSize; x.size > maxExpansion {
		return errExtension("the expanded template is larger than maximum allowed, %d bytes", maxExpansion)
	}
	return x.evaluator.bound.hold(x.size)
}

func (x *expander) expandValue(value any) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		if name, argument := functionOf(v); name != "" && !isLoop(name) {
			return x.expandFunction(name, argument)
		}
		object := make(map[string]any, len(v))
		for _, key := range sortedKeys(v) {
			if isLoop(key) {
				if err := x.expandLoop(key, v[key], object); err != nil {
					return nil, err
				}
				continue
			}
			inner, err := x.expandMember(key, v[key])
			if err != nil {
				return nil, err
			}
			if err := addMember(object, key, inner); err != nil {
				return nil, err
			}
			if err := x.addSize(len(key)); err != nil {
				return nil, err
			}
		}
		return object, x.addSize(objectSize)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			inner, err := x.expandValue(item)
			if err != nil {
				return nil, err
			}
			list[i] = inner
		}
		return list, x.addSize(0)
	case string:
		return v, x.addSize(len(v))
	}
	return value, x.addSize(0)
}

// expandMember expands a member of an object, of which some name other parts of the template.
func (x *expander) expandMember(key string, value any) (any, error) {
	if key != "DependsOn" && key != "Condition" {
		return x.expandValue(value)
	}
	switch v := value.(type) {
	case string:
		return x.substitute(v, true)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = item
			if text, ok := item.(string); ok {
				name, err := x.substitute(text, true)
				if err != nil {
					return nil, err
				}
				list[i] = name
			}
		}
		return list, x.addSize(nodeSize * len(list))
	}
	return x.expandValue(value)
}

func addMember(object map[string]any, key string, value any) error {
	if _, ok := object[key]; ok {
		return errExtension("Duplicate key '%s' when merging keys to parent object in Fn::ForEach", key)
	}
	object[key] = value
	return nil
}

// expandLoop adds to an object what a loop stands for.
func (x *expander) expandLoop(key string, value any, into map[string]any) error {
	if !loopName.MatchString(key) {
		return errExtension("Fn::ForEach name of %s must be alphanumeric", key)
	}
	list, ok := value.([]any)
	if !ok || len(list) != 3 {
		return errExtension("Fn::ForEach layout is incorrect for %s", key)
	}
	identifier, isText := list[0].(string)
	body, isObject := list[2].(map[string]any)
	if !isText || !isAlphanumeric(identifier) || len(identifier) > maxName || !isObject {
		return errExtension("Fn::ForEach layout is incorrect for %s", key)
	}
	if _, ok := x.evaluator.bound.parameters[identifier]; ok {
		return errExtension("Identifier %s of %s is the name of a parameter", identifier, key)
	}
	if _, ok := x.evaluator.literals[identifier]; ok {
		return errExtension("Identifier %s of %s is used in a loop around it", identifier, key)
	}
	items, err := x.collection(key, list[1])
	if err != nil {
		return err
	}
	for _, item := range items {
		if err := x.expandBody(identifier, item, body, into); err != nil {
			return err
		}
	}
	return nil
}

// collection returns the values that a loop runs over.
func (x *expander) collection(key string, value any) ([]string, error) {
	evaluated, known, err := x.evaluator.evaluateList(value, errExtension("Fn::ForEach collection of %s must be a list of "+
		"strings", key))
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, errExtension("Fn::ForEach could not resolve the collection of %s: it must not depend on resources", key)
	}
	items := make([]string, len(evaluated))
	for i, item := range evaluated {
		text, ok := scalarText(item)
		if !ok {
			return nil, errExtension("Fn::ForEach collection of %s must be a list of strings", key)
		}
		items[i] = text
	}
	return items, nil
}

func (x *expander) expandBody(identifier, item string, body, into map[string]any) error {
	x.evaluator.literals[identifier] = item
	defer delete(x.evaluator.literals, identifier)
	for _, member := range sortedKeys(body) {
		if isLoop(member) {
			if err := x.expandLoop(member, body[member], into); err != nil {
				return err
			}
			continue
		}
		name, err := x.substitute(member, true)
		if err != nil {
			return err
		}
		value, err := x.expandMember(name, body[member])
		if err != nil {
			return err
		}
		if err := addMember(into, name, value); err != nil {
			return err
		}
	}
	return nil
}

// substitute replaces ${Identifier} in a text. In names, &{Identifier} stands for its letters and digits. The result
// counts as made.
func (x *expander) substitute(text string, isName bool) (string, error) {
	if err := x.addSize(len(text)); err != nil {
		return "", err
	}
	if len(x.evaluator.literals) == 0 || !strings.Contains(text, "{") {
		return text, nil
	}
	longest := x.longestIdentifier()
	var b strings.Builder
	for i := 0; i < len(text); {
		if c := text[i]; (c == '$' || c == '&' && isName) && strings.HasPrefix(text[i+1:], "{") {
			rest := text[i+2:]
			name, _, closed := strings.Cut(rest[:min(len(rest), longest+len("}"))], "}")
			if value, ok := x.evaluator.literals[name].(string); ok && closed {
				if err := x.addSize(len(value)); err != nil {
					return "", err
				}
				if c == '&' {
					value = keepAlphanumeric(value)
				}
				b.WriteString(value)
				i += len("${}") + len(name)
				continue
			}
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String(), nil
}

// longestIdentifier returns the length of the longest identifier of the loops that the expander is in.
func (x *expander) longestIdentifier() (longest int) {
	for name := range x.evaluator.literals {
		longest = max(longest, len(name))
	}
	return longest
}

func keepAlphanumeric(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 128 && isAlphanumeric(string(r)) {
			return r
		}
		return -1
	}, text)
}

// expandFunction expands what is within a function.
func (x *expander) expandFunction(name string, argument any) (any, error) {
	switch name {
	case "Ref":
		text, err := x.expandName(argument, errRef)
		if err != nil {
			return nil, err
		}
		if value, ok := x.evaluator.literals[text]; ok {
			return value, x.addSize(len(value.(string)))
		}
		return map[string]any{"Ref": text}, x.addSize(len(text) + objectSize)
	case "Fn::GetAtt":
		return x.expandGetAtt(argument)
	case "Fn::Sub":
		return x.expandSub(argument)
	case "Fn::If":
		if list, ok := argument.([]any); ok && len(list) > 0 {
			if text, ok := list[0].(string); ok {
				condition, err := x.substitute(text, true)
				if err != nil {
					return nil, err
				}
				argument = append([]any{condition}, list[1:]...)
			}
		}
	}
	inner, err := x.expandValue(argument)
	if err != nil {
		return nil, err
	}
	return map[string]any{name: inner}, x.addSize(len(name) + objectSize)
}

// expandName returns a name that may be given by a function of parameters.
func (x *expander) expandName(value any, wrong error) (string, error) {
	if text, ok := value.(string); ok {
		return x.substitute(text, true)
	}
	if !isFunction(value) {
		return "", wrong
	}
	text, known, err := x.evaluator.evaluateText(value, wrong)
	if err == nil && !known {
		err = errExtension("intrinsic functions in the names of Ref and Fn::GetAtt must not depend on resources")
	}
	return text, err
}

func (x *expander) expandGetAtt(argument any) (any, error) {
	if text, ok := argument.(string); ok {
		name, err := x.substitute(text, true)
		if err != nil {
			return nil, err
		}
		argument = splitAttribute(name)
	}
	list, ok := argument.([]any)
	if !ok {
		return nil, errGetAtt
	}
	names := make([]any, len(list))
	for i, item := range list {
		text, err := x.expandName(item, errGetAtt)
		if err != nil {
			return nil, err
		}
		names[i] = text
	}
	return map[string]any{"Fn::GetAtt": names}, x.addSize(2*nodeSize + objectSize)
}

func (x *expander) expandSub(argument any) (any, error) {
	text, variables, err := splitSub(argument)
	if err != nil {
		return nil, err
	}
	outer := x.evaluator.literals
	if slices.ContainsFunc(sortedKeys(variables), func(name string) bool { _, ok := outer[name]; return ok }) {
		visible := make(map[string]any, len(outer))
		for name, value := range outer {
			if _, hidden := variables[name]; !hidden {
				visible[name] = value
			}
		}
		x.evaluator.literals = visible
	}
	text, err = x.substitute(text, false)
	x.evaluator.literals = outer
	if err != nil {
		return nil, err
	}
	if err := x.addSize(objectSize); err != nil {
		return nil, err
	}
	if variables == nil {
		return map[string]any{"Fn::Sub": text}, nil
	}
	inner, err := x.expandValue(variables)
	return map[string]any{"Fn::Sub": []any{text, inner}}, err
}
