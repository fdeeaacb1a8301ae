package template

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// sections are the members that a template may have.
var sections = []string{"AWSTemplateFormatVersion", "Conditions", "Description", "Mappings", "Metadata", "Outputs",
	"Parameters", "Resources", "Rules", "Transform"}

// isAlphanumeric reports whether a name may be that of a resource, a parameter or an output.
func isAlphanumeric(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// readSections checks the members of the template and reads those that do not depend on parameters.
func (t *Template) readSections() error {
	if _, ok := t.root["Hooks"]; ok {
		return errorf("The Hooks section of templates is not supported by coracle")
	}
	if err := t.readTransforms(); err != nil {
		return err
	}
	if len(t.Transforms) > 0 && !t.isServed() {
		return t.readForeign()
	}
	var unknown []string
	for name := range t.root {
		if !slices.Contains(sections, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return errorf("Invalid template property or properties %s", inBrackets(unknown))
	}
	if at := findNull(t.root, nil); at != nil {
		return errorf("[%s] 'null' values are not allowed in templates", at)
	}
	for _, read := range []func() error{t.readHeader, t.readParameters, t.readMappings,
		t.readConditions, t.readRules, t.readResources, t.readOutputs} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// readForeign reads what can be told of a template of which a transform that is not served makes another one. Bind
// refuses it.
func (t *Template) readForeign() error {
	for _, read := range []func() error{t.readHeader, t.readParameters} {
		if err := read(); err != nil {
			return err
		}
	}
	t.resources, _ = t.root["Resources"].(map[string]any)
	return nil
}

// inBrackets returns names as CloudFormation lists them.
func inBrackets(names []string) string {
	slices.Sort(names)
	return "[" + strings.Join(slices.Compact(names), ", ") + "]"
}

// findNull returns the first place that has a null, nil when there is none.
func findNull(value any, at path) path {
	switch v := value.(type) {
	case nil:
		return append(path{}, at...)
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if found := findNull(v[key], append(at, key)); found != nil {
				return found
			}
		}
	case []any:
		for i, item := range v {
			if item == nil {
				return append(append(path{}, at...), itoa(i))
			}
			if found := findNull(item, append(at, itoa(i))); found != nil {
				return found
			}
		}
	}
	return nil
}

func (t *Template) readHeader() error {
	if version, ok := t.root["AWSTemplateFormatVersion"]; ok {
		text, isText := version.(string)
		if !isText || text != "2010-09-09" {
			return errorf("Template format error: unsupported value for AWSTemplateFormatVersion. No such version.")
		}
		t.Version = text
	}
	if description, ok := t.root["Description"]; ok {
		text, isText := scalarText(description)
		switch {
		case !isText:
			return errorf("Template format error: Every Description member must be a string.")
		case len(text) > maxDescription:
			return errorf("Template format error: 'Description' length is greater than %d.", maxDescription)
		}
		t.Description = text
	}
	if metadata, ok := t.root["Metadata"]; ok {
		if _, isObject := metadata.(map[string]any); !isObject {
			return errorf("Template format error: Metadata must be an object.")
		}
		t.Metadata = metadata
	}
	return nil
}

// readTransforms reads the names of the macros that the template declares.
func (t *Template) readTransforms() error {
	declared, ok := t.root["Transform"]
	if !ok {
		return nil
	}
	list, isList := declared.([]any)
	if !isList {
		list = []any{declared}
	}
	for _, item := range list {
		if object, isObject := item.(map[string]any); isObject {
			item = object["Name"]
		}
		name, isText := item.(string)
		if !isText {
			return errorf("Key Name of transform definition must be a string.")
		}
		t.Transforms = append(t.Transforms, name)
	}
	return nil
}

// section returns a member of the template that has named members of its own.
func (t *Template) section(name string, limit int) (map[string]any, error) {
	value, ok := t.root[name]
	if !ok {
		return nil, nil
	}
	object, isObject := value.(map[string]any)
	if !isObject {
		return nil, errorf("Template format error: %s must be an object.", name)
	}
	if len(object) > limit {
		return nil, errorf("Template format error: Number of %s, %d, is greater than maximum allowed, %d",
			strings.ToLower(name), len(object), limit)
	}
	return object, nil
}

// mappingName matches the names of mappings and their keys.
var mappingName = regexp.MustCompile(`^[-.a-zA-Z0-9]{1,255}$`)

// readMappings reads mappings of two levels. With AWS::LanguageExtensions they may have functions, which are evaluated
// when they are looked up.
func (t *Template) readMappings() (err error) {
	if t.mappings, err = t.section("Mappings", maxMappings); err != nil {
		return err
	}
	for _, name := range sortedKeys(t.mappings) {
		if t.hasExtensions() && isLoop(name) {
			continue
		}
		if !isAlphanumeric(name) {
			return errorf("Template format error: Mappings name '%s' is non alphanumeric.", name)
		}
		keys, ok := t.mappings[name].(map[string]any)
		if !ok {
			return errorf("Template format error: Every Mappings member %s must be a map", name)
		}
		if err := t.checkMapping(name, keys); err != nil {
			return err
		}
	}
	return nil
}

func (t *Template) checkMapping(name string, keys map[string]any) error {
	if len(keys) > maxMappingKeys {
		return errorf("Template format error: Number of attributes of mapping %s, %d, is greater than maximum allowed, %d",
			name, len(keys), maxMappingKeys)
	}
	for _, key := range sortedKeys(keys) {
		if t.hasExtensions() && isLoop(key) {
			continue
		}
		attributes, ok := keys[key].(map[string]any)
		if !ok {
			return errorf("Template format error: Every Mappings member %s must be a map", key)
		}
		if len(attributes) > maxMappingKeys {
			return errorf("Template format error: Number of attributes of mapping %s, %d, is greater than maximum "+
				"allowed, %d", name, len(attributes), maxMappingKeys)
		}
		for _, attribute := range sortedKeys(attributes) {
			if t.hasExtensions() && isLoop(attribute) {
				continue
			}
			if !mappingName.MatchString(attribute) && !t.hasExtensions() {
				return errorf("Template format error: Mappings attribute name '%s' must contain only alphanumeric "+
					"characters.", attribute)
			}
			if !t.isMappingValue(attributes[attribute]) {
				return errorf("Template format error: Every Mappings attribute must be a String or a List.")
			}
		}
	}
	return nil
}

func (t *Template) isMappingValue(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return t.hasExtensions() && isFunctionObject(v)
	case []any:
		for _, item := range v {
			if _, isText := scalarText(item); !isText && !t.isMappingValue(item) {
				return false
			}
			if _, isList := item.([]any); isList {
				return false
			}
		}
		return true
	}
	return true
}

// scalarText returns the text of a string, a number or a bool.
func scalarText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	}
	return "", false
}
