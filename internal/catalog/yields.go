package catalog

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// pattern is a path pattern in objects: field names, and "*" for all items of a list, which are told apart by their
// names, or all fields of a map.
//
//	.spec.template.spec.containers[*].env[*].value
//	.spec.template.spec.containers[name=aws-node].resources
//	.metadata.labels["app.kubernetes.io/version"]
type pattern []step

type step struct {
	field string // of a map; "*" are all
	item  string // the name of a list's item; "*" are all
}

func parsePattern(text string) (pattern, error) {
	bad := func(why string) (pattern, error) {
		return nil,
			fmt.Errorf(
				`%q %s; a pattern is like .spec.template.spec.containers[*].env[name=X].value or .metadata.labels["a.b/c"]`, text, why)
	}
	var p pattern
	for rest := text; rest != ""; {
		switch {
		case strings.HasPrefix(rest, `["`):
			key, after, found := strings.Cut(rest[2:], `"]`)
			if !found {
				return bad(`has a [" without its "]`)
			}
			p, rest = append(p, step{field: key}), after
		case strings.HasPrefix(rest, "["):
			item, after, found := strings.Cut(rest[1:], "]")
			if !found {
				return bad("has a [ without its ]")
			}
			name, isName := strings.CutPrefix(item, "name=")
			if !isName && item != "*" {
				return bad("has an item that is neither * nor name=...")
			}
			p, rest = append(p, step{item: strings.Trim(name, `"`)}), after
		case strings.HasPrefix(rest, "."):
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			if end == 0 && !strings.HasPrefix(rest, ".[") {
				return bad("has an empty field name")
			}
			if end > 0 {
				p = append(p, step{field: rest[1 : end+1]})
			}
			rest = rest[end+1:]
		default:
			return bad("does not begin with a .")
		}
	}
	if len(p) == 0 {
		return bad("is empty")
	}
	return p, nil
}

// yielding returns the paths of an object that the entry leaves to others: those that its patterns match, and that are
// the same in every other rendering.
func (s *source) yielding(o *unstructured.Unstructured, others []map[string]*unstructured.Unstructured) []string {
	var paths []string
	for _, key := range []string{o.GetKind() + "/" + o.GetName(), o.GetKind() + "/*", "*"} {
		for _, p := range s.yields[key] {
			p.forEachMatch(nil, o.Object, func(path fieldpath.Path, found any) {
				for _, other := range others {
					same := other[identity(o)]
					if same == nil || !reflect.DeepEqual(valueAtPath(same.Object, path), found) {
						return
					}
				}
				paths = append(paths, path.String())
			})
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// forEachMatch finds the values that the pattern matches.
func (p pattern) forEachMatch(prefix fieldpath.Path, v any, found func(fieldpath.Path, any)) {
	if len(p) == 0 {
		found(prefix.Copy(), v)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if p[0].field == "*" || p[0].field == name {
				p[1:].forEachMatch(append(prefix.Copy(), fieldpath.PathElement{FieldName: &name}), field, found)
			}
		}
	case []any:
		for _, item := range v {
			fields, _ := item.(map[string]any)
			name, named := fields["name"].(string)
			if named && (p[0].item == "*" || p[0].item == name) {
				key := value.FieldList{{Name: "name", Value: value.NewValueInterface(name)}}
				p[1:].forEachMatch(append(prefix.Copy(), fieldpath.PathElement{Key: &key}), item, found)
			}
		}
	}
}

// valueAtPath returns the value at a path, with list items found by their keys; nil when there is none.
func valueAtPath(v any, path fieldpath.Path) any {
	for _, e := range path {
		switch in := v.(type) {
		case map[string]any:
			if e.FieldName == nil {
				return nil
			}
			v = in[*e.FieldName]
		case []any:
			if e.Key == nil {
				return nil
			}
			want, v2 := (*e.Key)[0].Value.AsString(), any(nil)
			for _, item := range in {
				if fields, isMap := item.(map[string]any); isMap && fields["name"] == want {
					v2 = item
				}
			}
			v = v2
		default:
			return nil
		}
	}
	return v
}
