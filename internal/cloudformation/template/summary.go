package template

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Summary has the contents of a template that ValidateTemplate and GetTemplateSummary report.
type Summary struct {
	Description, Version string
	Metadata             any // nil when the template has none
	Parameters           []ParameterDeclaration
	// ResourceTypes are those of all resources, sorted, each once.
	ResourceTypes []string
	// LogicalIDs are the resources of each type.
	LogicalIDs map[string][]string
	Transforms []string
}

// ParameterDeclaration is a parameter as the template declares it.
type ParameterDeclaration struct {
	Key, Type, Description string
	Default                *string // nil when a value must be given
	NoEcho                 bool
	AllowedValues          []string
}

// Summary returns what the template declares. Of resources in loops only those are known whose logical ID and type are
// text.
func (t *Template) Summary() Summary {
	s := Summary{Description: t.Description, Version: t.Version, Metadata: t.Metadata, LogicalIDs: map[string][]string{},
		Transforms: slices.Clone(t.Transforms)}
	for _, name := range sortedKeys(t.parameters) {
		p := t.parameters[name]
		s.Parameters = append(s.Parameters, ParameterDeclaration{Key: name, Type: p.declared, Description: p.description,
			Default: p.byDefault, NoEcho: p.noEcho, AllowedValues: slices.Clone(p.allowed)})
	}
	visitResources(t.resources, func(name, kind string, _ any) {
		s.LogicalIDs[kind] = append(s.LogicalIDs[kind], name)
	})
	s.ResourceTypes = sortedKeys(s.LogicalIDs)
	return s
}

// ResourceTypes returns the types of all resources, sorted, each once: also those that loops make, and those of
// resources whose condition does not hold.
func (b *Bound) ResourceTypes() []string {
	kinds := make(map[string]bool)
	visitResources(b.allResources(), func(_, kind string, _ any) { kinds[kind] = true })
	return sortedKeys(kinds)
}

// allResources returns the Resources section without loops.
func (b *Bound) allResources() map[string]any {
	if b.processed == nil {
		return b.template.resources
	}
	resources, _ := b.processed["Resources"].(map[string]any)
	return resources
}

// visitResources visits resources, also those in loops whose logical ID and type are text.
func visitResources(resources map[string]any, visit func(name, kind string, properties any)) {
	for _, name := range sortedKeys(resources) {
		if list, ok := resources[name].([]any); ok && isLoop(name) && len(list) == 3 {
			if body, ok := list[2].(map[string]any); ok {
				visitResources(body, visit)
			}
			continue
		}
		object, _ := resources[name].(map[string]any)
		kind, ok := object["Type"].(string)
		if !ok {
			continue
		}
		visit(name, kind, object["Properties"])
	}
}

// Parameters returns the names of the parameters, sorted.
func (t *Template) Parameters() []string { return sortedKeys(t.parameters) }

// NoEcho reports whether the value of a parameter is not shown.
func (t *Template) NoEcho(parameter string) bool {
	p := t.parameters[parameter]
	return p != nil && p.noEcho
}

// Processed returns the template as its transforms have made it, in JSON, or as it was given when it has none.
func (b *Bound) Processed() (string, error) {
	if b.processed == nil {
		return b.template.body, nil
	}
	root := make(map[string]any, len(b.template.root))
	for name, value := range b.template.root {
		if name != "Transform" {
			root[name] = value
		}
	}
	for name, value := range b.processed {
		if section := value.(map[string]any); section != nil {
			root[name] = section
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(root); err != nil {
		return "", err
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}
