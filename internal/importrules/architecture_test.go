package importrules

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

var code = regexp.MustCompile("`([^`]+)`")

// firstColumn returns what stands as code in the first column of the table below a heading of ARCHITECTURE.md, with
// "a/{b,c}" as "a/b" and "a/c".
func firstColumn(t *testing.T, heading string) (names []string) {
	t.Helper()
	content, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("ARCHITECTURE.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, match := range code.FindAllStringSubmatch(cells[1], -1) {
			prefix, list, braces := strings.Cut(match[1], "{")
			if !braces {
				names = append(names, match[1])
				continue
			}
			for name := range strings.SplitSeq(strings.TrimSuffix(list, "}"), ",") {
				names = append(names, prefix+name)
			}
		}
	}
	return names
}

// TestEveryPackageIsDescribed requires the directory of each rule in ARCHITECTURE.md, or that of a rule above it.
func TestEveryPackageIsDescribed(t *testing.T) {
	t.Parallel()
	described := make(map[string]bool)
	for _, name := range firstColumn(t, "The packages") {
		described[name] = true
		if _, err := os.Stat("../../" + name); err != nil {
			t.Errorf("ARCHITECTURE.md describes a package that does not exist: %v", err)
		}
	}
	for _, r := range Rules {
		parent := slices.ContainsFunc(Rules, func(o Rule) bool { return o.Dir != r.Dir && isWithinPath(o.Dir, r.Dir) })
		if !described[r.Dir] && !parent {
			t.Errorf("the table of packages in ARCHITECTURE.md lacks %s: say in a line what it is for", r.Dir)
		}
	}
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// TestEveryLibraryHasAReason requires each module that go.mod requires directly in ARCHITECTURE.md: itself, what it is
// a part of, or a package of it.
func TestEveryLibraryHasAReason(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	module, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		t.Fatal(err)
	}
	libraries := firstColumn(t, "Libraries, and why")
	for _, required := range module.Require {
		if required.Indirect {
			continue
		}
		name := strings.TrimPrefix(required.Mod.Path, "github.com/")
		if majorVersion.MatchString(path.Base(name)) {
			name = path.Dir(name)
		}
		named := false
		for _, library := range libraries {
			named = named || isWithinPath(name, library) || isWithinPath(library, name)
		}
		if !named {
			t.Errorf("the table of libraries in ARCHITECTURE.md lacks %s: say in a line why we use it", name)
		}
	}
}

// TestTheCodeIsFound follows the ways of "Find the code" in CONTRIBUTING.md: the files and directories of each exist,
// and have the functions that it names.
func TestTheCodeIsFound(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## Find the code\n")
	section, _, _ = strings.Cut(section, "\n## ")
	ways := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[2], "`") {
			continue
		}
		ways++
		var source strings.Builder
		var functions []string
		dir := ""
		for _, match := range code.FindAllStringSubmatch(cells[2], -1) {
			name := match[1]
			if !strings.ContainsAny(name, "/.") {
				functions = append(functions, name)
				continue
			}
			if !strings.Contains(name, "/") {
				name = path.Join(dir, name) // a file of the directory that was named before
			}
			info, err := os.Stat("../../" + name)
			if err != nil {
				t.Errorf("CONTRIBUTING.md leads to what does not exist: %v", err)
				continue
			}
			if info.IsDir() {
				dir = name
				continue
			}
			file, err := os.ReadFile("../../" + name)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(file)
		}
		for _, name := range functions {
			if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `\(`).MatchString(source.String()) {
				t.Errorf("CONTRIBUTING.md leads to a function %s, which none of the files has that the line names", name)
			}
		}
	}
	if ways < 3 {
		t.Errorf("CONTRIBUTING.md has %d ways to the code, want three or more", ways)
	}
}
