package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/coracle-eks/coracle/internal/filelock"
)

// lockName is the file beside programs that is locked while they are built.
const lockName = ".lock"

// artifact is the unit that a cache finds and builds: the files of one directory.
type artifact struct {
	title   string // for messages: "Kubernetes 1.35 bundle"
	label   string // for reports of progress: "Kubernetes 1.35"
	dir     string // where it is in a directory of the cache: "v1.35"
	version string // identifies what it is built from: equal versions mean equal files
	first   string // the name of a file that shows that it has been built
	data    bool   // that is no program

	// build builds it into the directory target, whose lock the caller holds, and returns the path of the first file.
	// env is the environment variable with which users name a directory of what was built elsewhere.
	build func(ctx context.Context, target, env string, report func(Progress)) (string, error)
}

// cache finds artifacts, and builds those that are missing into the last of its directories. Its methods may be called
// concurrently.
type cache struct {
	directories []directory
	env         string // the environment variable that names a directory
	fallback    string // where packed programs go whose directory is not to be written to; empty for nowhere

	mu     sync.Mutex
	builds map[string]*sharedBuild // by directory and version of the artifact, while they run
}

// directory is one of the directories of a cache.
type directory struct {
	path string
	// anyVersion accepts programs of every version, because the user pointed at them.
	anyVersion bool
}

// newCache returns a cache in the directory that the user names with o.Dir or the environment variable env, or in the
// directories called name beside the coracle program and in the data directory. It touches nothing.
func newCache(o Options, env, name string) *cache {
	c := &cache{env: env, fallback: filepath.Join(o.DataDir, name), builds: make(map[string]*sharedBuild)}
	if dir := cmp.Or(o.Dir, os.Getenv(env)); dir != "" {
		c.directories = []directory{{path: dir, anyVersion: true}}
		return c
	}
	if program, err := os.Executable(); err == nil {
		if program, err = filepath.EvalSymlinks(program); err == nil {
			c.directories = append(c.directories, directory{path: filepath.Join(filepath.Dir(program), name)})
		}
	}
	c.directories = append(c.directories, directory{path: c.fallback})
	return c
}

// newCacheIn returns a cache in one directory, which accepts only what this program would build itself.
func newCacheIn(dir, env string) *cache {
	return &cache{directories: []directory{{path: dir}}, env: env, builds: make(map[string]*sharedBuild)}
}

// searchPaths returns the directories in the order in which they are searched. The last is built into.
func (c *cache) searchPaths() []string {
	var paths []string
	for _, d := range c.directories {
		paths = append(paths, d.path)
	}
	return paths
}

// findFirst returns the path of the artifact's first file, or an error that is ErrNotBuilt. It unpacks the artifact if
// a directory has it packed.
func (c *cache) findFirst(a artifact) (string, error) {
	var searched []string
	for _, d := range c.directories {
		path := filepath.Join(d.path, a.dir, a.first)
		packed, err := a.isPacked(filepath.Dir(path))
		if err != nil {
			return "", fmt.Errorf("look for the %s: %w", a.title, err)
		}
		info, err := os.Stat(path)
		switch {
		case packed:
		case errors.Is(err, fs.ErrNotExist):
			searched = append(searched, path)
			continue
		case err != nil:
			return "", fmt.Errorf("look for the %s: %w", a.title, err)
		case info.IsDir() || !a.data && info.Mode()&0o111 == 0:
			return "", fmt.Errorf("the %s %s is not an executable file: remove it or make it executable", a.title, path)
		}
		if !d.anyVersion {
			is, err := readVersion(filepath.Dir(path))
			if err != nil {
				return "", fmt.Errorf("read the version of the %s: %w", a.title, err)
			}
			if is != a.version {
				searched = append(searched, fmt.Sprintf("%s (which is of version %q, not %q)", path, is, a.version))
				continue
			}
		}
		if packed {
			return c.unpack(a, filepath.Dir(path))
		}
		return path, nil
	}
	return "", fmt.Errorf("the %s: %w: looked for %s", a.title, ErrNotBuilt, strings.Join(searched, ", "))
}

