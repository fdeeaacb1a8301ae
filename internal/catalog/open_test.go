package catalog

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// own returns a small entry of a user.
func own() map[string]string {
	return map[string]string{
		"addon.yaml": `name: echo
type: example
owner: us
publisher: our team
namespace: echo
kubernetes: ["1.35"]
marketplace: {productId: prod-1, productUrl: "https://example.com/echo"}
identities: [{serviceAccount: echo, podIdentity: true}]
manifests: [echo.yaml]
defaults: defaults.yaml
schema: schema.json
yields: {Deployment/echo: [.spec.replicas]}
images:
  echo: {repository: registry.example.com/echo}
versions:
  - {version: v1.1.0, default: ["1.35"]}
  - {version: v1.0.0, kubernetes: ["1.34", "1.35"]}
`,
		"defaults.yaml": "replicas: 1\n",
		"schema.json":   `{"type": "object", "additionalProperties": false, "properties": {"replicas": {"type": "integer"}}}`,
		"echo.yaml": `apiVersion: v1
kind: ServiceAccount
metadata: {name: echo, namespace: {{.Namespace}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo, namespace: {{.Namespace}}}
spec:
  replicas: {{.Config.replicas}}
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec: {serviceAccountName: echo, containers: [{name: echo, image: {{image "echo"}}}]}
`,
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPrivateAddons(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "addons") // which is not there yet
	var log bytes.Buffer
	c, err := Open(Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	before := len(c.Addons())
	if _, found := c.Addon("echo"); found || before == 0 {
		t.Fatal("it is there already", before)
	}

	write(t, filepath.Join(dir, "echo"), own())
	a, found := c.Addon("echo")
	if !found || len(c.Addons()) != before+1 {
		t.Fatalf("it was not seen: %s", log.String())
	}
	if !a.Private || a.Owner != "us" || a.Publisher != "our team" || a.Marketplace == nil ||
		*a.Marketplace.ProductId != "prod-1" || len(a.Versions) != 2 || a.Versions[0].Version != "v1.1.0" {
		t.Errorf("%+v", a)
	}
	if v, found := a.Default("1.35"); !found || v.Version != "v1.1.0" || v.Serves("1.34") {
		t.Errorf("default version %+v", v)
	}
	s := exampleOptions("1.35")
	s.Config.Namespace, s.Config.ServiceAccountRoleARN = "elsewhere", "arn:aws:iam::111122223333:role/echo"
	objects, err := a.Versions[0].Render(s)
	if err != nil || len(objects) != 3 {
		t.Fatal(objects, err)
	}
	if o := objects[0]; o.GetKind() != "Namespace" || o.GetName() != "elsewhere" {
		t.Errorf("the first object is %v", o.Object)
	}
	if o := objects[1]; o.GetNamespace() != "elsewhere" ||
		o.GetAnnotations()["eks.amazonaws.com/role-arn"] != s.Config.ServiceAccountRoleARN {
		t.Errorf("the service account is %v", o.Object)
	}
	if i := a.Versions[0].Images("eu-west-1", "1.35"); len(i) != 1 ||
		i[0].Reference != "registry.example.com/echo:v1.1.0" || i[0].Build != nil {
		t.Errorf("images %+v", i)
	}
	if err := a.Versions[0].Check(t.Context(), `{"replicas":"many"}`); err == nil {
		t.Error("its schema is not heeded")
	}

	// A broken one is left out, said once, and comes back when it is mended.
	broken := own()
	broken["echo.yaml"] = strings.Replace(broken["echo.yaml"], "{{.Config.replicas}}", "{{.Config.replica}}", 1)
	write(t, filepath.Join(dir, "echo"), broken)
	for range 3 {
		if _, found := c.Addon("echo"); found {
			t.Fatal("a broken entry is served")
		}
	}
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "echo/echo.yaml:9") ||
		!strings.Contains(text, `no entry for key \"replica\"`) {
		t.Errorf("the log says\n%s", text)
	}
	write(t, filepath.Join(dir, "echo"), own())
	if _, found := c.Addon("echo"); !found {
		t.Fatal("the mended entry is not served")
	}

	// Neither EKS's names nor another's.
	taken := own()
	taken["addon.yaml"] = strings.Replace(taken["addon.yaml"], "name: echo", "name: coredns", 1)
	write(t, filepath.Join(dir, "mine"), taken)
	write(t, filepath.Join(dir, "other"), own())
	if a, _ := c.Addon("coredns"); a.Private || len(c.Addons()) != before+1 {
		t.Error("a name was taken")
	}
	if text := log.String(); !strings.Contains(text, "coredns is one of EKS's add-ons") || !strings.Contains(text,
		"echo is that of the add-on in echo") {
		t.Errorf("the log says\n%s", text)
	}
	if err := os.RemoveAll(filepath.Join(dir, "echo")); err != nil {
		t.Fatal(err)
	}
	if _, found := c.Addon("echo"); !found {
		t.Error("the name that has become free is not given to the other")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if len(c.Addons()) != before {
		t.Error("what was removed is still there")
	}
}

// An error names the file, and where in it.
func TestBrokenEntries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, old, new, want string }{
		"unknown field": {"addon.yaml", "owner: us", "ownr: us",
			"echo/addon.yaml: line 3: field ownr is not known here"},
		"wrong type": {"addon.yaml", "namespace: echo", "namespace: [echo]",
			"echo/addon.yaml: line 5: cannot unmarshal !!seq into string"},
		"no YAML": {"addon.yaml", "namespace: echo", "namespace: {echo",
			"echo/addon.yaml: line 4: did not find"},
		"no name":      {"addon.yaml", "name: echo", `name: ""`, `echo/addon.yaml: name: "" is not`},
		"bad name":     {"addon.yaml", "name: echo", `name: "a b"`, `echo/addon.yaml: name: "a b" is not`},
		"no namespace": {"addon.yaml", "namespace: echo\n", "", "echo/addon.yaml: namespace: "},
		"no versions":  {"addon.yaml", "versions:", "versions: []\nmore:", "field more is not known here"},
		"bad version": {"addon.yaml", "version: v1.0.0", "version: 1.0",
			`echo/addon.yaml: versions[1]: version: "1.0" is not of the form`},
		"version twice": {"addon.yaml", "version: v1.0.0", "version: v1.1.0",
			"echo/addon.yaml: versions[1].version: v1.1.0 is there twice"},
		"bad minor": {"addon.yaml", `kubernetes: ["1.35"]`, "kubernetes: [v1.35]",
			`echo/addon.yaml: versions[0]: kubernetes: "v1.35" is not a minor version`},
		"no minors": {"addon.yaml", `kubernetes: ["1.35"]` + "\n", "",
			"echo/addon.yaml: versions[0]: kubernetes: "},
		"default elsewhere": {"addon.yaml", `default: ["1.35"]`, `default: ["1.36"]`,
			`echo/addon.yaml: versions[0]: default: "1.36" is not among`},
		"two defaults": {"addon.yaml", `version: v1.0.0,`, `version: v1.0.0, default: ["1.35"],`,
			"echo/addon.yaml: versions[1].default: Kubernetes 1.35 has the default version v1.1.0 already"},
		"no such manifest": {"addon.yaml", "manifests: [echo.yaml]", "manifests: [ecco.yaml]",
			"echo/addon.yaml: versions[0]: manifests: openat ecco.yaml: no such file or directory"},
		"outside": {"addon.yaml", "manifests: [echo.yaml]", "manifests: [../../../etc/passwd]",
			"echo/addon.yaml: versions[0]: manifests: readfile ../../../etc/passwd: invalid argument"},
		"no manifests": {"addon.yaml", "manifests: [echo.yaml]\n", "",
			"echo/addon.yaml: versions[0]: manifests: there are none"},
		"no such image": {"echo.yaml", `image "echo"`, `image "eco"`,
			`there is no "eco" below images in addon.yaml`},
		"image unqualified": {"addon.yaml", "registry.example.com/echo", "echo",
			`echo/addon.yaml: images.echo: repository: "echo" has no registry`},
		"image version": {"addon.yaml", "version: v1.1.0,", "version: v1.1.0, images: {other: v1},",
			`echo/addon.yaml: versions[0]: images: there is no "other"`},
		"identity": {"addon.yaml", "serviceAccount: echo, ", "",
			"echo/addon.yaml: versions[0]: identities[0].serviceAccount: it is missing"},
		"pattern": {"addon.yaml", "[.spec.replicas]", "[spec.replicas]",
			`echo/addon.yaml: versions[0]: yields: Deployment/echo: "spec.replicas" does not begin with a .`},
		"template syntax": {"echo.yaml", "{{.Config.replicas}}", "{{.Config.replicas}", "echo/echo.yaml:9"},
		"no such value": {"echo.yaml", "{{.Config.replicas}}", "{{.Replicas}}",
			"echo/echo.yaml:9:14: there is no .Replicas"},
		"no YAML in manifest": {"echo.yaml", "kind: ServiceAccount", "kind: {", "echo/echo.yaml: document 1: "},
		"no kind": {"echo.yaml", "kind: ServiceAccount\n", "",
			"echo/echo.yaml: document 1: an object needs apiVersion, kind and metadata.name"},
		"field twice": {"echo.yaml", "kind: ServiceAccount", "kind: ServiceAccount\nkind: Pod",
			`echo/echo.yaml: document 1: `},
		"schema no JSON": {"schema.json", "{", "", "echo/addon.yaml: versions[0]: schema: echo/schema.json: "},
		"schema no schema": {"schema.json", `"integer"`, `"whole"`,
			"echo/addon.yaml: versions[0]: schema: echo/schema.json: "},
		"defaults no YAML": {"defaults.yaml", "replicas: 1", "replicas: {", "echo/defaults.yaml: "},
	} {
		files := maps.Clone(own())
		if !strings.Contains(files[test.file], test.old) {
			t.Fatalf("%s: %q is not there", name, test.old)
		}
		files[test.file] = strings.Replace(files[test.file], test.old, test.new, 1)
		dir := t.TempDir()
		write(t, filepath.Join(dir, "echo"), files)
		c := &Catalog{options: Options{Dir: dir}}
		if _, err := c.readOwn("echo"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, test.want)
		}
	}
}
