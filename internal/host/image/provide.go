package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

// ErrUnavailable is returned by [Registry.Provide] for an image that cannot be had now, with a reason that its user
// understands.
var ErrUnavailable = errors.New("the image is not available")

// unavailable is an ErrUnavailable with its reason.
type unavailable struct{ reason string }

func (u unavailable) Error() string        { return u.reason }
func (u unavailable) Is(target error) bool { return target == ErrUnavailable }

// Provide makes sure that the registry has an image of an add-on: one that is built here is built and assembled, others
// are fetched from where upstream publishes them. It returns at once when the image is there. A build takes minutes on
// a cold Go cache; it goes on when ctx ends, and who asks again waits for the same. Programs are built one after the
// other, because a build uses all processors; what is built already does not wait for them.
//
// The error is ErrUnavailable when the image cannot be had here and now.
func (r *Registry) Provide(ctx context.Context, image catalog.Image) error {
	r.providing.Lock()
	if err := r.background.Err(); err != nil {
		r.providing.Unlock()
		return err
	}
	p := r.provisions[image.Reference]
	if p == nil {
		p = &provision{done: make(chan struct{})}
		r.provisions[image.Reference] = p
		r.working.Go(func() {
			p.err = recovery.Try(func() error { return r.provide(r.background, image) })
			r.providing.Lock()
			delete(r.provisions, image.Reference)
			r.providing.Unlock()
			close(p.done)
		})
	}
	r.providing.Unlock()
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", image.Reference, context.Cause(ctx))
	case <-p.done:
		return p.err
	}
}

// provision is a call of provide that is under way.
type provision struct {
	done chan struct{}
	err  error // once done
}

func (r *Registry) provide(ctx context.Context, image catalog.Image) error {
	minor, own := r.assembledFor(image.Reference)
	switch there, err := r.hasReference(ctx, image.Reference); {
	case err != nil:
		return err
	case there && !image.MadeHere():
		return nil
	case there:
		if current, err := r.isCurrent(ctx, image); err != nil || current {
			return err
		}
	}
	var reasons []string
	var err error
	switch {
	case own:
		err = r.provideOwn(ctx, minor)
	case image.MadeHere():
		err = r.buildImage(ctx, image)
	}
	if (own || image.MadeHere()) && err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		reasons = append(reasons, err.Error())
	}
	if image.Public != "" {
		if err = r.importUpstream(ctx, image); err == nil {
			return nil
		}
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			return err
		}
		reasons = append(reasons, refusal.Message)
	}
	if len(reasons) == 0 {
		reasons = append(reasons, fmt.Sprintf(
			"%s is not in Coracle's registry, and upstream publishes no image that could be fetched: \"docker save "+
				"%[1]s -o FILE\" where it is, \"coracle images load FILE\" here", image.Reference))
	}
	return unavailable{strings.Join(reasons, "; ")}
}

