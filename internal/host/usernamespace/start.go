//go:build linux

package usernamespace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Command is a program to start as root of a user namespace.
type Command struct {
	Namespace *os.File // the user namespace; nil: the calling thread's
	// Groups are the files of cgroups to enter first (cgroup.procs), open for writing, and GroupNamespace, unless nil, the
	// namespace of cgroups to enter then.
	Groups         []*os.File
	GroupNamespace *os.File
	// Cloneflags are further namespaces to make, which the user namespace owns.
	Cloneflags uintptr
	// Path and Dir are looked up where the calling thread is. A relative Path begins at Dir, and Dir, when empty, is
	// the thread's own.
	Path, Dir string
	Args, Env []string
	// Files are the file descriptors 0, 1, ... of the program.
	Files []*os.File
	// Terminal makes the first file the controlling terminal of a new session.
	Terminal bool
}

// The steps that may fail in the child.
const (
	stepGroups = iota + 1
	stepEnter
	stepIdentity
	stepNamespaces
	stepFiles
	stepTerminal
	stepDirectory
	stepExec
)

var steps = map[int]string{
	stepGroups: "enter the cgroups",
	stepEnter:  "enter the user namespace", stepIdentity: "become root of the user namespace",
	stepNamespaces: "make the machine's namespaces",
	stepFiles:      "pass files on", stepTerminal: "take the terminal", stepDirectory: "enter the directory",
	stepExec: "start the program",
}

// child is all that the child needs: after a fork there is no memory to be had.
type child struct {
	groups                []uintptr
	groupNamespace        uintptr // 0: none
	namespace, cloneflags uintptr // 0: none
	path, dir             *byte
	argv, envp            **byte
	files                 []uintptr
	terminal              bool
	status                uintptr // a pipe
	mask                  uint64  // of the signals of the calling thread
}

// Start starts a program in an existing user namespace, as a child of the calling thread, in the other namespaces of
// that thread. The program runs when Start returns.
//
// The kernel lets only a process with a single thread enter a user namespace, which a Go program never is: this is a
// fork whose child makes system calls alone. See syscall.forkAndExecInChild1 for the rules of such a function.
func Start(c Command) (*os.Process, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := prepare(c, w)
	if err != nil {
		w.Close()
		return nil, err
	}
	syscall.ForkLock.Lock()
	all := ^uint64(0)
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&raw.mask)), 8, 0, 0)
	var pid uintptr
	if errno == 0 {
		pid, errno = forkChild(raw)
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&raw.mask)),
			0, 8, 0, 0)
	}
	syscall.ForkLock.Unlock()
	w.Close()
	_ = unix.Close(int(raw.status))
	runtime.KeepAlive(c)
	if errno != 0 {
		return nil, fmt.Errorf("start %s: fork: %w", c.Path, errno)
	}
	return waitForStart(c, int(pid), r)
}

func prepare(c Command, status *os.File) (*child, error) {
	raw := &child{cloneflags: c.Cloneflags, terminal: c.Terminal}
	var err error
	for _, f := range c.Groups {
		raw.groups = append(raw.groups, f.Fd())
	}
	if c.GroupNamespace != nil {
		raw.groupNamespace = c.GroupNamespace.Fd()
	}
	if c.Namespace != nil {
		raw.namespace = c.Namespace.Fd()
	}
	if raw.path, err = syscall.BytePtrFromString(c.Path); err != nil {
		return nil, err
	}
	if c.Dir != "" {
		if raw.dir, err = syscall.BytePtrFromString(c.Dir); err != nil {
			return nil, err
		}
	}
	argv, err := syscall.SlicePtrFromStrings(c.Args)
	if err != nil {
		return nil, err
	}
	envp, err := syscall.SlicePtrFromStrings(c.Env)
	if err != nil {
		return nil, err
	}
	raw.argv, raw.envp = &argv[0], &envp[0]
	for _, f := range c.Files {
		raw.files = append(raw.files, f.Fd())
	}
	// Out of the way of the program's files.
	fd, err := unix.FcntlInt(status.Fd(), unix.F_DUPFD_CLOEXEC, len(c.Files)+3)
	raw.status = uintptr(fd)
	return raw, err
}

