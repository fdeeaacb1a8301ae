package resourcetest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// CheckSchema holds types against their schemas: every property is in a life or refused, and changes in place where it
// does on AWS. left are properties that no life has, or whose changes AWS would make in place and the service does not
// serve, by type.
func CheckSchema(t *testing.T, kinds map[string]resource.Type, lives []Life, left map[string][]string) {
	t.Helper()
	lived := map[string]map[string]bool{}
	for _, life := range lives {
		if lived[life.Type] == nil {
			lived[life.Type] = map[string]bool{}
		}
		for _, text := range append(life.Updates, life.Properties) {
			var properties map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &properties); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for name := range properties {
				lived[life.Type][name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		kind := kinds[name]
		known, ok := schema.Of(name)
		if !ok {
			t.Errorf("%s has no schema", name)
			continue
		}
		checkNames(t, name, known, kind)
		updatable, tells := resource.Updatable(kind.Handler)
		if !tells {
			t.Errorf("%s does not tell which properties it changes in place", name)
		}
		for _, property := range slices.Sorted(maps.Keys(known.Properties)) {
			if slices.Contains(kind.Refused, property) || slices.Contains(left[name], property) {
				continue
			}
			if !lived[name][property] {
				t.Errorf("%s: property %s is neither in a test nor refused", name, property)
			}
			fixed := known.Properties[property].RequiresRecreation == schema.Always
			if changes := slices.Contains(updatable, property); changes == fixed {
				t.Errorf("%s: property %s: AWS replaces the resource: %t; the handler changes it in place: %t", name,
					property, fixed, changes)
			}
		}
	}
}

// checkNames checks that the names in a table are those of properties.
func checkNames(t *testing.T, name string, known *schema.Type, kind resource.Type) {
	t.Helper()
	updatable, _ := resource.Updatable(kind.Handler)
	for _, property := range slices.Concat(updatable, kind.Refused, kind.Names) {
		_, ok := known.Properties[property]
		if tags := property == "Tags" && kind.Tagged; !ok && !tags {
			t.Errorf("%s has no property %s", name, property)
		}
	}
}
