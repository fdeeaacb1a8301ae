package audit

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/coracle-eks/coracle/internal/kube/managedfields"
)

// Change is a field that has another value than before.
type Change struct {
	// Path is written as the API server writes it in conflicts: .spec.containers[name="web"].image
	Path string `json:"path"`
	// Op is "add", "remove" or "replace".
	Op string `json:"op"`
	// From and To are the values before and after. They are absent where there was none, and where
	// the log has only the request.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
	// Owners are the field managers that own the field after the step, Lost those that did before and do no more.
	Owners []string `json:"owners,omitempty"`
	Lost   []string `json:"lost,omitempty"`
	// By is the user who changed the field if it was not this step: one whose request is not in the log.
	By string `json:"by,omitempty"`

	path fieldpath.Path
	// unknown is set when From is not known.
	unknown bool
}

// noise are fields that change by themselves, or are shown in another way.
var noise = map[string]bool{
	".apiVersion": true, ".kind": true,
	".metadata.creationTimestamp": true, ".metadata.deletionGracePeriodSeconds": true,
	".metadata.deletionTimestamp": true,
	".metadata.generation":        true, ".metadata.managedFields": true, ".metadata.resourceVersion": true,
	".metadata.selfLink": true, ".metadata.uid": true,
	".metadata.annotations.deployment.kubernetes.io/revision":                true,
	".metadata.annotations.deprecated.daemonset.template.generation":         true,
	".metadata.annotations.kubectl.kubernetes.io/last-applied-configuration": true,
}

// mergeKeys are the keys of upstream's lists, for objects whose managed fields don't tell.
var mergeKeys = map[string][]string{
	"conditions": {"type"}, "containers": {"name"}, "env": {"name"}, "ephemeralContainers": {"name"},
	"hostAliases": {"ip"}, "imagePullSecrets": {"name"},
	"initContainers": {"name"}, "ownerReferences": {"uid"}, "topologySpreadConstraints": {"topologyKey",
		"whenUnsatisfiable"}, "volumeDevices": {"devicePath"},
	"volumeMounts": {"mountPath"}, "volumes": {"name"}, "webhooks": {"name"},
}

// differ compares two versions of an object.
type differ struct {
	keys    map[string][]string // keys of associative lists, by the list's path
	sets    map[string]bool     // lists that are sets, by path
	changes []Change
}

// difference returns what changed between two versions, in the order of paths. Status is left out unless wanted; noise
// always is.
func difference(before, after version, status bool) []Change {
	d := differ{keys: map[string][]string{}, sets: map[string]bool{".metadata.finalizers": true}}
	for _, owned := range [][]managedfields.Entry{before.owners, after.owners} {
		for _, o := range owned {
			for p := range o.Fields.All() {
				d.learnListKeys(p)
			}
		}
	}
	d.compare(nil, before.object, after.object)
	if !status {
		d.changes = slices.DeleteFunc(d.changes, func(c Change) bool {
			return len(c.path) > 0 && c.path[0].FieldName != nil && *c.path[0].FieldName == "status"
		})
	}
	return d.changes
}

// learnListKeys remembers how the lists on a path of managed fields are merged.
func (d *differ) learnListKeys(p fieldpath.Path) {
	for i, e := range p {
		switch {
		case e.Key != nil:
			var names []string
			for _, f := range *e.Key {
				names = append(names, f.Name)
			}
			d.keys[p[:i].String()] = names
		case e.Value != nil:
			d.sets[p[:i].String()] = true
		}
	}
}

func (d *differ) addChange(path fieldpath.Path, op string, from, to any) {
	d.changes = append(d.changes, Change{Path: path.String(), Op: op, From: from, To: to, path: path.Copy()})
}

