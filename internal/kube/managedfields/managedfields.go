// Package managedfields decodes metadata.managedFields of Kubernetes objects: which field manager owns which fields.
//
// It reads objects that its callers have, and writes nothing. What ownership means for a command or an add-on is up to
// internal/audit, internal/fields and internal/controller/addon.
package managedfields

import (
	"bytes"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Entry is an entry of metadata.managedFields with its field set decoded.
type Entry struct {
	metav1.ManagedFieldsEntry
	// Fields are all fields that the manager owns; Leaves are those of them that contain no others.
	Fields, Leaves *fieldpath.Set
}

// New returns an entry with the given fields.
func New(entry metav1.ManagedFieldsEntry, fields *fieldpath.Set) Entry {
	return Entry{entry, fields, fields.Leaves()}
}

// Parse decodes one entry. An entry without FieldsV1 owns no fields.
func Parse(entry metav1.ManagedFieldsEntry) (Entry, error) {
	set := &fieldpath.Set{}
	if entry.FieldsV1 != nil {
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
			return Entry{}, fmt.Errorf("decode managed fields of manager %s: %w", entry.Manager, err)
		}
	}
	return New(entry, set), nil
}

// Read decodes the entries of an object in the terms of JSON. The error is about the entries that cannot be decoded;
// the others are returned beside it.
func Read(object map[string]any) ([]Entry, error) {
	items, _, err := unstructured.NestedFieldNoCopy(object, "metadata", "managedFields")
	if err != nil {
		return nil, err
	}
	list, _ := items.([]any)
	var entries []Entry
	var failures []error
	for _, item := range list {
		entry, err := parseItem(item)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		entries = append(entries, entry)
	}
	return entries, errors.Join(failures...)
}

func parseItem(item any) (Entry, error) {
	fields, ok := item.(map[string]any)
	if !ok {
		return Entry{}, fmt.Errorf("decode managed fields: an entry is a %T, not an object", item)
	}
	var raw metav1.ManagedFieldsEntry
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &raw); err != nil {
		return Entry{}, fmt.Errorf("decode managed fields: %w", err)
	}
	return Parse(raw)
}

// Select decodes the entries that the predicate selects, in their order.
func Select(object metav1.Object, selects func(metav1.ManagedFieldsEntry) bool) ([]Entry, error) {
	var entries []Entry
	for _, raw := range object.GetManagedFields() {
		if !selects(raw) {
			continue
		}
		entry, err := Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object.GetName(), err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// Owns reports whether the manager owns exactly the field.
func (e Entry) Owns(path fieldpath.Path) bool { return e.Fields.Has(path) }

// OwnsBelow reports whether the manager owns fields inside the field.
func (e Entry) OwnsBelow(path fieldpath.Path) bool {
	set := e.Fields
	for _, element := range path {
		set = set.WithPrefix(element)
	}
	return !set.Empty()
}

// OwnsAround reports whether the manager owns the field as a part of one that it owns as a whole. The owner of a map
// such as .data that is not atomic owns only the presence of the map, not the entries of others.
func (e Entry) OwnsAround(path fieldpath.Path) bool {
	for n := len(path) - 1; n > 0; n-- {
		if e.Leaves.Has(path[:n]) {
			return true
		}
	}
	return false
}

// SameManager reports whether both entries belong to the same manager, operation and subresource.
func (e Entry) SameManager(other Entry) bool {
	return e.Manager == other.Manager && e.Operation == other.Operation && e.Subresource == other.Subresource
}

// Without returns the entry without some of its fields.
func (e Entry) Without(fields *fieldpath.Set) Entry {
	return New(e.ManagedFieldsEntry, e.Fields.Difference(fields))
}
