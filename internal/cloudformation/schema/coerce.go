package schema

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Coerce returns properties in which each value has the type that the schema wants, as far as it can have it: "true" is
// a bool where a bool is wanted, 80 is a string where a string is wanted, and the JSON text of a policy document is an
// object. What cannot be made right stays as it is.
func (t *Type) Coerce(properties map[string]any) map[string]any {
	return coerceMembers(t.Properties, properties)
}

func coerceMembers(members map[string]*Property, object map[string]any) map[string]any {
	coerced := make(map[string]any, len(object))
	for name, value := range object {
		coerced[name] = value
		if p, ok := members[name]; ok {
			coerced[name] = p.Type.coerceValue(value)
		}
	}
	return coerced
}

func (v *Value) coerceValue(value any) any {
	switch v.Kind {
	case String:
		if text, ok := scalarText(value); ok {
			return text
		}
	case Number:
		if number, ok := asNumber(value); ok {
			return number
		}
	case Integer:
		if number, ok := asNumber(value); ok && isInteger(number) {
			return plainInteger(number)
		}
	case Boolean:
		if b, ok := asBool(value); ok {
			return b
		}
	case JSON:
		if text, ok := value.(string); ok {
			return parseJSON(text)
		}
	case List:
		if list, ok := value.([]any); ok {
			coerced := make([]any, len(list))
			for i, item := range list {
				coerced[i] = v.Element.coerceValue(item)
			}
			return coerced
		}
	case Map:
		if object, ok := value.(map[string]any); ok {
			coerced := make(map[string]any, len(object))
			for key, inner := range object {
				coerced[key] = v.Element.coerceValue(inner)
			}
			return coerced
		}
	case Object, TagPair:
		if object, ok := value.(map[string]any); ok {
			return coerceMembers(v.members(), object)
		}
	case OneOf:
		for _, a := range v.Alternatives { // JSON is before String
			if a.accepts(value) {
				return a.coerceValue(value)
			}
		}
	}
	return value
}

// plainInteger returns 1.0 and 1e3 without a point and an exponent.
func plainInteger(n json.Number) json.Number {
	if !strings.ContainsAny(n.String(), ".eE") {
		return n
	}
	number, ok := new(big.Rat).SetString(n.String())
	if !ok || !number.IsInt() {
		return n
	}
	return json.Number(number.Num().String())
}

// The bytes of memory that parts of JSON take once parsed: an object, a list, and each member or item, with room to
// grow.
const (
	parsedObject = 320
	parsedList   = 64
	parsedItem   = 96
)

// ParsedSize returns how many bytes of memory a text takes once [Type.Coerce] has parsed it, at most; 0 for what is not
// the JSON of an object or a list.
func ParsedSize(text string) int {
	if !isStructure(strings.TrimSpace(text)) || !json.Valid([]byte(text)) {
		return 0
	}
	return 2*len(text) + parsedObject*strings.Count(text, "{") + parsedList*strings.Count(text, "[") +
		parsedItem*strings.Count(text, ",")
}

// isStructure reports whether a text begins as the JSON of an object or a list does.
func isStructure(text string) bool {
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

// parseJSON returns the object or list that a text is the JSON of, or the text.
func parseJSON(text string) any {
	trimmed := strings.TrimSpace(text)
	if !isStructure(trimmed) {
		return text
	}
	decoder := json.NewDecoder(strings.NewReader(trimmed))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || int(decoder.InputOffset()) != len(trimmed) {
		return text
	}
	return value
}
