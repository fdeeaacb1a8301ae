package resource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Text returns a property as text; a property that is missing is empty, and objects and lists are JSON, which is how
// policy documents are sent.
func Text(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	case json.Number:
		return value.String()
	case bool:
		return strconv.FormatBool(value)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // what it escapes would count against the quotas of policies
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return string(bytes.TrimSpace(text.Bytes()))
}

// Document returns text that is JSON as a property has it: an object; other text stays text.
func Document(text string) any {
	var document any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		return text
	}
	return document
}

// Texts returns a list property as texts. A single value counts as a list of one.
func Texts(value any) []string {
	switch value := value.(type) {
	case nil:
		return nil
	case []any:
		texts := make([]string, 0, len(value))
		for _, element := range value {
			texts = append(texts, Text(element))
		}
		return texts
	}
	return []string{Text(value)}
}

// Text returns a property of the resource as text, empty if it is missing.
func (r *Request) Text(property string) string { return Text(r.Properties[property]) }

// Texts returns a list property of the resource as texts.
func (r *Request) Texts(property string) []string { return Texts(r.Properties[property]) }

// Pointer returns a property as text, or nil if it is missing.
func (r *Request) Pointer(property string) *string {
	value, ok := r.Properties[property]
	if !ok || value == nil {
		return nil
	}
	text := Text(value)
	return &text
}

// Flag returns a property as a Boolean, or nil if it is missing.
func (r *Request) Flag(property string) *bool {
	switch Text(r.Properties[property]) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	return nil
}

// Int32 returns a property as a number, or nil if it is missing or none.
func (r *Request) Int32(property string) *int32 {
	number, err := strconv.ParseInt(Text(r.Properties[property]), 10, 32)
	if err != nil {
		return nil
	}
	return new(int32(number))
}

// Objects returns a list property whose elements are objects.
func (r *Request) Objects(property string) []map[string]any { return Objects(r.Properties[property]) }

// Objects returns the objects of a list.
func Objects(value any) []map[string]any {
	list, _ := value.([]any)
	objects := make([]map[string]any, 0, len(list))
	for _, element := range list {
		if object, ok := element.(map[string]any); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// Changed reports whether an update changes one of the properties. In a Create, it reports whether one of them is set.
func (r *Request) Changed(properties ...string) bool {
	for _, property := range properties {
		if !reflect.DeepEqual(normalize(r.Previous[property]), normalize(r.Properties[property])) {
			return true
		}
	}
	return false
}

// normalize makes values equal that CloudFormation takes for each other: true and "true", 1 and "1".
func normalize(value any) any {
	switch value := value.(type) {
	case json.Number, bool:
		return Text(value)
	case []any:
		list := make([]any, len(value))
		for i, element := range value {
			list[i] = normalize(element)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(value))
		for name, element := range value {
			object[name] = normalize(element)
		}
		return object
	}
	return value
}
