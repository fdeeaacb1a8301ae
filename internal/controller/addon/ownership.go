package addon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/coracle-eks/coracle/internal/kube/managedfields"
)

// fieldManager is the field manager of EKS in managedFields.
const fieldManager = "eks"

// claim is a field that a manager other than EKS owns.
type claim struct {
	path fieldpath.Path
	// declared is set when a manager applies it with server-side apply: the value is intended, even where it is the
	// same as EKS's. Other owners may be so for having once written the object as a whole, as kubectl did with those of
	// a new cluster.
	declared bool
}

// isManagedByEKS reports whether an entry of managedFields is that of EKS.
func isManagedByEKS(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == fieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// manages reports whether EKS owns fields of an object.
func manages(o metav1.Object) bool { return slices.ContainsFunc(o.GetManagedFields(), isManagedByEKS) }

// ownedFields returns the fields of an object that EKS owns.
func ownedFields(o metav1.Object) (*fieldpath.Set, error) {
	entries, err := managedfields.Select(o, isManagedByEKS)
	if err != nil {
		return nil, err
	}
	all := fieldpath.NewSet()
	for _, e := range entries {
		all = all.Union(e.Fields)
	}
	return all, nil
}

// foreignClaims returns the fields of an object that others own, by their paths in the form of conflicts. Statuses do
// not count.
func foreignClaims(o metav1.Object) (map[string]claim, error) {
	entries, err := managedfields.Select(o, func(e metav1.ManagedFieldsEntry) bool {
		return !isManagedByEKS(e) &&
			e.Subresource != "status"
	})
	if err != nil {
		return nil, err
	}
	all := map[string]claim{}
	for _, e := range entries {
		for p := range e.Fields.All() {
			p = p.Copy()
			all[p.String()] = claim{p, all[p.String()].declared || e.Operation == metav1.ManagedFieldsOperationApply}
		}
	}
	return all, nil
}

// fingerprints tell whether the owners of an object's fields changed: of the fields of EKS, and of those of others. A
// change of a value always changes its owner, unless the owner changes it itself. Neither times nor statuses count. eks
// is empty when EKS owns nothing.
func fingerprints(o metav1.Object) (eks, others string) {
	mine, theirs := sha256.New(), sha256.New()
	none := true
	for _, e := range o.GetManagedFields() {
		if e.Subresource == "status" || e.FieldsV1 == nil {
			continue
		}
		h := theirs
		if isManagedByEKS(e) {
			h, none = mine, false
		}
		fmt.Fprintf(h, "%s %s %s %s %d:", e.Manager, e.Operation, e.APIVersion, e.Subresource, len(e.FieldsV1.Raw))
		h.Write(e.FieldsV1.Raw)
	}
	if !none {
		eks = hex.EncodeToString(mine.Sum(nil)[:12])
	}
	return eks, hex.EncodeToString(theirs.Sum(nil)[:12])
}

// fingerprint returns a fingerprint of a configuration.
func fingerprint(config map[string]any) (string, error) {
	b, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12]), nil
}

// deepCopyJSON returns a copy of an object, with numbers as the API server's JSON decoder has them.
func deepCopyJSON(o map[string]any) (map[string]any, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var c map[string]any
	return c, utiljson.Unmarshal(b, &c)
}

// yieldFields takes out of a configuration what is left to others: fields that yield and to which another gave another
// value, and fields that were kept before and still are another's. It gives back the latter. A field that EKS owns as
// well has the value that EKS gave it: unless another declares it, nobody has set it to something else. So it is with
// the objects of a new cluster once EKS has adopted them.
//
// What yields is in yields, what was kept in kept, as paths in the form of conflicts.
func yieldFields(
	config map[string]any, live *unstructured.Unstructured, yields, kept []string,
) (still []string, err error) {
	if live == nil || len(yields)+len(kept) == 0 {
		return nil, nil
	}
	theirs, err := foreignClaims(live)
	if err != nil {
		return nil, err
	}
	eks, err := ownedFields(live)
	if err != nil {
		return nil, err
	}
	wereKept, yielding, compared := newPathSet(kept), newPathSet(yields), 0
	for text, c := range theirs {
		if wereKept.paths[text] {
			if removePath(config, c.path) {
				still = append(still, text)
			}
			continue
		}
		if yielding.contains(text) {
			mine, _ := lookupPath(config, c.path, &compared)
			value, _ := lookupPath(live.Object, c.path, &compared)
			if compared > maxCompared {
				return nil, errCompared
			}
			if (c.declared || !eks.Has(c.path)) && !reflect.DeepEqual(mine, value) {
				removePath(config, c.path)
			}
			continue
		}
		// A variable's value that comes from elsewhere stands in the place of one that is written out.
		if end, from := len(c.path)-1, "valueFrom"; end > 0 && isField(c.path[end], from) &&
			yielding.paths[strings.TrimSuffix(text, "."+from)+".value"] {
			removePath(config, append(c.path[:end:end], fieldpath.FieldNameElement("value")))
		}
	}
	slices.Sort(still)
	return still, nil
}

