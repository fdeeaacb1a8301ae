package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// maxProblems bounds the list of what is wrong with a resource, and maxNumber the characters of a number that is not
// just digits.
const (
	maxProblems = 20
	maxNumber   = 64
)

// Problem is a fault of a property, in the words of CloudFormation: "#/CidrBlock: expected type: String, found:
// JSONArray". The API puts "Properties validation failed for resource X with message:" before them.
type Problem struct {
	Path    string // "#/CidrBlock"
	Message string
}

func (p *Problem) Error() string { return p.Path + ": " + p.Message }

// validation collects problems.
type validation struct{ problems []error }

func (v *validation) add(path, format string, args ...any) {
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, &Problem{path, fmt.Sprintf(format, args...)})
	}
}

// Validate returns what is wrong with properties: unknown and missing ones, and values of wrong types. Values that
// [Type.Coerce] makes right are right, and Unknown is. The result is nil when all is well.
func (t *Type) Validate(properties map[string]any) []error {
	v := &validation{}
	v.validateObject("#", t.Properties, properties)
	return v.problems
}

func (v *validation) validateObject(path string, properties map[string]*Property, object map[string]any) {
	for _, name := range sortedKeys(properties) {
		if _, ok := object[name]; !ok && properties[name].Required {
			v.add(path, "required key [%s] not found", name)
		}
	}
	for _, name := range sortedKeys(object) {
		p, ok := properties[name]
		if !ok {
			v.add(path, "extraneous key [%s] is not permitted", name)
			continue
		}
		v.validateValue(path+"/"+name, p.Type, object[name])
	}
}

func (v *validation) validateValue(path string, want *Value, value any) {
	if value == any(Unknown) || len(v.problems) >= maxProblems {
		return
	}
	switch want.Kind {
	case String:
		if _, ok := scalarText(value); !ok {
			v.addTypeError(path, "String", value)
		}
	case Number:
		if _, ok := asNumber(value); !ok {
			v.addTypeError(path, "Number", value)
		}
	case Integer:
		if number, ok := asNumber(value); !ok || !isInteger(number) {
			v.addTypeError(path, "Integer", value)
		}
	case Boolean:
		if _, ok := asBool(value); !ok {
			v.addTypeError(path, "Boolean", value)
		}
	case JSON:
		switch value.(type) {
		case map[string]any, []any, string:
		default:
			v.addTypeError(path, "JSONObject", value)
		}
	case List:
		list, ok := value.([]any)
		if !ok {
			v.addTypeError(path, "JSONArray", value)
			return
		}
		for i, item := range list {
			v.validateValue(fmt.Sprintf("%s/%d", path, i), want.Element, item)
		}
	case Map:
		object, ok := value.(map[string]any)
		if !ok {
			v.addTypeError(path, "JSONObject", value)
			return
		}
		for _, key := range sortedKeys(object) {
			v.validateValue(path+"/"+key, want.Element, object[key])
		}
	case Object, TagPair:
		object, ok := value.(map[string]any)
		if !ok {
			v.addTypeError(path, "JSONObject", value)
			return
		}
		v.validateObject(path, want.members(), object)
	case OneOf:
		if !slices.ContainsFunc(want.Alternatives, func(a *Value) bool { return a.accepts(value) }) {
			v.validateValue(path, want.Alternatives[len(want.Alternatives)-1], value)
		}
	}
}

// accepts reports whether nothing is wrong with a value.
func (v *Value) accepts(value any) bool {
	check := &validation{}
	check.validateValue("#", v, value)
	return len(check.problems) == 0
}

// tagPair is the definition of tags.
var tagPair = map[string]*Property{
	"Key":   {Required: true, RequiresRecreation: Never, Type: &Value{Kind: String}},
	"Value": {Required: true, RequiresRecreation: Never, Type: &Value{Kind: String}},
}

// members returns the properties of an object.
func (v *Value) members() map[string]*Property {
	if v.Kind == TagPair {
		return tagPair
	}
	return v.Definition.Properties
}

func (v *validation) addTypeError(path, want string, value any) {
	v.add(path, "expected type: %s, found: %s", want, nameType(value))
}

// nameType names the type of a value as CloudFormation does.
func nameType(value any) string {
	switch n := value.(type) {
	case nil:
		return "Null"
	case bool:
		return "Boolean"
	case string:
		return "String"
	case json.Number:
		if isInteger(n) {
			return "Integer"
		}
		return "Number"
	case []any:
		return "JSONArray"
	}
	return "JSONObject"
}

// scalarText returns the text of a string, a number or a bool.
func scalarText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

// asNumber returns a number, or the one that a string has.
func asNumber(value any) (json.Number, bool) {
	switch v := value.(type) {
	case json.Number:
		return v, true
	case string:
		v = strings.TrimSpace(v)
		return json.Number(v), len(v) <= maxNumber && json.Valid([]byte(v)) && v[0] != '"' && v[0] != '[' && v[0] != '{' &&
			v != "true" && v != "false" && v != "null"
	}
	return "", false
}

// isInteger reports whether a number is one, also written as 1.0 or 1e3.
func isInteger(n json.Number) bool {
	text := n.String()
	if !strings.ContainsAny(text, ".eE") {
		return true
	}
	if len(text) > maxNumber { // exact numbers of that length take long
		return false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(strings.Trim(exponent, "+-0")) > 2 {
		return false
	}
	number, ok := new(big.Rat).SetString(text)
	return ok && number.IsInt()
}

// asBool returns a bool, or the one that a string has.
func asBool(value any) (bool, bool) {
	switch v := value.(type) {
	case bool:
		return v, true
	case string:
		switch {
		case strings.EqualFold(v, "true"):
			return true, true
		case strings.EqualFold(v, "false"):
			return false, true
		}
	}
	return false, false
}
