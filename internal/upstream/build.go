package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	versionName = "version" // the file beside programs with the version that they were built as
	workPattern = ".build-" // where programs are built, beside them
	outName     = ".out"    // in there, what the Go command makes
)

// BuildError reports a failed build. Its message contains the end of what the Go command printed.
type BuildError struct {
	Title  string // what was built: "Kubernetes 1.35 bundle"
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

// builder builds one module into one directory, whose lock the caller holds.
type builder struct {
	module
	target string // the directory in which the programs appear
	work   string // the directory with the sources, below it
	golang string
	output []string // the last lines of a Go command that failed
	stale  int      // packages that must be compiled
	at     Progress
	report func(Progress)
}

// buildModule builds a module into target and returns the path of its first program. env names the environment variable
// with which users name a directory of programs that were built elsewhere.
func buildModule(ctx context.Context, m module, target, env string, report func(Progress)) (string, error) {
	b := &builder{module: m, target: target, at: Progress{Title: cmp.Or(m.label, m.title)}, report: report}
	if err := b.buildTarget(ctx, env); err != nil {
		return "", &BuildError{Title: m.title, Err: err, Output: b.output}
	}
	first := filepath.Join(target, m.firstProgram())
	if len(m.programs)+len(m.data) > 1 {
		b.reportStep(Ready, b.stale, b.stale, target)
	} else {
		b.reportStep(Ready, b.stale, b.stale, first)
	}
	return first, nil
}

func (b *builder) buildTarget(ctx context.Context, env string) error {
	if err := removeAbandoned(b.target); err != nil {
		return err
	}
	var err error
	if b.work, err = os.MkdirTemp(b.target, workPattern); err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	if b.golang, err = findGoCommand(); err != nil {
		return fmt.Errorf("%w, or put what was built elsewhere at %s and name its directory in %s",
			err, filepath.Join(b.target, b.firstProgram()), env)
	}
	b.reportStep(Downloading, 0, 0, "")
	if err := b.writeSources(ctx, b.work, b.golang); err != nil {
		return err
	}
	if err := b.applyPatches(ctx, b.work, b.golang); err != nil {
		return err
	}
	if err := b.countStale(ctx); err != nil {
		return err
	}
	built, err := b.compile(ctx)
	if err != nil {
		return err
	}
	for name, file := range b.data {
		built[name] = filepath.Join(b.work, outName, name)
		if err := b.copyFromModule(ctx, file, built[name]); err != nil {
			return err
		}
	}
	return b.publish(built)
}

// runGoCommand runs the Go command, and keeps the last lines of its output if it fails.
func (b *builder) runGoCommand(ctx context.Context, args []string, stdout func(string),
	stderr func(string) bool) error {
	output, err := runCommand(goCommand(ctx, b.work, b.golang, args...), stdout, stderr)
	if err != nil {
		b.output = output
	}
	return err
}

func (b *builder) reportStep(step Step, done, total int, detail string) {
	b.at.Step, b.at.Done, b.at.Total, b.at.Detail = step, done, total, detail
	b.report(b.at)
}

// removeAbandoned removes what earlier builds left behind in a directory: with its lock held, it belongs to nobody.
func removeAbandoned(target string) error {
	abandoned, err := filepath.Glob(filepath.Join(target, workPattern+"*"))
	if err != nil {
		return err
	}
	for _, path := range abandoned {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// countStale downloads the required modules and counts the packages that the build cache lacks, which are those that
// will be compiled. The program itself always counts.
func (b *builder) countStale(ctx context.Context) error {
	var downloads int
	args := slices.Concat([]string{"list", "-deps", "-f", "{{.Stale}}"}, b.goFlags())
	return b.runGoCommand(ctx, args, func(line string) {
		if line == "true" {
			b.stale++
		}
	}, func(line string) bool {
		dependency, ok := strings.CutPrefix(line, "go: downloading ")
		if ok {
			downloads++
			b.reportStep(Downloading, downloads, 0, dependency)
		}
		return ok
	})
}

// compile compiles the programs and returns their files, by name.
func (b *builder) compile(ctx context.Context) (built map[string]string, err error) {
	// "go build -v" names every package when it starts to compile it; the last is the program itself.
	var compiled int
	report := func(name string) {
		if compiled >= b.stale || b.stale == 1 {
			b.reportStep(Linking, compiled, b.stale, name)
		} else {
			b.reportStep(Compiling, compiled, b.stale, name)
		}
	}
	report("")
	out := filepath.Join(b.work, outName)
	if err := os.Mkdir(out, 0o700); err != nil {
		return nil, err
	}
	// The Go command writes one program to the file that it is told, and several into a directory under the names of
	// their packages.
	built = make(map[string]string)
	for name, pkg := range b.programs {
		built[name] = filepath.Join(out, filepath.Base(pkg))
	}
	into := out + string(filepath.Separator)
	if len(b.programs) == 1 {
		into = filepath.Join(out, b.firstProgram())
		built[b.firstProgram()] = into
	}
	args := slices.Concat([]string{"build", "-v", "-o", into}, b.goFlags())
	err = b.runGoCommand(ctx, args, nil, func(line string) bool {
		if strings.ContainsAny(line, " \t:") {
			return false // a message, not an import path
		}
		compiled++
		report(line)
		return true
	})
	return built, err
}

// copyFromModule copies a file of a required module, "example.com/module//path/to/file".
func (b *builder) copyFromModule(ctx context.Context, file, to string) error {
	module, path, _ := strings.Cut(file, "//")
	var dir string
	output, err := runCommand(goCommand(ctx, b.work, b.golang, "list", "-m", "-f", "{{.Dir}}", module),
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

// publish moves what was built to its place. Between the renames there is no version, which cache.findFirst takes for a
// wrong one.
func (b *builder) publish(built map[string]string) error {
	version := filepath.Join(b.work, versionName)
	// Open to others, like the programs: users of one host may share them.
	if err := os.WriteFile(version, []byte(b.version+"\n"), 0o644); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(b.target, versionName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for name, path := range built {
		if err := os.Rename(path, filepath.Join(b.target, name)); err != nil {
			return err
		}
	}
	return os.Rename(version, filepath.Join(b.target, versionName))
}
