package upstream

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/catalog"
)

// goCmpSum pins the published module that the tests build a component from.
const goCmpSum = "h1:wk8382ETsv4JYUZwIsn6YpYiWiBsYLSJiTsyBybVuN8="

// greeter returns a small component: a program that is added to a published module, and uses a package that only that
// module may use.
func greeter() catalog.Build {
	return catalog.Build{
		Component: "test/greeter", Module: "github.com/google/go-cmp", Version: "v0.7.0", Sum: goCmpSum,
		Programs: map[string]string{"greeter": "./cmp/cmd/greeter"},
		Files: map[string][]byte{"cmp/cmd/greeter/main.go": []byte(`package main

import "github.com/google/go-cmp/cmp/internal/flags"

var greeting = "unstamped"

func main() { println(greeting, flags.Deterministic) }
`)},
		Stamps: map[string]string{"main.greeting": "ahoy"},
		Data: map[string]catalog.Data{
			"license": {Module: "github.com/google/go-cmp", Version: "v0.7.0", Sum: goCmpSum, Path: "LICENSE"},
		},
	}
}

func TestComponentIsBuiltFromItsModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, b := ComponentsIn(dir), greeter()
	if _, err := c.Path(b, "greeter"); !errors.Is(err, ErrNotBuilt) {
		t.Fatalf("before it is built: %v", err)
	}
	var steps []string
	if err := c.Ensure(t.Context(), b, func(p Progress) { steps = append(steps, p.String()) }); err != nil {
		t.Fatal(err)
	}
	path, err := c.Path(b, "greeter")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "components/test/greeter/v0.7.0/greeter"); path != want {
		t.Errorf("it is %s, want %s", path, want)
	}
	if len(steps) == 0 || !strings.HasPrefix(steps[0], "test/greeter v0.7.0: ") {
		t.Errorf("the steps are %q", steps)
	}
	output, err := exec.CommandContext(t.Context(), path).CombinedOutput()
	if err != nil || strings.TrimSpace(string(output)) != "ahoy false" {
		t.Errorf("it says %q, %v", output, err)
	}
	if license, err := c.Data(b, "license"); err != nil || !strings.Contains(string(license), "The Go Authors") {
		t.Errorf("its data: %.40q, %v", license, err)
	}
	if _, err := c.Data(b, "missing"); err == nil || !strings.Contains(err.Error(), `no data "missing"`) {
		t.Errorf("data that it has not: %v", err)
	}

	t.Run("what is made of something else is built anew", func(t *testing.T) {
		b.Stamps = map[string]string{"main.greeting": "farewell"}
		if _, err := c.Path(b, "greeter"); !errors.Is(err, ErrNotBuilt) {
			t.Fatalf("before it is built: %v", err)
		}
		if err := c.Ensure(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
		output, err := exec.CommandContext(t.Context(), path).CombinedOutput()
		if err != nil || strings.TrimSpace(string(output)) != "farewell false" {
			t.Errorf("it says %q, %v", output, err)
		}
	})
}

func TestComponentThatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*catalog.Build)
		want   string
	}{
		"another sum": {
			func(b *catalog.Build) {
				b.Sum = "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
				b.Data = nil
			},
			"its sum is h1:wk8382ETsv4JYUZwIsn6YpYiWiBsYLSJiTsyBybVuN8=, and not h1:AAAA",
		},
		"a module that nobody publishes": {
			func(b *catalog.Build) {
				b.Module = "coracle.invalid/nothing"
				b.Data = nil
			},
			"download coracle.invalid/nothing@v0.7.0: ",
		},
		"a program that does not compile": {
			func(b *catalog.Build) {
				b.Files["cmp/cmd/greeter/main.go"] = []byte("package main\n\nfunc main() { undefined() }\n")
			},
			"undefined: undefined",
		},
		"a file of data that the module has not": {
			func(b *catalog.Build) {
				d := b.Data["license"]
				d.Path = "crds"
				b.Data["license"] = d
			},
			"license of test/greeter v0.7.0: ",
		},
		"a module that nodes do not use": {
			func(b *catalog.Build) { b.InNode, b.Module = true, "example.com/other" },
			"does not require example.com/other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c, b := ComponentsIn(dir), greeter()
			test.change(&b)
			if err := c.Ensure(t.Context(), b, nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "components/test/greeter/v0.7.0/[^.]*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestComponentWithoutGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	c, b := ComponentsIn(t.TempDir()), greeter()
	const want = "there is no go command on the PATH: install Go"
	if err := c.Ensure(t.Context(), b, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	b.Data = nil
	if err := c.Ensure(t.Context(), b, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

func TestYAMLFilesOfADirectoryAreJoined(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.yaml": "kind: B\n", "a.yml": "kind: A", "README.md": "no", "kustomization.yaml": "resources: []",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readData(dir); err != nil || string(got) != "kind: A\n---\nkind: B\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := readData(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no YAML files") {
		t.Errorf("of an empty directory: %v", err)
	}
}
