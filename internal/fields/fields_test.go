package fields_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/coracle-eks/coracle/internal/fields"
)

var update = flag.Bool("update", false, "write the golden files")

func load(t testing.TB, name string) map[string]any {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := utiljson.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// golden compares with a file of testdata.
func golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (go test ./internal/fields -update writes it): -want +got\n%s", file, diff)
	}
}

const envPath = `.spec.template.spec.containers[name="aws-node"].env[name="ENABLE_PREFIX_DELEGATION"].value`

// answer returns the daemon's answer about aws-node, with a plan for its update when conflicts says how to resolve
// them.
func answer(t testing.TB, file, conflicts string) fields.Answer {
	a := fields.Answer{Cluster: "dev", Account: "111122223333", Region: "eu-west-1", Resource: "daemonset",
		Namespace: "kube-system", Name: "aws-node",
		Content: load(t, file), Addon: &fields.Addon{Name: "vpc-cni", Version: "v1.20.4-eksbuild.1"}}
	if conflicts == "" {
		return a
	}
	node := fields.Planned{Resource: "daemonset", APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: "kube-system",
		Name: "aws-node",
		Live: a.Content, Wanted: load(t, "wanted.json"),
		Conflicts: []fields.Conflict{{Manager: "kubectl-set", Path: envPath}}}
	switch conflicts {
	case "OVERWRITE":
		node.Result = load(t, "forced.json")
	case "PRESERVE":
		node.Result, node.Kept = load(t, "live.json"), []string{envPath}
	}
	account := map[string]any{"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"name": "aws-node", "namespace": "kube-system"}}
	a.Plan = &fields.Plan{Request: "update-addon", Addon: "vpc-cni", From: "v1.20.4-eksbuild.1",
		Version: "v1.21.1-eksbuild.1", Conflicts: conflicts, Objects: []fields.Planned{
			node,
			{Resource: "serviceaccount", APIVersion: "v1", Kind: "ServiceAccount", Namespace: "kube-system",
				Name: "aws-node", Live: account, Result: account, Wanted: account},
			{Resource: "configmap", APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system",
				Name:   "amazon-vpc-cni",
				Wanted: account, Result: account},
			{Resource: "clusterrole", APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "old",
				Live: account},
		}}
	return a
}

func show(t testing.TB, a fields.Answer, s fields.Style) string {
	t.Helper()
	var b bytes.Buffer
	if err := fields.Print(&b, a, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var pages = []struct{ golden, file, conflicts string }{
	{"live.txt", "live.json", ""},
	{"later.txt", "later.json", ""},
	{"none.txt", "live.json", "NONE"},
	{"overwrite.txt", "live.json", "OVERWRITE"},
	{"preserve.txt", "live.json", "PRESERVE"},
}

func TestPages(t *testing.T) {
	t.Parallel()
	for _, p := range pages {
		golden(t, p.golden, show(t, answer(t, p.file, p.conflicts), fields.Style{}))
	}
	golden(t, "wide.txt", show(t, answer(t, "later.json", ""), fields.Style{All: true, Width: 120}))
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestWidth prints every page in every width: no line is longer, and colors change nothing but colors.
func TestWidth(t *testing.T) {
	t.Parallel()
	for _, p := range pages {
		for _, width := range []int{60, 80, 100, 200} {
			out := show(t, answer(t, p.file, p.conflicts), fields.Style{Width: width})
			for line := range strings.Lines(out) {
				line = strings.TrimSuffix(line, "\n")
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%s: a line of %d columns in %d:\n%s", p.golden, n, width, line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("%s in %d columns: %q ends with a space", p.golden, width, line)
				}
			}
			colored := show(t, answer(t, p.file, p.conflicts), fields.Style{Width: width, Color: true})
			if diff := cmp.Diff(out, escapes.ReplaceAllString(colored, "")); diff != "" || out == colored {
				t.Errorf("%s in %d columns: with colors the text is another:\n%s", p.golden, width, diff)
			}
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := fields.PrintJSON(&b, answer(t, "live.json", "OVERWRITE"), false); err != nil {
		t.Fatal(err)
	}
	golden(t, "overwrite.json.txt", b.String())
	var read map[string]any
	if err := json.Unmarshal(b.Bytes(), &read); err != nil {
		t.Error(err)
	}
}

// TestHowMuchEKSManages follows the definitions of the user guide.
// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-field-management.html
func TestHowMuchEKSManages(t *testing.T) {
	t.Parallel()
	const eks = `{"f:data":{"f:Corefile":{}},"f:metadata":{"f:labels":{"f:k8s-app":{}}},"f:spec":{"f:args":{},"f:selector":{},"f:empty":{},
		"f:containers":{"k:{\"name\":\"coredns\"}":{".":{},"f:name":{},"f:image":{},"f:env":{"k:{\"name\":\"MTU\"}":{".":{},"f:name":{}}}},
			"k:{\"name\":\"side\"}":{".":{},"f:name":{},"f:image":{}}}}}`
	const user = `{"f:metadata":{"f:annotations":{".":{},"f:team":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"coredns\"}":{"f:env":{"k:{\"name\":\"MTU\"}":{"f:value":{}},
		"k:{\"name\":\"MINE\"}":{".":{},"f:name":{},"f:value":{}}},"f:resources":{"f:limits":{"f:cpu":{}}}}}}}`
	var content map[string]any
	err := utiljson.Unmarshal(
		[]byte(`{"metadata":{"labels":{"k8s-app":"kube-dns"},"annotations":{"team":"blue"},"uid":"1","managedFields":[
			{"manager":"me","operation":"Update","fieldsType":"FieldsV1","fieldsV1":`+user+`,"time":"2026-11-21T10:00:00Z"},
			{"manager":"eks","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":`+eks+`}]},
		"data":{"Corefile":"x"},
		"spec":{"args":["-a","-b"],"selector":{"matchLabels":{"a":"b"}},"empty":{},"replicas":2,"containers":[
			{"name":"coredns","image":"i","env":[{"name":"MTU","value":"9001"},{"name":"MINE","value":"1"}],"resources":{"limits":{"cpu":"1"}}},
			{"name":"side","image":"i"}]}}`), &content)
	if err != nil {
		t.Fatal(err)
	}
	o, err := fields.Read(content)
	if err != nil {
		t.Fatal(err)
	}
	if o.Managers[0].Name != fields.EKS {
		t.Errorf("the first manager is %s", o.Managers[0].Name)
	}
	got := map[string]string{}
	var visit func(*fields.Field)
	visit = func(f *fields.Field) {
		got[f.Path] = strings.TrimSpace(string(f.Managed) + " " + strings.Join(f.Owners, ","))
		for _, child := range f.Fields {
			visit(child)
		}
	}
	visit(o.Tree(false))
	for path, want := range map[string]string{
		"":                                     "partly",
		".data":                                "fully",
		".data.Corefile":                       "fully eks",
		".metadata":                            "partly",
		".metadata.labels":                     "fully",
		".metadata.annotations":                "me",
		".metadata.annotations.team":           "me",
		".spec":                                "partly",
		".spec.args":                           "fully eks",
		".spec.args[1]":                        "fully eks", // a part of what is atomic
		".spec.selector":                       "fully eks",
		".spec.selector.matchLabels.a":         "fully eks",
		".spec.empty":                          "fully eks",
		".spec.replicas":                       "",
		".spec.containers":                     "partly", // others may add containers
		`.spec.containers[name="side"]`:        "fully eks",
		`.spec.containers[name="coredns"]`:     "partly eks",
		`.spec.containers[name="coredns"].env`: "partly",
		`.spec.containers[name="coredns"].env[name="MTU"]`:       "partly eks",
		`.spec.containers[name="coredns"].env[name="MTU"].name`:  "fully eks",
		`.spec.containers[name="coredns"].env[name="MTU"].value`: "me",
		`.spec.containers[name="coredns"].env[name="MINE"]`:      "me",
		`.spec.containers[name="coredns"].resources`:             "",
	} {
		if have, ok := got[path]; !ok || have != want {
			t.Errorf("%s: %q (there: %v), want %q", path, have, ok, want)
		}
	}
	if _, ok := got[".metadata.uid"]; ok {
		t.Error("what the API server keeps for itself is shown")
	}
}

func TestAFieldOfMoreThanOneManagerNamesAll(t *testing.T) {
	t.Parallel()
	content := load(t, "live.json")
	meta := content["metadata"].(map[string]any)
	entries := meta["managedFields"].([]any)
	var again map[string]any
	for _, e := range entries {
		if m := e.(map[string]any); m["manager"] == "eks" {
			again = map[string]any{}
			for k, v := range m {
				again[k] = v
			}
		}
	}
	again["operation"] = "Update"
	meta["managedFields"] = append(entries, again)
	out := show(t, fields.Answer{Resource: "daemonset", Name: "aws-node", Content: content}, fields.Style{})
	if !strings.Contains(out, "eks (apply), eks (update)") {
		t.Errorf("two entries of one manager are not told apart:\n%s", out)
	}
}

func TestBrokenManagedFields(t *testing.T) {
	t.Parallel()
	_, err := fields.Read(map[string]any{"metadata": map[string]any{"managedFields": []any{
		map[string]any{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"what": map[string]any{}}},
	}}})
	if err == nil || !strings.Contains(err.Error(), "manager x") {
		t.Errorf("%v", err)
	}
}

func FuzzRead(f *testing.F) {
	// Small, for the fuzzer tries to make what it finds smaller before anything else.
	f.Add([]byte(
		`{"metadata":{"managedFields":[{"manager":"eks","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":{"f:a":{"k:{\"name\":\"x\"}":{".":{},"f:name":{}}},"f:s":{"v:1":{}}}}]},"a":[{"name":"x","b":"l\nm"}],"s":[1]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var content map[string]any
		if utiljson.Unmarshal(b, &content) != nil {
			t.Skip()
		}
		a := fields.Answer{Resource: "thing", Content: content}
		for _, s := range []fields.Style{{}, {Width: 60, Color: true, All: true}} {
			_ = fields.Print(&bytes.Buffer{}, a, s) // an error is fine
		}
	})
}

// TestNamesOfManagersDoNotMoveTheCursor prints a manager's name that a terminal would obey.
func TestNamesOfManagersDoNotMoveTheCursor(t *testing.T) {
	t.Parallel()
	a := answer(t, "live.json", "")
	text, err := json.Marshal(a.Content)
	if err != nil {
		t.Fatal(err)
	}
	a.Content = nil
	evil := bytes.ReplaceAll(text, []byte(`"manager":"kubectl-set"`), []byte(`"manager":"\u001b[2J\u202e`+
		strings.Repeat("x", 100)+`"`))
	if bytes.Equal(evil, text) {
		t.Fatal("there is no such manager")
	}
	if err := utiljson.Unmarshal(evil, &a.Content); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{0, 60, 120} {
		out := show(t, a, fields.Style{All: true, Width: width})
		if strings.ContainsAny(out, "\x1b\u202e") || !strings.Contains(out, `\u001b[2J`) {
			t.Errorf("in %d columns:\n%q", width, out)
		}
	}
}
