package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/kubernetes"
	"github.com/coracle-eks/coracle/node"
)

// Components finds and builds what add-ons run. Its methods may be called concurrently.
//
// A component (package catalog) names a module, a version, the sum that pins it, and the packages that are its
// programs. The module is downloaded and built as upstream builds it, by its own go.mod and go.sum: the required
// modules are those that its authors tested, and components of different generations of Kubernetes' libraries stand
// beside each other. Components of what runs on nodes anyway are built by the module of package node instead, whose
// libraries are compiled already.
type Components struct{ cache *cache }

// componentsDir is the directory of components, in a directory of programs of nodes.
const componentsDir = "components"

// OpenComponents returns the components in the directories of the programs of nodes. It touches nothing.
func OpenComponents(o Options) *Components {
	c := newCache(o, EnvNode, "node")
	for i, d := range c.directories {
		// A user's directory is no exception: it has components of some add-ons, and some versions, only.
		c.directories[i] = directory{path: filepath.Join(d.path, componentsDir)}
	}
	c.fallback = filepath.Join(c.fallback, componentsDir)
	return &Components{c}
}

// ComponentsIn returns the components in one directory of programs of nodes.
func ComponentsIn(dir string) *Components {
	return &Components{newCacheIn(filepath.Join(dir, componentsDir), EnvNode)}
}

// Path returns the file of one of a component's programs. The error is ErrNotBuilt until Ensure has built it.
func (c *Components) Path(b catalog.Build, name string) (string, error) {
	if b.Programs[name] == "" {
		return "", fmt.Errorf("%q is no program of %s", name, b.Component)
	}
	m, err := componentModule(b)
	if err != nil {
		return "", err
	}
	return c.cache.findFile(m.artifact(), name)
}

// IsBuilt reports whether a component need not be built.
func (c *Components) IsBuilt(b catalog.Build) (bool, error) {
	if len(b.Programs) == 0 {
		return true, nil
	}
	m, err := componentModule(b)
	if err == nil {
		_, err = c.cache.findFirst(m.artifact())
	}
	if errors.Is(err, ErrNotBuilt) {
		return false, nil
	}
	return err == nil, err
}

// Ensure builds the component if it is missing, and downloads its data. It passes the steps of a build to report, which
// may be nil, one at a time. It takes from half a minute to some minutes of both of two processors, needs Go, and,
// unless its module cache has everything, the network.
func (c *Components) Ensure(ctx context.Context, b catalog.Build, report func(Progress)) error {
	for name := range b.Data {
		if _, err := c.DataFile(ctx, b, name); err != nil {
			return err
		}
	}
	if len(b.Programs) == 0 {
		return nil
	}
	m, err := componentModule(b)
	if err != nil {
		return err
	}
	_, err = c.cache.ensureBuilt(ctx, m.artifact(), report)
	return err
}

// Version identifies a build: equal versions mean equal sources.
func (c *Components) Version(b catalog.Build) string { return componentVersion(b) }

func componentVersion(b catalog.Build) string {
	b.Data = nil
	content, err := json.Marshal(b) // sorts the keys of maps
	if err != nil {
		panic(err) // strings
	}
	sum := sha256.New()
	sum.Write(content)
	if b.InNode {
		sum.Write([]byte(node.Version()))
	}
	for _, p := range patchesOf(b) {
		fmt.Fprintf(sum, "%q", p)
	}
	return b.Version + "-" + hex.EncodeToString(sum.Sum(nil))[:12]
}

// patchesOf returns the patches of the modules that a component requires.
func patchesOf(b catalog.Build) []kubernetes.Patch {
	if !b.OnHost {
		return nil
	}
	return kubernetes.HostPatches()
}

// componentModule returns what the component is built from.
func componentModule(b catalog.Build) (module, error) {
	m := module{
		title: b.Component + " " + b.Version, dir: filepath.Join(filepath.FromSlash(b.Component), b.Version),
		version: componentVersion(b), files: b.Files, replace: b.Replace, sums: b.Sums,
		patches: patchesOf(b), tags: b.Tags, stamps: b.Stamps, programs: b.Programs,
	}
	if !b.InNode {
		m.from = &download{module: b.Module, version: b.Version, sum: b.Sum}
		return m, nil
	}
	var err error
	m.files, err = filesInNode(b)
	m.tags = slices.Concat(node.Tags(), b.Tags)
	return m, err
}

// filesInNode returns the module of the programs of nodes, with another version of one of the modules that it requires.
func filesInNode(b catalog.Build) (map[string][]byte, error) {
	files := maps.Clone(node.Source())
	required := regexp.MustCompile(`(?m)^(\s*(?:require )?` + regexp.QuoteMeta(b.Module) + `) v\S+`)
	if !required.Match(files["go.mod"]) {
		return nil, fmt.Errorf("%s is not built in the module of what runs on nodes, which does not require %s",
			b.Component, b.Module)
	}
	files["go.mod"] = required.ReplaceAll(files["go.mod"], []byte("$1 "+b.Version))
	files["go.sum"] = slices.Concat(files["go.sum"], fmt.Appendf(nil, "%s %s %s\n", b.Module, b.Version, b.Sum))
	maps.Copy(files, b.Files)
	return files, nil
}
