//go:build linux

package squash

import (
	"errors"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// How often a process that waits for a lock tries to get it. NFS clients poll, too.
const (
	firstTry = time.Millisecond
	lastTry  = 100 * time.Millisecond
)

// GetLk implements fuse.RawFileSystem.
func (f *fileSystem) GetLk(_ <-chan struct{}, input *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	return f.in(&input.InHeader, func(n *node) error {
		n.locking.Lock()
		defer n.locking.Unlock()
		h, err := f.handle(input.Fh)
		if err != nil {
			return err
		}
		fd := h.fd // any descriptor of the file tells what others have
		if own, ok := n.locks[input.Owner]; ok {
			fd = own.fd
		}
		l := rangeOf(input.Lk)
		if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l); err != nil {
			return err
		}
		out.Lk = fuse.FileLock{Typ: uint32(l.Type)}
		if l.Type != unix.F_UNLCK {
			out.Lk.Start, out.Lk.End = uint64(l.Start), toTheEnd
			if l.Len != 0 {
				out.Lk.End = uint64(l.Start + l.Len - 1)
			}
		}
		return nil
	})
}

// toTheEnd is the last byte of a lock that goes to the end of a file.
const toTheEnd = 1<<63 - 1

func rangeOf(l fuse.FileLock) unix.Flock_t {
	r := unix.Flock_t{Type: int16(l.Typ), Start: int64(l.Start)}
	if l.End < toTheEnd {
		r.Len = int64(l.End-l.Start) + 1
	}
	return r
}

// SetLk implements fuse.RawFileSystem.
func (f *fileSystem) SetLk(_ <-chan struct{}, input *fuse.LkIn) fuse.Status {
	return f.in(&input.InHeader, func(n *node) error { return f.lock(n, input) })
}

// SetLkw implements fuse.RawFileSystem.
func (f *fileSystem) SetLkw(cancel <-chan struct{}, input *fuse.LkIn) fuse.Status {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for wait := firstTry; ; wait = min(2*wait, lastTry) {
		select {
		case <-cancel:
			return fuse.EINTR
		case <-retry.C:
		}
		code := f.SetLk(nil, input)
		if code != fuse.EAGAIN {
			return code
		}
		retry.Reset(wait)
	}
}

// lock sets or releases a lock, without waiting.
func (f *fileSystem) lock(n *node, input *fuse.LkIn) error {
	if input.LkFlags&fuse.LK_FLOCK != 0 {
		return f.flock(input)
	}
	n.locking.Lock()
	defer n.locking.Unlock()
	if _, held := n.locks[input.Owner]; !held && input.Lk.Typ == unix.F_UNLCK {
		return nil
	}
	fd, err := f.lockFile(n, input)
	if err != nil {
		return err
	}
	l := rangeOf(input.Lk)
	err = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l)
	if errors.Is(err, unix.EACCES) {
		return unix.EAGAIN
	}
	return err
}

// flock sets or releases a lock of flock(2), which belongs to an open file.
func (f *fileSystem) flock(input *fuse.LkIn) error {
	h, err := f.handle(input.Fh)
	if err != nil {
		return err
	}
	how := map[uint32]int{unix.F_RDLCK: unix.LOCK_SH, unix.F_WRLCK: unix.LOCK_EX, unix.F_UNLCK: unix.LOCK_UN}
	return unix.Flock(h.fd, how[input.Lk.Typ]|unix.LOCK_NB)
}

// lockFile returns the descriptor that holds the locks of an owner. It is open for reading and writing where the owner
// might open the file so, because all locks of an owner are of one descriptor, through whichever handle it asks.
// n.locking is held.
func (f *fileSystem) lockFile(n *node, input *fuse.LkIn) (int, error) {
	h, err := f.handle(input.Fh)
	if err != nil {
		return -1, err
	}
	if own, ok := n.locks[input.Owner]; ok {
		own.handles[input.Fh] = struct{}{}
		return own.fd, nil
	}
	fd, err := f.reopen(n.fd, unix.O_RDWR)
	if err != nil { // what the file was opened for is allowed
		fd, err = f.reopen(h.fd, h.flags&unix.O_ACCMODE)
	}
	if err != nil {
		return -1, err
	}
	if n.locks == nil {
		n.locks = map[uint64]ownLocks{}
	}
	n.locks[input.Owner] = ownLocks{fd, map[uint64]struct{}{input.Fh: {}}}
	return fd, nil
}

// ownLocks are the locks of an owner: of a process (its table of files), or of an open file (F_OFD_SETLK).
type ownLocks struct {
	fd int // that holds them
	// handles are those through which the owner has asked since it was released.
	handles map[uint64]struct{}
}

// unlockOwner releases all locks of an owner.
func (n *node) unlockOwner(owner uint64) {
	n.locking.Lock()
	defer n.locking.Unlock()
	n.unlockHeld(owner)
}

// unlockHeld is unlockOwner while n.locking is held.
func (n *node) unlockHeld(owner uint64) {
	if own, ok := n.locks[owner]; ok {
		unix.Close(own.fd)
		delete(n.locks, owner)
	}
}

// unlockHandle releases the locks of those who have asked through a handle that is closed for good. Processes have lost
// theirs before, by Flush. An open file has not: the kernel keeps no list of its locks, and tells nobody that they end
// with it. The owner's number may be that of another file next.
func (n *node) unlockHandle(handle uint64) {
	n.locking.Lock()
	defer n.locking.Unlock()
	for owner, own := range n.locks {
		if _, ok := own.handles[handle]; ok {
			n.unlockHeld(owner)
		}
	}
}

func (n *node) closeLocks() {
	for owner := range n.locks {
		n.unlockOwner(owner)
	}
}
