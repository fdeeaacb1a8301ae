package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Build is a component that is built from its Go module, at one version. Equal builds give equal programs.
type Build struct {
	Component string // "metrics-server"; one of a user's entry has the entry's name before it: "gatekeeper/manager"
	Module    string // "sigs.k8s.io/metrics-server"
	Version   string // "v0.9.0"
	Sum       string // "h1:...", of the module; its own go.sum says the rest
	// InNode builds it within the module of package node, whose libraries it shares, and not by its own go.mod: a tenth
	// of the work for another version of what runs on nodes anyway.
	InNode bool
	// OnHost says that it runs on the host and not in machines: what it asks a cluster is answered by the cluster's
	// administrators. See kubernetes.HostPatches.
	OnHost bool `json:",omitempty"` // the others keep the version that they had before there were any
	// Programs are the packages to build, by the name of the program: "./cmd/metrics-server".
	Programs map[string]string
	// Files are put into the copy of the module that is built, by path: programs that upstream keeps in modules which
	// are not published.
	Files map[string][]byte
	// Replace gives other modules in the form of a replace directive, "MODULE" to "MODULE@VERSION", where those of the
	// module lead outside of it.
	Replace map[string]string
	// Sums are lines of go.sum that Replace makes necessary.
	Sums []string
	Tags []string
	// Stamps are values of variables, as the linker's -X sets them.
	Stamps map[string]string
	// Data are the component's files of data, by name.
	Data map[string]Data
}

// Data is a file that comes with a module, or all YAML files of a directory of it, as one.
type Data struct {
	Module, Version, Sum string
	Path                 string // "deploy/crds", "config/crd/bases/x.yaml"
}

// componentEntry is a component as addon.yaml says it. In its strings "{version}" stands for the version.
type componentEntry struct {
	Module   string            `yaml:"module"`
	InNode   bool              `yaml:"inNode"`
	Programs map[string]string `yaml:"programs"`
	// Files are files of the entry's directory, by their path in the module.
	Files   map[string]string    `yaml:"files"`
	Replace map[string]string    `yaml:"replace"`
	Tags    []string             `yaml:"tags"`
	Stamps  map[string]string    `yaml:"stamps"`
	Data    map[string]dataEntry `yaml:"data"`
	// Versions are those that can be built, with what pins them.
	Versions map[string]pinEntry `yaml:"versions"`
}

// dataEntry is a file of data: of the component's module when Module is empty.
type dataEntry struct {
	Module string `yaml:"module"`
	Path   string `yaml:"path"`
}

// pinEntry pins a version of a component.
type pinEntry struct {
	Sum string `yaml:"sum"`
	// Others are the versions and sums of other modules, "v8.7.0 h1:...", which files of data and replacements come
	// from, at this version.
	Others map[string]string `yaml:"others"`
	// Sums are lines of go.sum.
	Sums []string `yaml:"sums"`
	// Version is the module's where it is not the component's; Files are those that this version has instead of the
	// component's.
	Version string            `yaml:"version"`
	Files   map[string]string `yaml:"files"`
}

// validate returns the problems of the section of a component.
func (c componentEntry) validate(read func(name string) ([]byte, error)) error {
	var wrong []error
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if c.Module == "" {
		add("module is missing: the path of the Go module, such as sigs.k8s.io/metrics-server")
	}
	if len(c.Versions) == 0 {
		add("versions is empty: it names each version that can be built, with its sum")
	}
	for version, pin := range c.Versions {
		if !strings.HasPrefix(pin.Sum, "h1:") {
			add("versions.%s.sum: %q is not a sum as go.sum has it, h1:...=", version, pin.Sum)
		}
		for module, other := range pin.Others {
			if v, sum, ok := strings.Cut(other, " "); !ok || !strings.HasPrefix(v, "v") || !strings.HasPrefix(sum,
				"h1:") {
				add(`versions.%s.others.%s: %q is not "VERSION h1:..."`, version, module, other)
			}
		}
		for name, data := range c.Data {
			if data.Module != "" && pin.Others[data.Module] == "" {
				add("versions.%s.others lacks %s, which data.%s comes from", version, data.Module, name)
			}
		}
	}
	files := func(prefix string, files map[string]string) {
		for to, name := range files {
			if !isLocal(to) {
				add("%sfiles.%s: not a path in the module", prefix, to)
			}
			if _, err := read(name); err != nil {
				add("%sfiles.%s: %w", prefix, to, err)
			}
		}
	}
	files("", c.Files)
	for version, pin := range c.Versions {
		files("versions."+version+".", pin.Files)
	}
	for name, data := range c.Data {
		if data.Path == "" || !isLocal(data.Path) {
			add("data.%s.path: %q is not a path in the module", name, data.Path)
		}
	}
	for name, pkg := range c.Programs {
		if name != path.Base(name) || name == "." {
			add("programs: %q is not the name of a file", name)
		}
		if pkg != "." && !strings.HasPrefix(pkg, "./") && !c.InNode {
			add(`programs.%s: %q is not a package of the module, "." or "./cmd/..."`, name, pkg)
		}
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(wrong...)
}

// isLocal reports whether a path stays below where it starts.
func isLocal(p string) bool {
	p = path.Clean(p)
	return !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../")
}

// resolveBuild returns the build of the component at a version; nil when that version cannot be built.
func (c componentEntry) resolveBuild(name, version string, read func(name string) ([]byte, error)) (*Build, error) {
	pin, ok := c.Versions[version]
	if !ok {
		return nil, nil
	}
	version = cmp.Or(pin.Version, version)
	at := strings.NewReplacer("{version}", version)
	b := &Build{
		Component: name, Module: c.Module, Version: version, Sum: pin.Sum, InNode: c.InNode,
		Programs: maps.Clone(c.Programs), Tags: slices.Clone(c.Tags), Sums: slices.Clone(pin.Sums),
		Files: make(map[string][]byte), Replace: make(map[string]string), Stamps: make(map[string]string),
		Data: make(map[string]Data),
	}
	files := maps.Clone(c.Files)
	if files == nil {
		files = make(map[string]string)
	}
	maps.Copy(files, pin.Files)
	for to, file := range files {
		content, err := read(file)
		if err != nil {
			return nil, err
		}
		b.Files[path.Clean(to)] = content
	}
	for module, by := range c.Replace {
		if v, _, ok := strings.Cut(pin.Others[by], " "); ok {
			by += "@" + v
		}
		b.Replace[module] = at.Replace(by)
	}
	for variable, value := range c.Stamps {
		b.Stamps[variable] = at.Replace(value)
	}
	for file, data := range c.Data {
		d := Data{Module: c.Module, Version: version, Sum: pin.Sum, Path: path.Clean(data.Path)}
		if data.Module != "" {
			d.Module = data.Module
			d.Version, d.Sum, _ = strings.Cut(pin.Others[data.Module], " ")
		}
		b.Data[file] = d
	}
	return b, nil
}

// upstream returns the upstream version of an EKS version: "v0.9.0" of "v0.9.0-eksbuild.1".
func upstream(version string) string {
	version, _, _ = strings.Cut(version, "-eks")
	return version
}

// buildNumber returns the suffix that EKS adds to the upstream version: "eksbuild.1".
func buildNumber(version string) string {
	_, after, found := strings.Cut(version, "-eks")
	if !found {
		return ""
	}
	return "eks" + after
}
