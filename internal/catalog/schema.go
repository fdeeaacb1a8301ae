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

// Limits of the problems that are reported about a configuration, in bytes.
const (
	maxProblems = 4 << 10
	maxPath     = 200  // of a path in the value
	maxText     = 1000 // of the text about one path
)

// problemsOf returns the leaves of a validation error in the words of the validator that EKS uses, networknt's
// json-schema-validator. It stops at a maximum number of them.
func problemsOf(e *jsonschema.ValidationError, root any) []string {
	p := problems{root: root, left: maxProblems}
	all := slices.Compact(p.of(e))
	if p.more {
		all = append(all, "and more")
	}
	return all
}

// problems lists the violations of a value, until nothing is left of the bytes that it may take.
type problems struct {
	root any
	left int
	more bool // a problem was left out
}

// full reports whether nothing more can be said, though there is more to say.
func (p *problems) full() bool {
	p.more = p.more || p.left <= 0
	return p.left <= 0
}

// addProblem returns a list with one problem at a path.
func (p *problems) addProblem(at, words string) []string {
	text := at + ": " + cut(words, maxText)
	p.left -= len(text)
	return []string{text}
}

// addProblems returns a problem with the same words for each of the properties at a path.
func (p *problems) addProblems(at string, properties []string, words string) (all []string) {
	for _, property := range properties {
		if p.full() {
			break
		}
		all = append(all, p.addProblem(at+"."+cut(property, maxPath), words)...)
	}
	return all
}

const undefined = "is not defined in the schema and the schema does not allow additional properties"

func (p *problems) of(e *jsonschema.ValidationError) []string {
	at := formatPath(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		// What the alternatives say is of use only together.
		return p.alternatives(at, "should be valid to any of the schemas", e)
	case *kind.OneOf:
		if len(k.Subschemas) > 1 {
			return p.addProblem(at, "should be valid to one and only one of schema, but more than one is valid")
		}
		return p.alternatives(at, "should be valid to one and only one of schema", e)
	}
	if len(e.Causes) > 0 {
		all := p.ofAll(e.Causes)
		slices.Sort(all)
		return all
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		return p.addProblems(at, slices.Sorted(slices.Values(k.Properties)), undefined)
	case *kind.FalseSchema:
		return p.addProblem(at, undefined)
	case *kind.Required:
		return p.addProblems(at, k.Missing, "is missing but it is required")
	}
	return p.addProblem(at, p.words(e))
}

// words returns the text for a leaf of a validation error.
func (p *problems) words(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return fmt.Sprintf("%s found, %s expected", schemaType(valueAt(p.root, e.InstanceLocation)), expected(k.Want))
	case *kind.Enum:
		return fmt.Sprintf("does not have a value in the enumeration [%s]", formatList(k.Want))
	case *kind.Const:
		return fmt.Sprintf("must be a constant value %v", k.Want)
	case *kind.Minimum:
		return fmt.Sprintf("must have a minimum value of %s", k.Want.RatString())
	case *kind.Maximum:
		return fmt.Sprintf("must have a maximum value of %s", k.Want.RatString())
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("must have an exclusive minimum value of %s", k.Want.RatString())
	case *kind.ExclusiveMaximum:
		return fmt.Sprintf("must have an exclusive maximum value of %s", k.Want.RatString())
	case *kind.MinLength:
		return fmt.Sprintf("must be at least %d characters long", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("may only be %d characters long", k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("does not match the regex pattern %s", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("there must be a minimum of %d items in the array", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("there must be a maximum of %d items in the array", k.Want)
	case *kind.UniqueItems:
		return "the items in the array must be unique"
	case *kind.MinProperties:
		return fmt.Sprintf("must have a minimum of %d properties", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("may only have a maximum of %d properties", k.Want)
	}
	return e.ErrorKind.LocalizedString(english)
}

func (p *problems) ofAll(errors []*jsonschema.ValidationError) (all []string) {
	for _, e := range errors {
		if p.full() {
			break
		}
		all = append(all, p.of(e)...)
	}
	return all
}

// alternatives returns one problem that lists the problems of each alternative.
func (p *problems) alternatives(at, words string, e *jsonschema.ValidationError) []string {
	text := at + ": " + words + ": "
	p.left -= len(text)
	return []string{text + strings.Join(p.ofAll(e.Causes), "; ")}
}

// cut truncates a text to limit bytes and appends "..." where it cuts.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// formatPath formats a location in the value as a path: "$.tolerations[0].key".
func formatPath(location []string) string {
	var b strings.Builder
	b.WriteString("$")
	for _, part := range location {
		if b.Len() > maxPath {
			break
		}
		if _, err := strconv.Atoi(part); err == nil {
			b.WriteString("[" + part + "]")
		} else {
			b.WriteString("." + cut(part, maxPath))
		}
	}
	return cut(b.String(), maxPath)
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

// schemaType returns the type of a value as a JSON schema calls it.
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
