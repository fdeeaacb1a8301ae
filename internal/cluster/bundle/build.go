package bundle

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coracle-eks/coracle/internal/environment"
)

const (
	programName = "kube"    // the bundle, in the directory of its version
	versionName = "version" // what it was built as, beside it
	workPattern = ".build-" // where it is built, beside it
	outName     = ".out"    // in there, what the Go command makes
)

// Module is what a bundle is built from. A bundle of Kubernetes has only the first four; the others are for
// modules with several programs.
type Module struct {
	Minor   string            // "1.35"
	Version string            // what the result calls itself
	Files   map[string][]byte // the Go module, by path
	Stamps  map[string]string // values of variables, as the linker's -X sets them

	// Of, if not nil, is a published module of which a copy is built; Files are put into it.
	Of *Download
	// Replace are its replace directives, "MODULE" to "MODULE@VERSION", beside those that it has.
	Replace map[string]string
	// Sums are lines that are put at the end of its go.sum.
	Sums []string

	// Title is how messages call it; "Kubernetes 1.35 bundle" when empty.
	Title string
	// Dir is its directory in a directory of bundles; "v1.35" when empty.
	Dir string
	// Tags are build tags.
	Tags []string
	// Programs are the packages to build, by the name of the file; the module's own as "kube" when empty.
	Programs map[string]string
	// Data are files of required modules to put beside the programs: "MODULE//path" by the name of the file.
	Data map[string]string
}

func (m Module) title() string { return cmp.Or(m.Title, "Kubernetes "+m.Minor+" bundle") }

func (m Module) dir() string { return cmp.Or(m.Dir, "v"+m.Minor) }

func (m Module) programs() map[string]string {
	if len(m.Programs) == 0 {
		return map[string]string{programName: "."}
	}
	return m.Programs
}

// first is the file that shows that a bundle is there.
func (m Module) first() string { return slices.Sorted(maps.Keys(m.programs()))[0] }

// BuildError is a build that failed. Its message carries the end of what the Go command printed.
type BuildError struct {
	Title  string
	Err    error
	Output []string // the last lines
}

func (e *BuildError) Error() string {
	message := fmt.Sprintf("build the %s: %v", e.Title, e.Err)
	if len(e.Output) > 0 {
		message += "\n  " + strings.Join(e.Output, "\n  ")
	}
	return message
}

func (e *BuildError) Unwrap() error { return e.Err }

