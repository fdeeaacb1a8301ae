package addon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/coracle-eks/coracle/internal/kube/managedfields"
)

// fieldManager is who EKS is in managedFields.
const fieldManager = "eks"

// claim is a field that somebody else than EKS owns.
type claim struct {
	path fieldpath.Path
	// declared says that somebody applies it with server-side apply: he means it, even where his value is EKS's. Other owners may be so for having once
	// written the object as a whole, as kubectl did with those of a new cluster.
	declared bool
}

// ours says that an entry of managedFields is that of EKS.
func ours(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == fieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// manages says that EKS owns fields of an object.
func manages(o metav1.Object) bool { return slices.ContainsFunc(o.GetManagedFields(), ours) }

// owned returns the fields of an object that EKS owns.
func owned(o metav1.Object) (*fieldpath.Set, error) {
	entries, err := managedfields.Select(o, ours)
	if err != nil {
		return nil, err
	}
	all := fieldpath.NewSet()
	for _, e := range entries {
		all = all.Union(e.Fields)
	}
	return all, nil
}

// claims returns the fields of an object that others own, by their paths in the form of conflicts. Statuses do not count.
func claims(o metav1.Object) (map[string]claim, error) {
	entries, err := managedfields.Select(o, func(e metav1.ManagedFieldsEntry) bool { return !ours(e) && e.Subresource != "status" })
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

// fingerprints tell whether the owners of an object's fields changed: of the fields of EKS, and of those of others. A change of a value always
// changes its owner, unless the owner changes it itself. Neither times nor statuses count. eks is empty when EKS owns nothing.
func fingerprints(o metav1.Object) (eks, others string) {
	mine, theirs := sha256.New(), sha256.New()
	none := true
	for _, e := range o.GetManagedFields() {
		if e.Subresource == "status" || e.FieldsV1 == nil {
			continue
		}
		h := theirs
		if ours(e) {
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

// fingerprint is that of a configuration.
func fingerprint(config map[string]any) (string, error) {
	b, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12]), nil
}

// copied is a copy of an object with the numbers that the API server's JSON has.
func copied(o map[string]any) (map[string]any, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var c map[string]any
	return c, utiljson.Unmarshal(b, &c)
}

// yieldFields takes out of a configuration what is left to others: fields that yield and to which another gave another value, and fields that were kept
// before and still are another's. It gives back the latter. A field that EKS owns as well has the value that EKS gave it: unless another declares it, nobody has
// set it to something else. So it is with the objects of a new cluster once EKS has adopted them.
//
// What yields is in yields, what was kept in kept, as paths in the form of conflicts.
func yieldFields(
	config map[string]any, live *unstructured.Unstructured, yields, kept []string,
) (still []string, err error) {
	if live == nil || len(yields)+len(kept) == 0 {
		return nil, nil
	}
	theirs, err := claims(live)
	if err != nil {
		return nil, err
	}
	eks, err := owned(live)
	if err != nil {
		return nil, err
	}
	for text, c := range theirs {
		if slices.Contains(kept, text) {
			if remove(config, c.path) {
				still = append(still, text)
			}
			continue
		}
		yield := slices.IndexFunc(yields, func(y string) bool { return within(text, y) })
		if yield >= 0 {
			mine, _ := lookup(config, c.path)
			value, _ := lookup(live.Object, c.path)
			if (c.declared || !eks.Has(c.path)) && !reflect.DeepEqual(mine, value) {
				remove(config, c.path)
			}
			continue
		}
		// A variable's value that comes from elsewhere stands in the place of one that is written out.
		if end, from := len(c.path)-1, "valueFrom"; end > 0 && isField(c.path[end], from) &&
			slices.Contains(yields, strings.TrimSuffix(text, "."+from)+".value") {
			remove(config, append(c.path[:end:end], fieldpath.FieldNameElement("value")))
		}
	}
	slices.Sort(still)
	return still, nil
}

// within says that a path is another one, or below it.
func within(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func isField(e fieldpath.PathElement, name string) bool {
	return e.FieldName != nil && *e.FieldName == name
}

// lookup is what an object has at a path.
func lookup(o any, p fieldpath.Path) (any, bool) {
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
			i := index(at, e)
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

// index is where a list has the item that a path element names; -1 when it has none.
func index(list []any, e fieldpath.PathElement) int {
	switch {
	case e.Index != nil:
		if *e.Index < len(list) {
			return *e.Index
		}
	case e.Value != nil:
		want := (*e.Value).Unstructured()
		return slices.IndexFunc(list, func(item any) bool { return same(item, want) })
	case e.Key != nil:
		return slices.IndexFunc(list, func(item any) bool {
			fields, ok := item.(map[string]any)
			if !ok {
				return false
			}
			found := false
			for _, k := range *e.Key {
				value, set := fields[k.Name]
				if set && !same(value, k.Value.Unstructured()) {
					return false
				}
				found = found || set // what is not set has its default: protocol TCP
			}
			return found
		})
	}
	return -1
}

// same compares values of keys, of which numbers may be of several types.
func same(a, b any) bool { return a == b || fmt.Sprint(a) == fmt.Sprint(b) }

// remove takes what is at a path out of an object, with what is empty without it; false when there was nothing.
func remove(o map[string]any, p fieldpath.Path) bool {
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
		i := index(at, p[0])
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
