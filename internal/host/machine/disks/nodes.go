//go:build linux

package disks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
)

// groupDisk is the group "disk" of the node image, which owns disks.
const groupDisk = 6

// BlockDir is the directory of a machine's /dev that it sees as /sys/block: its own disks by their NVMe names, and none
// of the host's. Links there lead to what the kernel says about the devices.
const BlockDir = ".block"

// beneath are the rules for paths that a machine's root can lead elsewhere. below are those for paths inside its /dev,
// whose root can also mount files of the host there, by which they have to be the machine's own: see ownEntry.
const (
	beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	below   = beneath | unix.RESOLVE_NO_XDEV
)

// openDev opens /dev below the root of a machine, a file system in memory.
func openDev(root *os.File) (*os.File, error) {
	dev, err := openPath(int(root.Fd()), "dev", beneath)
	if err != nil {
		return nil, fmt.Errorf("open /dev of the machine: %w", err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dev.Fd()), &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		dev.Close()
		return nil, errors.Join(err, errors.New("the machine has mounted something else on /dev"))
	}
	return dev, nil
}

// openPath opens a file without any access to its content.
func openPath(dir int, path string, resolve uint64) (*os.File, error) {
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// makeNodes makes the names of a disk in the machine's /dev, where they are missing.
func (s *Server) makeNodes(dev *os.File, d Disk) error {
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if isNode(dev, name, d.Loop) {
			continue
		}
		if err := unix.Unlinkat(int(dev.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
		if err := s.makeNode(dev, name, d.Loop); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	links, err := s.openLinks(dev)
	if err == nil {
		err = link(links, d.linkByID(), "../../"+d.nvme())
	}
	if err != nil {
		return fmt.Errorf("make /dev/disk/by-id/%s: %w", d.linkByID(), err)
	}
	block, err := s.openDir(dev, BlockDir)
	if err == nil {
		err = link(block, d.nvme(), fmt.Sprintf("../devices/virtual/block/loop%d", d.Loop))
	}
	if err != nil {
		return fmt.Errorf("make /sys/block/%s: %w", d.nvme(), err)
	}
	return nil
}

// link makes a symbolic link in a directory, which it closes. The machine may have one with another target.
func link(dir *os.File, name, target string) error {
	defer dir.Close()
	_ = unix.Unlinkat(int(dir.Fd()), name, 0)
	return unix.Symlinkat(target, int(dir.Fd()), name)
}

func (s *Server) makeNode(dev *os.File, name string, loop int) error {
	const mode = 0o660
	device := int(unix.Mkdev(loopdevice.Major, uint32(loop)))
	if err := unix.Mknodat(int(dev.Fd()), name, unix.S_IFBLK|mode, device); err != nil {
		return err
	}
	node, st, err := ownEntry(dev, name)
	if err != nil {
		return err
	}
	defer node.Close()
	if st.Mode&unix.S_IFMT != unix.S_IFBLK || st.Rdev != uint64(device) {
		return errReplaced
	}
	return setOwnership(node, mode, s.o.UserID, s.o.UserID+groupDisk)
}

var errReplaced = errors.New("the machine has replaced it")

// ownEntry opens an entry of a directory, which is on the same file system and no mount: root in the machine may mount
// a file of the host over a name at any moment, and what is done by name is done to that file. What is done by the
// descriptor is done to a file of the machine.
func ownEntry(dir *os.File, name string) (f *os.File, st unix.Stat_t, err error) {
	if f, err = openPath(int(dir.Fd()), name, below); err != nil {
		return nil, st, err
	}
	var of unix.Stat_t
	err = errors.Join(unix.Fstat(int(f.Fd()), &st), unix.Fstat(int(dir.Fd()), &of))
	if err == nil && st.Dev != of.Dev {
		err = errReplaced
	}
	if err != nil {
		f.Close()
		return nil, st, err
	}
	return f, st, nil
}

// setOwnership sets the permissions of a file, whatever the umask, and its owners.
func setOwnership(f *os.File, mode, user, group uint32) error {
	// The path is a link of the kernel to the file itself: fchmod(2) takes no such descriptor.
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), mode); err != nil {
		return err
	}
	return unix.Fchownat(int(f.Fd()), "", int(user), int(group), unix.AT_EMPTY_PATH)
}

// openLinks opens /dev/disk/by-id, and makes it if there is none.
func (s *Server) openLinks(dev *os.File) (*os.File, error) {
	disk, err := s.openDir(dev, "disk")
	if err != nil {
		return nil, err
	}
	defer disk.Close()
	return s.openDir(disk, "by-id")
}

func (s *Server) openDir(at *os.File, name string) (*os.File, error) {
	made := unix.Mkdirat(int(at.Fd()), name, 0o755)
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return nil, made
	}
	dir, st, err := ownEntry(at, name)
	if err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	} else if made == nil {
		err = setOwnership(dir, 0o755, s.o.UserID, s.o.UserID)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// removeNodes takes the names of a disk away. What the machine has put in their place stays.
func removeNodes(dev *os.File, d Disk) {
	names, err := d.names()
	if err != nil {
		return
	}
	for _, name := range names {
		if isNode(dev, name, d.Loop) {
			_ = unix.Unlinkat(int(dev.Fd()), name, 0) // whether or not: nobody can open it any more
		}
	}
	for dir, name := range map[string]string{"disk/by-id": d.linkByID(), BlockDir: d.nvme()} {
		if links, err := openPath(int(dev.Fd()), dir, below); err == nil {
			_ = unix.Unlinkat(int(links.Fd()), name, 0)
			links.Close()
		}
	}
}

func isNode(dir *os.File, name string, loop int) bool {
	node, st, err := ownEntry(dir, name)
	if err != nil {
		return false
	}
	node.Close()
	return st.Mode&unix.S_IFMT == unix.S_IFBLK && st.Rdev == unix.Mkdev(loopdevice.Major, uint32(loop))
}
