// Package model holds what package wire knows about each AWS service: its operations and errors with their Smithy
// schemas, required members and constraints, and the Go types of unions.
//
// The data directory holds one generated text per service, one line per fact:
//
//	op CreateRole                                       "void" follows when its answer has no Result element
//	op CreateTags POST /2015-02-01/create-tags/{Id} 204 restJson1: the method, the path and the status of an answer
//	error NoSuchEntityException NoSuchEntity 404        Go type, code, HTTP status
//	struct CreateRoleInput                              Go type; its members follow
//	RoleName! s len=1:64 pat=[\w+=,.@-]+                "!" means required; lengths and ranges are MIN:MAX
//	Tags []{Tag} len=:50
//	union PolicyIdentifier                              its variants follow
//
// A type is s string, e enumeration, b boolean, i int32, l int64, f float32, d float64, B blob, t timestamp, {X} the
// structure or union X, [item]T a list of T with the name of its elements ("member" unless given), <key,value>T a map
// with the names of its parts, or "-" where the SDK ships schemas. q=N is the name in an EC2 request, x=N the name in
// XML, j=N the name in JSON, "flat" a flattened list or map; in=path is a member of the path, in=query:N one of the
// query.
//
// A text is read at the first use of its service, and a schema is built at the first use of its operation, so that a
// daemon that serves ten of EC2's eight hundred operations pays for ten.
package model

import (
	"embed"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/traits"

	"github.com/coracle-eks/coracle/internal/aws/wire/model/pattern"
)

//go:generate go run ../../../../hack/modelgen .

//go:embed data/*.txt
var data embed.FS

// shippedSchemas are the schemas of a service in the SDK's own schemas package.
type shippedSchemas struct {
	operations map[string][3]*smithy.Schema // operation, input, output
	errors     map[string]*smithy.Schema    // by Go type
}

// Filled by generated code.
var (
	shipped = map[string]*shippedSchemas{}
	unions  = map[reflect.Type]map[string]reflect.Type{}
)

// Variants returns the Go types of a union's members by member name, nil when the interface is not a union of the SDK.
func Variants(union reflect.Type) map[string]reflect.Type { return unions[union] }

// Error is a modeled error of a service.
type Error struct {
	GoType string
	Code   string // on the wire in query protocols; the AWSQueryError code of JSON services that have one
	Status int    // HTTP
	Schema *smithy.Schema
}

// Constraint restricts the values of a member. The zero value is satisfied by everything.
type Constraint struct {
	Required bool
	Min, Max *float64       // of the length of strings, blobs, lists and maps; of the value of numbers
	Pattern  *regexp.Regexp // of the whole string
	Source   string         // the pattern as AWS writes it
}

// Service is the wire model of one service.
type Service struct {
	name       string
	namespace  string
	operations []string
	errors     map[string]*Error   // by Go type
	codes      map[string]*Error   // by code
	blocks     map[string][]string // lines of structures and unions by Go type
	isUnion    map[string]bool
	void       map[string]bool // operations without an output
	http       map[string]*traits.HTTP
	ec2        bool

	mu     sync.Mutex
	built  map[string]*smithy.OperationSchema
	shapes map[string]*smithy.Schema // structures and unions by Go type
	lists  map[string]*smithy.Schema // lists and maps by their type text
}

var (
	loadMu sync.Mutex
	loaded = map[string]*Service{}
)

