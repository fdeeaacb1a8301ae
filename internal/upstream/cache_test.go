package upstream

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/filelock"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// tiny returns a module that builds in a moment: its program prints the version that it was stamped with.
func tiny(minor, version string) module {
	return module{
		title:   "Kubernetes " + minor + " bundle",
		label:   "Kubernetes " + minor,
		dir:     "v" + minor,
		version: version,
		files: map[string][]byte{
			"go.mod":  []byte("module example.com/tiny\n\ngo 1.24\n"),
			"main.go": []byte("package main\n\nvar version = \"unstamped\"\n\nfunc main() { println(version) }\n"),
		},
		stamps:   map[string]string{"main.version": version},
		programs: map[string]string{"kube": "."},
	}
}

// writeBundle writes a bundle by hand. An empty version leaves the version file out.
func writeBundle(t *testing.T, dir, minor, version string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, "v"+minor, "kube")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
		t.Fatal(err)
	}
	if version != "" {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "version"), []byte(version+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// fakeGo puts a go command of the test's own on the PATH: a shell script, in which $GO is the real
// one.
func fakeGo(t *testing.T, script string) {
	t.Helper()
	golang, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script = "#!/bin/sh\nGO=" + golang + "\n" + script + "\n"
	testenv.WriteProgram(t, filepath.Join(dir, "go"), []byte(script))
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

func leftovers(t *testing.T, dir, minor string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "v"+minor, workPattern+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestFindLooksInOrder(t *testing.T) {
	t.Parallel()
	const current, old = "v1.35.4-eks-new", "v1.35.2-eks-old"
	tests := map[string]struct {
		beside, data string // versions, "-" for no bundle
		want         string
	}{
		"beside the program first":            {current, current, "beside"},
		"then in the data directory":          {"-", current, "data"},
		"an old one is passed over":           {old, current, "data"},
		"one without a version too":           {"", current, "data"},
		"and nothing is found in the end":     {"-", "-", ""},
		"nor when all that exists is old":     {old, old, ""},
		"the data directory need not have it": {current, "-", "beside"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := newCacheIn("", EnvBundles)
			c.directories = []directory{{path: filepath.Join(dir, "beside")}, {path: filepath.Join(dir, "data")}}
			for where, version := range map[string]string{"beside": test.beside, "data": test.data} {
				if version != "-" {
					writeBundle(t, filepath.Join(dir, where), "1.35", version, 0o755)
				}
			}
			path, err := c.findFirst(tiny("1.35", current).artifact())
			if test.want == "" {
				if !errors.Is(err, ErrNotBuilt) {
					t.Fatalf("Find = %q, %v, want ErrNotBuilt", path, err)
				}
				for _, where := range []string{"beside", "data"} {
					if !strings.Contains(err.Error(), filepath.Join(dir, where, "v1.35", "kube")) {
						t.Errorf("%q does not say that it looked in %s", err, where)
					}
				}
				return
			}
			if want := filepath.Join(dir, test.want, "v1.35", "kube"); err != nil || path != want {
				t.Fatalf("Find = %q, %v, want %s", path, err, want)
			}
		})
	}
}

func TestOpenBundlesTakesTheExplicitDirectoryOnly(t *testing.T) {
	dir, env, data := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv(EnvBundles, env)
	for _, where := range []string{dir, env} {
		writeBundle(t, where, "1.35", "v1.35.0-mine", 0o755) // whatever its version
	}
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"the option wins": {Options{Dir: dir, DataDir: data}, dir},
		"the environment": {Options{DataDir: data}, env},
	} {
		path, err := OpenBundles(test.options).Find("1.35")
		if want := filepath.Join(test.want, "v1.35", "kube"); err != nil || path != want {
			t.Errorf("%s: Find = %q, %v, want %s", name, path, err, want)
		}
	}

	t.Setenv(EnvBundles, "")
	c := OpenBundles(Options{DataDir: data}).cache
	if got, want := c.directories[len(c.directories)-1].path, filepath.Join(data, "bundles"); got != want {
		t.Errorf("bundles are built into %s, want %s", got, want)
	}
	if len(c.directories) != 2 || filepath.Base(c.directories[0].path) != "bundles" {
		t.Errorf("directories are %+v, want one beside the program first", c.directories)
	}
}

func TestFindRefusesWhatCannotRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := writeBundle(t, dir, "1.35", "v1", 0o644)
	_, err := newCacheIn(dir, EnvBundles).ensureBuilt(t.Context(), tiny("1.35", "v1").artifact(), nil)
	if err == nil || errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), path) {
		t.Errorf("error is %v, want one that names %s and does not build over it", err, path)
	}
}

