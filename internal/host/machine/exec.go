//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/confine"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/process"
)

// Exit statuses that a shell gives to commands which it could not run.
const (
	notExecutable = 126
	notFound      = 127
)

// Exec runs a command in the machine of an instance, beside its init and with its limits, in the environment of a login
// shell of root, and returns its exit status (128 and the signal's number when one ended it). It needs to be root, and
// no daemon: machines are found in the kernel's process table, by marks that only the daemon of id can sign. The error
// is a *NotRunningError, or a *process.AmbiguousError. It is for programs that end soon after: a thread that was in a
// machine cannot come back, and the first one of a program does not end before it.
func Exec(ctx context.Context, id process.Identity, instanceID string, c Command) (exit int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("only root can enter a machine: run this command as root, as the daemon does")
	}
	init, err := findInit(id, instanceID)
	if err != nil {
		return 0, err
	}
	defer init.Close()
	host, err := cgroup.Open()
	if err != nil {
		return 0, err
	}
	type result struct {
		exit int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		// The thread enters the machine and never comes back: it ends with this goroutine.
		runtime.LockOSThread()
		exit, err := execInside(ctx, init, host.Group(id.Owner, instanceID), c)
		done <- result{exit, err}
	}()
	r := <-done
	return r.exit, r.err
}

// execInside enters the machine with the calling thread, and forks there.
func execInside(ctx context.Context, init *machineInit, group cgroup.Group, c Command) (int, error) {
	in, err := openInside(init, group)
	if err != nil {
		return 0, err
	}
	defer in.close()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return 0, err
	}
	if err := unix.Setns(int(init.pidfd.Fd()),
		unix.CLONE_NEWNS|unix.CLONE_NEWPID|unix.CLONE_NEWNET|unix.CLONE_NEWUTS|unix.CLONE_NEWIPC); err != nil {
		return 0, fmt.Errorf("enter the machine: %w", err)
	}
	env := environment(in.proc)
	path, exit, err := lookPath(c.Args[0], env)
	if err != nil {
		return exit, err
	}
	dir := "/"
	if info, err := os.Stat("/root"); err == nil && info.IsDir() {
		dir = "/root"
	}
	// What the machine runs may not do more than its init, and while it is still this program, nobody may look into it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 0, err
	}
	o := confine.Options{UserNamespace: in.users != nil, CgroupV2: group.Host.V2()}
	if in.launcher != nil && o.UserNamespace {
		o.Listener = in.launcher.PassListener
	}
	if err := confine.Thread(o); err != nil {
		return 0, err
	}
	start := func(files []*os.File) (*os.Process, error) {
		return usernamespace.Start(usernamespace.Command{
			Namespace: in.users, Groups: in.groups, GroupNamespace: in.groupNamespace, Path: path, Dir: dir,
			Args: c.Args, Env: env, Files: files, Terminal: c.TTY,
		})
	}
	if c.TTY {
		return withTerminal(ctx, start, in, c)
	}
	return withStreams(ctx, start, c)
}

// inside are the parts of a machine that only a process of its own can enter, which the calling thread is not.
type inside struct {
	users          *os.File // the user namespace; nil: the host's
	userID         int      // root of the machine, on the host
	groups         []*os.File
	groupNamespace *os.File
	// launcher makes system calls for the command; nil with one that makes none
	launcher *disks.Connection
	// the host's /proc, by which the calling thread finds its own files: that of the machine does not show the thread
	proc *os.File
}