// Load returns the model of the service whose SDK package has that name. It panics for a service that is not there: the
// names are constants.
func Load(name string) *Service {
	loadMu.Lock()
	defer loadMu.Unlock()
	if s := loaded[name]; s != nil {
		return s
	}
	text, err := data.ReadFile("data/" + name + ".txt")
	if err != nil {
		panic(fmt.Sprintf("model: no service %q: %v", name, err))
	}
	s := &Service{
		name: name, namespace: "com.amazonaws." + name, ec2: name == "ec2",
		errors: map[string]*Error{}, codes: map[string]*Error{},
		blocks: map[string][]string{}, isUnion: map[string]bool{}, void: map[string]bool{},
		http:  map[string]*traits.HTTP{},
		built: map[string]*smithy.OperationSchema{}, shapes: map[string]*smithy.Schema{},
		lists: map[string]*smithy.Schema{},
	}
	var block string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "#":
		case "op":
			name, how, _ := strings.Cut(rest, " ")
			s.operations = append(s.operations, name)
			s.void[name] = how == "void"
			if f := strings.Fields(how); len(f) == 3 {
				status, err := strconv.Atoi(f[2])
				if err != nil {
					panic(fmt.Sprintf("model: %s: %q: %v", s.name, line, err))
				}
				s.http[name] = &traits.HTTP{Method: f[0], URI: f[1], Code: status}
			}
		case "error":
			f := strings.Fields(rest)
			status, err := strconv.Atoi(f[2])
			if err != nil {
				panic(fmt.Sprintf("model: %s: %q: %v", name, line, err))
			}
			e := &Error{GoType: f[0], Code: f[1], Status: status}
			s.errors[e.GoType], s.codes[e.Code] = e, e
		case "struct", "union":
			block = rest
			s.blocks[block] = nil
			s.isUnion[block] = kind == "union"
		default:
			s.blocks[block] = append(s.blocks[block], line)
		}
	}
	slices.Sort(s.operations)
	loaded[name] = s
	return s
}

// Operations lists the service's operations, sorted.
func (s *Service) Operations() []string { return s.operations }

