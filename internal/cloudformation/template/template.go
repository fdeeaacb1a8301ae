// Package template implements the language of CloudFormation templates.
//
// A template goes through three steps. [Parse] reads JSON or YAML and checks what can be checked without parameters.
// [Template.Bind] takes parameters: it checks them, expands Fn::ForEach, evaluates conditions and rules, and refuses
// references to what does not exist, and cycles. The methods of [Bound] then evaluate functions, again and again while
// resources come into being; what a function needs of a resource that does not exist yet is [Unknown].
//
// Values are those that encoding/json decodes with UseNumber: nil, bool, json.Number, string, []any and map[string]any.
//
// Templates are written by tenants. Time and memory are in proportion to the size of the template, which is limited,
// and to the limits in limits.go. The package reads nothing but its arguments, and is safe for concurrent use.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-reference.html
package template

import (
	"fmt"
	"strings"

	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
)

// Unknown is the value of a function that needs a resource which does not exist yet.
var Unknown = schema.Unknown

// Error is a fault of the template or its parameters: the message of the ValidationError that AWS answers.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

// maxMessage is the length of the longest error, in bytes: names in it may be as long as a template.
const maxMessage = 4096

func errorf(format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	return &Error{message}
}

// Template is a parsed template.
type Template struct {
	body string
	root map[string]any

	// Description is the template's own.
	Description string
	// Version is its AWSTemplateFormatVersion, "" when it declares none.
	Version string
	// Metadata is its Metadata section, nil when it has none.
	Metadata any
	// Transforms are the macros that it declares, in their order. Only AWS::LanguageExtensions is served.
	Transforms []string

	parameters map[string]*parameter
	mappings   map[string]any
	conditions map[string]any
	rules      map[string]any
	resources  map[string]any // with Fn::ForEach loops
	outputs    map[string]any // with Fn::ForEach loops
}

// Body returns the text that was parsed.
func (t *Template) Body() string { return t.body }

// Resource is a resource of a template. Its values may contain functions: Bound.Evaluate and Bound.Properties evaluate
// them.
type Resource struct {
	LogicalID, Type, Condition                         string
	DependsOn                                          []string
	DeletionPolicy, UpdateReplacePolicy                string // "" when the template does not say
	Properties, Metadata, CreationPolicy, UpdatePolicy any    // nil when the template has none
}

// languageExtensions is the one transform that is served.
const languageExtensions = "AWS::LanguageExtensions"

// hasExtensions reports whether the template declares AWS::LanguageExtensions.
func (t *Template) hasExtensions() bool {
	for _, name := range t.Transforms {
		if name == languageExtensions {
			return true
		}
	}
	return false
}
