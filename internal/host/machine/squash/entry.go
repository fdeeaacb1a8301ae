//go:build linux

package squash

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// in calls f with a node, as the caller.
func (f *fileSystem) in(h *fuse.InHeader, call func(n *node) error) fuse.Status {
	n, done, err := f.use(h.NodeId)
	if err != nil {
		return status(err)
	}
	defer done()
	return f.runAs(h.Caller, func() error { return call(n) })
}

// change calls f with a node that may be changed, as the caller.
func (f *fileSystem) change(h *fuse.InHeader, call func(n *node) error) fuse.Status {
	if f.c.ReadOnly {
		return fuse.EROFS
	}
	return f.in(h, call)
}

// add calls f with a node, as the caller, for a change that may take blocks.
func (f *fileSystem) add(h *fuse.InHeader, call func(n *node) error) fuse.Status {
	return f.change(h, func(n *node) error {
		if err := f.checkSpace(); err != nil {
			return err
		}
		return call(n)
	})
}

// leastSpace is how much of the disk is left to others, beside what its file system reserves for root: to the kernel,
// this process may be root.
const leastSpace = 64 << 20

func (f *fileSystem) checkSpace() error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(f.c.Root, &st); err != nil {
		return err
	}
	if st.Bavail*uint64(st.Frsize) < leastSpace {
		return unix.ENOSPC
	}
	return nil
}

// checkGrowth refuses to make a file larger where there is no space.
func (f *fileSystem) checkGrowth(n *node, size int64) error {
	st, err := stat(n.fd)
	if err != nil || size <= st.Size {
		return err
	}
	return f.checkSpace()
}

// Lookup implements fuse.RawFileSystem.
func (f *fileSystem) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return f.in(h, func(dir *node) error { return f.find(dir, name, out) })
}

// GetAttr implements fuse.RawFileSystem.
func (f *fileSystem) GetAttr(_ <-chan struct{}, input *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return f.in(&input.InHeader, func(n *node) error {
		st, err := stat(n.fd)
		f.c.fill(&out.Attr, &st)
		return err
	})
}

// SetAttr implements fuse.RawFileSystem.
func (f *fileSystem) SetAttr(_ <-chan struct{}, input *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return f.change(&input.InHeader, func(n *node) error {
		if err := f.setAttributes(n, input); err != nil {
			return err
		}
		st, err := stat(n.fd)
		f.c.fill(&out.Attr, &st)
		return err
	})
}