// Operation returns the schema of an operation, or false when the SDK does not know it.
func (s *Service) Operation(name string) (*smithy.OperationSchema, bool) {
	if _, ok := slices.BinarySearch(s.operations, name); !ok {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if op := s.built[name]; op != nil {
		return op, true
	}
	var op *smithy.OperationSchema
	if sdk := shipped[s.name]; sdk != nil {
		sc := sdk.operations[name]
		op = smithy.NewOperationSchema(sc[0], sc[1], sc[2])
	} else {
		output := s.structure(name + "Output")
		if s.void[name] {
			output = smithy.NewSchema(output.ID(), smithy.ShapeTypeStructure, 0, &traits.UnitShape{})
		}
		operation := smithy.NewSchema(s.shapeID(name), smithy.ShapeTypeOperation, 0)
		if h := s.http[name]; h != nil {
			operation = smithy.NewSchema(s.shapeID(name), smithy.ShapeTypeOperation, 0, h)
		}
		op = smithy.NewOperationSchema(operation, s.structure(name+"Input"), output)
	}
	s.built[name] = op
	return op, true
}

// Error returns the modeled error with that Go type.
func (s *Service) Error(goType string) (*Error, bool) {
	e := s.errors[goType]
	if e == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Schema == nil {
		if sdk := shipped[s.name]; sdk != nil {
			e.Schema = sdk.errors[goType]
		} else {
			e.Schema = s.structure(goType)
		}
	}
	return e, true
}

// Errors lists the Go types of the service's modeled errors, sorted.
func (s *Service) Errors() []string {
	names := make([]string, 0, len(s.errors))
	for name := range s.errors {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Status returns the HTTP status of an error code, or 0 when the model does not know the code.
func (s *Service) Status(code string) int {
	if e := s.codes[code]; e != nil {
		return e.Status
	}
	if e := s.errors[code]; e != nil {
		return e.Status
	}
	return 0
}

// Constraints returns the constraints of a Go structure's members by Go field; nil when it has none.
func (s *Service) Constraints(goType string) map[string]Constraint {
	var out map[string]Constraint
	for _, line := range s.blocks[goType] {
		name, rest, _ := strings.Cut(line, " ")
		c := Constraint{}
		name, c.Required = strings.CutSuffix(name, "!")
		if rest, source, ok := strings.Cut(rest, " pat="); ok || c.Required || strings.Contains(rest, "=") {
			if ok {
				c.Source = source
				var err error
				if c.Pattern, err = pattern.Compile(c.Source); err != nil {
					panic(fmt.Sprintf("model: %s: %q: %v", s.name, line, err))
				}
			}
			for _, f := range strings.Fields(rest) {
				kind, bounds, _ := strings.Cut(f, "=")
				if kind == "len" || kind == "range" {
					low, high, _ := strings.Cut(bounds, ":")
					c.Min, c.Max = parseBound(low), parseBound(high)
				}
			}
		}
		if c.Required || c.Min != nil || c.Max != nil || c.Pattern != nil {
			if out == nil {
				out = map[string]Constraint{}
			}
			out[name] = c
		}
	}
	return out
}

func parseBound(text string) *float64 {
	if text == "" {
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("model: %q is not a bound: %v", text, err))
	}
	return &f
}

func (s *Service) shapeID(name string) smithy.ShapeID {
	return smithy.ShapeID{Namespace: s.namespace, Name: name}
}

// structure builds the schema of a structure or union, once. A structure that contains itself finds its own schema,
// whose members come later.
func (s *Service) structure(name string) *smithy.Schema {
	if sc := s.shapes[name]; sc != nil {
		return sc
	}
	lines, ok := s.blocks[name]
	if !ok {
		panic(fmt.Sprintf("model: %s has no structure %s", s.name, name))
	}
	typ := smithy.ShapeTypeStructure
	if s.isUnion[name] {
		typ = smithy.ShapeTypeUnion
	}
	sc := smithy.NewSchema(s.shapeID(name), typ, len(lines))
	s.shapes[name] = sc
	for _, line := range lines {
		f := strings.Fields(line)
		member := strings.TrimSuffix(f[0], "!")
		var ts []smithy.Trait
		query := member
		for _, option := range f[2:] {
			kind, value, _ := strings.Cut(option, "=")
			switch kind {
			case "q":
				query = value
			case "x":
				ts = append(ts, &traits.XMLName{Name: value})
			case "flat":
				ts = append(ts, &traits.XMLFlattened{})
			case "j":
				ts = append(ts, &traits.JSONName{Name: value})
			case "in":
				if parameter, ok := strings.CutPrefix(value, "query:"); ok {
					ts = append(ts, &traits.HTTPQuery{Name: parameter})
				} else {
					ts = append(ts, &traits.HTTPLabel{})
				}
			}
			if kind == "pat" {
				break
			}
		}
		if s.ec2 {
			ts = append(ts, &traits.EC2QueryName{Name: query})
		}
		sc.AddMember(member, s.buildShape(f[1]), ts...)
	}
	return sc
}

var scalars = map[string]*smithy.Schema{
	"s": scalarSchema("String", smithy.ShapeTypeString),
	"e": scalarSchema("Enum", smithy.ShapeTypeEnum),
	"b": scalarSchema("Boolean", smithy.ShapeTypeBoolean),
	"i": scalarSchema("Integer", smithy.ShapeTypeInteger),
	"l": scalarSchema("Long", smithy.ShapeTypeLong),
	"f": scalarSchema("Float", smithy.ShapeTypeFloat),
	"d": scalarSchema("Double", smithy.ShapeTypeDouble),
	"B": scalarSchema("Blob", smithy.ShapeTypeBlob),
	"t": scalarSchema("Timestamp", smithy.ShapeTypeTimestamp),
}

func scalarSchema(name string, typ smithy.ShapeType) *smithy.Schema {
	return smithy.NewSchema(smithy.ShapeID{Namespace: "smithy.api", Name: name}, typ, 0)
}

// buildShape builds the schema of a type text.
func (s *Service) buildShape(text string) *smithy.Schema {
	if sc := scalars[text]; sc != nil {
		return sc
	}
	if text[0] == '{' {
		return s.structure(text[1 : len(text)-1])
	}
	if sc := s.lists[text]; sc != nil {
		return sc
	}
	var sc *smithy.Schema
	switch text[0] {
	case '[':
		item, elem, _ := strings.Cut(text[1:], "]")
		sc = smithy.NewSchema(s.shapeID(text), smithy.ShapeTypeList, 1)
		s.lists[text] = sc
		sc.AddMember("member", s.buildShape(elem), xmlNameTraits(item, "")...)
	case '<':
		names, elem, _ := strings.Cut(text[1:], ">")
		key, value, _ := strings.Cut(names, ",")
		sc = smithy.NewSchema(s.shapeID(text), smithy.ShapeTypeMap, 2)
		s.lists[text] = sc
		sc.AddMember("key", scalars["s"], xmlNameTraits(key, "key")...)
		sc.AddMember("value", s.buildShape(elem), xmlNameTraits(value, "value")...)
	default:
		panic(fmt.Sprintf("model: %s: unknown type %q", s.name, text))
	}
	return sc
}

func xmlNameTraits(name, usual string) []smithy.Trait {
	if name == usual {
		return nil
	}
	return []smithy.Trait{&traits.XMLName{Name: name}}
}
