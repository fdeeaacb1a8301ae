//go:build linux

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
)

// stage is a file system in memory on which the mounts of a machine are made that need paths of the host. It is seen in
// the machine's mount namespace only, and is gone when the machine's disk has become the root.
type stage struct {
	dir       string
	owner     uint32            // of what is made for the machine
	immutable map[string]string // where the directories of the host lie that mountImmutable has mounted
}

func openStage(dir string, owner uint32) (*stage, error) {
	if err := mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700"); err != nil {
		return nil, err
	}
	s := &stage{dir: dir, owner: owner, immutable: map[string]string{}}
	return s, os.Mkdir(s.path("empty"), 0o755)
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// attachment is a detached mount, and the path at which a machine gets it.
type attachment struct {
	tree   *os.File // see open_tree(2)
	target string
	dir    bool
	// optional skips it where the machine has no such file.
	optional bool
	// readOnly guards against accidents alone: root in a machine can take it off.
	readOnly bool
}

// attach mounts it in a machine whose root is the root. A target that is missing is made, and belongs to owner.
func (a attachment) attach(owner uint32) error {
	defer a.tree.Close()
	if _, err := os.Lstat(a.target); errors.Is(err, fs.ErrNotExist) {
		if a.optional {
			return nil
		}
		if err := createTarget(a.target, a.dir, owner); err != nil {
			return err
		}
	}
	const flags = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_SYMLINKS
	if err := unix.MoveMount(int(a.tree.Fd()), "", unix.AT_FDCWD, a.target, flags); err != nil {
		return &fs.PathError{Op: "mount on", Path: a.target, Err: err}
	}
	if a.readOnly {
		return remount(a.target, true)
	}
	return nil
}

// remount makes a mount, not its file system, read-only or writable.
func remount(target string, readOnly bool) error {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return err
	}
	kept := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC) // they cannot be taken off
	if readOnly {
		kept |= unix.MS_RDONLY
	}
	return mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|kept, "")
}

// openDetachedMount returns a mount of source, a file or a directory, that is nowhere.
func openDetachedMount(source, target string) (attachment, error) {
	info, err := os.Stat(source)
	if err != nil {
		return attachment{}, fmt.Errorf("mount on %s: %w", target, err)
	}
	tree, err := openTree(unix.AT_FDCWD, source)
	return attachment{tree: tree, target: target, dir: info.IsDir()}, err
}

// openTree clones the mount of a file or a directory. What is mounted below stays behind.
func openTree(dir int, path string) (*os.File, error) {
	fd, err := unix.OpenTree(dir, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, &fs.PathError{Op: "clone the mount of", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// mountDisk mounts what survives a reboot, and returns where: the machine's root file system.
func (s *stage) mountDisk(spec Spec) (root string, err error) {
	back, err := makeFilesAs(s.owner)
	if err != nil {
		return "", err
	}
	defer back()
	root = s.path("root")
	return root, overlay(root, filepath.Join(DiskDir(spec.Dir, spec.RootVolume), diskDir), spec.BaseImage)
}

// gatherMounts returns what the host has for a machine.
func (s *stage) gatherMounts(spec Spec) (attachments []attachment, err error) {
	hardware := s.path("hardware")
	if err := s.writeHardware(spec.Hardware, hardware); err != nil {
		return nil, fmt.Errorf("write what the machine sees of its hardware: %w", err)
	}
	mounts := []Mount{{Source: hardware, Target: "/proc"}, {Source: filepath.Join(spec.Dir, RunDir), Target: boot.Dir}}
	for _, m := range append(mounts, spec.Mounts...) {
		source := m.Source
		if m.ReadOnly {
			if source, err = s.mountImmutable(source); err != nil {
				return nil, fmt.Errorf("mount on %s: %w", m.Target, err)
			}
		}
		a, err := openDetachedMount(source, m.Target)
		if err != nil {
			return nil, err
		}
		attachments = append(attachments, a)
	}
	return attachments, nil
}

func (s *stage) writeHardware(h Hardware, dir string) error {
	back, err := makeFilesAs(s.owner)
	if err != nil {
		return err
	}
	defer back()
	return h.writeFiles(dir)
}

// mountImmutable mounts a file or a directory of the host so that nobody can write to it, and returns where. A
// read-only bind mount would not do: root in a machine may remount what is mounted in its namespace. What it gets is an
// overlay that has no upper layer. The kernel never makes that writable, and its inodes are not those of the host, so
// that their modes, owners and attributes cannot be changed either. The pages in memory are those of the host's files.
// https://docs.kernel.org/filesystems/overlayfs.html#multiple-lower-layers
func (s *stage) mountImmutable(source string) (string, error) {
	info, err := os.Stat(source)
	if err != nil {
		return "", err
	}
	if source, err = filepath.EvalSymlinks(source); err != nil {
		return "", err
	}
	dir, name := source, ""
	if !info.IsDir() {
		dir, name = filepath.Split(source)
	}
	at, ok := s.immutable[dir]
	if !ok {
		at = s.path("immutable-" + strconv.Itoa(len(s.immutable)))
		if err := os.Mkdir(at, 0o755); err != nil {
			return "", err
		}
		// Without an upper layer there have to be two lower ones.
		options := "lowerdir=" + escapeLayers(dir, s.path("empty"))
		if err := mount("overlay", at, "overlay", unix.MS_RDONLY, options); err != nil {
			return "", fmt.Errorf("give %s to a machine, for reading only: %w", dir, err)
		}
		s.immutable[dir] = at
	}
	return filepath.Join(at, name), nil
}

// overlay mounts what is written in dir over a layer that is only read. It acts for ever with the
// rights that the calling thread has now.
func overlay(target, dir, lower string) error {
	if err := os.Mkdir(target, 0o755); err != nil {
		return err
	}
	upper, work := escapeLayers(filepath.Join(dir, "upper")), escapeLayers(filepath.Join(dir, "work"))
	options := "lowerdir=" + escapeLayers(lower) + ",upperdir=" + upper + ",workdir=" + work
	err := mount("overlay", target, "overlay", 0, options)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: the file system of %s cannot hold what is written over another (it may be an overlay "+
			"itself): keep the data directory on ext4 or xfs, in a container on a volume", err, dir)
	}
	return err
}

// escapeLayers writes paths as the options of an overlay have them.
func escapeLayers(paths ...string) string {
	escaped := make([]string, len(paths))
	for i, path := range paths {
		escaped[i] = strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace(path)
	}
	return strings.Join(escaped, ":")
}
