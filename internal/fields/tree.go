package fields

import (
	"maps"
	"reflect"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Managed is the part of a field that EKS manages.
type Managed string

// How much of a field EKS manages.
const (
	Not    Managed = ""
	Partly Managed = "partly"
	Fully  Managed = "fully"
)

// Change is the change of a field from one version to the next.
type Change string

// The changes.
const (
	Same     Change = ""
	Added    Change = "add"
	Removed  Change = "remove"
	Replaced Change = "replace"
)

// Field is a field of an object with all that is in it.
type Field struct {
	// Path is written as the API server writes it in conflicts: .spec.containers[name="web"].image
	Path string
	// Name is that of the field in its map; empty for an item of a list.
	Name string
	// Keys are the names of the fields that tell an item of a list from the others.
	Keys []string
	// Value is the value of a field that has no Fields; From is its value before.
	Value, From any
	Change      Change
	// Owners are the owners of the field, Before those before the change, as labels.
	Owners, Before []string
	Managed        Managed
	// List reports that Fields are the items of a list, Merged that they are merged by keys or as a set.
	List, Merged bool
	Fields       []*Field
	// Conflict and Kept are the result of a plan: EKS's value, Wanted, conflicts with the owner's, or is left out for
	// it.
	Conflict, Kept bool
	Wanted         any

	emptied bool // all that was in it is hidden
	atomic  bool // whoever owns it owns all that is in it
}

// Tree returns the object as a tree of fields with their owners. Status and what the API server maintains are part of
// it when all is set.
func (o Object) Tree(all bool) *Field { return Compare(o, o, all) }

// Compare returns the tree of the object after a change, with its state before. Either version may be without content:
// the object is then created, or deleted.
func Compare(before, after Object, all bool) *Field {
	c := comparison{all: all, before: before, after: after, keys: map[string][]string{},
		sets: map[string]bool{".metadata.finalizers": true}}
	c.learnAll()
	return c.compareField(nil, contentValue(before.Content), contentValue(after.Content))
}

// contentValue returns content as a value; nil for an object that does not exist.
func contentValue(content map[string]any) any {
	if content == nil {
		return nil
	}
	return content
}

// comparison lays two versions of an object over each other.
type comparison struct {
	all           bool
	before, after Object
	keys          map[string][]string // of the lists that are merged by keys, by the list's path
	sets          map[string]bool     // lists that are sets, by path
}

// learnAll remembers how all lists are merged that managed fields know.
func (c *comparison) learnAll() {
	for _, o := range []Object{c.before, c.after} {
		for _, m := range o.Managers {
			for p := range m.owned.Fields.All() {
				c.learnListKeys(p)
			}
		}
	}
}

// learnListKeys remembers how the lists on a path of managed fields are merged.
func (c *comparison) learnListKeys(p fieldpath.Path) {
	for i, e := range p {
		switch {
		case e.Key != nil:
			at := p[:i].String()
			if c.keys[at] == nil {
				for _, k := range *e.Key {
					c.keys[at] = append(c.keys[at], k.Name)
				}
			}
		case e.Value != nil:
			c.sets[p[:i].String()] = true
		}
	}
}

// mergeKeys are the keys of upstream's lists, for objects whose managed fields do not tell.
var mergeKeys = map[string][]string{
	"conditions": {"type"}, "containers": {"name"}, "env": {"name"}, "ephemeralContainers": {"name"},
	"imagePullSecrets": {"name"}, "initContainers": {"name"},
	"ownerReferences": {"uid"}, "topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"},
	"volumeDevices": {"devicePath"}, "volumeMounts": {"mountPath"},
	"volumes": {"name"}, "webhooks": {"name"},
}

// compareField returns the field at a path in both versions; nil means that it does not exist.
func (c *comparison) compareField(path fieldpath.Path, was, is any) *Field {
	f := &Field{Path: path.String()}
	if was != nil {
		f.Before = c.before.ownerLabels(path)
	}
	if is != nil {
		f.Owners = c.after.ownerLabels(path)
		f.atomic = c.after.isAtomic(path)
	}
	switch {
	case was == nil:
		f.Change = Added
	case is == nil:
		f.Change = Removed
	}
	wasMap, a := was.(map[string]any)
	isMap, b := is.(map[string]any)
	wasList, d := was.([]any)
	isList, e := is.([]any)
	switch {
	case (a || was == nil) && (b || is == nil) && len(wasMap)+len(isMap) > 0:
		c.compareFields(f, path, wasMap, isMap)
	case (d || was == nil) && (e || is == nil) && len(wasList)+len(isList) > 0:
		c.compareItems(f, path, wasList, isList)
	default:
		f.Value, f.From = is, was
		if f.Change == Same && !reflect.DeepEqual(was, is) {
			f.Change = Replaced
		}
	}
	c.setManaged(f)
	return f
}

