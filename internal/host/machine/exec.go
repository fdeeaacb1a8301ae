//go:build linux

package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/confine"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
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

// Named is the running instance whose private DNS name, the whole or its first part, is name, among those whose disks
// are in dir (Options.Dir); a name that is none's is itself. Instances of other VPCs and accounts may have that name,
// too: then there is an error, which lists their IDs.
func Named(dir, name string, isRunning func(instanceID string) bool) (string, error) {
	specs, _ := filepath.Glob(filepath.Join(dir, "i-*", launch.SpecFile))
	var named []string
	for _, file := range specs {
		spec, err := launch.Read(file)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(spec.Hostname, ".")
		if (spec.Hostname == name || first == name) && isRunning(spec.InstanceID) {
			named = append(named, spec.InstanceID)
		}
	}
	switch len(named) {
	case 0:
		return name, nil
	case 1:
		return named[0], nil
	}
	return "", fmt.Errorf("%d instances are named %s (%s): give the ID of one of them", len(named), name,
		strings.Join(named, ", "))
}

// IsRunning reports whether an instance has a machine of the daemon of id.
func IsRunning(id process.Identity, instanceID string) bool {
	init, err := findInit(id, instanceID)
	if err != nil {
		return false
	}
	init.Close()
	return true
}

// PIDs are the process IDs, on the host, of everything in the machine of an instance, the containers of its pods
// included.
func PIDs(owner, instanceID string) ([]int, error) {
	host, err := cgroup.Open()
	if err != nil {
		return nil, err
	}
	return host.Group(owner, instanceID).Processes()
}

// machineInit is process 1 of a machine.
type machineInit struct {
	pid   int // on the host
	pidfd *os.File
}

func (i *machineInit) Close() error { return i.pidfd.Close() }

// findInit finds the init of a machine, by the process that launched it.
func findInit(id process.Identity, instanceID string) (*machineInit, error) {
	init, err := openInit(id, namePrefix+instanceID)
	if !errors.Is(err, process.ErrNotRunning) {
		return init, err
	}
	found, err := process.Find(id)
	if err != nil {
		return nil, err
	}
	e := &NotRunningError{InstanceID: instanceID}
	for _, f := range found {
		other, ok := strings.CutPrefix(f.Name, namePrefix)
		if !ok || !f.Leader || other == instanceID {
			continue
		}
		if _, ok := initChild(f.PID); ok {
			e.Running = append(e.Running, other)
		}
	}
	slices.Sort(e.Running)
	e.Running = slices.Compact(e.Running)
	return nil, e
}

// openInit returns the init that the process of a name launched.
func openInit(id process.Identity, name string) (*machineInit, error) {
	launcher, err := process.Hold(id, name)
	if err != nil {
		return nil, err
	}
	defer launcher.Close()
	pid, ok := initChild(launcher.PID())
	if !ok {
		return nil, process.ErrNotRunning
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, process.ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	init := &machineInit{pid: pid, pidfd: os.NewFile(uintptr(fd), "pidfd")}
	// The number may have passed to another process before it was opened. A child of the launcher that is what init has
	// to be cannot be that; and while the launcher lives, its number cannot have passed on either.
	if again, ok := initChild(launcher.PID()); !ok || again != pid || !launcher.Alive() {
		init.Close()
		return nil, process.ErrNotRunning
	}
	return init, nil
}

// initChild is the child of a launch process that is the first in a PID namespace, once it has become init.
func initChild(launch int) (int, bool) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", launch))
	if err != nil {
		return 0, false
	}
	for _, task := range tasks {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", launch, task.Name()))
		if err != nil {
			continue
		}
		for child := range bytes.FieldsSeq(children) {
			pid, err := strconv.Atoi(string(child))
			if err == nil && isInitProcess(pid, launch) {
				return pid, true
			}
		}
	}
	return 0, false
}

