// Package pid1 is the first process of a container in which coracle serves.
//
// The kernel makes process 1 the parent of every process whose own has ended, and somebody has to wait for those. The
// daemon cannot: waiting for any child would take from it those that it started. So process 1 starts the daemon, passes
// on signals, and waits for whatever ends. (The image of another distribution would use tini; see docs/container.md.)
package pid1

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is the time in which processes have to end once the daemon has ended. Container runtimes wait for ten seconds
// before they kill, and the daemon takes up to five.
const grace = 3 * time.Second

// cgroups is the mount point of cgroups in containers.
const cgroups = "/sys/fs/cgroup"

// Is reports whether this process is the first of its PID namespace.
func Is() bool { return os.Getpid() == 1 }

// Run runs this program again as a child with the same arguments, and returns its exit status. When it has ended, every
// other process of the container is asked to end, and after three seconds the kernel kills what is left.
func Run() (status int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals) // before there is a child to hear of
	if err := leaveRootCgroup(cgroups); err != nil {
		return 0, fmt.Errorf("make room for the cgroups of machines: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := false
	var deadline <-chan time.Time
	for {
		select {
		case s := <-signals:
			if number, ok := s.(syscall.Signal); ok && !ended && isForwarded(number) {
				// It may have ended already; that is heard of next.
				_ = unix.Kill(cmd.Process.Pid, number)
			}
		case <-deadline:
			return status, nil
		}
		for {
			var result unix.WaitStatus
			pid, err := unix.Wait4(-1, &result, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return status, nil
			}
			if pid <= 0 {
				break
			}
			if pid == cmd.Process.Pid {
				ended, status = true, exitStatus(result)
				deadline = time.After(grace)
				_ = unix.Kill(-1, unix.SIGTERM) // all but this one; none is fine
			}
		}
	}
}

// exitStatus returns the exit status of a process as shells do.
func exitStatus(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// isForwarded reports whether a signal is meant for the daemon. The others are about this process: its children, its
// terminal, and the scheduler of Go.
func isForwarded(s syscall.Signal) bool {
	switch s {
	case unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE, unix.SIGTTIN, unix.SIGTTOU:
		return false
	}
	return true
}

// leaveRootCgroup moves the processes of a container into a cgroup below the container's own, which of cgroup v2 alone
// can then have others beside it with limits.
// https://docs.kernel.org/admin-guide/cgroup-v2.html#no-internal-process-constraint
func leaveRootCgroup(root string) error {
	processes, err := os.ReadFile(filepath.Join(root, "cgroup.procs"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // cgroup v1, or none
	} else if err != nil {
		return err
	}
	inner := filepath.Join(root, "init")
	// Open to others, like all cgroups: the kernel decides who writes.
	if err := os.Mkdir(inner, 0o755); errors.Is(err, unix.EROFS) {
		return nil // not privileged: doctor and the daemon say what cannot work
	} else if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for pid := range strings.FieldsSeq(string(processes)) {
		// One that "docker exec" started may have ended.
		err := os.WriteFile(filepath.Join(inner, "cgroup.procs"), []byte(pid), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}
