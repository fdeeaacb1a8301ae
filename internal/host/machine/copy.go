package machine

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// copyTree makes to a directory with what is in from (nothing, when there is no from), and appears complete or not at all. Files that nobody changes in
// place are hard links: what containerd has unpacked is only ever read. Its databases are copied.
func copyTree(from, to string) error {
	next := to + ".next"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if _, err := os.Stat(from); from == "" || errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(next, 0o711); err != nil {
			return err
		}
		return os.Rename(next, to)
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return copyOne(path, filepath.Join(next, strings.TrimPrefix(path, from)), d)
	})
	if err != nil {
		return err
	}
	return os.Rename(next, to)
}

func copyOne(from, to string, d fs.DirEntry) error {
	if !d.IsDir() && !strings.HasSuffix(from, ".db") {
		err := os.Link(from, to)
		if err == nil || !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EMLINK) {
			return err
		}
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case mode.IsDir():
		err = os.Mkdir(to, 0o700)
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, to); err != nil {
			return err
		}
		return os.Lchown(to, int(st.Uid), int(st.Gid))
	case mode.IsRegular():
		err = copyFile(from, to)
	default:
		err = unix.Mknod(to, st.Mode, int(st.Rdev)) // devices and whiteouts of layers
	}
	if err != nil {
		return err
	}
	if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if err := copyAttributes(from, to); err != nil {
		return err
	}
	return os.Chmod(to, info.Mode())
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// copyAttributes copies extended attributes: capabilities of programs, and what overlays keep with directories.
func copyAttributes(from, to string) error {
	size, err := unix.Llistxattr(from, nil)
	if err != nil || size == 0 {
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		return err
	}
	names := make([]byte, size)
	if size, err = unix.Llistxattr(from, names); err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:size]), "\x00"), "\x00") {
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(from, name, value)
		if err != nil {
			return err
		}
		if err := unix.Lsetxattr(to, name, value[:n], 0); err != nil {
			return err
		}
	}
	return nil
}
