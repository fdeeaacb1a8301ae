//go:build linux

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

	"github.com/coracle-eks/coracle/internal/guest/rootfs"
)

// opaque marks a directory of a layer that hides those of the same name in the layers below.
// https://docs.kernel.org/filesystems/overlayfs.html#whiteouts-and-opaque-directories
const opaque = "trusted.overlay.opaque"

// snapshotsDir is the directory of image layers in containerd's root: <number>/fs each.
const snapshotsDir = "io.containerd.snapshotter.v1.overlayfs/snapshots"

// copyContainerd makes two directories of containerd's root from, in which images are unpacked: to, the machine's own
// copy of everything but layers, and layers, with hard links of the files of each. Machines see the second one
// read-only, at rootfs.Layers, where to has symbolic links to: what machines can write has no file in common with
// anything. Without from, to begins empty. Both appear complete or not at all; layers is there when to is.
func copyContainerd(from, to, layers string) error {
	if from == "" {
		return makeWhole(to, func(next string) error { return os.Mkdir(next, 0o711) })
	}
	err := makeWhole(layers, func(next string) error {
		if err := os.Mkdir(next, 0o755); err != nil {
			return err
		}
		return eachLayer(from, func(number, dir string) error {
			return walkTree(dir, filepath.Join(next, number), linkOne)
		})
	})
	if err != nil {
		return err
	}
	shared := map[string]string{}
	if err := eachLayer(from, func(number, dir string) error {
		shared[dir] = filepath.Join(rootfs.Layers, number)
		return nil
	}); err != nil {
		return err
	}
	return makeWhole(to, func(next string) error {
		return walkTree(from, next, func(path, copied string, d fs.DirEntry) error {
			if target, ok := shared[path]; ok {
				if err := os.Symlink(target, copied); err != nil {
					return err
				}
				return fs.SkipDir
			}
			return copyOne(path, copied, d)
		})
	})
}

// eachLayer calls f with the layers in containerd's root that can be shown through an overlay that has no upper layer.
// Such an overlay takes out what says that files of layers below are deleted, so that layers with deletions cannot.
func eachLayer(root string, f func(number, dir string) error) error {
	entries, err := os.ReadDir(filepath.Join(root, snapshotsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(root, snapshotsDir, e.Name(), "fs")
		deletes, err := deletesFiles(dir)
		if deletes || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := f(e.Name(), dir); err != nil {
			return err
		}
	}
	return nil
}

// deletesFiles reports whether a layer has whiteouts or opaque directories.
// https://docs.kernel.org/filesystems/overlayfs.html#whiteouts-and-opaque-directories
func deletesFiles(layer string) (bool, error) {
	found := errors.New("found")
	err := filepath.WalkDir(layer, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.Type()&fs.ModeCharDevice != 0:
			info, err := d.Info()
			if err == nil && info.Sys().(*syscall.Stat_t).Rdev == 0 {
				err = found
			}
			return err
		case d.IsDir():
			if _, err := unix.Lgetxattr(path, opaque, nil); err == nil {
				return found
			}
		}
		return nil
	})
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}

// copyTree copies a directory, or makes an empty one where there is none; to appears complete or not at all.
func copyTree(from, to string) error {
	return makeWhole(to, func(next string) error {
		if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
			return os.Mkdir(next, 0o755)
		}
		return walkTree(from, next, copyOne)
	})
}

// makeWhole makes a directory by filling another, which then gets its name.
func makeWhole(dir string, fill func(next string) error) error {
	next := dir + ".next"
	if err := errors.Join(os.RemoveAll(next), os.RemoveAll(dir)); err != nil {
		return err
	}
	if err := fill(next); err != nil {
		return err
	}
	return os.Rename(next, dir)
}

// walkTree calls one for each file and directory in from, which is one as well, with its path and that in to.
func walkTree(from, to string, one func(path, copied string, d fs.DirEntry) error) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return one(path, filepath.Join(to, strings.TrimPrefix(path, from)), d)
	})
}

// linkOne makes another name for a file, where the file system can, and copies directories.
func linkOne(from, to string, d fs.DirEntry) error {
	if !d.IsDir() {
		err := os.Link(from, to)
		if err == nil || !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EMLINK) {
			return err
		}
	}
	return copyOne(from, to, d)
}

// copyOne copies a file, or makes a directory with the attributes of another.
func copyOne(from, to string, d fs.DirEntry) error {
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