// openInside opens them, while the calling thread is on the host.
func openInside(m *machineInit, group cgroup.Group) (_ *inside, err error) {
	in, init := &inside{}, m.pid
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if in.proc, err = os.Open("/proc"); err != nil {
		return nil, err
	}
	if m.dir != "" {
		in.launcher, err = disks.Connect(m.dir)
		if err != nil && !errors.Is(err, disks.ErrNotServed) {
			return nil, err
		}
	}
	if in.groups, err = group.OpenProcesses("exec.scope"); err != nil {
		return nil, err
	}
	if in.groupNamespace, err = os.Open(fmt.Sprintf("/proc/%d/ns/cgroup", init)); err != nil {
		return nil, fmt.Errorf("the machine ended: %w", err)
	}
	if in.users, err = usernamespace.OfProcess(init); err != nil || in.users == nil {
		return in, err
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", init))
	if err != nil {
		return nil, fmt.Errorf("the machine ended: %w", err)
	}
	var first int
	if _, err := fmt.Sscan(string(data), &first, &in.userID); err != nil {
		return nil, fmt.Errorf("read the user IDs of the machine: %w", err)
	}
	return in, nil
}

func (in *inside) close() {
	if in.launcher != nil {
		in.launcher.Close()
	}
	for _, f := range append(in.groups, in.users, in.groupNamespace, in.proc) {
		f.Close() // of a nil file is an error and nothing else
	}
}

// starter starts a command with its standard files.
type starter func(files []*os.File) (*os.Process, error)

// patience is the time that a command may take to end after a signal.
const patience = 10 * time.Second

// withStreams runs a command with the caller's input and output.
func withStreams(ctx context.Context, start starter, c Command) (int, error) {
	s := &streams{}
	defer s.close()
	if err := s.openPipes(c); err != nil {
		return notExecutable, err
	}
	p, err := start(s.files)
	s.closeChildEnds()
	if err != nil {
		return notExecutable, err
	}
	exit, err := waitForProcess(ctx, p)
	s.drainOutput()
	return exit, err
}

// waitForProcess waits for a process. The end of ctx ends it.
func waitForProcess(ctx context.Context, p *os.Process) (exit int, err error) {
	ended := make(chan struct{})
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		_ = p.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(patience):
			_ = p.Kill()
		}
	})
	state, err := p.Wait()
	close(ended)
	if !stop() {
		<-told
	}
	if err != nil {
		return notExecutable, err
	}
	if s := state.Sys().(syscall.WaitStatus); s.Signaled() {
		return 128 + int(s.Signal()), nil
	}
	return state.ExitCode(), nil
}

// environment returns that of a login shell of root, with what the machine's /etc/environment adds. The calling thread
// is in the machine.
func environment(proc *os.File) []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/root/bin",
		"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8",
		disks.ClassicMount,
	}
	if t := os.Getenv("TERM"); t != "" {
		env = append(env, "TERM="+t)
	}
	for line := range strings.Lines(string(readSettings(proc, "/", "etc/environment"))) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok && name != "" && !strings.HasPrefix(name, "#") {
			env = append(env, name+"="+strings.Trim(value, `"'`))
		}
	}
	return env
}

// readSettings returns the beginning of a regular file of the machine whose root the calling thread sees as root;
// nothing of what lies on another mount, where the machine may have a file of the kernel.
func readSettings(proc *os.File, root, path string) []byte {
	const limit = 64 << 10
	dir, err := os.Open(root)
	if err != nil {
		return nil
	}
	defer dir.Close()
	seen, err := unix.Openat2(int(dir.Fd()), path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil
	}
	defer unix.Close(seen)
	var st unix.Stat_t
	if err := unix.Fstat(seen, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	// without waiting for a lease that the machine has on it
	f, err := reopenFile(proc, seen, os.O_RDONLY|unix.O_NONBLOCK, path)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, limit)) // what there is
	return data
}

// lookPath finds a program where the calling thread is. Where there is none, exit is what a shell would say.
func lookPath(name string, env []string) (path string, exit int, err error) {
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for _, v := range slices.Backward(env) {
			if dirs, ok := strings.CutPrefix(v, "PATH="); ok {
				for dir := range strings.SplitSeq(dirs, ":") {
					candidates = append(candidates, filepath.Join(dir, name))
				}
				break
			}
		}
	}
	exit, err = notFound, fmt.Errorf("%s: command not found in the machine", name)
	for _, path := range candidates {
		info, statErr := os.Stat(path)
		if statErr != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return path, 0, nil
		}
		exit, err = notExecutable, fmt.Errorf("%s: permission denied: it is not executable", path)
	}
	return "", exit, err
}
