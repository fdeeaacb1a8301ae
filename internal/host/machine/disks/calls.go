//go:build linux

package disks

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/confine"
)

// callsAtOnce bounds the system calls that are made for a machine at the same time; others wait.
const callsAtOnce = 32

// callRate and callBurst bound how often a machine asks; calls beyond wait for their turn. Each takes the launcher up
// to 0.1 ms, which counts for no machine: a tenth of a CPU. A pod that starts makes fewer than 50, so that 20 may start
// in each second, and 200 at once.
const (
	callRate  = 1000 // in a second
	callBurst = 10000
)

// startRate and startBurst bound how often a call of a machine starts a process of the host, which mounts something.
// Until it is in the machine's cgroup, it counts for no machine either, and takes some 10 ms. mountsAtOnce bounds those
// that mount disks at the same time: what the kernel takes for one counts for nobody.
const (
	startRate    = 10 // in a second
	startBurst   = 100
	mountsAtOnce = 4
)

// notification is struct seccomp_notif, and answer struct seccomp_notif_resp.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// errContinue makes the kernel decide about a call as if nobody had asked.
var errContinue = errors.New("the call is the kernel's")

// ServeCalls makes system calls for the processes that have the listener's filter, until the last of them has ended.
func (s *Server) ServeCalls(listener *os.File) {
	go func() {
		defer listener.Close()
		for {
			poll := []unix.PollFd{{Fd: int32(listener.Fd()), Events: unix.POLLIN}}
			if _, err := unix.Poll(poll, -1); errors.Is(err, unix.EINTR) {
				continue
			} else if err != nil || poll[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
				return
			}
			_ = s.calls.Wait(context.Background()) // which ends, and asks for no more than there may be
			s.slots <- struct{}{}
			var n notification
			if err := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV,
				uintptr(unsafe.Pointer(&n))); err != nil { // ENOENT: a signal has ended the call
				<-s.slots
				continue
			}
			go func() {
				release := sync.OnceFunc(func() { <-s.slots })
				defer release()
				s.answer(&caller{listener: listener, n: n, release: release})
			}()
		}
	}()
}

func (s *Server) answer(c *caller) {
	a := answer{id: c.n.id}
	err := s.call(c)
	var errno unix.Errno
	switch {
	case err == nil:
	case errors.Is(err, errContinue), errors.Is(err, ErrNotRemote):
		a.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	case errors.As(err, &errno):
		a.errno = -int32(errno)
	default:
		fmt.Fprintf(os.Stderr, "coracle-node launch: a system call of the machine: %v\n", err)
		a.errno = -int32(unix.EIO)
	}
	_ = ioctl(c.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a))) // the caller may have ended
}

// caller is a thread of the machine that waits for the result of a call.
type caller struct {
	listener *os.File
	n        notification
	release  func() // makes room for another call, while this one waits
}

// waits reports whether the thread still waits: what was opened by its number before is its own then.
func (c *caller) waits() bool {
	err := ioctl(c.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, uintptr(unsafe.Pointer(&c.n.id)))
	return err == nil
}

// read reads memory of the thread, up to size bytes: what there is.
func (c *caller) read(address uint64, size int) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", c.n.pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !c.waits() {
		return nil, unix.ENOENT
	}
	data := make([]byte, 0, size)
	page := os.Getpagesize()
	for len(data) < size { // a string may end before a page that is not there
		at := address + uint64(len(data))
		part := min(size-len(data), page-int(at%uint64(page)))
		n, err := unix.Pread(int(f.Fd()), data[len(data):len(data)+part], int64(at))
		data = data[:len(data)+max(n, 0)]
		if err != nil || n < part || bytes.IndexByte(data, 0) >= 0 {
			break
		}
	}
	return data, nil
}

// text reads a string of at most limit bytes.
func (c *caller) text(address uint64, limit int) (string, error) {
	if address == 0 {
		return "", nil
	}
	data, err := c.read(address, limit)
	if err != nil {
		return "", err
	}
	text, _, ended := bytes.Cut(data, []byte{0})
	if !ended {
		if len(data) == limit {
			return "", unix.ENAMETOOLONG
		}
		return "", unix.EFAULT
	}
	return string(text), nil
}

// status returns a field of proc_pid_status(5) of the thread.
func (c *caller) status(field string) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.n.pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("a thread has no %s", field)
}

// isRoot reports whether the thread has CAP_SYS_ADMIN in the machine's own user namespace.
func (s *Server) isRoot(c *caller) (bool, error) {
	set, err := c.status("CapEff")
	if err != nil {
		return false, err
	}
	capabilities, err := strconv.ParseUint(set, 16, 64)
	if err != nil || capabilities&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return false, err
	}
	own, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", c.n.pid))
	if err != nil {
		return false, err
	}
	defer own.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users != nil && sameFile(own, s.users) && c.waits(), nil
}

