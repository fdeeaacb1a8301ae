package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// owner is an entry of metadata.managedFields: a field manager with the fields that it owns.
type owner struct {
	manager     string
	operation   metav1.ManagedFieldsOperationType
	subresource string
	fields      *fieldpath.Set
	leaves      *fieldpath.Set
}

// name distinguishes the entries of a manager: "kubectl", "kubectl on scale".
func (o owner) name() string { return managerName(o.manager, o.subresource) }

func managerName(manager, subresource string) string {
	if subresource != "" {
		return manager + " on " + subresource
	}
	return manager
}

// same reports whether it is the same manager's entry of another version.
func (o owner) same(other owner) bool {
	return o.manager == other.manager && o.operation == other.operation && o.subresource == other.subresource
}

// version is an object as one response showed it.
type version struct {
	object   map[string]any
	revision uint64
	owners   []owner
}

func newVersion(obj map[string]any) version {
	v := version{object: obj, revision: revision(obj)}
	for _, entry := range list(obj, "metadata", "managedFields") {
		raw, err := json.Marshal(entry)
		if err != nil {
			continue
		}
		var m metav1.ManagedFieldsEntry
		if json.Unmarshal(raw, &m) != nil || m.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if set.FromJSON(bytes.NewReader(m.FieldsV1.Raw)) != nil {
			continue
		}
		v.owners = append(v.owners, owner{m.Manager, m.Operation, m.Subresource, set, set.Leaves()})
	}
	return v
}

// owns reports whether the entry has a field: itself, or something in it.
func (o owner) owns(path fieldpath.Path) bool {
	return o.fields.Has(path) || !o.below(path).Empty()
}

// ownsAround reports whether the entry has a field as a part of an atomic one.
func (o owner) ownsAround(path fieldpath.Path) bool {
	for n := len(path) - 1; n > 0; n-- {
		if o.leaves.Has(path[:n]) {
			return true
		}
	}
	return false
}

// below is the part of the set under a path.
func (o owner) below(path fieldpath.Path) *fieldpath.Set {
	set := o.fields
	for _, e := range path {
		set = set.WithPrefix(e)
	}
	return set
}

// managersOf names who owns a field, in alphabetical order. Who owns what it is in owns the field only if nobody has
// the field itself: an owner of a map such as .data that isn't atomic owns that there is a map, not what others put into it.
func (v version) managersOf(path fieldpath.Path) []string {
	for _, owns := range []func(owner, fieldpath.Path) bool{owner.owns, owner.ownsAround} {
		var names []string
		for _, o := range v.owners {
			if owns(o, path) && !slices.Contains(names, o.name()) {
				names = append(names, o.name())
			}
		}
		if names != nil {
			slices.Sort(names)
			return names
		}
	}
	return nil
}

// attribute says of each change whose the field is now, whose it was, and, when the manager of the
// step cannot have made it, who did.
func attribute(changes []Change, before, after version, manager, subresource string) {
	acting := managerName(manager, subresource)
	for i := range changes {
		c := &changes[i]
		c.Owners = after.managersOf(c.path)
		for _, was := range before.managersOf(c.path) {
			still := func(o owner) bool { return o.name() == was && (o.owns(c.path) || o.ownsAround(c.path)) }
			if !slices.ContainsFunc(after.owners, still) {
				c.Lost = append(c.Lost, was)
			}
		}
		// Who writes a field owns it then. Where that is somebody else, the field was changed in between,
		// by a request that the log doesn't have; a status is not even able to change anything else.
		elsewhere := subresource == "status" && c.path[0].FieldName != nil && *c.path[0].FieldName != "status"
		switch {
		case slices.Contains(c.Owners, acting):
		case len(c.Owners) > 0 && (c.Op != "remove" || elsewhere):
			c.By = strings.Join(c.Owners, ", ")
		case elsewhere && len(c.Lost) > 0 && !slices.Contains(c.Lost, acting):
			c.By = "somebody"
		}
	}
}

// scaled is the version after its size was set through the scale subresource, whose answer is a Scale
// and not the object.
func (v version) scaled(replicas any, rev uint64, manager string) version {
	v.object = maps.Clone(v.object)
	spec := maps.Clone(asMap(v.object["spec"]))
	if spec == nil {
		spec = map[string]any{}
	}
	changed := fmt.Sprint(spec["replicas"]) != fmt.Sprint(replicas)
	spec["replicas"] = replicas
	v.object["spec"] = spec
	v.revision = rev
	if !changed {
		return v
	}
	path := fieldpath.MakePathOrDie("spec", "replicas")
	acting := owner{manager: manager, operation: metav1.ManagedFieldsOperationUpdate, subresource: "scale", fields: fieldpath.NewSet(path)}
	acting.leaves = acting.fields.Leaves()
	owners := []owner{acting}
	for _, o := range v.owners {
		if o.same(acting) {
			continue
		}
		o.fields = o.fields.Difference(acting.fields)
		o.leaves = o.fields.Leaves()
		if !o.fields.Empty() {
			owners = append(owners, o)
		}
	}
	v.owners = owners
	return v
}

// Ownership is a manager whose fields changed hands while their values stayed.
type Ownership struct {
	Manager string   `json:"manager"`
	Gained  []string `json:"gained,omitempty"`
	Lost    []string `json:"lost,omitempty"`
}

// ownership is who gained and lost fields beside those that changed.
func ownership(before, after version, changes []Change) []Ownership {
	changed := func(p fieldpath.Path) bool {
		return slices.ContainsFunc(changes, func(c Change) bool {
			return len(c.path) <= len(p) && c.path.Equals(p[:len(c.path)]) || len(p) < len(c.path) && p.Equals(c.path[:len(p)])
		})
	}
	// The keys of a list's elements come and go with the elements.
	paths := func(s *fieldpath.Set) (all []string) {
		for p := range s.All() {
			if at := p.String(); !changed(p) && !strings.HasPrefix(at, ".status") && !noise[at] {
				all = append(all, at)
			}
		}
		return all
	}
	var all []Ownership
	empty := &fieldpath.Set{}
	for _, o := range after.owners {
		was := empty
		if i := slices.IndexFunc(before.owners, o.same); i >= 0 {
			was = before.owners[i].leaves
		}
		h := Ownership{Manager: o.name(), Gained: paths(o.leaves.Difference(was)), Lost: paths(was.Difference(o.leaves))}
		if len(h.Gained)+len(h.Lost) > 0 {
			all = append(all, h)
		}
	}
	for _, o := range before.owners {
		if !slices.ContainsFunc(after.owners, o.same) {
			if lost := paths(o.leaves); len(lost) > 0 {
				all = append(all, Ownership{Manager: o.name(), Lost: lost})
			}
		}
	}
	return all
}