// compareFields compares the fields of a map, in the order in which people write them, names first.
func (c *comparison) compareFields(f *Field, path fieldpath.Path, was, is map[string]any) {
	names := map[string]bool{}
	for _, m := range []map[string]any{was, is} {
		for name, v := range m {
			if v != nil {
				names[name] = true
			}
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(names), compareNames) {
		at := childPath(path, fieldpath.PathElement{FieldName: &name})
		if !c.all && (hidden[at.String()] || len(path) == 0 && name == "status") {
			continue
		}
		child := c.compareField(at, was[name], is[name])
		if child.emptied {
			continue
		}
		child.Name = name
		f.Fields = append(f.Fields, child)
	}
	f.emptied = len(f.Fields) == 0
}

// first are the names that come before others.
var first = []string{"apiVersion", "kind", "metadata", "name", "namespace", "spec"}

func compareNames(a, b string) int {
	rank := func(s string) int {
		if i := slices.Index(first, s); i >= 0 {
			return i
		}
		if s == "status" {
			return len(first) + 1
		}
		return len(first)
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	if a < b {
		return -1
	}
	return 1
}

// compareItems compares the items of a list: paired by their keys, by their values in a set, by their positions else.
func (c *comparison) compareItems(f *Field, path fieldpath.Path, was, is []any) {
	f.List = true
	at := path.String()
	keys := c.keys[at]
	if keys == nil && len(path) > 0 && path[len(path)-1].FieldName != nil {
		keys = mergeKeys[*path[len(path)-1].FieldName]
	}
	element := func(i int, _ any) fieldpath.PathElement { return fieldpath.PathElement{Index: &i} }
	switch {
	case c.sets[at]:
		f.Merged = true
		element = func(_ int, item any) fieldpath.PathElement {
			v := value.NewValueInterface(item)
			return fieldpath.PathElement{Value: &v}
		}
	case hasItemKeys(keys, was) && hasItemKeys(keys, is):
		f.Merged = true
		element = func(_ int, item any) fieldpath.PathElement { return fieldpath.PathElement{Key: itemKey(keys, item)} }
	default:
		keys = nil
	}
	older := map[string]any{}
	seen := map[string]bool{}
	for i, item := range was {
		e := element(i, item)
		older[e.String()] = item
	}
	add := func(i int, was, is, item any) {
		child := c.compareField(childPath(path, element(i, item)), was, is)
		child.Keys = keys
		f.Fields = append(f.Fields, child)
	}
	for i, item := range is {
		name := element(i, item).String()
		seen[name] = true
		add(i, older[name], item, item)
	}
	for i, item := range was {
		if !seen[element(i, item).String()] {
			add(i, item, nil, item)
		}
	}
}

// hasItemKeys reports whether every item has at least one of the keys.
func hasItemKeys(keys []string, items []any) bool {
	if len(keys) == 0 {
		return false
	}
	for _, item := range items {
		m, ok := item.(map[string]any)
		if !ok || !slices.ContainsFunc(keys, func(k string) bool { return m[k] != nil }) {
			return false
		}
	}
	return true
}

func itemKey(keys []string, item any) *value.FieldList {
	m, _ := item.(map[string]any) // keyed has looked
	list := value.FieldList{}
	for _, k := range keys {
		if m[k] != nil {
			list = append(list, value.Field{Name: k, Value: value.NewValueInterface(m[k])})
		}
	}
	list.Sort()
	return &list
}

func childPath(path fieldpath.Path, e fieldpath.PathElement) fieldpath.Path {
	return append(slices.Clip(path), e)
}

// setManaged sets how much of a field EKS manages: all, a part or nothing of what is in it.
func (c *comparison) setManaged(f *Field) {
	owners, object := f.Owners, c.after
	if f.Change == Removed {
		owners, object = f.Before, c.before
	}
	owned := object.isOwnedByEKS(owners)
	if len(f.Fields) == 0 {
		if owned {
			f.Managed = Fully
		}
		return
	}
	f.Managed = Fully
	some := owned
	for _, child := range f.Fields {
		if child.Managed != Fully {
			f.Managed = Partly
		}
		some = some || child.Managed != Not
	}
	switch {
	case !some:
		f.Managed = Not
	case f.Managed == Fully && f.Merged:
		f.Managed = Partly // others may add items
	}
}
