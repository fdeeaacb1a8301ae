//go:build linux

package usernamespace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Check reports why this host cannot give machines user namespaces; nil when it can. It tries what a machine needs,
// with files in a temporary directory below dir, where machines have theirs: an overlay of ID-mapped
// directories, and the kernel's own file systems mounted in a user namespace. It needs to be root, and leaves nothing
// behind.
func Check(dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("only root can map ranges of IDs")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	at, err := os.MkdirTemp(dir, ".user-namespace-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(at)
	return Create(First, 0, func(pid int) error {
		namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
		if err != nil {
			return err
		}
		defer namespace.Close()
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends here, unless it is the first one, which cannot
			done <- InMountNamespace(func() error { return tryDisk(at, namespace) })
		}()
		if err := <-done; err != nil {
			return err
		}
		return tryKernel()
	})
}

// tryDisk mounts what a machine's disk consists of.
func tryDisk(at string, namespace *os.File) error {
	for _, d := range []string{"lower", "upper", "work", "mnt"} {
		// open to others: root of a machine, whom the host's user is not
		if err := os.Mkdir(filepath.Join(at, d), 0o755); err != nil {
			return err
		}
	}
	if err := MapMount(at, namespace); err != nil {
		return fmt.Errorf("the kernel or the file system of %s does not map IDs: %w", at, err)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", filepath.Join(at, "lower"), filepath.Join(at, "upper"),
		filepath.Join(at, "work"))
	mnt := filepath.Join(at, "mnt")
	if err := unix.Mount("overlay", mnt, "overlay", 0, options); err != nil {
		return fmt.Errorf("the kernel cannot mount an overlay over ID-mapped directories: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(mnt, &st); err != nil {
		return err
	}
	if st.Uid != First {
		return fmt.Errorf("the kernel does not map the IDs of an overlay's layers: its root belongs to %d, not %d",
			st.Uid, First)
	}
	return nil
}

// tryKernel mounts proc and sysfs in new namespaces, which the kernel refuses where the host's own are covered in part,
// as in most containers.
func tryKernel() error {
	proc, sys := []byte("proc\x00/proc\x00"), []byte("sysfs\x00/sys\x00")
	var status syscall.WaitStatus
	pid, errno := tryMounts(&proc[0], &proc[5], &sys[0], &sys[6])
	if errno != 0 {
		return fmt.Errorf("the kernel refuses user namespaces: %w", errno)
	}
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if e := syscall.Errno(status.ExitStatus()); !status.Exited() || e != 0 {
		return fmt.Errorf(
			"proc and sysfs cannot be mounted in a user namespace, as in a container where parts of the host's are "+
				"masked: %w", e)
	}
	return nil
}

// tryMounts forks a child that mounts both and exits with the error. The rules for [fork] hold here, too.
//
//go:noinline
//go:norace
//go:nocheckptr
func tryMounts(proc, onProc, sys, onSys *byte) (child int, errno syscall.Errno) {
	const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mask, all := uint64(0), ^uint64(0)
	syscall.ForkLock.Lock()
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&mask)), 8, 0, 0)
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD)|namespaces, 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		_, _, errno = syscall.RawSyscall6(syscall.SYS_MOUNT, uintptr(unsafe.Pointer(proc)),
			uintptr(unsafe.Pointer(onProc)), uintptr(unsafe.Pointer(proc)), 0, 0, 0)
		if errno == 0 {
			_, _, errno = syscall.RawSyscall6(syscall.SYS_MOUNT, uintptr(unsafe.Pointer(sys)),
				uintptr(unsafe.Pointer(onSys)), uintptr(unsafe.Pointer(sys)), 0, 0, 0)
		}
		for {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, uintptr(errno), 0, 0, 0, 0, 0)
		}
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), 0, 8, 0,
		0)
	syscall.ForkLock.Unlock()
	return int(pid), errno
}
