//go:build linux

package nfs

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/mountgrant"
)

// forFiles are the capabilities of root that a process keeps which serves files as their owners; forUsers those by
// which it serves them as others.
var (
	forFiles = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID}
	forUsers = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID}
)

// mostFiles is how many descriptors a process may have: one for each file that the kernel of the machine remembers.
const mostFiles = 1 << 20

// confine makes the directory the root of the calling thread, and takes all of its capabilities but those for files and
// users: they hold from the next program on. It stays root, so that no user of the host may stop or trace it, whose
// number the user of an access point may have.
func confine(dir int, user *mountgrant.User) error {
	limit := unix.Rlimit{Cur: mostFiles, Max: mostFiles}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) != nil { // without CAP_SYS_RESOURCE the host's own limit holds
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
			limit.Cur = limit.Max
			_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		}
	}
	// Its mount namespace keeps nothing of the host's mounts, which may go while it lives: what it needs it has open. It
	// keeps them where the root is no mount.
	_ = unix.Unmount("/", unix.MNT_DETACH)
	if err := errors.Join(unix.Fchdir(dir), unix.Chroot(".")); err != nil {
		return err
	}
	keep := slices.Concat(forFiles, forUsers)
	if user != nil && user.UID != 0 {
		keep = forUsers
	}
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		if slices.Contains(keep, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&header, &rights[0]); err != nil {
		return err
	}
	rights[0].Inheritable, rights[1].Inheritable = 0, 0 // it passes by the bounding set
	if err := unix.Capset(&header, &rights[0]); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// execute makes the process another program, with the rights of the calling thread. It returns when that fails.
func execute(program int, args []string) error {
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings([]string{"GOGC=50", "GOMAXPROCS=4"})
	if err != nil {
		return err
	}
	empty := [1]byte{}
	_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(program), uintptr(unsafe.Pointer(&empty[0])),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])), unix.AT_EMPTY_PATH, 0)
	runtime.KeepAlive(argv)
	runtime.KeepAlive(env)
	return fmt.Errorf("start the program that serves file systems: %w", errno)
}
