package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/coracle-eks/coracle/internal/environment"
)

// errNoGo is returned when a program or a module is missing and there is no Go command to get it with.
var errNoGo = errors.New("there is no go command on the PATH: install Go (https://go.dev/dl)")

// findGoCommand returns the path of the Go command, or errNoGo.
func findGoCommand() (string, error) {
	golang, err := exec.LookPath("go")
	if err != nil {
		return "", errNoGo
	}
	return golang, nil
}

// goCommand prepares the Go command to run in a process group of its own, so that its compilers end with it, and at
// low priority, because clusters may be running beside it.
func goCommand(ctx context.Context, dir, golang string, args ...string) *exec.Cmd {
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

const maxErrorLines = 20 // of output, for the error message

// runCommand runs a command and passes its lines of output to the two functions. It returns the last lines of standard
// error that stderr did not recognize.
func runCommand(cmd *exec.Cmd, stdout func(line string), stderr func(line string) (recognized bool)) ([]string, error) {
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
		if len(kept) == maxErrorLines {
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
