//go:build linux

package squash

import (
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// fileSystem implements fuse.RawFileSystem. What is not among its methods the kernel of the machine is told not to
// have.
type fileSystem struct {
	fuse.RawFileSystem
	c Config

	mu      sync.Mutex
	nodes   map[uint64]*node
	byFile  map[fileID]*node
	handles map[uint64]*handle
	next    uint64 // number of a node or a handle; none is given twice
}

// fileID identifies a file of the host. No other file gets it while a descriptor is open.
type fileID struct{ dev, ino uint64 }

// node is a file that the machine's kernel remembers.
type node struct {
	number  uint64
	file    fileID
	fd      int // without access to its content
	lookups uint64
	using   int // requests that are under way

	locking sync.Mutex
	locks   map[uint64]ownLocks // by owner
}

// handle is an open file or directory.
type handle struct {
	fd    int
	flags int
	mu    sync.Mutex // of the position in a directory
}

func newFileSystem(c Config) (*fileSystem, error) {
	f := &fileSystem{RawFileSystem: fuse.NewDefaultRawFileSystem(), c: c, nodes: map[uint64]*node{},
		byFile: map[fileID]*node{}, handles: map[uint64]*handle{}, next: fuse.FUSE_ROOT_ID}
	st, err := stat(c.Root)
	if err != nil {
		return nil, fmt.Errorf("the directory to serve: %w", err)
	}
	root := &node{number: fuse.FUSE_ROOT_ID, file: fileOf(&st), fd: c.Root, lookups: 1}
	f.nodes[root.number], f.byFile[root.file] = root, root
	return f, nil
}

// deletedOwner is the owner that a directory of a file system gets that is being deleted: nobody has that ID.
const deletedOwner = math.MaxUint32 - 1

// endWithDirectory ends the process when the directory is deleted, or is about to be.
func (f *fileSystem) endWithDirectory() {
	for range time.Tick(time.Second) {
		if st, err := stat(f.c.Root); err != nil || st.Nlink == 0 || st.Uid == deletedOwner {
			os.Exit(0)
		}
	}
}

func (f *fileSystem) String() string { return "efs" }

func fileOf(st *unix.Stat_t) fileID { return fileID{st.Dev, st.Ino} }

func stat(fd int) (st unix.Stat_t, err error) {
	err = unix.Fstatat(fd, "", &st, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// use returns a node, whose descriptor stays open until done is called.
func (f *fileSystem) use(number uint64) (n *node, done func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = f.nodes[number]
	if n == nil {
		return nil, nil, unix.ESTALE
	}
	n.using++
	return n, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		n.using--
		f.dropUnused(n)
	}, nil
}

// Forget implements fuse.RawFileSystem.
func (f *fileSystem) Forget(number, lookups uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[number]
	if n == nil || number == fuse.FUSE_ROOT_ID {
		return
	}
	n.lookups -= min(lookups, n.lookups)
	f.dropUnused(n)
}

// dropUnused closes a node that neither the kernel nor a request has. mu is held.
func (f *fileSystem) dropUnused(n *node) {
	if n.lookups > 0 || n.using > 0 || f.nodes[n.number] != n {
		return
	}
	delete(f.nodes, n.number)
	delete(f.byFile, n.file)
	n.closeLocks()
	unix.Close(n.fd)
}

// find opens an entry of a directory, and tells the kernel its node.
func (f *fileSystem) find(dir *node, name string, out *fuse.EntryOut) error {
	if err := checkName(name); err != nil {
		return err
	}
	fd, err := unix.Openat(dir.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return f.remember(fd, out)
}

// checkName refuses names that are no entries.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." {
		return unix.EPERM
	}
	return nil
}

// remember makes the file of a descriptor a node, which has the descriptor from then on.
func (f *fileSystem) remember(fd int, out *fuse.EntryOut) error {
	st, err := stat(fd)
	if err == nil && isDevice(st.Mode) {
		err = unix.EACCES // they would be the host's
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.byFile[fileOf(&st)]
	if n != nil {
		unix.Close(fd)
	} else {
		f.next++
		n = &node{number: f.next, file: fileOf(&st), fd: fd}
		f.nodes[n.number], f.byFile[n.file] = n, n
	}
	n.lookups++
	out.NodeId, out.Generation = n.number, 1
	f.c.fill(&out.Attr, &st)
	return nil
}

func isDevice(mode uint32) bool {
	kind := mode & unix.S_IFMT
	return kind == unix.S_IFBLK || kind == unix.S_IFCHR
}

// fill sets the attributes of a file as the kernel of the machine is to see them. They are not to be cached: timeouts
// stay zero.
func (c Config) fill(a *fuse.Attr, st *unix.Stat_t) {
	a.Ino, a.Size, a.Blocks, a.Blksize = st.Ino, uint64(st.Size), uint64(st.Blocks), uint32(st.Blksize)
	a.Mode, a.Nlink, a.Rdev = st.Mode, uint32(st.Nlink), uint32(st.Rdev)
	a.Uid, a.Gid = c.outside(st.Uid), c.outside(st.Gid)
	a.Atime, a.Atimensec = uint64(st.Atim.Sec), uint32(st.Atim.Nsec)
	a.Mtime, a.Mtimensec = uint64(st.Mtim.Sec), uint32(st.Mtim.Nsec)
	a.Ctime, a.Ctimensec = uint64(st.Ctim.Sec), uint32(st.Ctim.Nsec)
}

// reopen opens the file of a descriptor once more, whatever has become of its name. Where the client may only read it
// opens nothing for writing, even if nothing would be written: nobody can execute a program that is open so.
func (f *fileSystem) reopen(fd, flags int) (int, error) {
	if f.c.ReadOnly && (flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0) {
		return -1, unix.EROFS
	}
	return unix.Openat(f.c.Proc, selfPath(fd), flags&^unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// selfPath returns the path below /proc of a link of the kernel to the file of a descriptor.
func selfPath(fd int) string { return fmt.Sprintf("self/fd/%d", fd) }

// addHandle gives an open file a number.
func (f *fileSystem) addHandle(h *handle) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	f.handles[f.next] = h
	return f.next
}

func (f *fileSystem) handle(number uint64) (*handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.handles[number]; h != nil {
		return h, nil
	}
	return nil, unix.EBADF
}

// closeHandle closes an open file. The kernel has no request under way for it.
func (f *fileSystem) closeHandle(number uint64) {
	f.mu.Lock()
	h := f.handles[number]
	delete(f.handles, number)
	f.mu.Unlock()
	if h != nil {
		unix.Close(h.fd)
	}
}