// waitForStart reads what the child says until its program runs, or it has ended.
func waitForStart(c Command, pid int, status io.Reader) (*os.Process, error) {
	said, err := io.ReadAll(status)
	if c.Cloneflags != 0 { // the one in between
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		pid = 0
	}
	for ; len(said) >= 8; said = said[8:] {
		if v := int64(binary.NativeEndian.Uint64(said)); v > 0 {
			pid = int(v)
		} else {
			err = fmt.Errorf("start %s: %s: %w", c.Path, steps[int(-v>>32)], syscall.Errno(-v&0xffffffff))
		}
	}
	if err == nil && pid == 0 {
		err = fmt.Errorf("start %s: %w", c.Path, errors.New("the process ended before it could say why"))
	}
	if err != nil {
		if pid != 0 {
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
		return nil, err
	}
	return os.FindProcess(pid)
}

// forkChild returns in the parent only.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkChild(c *child) (pid uintptr, errno syscall.Errno) {
	var (
		zero  = [1]byte{'0'}
		step  int64
		value int64
		fd    uintptr
		i     int
	)
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	step = stepGroups
	for i = range c.groups {
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_WRITE, c.groups[i], uintptr(unsafe.Pointer(&zero)), 1, 0, 0,
			0); errno != 0 {
			goto failed
		}
	}
	if c.groupNamespace != 0 {
		if _, _, errno = syscall.RawSyscall6(unix.SYS_SETNS, c.groupNamespace, unix.CLONE_NEWCGROUP, 0, 0, 0,
			0); errno != 0 {
			goto failed
		}
	}
	step = stepEnter
	if c.namespace != 0 {
		if _, _, errno = syscall.RawSyscall6(unix.SYS_SETNS, c.namespace, unix.CLONE_NEWUSER, 0, 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	step = stepIdentity
	if _, _, errno = syscall.RawSyscall6(syscall.SYS_SETGROUPS, 0, 0, 0, 0, 0, 0); errno != 0 {
		goto failed
	}
	if _, _, errno = syscall.RawSyscall6(syscall.SYS_SETRESGID, 0, 0, 0, 0, 0, 0); errno != 0 {
		goto failed
	}
	if _, _, errno = syscall.RawSyscall6(syscall.SYS_SETRESUID, 0, 0, 0, 0, 0, 0); errno != 0 {
		goto failed
	}
	if c.cloneflags != 0 {
		step = stepNamespaces
		pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE,
			uintptr(syscall.SIGCHLD)|syscall.CLONE_PARENT|c.cloneflags, 0, 0, 0, 0, 0)
		if errno != 0 {
			goto failed
		}
		if pid != 0 {
			value = int64(pid)
			_, _, _ = syscall.RawSyscall6(syscall.SYS_WRITE, c.status, uintptr(unsafe.Pointer(&value)), 8, 0, 0, 0)
			for {
				_, _, _ = syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
			}
		}
	}
	step = stepFiles
	for i = range c.files {
		fd, _, errno = syscall.RawSyscall6(syscall.SYS_FCNTL, c.files[i], unix.F_DUPFD_CLOEXEC, uintptr(len(c.files)),
			0, 0, 0)
		if errno != 0 {
			goto failed
		}
		c.files[i] = fd
	}
	for i = range c.files {
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_DUP3, c.files[i], uintptr(i), 0, 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	if c.terminal {
		step = stepTerminal
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_SETSID, 0, 0, 0, 0, 0, 0); errno != 0 {
			goto failed
		}
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_IOCTL, 0, unix.TIOCSCTTY, 1, 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	if c.dir != nil {
		step = stepDirectory
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0, 0, 0,
			0); errno != 0 {
			goto failed
		}
	}
	step = stepExec
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.mask)), 0, 8,
		0, 0)
	_, _, errno = syscall.RawSyscall6(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)),
		uintptr(unsafe.Pointer(c.argv)), uintptr(unsafe.Pointer(c.envp)), 0, 0, 0)
failed:
	value = -(step<<32 | int64(errno))
	_, _, _ = syscall.RawSyscall6(syscall.SYS_WRITE, c.status, uintptr(unsafe.Pointer(&value)), 8, 0, 0, 0)
	for {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, 1, 0, 0, 0, 0, 0)
	}
}