// findFile returns the path of one of the artifact's files, or an error that is ErrNotBuilt.
func (c *cache) findFile(a artifact, name string) (string, error) {
	first, err := c.findFirst(a)
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(first), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s has no %s, which is part of the %s: remove the directory, and it is built again: %w",
			filepath.Dir(first), name, a.title, err)
	}
	return path, nil
}

// ensureBuilt returns the path of the artifact's first file, after building the artifact if it is missing. It passes
// the steps of a build to report, which may be nil, one at a time; when another caller is already building it, both
// receive them. The error of a failed build is a [*BuildError], unless nobody waits for the build any more: it
// ends with the context of the last caller.
func (c *cache) ensureBuilt(ctx context.Context, a artifact, report func(Progress)) (string, error) {
	path, err := c.findFirst(a)
	if !errors.Is(err, ErrNotBuilt) {
		return path, err
	}
	build, leave := c.joinBuild(ctx, a, report)
	select {
	case <-build.done:
	case <-ctx.Done():
	}
	if last := leave(); last {
		build.cancel()
		<-build.done
	}
	select {
	case <-build.done:
		if build.err != nil && ctx.Err() != nil {
			return "", fmt.Errorf("build the %s: %w", a.title, context.Cause(ctx))
		}
		return build.path, build.err
	default:
		return "", fmt.Errorf("wait for the %s: %w", a.title, context.Cause(ctx))
	}
}

// joinBuild joins the build of an artifact, and starts it if there is none. leave reports whether no other caller waits
// for the build.
func (c *cache) joinBuild(ctx context.Context, a artifact, report func(Progress)) (
	_ *sharedBuild, leave func() (last bool)) {
	key := a.dir + " " + a.version
	c.mu.Lock()
	defer c.mu.Unlock()
	build := c.builds[key]
	if build == nil {
		buildCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		build = &sharedBuild{cancel: cancel, done: make(chan struct{}), watchers: make(map[*func(Progress)]bool)}
		c.builds[key] = build
		go c.runBuild(buildCtx, key, a, build)
	}
	unwatch := build.addWatcher(report)
	return build, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		last := unwatch()
		if last && c.builds[key] == build {
			// From here on, callers start a build of their own instead of joining one that is being stopped.
			delete(c.builds, key)
		}
		return last
	}
}

// runBuild builds for all who joined.
func (c *cache) runBuild(ctx context.Context, key string, a artifact, build *sharedBuild) {
	build.path, build.err = c.buildLocked(ctx, a, build.reportProgress)
	running.end(build)
	c.mu.Lock()
	if c.builds[key] == build {
		delete(c.builds, key)
	}
	c.mu.Unlock()
	build.cancel()
	close(build.done)
}

// buildLocked builds the artifact, unless another process did while this one waited for its turn.
func (c *cache) buildLocked(ctx context.Context, a artifact, report func(Progress)) (string, error) {
	dir := filepath.Join(c.directories[len(c.directories)-1].path, a.dir)
	// Open to others: the programs are public, and users of one host may share a directory of them (CORACLE_BUNDLES).
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build the %s: %w", a.title, err)
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(dir, lockName), func() {
		report(Progress{Title: a.label, Step: Waiting})
	})
	if err != nil {
		return "", fmt.Errorf("build the %s: %w", a.title, err)
	}
	defer unlock()
	if path, err := c.findFirst(a); !errors.Is(err, ErrNotBuilt) {
		return path, err
	}
	return a.build(ctx, dir, c.env, report)
}

// sharedBuild is a build in progress, with those who wait for it.
type sharedBuild struct {
	cancel context.CancelFunc
	done   chan struct{}
	path   string // once done
	err    error  // once done

	mu       sync.Mutex
	last     *Progress
	watchers map[*func(Progress)]bool
}

// addWatcher adds a watcher. unwatch removes it, and reports whether it was the last.
func (s *sharedBuild) addWatcher(report func(Progress)) (unwatch func() (last bool)) {
	if report == nil {
		report = func(Progress) {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[&report] = true
	if s.last != nil {
		report(*s.last)
	}
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, &report)
		return len(s.watchers) == 0
	}
}

func (s *sharedBuild) reportProgress(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = &p
	running.report(s, p)
	for watcher := range s.watchers {
		(*watcher)(p)
	}
}
