package bundle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	programName = "kube"    // the bundle, in the directory of its version
	versionName = "version" // what it was built as, beside it
	workPattern = ".build-" // where it is built, beside it
)

// Module is what a bundle is built from.
type Module struct {
	Minor   string            // "1.35"
	Version string            // what the result calls itself
	Files   map[string][]byte // the Go module
	Stamps  map[string]string // values of variables, as the linker's -X sets them
}

// BuildError is a build that failed. Its message carries the end of what the Go command printed.
type BuildError struct {
	Minor  string
	Err    error
	Output []string // the last lines
}

func (e *BuildError) Error() string {
	message := fmt.Sprintf("build the Kubernetes %s bundle: %v", e.Minor, e.Err)
	if len(e.Output) > 0 {
		message += "\n  " + strings.Join(e.Output, "\n  ")
	}
	return message
}

func (e *BuildError) Unwrap() error { return e.Err }

// build is the recipe. The caller holds the lock of dir.
func build(ctx context.Context, module Module, dir string, progress func(Progress)) (string, error) {
	fail := func(err error, output ...string) (string, error) {
		return "", &BuildError{Minor: module.Minor, Err: err, Output: output}
	}
	target := filepath.Join(dir, programName)

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
	for name, content := range module.Files {
		if err := os.WriteFile(filepath.Join(work, name), content, 0o644); err != nil {
			return fail(err)
		}
	}

	golang, err := exec.LookPath("go")
	if err != nil {
		return fail(fmt.Errorf("there is no go command on the PATH: install Go (https://go.dev/dl), or put a bundle that was built elsewhere at %s and name its directory of bundles in %s", target, EnvDir))
	}
	flags := []string{
		"-trimpath",       // the same sources give the same program, in whichever directory
		"-buildvcs=false", // it is built from the embedded sources, whatever repository surrounds them
		"-ldflags=" + linkerFlags(module.Stamps),
	}

	// What is not yet in the build cache is what will be compiled. The program itself always counts.
	progress(Progress{Minor: module.Minor, Step: Downloading})
	var stale int
	var downloads int
	list := command(ctx, work, golang, slices.Concat([]string{"list", "-deps", "-f", "{{.Stale}}"}, flags, []string{"."})...)
	output, err := run(list, func(line string) {
		if line == "true" {
			stale++
		}
	}, func(line string) bool {
		dependency, ok := strings.CutPrefix(line, "go: downloading ")
		if ok {
			downloads++
			progress(Progress{Minor: module.Minor, Step: Downloading, Done: downloads, Detail: dependency})
		}
		return ok
	})
	if err != nil {
		return fail(err, output...)
	}

	// "go build -v" names every package when it starts to compile it; the last is the program itself.
	report := func(compiled int, name string) {
		p := Progress{Minor: module.Minor, Step: Compiling, Done: compiled, Total: stale, Detail: name}
		if compiled >= stale || stale == 1 {
			p.Step = Linking
		}
		progress(p)
	}
	report(0, "")
	var compiled int
	compile := command(ctx, work, golang, slices.Concat([]string{"build", "-v", "-o", programName}, flags, []string{"."})...)
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

	// Between the two renames the bundle has no version, which Find takes for a wrong one.
	if err := os.WriteFile(filepath.Join(work, versionName), []byte(module.Version+"\n"), 0o644); err != nil {
		return fail(err)
	}
	if err := os.Remove(filepath.Join(dir, versionName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	for _, name := range []string{programName, versionName} {
		if err := os.Rename(filepath.Join(work, name), filepath.Join(dir, name)); err != nil {
			return fail(err)
		}
	}
	progress(Progress{Minor: module.Minor, Step: Ready, Done: stale, Total: stale, Detail: target})
	return target, nil
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
	cmd.Env = append(os.Environ(),
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
