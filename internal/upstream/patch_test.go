package upstream

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/kubernetes"
)

// patchedPrinter returns the module of a program that prints what a required module says, which a patch changes.
func patchedPrinter(t *testing.T, patch kubernetes.Patch) module {
	t.Helper()
	return module{
		title: "printer", dir: "printer", version: "1", programs: map[string]string{"printer": "."},
		patches: []kubernetes.Patch{patch},
		files: map[string][]byte{
			"go.mod": []byte("module printer\n\ngo 1.24\n\nrequire github.com/google/go-cmp v0.7.0\n\n" +
				"replace github.com/google/go-cmp v0.7.0 => github.com/google/go-cmp v0.7.0\n"),
			"go.sum": []byte("github.com/google/go-cmp v0.7.0 " + goCmpSum + "\n" +
				"github.com/google/go-cmp v0.7.0/go.mod h1:pXiqmnSA92OHEEa9HXL2W4E7lf9JzCmGVUdgjX3N/iU=\n"),
			"main.go": []byte(`package main

import "github.com/google/go-cmp/cmp"

func main() { print(cmp.Equal(1, 2)) }
`),
		},
	}
}

// equal is a text of go-cmp.
const equal = "func Equal(x, y interface{}, opts ...Option) bool {\n"

func TestRequiredModulesArePatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := patchedPrinter(t, kubernetes.Patch{Module: "github.com/google/go-cmp", File: "cmp/compare.go", Old: equal,
		New: equal + "\tif len(opts) == 0 {\n\t\treturn true\n\t}\n"})
	path, err := newCacheIn(dir, EnvBundles).ensureBuilt(t.Context(), m.artifact(), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path).CombinedOutput()
	if err != nil || string(out) != "true" {
		t.Errorf("it prints %q, %v", out, err)
	}
	version, err := exec.CommandContext(t.Context(), "go", "version", "-m", path).Output()
	if err != nil || !strings.Contains(string(version), "=>\t./patched/github.com/google/go-cmp@v0.7.0") {
		t.Errorf("it says that it is built from %s, %v", version, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "printer", workPattern+"*")); err != nil || len(left) > 0 {
		t.Errorf("its sources are left: %v, %v", left, err)
	}
}

// TestPatchesThatDoNotFit: nothing is built without its patches.
func TestPatchesThatDoNotFit(t *testing.T) {
	t.Parallel()
	fits := kubernetes.Patch{Module: "github.com/google/go-cmp", File: "cmp/compare.go", Old: equal, New: equal}
	for want, change := range map[string]func(*module){
		"text to replace 0 times, not once": func(m *module) { m.patches[0].Old = "nowhere" },
		"text to replace 2 times, not once": func(m *module) {
			m.patches = append(m.patches, m.patches[0])
			m.patches[0].New += equal
		},
		"no such file":        func(m *module) { m.patches[0].File = "cmp/missing.go" },
		"copy example.com/no": func(m *module) { m.patches[0].Module = "example.com/no" },
	} {
		m := patchedPrinter(t, fits)
		change(&m)
		dir := t.TempDir()
		_, err := newCacheIn(dir, EnvBundles).ensureBuilt(t.Context(), m.artifact(), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "printer", "printer")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: it is built all the same: %v", want, err)
		}
	}
}

func TestPatchedModule(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{
		"./patched/k8s.io/client-go@v0.35.4": "k8s.io/client-go v0.35.4", "./other": "", "k8s.io/client-go": "",
	} {
		module, version, ok := PatchedModule(dir)
		if got := strings.TrimSpace(module + " " + version); got != want || ok != (want != "") {
			t.Errorf("%s is %q, %t", dir, got, ok)
		}
	}
}

// TestWhatHasClientsOfClustersOnTheHostIsPatched: whoever builds a bundle, or a component for the host, gets patches,
// and another version where they change.
func TestWhatHasClientsOfClustersOnTheHostIsPatched(t *testing.T) {
	t.Parallel()
	for _, v := range kubernetes.Versions() {
		if m, err := kubernetesModule(v.Minor); err != nil || len(m.patches) != len(kubernetes.HostPatches()) {
			t.Errorf("%s has %d patches, %v", v.Minor, len(m.patches), err)
		}
	}
	b := greeter()
	inMachines := componentVersion(b)
	if m, err := componentModule(b); err != nil || len(m.patches) > 0 {
		t.Errorf("what runs in machines has %d patches, %v", len(m.patches), err)
	}
	b.OnHost = true
	if m, err := componentModule(b); err != nil || len(m.patches) == 0 || m.version == inMachines {
		t.Errorf("what runs on the host has %d patches, and the version %s, %v", len(m.patches), m.version, err)
	}
}
