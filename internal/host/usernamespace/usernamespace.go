//go:build linux

package usernamespace

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Ranges of the host's IDs are given to machines between First and Last: above what SSSD gives to users of a directory
// (up to 2000200000), below what systemd keeps for foreign users, and in 31 bits. https://systemd.io/UIDS-GIDS/
const (
	First uint32 = 0x77400000
	Last  uint32 = 0x7ffdffff
	// Size is the number of IDs in a range.
	Size uint32 = 65536
)

// Of opens the user namespace that owns a namespace; nil when that is the host's own, which is this process's.
func Of(namespace *os.File) (*os.File, error) {
	fd, err := unix.IoctlRetInt(int(namespace.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return nil, fmt.Errorf("find the user namespace of %s: %w", namespace.Name(), err)
	}
	return unlessOwn(os.NewFile(uintptr(fd), "user namespace of "+namespace.Name()))
}

// OfProcess opens the user namespace of a process; nil when that is the host's own.
func OfProcess(pid int) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return nil, err
	}
	return unlessOwn(f)
}

func unlessOwn(namespace *os.File) (*os.File, error) {
	own, err := os.Stat("/proc/self/ns/user")
	var is os.FileInfo
	if err == nil {
		is, err = namespace.Stat()
	}
	if err != nil || os.SameFile(is, own) {
		namespace.Close()
		return nil, err
	}
	return namespace, nil
}
