// Package managedfields decodes metadata.managedFields of Kubernetes objects: which field manager owns which fields.
//
// It reads objects that its callers have, and writes nothing. What ownership means for a command or an add-on is up to
// internal/audit, internal/fields and internal/controller/addon.
package managedfields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Bounds of what is decoded of one object. Whoever may write an object chooses its managed fields, and so does a
// program that answers in the place of an API server.
const (
	// MaxEntries is the maximum number of entries of an object.
	MaxEntries = 1000
	// MaxSize is the maximum size in bytes of all entries together. Objects in etcd have 1.5 MiB at most.
	MaxSize = 2 << 20
	// MaxDepth is the maximum nesting depth of the fields of an entry. Those of a pod have 12 levels.
	MaxDepth = 64
	// MaxPaths is the maximum length in bytes of the paths to all fields together. Callers spell them out, and what is
	// nested in a field with a long name has that name in its path.
	MaxPaths = 16 << 20
)

// ErrTooLarge reports that managed fields are more than is decoded.
var ErrTooLarge = errors.New("more than is decoded of managed fields")

// budget counts what has been decoded of one object.
type budget struct{ entries, size, paths int }

// add returns an error if the entry, which is not decoded yet, exceeds the bounds.
func (b *budget) add(entry metav1.ManagedFieldsEntry) error {
	if b.entries++; b.entries > MaxEntries {
		return fmt.Errorf("the object has more than %d entries, %w", MaxEntries, ErrTooLarge)
	}
	if entry.FieldsV1 == nil {
		return nil
	}
	if b.size += len(entry.FieldsV1.Raw); b.size > MaxSize {
		return fmt.Errorf("the entries are larger than %d MiB, %w", MaxSize>>20, ErrTooLarge)
	}
	// The bytes of the path to each level.
	var path []int
	at := 0
	for d := json.NewDecoder(bytes.NewReader(entry.FieldsV1.Raw)); ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if path = append(path, at); len(path) > MaxDepth {
				return fmt.Errorf("the fields nest deeper than %d levels, %w", MaxDepth, ErrTooLarge)
			}
		case json.Delim('}'), json.Delim(']'):
			path = path[:len(path)-1]
		default:
			if len(path) > 0 {
				at = path[len(path)-1]
			}
			name, _ := token.(string)
			at += len(name) + 1
			if b.paths += at; b.paths > MaxPaths {
				return fmt.Errorf("the paths of the fields are longer than %d MiB, %w", MaxPaths>>20, ErrTooLarge)
			}
		}
	}
}

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

// parse decodes one entry. An entry without FieldsV1 owns no fields.
func (b *budget) parse(entry metav1.ManagedFieldsEntry) (Entry, error) {
	set := &fieldpath.Set{}
	if err := b.add(entry); err != nil {
		return Entry{}, fmt.Errorf("decode managed fields of manager %s: %w", cutName(entry.Manager), err)
	}
	if entry.FieldsV1 != nil {
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
			return Entry{}, fmt.Errorf("decode managed fields of manager %s: %w", cutName(entry.Manager), err)
		}
	}
	return New(entry, set), nil
}

// cutName returns as much of the name of a manager as an API server allows.
func cutName(manager string) string { return manager[:min(len(manager), 128)] }

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
	var spent budget
	for i, item := range list {
		if i == MaxEntries {
			failures = append(failures, fmt.Errorf("the object has more than %d entries, %w", MaxEntries, ErrTooLarge))
			break
		}
		entry, err := spent.parseItem(item)
		if err != nil {
			failures = append(failures, err)
			if errors.Is(err, ErrTooLarge) {
				break
			}
			continue
		}
		entries = append(entries, entry)
	}
	return entries, errors.Join(failures...)
}

func (b *budget) parseItem(item any) (Entry, error) {
	fields, ok := item.(map[string]any)
	if !ok {
		return Entry{}, fmt.Errorf("decode managed fields: an entry is a %T, not an object", item)
	}
	var raw metav1.ManagedFieldsEntry
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &raw); err != nil {
		return Entry{}, fmt.Errorf("decode managed fields: %w", err)
	}
	return b.parse(raw)
}

// Select decodes the entries that the predicate selects, in their order.
func Select(object metav1.Object, selects func(metav1.ManagedFieldsEntry) bool) ([]Entry, error) {
	var entries []Entry
	var spent budget
	for _, raw := range object.GetManagedFields() {
		if !selects(raw) {
			continue
		}
		entry, err := spent.parse(raw)
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