// build is the recipe. The caller holds the lock of dir.
func build(ctx context.Context, module Module, dir, env string, progress func(Progress)) (string, error) {
	fail := func(err error, output ...string) (string, error) {
		return "", &BuildError{Title: module.title(), Err: err, Output: output}
	}
	target := filepath.Join(dir, module.first())
	at := Progress{Minor: module.Minor, Title: module.Title}

	// With the lock held, what earlier builds left behind belongs to nobody.
	abandoned, err := filepath.Glob(filepath.Join(dir, workPattern+"*"))
	if err != nil {
		return fail(err)
	}
	for _, path := range abandoned {
		if err := os.RemoveAll(path); err != nil {
			return fail(err)
		}
	}
	work, err := os.MkdirTemp(dir, workPattern)
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(work)
	golang, err := exec.LookPath("go")
	if err != nil {
		return fail(fmt.Errorf("there is no go command on the PATH: install Go (https://go.dev/dl), or put what was built elsewhere at %s and name its directory in %s", target, env))
	}
	step := func(step Step, done, total int, detail string) {
		at.Step, at.Done, at.Total, at.Detail = step, done, total, detail
		progress(at)
	}
	step(Downloading, 0, 0, "")
	if err := module.lay(ctx, work, golang); err != nil {
		return fail(err)
	}
	flags := []string{
		"-trimpath",       // the same sources give the same program, in whichever directory
		"-buildvcs=false", // it is built from the embedded sources, whatever repository surrounds them
		"-ldflags=" + linkerFlags(module.Stamps),
	}
	if len(module.Tags) > 0 {
		flags = append(flags, "-tags="+strings.Join(module.Tags, ","))
	}
	packages := slices.Compact(slices.Sorted(maps.Values(module.programs())))

	// What is not yet in the build cache is what will be compiled. The program itself always counts.
	var stale int
	var downloads int
	list := command(ctx, work, golang, slices.Concat([]string{"list", "-deps", "-f", "{{.Stale}}"}, flags, packages)...)
	output, err := run(list, func(line string) {
		if line == "true" {
			stale++
		}
	}, func(line string) bool {
		dependency, ok := strings.CutPrefix(line, "go: downloading ")
		if ok {
			downloads++
			step(Downloading, downloads, 0, dependency)
		}
		return ok
	})
	if err != nil {
		return fail(err, output...)
	}

	// "go build -v" names every package when it starts to compile it; the last is the program itself.
	report := func(compiled int, name string) {
		if compiled >= stale || stale == 1 {
			step(Linking, compiled, stale, name)
		} else {
			step(Compiling, compiled, stale, name)
		}
	}
	report(0, "")
	var compiled int
	// One program is written where we say, several into a directory under the names of their packages.
	out := filepath.Join(work, outName)
	if err := os.Mkdir(out, 0o700); err != nil {
		return fail(err)
	}
	file := func(name, pkg string) string { return filepath.Join(out, filepath.Base(pkg)) }
	into := out + string(filepath.Separator)
	if len(module.programs()) == 1 {
		file = func(name, _ string) string { return filepath.Join(out, name) }
		into = file(module.first(), "")
	}
	compile := command(ctx, work, golang, slices.Concat([]string{"build", "-v", "-o", into}, flags, packages)...)
	output, err = run(compile, nil, func(line string) bool {
		if strings.ContainsAny(line, " \t:") {
			return false // a message, not an import path
		}
		compiled++
		report(compiled, line)
		return true
	})
	if err != nil {
		return fail(err, output...)
	}

	built := make(map[string]string) // what to move, by the name that it gets
	for name, pkg := range module.programs() {
		built[name] = file(name, pkg)
	}
	for name, file := range module.Data {
		built[name] = filepath.Join(out, name)
		if err := copyFromModule(ctx, work, golang, file, built[name]); err != nil {
			return fail(err)
		}
	}

	// Between the renames the bundle has no version, which Find takes for a wrong one.
	// Open to others, like the programs: users of one host may share them.
	if err := os.WriteFile(filepath.Join(work, versionName), []byte(module.Version+"\n"), 0o644); err != nil {
		return fail(err)
	}
	if err := os.Remove(filepath.Join(dir, versionName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	for name, path := range built {
		if err := os.Rename(path, filepath.Join(dir, name)); err != nil {
			return fail(err)
		}
	}
	if err := os.Rename(filepath.Join(work, versionName), filepath.Join(dir, versionName)); err != nil {
		return fail(err)
	}
	if len(built) > 1 {
		step(Ready, stale, stale, dir)
	} else {
		step(Ready, stale, stale, target)
	}
	return target, nil
}

// copyFromModule copies a file of a required module, "example.com/module//path/to/file".
func copyFromModule(ctx context.Context, work, golang, file, to string) error {
	module, path, _ := strings.Cut(file, "//")
	var dir string
	output, err := run(command(ctx, work, golang, "list", "-m", "-f", "{{.Dir}}", module),
		func(line string) { dir = line }, func(string) bool { return false })
	if err != nil {
		return fmt.Errorf("find the module %s: %w: %s", module, err, strings.Join(output, "; "))
	}
	content, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644) // open to others, like the programs
}

func linkerFlags(stamps map[string]string) string {
	// No symbol table and no debugging information: nothing reads them at run time, stack traces
	// come from elsewhere.
	flags := []string{"-s", "-w"}
	var variables []string
	for variable := range stamps {
		variables = append(variables, variable)
	}
	slices.Sort(variables)
	for _, variable := range variables {
		flags = append(flags, "-X", variable+"="+stamps[variable])
	}
	return strings.Join(flags, " ")
}

// command runs the Go command in a process group of its own, so that its compilers end with it, and
// at low priority, because clusters may be running beside.
func command(ctx context.Context, dir, golang string, args ...string) *exec.Cmd {
	argv := append([]string{golang}, args...)
	if nice, err := exec.LookPath("nice"); err == nil {
		argv = append([]string{nice, "-n", "5"}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(environment.ForGo(),
		"CGO_ENABLED=0", // runs on every Linux, machines included
		"GOFLAGS=",      // the user's (-mod=vendor, -tags, ...) are meant for the user's modules
		"GOWORK=off",
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

const keptLines = 20 // of output, for the error message

// run runs a command and gives its lines to the two functions. It returns the last lines of standard
// error that stderr did not recognise.
func run(cmd *exec.Cmd, stdout func(line string), stderr func(line string) (recognised bool)) ([]string, error) {
	var kept []string
	var readers sync.WaitGroup
	read := func(open func() (io.ReadCloser, error), line func(string)) error {
		pipe, err := open()
		if err != nil {
			return err
		}
		readers.Go(func() {
			lines := bufio.NewScanner(pipe)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				line(lines.Text())
			}
			io.Copy(io.Discard, pipe) //nolint:errcheck // a line beyond the buffer must not block the command
		})
		return nil
	}
	if stdout != nil {
		if err := read(cmd.StdoutPipe, stdout); err != nil {
			return nil, err
		}
	}
	err := read(cmd.StderrPipe, func(line string) {
		if stderr(line) {
			return
		}
		if len(kept) == keptLines {
			kept = kept[1:]
		}
		kept = append(kept, line)
	})
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	readers.Wait()
	err = cmd.Wait()
	return kept, err
}
