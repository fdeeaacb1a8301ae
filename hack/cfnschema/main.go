// Command cfnschema writes the schemas of CloudFormation resource types that package schema serves: properties with
// their types, what is required, what a change replaces, attributes and identifiers, without documentation.
//
// The source is the database of the npm package @aws-cdk/aws-service-spec (Apache License 2.0), from which the AWS CDK
// is generated. After a change to names.txt, or for a new version:
//
//	npm pack @aws-cdk/aws-service-spec && tar xzf aws-cdk-aws-service-spec-*.tgz
//	go run ./hack/cfnschema package/db.json.gz package/package.json internal/cloudformation/schema
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: cfnschema DB.JSON.GZ PACKAGE.JSON DIRECTORY-OF-PACKAGE-SCHEMA")
	}
	if err := generate(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatalf("cfnschema: %v", err)
	}
}

// database is the part of the source that is read.
type database struct {
	Schema struct {
		Resource       struct{ Entities []resource }
		TypeDefinition struct{ Entities []definition }
	}
}

type resource struct {
	CloudFormationType                  string
	Properties                          map[string]property
	Attributes                          map[string]property
	PrimaryIdentifier, CfnRefIdentifier []string
	AdditionalReplacementProperties     [][]string
	TagInformation                      *struct{ TagPropertyName, Variant string }
}

type definition struct {
	ID         string `json:"$id"`
	Name       string
	Properties map[string]property
}

type property struct {
	Type              kind
	Required          bool
	CausesReplacement string
}

type kind struct {
	Type      string
	Element   *kind
	Types     []kind
	Reference struct {
		ID string `json:"$ref"`
	}
}

// What is written. Package schema reads it.
type (
	output struct {
		Source, License string
		Types           map[string]outputType
		Definitions     map[string]map[string]outputProperty
	}
	outputType struct {
		Properties  map[string]outputProperty `json:"p,omitempty"`
		Attributes  map[string]string         `json:"a,omitempty"`
		Identifier  []string                  `json:"i,omitempty"`
		Ref         []string                  `json:"r,omitempty"`
		Tags        string                    `json:"t,omitempty"`
		TagForm     string                    `json:"f,omitempty"`
		Replacement [][]string                `json:"x,omitempty"`
	}
	outputProperty struct {
		Type        string `json:"t"`
		Required    bool   `json:"r,omitempty"`
		Replacement string `json:"c,omitempty"`
	}
)

// writer collects the types and the definitions that they reach.
type writer struct {
	definitions map[string]definition // by ID
	output      output
}

func generate(databaseFile, packageFile, directory string) error {
	names, err := readNames(filepath.Join(directory, "names.txt"))
	if err != nil {
		return err
	}
	var source database
	if err := readDatabase(databaseFile, &source); err != nil {
		return err
	}
	var manifest struct{ Name, Version, License string }
	text, err := os.ReadFile(packageFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return err
	}
	w := &writer{definitions: make(map[string]definition), output: output{
		Source: manifest.Name + " " + manifest.Version, License: manifest.License,
		Types: make(map[string]outputType), Definitions: make(map[string]map[string]outputProperty)}}
	for _, d := range source.Schema.TypeDefinition.Entities {
		w.definitions[d.ID] = d
	}
	for _, r := range source.Schema.Resource.Entities {
		if slices.Contains(names, r.CloudFormationType) {
			w.addType(r)
		}
	}
	for _, name := range names {
		if _, ok := w.output.Types[name]; !ok {
			return fmt.Errorf("the database has no type %s", name)
		}
	}
	return w.write(filepath.Join(directory, "types.json.gz"))
}

func readNames(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, line)
		}
	}
	return names, nil
}

func readDatabase(file string, into *database) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	return json.NewDecoder(io.LimitReader(unpacked, 1<<30)).Decode(into)
}

func (w *writer) addType(r resource) {
	t := outputType{Properties: w.properties(r.CloudFormationType, r.Properties), Attributes: make(map[string]string),
		Identifier: r.PrimaryIdentifier, Ref: r.CfnRefIdentifier, Replacement: r.AdditionalReplacementProperties}
	for name, a := range r.Attributes {
		t.Attributes[name] = w.typeText(r.CloudFormationType, a.Type)
	}
	if r.TagInformation != nil {
		t.Tags, t.TagForm = r.TagInformation.TagPropertyName, r.TagInformation.Variant
	}
	w.output.Types[r.CloudFormationType] = t
}

func (w *writer) properties(owner string, properties map[string]property) map[string]outputProperty {
	converted := make(map[string]outputProperty, len(properties))
	for name, p := range properties {
		converted[name] = outputProperty{w.typeText(owner, p.Type), p.Required, p.CausesReplacement}
	}
	return converted
}

// typeText returns a type in the notation that package schema reads: "[]" for lists and "{}" for maps of what follows,
// "|" between the types of a union, "@" before the name of a definition.
func (w *writer) typeText(owner string, k kind) string {
	switch k.Type {
	case "array":
		return "[]" + w.typeText(owner, *k.Element)
	case "map":
		return "{}" + w.typeText(owner, *k.Element)
	case "union":
		texts := make([]string, len(k.Types))
		for i, t := range k.Types {
			texts[i] = w.typeText(owner, t)
		}
		slices.Sort(texts)
		return strings.Join(texts, "|")
	case "date-time":
		return "string"
	case "ref":
		d := w.definitions[k.Reference.ID]
		name := owner + "." + d.Name
		if _, ok := w.output.Definitions[name]; !ok {
			w.output.Definitions[name] = nil // definitions may contain themselves
			w.output.Definitions[name] = w.properties(owner, d.Properties)
		}
		return "@" + name
	}
	return k.Type
}

func (w *writer) write(file string) error {
	text, err := json.Marshal(w.output)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, packed.Bytes(), 0o600)
}