// hasReference reports whether the storage has a reference.
func (r *Registry) hasReference(ctx context.Context, reference string) (bool, error) {
	_, err := r.Resolve(ctx, reference)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// assembledFor returns the Kubernetes version for whose nodes an image is assembled. Most images are common to nodes
// of all versions: of those that have this one, it is the first whose programs are built, or else the default version.
// ok is false for an image that the nodes of no version use.
func (r *Registry) assembledFor(reference string) (minor string, ok bool) {
	repository, tag, err := splitReference(reference)
	if err != nil {
		return "", false
	}
	stored := joinReference(r.storedName(repository), tag)
	for _, v := range kubernetes.Versions() {
		if !slices.Contains(slices.Collect(maps.Values(References(r.options.Region, v.Minor))), stored) {
			continue
		}
		if _, err := r.options.Bundles.Find(v.Minor); err == nil {
			return v.Minor, true
		}
		if !ok || v.Minor == kubernetes.Default {
			minor, ok = v.Minor, true
		}
	}
	return minor, ok
}

// provideOwn assembles the images of a Kubernetes version, whose programs it builds when they are missing.
func (r *Registry) provideOwn(ctx context.Context, minor string) error {
	_, bundles := r.options.Bundles.Find(minor)
	_, programs := r.options.Programs.Path("containerd")
	if errors.Is(bundles, upstream.ErrNotBuilt) || errors.Is(programs, upstream.ErrNotBuilt) {
		err := r.oneAtATime(ctx, func() error {
			report := r.progress()
			if _, err := r.options.Bundles.Ensure(ctx, minor, report); err != nil {
				return err
			}
			return r.options.Programs.EnsureUpstream(ctx, report)
		})
		if err != nil {
			return err
		}
	}
	return r.Assemble(ctx, minor)
}

// oneAtATime waits for its turn: a build uses all processors.
func (r *Registry) oneAtATime(ctx context.Context, do func() error) error {
	select {
	case r.making <- struct{}{}:
		defer func() { <-r.making }()
		return do()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ensureBuilt builds the component of an image unless it is there.
func (r *Registry) ensureBuilt(ctx context.Context, image catalog.Image) error {
	if image.Build == nil {
		return nil
	}
	if r.options.Components == nil {
		return fmt.Errorf("%s is built from %s, and nothing is built here", image.Reference, image.Build.Module)
	}
	ensure := func() error { return r.options.Components.Ensure(ctx, *image.Build, r.progress()) }
	built, err := r.options.Components.IsBuilt(*image.Build)
	switch {
	case err != nil:
		return err
	case built:
		return ensure() // its data
	}
	return r.oneAtATime(ctx, ensure)
}

// buildImage makes an image of its component, or of the programs of nodes.
func (r *Registry) buildImage(ctx context.Context, image catalog.Image) error {
	started := time.Now()
	if err := r.ensureBuilt(ctx, image); err != nil {
		return err
	}
	r.assembling.Lock()
	defer r.assembling.Unlock()
	recipe, err := r.recipeOf(ctx, image)
	if err != nil {
		return err
	}
	work, err := r.scratch("layers-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	layers, err := writeLayers(ctx, work, recipe)
	if err != nil {
		return err
	}
	assembled, err := recipe.assembleImage(layers)
	if err != nil {
		return err
	}
	made, err := r.ingredients(ctx, image)
	if err != nil {
		return err
	}
	// Until it is stored nobody can say what the image that is there was made of.
	if err := r.writeMarker(image.Reference, "under way"); err != nil {
		return err
	}
	if err := r.storeImage(ctx, image.Reference, assembled); err != nil {
		return fmt.Errorf("store %s: %w", image.Reference, err)
	}
	if err := r.writeMarker(image.Reference, made); err != nil {
		return err
	}
	repository, _, err := splitReference(image.Reference)
	if err != nil {
		return err
	}
	if err := r.dropUntagged(ctx, repository); err != nil {
		return err
	}
	of := "programs of nodes"
	if image.Build != nil {
		of = image.Build.Module + "@" + image.Build.Version
	}
	r.options.Log.Info("made an image", "image", image.Reference, "of", of, "took",
		time.Since(started).Round(time.Millisecond))
	return nil
}

// recipeOf returns the recipe of an image whose component has been built.
func (r *Registry) recipeOf(ctx context.Context, image catalog.Image) (recipe, error) {
	var build catalog.Build
	if image.Build != nil {
		build = *image.Build
	}
	find := func(name string) (string, error) {
		if node, ok := strings.CutPrefix(name, "node:"); ok {
			return r.options.Programs.Path(node)
		}
		switch {
		case build.Programs[name] != "":
			return r.options.Components.Path(build, name)
		case build.Data[name] != catalog.Data{}:
			return r.options.Components.DataFile(ctx, build, name)
		}
		return r.options.Programs.Path(name)
	}
	root, err := r.options.Base(ctx)
	if err != nil {
		return recipe{}, err
	}
	base, err := baseLayer(root, r.options.CA)
	if err != nil {
		return recipe{}, err
	}
	var iptables []entry
	if image.Recipe.Like != "" || slices.Contains(image.Recipe.Base, "iptables") {
		if iptables, err = iptablesLayer(root); err != nil {
			return recipe{}, err
		}
	}
	if image.Recipe.Like != "" {
		return buildRecipe(image.Recipe.Like, image.Reference, base, iptables, find)
	}
	layers := [][]entry{base}
	if iptables != nil {
		layers = append(layers, iptables)
	}
	if slices.Contains(image.Recipe.Base, "filesystems") {
		tools, err := filesystemsLayer(root)
		if err != nil {
			return recipe{}, err
		}
		layers = append(layers, tools)
	}
	var files []entry
	paths := map[string]string{} // by program
	for _, path := range slices.Sorted(maps.Keys(image.Recipe.Files)) {
		program := image.Recipe.Files[path]
		if first, twice := paths[program]; twice {
			files = append(files, entry{Path: path, Link: first})
			continue
		}
		source, err := find(program)
		if err != nil {
			return recipe{}, err
		}
		paths[program] = path
		files = append(files, entry{Path: path, Source: source, Mode: 0o755})
	}
	ports := make(map[string]struct{})
	for _, port := range image.Recipe.Ports {
		ports[port] = struct{}{}
	}
	return recipe{image.Reference, append(layers, files), v1.Config{
		Env: append([]string{pathEnv}, image.Recipe.Env...), Entrypoint: image.Recipe.Entrypoint,
		Cmd:  image.Recipe.Command,
		User: image.Recipe.User, WorkingDir: image.Recipe.WorkingDir, ExposedPorts: ports,
	}}, nil
}

// markerPath returns the path of the file that records what an image was made of.
func (r *Registry) markerPath(reference string) string {
	return filepath.Join(r.options.Dir, "assembled", "components", strings.NewReplacer("/", "_", ":",
		"_").Replace(reference))
}

// ingredients name what an image is made of: equal ones make equal images.
func (r *Registry) ingredients(ctx context.Context, image catalog.Image) (string, error) {
	if image.Build == nil {
		of, err := r.recipeOf(ctx, image)
		if err != nil {
			return "", err
		}
		return fingerprint([]recipe{of})
	}
	content, err := json.Marshal(image.Recipe)
	return fmt.Sprintf("%s %x", r.options.Components.Version(*image.Build), sha256.Sum256(content)), err
}

func (r *Registry) writeMarker(reference, made string) error {
	marker := r.markerPath(reference)
	if err := os.MkdirAll(filepath.Dir(marker), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(marker, []byte(made), 0o600)
}

// isCurrent reports whether an image that is there need not be made again: it was loaded, or made of the same.
func (r *Registry) isCurrent(ctx context.Context, image catalog.Image) (bool, error) {
	made, err := os.ReadFile(r.markerPath(image.Reference))
	if errors.Is(err, fs.ErrNotExist) || image.Build != nil && r.options.Components == nil {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	now, err := r.ingredients(ctx, image)
	return string(made) == now, err
}

// importUpstream takes an image from where upstream publishes it, or from the storage, where the user has loaded it
// under upstream's name. Of an index it takes the image for machines.
func (r *Registry) importUpstream(ctx context.Context, image catalog.Image) error {
	repository, tag, err := splitReference(image.Public)
	if err != nil {
		return err
	}
	if err := r.ensurePulled(ctx, "", repository, repository, tag); err != nil {
		return err
	}
	published, err := r.loadImage(ctx, image.Public)
	if err != nil {
		return err
	}
	return r.storeImage(ctx, image.Reference, published)
}

// progress puts the milestones of builds into the log.
func (r *Registry) progress() func(upstream.Progress) {
	return upstream.Milestones(func(p upstream.Progress) { r.options.Log.Info(p.String(), "percent", p.Percent()) })
}
