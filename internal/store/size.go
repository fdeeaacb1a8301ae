package store

import (
	"math/bits"
	"reflect"
	"time"
)

// decodedSize measures the memory that a decoded value takes, in bytes. It does not go by the text of the row: how much
// memory a byte of it takes is up to its type, and to who wrote it.
func decodedSize[T any](v *T) int {
	value := reflect.ValueOf(v).Elem()
	return int(value.Type().Size()) + referencedSize(value)
}

// referencedSize measures what a value refers to, without the value itself.
func referencedSize(v reflect.Value) (size int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		size = v.Cap() * int(v.Type().Elem().Size())
		if v.Type().Elem().Kind() <= reflect.Complex128 { // as of bytes
			return size
		}
		for i := range v.Len() {
			size += referencedSize(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			size += referencedSize(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			size += referencedSize(v.Field(i))
		}
	case reflect.Map:
		if v.IsNil() {
			return 0
		}
		t := v.Type()
		size = mapSize(v.Len(), int(t.Key().Size()+t.Elem().Size()))
		for i := v.MapRange(); i.Next(); {
			size += referencedSize(i.Key()) + referencedSize(i.Value())
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Type() == reflect.TypeFor[*time.Location]() { // which times have in common
			return 0
		}
		return int(v.Elem().Type().Size()) + referencedSize(v.Elem())
	}
	return size
}

// mapSize returns the memory of a map of n entries of that size: it has room for eight, or is filled to seven eighths
// before its room is doubled.
func mapSize(n, entry int) int {
	const header = 48
	room := 8
	if n > room {
		room = 1 << bits.Len(uint(n*8/7))
	}
	return header + room*(entry+1)
}