func (d *differ) compare(path fieldpath.Path, from, to any) {
	if reflect.DeepEqual(from, to) || noise[path.String()] {
		return
	}
	if m, ok := to.(map[string]any); ok && from == nil && (len(path) == 0 || parents[path.String()]) {
		from = map[string]any{}
		d.compareMaps(path, nil, m)
		return
	}
	if m, ok := from.(map[string]any); ok && to == nil && parents[path.String()] {
		d.compareMaps(path, m, nil)
		return
	}
	switch {
	case from == nil:
		d.addChange(path, "add", nil, to)
		return
	case to == nil:
		d.addChange(path, "remove", from, nil)
		return
	}
	switch from := from.(type) {
	case map[string]any:
		if to, ok := to.(map[string]any); ok {
			d.compareMaps(path, from, to)
			return
		}
	case []any:
		if to, ok := to.([]any); ok {
			d.compareLists(path, from, to)
			return
		}
	}
	d.addChange(path, "replace", from, to)
}

// parents are maps whose coming and going is of no interest, only what is in them.
var parents = map[string]bool{
	".metadata": true, ".metadata.labels": true, ".metadata.annotations": true, ".metadata.finalizers": true,
	".spec.template.metadata.labels": true, ".spec.template.metadata.annotations": true, ".data": true,
}

func (d *differ) compareMaps(path fieldpath.Path, from, to map[string]any) {
	names := map[string]bool{}
	for n := range from {
		names[n] = true
	}
	for n := range to {
		names[n] = true
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		d.compare(append(path, fieldpath.FieldNameElement(n)), from[n], to[n])
	}
}

func (d *differ) compareLists(path fieldpath.Path, from, to []any) {
	at := path.String()
	if d.sets[at] {
		d.compareSets(path, from, to)
		return
	}
	if keys := d.listKeys(at, path, from, to); keys != nil {
		if f, t := indexByKey(keys, from), indexByKey(keys, to); f != nil && t != nil {
			d.compareKeyed(path, f, t)
			return
		}
	}
	// An atomic list: where only elements changed, they are told by their index.
	if len(from) == len(to) && allMaps(from) && allMaps(to) {
		for i := range from {
			d.compare(append(path, fieldpath.IndexElement(i)), from[i], to[i])
		}
		return
	}
	d.addChange(path, "replace", from, to)
}

func (d *differ) listKeys(at string, path fieldpath.Path, from, to []any) []string {
	if keys, ok := d.keys[at]; ok {
		return keys
	}
	if !allMaps(from) || !allMaps(to) {
		return nil
	}
	if last := path[len(path)-1].FieldName; last != nil && mergeKeys[*last] != nil {
		return mergeKeys[*last]
	}
	return []string{"name"} // if all elements have one, and each its own
}

func allMaps(l []any) bool {
	return !slices.ContainsFunc(l, func(v any) bool { _, ok := v.(map[string]any); return !ok })
}

// keyed is an element of an associative list.
type keyed struct {
	key   fieldpath.PathElement
	value any
}

// indexByKey gives each element its key; nil when one has none, or two have the same.
func indexByKey(names []string, l []any) []keyed {
	all := make([]keyed, 0, len(l))
	seen := map[string]bool{}
	for _, v := range l {
		m, _ := v.(map[string]any)
		var fields value.FieldList
		for _, n := range names {
			if m[n] == nil {
				if n != "protocol" { // the one key that upstream defaults
					return nil
				}
				fields = append(fields, value.Field{Name: n, Value: value.NewValueInterface("TCP")})
				continue
			}
			fields = append(fields, value.Field{Name: n, Value: value.NewValueInterface(normalizeNumber(m[n]))})
		}
		fields.Sort()
		e := fieldpath.PathElement{Key: &fields}
		if seen[e.String()] {
			return nil
		}
		seen[e.String()] = true
		all = append(all, keyed{e, v})
	}
	return all
}

// normalizeNumber returns a JSON number as the types that structured-merge-diff knows.
func normalizeNumber(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, _ := n.Float64()
	return f
}

func (d *differ) compareKeyed(path fieldpath.Path, from, to []keyed) {
	before := map[string]any{}
	for _, f := range from {
		before[f.key.String()] = f.value
	}
	for _, t := range to {
		d.compare(append(path, t.key), before[t.key.String()], t.value)
		delete(before, t.key.String())
	}
	for _, f := range from {
		if _, gone := before[f.key.String()]; gone {
			d.compare(append(path, f.key), f.value, nil)
		}
	}
}

