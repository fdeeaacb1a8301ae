// Package schema describes the resource types of CloudFormation: their properties, what each of them must be, and what
// a change to it does to the resource.
//
// The data is in types.json.gz, which hack/cfnschema derives from the npm package @aws-cdk/aws-service-spec: a
// selection of it, without documentation and in another notation. Copyright Amazon.com, Inc. or its affiliates, under
// the Apache License 2.0. Which properties cannot be read back is in writeonly.go, from the public schemas of the
// CloudFormation registry.
//
// Values are those that encoding/json decodes with UseNumber, and [Unknown].
package schema

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Type is a resource type.
type Type struct {
	Name       string // "AWS::EC2::VPC"
	Properties map[string]*Property
	// Attributes are the attributes that Fn::GetAtt returns, by names such as "Arn" and "CertificateAuthority.Data".
	Attributes map[string]*Value
	// PrimaryIdentifier are the properties and attributes that identify a resource.
	PrimaryIdentifier []string
	// Ref are those of them that Ref returns, separated by "|".
	Ref []string
	// TagProperty is the property that has the tags, "" when the type has none.
	TagProperty string
	TagForm     TagForm
	// WriteOnly are the properties that cannot be read back, as paths such as "LoginProfile/Password". A list has "*".
	WriteOnly []string

	replacement [][]string // paths whose change replaces, beside those that Properties tell
}

// TagForm is the form in which a property has tags.
type TagForm string

// The forms of tags.
const (
	TagList  TagForm = "standard" // [{Key, Value}]
	TagGroup TagForm = "asg"      // [{Key, Value, PropagateAtLaunch}]
	TagMap   TagForm = "map"      // {key: value}
)

// Recreation reports whether a change to a property replaces the resource, in the terms of change sets.
type Recreation string

// The values of Recreation.
const (
	Never         Recreation = "Never"
	Conditionally Recreation = "Conditionally"
	Always        Recreation = "Always"
)

// Property is a property of a type or of a definition.
type Property struct {
	Required           bool
	RequiresRecreation Recreation
	Type               *Value
}

// Kind is the type of a value.
type Kind int

// The kinds of values.
const (
	String Kind = iota
	Number
	Integer
	Boolean
	JSON    // any object or list, or its JSON text
	List    // of Element
	Map     // of Element
	Object  // of a Definition
	OneOf   // Alternatives
	TagPair // {Key, Value}
)

// Value is the type of a property or an attribute.
type Value struct {
	Kind         Kind
	Element      *Value
	Definition   *Definition
	Alternatives []*Value
}

// Definition is a type of objects within properties.
type Definition struct {
	Name       string // "AWS::EC2::Instance.Ebs"
	Properties map[string]*Property
}

//go:embed types.json.gz
var packed []byte

// file is the form of types.json.gz.
type file struct {
	Source, License string
	Types           map[string]struct {
		Properties  map[string]fileProperty `json:"p"`
		Attributes  map[string]string       `json:"a"`
		Identifier  []string                `json:"i"`
		Ref         []string                `json:"r"`
		Tags        string                  `json:"t"`
		TagForm     TagForm                 `json:"f"`
		Replacement [][]string              `json:"x"`
	}
	Definitions map[string]map[string]fileProperty
}

type fileProperty struct {
	Type        string `json:"t"`
	Required    bool   `json:"r"`
	Replacement string `json:"c"`
}

// reader makes types of a file.
type reader struct {
	file        file
	definitions map[string]*Definition
}

// load reads the types once. What is embedded is part of the program, so that its faults are those of the build.
var load = sync.OnceValue(func() map[string]*Type {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic("schema: " + err.Error())
	}
	text, err := io.ReadAll(io.LimitReader(unpacked, 16<<20))
	if err != nil {
		panic("schema: " + err.Error())
	}
	r := &reader{definitions: make(map[string]*Definition)}
	if err := json.Unmarshal(text, &r.file); err != nil {
		panic("schema: " + err.Error())
	}
	types := make(map[string]*Type, len(r.file.Types))
	for name, t := range r.file.Types {
		kind := &Type{Name: name, Properties: r.properties(t.Properties),
			Attributes:        make(map[string]*Value, len(t.Attributes)),
			PrimaryIdentifier: t.Identifier, Ref: t.Ref, TagProperty: t.Tags, TagForm: t.TagForm,
			WriteOnly: writeOnly[name], replacement: t.Replacement}
		if kind.Ref == nil {
			kind.Ref = kind.PrimaryIdentifier
		}
		for attribute, text := range t.Attributes {
			kind.Attributes[attribute] = r.parseValue(text)
		}
		types[name] = kind
	}
	return types
})

func (r *reader) properties(from map[string]fileProperty) map[string]*Property {
	properties := make(map[string]*Property, len(from))
	for name, p := range from {
		recreation := Never
		switch p.Replacement {
		case "yes":
			recreation = Always
		case "maybe":
			recreation = Conditionally
		}
		properties[name] = &Property{p.Required, recreation, r.parseValue(p.Type)}
	}
	return properties
}

var kinds = map[string]Kind{"string": String, "number": Number, "integer": Integer, "boolean": Boolean, "json": JSON,
	"tag": TagPair}

// parseValue reads the notation of hack/cfnschema.
func (r *reader) parseValue(text string) *Value {
	if alternatives := strings.Split(text, "|"); len(alternatives) > 1 {
		v := &Value{Kind: OneOf}
		for _, alternative := range alternatives {
			v.Alternatives = append(v.Alternatives, r.parseValue(alternative))
		}
		return v
	}
	if element, ok := strings.CutPrefix(text, "[]"); ok {
		return &Value{Kind: List, Element: r.parseValue(element)}
	}
	if element, ok := strings.CutPrefix(text, "{}"); ok {
		return &Value{Kind: Map, Element: r.parseValue(element)}
	}
	if name, ok := strings.CutPrefix(text, "@"); ok {
		return &Value{Kind: Object, Definition: r.definition(name)}
	}
	kind, ok := kinds[text]
	if !ok {
		panic("schema: unknown type " + text)
	}
	return &Value{Kind: kind}
}

func (r *reader) definition(name string) *Definition {
	d, ok := r.definitions[name]
	if !ok {
		d = &Definition{Name: name}
		r.definitions[name] = d // before its properties, which may contain it
		d.Properties = r.properties(r.file.Definitions[name])
	}
	return d
}

// Of returns a resource type by its name, such as "AWS::EC2::VPC".
func Of(name string) (*Type, bool) {
	t, ok := load()[name]
	return t, ok
}

// Names returns the names of all types, sorted.
func Names() []string { return slices.Sorted(maps.Keys(load())) }

// HasAttribute reports whether Fn::GetAtt may ask for an attribute. The outputs of nested stacks and what wait
// conditions are sent have names that no schema has.
func (t *Type) HasAttribute(name string) bool {
	if _, ok := t.Attributes[name]; ok {
		return true
	}
	output, ok := strings.CutPrefix(name, "Outputs.")
	return ok && output != "" && t.Name == "AWS::CloudFormation::Stack"
}

// IsRequired reports whether a property must be given.
func (t *Type) IsRequired(property string) bool {
	p := t.Properties[property]
	return p != nil && p.Required
}
