//go:build linux

package usernamespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// MapMount mounts the directory over itself so that the IDs of its files are those of the user namespace: what root of
// the host owns belongs to root inside. What is mounted below stays behind. The calling thread needs a mount namespace
// of its own. Once the mount is there, only who acts as a user of the namespace can make files in it.
func MapMount(dir string, namespace *os.File) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return &fs.PathError{Op: "clone the mount of", Path: dir, Err: err}
	}
	clone := os.NewFile(uintptr(fd), dir)
	defer clone.Close()
	if err := MapDetached(clone, namespace); err != nil {
		return err
	}
	if err := unix.MoveMount(int(clone.Fd()), "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &fs.PathError{Op: "mount with mapped IDs", Path: dir, Err: err}
	}
	return nil
}

// MapDetached makes the IDs of files in a mount that is nowhere yet those of the user namespace.
func MapDetached(mount, namespace *os.File) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(namespace.Fd())}
	if err := unix.MountSetattr(int(mount.Fd()), "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return &fs.PathError{Op: "map the IDs of the mount of", Path: mount.Name(), Err: err}
	}
	return nil
}

// InMountNamespace calls f with the calling thread in a mount namespace of its own, of which nothing is seen by others.
// The goroutine must be locked to its thread, and stay so.
func InMountNamespace(f func() error) error {
	before, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return err
	}
	defer before.Close()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	err = unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = f()
	}
	if back := unix.Setns(int(before.Fd()), unix.CLONE_NEWNS); back != nil {
		err = errors.Join(err, fmt.Errorf("return to the host's mount namespace: %w", back))
	}
	return err
}
