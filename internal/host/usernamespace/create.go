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

// Create creates a user namespace with the range of IDs that begins at first, and further namespaces that it owns:
// those of the flags, of which CLONE_NEWPID is none. While f runs, they are those of the process whose ID f gets;
// afterwards they last as long as something refers to them.
//
// The user namespace belongs to the first ID of its range. The kernel counts what its processes have of namespaces,
// inotify instances and watches, pending signals and message queues against its owner, up to the limits of one user of
// the host: what one machine uses up, neither the host's root nor another machine lacks.
func Create(first uint32, flags uintptr, f func(pid int) error) error {
	if first < First || first > Last-Size+1 || first%Size != 0 {
		return fmt.Errorf("create a user namespace: no range of IDs begins at %d", first)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the child ends with the thread that has forked it
		defer runtime.UnlockOSThread()
		done <- createNamespace(first, flags, f)
	}()
	return <-done
}

func createNamespace(first uint32, flags uintptr, f func(pid int) error) error {
	p, err := startOwner(first, flags)
	if err != nil {
		return fmt.Errorf("create a user namespace: %w", err)
	}
	if err = mapRange(p.Pid, first); err == nil {
		err = f(p.Pid)
	}
	killed := p.Kill()
	_, waited := p.Wait()
	return errors.Join(err, killed, waited)
}

// mapRange maps the IDs of the user namespace of a process, which only root of the host may do.
func mapRange(pid int, first uint32) error {
	for _, file := range []string{"uid_map", "gid_map"} {
		ids := fmt.Sprintf("0 %d %d\n", first, Size)
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file), []byte(ids), 0); err != nil {
			return fmt.Errorf("map the IDs of a user namespace: %w", err)
		}
	}
	return nil
}

// owner is all that the child of startOwner needs: after a fork it cannot allocate memory.
type owner struct {
	id         uintptr
	parent     uintptr
	namespaces uintptr
	header     unix.CapUserHeader
	rights     [2]unix.CapUserData // the capabilities of the calling thread
	status     uintptr             // a pipe
	signals    uint64
}

// startOwner starts a process in new namespaces that belong to the user and group id. The process does nothing; it
// ends with the calling thread.
func startOwner(id uint32, flags uintptr) (*os.Process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c := &owner{
		id:         uintptr(id),
		parent:     uintptr(os.Getpid()),
		namespaces: syscall.CLONE_NEWUSER | flags,
		status:     w.Fd(),
	}
	c.header.Version = unix.LINUX_CAPABILITY_VERSION_3
	if err := unix.Capget(&c.header, &c.rights[0]); err != nil {
		w.Close()
		return nil, err
	}
	all := ^uint64(0)
	syscall.ForkLock.Lock()
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&c.signals)), 8, 0, 0)
	var pid uintptr
	if errno == 0 {
		pid, errno = forkOwner(c)
		_, _, _ = syscall.RawSyscall6(
			syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.signals)), 0, 8, 0, 0,
		)
	}
	syscall.ForkLock.Unlock()
	w.Close()
	if errno != 0 {
		return nil, fmt.Errorf("fork: %w", errno)
	}
	p, err := os.FindProcess(int(pid))
	if err != nil {
		return nil, err
	}
	var answer [8]byte
	if _, err = io.ReadFull(r, answer[:]); err == nil {
		if errno := syscall.Errno(binary.NativeEndian.Uint64(answer[:])); errno != 0 {
			err = errno
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.Kill(), func() error { _, err := p.Wait(); return err }())
	}
	return p, nil
}

// forkOwner returns in the parent only. The rules for [fork] hold here, too. The child's real user stays root, whose
// processes the kernel does not count, and it keeps its capabilities until it has the new namespaces: many hosts let
// nobody else make them.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkOwner(c *owner) (pid uintptr, errno syscall.Errno) {
	const keep = ^uintptr(0)
	var value uint64
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	if _, _, errno = syscall.RawSyscall6(syscall.SYS_SETRESGID, keep, c.id, keep, 0, 0, 0); errno != 0 {
		goto answer
	}
	if _, _, errno = syscall.RawSyscall6(syscall.SYS_SETRESUID, keep, c.id, keep, 0, 0, 0); errno != 0 {
		goto answer
	}
	if _, _, errno = syscall.RawSyscall6(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&c.header)),
		uintptr(unsafe.Pointer(&c.rights[0])),
		0, 0, 0, 0); errno != 0 {
		goto answer
	}
	if _, _, errno = syscall.RawSyscall6(syscall.SYS_UNSHARE, c.namespaces, 0, 0, 0, 0, 0); errno != 0 {
		goto answer
	}
	if _, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0,
		0); errno != 0 {
		goto answer
	}
	if pid, _, _ = syscall.RawSyscall6(syscall.SYS_GETPPID, 0, 0, 0, 0, 0, 0); pid != c.parent { // it has ended before
		for {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, 1, 0, 0, 0, 0, 0)
		}
	}
answer:
	value = uint64(errno)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_WRITE, c.status, uintptr(unsafe.Pointer(&value)), 8, 0, 0, 0)
	// Nothing of the caller's stays open in it.
	_, _, _ = syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, 0, uintptr(^uint32(0)), 0, 0, 0, 0)
	for {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0) // without an end; the parent kills it
	}
}
