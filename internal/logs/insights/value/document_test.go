package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const event = `{
  "kind": "Event", "verb":"patch",
  "user": {"username": "system:node", "groups": ["system:nodes", "system:authenticated"], "extra": {}},
  "objectRef": {"name": "aws-node", "resource": "daemonsets"},
  "labels": {"app.kubernetes.io/name": "dns", "app": {"kubernetes": {"io/name": "nested", "other": 1}}},
  "a.b": 1, "a": {"b": 2, "c": 3}, "x.y": {"z": 1}, "x": {"y": {"w": 2}},
  "id": 18446744073709551615, "small": -0.50, "big": 1e400, "yes": true, "no": false, "nothing": null,
  "text": "tab\tquote\"slash\/ü\u00fc\ud83d\ude00\ud83d", "@t": "at", "": "empty", "": "second", "e": {"": {"": 1}},
  "k\u0065y": "escaped key", "dup": "first", "dup": "second", "deep": [[1,[2,{"a":[{"b":"c"}]}]]],
  "0": "zero", "list": [10, {"0": "in"}, null, [] ]
}`

func TestDocumentFields(t *testing.T) {
	t.Parallel()
	cases := []struct{ path, want string }{
		{"kind", "Event"}, {"verb", "patch"}, {"user.username", "system:node"}, {"user.groups.0", "system:nodes"},
		{"user.groups.1", "system:authenticated"},
		{"user.groups.2", none}, {"user.groups.01", none}, {"user.groups.-1", none},
		{"user.groups", `["system:nodes", "system:authenticated"]`}, {"user.extra", "{}"}, {"user.extra.a", none},
		{"objectRef.name", "aws-node"}, {"objectref.name", none},
		{"objectRef", `{"name": "aws-node", "resource": "daemonsets"}`}, {"objectRef.name.x", none},
		{"labels.app.kubernetes.io/name", "dns"}, {"labels.app.kubernetes.other", "1"},
		{"a.b", "1"}, {"a.c", "3"}, {"x.y.z", "1"}, {"x.y.w", "2"}, {"x.y", `{"z": 1}`},
		{"id", "18446744073709551615"}, {"small", "-0.50"}, {"big", "1e400"}, {"yes", "1"}, {"no", "0"},
		{"nothing", none},
		{"text", "tab\tquote\"slash/üü😀\ufffd"}, {"@@t", "at"}, {"@t", "at"}, {"", "empty"}, {"e..", "1"},
		{"e.", `{"": 1}`}, {"key", "escaped key"}, {"dup", "first"},
		{"deep.0.1.1.a.0.b", "c"}, {"deep.0.0", "1"}, {"0", "zero"}, {"list.0", "10"}, {"list.1.0", "in"},
		{"list.2", none}, {"list.3", "[]"}, {"list.3.0", none}, {"list.4", none},
		{"absent", none}, {".", none}, {"..", none}, {"kind.", none}, {strings.Repeat("a.", 100), none},
	}
	var paths []*Path
	for _, c := range cases {
		paths = append(paths, ParsePath(c.path))
	}
	d := NewDocument(paths...)
	for range 2 { // it is reused
		if !d.Parse([]byte(event)) {
			t.Fatal("not JSON")
		}
		for i, c := range cases {
			if c.path == "@t" {
				continue
			}
			got := none
			if v := d.At(i); !v.IsNull() {
				got = v.String()
			}
			if got != c.want {
				t.Errorf("At: %s is %q, not %q", c.path, got, c.want)
			}
			alone := none
			if v := d.Field(paths[i]); !v.IsNull() {
				alone = v.String()
			}
			if alone != got {
				t.Errorf("Field: %s is %q, At says %q", c.path, alone, got)
			}
		}
	}
	for _, bad := range []string{
		``, ` `, `x`, `[1]`, `"x"`, `5`, `null`, `{`, `}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`,
		`{"a":1}x`, `x{"a":1}`, `INFO {"a":1}`, `{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":1e}`, `{"a":-}`,
		`{"a":tru}`, `{"a":truex}`, `{"a":"x}`, "{\"a\":\"x\ny\"}", `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u123g"}`,
		`{"a":[1,]}`, `{"a":[1}`, `{"a":[}`, `{"a":{}`, `{'a':1}`, `{a:1}`, `{"a":1}{"b":2}`, `{"a":"\`, `{"a":nan}`,
		`{"a":1}` + "\x00",
	} {
		if d.Parse([]byte(bad)) {
			t.Errorf("%s is JSON to us", bad)
		}
		for i := range cases {
			if v := d.At(i); !v.IsNull() {
				t.Errorf("%s has a field: %s", bad, v)
			}
		}
		if v := d.Field(paths[0]); !v.IsNull() {
			t.Errorf("%s has a field: %s", bad, v)
		}
		for path := range d.Each {
			t.Errorf("%s has a field %s", bad, path)
		}
	}
}

func TestDocumentDepthIsBounded(t *testing.T) {
	t.Parallel()
	deep := func(n int, open, inner, shut string) []byte {
		return []byte(`{"a":` + strings.Repeat(open, n) + inner + strings.Repeat(shut, n) + `}`)
	}
	d := NewDocument(ParsePath("a.0.0"), ParsePath("b"))
	if !d.Parse(deep(maxDepth-2, "[", "1", "]")) || d.At(0).Kind() != ListKind {
		t.Error("the deepest document is refused")
	}
	for name, message := range map[string][]byte{
		"arrays": deep(maxDepth-1, "[", "1", "]"), "objects": deep(maxDepth, `{"a":`, "1", "}"),
		"many arrays": deep(1<<20, "[", "", "]"), "many objects": deep(1<<18, `{"a":`, "1", "}"),
		"unclosed": deep(1<<20, "[", "", ""),
	} {
		for _, d := range []*Document{d, NewDocument(), NewDocument(ParsePath(strings.Repeat("a.", 60) + "a")),
			NewDocument(ParsePath("a" + strings.Repeat(".0", 60)))} {
			if d.Parse(message) {
				t.Errorf("%s: accepted", name)
			}
		}
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	var d Document
	if !d.Parse(
		[]byte(`{"a":{"b":[1,{"c":"x"},[],{},null]},"@t":true,"n":null,"e":{"":2},"k.l":{"m":"\u00fc"},"":{"x":1}}`)) {
		t.Fatal("not JSON")
	}
	var got []string
	for path, v := range d.Each {
		got = append(got, path+"="+v.String())
	}
	want := []string{"a.b.0=1", "a.b.1.c=x", "@@t=1", "e.=2", "k.l.m=ü", ".x=1"}
	if !slices.Equal(got, want) {
		t.Errorf("discovered %q, not %q", got, want)
	}
	n := 0
	for range d.Each {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("stopped after %d", n)
	}
}

func TestDocumentAllocatesNothing(t *testing.T) {
	events := auditEvents(t)
	var paths []*Path
	for _, p := range append(auditPaths, "user.groups.0", "requestObject.metadata.labels.app.kubernetes.io/name",
		"requestURI") {
		paths = append(paths, ParsePath(p))
	}
	d := NewDocument(paths...)
	read := func() {
		for _, e := range events {
			if !d.Parse(e) {
				t.Fatal("not JSON")
			}
			for i := range paths {
				d.At(i)
			}
		}
	}
	read()
	if n := testing.AllocsPerRun(10, read); n > 0 {
		t.Errorf("%v allocations for %d events", n, len(events))
	}
}

// node is JSON as encoding/json reads it, with the order and the duplicates that we have rules for.
type node struct {
	kind     Kind
	scalar   any
	keys     []string
	children []*node
}

func readNode(d *json.Decoder) (*node, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return &node{scalar: tok}, nil
	}
	n := &node{kind: ListKind}
	if delim == '{' {
		n.kind = MapKind
	}
	for d.More() {
		key := strconv.Itoa(len(n.keys))
		if n.kind == MapKind {
			tok, err := d.Token()
			if err != nil {
				return nil, err
			}
			key = tok.(string)
		}
		child, err := readNode(d)
		if err != nil {
			return nil, err
		}
		n.keys, n.children = append(n.keys, key), append(n.children, child)
	}
	_, err = d.Token()
	return n, err
}

// find is the slow and obvious way to resolve a path: the longest key first, with backtracking.
func (n *node) find(parts []string) *node {
	for take := len(parts); take > 0; take-- {
		key := strings.Join(parts[:take], ".")
		i := slices.Index(n.keys, key)
		if i < 0 {
			continue
		}
		if take == len(parts) {
			return n.children[i]
		}
		if found := n.children[i].find(parts[take:]); found != nil {
			return found
		}
	}
	return nil
}

// paths are all ways to name what is in n.
func (n *node) paths(prefix string, root bool, yield func(string)) {
	for i, key := range n.keys {
		path := key
		if !root {
			path = prefix + "." + key
		}
		yield(path)
		n.children[i].paths(path, false, yield)
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(event), "a.b")
	f.Add([]byte(`{"a.b":{"c":1},"a":{"b":{"c":2},"b.c":3}}`), "a.b.c")
	f.Add([]byte(`{"a":1,"a":{"b":2}}`), "a.b")
	f.Add([]byte(`{"":{"":[0]},".":1,"..":2}`), "..")
	f.Add([]byte(`{"a":"\ud800\udc00\u0000\ud800x","\u0061.b":[[]]}`), "a.b.0")
	f.Add([]byte("{\"a\":\"\xff\"}"), "a")
	for _, e := range auditEvents(f)[:5] {
		f.Add(e, "user.groups.0")
	}
	f.Fuzz(func(t *testing.T, message []byte, path string) {
		var d Document
		ok := d.Parse(message)
		trimmed := bytes.TrimLeft(message, " \t\r\n")
		isObject := len(trimmed) > 0 && trimmed[0] == '{'
		if valid := json.Valid(message); ok != (valid && isObject) {
			if valid && isObject && strings.Count(string(message), "[")+strings.Count(string(message),
				"{") >= maxDepth {
				return // nested too deeply for us
			}
			t.Fatalf("Parse says %v, encoding/json %v", ok, valid)
		}
		if !ok || !utf8.Valid(message) { // encoding/json replaces bytes that are no UTF-8, we keep them
			return
		}
		dec := json.NewDecoder(bytes.NewReader(message))
		dec.UseNumber()
		root, err := readNode(dec)
		if err != nil {
			t.Fatal(err)
		}
		check := func(path string) {
			if strings.HasPrefix(path, "@@") || strings.Count(path, ".") >= 64 || !utf8.ValidString(path) {
				return
			}
			want := root.find(strings.Split(path, "."))
			fixed := NewDocument(ParsePath("a"), ParsePath(path), ParsePath("a.b"))
			if !fixed.Parse(message) {
				t.Fatal("not JSON any more")
			}
			for _, got := range []Value{d.Field(ParsePath(path)), fixed.At(1), FromJSON(message).Get(ParsePath(path))} {
				compareNode(t, path, got, want)
			}
		}
		check(path)
		n := 0
		root.paths("", true, func(path string) {
			if n++; n <= 50 {
				check(path)
			}
		})
		// Whatever is discovered is found again, as the same or as a field of the same name.
		for path, v := range d.Each {
			if got := d.Field(ParsePath(path)); got.IsNull() && utf8.ValidString(path) &&
				strings.Count(path, ".") < 64 && len(root.duplicates()) == 0 {
				// A null may hide it: {"a.b":null,"a":{"b":1}}.
				if want := root.find(strings.Split(strings.TrimPrefix(path, "@"), ".")); want == nil ||
					want.kind != Null || want.scalar != nil {
					t.Fatalf("%q was discovered as %q and is not found", path, v)
				}
			}
		}
	})
}

func (n *node) duplicates() (all []string) {
	seen := map[string]bool{}
	for i, key := range n.keys {
		if seen[key] {
			all = append(all, key)
		}
		seen[key] = true
		all = append(all, n.children[i].duplicates()...)
	}
	return all
}

func compareNode(t *testing.T, path string, got Value, want *node) {
	t.Helper()
	switch {
	case want == nil || want.kind == Null && want.scalar == nil:
		if !got.IsNull() {
			t.Fatalf("%q is %q, encoding/json finds none", path, got)
		}
	case want.kind != Null:
		if got.Kind() != want.kind {
			t.Fatalf("%q is a %v, not a %v", path, got.Kind(), want.kind)
		}
		n := 0
		for key, e := range got.Elements {
			if n >= len(want.keys) || key != want.keys[n] {
				t.Fatalf("%q has the key %q", path, key)
			}
			compareNode(t, path+"."+key, e, want.children[n])
			n++
		}
		if n != len(want.keys) {
			t.Fatalf("%q has %d elements, not %d", path, n, len(want.keys))
		}
	default:
		text := fmt.Sprint(want.scalar)
		if b, ok := want.scalar.(bool); ok {
			text = Bool(b).String()
		}
		if got.String() != text {
			t.Fatalf("%q is %q, encoding/json says %q", path, got, text)
		}
	}
}
