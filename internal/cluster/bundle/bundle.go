// Package bundle finds the Kubernetes programs of a minor version, and builds them when they are
// missing.
//
// A bundle is one multi-call program, "kube kube-apiserver ...", at v1.NN/kube below a directory of
// bundles. [Bundles.Find] looks, in this order,
//
//  1. in the directory given by --bundles or CORACLE_BUNDLES, and if there is one nowhere else;
//  2. in bundles/ beside the coracle program, where "make build" and "make bundles" put them;
//  3. in bundles/ of the data directory, where [Bundles.Ensure] builds those that are missing.
//
// The sources come with the program (package kubernetes). Beside a bundle stands a file "version"
// with the version that it was built as; in the second and third place, one that names another
// version than this program would build is passed over, so that a new coracle does not start old
// control planes.
//
// Building takes minutes on a cold Go cache, so it happens once whoever asks: callers in one process
// share a build and its progress, and daemons that share a directory take turns by a file lock. A
// bundle appears under its name only when it is complete.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/coracle-eks/coracle/internal/filelock"
	"github.com/coracle-eks/coracle/kubernetes"
)

// EnvDir names the environment variable that is used when [Options.Dir] is empty.
const EnvDir = "CORACLE_BUNDLES"

// lockName is the file in the directory of a version that is locked while the version is built.
const lockName = ".lock"

// ErrNotBuilt is returned by [Bundles.Find] when no bundle of the version exists.
var ErrNotBuilt = errors.New("not built yet")

// Options say where bundles are.
type Options struct {
	// Dir, if not empty, is the only directory that is searched and built into.
	Dir string
	// DataDir is the daemon's data directory.
	DataDir string
}

// Bundles finds and builds bundles. Its methods may be called concurrently.
type Bundles struct {
	places []place
	env    string // names the environment variable of a directory
	module func(minor string) (Module, error)

	mu     sync.Mutex
	builds map[string]*sharedBuild // by minor version, while they run
}

// A place is a directory of bundles.
type place struct {
	dir string
	// any accepts bundles of every build, because the user pointed at them.
	any bool
}

// New makes a finder. The last of its places is the one that Ensure builds into.
func New(options Options) *Bundles {
	return Of(options, EnvDir, "bundles", KubernetesModule)
}

// Of makes a finder of other modules, in directories that are found in the same way: by options.Dir, by an
// environment variable, or by their name beside the program and in the data directory.
func Of(options Options, env, name string, module func(minor string) (Module, error)) *Bundles {
	b := &Bundles{env: env, module: module, builds: make(map[string]*sharedBuild)}
	dir := options.Dir
	if dir == "" {
		dir = os.Getenv(env)
	}
	if dir != "" {
		b.places = []place{{dir: dir, any: true}}
		return b
	}
	if program, err := os.Executable(); err == nil {
		if program, err = filepath.EvalSymlinks(program); err == nil {
			b.places = append(b.places, place{dir: filepath.Join(filepath.Dir(program), name)})
		}
	}
	b.places = append(b.places, place{dir: filepath.Join(options.DataDir, name)})
	return b
}

// In makes a finder that searches and builds in one directory of bundles, and accepts only what this
// program would build itself.
func In(dir string) *Bundles {
	return InOf(dir, EnvDir, KubernetesModule)
}

// InOf is In for other modules, as Of is New.
func InOf(dir, env string, module func(minor string) (Module, error)) *Bundles {
	return &Bundles{places: []place{{dir: dir}}, env: env, module: module, builds: make(map[string]*sharedBuild)}
}

// Places are the directories that are searched, in their order.
func (b *Bundles) Places() []string {
	var dirs []string
	for _, place := range b.places {
		dirs = append(dirs, place.dir)
	}
	return dirs
}

// Find returns the path of the bundle of a minor version ("1.35"), or an error that is ErrNotBuilt.
func (b *Bundles) Find(minor string) (string, error) {
	module, err := b.module(minor)
	if err != nil {
		return "", err
	}
	var searched []string
	for _, place := range b.places {
		path := filepath.Join(place.dir, module.dir(), module.first())
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			searched = append(searched, path)
			continue
		case err != nil:
			return "", fmt.Errorf("look for the %s: %w", module.title(), err)
		case info.IsDir() || info.Mode()&0o111 == 0:
			return "", fmt.Errorf("the %s %s is not an executable file: remove it or make it executable", module.title(), path)
		}
		if !place.any {
			built, err := os.ReadFile(filepath.Join(filepath.Dir(path), versionName))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", fmt.Errorf("read the version of the %s: %w", module.title(), err)
			}
			if is := strings.TrimSpace(string(built)); is != module.Version {
				searched = append(searched, fmt.Sprintf("%s (which is of version %q, not %q)", path, is, module.Version))
				continue
			}
		}
		return path, nil
	}
	return "", fmt.Errorf("the %s: %w: looked for %s", module.title(), ErrNotBuilt, strings.Join(searched, ", "))
}

