package fargate

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// replaceNamespace mounts the network namespace in a file where another one is mounted, which ends.
func replaceNamespace(namespace, path string) error {
	if same, err := isSameFile(namespace, path); err != nil || same {
		return err
	}
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := unix.Mount(namespace, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", namespace, path, err)
	}
	return nil
}

// isSameFile reports whether two names lead to the same file, or namespace.
func isSameFile(a, b string) (bool, error) {
	one, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other), err
}
