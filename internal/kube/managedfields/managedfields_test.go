package managedfields

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func entry(manager, fields string) map[string]any {
	e := map[string]any{"manager": manager, "operation": "Apply", "apiVersion": "v1"}
	if fields == "" {
		return e
	}
	var set map[string]any
	if err := json.Unmarshal([]byte(fields), &set); err != nil {
		panic(err)
	}
	e["fieldsType"], e["fieldsV1"] = "FieldsV1", set
	return e
}

func object(entries ...any) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": "o", "managedFields": entries}}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object   map[string]any
		managers string
		failure  string
	}{
		"no object":             {nil, "", ""},
		"no managed fields":     {map[string]any{"metadata": map[string]any{}}, "", ""},
		"two managers":          {object(entry("a", `{"f:data":{}}`), entry("b", `{"f:spec":{}}`)), "a b", ""},
		"an entry without any":  {object(entry("a", "")), "a", ""},
		"one that is not valid": {object(entry("a", `{"x":{}}`), entry("b", `{"f:spec":{}}`)), "b", "manager a"},
		"an entry of one word":  {object("a", entry("b", `{"f:spec":{}}`)), "b", "not an object"},
	} {
		entries, err := Read(c.object)
		var managers []string
		for _, e := range entries {
			managers = append(managers, e.Manager)
		}
		if got := strings.Join(managers, " "); got != c.managers {
			t.Errorf("%s: managers are %q, want %q", name, got, c.managers)
		}
		if (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure) {
			t.Errorf("%s: error %v, want %q", name, err, c.failure)
		}
	}
}

func TestOwnership(t *testing.T) {
	t.Parallel()
	entries, err := Read(object(entry("a", `{"f:data":{".":{},"f:x":{}},"f:spec":{"f:limits":{}}}`)))
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	type answer struct{ owns, below, around bool }
	for _, c := range []struct {
		path fieldpath.Path
		want answer
	}{
		{fieldpath.MakePathOrDie("data"), answer{true, true, false}},
		{fieldpath.MakePathOrDie("data", "x"), answer{true, false, false}},
		{fieldpath.MakePathOrDie("data", "y"), answer{false, false, false}},
		{fieldpath.MakePathOrDie("spec"), answer{false, true, false}},
		{fieldpath.MakePathOrDie("spec", "limits", "cpu"), answer{false, false, true}},
	} {
		e := entries[0]
		if got := (answer{e.Owns(c.path), e.OwnsBelow(c.path), e.OwnsAround(c.path)}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.path, got, c.want)
		}
	}
	x := fieldpath.MakePathOrDie("data", "x")
	if left := entries[0].Without(fieldpath.NewSet(x)); left.Owns(x) ||
		!left.Owns(fieldpath.MakePathOrDie("spec", "limits")) || !left.SameManager(entries[0]) {
		t.Errorf("without .data.x it owns %s", left.Fields)
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	o := &unstructured.Unstructured{Object: object(entry("a", `{"x":{}}`), entry("b", `{"f:spec":{}}`))}
	only := func(manager string) func(metav1.ManagedFieldsEntry) bool {
		return func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager }
	}
	if entries, err := Select(o, only("b")); err != nil || len(entries) != 1 {
		t.Errorf("the fields of b: %v, %v", entries, err)
	}
	if _, err := Select(o, only("a")); err == nil || !strings.HasPrefix(err.Error(), "o: ") {
		t.Errorf("fields that are not valid: %v", err)
	}
}

// TestManagedFieldsOfATenantAreBounded decodes objects whose managed fields, or whose paths, decode to a thousand times
// their size.
func TestManagedFieldsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	const size = 456 << 10
	nested := func(levels int) string {
		return strings.Repeat(`{"f:a":`, levels) + "{}" + strings.Repeat("}", levels)
	}
	wide := func(name, fields int) string {
		var all []string
		for i := range fields {
			all = append(all, fmt.Sprintf(`"f:%d":{}`, i))
		}
		return `{"f:` + strings.Repeat("a", name) + `":{` + strings.Join(all, ",") + `}}`
	}
	for name, test := range map[string]struct {
		fields  string
		entries int
		want    string // "" is in order
	}{
		"a pod":                      {nested(20), 10, ""},
		"a ConfigMap with many keys": {wide(4, size/12), 2, ""},
		"deep fields":                {nested(size / 7), 1, "nest deeper than 64 levels"},
		"fields below a long name":   {wide(size/2, size/24), 1, "paths of the fields are longer than 16 MiB"},
		"more of them in each entry": {wide(size/50, 500), 20, "paths of the fields are longer than 16 MiB"},
		"large entries":              {wide(size, 1), 10, "larger than 2 MiB"},
		"many entries":               {`{"f:a":{}}`, MaxEntries + 1, "more than 1000 entries"},
		"what is not even an object": {`["f:a",` + strings.Repeat("[", 100), 1, "nest deeper than 64 levels"},
	} {
		o := &metav1.ObjectMeta{Name: "o"}
		for range test.entries {
			o.ManagedFields = append(o.ManagedFields, metav1.ManagedFieldsEntry{Manager: strings.Repeat("m", size),
				FieldsV1: &metav1.FieldsV1{Raw: []byte(test.fields)}})
		}
		check := func(how string, err error) {
			if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, ErrTooLarge) ||
				!strings.Contains(err.Error(), test.want) || len(err.Error()) > 512) {
				t.Errorf("%s, by %s: %.600v, want %q", name, how, err, test.want)
			}
		}
		entries, err := Select(o, func(metav1.ManagedFieldsEntry) bool { return true })
		check("Select", err)
		if err == nil && len(entries) != test.entries {
			t.Errorf("%s: %d entries", name, len(entries))
		}
		if !json.Valid([]byte(test.fields)) {
			continue
		}
		var all []any
		for range test.entries {
			all = append(all, entry("m", test.fields))
		}
		_, err = Read(object(all...))
		check("Read", err)
	}
}