func isField(e fieldpath.PathElement, name string) bool {
	return e.FieldName != nil && *e.FieldName == name
}

// pathSet is a set of paths in which those that a path is below are found by their lengths: users may write as many
// fields, and give them as long names, as an object has room for.
type pathSet struct {
	paths   map[string]bool
	lengths []int // distinct
}

func newPathSet(paths []string) pathSet {
	set, lengths := pathSet{paths: make(map[string]bool, len(paths))}, make(map[int]bool)
	for _, path := range paths {
		set.paths[path], lengths[len(path)] = true, true
	}
	set.lengths = slices.Sorted(maps.Keys(lengths))
	return set
}

// contains reports whether a path is in the set, or below one that is.
func (s pathSet) contains(path string) bool { return s.paths[path] || s.containsAbove(path) }

// containsAbove reports whether a path is below one in the set.
func (s pathSet) containsAbove(path string) bool {
	for _, n := range s.lengths {
		if n >= len(path) {
			return false
		}
		if (path[n] == '.' || path[n] == '[') && s.paths[path[:n]] {
			return true
		}
	}
	return false
}

// maxCompared limits the list items that are compared to find the fields of an object: each field of a list's item is
// looked up by the item's keys.
const maxCompared = 5_000_000

var errCompared = fmt.Errorf("the object has too many fields in items of lists: %w", managedfields.ErrTooLarge)

// lookupPath returns the value of an object at a path. It counts the items of lists on the way in compared, and finds
// nothing more once they are maxCompared.
func lookupPath(o any, p fieldpath.Path, compared *int) (any, bool) {
	for _, e := range p {
		switch at := o.(type) {
		case map[string]any:
			if e.FieldName == nil {
				return nil, false
			}
			next, ok := at[*e.FieldName]
			if !ok {
				return nil, false
			}
			o = next
		case []any:
			if *compared += len(at); *compared > maxCompared {
				return nil, false
			}
			i := indexOfElement(at, e)
			if i < 0 {
				return nil, false
			}
			o = at[i]
		default:
			return nil, false
		}
	}
	return o, true
}

// indexOfElement returns the index of the list item that a path element names; -1 when there is none.
func indexOfElement(list []any, e fieldpath.PathElement) int {
	switch {
	case e.Index != nil:
		if *e.Index < len(list) {
			return *e.Index
		}
	case e.Value != nil:
		want := (*e.Value).Unstructured()
		return slices.IndexFunc(list, func(item any) bool { return equalKeys(item, want) })
	case e.Key != nil:
		return slices.IndexFunc(list, func(item any) bool {
			fields, ok := item.(map[string]any)
			if !ok {
				return false
			}
			found := false
			for _, k := range *e.Key {
				value, set := fields[k.Name]
				if set && !equalKeys(value, k.Value.Unstructured()) {
					return false
				}
				found = found || set // what is not set has its default: protocol TCP
			}
			return found
		})
	}
	return -1
}

// equalKeys compares values of keys, of which numbers may be of several types. Paths come from the managed fields of an
// object, where users may write what is no key, such as a map.
func equalKeys(a, b any) bool { return reflect.DeepEqual(a, b) || fmt.Sprint(a) == fmt.Sprint(b) }

// removePath takes what is at a path out of an object, with what is empty without it; false when there was nothing.
func removePath(o map[string]any, p fieldpath.Path) bool {
	_, found := removeFrom(o, p)
	return found
}

// removeFrom gives back what is left, nil for nothing.
func removeFrom(o any, p fieldpath.Path) (left any, found bool) {
	if len(p) == 0 {
		return nil, true
	}
	switch at := o.(type) {
	case map[string]any:
		if p[0].FieldName == nil {
			return o, false
		}
		name := *p[0].FieldName
		below, ok := at[name]
		if !ok {
			return o, false
		}
		if left, found = removeFrom(below, p[1:]); !found {
			return o, false
		}
		if left == nil {
			delete(at, name)
		} else {
			at[name] = left
		}
		if len(at) == 0 {
			return nil, true
		}
		return at, true
	case []any:
		i := indexOfElement(at, p[0])
		if i < 0 {
			return o, false
		}
		if left, found = removeFrom(at[i], p[1:]); !found {
			return o, false
		}
		if left == nil {
			at = slices.Delete(at, i, i+1)
		} else {
			at[i] = left
		}
		if len(at) == 0 {
			return nil, true
		}
		return at, true
	}
	return o, false
}
