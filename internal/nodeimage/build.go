package nodeimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/coracle-eks/coracle/node"
)

// downloads is the number of packages that are downloaded at once.
const downloads = 4

// Progress is called with the number of packages that are there, by one caller at a time.
type Progress func(done, total int, name string)

// Build makes the node image for an architecture as Debian and Go call it ("amd64" or "arm64"): ArchiveName and
// ManifestName are complete in dir when it returns nil.
func Build(ctx context.Context, mirrors Mirrors, architecture, dir string, progress Progress) (Manifest, error) {
	r, err := recipeFor(architecture)
	if err != nil {
		return Manifest{}, err
	}
	return r.build(ctx, mirrors, dir, progress)
}

// Version identifies what the node image for an architecture is made of: equal versions mean equal packages.
func Version(architecture string) (string, error) {
	r, err := recipeFor(architecture)
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(r) // sorts the keys of maps
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return "image-" + hex.EncodeToString(sum[:6]), nil
}

// recipe has the parts that an image is made of; package node explains them.
type recipe struct {
	Architecture     string
	Packages         []node.Package
	Links, Joined    map[string]string
	Unwanted, Wanted []string
}

func recipeFor(architecture string) (recipe, error) {
	packages, err := node.Packages(architecture)
	return recipe{
		Architecture: architecture, Packages: packages, Links: node.ImageLinks(), Joined: node.ImageJoined(),
		Unwanted: node.UnwantedFiles, Wanted: node.WantedFiles,
	}, err
}

func (r recipe) build(ctx context.Context, mirrors Mirrors, dir string, progress Progress) (Manifest, error) {
	m := Manifest{Suite: node.Suite, Architecture: r.Architecture}
	taken, contents, err := r.downloadAll(ctx, mirrors, progress)
	if err != nil {
		return m, err
	}
	m.Packages = taken
	t := &tree{files: make(map[string]*file)}
	for i, content := range contents {
		if err := t.addPackage(content, r.includes); err != nil {
			return m, fmt.Errorf("unpack %s %s: %w", taken[i].Name, taken[i].Version, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Joined)) {
		if err := t.join(name, r.Joined[name]); err != nil {
			return m, err
		}
	}
	for name, target := range r.Links {
		t.symlink(name, target)
	}
	if err := t.findMissing(); err != nil {
		return m, err
	}
	return t.write(dir, m)
}

// includes reports whether a file of a package, or a directory, becomes part of the image.
func (r recipe) includes(name string) bool {
	return !matchesAbove(r.Unwanted, name) || slices.ContainsFunc(r.Wanted, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // the patterns are constants
		return ok
	})
}

// matchesAbove reports whether a pattern matches the name or a directory above it.
func matchesAbove(patterns []string, name string) bool {
	for ; name != "."; name = path.Dir(name) {
		for _, pattern := range patterns {
			if ok, _ := path.Match(pattern, name); ok {
				return true
			}
		}
	}
	return false
}

// downloadAll returns the packages with their contents. A package that the mirror no longer has is replaced by the one
// that it has instead.
func (r recipe) downloadAll(ctx context.Context, mirrors Mirrors, progress Progress) ([]Taken, [][]byte, error) {
	index := sync.OnceValues(func() (Index, error) { return mirrors.Index(ctx, r.Architecture) })
	taken, contents := make([]Taken, len(r.Packages)), make([][]byte, len(r.Packages))
	var (
		mu   sync.Mutex
		done int
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(downloads)
	for i, p := range r.Packages {
		group.Go(func() error {
			now := Taken{Package: p}
			content, err := mirrors.download(ctx, p)
			if errors.Is(err, errGone) {
				index, indexErr := index()
				if indexErr != nil {
					return fmt.Errorf("%w; find what replaces it: %w", err, indexErr)
				}
				newer, ok := index[p.Name]
				if !ok {
					return fmt.Errorf("%w, nor anything that replaces it", err)
				}
				if err := replaces(newer, p); err != nil {
					return err
				}
				now = Taken{Package: lock(newer), Instead: p.Version}
				content, err = mirrors.download(ctx, now.Package)
			}
			if err != nil {
				return fmt.Errorf("download the package %s: %w", p.Name, err)
			}
			taken[i], contents[i] = now, content
			mu.Lock()
			defer mu.Unlock()
			done++
			progress(done, len(r.Packages), p.Name+" "+now.Version)
			return nil
		})
	}
	return taken, contents, group.Wait()
}

// findMissing returns an error for a program whose libraries are not there: what a package depends on may have changed
// since the list of packages was made.
func (t *tree) findMissing() error {
	libraries := make(map[string]bool)
	for name := range t.files {
		libraries[path.Base(name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		f, err := elf.NewFile(bytes.NewReader(t.files[name].content))
		if err != nil {
			continue // no program
		}
		needed, err := f.ImportedLibraries()
		if err != nil {
			return fmt.Errorf("read what %s is linked with: %w", name, err)
		}
		for _, library := range needed {
			if !libraries[library] {
				return fmt.Errorf("%s needs %s, which no package of the node image has", name, library)
			}
		}
	}
	return nil
}