func (f *fileSystem) setAttributes(n *node, input *fuse.SetAttrIn) error {
	if mode, ok := input.GetMode(); ok {
		if err := unix.Fchmodat(f.c.Proc, selfPath(n.fd), mode, 0); err != nil {
			return err
		}
	}
	uid, setUser := input.GetUID()
	gid, setGroup := input.GetGID()
	if setUser || setGroup {
		owner, group := -1, -1
		for _, id := range []struct {
			set  bool
			from uint32
			to   *int
		}{{setUser, uid, &owner}, {setGroup, gid, &group}} {
			if !id.set {
				continue
			}
			own, ok := f.c.inside(id.from)
			if !ok {
				return unix.EINVAL
			}
			*id.to = int(own)
		}
		if err := unix.Fchownat(n.fd, "", owner, group, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if size, ok := input.GetSize(); ok {
		if err := f.checkGrowth(n, int64(size)); err != nil {
			return err
		}
		if err := f.truncate(n, input, int64(size)); err != nil {
			return err
		}
	}
	const times = fuse.FATTR_ATIME | fuse.FATTR_MTIME
	if input.Valid&times == 0 {
		return nil
	}
	access := timeOf(input.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, input.Atime, input.Atimensec)
	modify := timeOf(input.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, input.Mtime, input.Mtimensec)
	return unix.UtimesNanoAt(n.fd, "", []unix.Timespec{access, modify}, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
}

func timeOf(valid, set, now uint32, seconds uint64, nanoseconds uint32) unix.Timespec {
	switch {
	case valid&set == 0:
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	case valid&now != 0:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	}
	return unix.Timespec{Sec: int64(seconds), Nsec: int64(nanoseconds)}
}

func (f *fileSystem) truncate(n *node, input *fuse.SetAttrIn, size int64) error {
	if number, ok := input.GetFh(); ok {
		if h, err := f.handle(number); err == nil && h.flags&unix.O_ACCMODE != unix.O_RDONLY {
			return unix.Ftruncate(h.fd, size)
		}
	}
	st, err := stat(n.fd)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EINVAL
	}
	fd, err := f.reopen(n.fd, unix.O_WRONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Ftruncate(fd, size)
}

// Readlink implements fuse.RawFileSystem.
func (f *fileSystem) Readlink(_ <-chan struct{}, h *fuse.InHeader) (target []byte, code fuse.Status) {
	code = f.in(h, func(n *node) error {
		buffer := make([]byte, unix.PathMax)
		size, err := unix.Readlinkat(n.fd, "", buffer)
		target = buffer[:max(size, 0)]
		return err
	})
	return target, code
}

// made finds what a call has made in a directory.
func (f *fileSystem) made(dir *node, name string, out *fuse.EntryOut, err error) error {
	if err != nil {
		return err
	}
	return f.find(dir, name, out)
}

// Mknod implements fuse.RawFileSystem.
func (f *fileSystem) Mknod(_ <-chan struct{}, input *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.add(&input.InHeader, func(dir *node) error {
		if isDevice(input.Mode) {
			return unix.EPERM
		}
		return f.made(dir, name, out, unix.Mknodat(dir.fd, name, input.Mode, 0))
	})
}

// Mkdir implements fuse.RawFileSystem.
func (f *fileSystem) Mkdir(_ <-chan struct{}, input *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.add(&input.InHeader, func(dir *node) error {
		return f.made(dir, name, out, unix.Mkdirat(dir.fd, name, input.Mode&0o7777))
	})
}

// Symlink implements fuse.RawFileSystem.
func (f *fileSystem) Symlink(_ <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return f.add(h, func(dir *node) error { return f.made(dir, name, out, unix.Symlinkat(target, dir.fd, name)) })
}

// Unlink implements fuse.RawFileSystem.
func (f *fileSystem) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.change(h, func(dir *node) error { return unix.Unlinkat(dir.fd, name, 0) })
}

// Rmdir implements fuse.RawFileSystem.
func (f *fileSystem) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.change(h, func(dir *node) error { return unix.Unlinkat(dir.fd, name, unix.AT_REMOVEDIR) })
}

// Rename implements fuse.RawFileSystem.
func (f *fileSystem) Rename(_ <-chan struct{}, input *fuse.RenameIn, from, to string) fuse.Status {
	return f.add(&input.InHeader, func(dir *node) error {
		target, done, err := f.use(input.Newdir)
		if err != nil {
			return err
		}
		defer done()
		if input.Flags&unix.RENAME_WHITEOUT != 0 {
			return unix.EINVAL // it is a device file
		}
		return unix.Renameat2(dir.fd, from, target.fd, to, uint(input.Flags))
	})
}

// Link implements fuse.RawFileSystem.
func (f *fileSystem) Link(_ <-chan struct{}, input *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.add(&input.InHeader, func(dir *node) error {
		old, done, err := f.use(input.Oldnodeid)
		if err != nil {
			return err
		}
		defer done()
		return f.made(dir, name, out,
			unix.Linkat(f.c.Proc, selfPath(old.fd), dir.fd, name, unix.AT_SYMLINK_FOLLOW))
	})
}

// Access implements fuse.RawFileSystem.
func (f *fileSystem) Access(_ <-chan struct{}, input *fuse.AccessIn) fuse.Status {
	if f.c.ReadOnly && input.Mask&unix.W_OK != 0 {
		return fuse.EROFS
	}
	return f.in(&input.InHeader, func(n *node) error {
		return unix.Faccessat(f.c.Proc, selfPath(n.fd), input.Mask, unix.AT_EACCESS)
	})
}

// StatFs implements fuse.RawFileSystem.
func (f *fileSystem) StatFs(_ <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	return f.in(h, func(n *node) error {
		var st unix.Statfs_t
		if err := unix.Fstatfs(n.fd, &st); err != nil {
			return err
		}
		out.Blocks, out.Bfree, out.Bavail, out.Files, out.Ffree = st.Blocks, st.Bfree, st.Bavail, st.Files, st.Ffree
		out.Bsize, out.Frsize, out.NameLen = uint32(st.Bsize), uint32(st.Frsize), uint32(st.Namelen)
		return nil
	})
}