func TestUnsupportedVersion(t *testing.T) {
	t.Parallel()
	for _, minor := range []string{"", "1.32", "1.37", "v1.35", "../1.35"} {
		_, err := BundlesIn(t.TempDir()).Ensure(t.Context(), minor, nil)
		if err == nil || !strings.Contains(err.Error(), "1.33, 1.34, 1.35, 1.36") {
			t.Errorf("Ensure(%q) = %v, want an error that lists the versions", minor, err)
		}
	}
}

// Two daemons with ten callers each start one build between them, and everybody gets its result.
func TestEnsureBuildsOnce(t *testing.T) {
	builds := filepath.Join(t.TempDir(), "builds")
	fakeGo(t, `[ "$1" = build ] && echo build >> `+builds+`; exec $GO "$@"`)
	dir := t.TempDir()
	module := tiny("1.35", "v1.35.4-eks-0123abc")
	daemons := []*cache{newCacheIn(dir, EnvBundles), newCacheIn(dir, EnvBundles)}

	var wg sync.WaitGroup
	for _, daemon := range daemons {
		for range 10 {
			wg.Go(func() {
				path, err := daemon.ensureBuilt(t.Context(), module.artifact(), nil)
				if want := filepath.Join(dir, "v1.35", "kube"); err != nil || path != want {
					t.Errorf("Ensure = %q, %v, want %s", path, err, want)
				}
			})
		}
	}
	wg.Wait()

	if log, err := os.ReadFile(builds); err != nil || string(log) != "build\n" {
		t.Errorf("builds: %q, %v, want one", log, err)
	}
	output, err := exec.Command(filepath.Join(dir, "v1.35", "kube")).CombinedOutput()
	if err != nil || string(output) != module.version+"\n" {
		t.Errorf("the bundle says %q, %v, want its version %q", output, err, module.version)
	}
	if left := leftovers(t, dir, "1.35"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestEnsureReplacesAnOldBundle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"v1.35.3-eks-aaaaaaa", "v1.35.4-eks-bbbbbbb"} {
		path, err := newCacheIn(dir, EnvBundles).ensureBuilt(t.Context(), tiny("1.35", version).artifact(), nil)
		if err != nil {
			t.Fatal(err)
		}
		output, err := exec.Command(path).CombinedOutput()
		if err != nil || string(output) != version+"\n" {
			t.Errorf("the bundle says %q, %v, want %q", output, err, version)
		}
	}
}

func TestProgressReachesEveryWatcher(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, module := newCacheIn(dir, EnvBundles), tiny("1.35", "v1")
	var wg sync.WaitGroup
	reports := make([][]Progress, 3)
	for i := range reports {
		wg.Go(func() {
			if _, err := c.ensureBuilt(t.Context(), module.artifact(),
				func(p Progress) { reports[i] = append(reports[i], p) }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, seen := range reports {
		if len(seen) == 0 {
			continue // it came when the bundle was ready
		}
		if last := seen[len(seen)-1]; last.Step != Ready || last.Percent() != 100 || last.Title != "Kubernetes 1.35" {
			t.Errorf("watcher %d: the last report is %+v", i, last)
		}
		for j := 1; j < len(seen); j++ {
			if seen[j].Percent() < seen[j-1].Percent() {
				t.Errorf("watcher %d: %d %% after %d %%", i, seen[j].Percent(), seen[j-1].Percent())
			}
		}
	}
}

func TestFailedBuildSaysWhyAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken, fixed := tiny("1.35", "v1"), tiny("1.35", "v1")
	broken.files["main.go"] = []byte("package main\n\nfunc main() { undefinedFunction() }\n")
	c := newCacheIn(dir, EnvBundles)

	_, err := c.ensureBuilt(t.Context(), broken.artifact(), nil)
	var failed *BuildError
	if !errors.As(err, &failed) {
		t.Fatalf("error is a %T (%v), want a *BuildError", err, err)
	}
	for _, want := range []string{"build the Kubernetes 1.35 bundle", "exit status 1", "main.go:3",
		"undefinedFunction"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "v1.35", "kube")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a failed build there is a bundle: %v", err)
	}
	if left := leftovers(t, dir, "1.35"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	if _, err := c.ensureBuilt(t.Context(), fixed.artifact(), nil); err != nil {
		t.Errorf("a build after a failed one: %v", err)
	}
}

func TestFailedBuildKeepsTheEndOfTheOutput(t *testing.T) {
	fakeGo(t, `i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo "complaint number $i." >&2; done; exit 7`)
	_, err := newCacheIn(t.TempDir(), EnvBundles).ensureBuilt(t.Context(), tiny("1.35", "v1").artifact(), nil)
	var failed *BuildError
	if !errors.As(err, &failed) {
		t.Fatalf("error is %v", err)
	}
	if len(failed.Output) != maxErrorLines || failed.Output[maxErrorLines-1] != "complaint number 100." {
		t.Errorf("kept %d lines, the last %q", len(failed.Output), failed.Output[len(failed.Output)-1])
	}
}

func TestMissingGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	_, err := newCacheIn(dir, EnvBundles).ensureBuilt(t.Context(), tiny("1.35", "v1").artifact(), nil)
	for _, want := range []string{"no go command", "https://go.dev/dl", filepath.Join(dir, "v1.35", "kube"),
		EnvBundles} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
}

func TestUnwritableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := newCacheIn(file, EnvBundles).ensureBuilt(t.Context(), tiny("1.35", "v1").artifact(), nil)
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error is %v, want one that names %s", err, file)
	}
}