func isInitProcess(pid, launcher int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(ids)
			if len(all) < 2 || all[len(all)-1] != "1" {
				return false
			}
		}
	}
	// Until it becomes init it is a program of the host, and sees files of the host.
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(arguments) == 0 || launch.Assembles(arguments) {
		return false
	}
	outer, err1 := os.Stat(fmt.Sprintf("/proc/%d/root/.", launcher))
	inner, err2 := os.Stat(fmt.Sprintf("/proc/%d/root/.", pid))
	return err1 == nil && err2 == nil && !os.SameFile(outer, inner)
}

// execInside enters the machine with the calling thread, and forks there.
func execInside(ctx context.Context, init *machineInit, group cgroup.Group, c Command) (int, error) {
	in, err := openInside(init.pid, group)
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
	if err := confine.Thread(confine.Options{UserNamespace: in.users != nil, CgroupV2: group.Host.V2()}); err != nil {
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
	// the host's /proc, by which the calling thread finds its own files: that of the machine does not show the thread
	proc *os.File
}

// openInside opens them, while the calling thread is on the host.
func openInside(init int, group cgroup.Group) (_ *inside, err error) {
	in := &inside{}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if in.proc, err = os.Open("/proc"); err != nil {
		return nil, err
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
	for _, f := range append(in.groups, in.users, in.groupNamespace, in.proc) {
		f.Close() // of a nil file is an error and nothing else
	}
}

// starter starts a command with its standard files.
type starter func(files []*os.File) (*os.Process, error)

// patience is how long a command may take to end after it was told to.
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

// streams are the standard files of a command: pipes, with the caller's readers and writers at their other ends. A
// file of the host is never given to a machine itself, which could open it once more, for what it was not meant, or
// type into the terminal that it may be.
type streams struct {
	files  []*os.File // the command's
	kept   []*os.File // our ends
	copies sync.WaitGroup
	// begun and ended count writes to the caller.
	begun, ended atomic.Int64
}

func (s *streams) openPipes(c Command) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files = append(s.files, r)
	if c.Stdin == nil {
		w.Close()
	} else {
		s.kept = append(s.kept, w)
		go func() { // it may wait for input when the command has long ended
			_, _ = io.Copy(w, c.Stdin)
			w.Close()
		}()
	}
	if err := s.addOutput(c.Stdout); err != nil {
		return err
	}
	if sameWriter(c.Stdout, c.Stderr) {
		s.files = append(s.files, s.files[1])
		return nil
	}
	return s.addOutput(c.Stderr)
}

func (s *streams) addOutput(to io.Writer) error {
	if to == nil {
		to = io.Discard
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files, s.kept = append(s.files, w), append(s.kept, r)
	// It ends when nobody has the other end, or this one is closed.
	s.copies.Go(func() { _, _ = io.Copy(counted{s, to}, r) })
	return nil
}

// counted counts the writes to a writer.
type counted struct {
	s  *streams
	to io.Writer
}

func (c counted) Write(p []byte) (int, error) {
	c.s.begun.Add(1)
	defer c.s.ended.Add(1)
	return c.to.Write(p)
}

// sameWriter reports whether two writers are one, to which two must not write at once.
func sameWriter(a, b io.Writer) bool {
	defer func() { _ = recover() }() // of values that cannot be compared
	return a == b
}

// closeChildEnds closes what the command has.
func (s *streams) closeChildEnds() {
	for _, f := range s.files {
		f.Close()
	}
}

// drainOutput copies what is left of the output. Something in the background may keep it open, and say nothing more.
func (s *streams) drainOutput() {
	done := make(chan struct{})
	go func() { s.copies.Wait(); close(done) }()
	for {
		ended := s.ended.Load()
		select {
		case <-done:
			return
		case <-time.After(time.Second):
			if s.begun.Load() == ended {
				return
			}
		}
	}
}

func (s *streams) close() {
	s.closeChildEnds()
	for _, f := range s.kept {
		f.Close()
	}
}

// environment returns that of a login shell of root, with what the machine's /etc/environment adds. The calling thread
// is in the machine.
func environment(proc *os.File) []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/root/bin",
		"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8",
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

// reopenFile opens for use what was opened to see what it is (O_PATH): to open a device is to use it, and the rules for
// devices of the machine do not hold for the calling thread. proc is the host's /proc.
func reopenFile(proc *os.File, seen, flags int, name string) (*os.File, error) {
	fd, err := unix.Openat(int(proc.Fd()), fmt.Sprintf("thread-self/fd/%d", seen), flags|unix.O_NOCTTY|unix.O_CLOEXEC,
		0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
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

// withTerminal runs a command with a terminal of the machine, where the calling thread is.
func withTerminal(ctx context.Context, start starter, in *inside, c Command) (int, error) {
	master, slave, err := openTerminal(in.proc, "/dev/pts/ptmx")
	if err != nil {
		return 0, fmt.Errorf("open a terminal in the machine: %w", err)
	}
	defer master.Close()
	if err := slave.Chown(in.userID, -1); err != nil {
		slave.Close()
		return 0, fmt.Errorf("hand the terminal over: %w", err)
	}
	if outer, ok := c.Stdin.(*os.File); ok && term.IsTerminal(int(outer.Fd())) {
		resize := func() {
			if size, err := unix.IoctlGetWinsize(int(outer.Fd()), unix.TIOCGWINSZ); err == nil {
				_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, size)
			}
		}
		resize()
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, syscall.SIGWINCH)
		defer func() { signal.Stop(resized); close(resized) }()
		go func() {
			for range resized {
				resize()
			}
		}()
		before, err := term.MakeRaw(int(outer.Fd()))
		if err != nil {
			slave.Close()
			return 0, err
		}
		defer func() { _ = term.Restore(int(outer.Fd()), before) }()
	}
	p, err := start([]*os.File{slave, slave, slave})
	slave.Close()
	if err != nil {
		return notExecutable, err
	}
	if c.Stdin != nil {
		go func() { // it may wait for a key when the command has long ended
			_, _ = io.Copy(master, c.Stdin)
			_, _ = master.Write([]byte{4}) // the end of the input, for who has no terminal
		}()
	}
	shown := make(chan struct{})
	go func() {
		_, _ = io.Copy(c.Stdout, master) // ends with EIO when nothing has the other end open
		close(shown)
	}()
	exit, err := waitForProcess(ctx, p)
	select {
	case <-shown:
	case <-time.After(time.Second): // something in the background keeps the terminal
	}
	return exit, err
}

// openTerminal makes a terminal by the multiplexer at path.
func openTerminal(proc *os.File, path string) (master, slave *os.File, err error) {
	// The machine decides what lies there. The descriptors of a terminal are asked of the kernel, and nothing else is
	// used.
	seen, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(seen)
	if err := isTerminal(seen); err != nil {
		return nil, nil, err
	}
	master, err = reopenFile(proc, seen, os.O_RDWR|unix.O_NONBLOCK, path)
	if err != nil {
		return nil, nil, err
	}
	raw, err := master.SyscallConn()
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed != nil {
			return
		}
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCGPTPEER,
			uintptr(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC))
		if errno != 0 {
			failed = os.NewSyscallError("TIOCGPTPEER", errno)
			return
		}
		slave = os.NewFile(peer, "terminal")
	})
	if err = errors.Join(err, failed); err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

// isTerminal refuses what is no file of the kernel's file system of terminals.
func isTerminal(fd int) error {
	var system unix.Statfs_t
	if err := unix.Fstatfs(fd, &system); err != nil {
		return err
	}
	if system.Type != unix.DEVPTS_SUPER_MAGIC {
		return errors.New("/dev/pts/ptmx of the machine is not that of a devpts file system")
	}
	return nil
}
