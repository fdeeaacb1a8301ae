//go:build linux

package squash

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// idCount is how many user IDs a machine has (usernamespace.Size).
	idCount = 65536
	// nobody is the user and the group of root without its rights, and of IDs that the machine does not have.
	nobody = 65534
)

// outside returns the ID on the host of one in the file system, for the kernel to show.
func (c Config) outside(id uint32) uint32 {
	if id >= idCount {
		id = nobody
	}
	return c.FirstID + id
}

// inside returns the ID in the file system of one on the host.
func (c Config) inside(id uint32) (uint32, bool) {
	if id < c.FirstID || id-c.FirstID >= idCount {
		return nobody, false
	}
	return id - c.FirstID, true
}

// identity is who a request is served as.
type identity struct {
	uid, gid uint32
	groups   []uint32
}

// caller returns the identity of who makes a request.
func (f *fileSystem) caller(c fuse.Caller) identity {
	uid, _ := f.c.inside(c.Uid)
	gid, _ := f.c.inside(c.Gid)
	who := identity{uid, gid, f.groupsOf(c.Pid)}
	if f.c.SquashRoot {
		who.squash()
	}
	return who
}

func (i *identity) squash() {
	for _, id := range []*uint32{&i.uid, &i.gid} {
		if *id == 0 {
			*id = nobody
		}
	}
	for at, group := range i.groups {
		if group == 0 {
			i.groups[at] = nobody
		}
	}
}

// groupsOf returns the groups of a thread of the machine, which waits for the request. Those of anybody else, whom the
// number may have come to, are none of the machine's.
func (f *fileSystem) groupsOf(pid uint32) (groups []uint32) {
	fd, err := unix.Openat(f.c.Proc, fmt.Sprintf("%d/status", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	status := os.NewFile(uintptr(fd), "status")
	defer status.Close()
	buffer := make([]byte, 8<<10) // the groups are among the first lines
	n, _ := status.Read(buffer)
	_, rest, found := bytes.Cut(buffer[:n], []byte("\nGroups:"))
	line, _, ended := bytes.Cut(rest, []byte("\n"))
	if !found || !ended {
		return nil
	}
	for text := range strings.FieldsSeq(string(line)) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			continue
		}
		if group, ok := f.c.inside(uint32(id)); ok {
			groups = append(groups, group)
		}
	}
	return groups
}

// runAs calls f with the identity that the request is to be served as.
func (f *fileSystem) runAs(c fuse.Caller, call func() error) fuse.Status {
	if f.c.User != nil {
		return status(call())
	}
	return status(f.caller(c).runAs(call))
}

// runAs calls f on a thread that acts as the identity.
func (i identity) runAs(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := i.assume(); err != nil {
		_ = root.assume()
		return err
	}
	defer func() {
		if back := root.assume(); back != nil { // nothing may be served like that
			fmt.Fprintf(os.Stderr, "coracle-node launch: serve a file system: return from user %d: %v\n", i.uid, back)
			os.Exit(1)
		}
	}()
	return f()
}

var root = identity{}

var errIdentity = errors.New("the user of the thread cannot be changed")

// assume makes the thread act as the identity, on files. The kernel takes the capabilities for files away with the user
// ID of root, and gives them back.
func (i identity) assume() error {
	var list unsafe.Pointer
	if len(i.groups) > 0 {
		list = unsafe.Pointer(&i.groups[0])
	}
	// Of this thread alone: unix.Setgroups is about all of the process.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(i.groups)), uintptr(list), 0); errno != 0 {
		return errno
	}
	_, _ = unix.SetfsgidRetGid(int(i.gid))
	_, _ = unix.SetfsuidRetUid(int(i.uid))
	gid, _ := unix.SetfsgidRetGid(-1) // changes nothing
	uid, _ := unix.SetfsuidRetUid(-1)
	if gid != int(i.gid) || uid != int(i.uid) {
		return errIdentity
	}
	return nil
}

// assume makes all threads of the process act as the user on files, for good: those that come begin like those that are
// there. Only the IDs for files change. To kill(2) and ptrace(2) the process stays root's.
func (u User) assume() error {
	var list unsafe.Pointer
	if len(u.Groups) > 0 {
		list = unsafe.Pointer(&u.Groups[0])
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(list),
		0); errno != 0 {
		return errno
	}
	// Both return the ID before, and no error.
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_SETFSGID, uintptr(u.GID), 0, 0)
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_SETFSUID, uintptr(u.UID), 0, 0)
	gid, _ := unix.SetfsgidRetGid(-1) // changes nothing
	uid, _ := unix.SetfsuidRetUid(-1)
	if gid != int(u.GID) || uid != int(u.UID) {
		return errIdentity
	}
	if u.UID == 0 {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
		uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return errno
	}
	return nil
}

// status returns the status of an error: never that there is no such operation, which the kernel would remember.
func status(err error) fuse.Status {
	var errno unix.Errno
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &errno) && errno != unix.ENOSYS:
		return fuse.Status(errno)
	}
	return fuse.EIO
}