// The second of two daemons waits, and takes what the first has built.
func TestEnsureWaitsForAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "v1.35"), 0o755); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(dir, "v1.35", lockName)
	unlock, err := filelock.Lock(t.Context(), lock, func() { t.Error("the lock is taken") })
	if err != nil {
		t.Fatal(err)
	}
	module := tiny("1.35", "v1")
	module.files = map[string][]byte{} // it could not build it itself
	waited := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := newCacheIn(dir, EnvBundles).ensureBuilt(t.Context(), module.artifact(), func(p Progress) {
			if p.Step != Waiting {
				t.Errorf("it builds: %v", p)
				return
			}
			close(waited)
		})
		done <- err
	}()
	<-waited
	writeBundle(t, dir, "1.35", "v1", 0o755)
	unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "v1.35"), 0o755); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(dir, "v1.35", lockName)
	unlock, err := filelock.Lock(t.Context(), lock, func() { t.Error("the lock is taken") })
	if err != nil {
		t.Fatal(err)
	}
	c, module := newCacheIn(dir, EnvBundles), tiny("1.35", "v1")
	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.ensureBuilt(ctx, module.artifact(), func(Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
	// The next caller does not inherit the cancellation.
	unlock()
	if _, err := c.ensureBuilt(t.Context(), module.artifact(), nil); err != nil {
		t.Error(err)
	}
}

// A build goes on while somebody waits for it, and its processes end when nobody does.
func TestLastCallerStopsTheBuild(t *testing.T) {
	running := filepath.Join(t.TempDir(), "running")
	fakeGo(t, `running=`+running+`
if [ "$1" = build ]; then sleep 600 & echo $! > $running.new && mv $running.new $running; wait; fi
exec $GO "$@"`)
	dir := t.TempDir()
	c, module := newCacheIn(dir, EnvBundles), tiny("1.35", "v1")

	compiling := make(chan struct{}, 2)
	report := func(p Progress) {
		if p.Step == Linking || p.Step == Compiling {
			compiling <- struct{}{}
		}
	}
	first, leaveFirst := context.WithCancel(t.Context())
	second, leaveSecond := context.WithCancel(t.Context())
	firstErr, secondErr := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.ensureBuilt(first, module.artifact(), report)
		firstErr <- err
	}()
	<-compiling
	go func() {
		_, err := c.ensureBuilt(second, module.artifact(), report)
		secondErr <- err
	}()
	<-compiling // the second has joined: it was told the last report

	leaveFirst()
	if err := <-firstErr; !errors.Is(err, context.Canceled) {
		t.Errorf("the first caller: %v, want context.Canceled", err)
	}
	select {
	case err := <-secondErr:
		t.Fatalf("the build ended when the first of two callers left: %v", err)
	default:
	}
	pid := waitForFile(t, running)
	leaveSecond()
	if err := <-secondErr; !errors.Is(err, context.Canceled) {
		t.Errorf("the second caller: %v, want context.Canceled", err)
	}
	eventually.True(t, "the build's process "+pid+" ends", func() bool {
		status, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(status), ") Z ")
	})
	if left := leftovers(t, dir, "1.35"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func waitForFile(t *testing.T, path string) string {
	t.Helper()
	var content []byte
	eventually.True(t, path+" exists", func() bool {
		var err error
		content, err = os.ReadFile(path)
		return err == nil
	})
	return strings.TrimSpace(string(content))
}

func TestKubernetesModule(t *testing.T) {
	t.Parallel()
	module, err := kubernetesModule("1.35")
	if err != nil {
		t.Fatal(err)
	}
	flags := linkerFlags(module.stamps)
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=" + module.version,
		"-X k8s.io/client-go/pkg/version.gitVersion=" + module.version,
		"-X k8s.io/component-base/version.gitMajor=1 ",
		"-X k8s.io/component-base/version.gitMinor=35 ",
		"-X k8s.io/component-base/version.gitTreeState=clean ",
	} {
		if !strings.Contains(flags+" ", want) {
			t.Errorf("linker flags %q lack %q", flags, want)
		}
	}
}
