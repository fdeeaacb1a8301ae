package template

import (
	"regexp"
	"slices"
	"strings"
)

var resourceMembers = []string{"Condition", "CreationPolicy", "DeletionPolicy", "DependsOn", "Description", "Metadata",
	"Properties", "Type", "UpdatePolicy", "UpdateReplacePolicy", "Version"}

var outputMembers = []string{"Condition", "Description", "Export", "Value"}

// output is an output as the template has it.
type output struct {
	name, description, condition string
	value, export                any // export is nil when there is none
}

// readResources checks the form of what stands in the Resources section. Loops are checked when they are expanded.
func (t *Template) readResources() error {
	value, ok := t.root["Resources"]
	object, isObject := value.(map[string]any)
	switch {
	case !ok, isObject && len(object) == 0:
		return errorf("Template format error: At least one Resources member must be defined.")
	case !isObject:
		return errorf("Template format error: Resources must be an object.")
	case len(object) > maxResources:
		return errorf("Template format error: Number of resources, %d, is greater than maximum allowed, %d",
			len(object), maxResources)
	}
	t.resources = object
	for _, name := range sortedKeys(object) {
		if t.hasExtensions() && isLoop(name) || name == "Fn::Transform" {
			continue
		}
		if _, err := t.readResource(name, object[name]); err != nil {
			return err
		}
	}
	return nil
}

// readResource checks a resource and reads what has no functions.
func (t *Template) readResource(name string, value any) (Resource, error) {
	r := Resource{LogicalID: name}
	if !isAlphanumeric(name) {
		return r, errorf("Template format error: Resource name %s is non alphanumeric.", name)
	}
	if t.parameters[name] != nil {
		return r, errorf("Template error: all resources and parameters must have unique names. Common name(s):[%s]", name)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return r, errorf("Template format error: Any Resources member must be an object.")
	}
	kind, ok := object["Type"]
	if !ok {
		return r, errorf("Template format error: [/Resources/%s] Every Resources object must contain a Type member.", name)
	}
	if r.Type, ok = kind.(string); !ok {
		return r, errorf("Template format error: [/Resources/%s/Type] Every Type member must be a string.", name)
	}
	for _, member := range sortedKeys(object) {
		if !slices.Contains(resourceMembers, member) {
			return r, errorf("Invalid template resource property '%s'", member)
		}
	}
	if condition, ok := object["Condition"]; ok {
		if r.Condition, ok = condition.(string); !ok {
			return r, errorf("Template format error: Every Condition member must be a string.")
		}
	}
	if depends, ok := object["DependsOn"]; ok {
		list, isList := depends.([]any)
		if !isList {
			list = []any{depends}
		}
		for _, item := range list {
			text, isText := item.(string)
			if !isText && isList {
				return r, errorf("Template format error: Every DependsOn value must be a string.")
			}
			if !isText {
				return r, errorf("Template format error: DependsOn must be a string or list of strings.")
			}
			r.DependsOn = append(r.DependsOn, text)
		}
	}
	for member, into := range map[string]*any{"Properties": &r.Properties, "Metadata": &r.Metadata,
		"CreationPolicy": &r.CreationPolicy, "UpdatePolicy": &r.UpdatePolicy} {
		value, ok := object[member]
		if !ok {
			continue
		}
		if _, isObject := value.(map[string]any); !isObject {
			return r, errorf("Template format error: [/Resources/%s/%s] Every %s member must be an object.", name, member,
				member)
		}
		*into = value
	}
	return r, t.readPolicies(&r, object)
}

// deletionPolicies are the values of DeletionPolicy; UpdateReplacePolicy has all but the last.
var deletionPolicies = []string{"Delete", "Retain", "Snapshot", "RetainExceptOnCreate"}

// snapshotTypes are the types of which CloudFormation makes a snapshot before it deletes them.
var snapshotTypes = []string{"AWS::DocDB::DBCluster", "AWS::EC2::Volume", "AWS::ElastiCache::CacheCluster",
	"AWS::ElastiCache::ReplicationGroup", "AWS::Neptune::DBCluster", "AWS::RDS::DBCluster", "AWS::RDS::DBInstance",
	"AWS::Redshift::Cluster"}

// readPolicies reads DeletionPolicy and UpdateReplacePolicy. With AWS::LanguageExtensions they may be functions, which
// Bind has evaluated when it calls this.
func (t *Template) readPolicies(r *Resource, object map[string]any) error {
	for member, into := range map[string]*string{"DeletionPolicy": &r.DeletionPolicy,
		"UpdateReplacePolicy": &r.UpdateReplacePolicy} {
		value, ok := object[member]
		if !ok {
			continue
		}
		text, isText := value.(string)
		if inner, isObject := value.(map[string]any); isObject && t.hasExtensions() && isFunctionObject(inner) {
			continue
		}
		switch {
		case !isText:
			return errorf("Template format error: Every %s member must be a string.", member)
		case !slices.Contains(deletionPolicies, text),
			member == "UpdateReplacePolicy" && text == "RetainExceptOnCreate":
			return errorf("Template format error: Unrecognized %s %s for resource %s", member, text, r.LogicalID)
		case text == "Snapshot" && !slices.Contains(snapshotTypes, r.Type):
			return errorf("Template error: resource type %s does not support deletion policy Snapshot", r.Type)
		}
		*into = text
	}
	return nil
}

func (t *Template) readOutputs() (err error) {
	if t.outputs, err = t.section("Outputs", maxOutputs); err != nil {
		return err
	}
	for _, name := range sortedKeys(t.outputs) {
		if t.hasExtensions() && isLoop(name) || name == "Fn::Transform" {
			continue
		}
		if _, err := readOutput(name, t.outputs[name]); err != nil {
			return err
		}
	}
	return nil
}

func readOutput(name string, value any) (output, error) {
	o := output{name: name}
	if !isAlphanumeric(name) {
		return o, errorf("Template format error: Output name %s is non alphanumeric.", name)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return o, errorf("Template format error: Any Outputs member must be an object.")
	}
	for _, member := range sortedKeys(object) {
		if !slices.Contains(outputMembers, member) {
			return o, errorf("Invalid template output property '%s'", member)
		}
	}
	if o.value, ok = object["Value"]; !ok {
		return o, errorf("Template format error: Every Outputs member must contain a Value object")
	}
	switch v := o.value.(type) {
	case []any:
		return o, errorf(
			"Template format error: The Value field of every Outputs member must evaluate to a String and not a List.")
	case map[string]any:
		if !isFunctionObject(v) {
			return o, errorf(
				"Template format error: The Value field of every Outputs member must evaluate to a String and not a Map.")
		}
	}
	var err error
	if o.description, _, err = readText(object, "Description"); err != nil {
		return o, err
	}
	if len(o.description) > maxDescription {
		return o, errorf("Template format error: 'Description' length is greater than %d.", maxDescription)
	}
	if condition, ok := object["Condition"]; ok {
		if o.condition, ok = condition.(string); !ok {
			return o, errorf("Template format error: Every Condition member must be a string.")
		}
	}
	if export, ok := object["Export"]; ok {
		named, isObject := export.(map[string]any)
		if !isObject || len(named) != 1 || named["Name"] == nil {
			return o, errorf("Template format error: Output %s is malformed. The Export field must contain a Name member.",
				name)
		}
		o.export = named["Name"]
	}
	return o, nil
}

// loopName is the key of a loop: "Fn::ForEach::Name".
var loopName = regexp.MustCompile(`^Fn::ForEach::[a-zA-Z0-9]{1,255}$`)

func isLoop(key string) bool { return strings.HasPrefix(key, "Fn::ForEach") }
