package catalog

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// compileSchema makes a JSON schema ready to check configurations. It may refer to its own definitions, and to nothing
// outside of it.
func compileSchema(text []byte) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft6)
	c.UseLoader(jsonschema.SchemeURLLoader{}) // nothing is fetched
	if err := c.AddResource("schema.json", document); err != nil {
		return nil, err
	}
	return c.Compile("schema.json")
}

var english = message.NewPrinter(language.English)

// problemsOf are the leaves of a validation error in the words of the validator that EKS uses, networknt's
// json-schema-validator.
func problemsOf(e *jsonschema.ValidationError, root any) []string {
	at := formatPath(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		// What the alternatives say is of use only together.
		return []string{at + ": should be valid to any of the schemas: " + strings.Join(alternatives(e, root), "; ")}
	case *kind.OneOf:
		if len(k.Subschemas) > 1 {
			return []string{fmt.Sprintf("%s: should be valid to one and only one of schema, but more than one is valid",
				at)}
		}
		return []string{at + ": should be valid to one and only one of schema: " + strings.Join(alternatives(e, root),
			"; ")}
	}
	if len(e.Causes) > 0 {
		var all []string
		for _, cause := range e.Causes {
			all = append(all, problemsOf(cause, root)...)
		}
		slices.Sort(all)
		return all
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		var all []string
		for _, property := range slices.Sorted(slices.Values(k.Properties)) {
			all = append(all, at+"."+property+
				": is not defined in the schema and the schema does not allow additional properties")
		}
		return all
	case *kind.FalseSchema:
		return []string{at + ": is not defined in the schema and the schema does not allow additional properties"}
	case *kind.Required:
		var all []string
		for _, property := range k.Missing {
			all = append(all, at+"."+property+": is missing but it is required")
		}
		return all
	case *kind.Type:
		return []string{fmt.Sprintf("%s: %s found, %s expected", at, schemaType(valueAt(root, e.InstanceLocation)),
			expected(k.Want))}
	case *kind.Enum:
		return []string{fmt.Sprintf("%s: does not have a value in the enumeration [%s]", at, formatList(k.Want))}
	case *kind.Const:
		return []string{fmt.Sprintf("%s: must be a constant value %v", at, k.Want)}
	case *kind.Minimum:
		return []string{fmt.Sprintf("%s: must have a minimum value of %s", at, k.Want.RatString())}
	case *kind.Maximum:
		return []string{fmt.Sprintf("%s: must have a maximum value of %s", at, k.Want.RatString())}
	case *kind.ExclusiveMinimum:
		return []string{fmt.Sprintf("%s: must have an exclusive minimum value of %s", at, k.Want.RatString())}
	case *kind.ExclusiveMaximum:
		return []string{fmt.Sprintf("%s: must have an exclusive maximum value of %s", at, k.Want.RatString())}
	case *kind.MinLength:
		return []string{fmt.Sprintf("%s: must be at least %d characters long", at, k.Want)}
	case *kind.MaxLength:
		return []string{fmt.Sprintf("%s: may only be %d characters long", at, k.Want)}
	case *kind.Pattern:
		return []string{fmt.Sprintf("%s: does not match the regex pattern %s", at, k.Want)}
	case *kind.MinItems:
		return []string{fmt.Sprintf("%s: there must be a minimum of %d items in the array", at, k.Want)}
	case *kind.MaxItems:
		return []string{fmt.Sprintf("%s: there must be a maximum of %d items in the array", at, k.Want)}
	case *kind.UniqueItems:
		return []string{at + ": the items in the array must be unique"}
	case *kind.MinProperties:
		return []string{fmt.Sprintf("%s: must have a minimum of %d properties", at, k.Want)}
	case *kind.MaxProperties:
		return []string{fmt.Sprintf("%s: may only have a maximum of %d properties", at, k.Want)}
	}
	return []string{at + ": " + e.ErrorKind.LocalizedString(english)}
}

func alternatives(e *jsonschema.ValidationError, root any) []string {
	var all []string
	for _, cause := range e.Causes {
		all = append(all, problemsOf(cause, root)...)
	}
	return all
}

// formatPath is a place in the value: "$.tolerations[0].key".
func formatPath(location []string) string {
	var b strings.Builder
	b.WriteString("$")
	for _, part := range location {
		if _, err := strconv.Atoi(part); err == nil {
			b.WriteString("[" + part + "]")
		} else {
			b.WriteString("." + part)
		}
	}
	return b.String()
}

func valueAt(root any, location []string) any {
	for _, part := range location {
		switch v := root.(type) {
		case map[string]any:
			root = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(v) {
				return nil
			}
			root = v[i]
		}
	}
	return root
}

// schemaType is the type of a value as a JSON schema calls it.
func schemaType(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "number"
	}
	return "null"
}

func expected(types []string) string {
	if len(types) == 1 {
		return types[0]
	}
	return "[" + strings.Join(types, ", ") + "]"
}

func formatList(values []any) string {
	words := make([]string, 0, len(values))
	for _, v := range values {
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, ", ")
}
