package schema

import (
	"fmt"
	"reflect"
	"slices"
)

// Change is a property that differs between two versions of a resource.
type Change struct {
	Name string // of the property: "LaunchTemplateData"
	// Path is the path of the difference within it: "/Properties/LaunchTemplateData/ImageId".
	Path               string
	RequiresRecreation Recreation
	// Dynamic reports that the new value is not known yet, so that it may turn out to be equal.
	Dynamic        bool
	Added, Removed bool
	Before, After  any // nil when added or removed
}

// Diff returns what differs between properties that [Type.Coerce] has returned, by path. Of what has a definition, the
// members that differ are returned; other lists and objects differ as a whole.
func (t *Type) Diff(before, after map[string]any) []Change {
	d := &difference{kind: t}
	d.members(nil, t.Properties, before, after, Never)
	return d.changes
}

// MergeChanges returns one change of each property that differs, of those that [Type.Diff] has returned: with the path
// of the property and the strongest of its replacements, and without values.
func MergeChanges(changes []Change) (merged []Change) {
	for _, c := range changes {
		last := len(merged) - 1
		if last < 0 || merged[last].Name != c.Name {
			merged = append(merged, Change{Name: c.Name, Path: "/Properties/" + c.Name,
				RequiresRecreation: c.RequiresRecreation, Dynamic: c.Dynamic})
			continue
		}
		merged[last].RequiresRecreation = stronger(merged[last].RequiresRecreation, c.RequiresRecreation)
		merged[last].Dynamic = merged[last].Dynamic || c.Dynamic
	}
	return merged
}

type difference struct {
	kind    *Type
	changes []Change
}

func (d *difference) members(path []string, properties map[string]*Property, before, after map[string]any,
	outer Recreation) {
	names := sortedKeys(before)
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		old, had := before[name]
		now, has := after[name]
		recreation, kind := outer, &Value{Kind: JSON}
		if p, ok := properties[name]; ok {
			recreation, kind = stronger(outer, p.RequiresRecreation), p.Type
		}
		inner := append(slices.Clone(path), name)
		if slices.ContainsFunc(d.kind.replacement, func(r []string) bool { return slices.Equal(r, inner) }) {
			recreation = Always
		}
		if had != has {
			d.add(inner, recreation, Change{Added: has, Removed: had, Before: old, After: now})
			continue
		}
		d.compareValue(inner, kind, old, now, recreation)
	}
}

func (d *difference) compareValue(path []string, kind *Value, before, after any, recreation Recreation) {
	if reflect.DeepEqual(before, after) && !hasUnknown(after) {
		return
	}
	oldObject, oldIsObject := before.(map[string]any)
	newObject, newIsObject := after.(map[string]any)
	if kind.Kind == Object && oldIsObject && newIsObject {
		d.members(path, kind.members(), oldObject, newObject, recreation)
		return
	}
	oldList, oldIsList := before.([]any)
	newList, newIsList := after.([]any)
	if kind.Kind == List && kind.Element.Kind == Object && oldIsList && newIsList && len(oldList) == len(newList) {
		for i := range oldList {
			d.compareValue(append(slices.Clone(path), fmt.Sprint(i)), kind.Element, oldList[i], newList[i], recreation)
		}
		return
	}
	d.add(path, recreation, Change{Before: before, After: after})
}

func (d *difference) add(path []string, recreation Recreation, c Change) {
	c.Name = path[0]
	c.Path = "/Properties"
	for _, name := range path {
		c.Path += "/" + name
	}
	c.RequiresRecreation = recreation
	c.Dynamic = hasUnknown(c.After)
	d.changes = append(d.changes, c)
}

// stronger returns the one of two that replaces more.
func stronger(a, b Recreation) Recreation {
	if a == Always || b == Always {
		return Always
	}
	if a == Conditionally || b == Conditionally {
		return Conditionally
	}
	return Never
}

// hasUnknown reports whether something within a value is Unknown.
func hasUnknown(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			if hasUnknown(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasUnknown)
	}
	return value == any(Unknown)
}
