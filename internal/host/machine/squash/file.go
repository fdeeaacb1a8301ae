//go:build linux

package squash

import (
	"errors"
	"io"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// openFlags are the flags of open(2) that are passed on. O_APPEND is among them: what several machines append goes to
// the end, wherever that is by then.
const openFlags = unix.O_ACCMODE | unix.O_APPEND | unix.O_TRUNC | unix.O_SYNC | unix.O_DSYNC

// Open implements fuse.RawFileSystem.
func (f *fileSystem) Open(_ <-chan struct{}, input *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	flags := int(input.Flags) & openFlags
	if f.c.ReadOnly && (flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0) {
		return fuse.EROFS
	}
	return f.in(&input.InHeader, func(n *node) error {
		st, err := stat(n.fd)
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return unix.ENXIO // the kernel opens all others itself
		}
		fd, err := f.reopen(n.fd, flags)
		if err != nil {
			return err
		}
		out.Fh = f.addHandle(&handle{fd: fd, flags: flags})
		return nil
	})
}

// Create implements fuse.RawFileSystem.
func (f *fileSystem) Create(_ <-chan struct{}, input *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	return f.add(&input.InHeader, func(dir *node) error {
		if err := checkName(name); err != nil {
			return err
		}
		flags := int(input.Flags) & (openFlags | unix.O_EXCL)
		// What another machine has put there meanwhile may be anything.
		fd, err := unix.Openat(dir.fd, name, flags|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC,
			input.Mode&0o7777)
		if err != nil {
			return err
		}
		known, err := unix.Openat(f.c.Proc, selfPath(fd), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err == nil {
			err = f.remember(known, &out.EntryOut)
		}
		if err == nil && out.Attr.Mode&unix.S_IFMT != unix.S_IFREG {
			f.Forget(out.NodeId, 1)
			err = unix.EEXIST
		}
		if err != nil {
			unix.Close(fd)
			return err
		}
		out.Fh = f.addHandle(&handle{fd: fd, flags: flags})
		return nil
	})
}

// Read implements fuse.RawFileSystem.
func (f *fileSystem) Read(_ <-chan struct{}, input *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	h, err := f.handle(input.Fh)
	if err != nil {
		return nil, status(err)
	}
	n := 0
	for n < len(buffer) {
		got, err := unix.Pread(h.fd, buffer[n:], int64(input.Offset)+int64(n))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil && n == 0 {
			return nil, status(err)
		}
		if err != nil || got <= 0 {
			break
		}
		n += got
	}
	return fuse.ReadResultData(buffer[:n]), fuse.OK
}

// Write implements fuse.RawFileSystem. The file was opened as the caller, as which its blocks are taken, too.
func (f *fileSystem) Write(_ <-chan struct{}, input *fuse.WriteIn, data []byte) (written uint32, code fuse.Status) {
	if f.c.ReadOnly {
		return 0, fuse.EROFS
	}
	h, err := f.handle(input.Fh)
	if err != nil {
		return 0, status(err)
	}
	if err := f.checkSpace(); err != nil {
		return 0, status(err)
	}
	code = f.runAs(input.Caller, func() error {
		for int(written) < len(data) {
			n, err := unix.Pwrite(h.fd, data[written:], int64(input.Offset)+int64(written))
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err == nil && n == 0 {
				err = io.ErrShortWrite
			}
			if err != nil && written == 0 {
				return err
			}
			if err != nil {
				return nil //nolint:nilerr // the next one gets the error
			}
			written += uint32(n)
		}
		return nil
	})
	return written, code
}

// Flush implements fuse.RawFileSystem. A process that closes a file loses its locks of it.
func (f *fileSystem) Flush(_ <-chan struct{}, input *fuse.FlushIn) fuse.Status {
	n, done, err := f.use(input.NodeId)
	if err != nil {
		return status(err)
	}
	defer done()
	n.unlockOwner(input.LockOwner)
	return fuse.OK
}

// Release implements fuse.RawFileSystem.
func (f *fileSystem) Release(_ <-chan struct{}, input *fuse.ReleaseIn) {
	if n, done, err := f.use(input.NodeId); err == nil { // else its locks have gone with it
		n.unlockHandle(input.Fh)
		done()
	}
	f.closeHandle(input.Fh)
}

// Fsync implements fuse.RawFileSystem.
func (f *fileSystem) Fsync(_ <-chan struct{}, input *fuse.FsyncIn) fuse.Status {
	const dataOnly = 1
	h, err := f.handle(input.Fh)
	if err != nil {
		return status(err)
	}
	if input.FsyncFlags&dataOnly != 0 {
		return status(unix.Fdatasync(h.fd))
	}
	return status(unix.Fsync(h.fd))
}

// FsyncDir implements fuse.RawFileSystem.
func (f *fileSystem) FsyncDir(cancel <-chan struct{}, input *fuse.FsyncIn) fuse.Status {
	return f.Fsync(cancel, input)
}

// OpenDir implements fuse.RawFileSystem.
func (f *fileSystem) OpenDir(_ <-chan struct{}, input *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return f.in(&input.InHeader, func(n *node) error {
		fd, err := f.reopen(n.fd, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		out.Fh = f.addHandle(&handle{fd: fd})
		return nil
	})
}

// ReadDir implements fuse.RawFileSystem. Positions in a directory are those of the host's file system.
func (f *fileSystem) ReadDir(_ <-chan struct{}, input *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	h, err := f.handle(input.Fh)
	if err != nil {
		return status(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := unix.Seek(h.fd, int64(input.Offset), io.SeekStart); err != nil {
		return status(err)
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(h.fd, buffer)
		if err != nil || n <= 0 {
			return status(err)
		}
		for at := 0; at < n; {
			var e fuse.DirEntry
			at += e.Parse(buffer[at:n])
			if !out.AddDirEntry(e) {
				return fuse.OK
			}
		}
	}
}

// ReleaseDir implements fuse.RawFileSystem.
func (f *fileSystem) ReleaseDir(input *fuse.ReleaseIn) { f.closeHandle(input.Fh) }
