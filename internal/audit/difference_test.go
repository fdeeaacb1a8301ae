package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// decoded returns an object written as YAML, with numbers as the log has them.
func decoded(t testing.TB, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDifference(t *testing.T) {
	t.Parallel()
	const finalizers = `managedFields: [{manager: a, operation: Update, fieldsV1: {"f:metadata": {"f:finalizers": {"v:\"x\"": {}}}}}]`
	for _, c := range []struct{ what, before, after, want string }{
		{"a scalar", `spec: {replicas: 1}`, `spec: {replicas: 2}`, `replace .spec.replicas 1 2`},
		{"noise", `metadata: {resourceVersion: "1", generation: 1, managedFields: []}`,
			`metadata: {resourceVersion: "2", generation: 2}`, ``},
		{"status", `status: {ready: 1}`, `status: {ready: 2}`, ``},
		{"the first label", `metadata: {name: a}`, `metadata: {name: a, labels: {x: "1"}}`,
			`add .metadata.labels.x nothing "1"`},
		{"the last annotation", `metadata: {annotations: {x: b}}`, `metadata: {}`,
			`remove .metadata.annotations.x b nothing`},
		{"data of a config map", `{}`, `data: {a: b}`, `add .data.a nothing b`},
		{"elements by name", `spec: {containers: [{name: a, image: x}, {name: b, image: w}]}`,
			`spec: {containers: [{name: b, image: z}, {name: c, image: x}]}`,
			`replace .spec.containers[name="b"].image w z; add .spec.containers[name="c"] nothing {image: x, name: c}; remove .spec.containers[name="a"] {image: x, name: a} nothing`},
		{"the order of elements by name", `spec: {containers: [{name: a}, {name: b}]}`,
			`spec: {containers: [{name: b}, {name: a}]}`, ``},
		{"elements by what managed fields say",
			`{metadata: {managedFields: [{manager: m, operation: Update, fieldsV1: {"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:targetPort": {}}}}}}]}, spec: {ports: [{port: 80, targetPort: 80}]}}`,
			`spec: {ports: [{port: 80, targetPort: 8080, protocol: TCP}]}`,
			`add .spec.ports[port=80,protocol="TCP"].protocol nothing TCP; replace .spec.ports[port=80,protocol="TCP"].targetPort 80 8080`},
		{"sets", `metadata: {finalizers: [a, b], ` + finalizers + `}`, `metadata: {finalizers: [b, c]}`,
			`remove .metadata.finalizers[="a"] a nothing; add .metadata.finalizers[="c"] nothing c`},
		{"an atomic list of scalars", `spec: {args: [a, b]}`, `spec: {args: [a, c]}`,
			`replace .spec.args [a, b] [a, c]`},
		{"an atomic list of maps", `rules: [{verbs: [get]}]`, `rules: [{verbs: [get, list]}]`,
			`replace .rules[0].verbs [get] [get, list]`},
		{"a longer atomic list of maps", `rules: [{verbs: [get]}]`, `rules: [{verbs: [get]}, {verbs: [list]}]`,
			`replace .rules [{verbs: [get]}] [{verbs: [get]}, {verbs: [list]}]`},
		{"names that are not unique", `spec: {x: [{name: a, v: 1}, {name: a, v: 2}]}`,
			`spec: {x: [{name: a, v: 1}, {name: a, v: 3}]}`, `replace .spec.x[1].v 2 3`},
		{"another type", `spec: {port: 80}`, `spec: {port: http}`, `replace .spec.port 80 http`},
		{"null", `spec: {a: null}`, `spec: {a: 1}`, `add .spec.a nothing 1`},
	} {
		before, after := newVersion(decoded(t, c.before)), newVersion(decoded(t, c.after))
		var got []string
		for _, d := range difference(before, after, false) {
			got = append(got, d.Op+" "+d.Path+" "+formatValue(d.From)+" "+formatValue(d.To))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, text, c.want)
		}
	}
}

func TestRequested(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, patch, want string }{
		{"merge", `{"metadata":{"labels":{"a":"b","c":null}},"spec":{"replicas":3}}`,
			`replace .metadata.labels.a b; remove .metadata.labels.c nothing; replace .spec.replicas 3`},
		{"strategic merge",
			`{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"a","image":"x"},{"name":"b","$patch":"delete"}]}}`,
			`replace .spec.containers[name="a"].image x; remove .spec.containers[name="b"] nothing`},
		{"JSON patch",
			`[{"op":"test","path":"/a","value":1},{"op":"add","path":"/metadata/labels/app~1x","value":"y"},{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"A"}},{"op":"remove","path":"/metadata/finalizers"},{"op":"move","from":"/a","path":"/b"}]`,
			`add .metadata.labels.app/x y; add .spec.containers[0].env[+] {name: A}; remove .metadata.finalizers nothing; replace .b "move of .a"`},
		{"empty", `{"spec":{}}`, `replace .spec {}`},
	} {
		d := json.NewDecoder(strings.NewReader(c.patch))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range requested(v) {
			got = append(got, d.Op+" "+d.Path+" "+formatValue(d.To))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, text, c.want)
		}
	}
}

func TestLineEdits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, want string }{
		{"a b c", "a b c", " a b c"},
		{"a b c", "a x c", " a-b+x c"},
		{"a", "a b", " a+b"},
		{"a b c d", "b d", "-a b-c d"},
		{"", "a", "+a"},
	} {
		var got string
		for _, e := range lineEdits(strings.Fields(c.from), strings.Fields(c.to)) {
			got += string(e.op) + e.text
		}
		if want := strings.ReplaceAll(c.want, "  ", " "); got != want {
			t.Errorf("%q to %q: %q, want %q", c.from, c.to, got, want)
		}
	}
}

// Who owns a map owns what nobody else has in it. A field that comes into the map takes nothing away from the map's
// owner.
func TestOwnersOfWhatIsInAMap(t *testing.T) {
	t.Parallel()
	before := newVersion(decoded(t,
		`{data: {a: x, b: x}, metadata: {managedFields: [{manager: boot, operation: Update, fieldsV1: {"f:data": {}}}]}}`))
	after := newVersion(decoded(t, `{data: {a: y, b: y}, metadata: {managedFields: [
		{manager: boot, operation: Update, fieldsV1: {"f:data": {}}}, {manager: jane, operation: Update, fieldsV1: {"f:data": {"f:a": {}}}}]}}`))
	changes := difference(before, after, false)
	attribute(changes, before, after, "jane", "")
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprint(c.Path, c.Owners, c.Lost))
	}
	if text, want := strings.Join(got, " "), ".data.a[jane] [] .data.b[boot] []"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