func (d *differ) compareSets(path fieldpath.Path, from, to []any) {
	has := func(l []any, v any) bool {
		return slices.ContainsFunc(l, func(x any) bool { return reflect.DeepEqual(x, v) })
	}
	element := func(v any) fieldpath.Path {
		return append(path, fieldpath.ValueElement(value.NewValueInterface(normalizeNumber(v))))
	}
	for _, v := range from {
		if !has(to, v) {
			d.addChange(element(v), "remove", v, nil)
		}
	}
	for _, v := range to {
		if !has(from, v) {
			d.addChange(element(v), "add", nil, v)
		}
	}
}

// requested returns the changes that a request asks for when what was before is unknown: the leaves of a patch, or the
// operations of a JSON patch.
func requested(patch any) []Change {
	if ops, ok := patch.([]any); ok {
		var all []Change
		for _, op := range ops {
			c := Change{Path: pointer(nestedString(op, "path")), Op: nestedString(op, "op"),
				To: nestedField(op, "value"), unknown: true}
			if c.Op == "test" {
				continue
			}
			if c.Op == "move" || c.Op == "copy" {
				c.To = c.Op + " of " + pointer(nestedString(op, "from"))
				c.Op = "replace"
			}
			all = append(all, c)
		}
		return all
	}
	var d differ
	d.collectLeaves(nil, patch)
	return d.changes
}

// collectLeaves lists what a merge patch sets.
func (d *differ) collectLeaves(path fieldpath.Path, v any) {
	at := path.String()
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			break
		}
		for _, n := range slices.Sorted(maps.Keys(v)) {
			if strings.HasPrefix(n, "$setElementOrder/") || n == "$retainKeys" {
				continue
			}
			d.collectLeaves(append(path, fieldpath.FieldNameElement(n)), v[n])
		}
		return
	case []any:
		if len(path) == 0 || len(v) == 0 || !allMaps(v) {
			break
		}
		elements := indexByKey(d.listKeys(at, path, v, v), v)
		for _, e := range elements {
			if nestedString(e.value, "$patch") == "delete" {
				d.changes = append(d.changes, Change{Path: append(path, e.key).String(), Op: "remove",
					path: append(path, e.key).Copy(), unknown: true})
				continue
			}
			m := maps.Clone(e.value.(map[string]any))
			for _, f := range *e.key.Key {
				delete(m, f.Name)
			}
			d.collectLeaves(append(path, e.key), m)
		}
		if elements != nil {
			return
		}
	case nil:
		if !noise[at] {
			d.changes = append(d.changes, Change{Path: at, Op: "remove", path: path.Copy(), unknown: true})
		}
		return
	}
	if !noise[at] {
		d.changes = append(d.changes, Change{Path: at, Op: "replace", To: v, path: path.Copy(), unknown: true})
	}
}

// pointer writes a JSON pointer (RFC 6901) like other paths: /spec/containers/0/env is .spec.containers[0].env.
func pointer(p string) string {
	var b strings.Builder
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for part := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
		if part == "-" {
			b.WriteString("[+]")
		} else if strings.Trim(part, "0123456789") == "" && part != "" {
			b.WriteString("[" + part + "]")
		} else {
			b.WriteString("." + unescape.Replace(part))
		}
	}
	return b.String()
}

// lookupPath returns the value at a path, nil when there is none.
func lookupPath(v any, path fieldpath.Path) any {
	for _, e := range path {
		switch {
		case e.FieldName != nil:
			m, _ := v.(map[string]any)
			next, ok := m[*e.FieldName]
			if !ok {
				return nil
			}
			v = next
		case e.Key != nil:
			var names []string
			for _, f := range *e.Key {
				names = append(names, f.Name)
			}
			l, _ := v.([]any)
			i := slices.IndexFunc(l, func(x any) bool {
				k := indexByKey(names, []any{x})
				return k != nil && k[0].key.Equals(e)
			})
			if i < 0 {
				return nil
			}
			v = l[i]
		case e.Index != nil:
			l, _ := v.([]any)
			if *e.Index >= len(l) {
				return nil
			}
			v = l[*e.Index]
		default:
			return nil
		}
	}
	return v
}