// mayMount reports whether a thread that is root in the machine's own user namespace may mount what a machine can: that
// namespace owns its mount namespace.
func (s *Server) mayMount(mounts *os.File) (bool, error) {
	fd, err := unix.IoctlRetInt(int(mounts.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return false, err
	}
	owner := os.NewFile(uintptr(fd), "owner")
	defer owner.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users != nil && sameFile(owner, s.users), nil
}

func sameFile(a, b *os.File) bool {
	is, err1 := a.Stat()
	other, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(is, other)
}

// call makes a call for the machine.
func (s *Server) call(c *caller) error {
	switch c.n.nr {
	case unix.SYS_FSOPEN:
		if c.n.args[0] == 0 { // programs learn by a call without a name whether there is such a system call
			return unix.ENOSYS
		}
	case unix.SYS_MOUNT, unix.SYS_IOCTL:
	default:
		return errContinue
	}
	// Nobody else's memory, paths and descriptors are looked at: they may be those of a file system that does not
	// answer, and the answers are not for everybody. The kernel asks for this, too.
	if root, err := s.isRoot(c); err != nil || !root {
		return errContinue
	}
	switch c.n.nr {
	case unix.SYS_FSOPEN:
		return s.fsopen(c)
	case unix.SYS_MOUNT:
		return s.mount(c)
	}
	return s.ioctl(c)
}

// fsopen refuses what programs fall back to mount(2) from.
func (s *Server) fsopen(c *caller) error {
	kind, err := c.text(c.n.args[0], 64)
	if err == nil && (served[kind] != "" || s.isRemote(kind)) {
		return unix.ENOSYS
	}
	return errContinue // also for what cannot be read: the kernel says why
}

// served are the file systems that the host mounts for machines, with what they are to it: ext4 knows ext3, and the
// kernel maps the users of no mount of type ext3. Btrfs is none: it finds the devices of a file system by their
// content, on the whole host.
var served = map[string]string{"ext3": "ext4", "ext4": "ext4", "xfs": "xfs"}

// file returns a copy of a descriptor of the thread.
func (c *caller) file(fd int) (*os.File, error) {
	pid := int(c.n.pid)
	pidfd, err := unix.PidfdOpen(pid, unix.O_EXCL) // PIDFD_THREAD
	if err != nil {                                // before Linux 6.9
		text, statusErr := c.status("Tgid")
		if statusErr != nil {
			return nil, statusErr
		}
		if pid, err = strconv.Atoi(text); err != nil {
			return nil, err
		}
		if pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
			return nil, err
		}
	}
	defer unix.Close(pidfd)
	got, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(got), "descriptor of the machine")
	if !c.waits() {
		f.Close()
		return nil, unix.ENOENT
	}
	return f, nil
}

// ioctl makes a request about a disk of the machine, or about the file system on one.
func (s *Server) ioctl(c *caller) error {
	request := uint32(c.n.args[1])
	number := int(int32(c.n.args[0]))
	// What is no file of a disk is not even held for a moment: closing it may take as long as it likes.
	seen, err := openPath(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/fd/%d", c.n.pid, number), 0)
	if err != nil {
		return errContinue
	}
	disk := c.waits() && (diskOf(seen) >= 0 || fileSystemOf(seen, 0) >= 0)
	seen.Close()
	if !disk {
		return errContinue
	}
	f, err := c.file(number)
	if err != nil {
		return errContinue
	}
	defer f.Close()
	loop, size := -1, 0
	switch request {
	case unix.BLKBSZSET:
		loop, size = diskOf(f), 4
	case unix.BLKFLSBUF:
		loop = diskOf(f)
	case confine.Ext4Resize:
		loop, size = fileSystemOf(f, unix.EXT4_SUPER_MAGIC), 8
	case confine.XFSGrow:
		loop, size = fileSystemOf(f, unix.XFS_SUPER_MAGIC), 16
	case confine.Trim:
		if loop, size = fileSystemOf(f, unix.EXT4_SUPER_MAGIC), 24; loop < 0 {
			loop = fileSystemOf(f, unix.XFS_SUPER_MAGIC)
		}
	}
	held, release, ok := s.hold(loop)
	if !ok {
		return errContinue
	}
	defer release()
	if request == unix.BLKFLSBUF {
		return ioctl(f, uintptr(request), 0)
	}
	data := make([]byte, 24)
	argument, err := c.readExactly(c.n.args[2], size)
	if err != nil {
		return err
	}
	copy(data, argument)
	if request == confine.Ext4Resize && binary.NativeEndian.Uint64(data) > 1<<52 {
		return unix.EINVAL
	}
	if request == confine.XFSGrow {
		s.growing <- struct{}{}
		defer func() { <-s.growing }()
		err := loopdevice.GrowXFS(f, binary.NativeEndian.Uint64(data), binary.NativeEndian.Uint32(data[8:]), c.waits)
		if errors.Is(err, loopdevice.ErrManyGroups) {
			fmt.Fprintf(os.Stderr, "coracle-node launch: grow %s: %v\n", held.VolumeID, err)
			return unix.EFBIG
		}
		return err
	}
	if err = ioctl(f, uintptr(request), uintptr(unsafe.Pointer(&data[0]))); err != nil || request != confine.Trim {
		return err
	}
	return c.write(c.n.args[2], data) // how much it was
}

// write writes to the thread's memory.
func (c *caller) write(address uint64, data []byte) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.n.pid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if !c.waits() {
		return unix.ENOENT
	}
	if n, err := unix.Pwrite(int(f.Fd()), data, int64(address)); err != nil || n < len(data) {
		return unix.EFAULT
	}
	return nil
}

// readExactly reads size bytes of the thread's memory.
func (c *caller) readExactly(address uint64, size int) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", c.n.pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !c.waits() {
		return nil, unix.ENOENT
	}
	data := make([]byte, size)
	if n, err := unix.Pread(int(f.Fd()), data, int64(address)); err != nil || n < size {
		return nil, unix.EFAULT
	}
	return data, nil
}
