//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// isNamespace reports whether a network namespace is mounted at path.
func isNamespace(path string) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); errors.Is(err, unix.ENOENT) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("look at network namespace %s: %w", path, err)
	}
	return fs.Type == unix.NSFS_MAGIC, nil
}

// Identity returns a number that distinguishes the namespace at path from a later one; it returns fs.ErrNotExist while
// there is none.
func Identity(path string) (uint64, error) {
	f, err := openNamespace(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return 0, err
	}
	return s.Ino, nil
}

// openNamespace opens the namespace at path, or is fs.ErrNotExist.
func openNamespace(path string) (*os.File, error) {
	there, err := isNamespace(path)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, fmt.Errorf("network namespace %s: %w", path, fs.ErrNotExist)
	}
	return os.Open(path)
}

// makeNamespace makes a namespace and mounts it at path, unless there is one.
func makeNamespace(path string) (made bool, err error) {
	if there, err := isNamespace(path); there || err != nil {
		return false, err
	}
	if err := makeMountPoint(path); err != nil {
		return false, err
	}
	failed := make(chan error)
	go func() {
		// never unlocked: the thread ends with the goroutine, and with it its place in the namespace
		runtime.LockOSThread()
		failed <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
		}()
	}()
	if err := <-failed; err != nil {
		return false, fmt.Errorf("make network namespace %s: %w", path, err)
	}
	return true, nil
}

// makeMountPoint makes the file on which a namespace is mounted. It may be left from before the host booted, or from a
// crash before the mount.
func makeMountPoint(path string) error {
	if err := shareDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	return f.Close()
}

var sharing sync.Mutex

// shareDirectory makes the directory of namespaces a shared mount, so that unmounting one also frees it from the mount
// namespaces that were made since.
func shareDirectory(dir string) error {
	// Two at once would mount one over the other, and hide what is mounted below.
	sharing.Lock()
	defer sharing.Unlock()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory of network namespaces: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err == nil {
		return nil
	}
	// It is not a mount point yet.
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount directory of network namespaces: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share directory of network namespaces: %w", err)
	}
	return nil
}

// removeNamespace unmounts the namespace at path, or the directory of namespaces, and removes the file. A namespace
// lives on while a process or socket is inside.
func removeNamespace(path string) error {
	for {
		switch err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); {
		case err == nil: // there may be another mount below
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove network namespace: %w", err)
			}
			return nil
		default:
			return fmt.Errorf("unmount network namespace %s: %w", path, err)
		}
	}
}

// In runs f on a thread inside the namespace at path; sockets that f makes stay there. f must not start goroutines that
// make sockets. The error wraps fs.ErrNotExist while there is no such namespace.
func In(path string, f func() error) error {
	inside, err := openNamespace(path)
	if err != nil {
		return err
	}
	defer inside.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			outside, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
			if err != nil {
				return err
			}
			defer outside.Close()
			if err := unix.Setns(int(inside.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter network namespace %s: %w", path, err)
			}
			err = f()
			if unix.Setns(int(outside.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread() // otherwise the thread ends here
			}
			return err
		}()
	}()
	return <-done
}

// Listen calls net.Listen inside the namespace at path.
func Listen(ctx context.Context, path, network, address string) (l net.Listener, err error) {
	err = In(path, func() error {
		l, err = (&net.ListenConfig{}).Listen(ctx, network, address)
		return err
	})
	return l, err
}

// ListenPacket calls net.ListenPacket inside the namespace at path.
func ListenPacket(ctx context.Context, path, network, address string) (c net.PacketConn, err error) {
	err = In(path, func() error {
		c, err = (&net.ListenConfig{}).ListenPacket(ctx, network, address)
		return err
	})
	return c, err
}

// Dial calls net.Dial inside the namespace at path. The address must be numeric: names are not resolved there.
func Dial(ctx context.Context, path, network, address string) (c net.Conn, err error) {
	err = In(path, func() error {
		// Happy eyeballs would make the socket on another thread.
		c, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}
