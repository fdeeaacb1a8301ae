//go:build linux

package nfs

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/mountgrant"
)

// within are the rules for paths below the root of a file system, where machines may replace anything at any moment.
const within = unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openIn opens a directory by a path that cannot leave root: ".." and symbolic links begin there, too.
func openIn(root int, path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: within | unix.RESOLVE_IN_ROOT}
	const tries = 100 // something was renamed meanwhile
	for range tries {
		fd, err := unix.Openat2(root, strings.TrimPrefix(path, "/"), &how)
		if !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
	return -1, unix.EBUSY
}

// openAccessPoint opens the root directory of an access point below the root of its file system, and makes it if it is
// to be made. No part of its path is a symbolic link.
func openAccessPoint(root int, a mountgrant.AccessPoint) (int, error) {
	at := root
	for name := range strings.SplitSeq(a.Path, "/") {
		if name == "" {
			continue
		}
		next, err := openEntry(at, name)
		if errors.Is(err, unix.ENOENT) && a.Creation != nil {
			made := makeDir(at, name, *a.Creation)
			if err = made; err == nil || errors.Is(err, unix.EEXIST) {
				next, err = openEntry(at, name)
			}
			if made == nil && err == nil && a.Creation.Mode&special != 0 {
				err = setSpecial(next, *a.Creation)
			}
		}
		if at != root {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

func openEntry(dir int, name string) (int, error) {
	return unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: within | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
}

// setSpecial sets the special bits of a directory that was made. Somebody may have put another one in its place.
func setSpecial(dir int, c mountgrant.Creation) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	const permissions = 0o777
	if st.Uid != c.UID || st.Gid != c.GID || st.Mode&permissions != c.Mode&permissions {
		return nil
	}
	return unix.Chmod(fmt.Sprintf("/proc/thread-self/fd/%d", dir), c.Mode&0o7777)
}

// special are the bits of a mode that mkdir(2) does not set: those of set-user-ID and set-group-ID.
const special = unix.S_ISUID | unix.S_ISGID

// makeDir makes a directory that has its owner and permissions from the first moment: the calling thread makes it as
// its owner, with the capabilities for files that root has.
func makeDir(dir int, name string, c mountgrant.Creation) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&header, &rights[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	return runAs(mountgrant.User{UID: c.UID, GID: c.GID}, func() error {
		if err := unix.Capset(&header, &rights[0]); err != nil {
			return fmt.Errorf("keep the capabilities: %w", err)
		}
		before := unix.Umask(0) // of this thread, which has unshared it
		defer unix.Umask(before)
		return unix.Mkdirat(dir, name, c.Mode&0o7777)
	})
}
