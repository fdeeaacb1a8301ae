// Package component builds what add-ons run from the Go modules in which upstream publishes it.
//
// A component (package catalogue) names a module, a version, the sum that pins it, and the packages that are its programs. The module is downloaded, and
// built as upstream builds it, by its own go.mod and go.sum; so the modules that it is made of are those that its authors tested, and components of
// different generations of Kubernetes' libraries stand beside each other. What runs on nodes anyway is built by the module of package node instead, whose libraries are
// compiled already.
//
// Components are found as the Kubernetes programs are (package bundle), in
//
//  1. components/ of the directory given by CORACLE_NODE, and if there is one nowhere else;
//  2. node/components/ beside the coracle program;
//  3. node/components/ of the data directory.
//
// The last of these is where they are built: CERT-MANAGER/v1.21.2/controller. The version file beside a program is of all that it is made of, so that one that was made of
// something else is built anew. Files of data that come with a module, such as its CRDs, are below data/.
package component

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/coracle-eks/coracle/internal/catalogue"
	"github.com/coracle-eks/coracle/internal/cluster/bundle"
	"github.com/coracle-eks/coracle/internal/host/program"
	"github.com/coracle-eks/coracle/node"
)

// ErrNotBuilt is returned by [Components.Path] for a component that is not there.
var ErrNotBuilt = bundle.ErrNotBuilt

// Components finds and builds components. Its methods may be called concurrently.
type Components struct {
	bundles *bundle.Bundles

	mu    sync.Mutex
	known map[string]catalogue.Build // those that were asked for, by key
}

// Open makes a finder; it touches nothing. The options are those of the programs of nodes.
func Open(o program.Options) *Components {
	if dir := cmp.Or(o.Dir, os.Getenv(program.EnvDir)); dir != "" {
		return In(dir)
	}
	c := &Components{known: make(map[string]catalogue.Build)}
	c.bundles = bundle.Of(bundle.Options{DataDir: o.DataDir}, "", filepath.Join("node", "components"), c.module)
	return c
}

// In makes a finder that searches and builds in components/ of one directory.
func In(dir string) *Components {
	c := &Components{known: make(map[string]catalogue.Build)}
	c.bundles = bundle.InOf(filepath.Join(dir, "components"), program.EnvDir, c.module)
	return c
}

// Path is the file of one of a component's programs. The error is ErrNotBuilt until Ensure has built it.
func (c *Components) Path(b catalogue.Build, name string) (string, error) {
	if b.Programs[name] == "" {
		return "", fmt.Errorf("%q is no program of %s", name, b.Component)
	}
	first, err := c.bundles.Find(c.know(b))
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(first), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s %s in %s is incomplete: remove the directory, and it is built again: %w", b.Component, b.Version, filepath.Dir(first), err)
	}
	return path, nil
}

// Ensure builds the component when it is missing, and has its data ready. The steps are reported to progress, which may be nil, one at a time. It takes from half a minute
// to some minutes of both of two processors, needs Go, and, unless its module cache has everything, the network.
func (c *Components) Ensure(ctx context.Context, b catalogue.Build, progress func(bundle.Progress)) error {
	for name := range b.Data {
		if _, err := c.DataFile(ctx, b, name); err != nil {
			return err
		}
	}
	if len(b.Programs) == 0 {
		return nil
	}
	_, err := c.bundles.Ensure(ctx, c.know(b), progress)
	return err
}

// know remembers a build by the key that the finder gets.
func (c *Components) know(b catalogue.Build) (key string) {
	key = fmt.Sprintf("%s %s", b.Component, version(b))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[key] = b
	return key
}

// module is what the component behind a key is built from.
func (c *Components) module(key string) (bundle.Module, error) {
	c.mu.Lock()
	b, ok := c.known[key]
	c.mu.Unlock()
	if !ok {
		return bundle.Module{}, fmt.Errorf("%q is no component", key)
	}
	m := bundle.Module{
		Version: version(b), Files: b.Files, Stamps: b.Stamps, Tags: b.Tags, Programs: b.Programs, Replace: b.Replace, Sums: b.Sums,
		Title: b.Component + " " + b.Version, Dir: filepath.Join(filepath.FromSlash(b.Component), b.Version),
	}
	if !b.InNode {
		m.Of = &bundle.Download{Module: b.Module, Version: b.Version, Sum: b.Sum}
		return m, nil
	}
	var err error
	m.Files, err = inNode(b)
	m.Tags = slices.Concat(node.Tags(), b.Tags)
	return m, err
}

// inNode is the module of the programs of nodes with another version of one of the modules that it requires.
func inNode(b catalogue.Build) (map[string][]byte, error) {
	files := node.Source()
	required := regexp.MustCompile(`(?m)^(\s*(?:require )?` + regexp.QuoteMeta(b.Module) + `) v\S+`)
	if !required.Match(files["go.mod"]) {
		return nil, fmt.Errorf("%s is not built in the module of what runs on nodes, which does not require %s", b.Component, b.Module)
	}
	files = cloneFiles(files)
	files["go.mod"] = required.ReplaceAll(files["go.mod"], []byte("$1 "+b.Version))
	files["go.sum"] = slices.Concat(files["go.sum"], fmt.Appendf(nil, "%s %s %s\n", b.Module, b.Version, b.Sum))
	for name, content := range b.Files {
		files[name] = content
	}
	return files, nil
}

func cloneFiles(files map[string][]byte) map[string][]byte {
	clone := make(map[string][]byte, len(files))
	for name, content := range files {
		clone[name] = content
	}
	return clone
}

// Version names a build: equal names mean equal sources.
func (c *Components) Version(b catalogue.Build) string { return version(b) }

func version(b catalogue.Build) string {
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
	return b.Version + "-" + hex.EncodeToString(sum.Sum(nil))[:12]
}

// dirs are the directories of components, in the order in which they are searched.
func (c *Components) dirs() []string { return c.bundles.Places() }

// IsBuilt reports whether a component need not be built.
func (c *Components) IsBuilt(b catalogue.Build) (bool, error) {
	if len(b.Programs) == 0 {
		return true, nil
	}
	_, err := c.bundles.Find(c.know(b))
	if errors.Is(err, ErrNotBuilt) {
		return false, nil
	}
	return err == nil, err
}