// Ensure returns the path of the bundle of a minor version, and builds it first when it is missing.
// The steps of a build are reported to progress, which may be nil, one at a time; when another
// caller is already building the version, both are told. A build that failed is a [*BuildError],
// except when nobody waits for it any more: it ends with the last caller's context.
func (b *Bundles) Ensure(ctx context.Context, minor string, progress func(Progress)) (string, error) {
	path, err := b.Find(minor)
	if !errors.Is(err, ErrNotBuilt) {
		return path, err
	}
	module, err := b.module(minor)
	if err != nil {
		return "", err
	}

	b.mu.Lock()
	build := b.builds[minor]
	if build == nil {
		buildCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		build = &sharedBuild{cancel: cancel, done: make(chan struct{}), watchers: make(map[*func(Progress)]bool)}
		b.builds[minor] = build
		go b.run(buildCtx, minor, build)
	}
	leave := build.join(progress)
	b.mu.Unlock()

	select {
	case <-build.done:
	case <-ctx.Done():
	}
	b.mu.Lock()
	last := leave()
	if last && b.builds[minor] == build {
		// Whoever asks from here on starts anew instead of joining a build that is being stopped.
		delete(b.builds, minor)
	}
	b.mu.Unlock()
	if last {
		build.cancel()
		<-build.done
	}
	select {
	case <-build.done:
		if build.err != nil && ctx.Err() != nil {
			return "", fmt.Errorf("build the %s: %w", module.title(), context.Cause(ctx))
		}
		return build.path, build.err
	default:
		return "", fmt.Errorf("wait for the %s: %w", module.title(), context.Cause(ctx))
	}
}

// run builds for all who joined.
func (b *Bundles) run(ctx context.Context, minor string, build *sharedBuild) {
	build.path, build.err = b.buildLocked(ctx, minor, build.report)
	b.mu.Lock()
	if b.builds[minor] == build {
		delete(b.builds, minor)
	}
	b.mu.Unlock()
	build.cancel()
	close(build.done)
}

// buildLocked builds unless another process did while this one waited for its turn.
func (b *Bundles) buildLocked(ctx context.Context, minor string, progress func(Progress)) (string, error) {
	module, err := b.module(minor)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.places[len(b.places)-1].dir, module.dir())
	// Open to others: the programs are public, and users of one host may share a directory of them (CORACLE_BUNDLES).
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build the %s: %w", module.title(), err)
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(dir, lockName), func() { progress(Progress{Minor: minor, Title: module.Title, Step: Waiting}) })
	if err != nil {
		return "", fmt.Errorf("build the %s: %w", module.title(), err)
	}
	defer unlock()
	if path, err := b.Find(minor); !errors.Is(err, ErrNotBuilt) {
		return path, err
	}
	return build(ctx, module, dir, b.env, progress)
}

// sharedBuild is a build in progress and those who wait for it.
type sharedBuild struct {
	cancel context.CancelFunc
	done   chan struct{}
	path   string // once done
	err    error  // once done

	mu       sync.Mutex
	last     *Progress
	watchers map[*func(Progress)]bool
}

// join adds a watcher and returns how to remove it again, which says whether it was the last.
func (s *sharedBuild) join(progress func(Progress)) (leave func() (last bool)) {
	if progress == nil {
		progress = func(Progress) {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[&progress] = true
	if s.last != nil {
		progress(*s.last)
	}
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, &progress)
		return len(s.watchers) == 0
	}
}

func (s *sharedBuild) report(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = &p
	for watcher := range s.watchers {
		(*watcher)(p)
	}
}

// KubernetesModule is the module of a supported minor version.
func KubernetesModule(minor string) (Module, error) {
	v, ok := kubernetes.Lookup(minor)
	if !ok {
		var supported []string
		for _, v := range kubernetes.Versions() {
			supported = append(supported, v.Minor)
		}
		return Module{}, fmt.Errorf("kubernetes version %q is not supported: choose one of %s", minor, strings.Join(supported, ", "))
	}
	stamps := make(map[string]string)
	for variable, value := range v.Stamps() {
		stamps["k8s.io/component-base/version."+variable] = value
		stamps["k8s.io/client-go/pkg/version."+variable] = value
	}
	return Module{Minor: v.Minor, Version: v.GitVersion(), Files: v.Source(), Stamps: stamps}, nil
}
