package resource

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Members tells which API member a property goes into, where their names differ: the path of a property
// ("Placement.Host", without indexes of lists) to the member's name in the same object. Left marks a property that
// does not go into the call at all.
type Members map[string]string

// Left marks properties that are not members of an API call.
const Left = ""

// Decode puts properties into the members of an API structure that have the same names, whatever their case. Texts,
// numbers and Booleans are taken for each other as CloudFormation does, and an object where the API wants text becomes
// JSON. Top-level properties without a member are left to others; a nested one is an error, as it would be lost.
func Decode(properties map[string]any, target any, members Members) error {
	return decodeStruct("", properties, reflect.ValueOf(target).Elem(), members)
}

func decodeStruct(path string, object map[string]any, target reflect.Value, members Members) error {
	for name, value := range object {
		inner := join(path, name)
		member, renamed := members[inner]
		if renamed && member == Left || value == nil {
			continue
		}
		if !renamed {
			member = name
		}
		field, ok := fieldOf(target.Type(), member)
		if !ok {
			if path == "" && !renamed {
				continue
			}
			return Errorf(InvalidRequest, "property %s is not supported by coracle", inner)
		}
		if err := decodeValue(inner, value, target.FieldByIndex(field.Index), members); err != nil {
			return err
		}
	}
	return nil
}

// fieldOf returns the field for a member of an API structure.
func fieldOf(structure reflect.Type, member string) (reflect.StructField, bool) {
	field, ok := structure.FieldByName(member)
	if !ok {
		field, ok = structure.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, member) })
	}
	return field, ok && field.IsExported() && !field.Anonymous && member != "ResultMetadata"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

var timeType = reflect.TypeFor[time.Time]()

func decodeValue(path string, value any, target reflect.Value, members Members) error {
	if value == nil {
		return nil
	}
	switch {
	case target.Kind() == reflect.Pointer:
		element := reflect.New(target.Type().Elem())
		if err := decodeValue(path, value, element.Elem(), members); err != nil {
			return err
		}
		target.Set(element)
		return nil
	case target.Type() == timeType:
		at, err := time.Parse(time.RFC3339, Text(value))
		if err != nil {
			return Errorf(InvalidRequest, "property %s: %q is not a time", path, Text(value))
		}
		target.Set(reflect.ValueOf(at))
		return nil
	}
	switch target.Kind() {
	case reflect.Struct:
		object, ok := value.(map[string]any)
		if !ok {
			return wrongType(path, "an object", value)
		}
		return decodeStruct(path, object, target, members)
	case reflect.Slice:
		return decodeSlice(path, value, target, members)
	case reflect.Map:
		return decodeMap(path, value, target, members)
	case reflect.Interface:
		target.Set(reflect.ValueOf(value))
		return nil
	}
	return decodeScalar(path, Text(value), target)
}

func decodeSlice(path string, value any, target reflect.Value, members Members) error {
	if target.Type().Elem().Kind() == reflect.Uint8 {
		text := Text(value)
		bytes, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			bytes = []byte(text)
		}
		target.SetBytes(bytes)
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	slice := reflect.MakeSlice(target.Type(), 0, len(list))
	for _, element := range list {
		if element == nil {
			continue
		}
		item := reflect.New(target.Type().Elem()).Elem()
		if err := decodeValue(path, element, item, members); err != nil {
			return err
		}
		slice = reflect.Append(slice, item)
	}
	target.Set(slice)
	return nil
}

func decodeMap(path string, value any, target reflect.Value, members Members) error {
	object, ok := value.(map[string]any)
	if !ok {
		return wrongType(path, "an object", value)
	}
	result := reflect.MakeMapWithSize(target.Type(), len(object))
	for name, element := range object {
		item := reflect.New(target.Type().Elem()).Elem()
		if err := decodeValue(path, element, item, members); err != nil {
			return err
		}
		result.SetMapIndex(reflect.ValueOf(name).Convert(target.Type().Key()), item)
	}
	target.Set(result)
	return nil
}

func decodeScalar(path, text string, target reflect.Value) error {
	var err error
	switch target.Kind() {
	case reflect.String:
		target.SetString(text)
	case reflect.Bool:
		var flag bool
		if flag, err = strconv.ParseBool(strings.ToLower(text)); err != nil {
			return wrongType(path, "a Boolean", text)
		}
		target.SetBool(flag)
	case reflect.Int32, reflect.Int64, reflect.Int:
		var number int64
		if number, err = strconv.ParseInt(text, 10, target.Type().Bits()); err != nil {
			return wrongType(path, "an integer", text)
		}
		target.SetInt(number)
	case reflect.Float32, reflect.Float64:
		var number float64
		if number, err = strconv.ParseFloat(text, target.Type().Bits()); err != nil {
			return wrongType(path, "a number", text)
		}
		target.SetFloat(number)
	default:
		return fmt.Errorf("decode property %s: no conversion to %s", path, target.Type())
	}
	return nil
}

func wrongType(path, want string, value any) error {
	return Errorf(InvalidRequest, "property %s must be %s, not %s", path, want, Text(value))
}

// Encode returns what an API says about a resource in the terms of its properties: all members that are set, by their
// names, or by those of members' inverse. It is the inverse of Decode.
func Encode(live any, members Members) map[string]any {
	names := make(map[string]string, len(members))
	for path, member := range members {
		if member != Left {
			parent := ""
			if i := strings.LastIndexByte(path, '.'); i >= 0 {
				parent = path[:i]
			}
			names[join(parent, member)] = path[strings.LastIndexByte(path, '.')+1:]
		}
	}
	object, _ := encodeValue("", reflect.ValueOf(live), names).(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	return object
}

func encodeValue(path string, value reflect.Value, names map[string]string) any {
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			return nil
		}
		return encodeValue(path, value.Elem(), names)
	case reflect.Struct:
		if value.Type() == timeType {
			return value.Interface().(time.Time).UTC().Format(time.RFC3339)
		}
		return encodeStruct(path, value, names)
	case reflect.Slice:
		if value.Len() == 0 {
			return nil
		}
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return base64.StdEncoding.EncodeToString(value.Bytes())
		}
		list := make([]any, value.Len())
		for i := range list {
			list[i] = encodeValue(path, value.Index(i), names)
		}
		return list
	case reflect.Map:
		if value.Len() == 0 {
			return nil
		}
		object := make(map[string]any, value.Len())
		for entries := value.MapRange(); entries.Next(); {
			object[entries.Key().String()] = encodeValue(path, entries.Value(), names)
		}
		return object
	case reflect.String:
		if value.Len() == 0 {
			return nil
		}
		return value.String()
	case reflect.Bool:
		return value.Bool()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return json.Number(strconv.FormatInt(value.Int(), 10))
	case reflect.Float32, reflect.Float64:
		return json.Number(strconv.FormatFloat(value.Float(), 'f', -1, 64))
	}
	return nil
}

func encodeStruct(path string, value reflect.Value, names map[string]string) any {
	object := map[string]any{}
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if !field.IsExported() || field.Name == "ResultMetadata" {
			continue
		}
		name, inner := field.Name, join(path, field.Name)
		if renamed, ok := names[inner]; ok {
			name, inner = renamed, join(path, renamed)
		}
		if element := encodeValue(inner, value.Field(i), names); element != nil {
			object[name] = element
		}
	}
	return object
}
