package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/coracle-eks/coracle/internal/kube/managedfields"
)

// managerOf distinguishes the entries of a manager: "kubectl", "kubectl on scale".
func managerOf(e managedfields.Entry) string { return managerName(e.Manager, e.Subresource) }

func managerName(manager, subresource string) string {
	if subresource != "" {
		return manager + " on " + subresource
	}
	return manager
}

// version is an object as one response showed it.
type version struct {
	object   map[string]any
	revision uint64
	owners   []managedfields.Entry
}

func newVersion(obj map[string]any) version {
	owners, _ := managedfields.Read(obj) // a log may have cut off an entry; the others still count
	return version{object: obj, revision: revision(obj), owners: owners}
}

// isFieldOwner reports whether the entry has a field: itself, or something in it.
func isFieldOwner(e managedfields.Entry, path fieldpath.Path) bool {
	return e.Owns(path) || e.OwnsBelow(path)
}

// managersOf names who owns a field, in alphabetical order. Who owns what it is in owns the field only if nobody has
// the field itself: an owner of a map such as .data that isn't atomic owns that there is a map, not what others put
// into it.
func (v version) managersOf(path fieldpath.Path) []string {
	for _, owns := range []func(managedfields.Entry, fieldpath.Path) bool{isFieldOwner,
		managedfields.Entry.OwnsAround} {
		var names []string
		for _, o := range v.owners {
			if name := managerOf(o); owns(o, path) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if names != nil {
			slices.Sort(names)
			return names
		}
	}
	return nil
}

// attribute sets the owners of each changed field, the owners that lost it, and, when the manager of the step cannot
// have made the change, its author.
func attribute(changes []Change, before, after version, manager, subresource string) {
	acting := managerName(manager, subresource)
	for i := range changes {
		c := &changes[i]
		c.Owners = after.managersOf(c.path)
		for _, was := range before.managersOf(c.path) {
			still := func(o managedfields.Entry) bool {
				return managerOf(o) == was && (isFieldOwner(o, c.path) || o.OwnsAround(c.path))
			}
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

// withReplicas returns the version after its size was set through the scale subresource, whose answer is a Scale and
// not the object.
func (v version) withReplicas(replicas any, rev uint64, manager string) version {
	v.object = maps.Clone(v.object)
	spec := maps.Clone(toStringMap(v.object["spec"]))
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
	acting := managedfields.New(metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "scale",
	}, fieldpath.NewSet(path))
	owners := []managedfields.Entry{acting}
	for _, o := range v.owners {
		if o.SameManager(acting) {
			continue
		}
		if o = o.Without(acting.Fields); !o.Fields.Empty() {
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

// ownership returns who gained and lost fields beside those that changed.
func ownership(before, after version, changes []Change) []Ownership {
	changed := func(p fieldpath.Path) bool {
		return slices.ContainsFunc(changes, func(c Change) bool {
			return len(c.path) <= len(p) && c.path.Equals(p[:len(c.path)]) || len(p) < len(c.path) &&
				p.Equals(c.path[:len(p)])
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
		if i := slices.IndexFunc(before.owners, o.SameManager); i >= 0 {
			was = before.owners[i].Leaves
		}
		h := Ownership{Manager: managerOf(o), Gained: paths(o.Leaves.Difference(was)),
			Lost: paths(was.Difference(o.Leaves))}
		if len(h.Gained)+len(h.Lost) > 0 {
			all = append(all, h)
		}
	}
	for _, o := range before.owners {
		if !slices.ContainsFunc(after.owners, o.SameManager) {
			if lost := paths(o.Leaves); len(lost) > 0 {
				all = append(all, Ownership{Manager: managerOf(o), Lost: lost})
			}
		}
	}
	return all
}
