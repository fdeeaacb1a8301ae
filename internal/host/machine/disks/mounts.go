//go:build linux

package disks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
)

// place is where a disk is mounted: a path from a root in a mount namespace of the machine.
type place struct {
	root, mounts *os.File
	path         string
	loop         int
}

// eachPlace calls f with where disks are mounted in a machine, in each of its mount namespaces, until it returns false.
// Those are the machine's own: what a process number stood for may be a process of the host a moment later.
func eachPlace(group cgroup.Group, users *os.File, loops []int, f func(place) bool) error {
	pids, err := group.Processes()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, pid := range pids {
		proc := fmt.Sprintf("/proc/%d/", pid)
		namespace, err := os.Readlink(proc + "ns/mnt")
		if err != nil || seen[namespace] {
			continue
		}
		seen[namespace] = true
		if !eachPlaceOf(proc, users, loops, f) {
			return nil
		}
	}
	return nil
}

func eachPlaceOf(proc string, users *os.File, loops []int, f func(place) bool) bool {
	mounts, err := os.Open(proc + "ns/mnt")
	if err != nil {
		return true // it has ended
	}
	defer mounts.Close()
	root, err := openPath(unix.AT_FDCWD, proc+"root", 0)
	if err != nil {
		return true
	}
	defer root.Close()
	info, err := os.Open(proc + "mountinfo")
	if err != nil {
		return true
	}
	defer info.Close()
	if !ofMachine(mounts, users) {
		return true
	}
	for _, p := range mountPoints(info, loops) {
		p.root, p.mounts = root, mounts
		if !f(p) {
			return false
		}
	}
	return true
}

// ofMachine reports whether a mount namespace belongs to the user namespace of a machine or to one below it. Without
// one, it has to be another than this process has.
func ofMachine(mounts, users *os.File) bool {
	if users == nil {
		own, err := os.Open("/proc/self/ns/mnt")
		if err != nil {
			return false
		}
		defer own.Close()
		return !sameFile(own, mounts)
	}
	fd, err := unix.IoctlRetInt(int(mounts.Fd()), unix.NS_GET_USERNS)
	for err == nil {
		owner := os.NewFile(uintptr(fd), "owner")
		if sameFile(owner, users) {
			owner.Close()
			return true
		}
		fd, err = unix.IoctlRetInt(int(owner.Fd()), unix.NS_GET_PARENT) // EPERM above the host's own
		owner.Close()
	}
	return false
}

// unescape reads the octal escapes of proc_pid_mountinfo(5).
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountPoints returns the mounts of disks that mountinfo lists, those that lie on others first.
func mountPoints(mountinfo io.Reader, loops []int) (places []place) {
	devices := map[string]int{}
	for _, loop := range loops {
		devices[fmt.Sprintf("%d:%d", loopdevice.Major, loop)] = loop
	}
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			if loop, ok := devices[fields[2]]; ok {
				places = append(places, place{path: unescape.Replace(fields[4]), loop: loop})
			}
		}
	}
	slices.Reverse(places)
	return places
}

// unmountAll takes the mounts of disks from a machine as far as they can be found: what still uses them has a disk that
// is gone.
func unmountAll(group cgroup.Group, users *os.File, loops []int) error {
	const rounds = 32 // mounts may lie on each other
	for range rounds {
		done := false
		if err := eachPlace(group, users, loops, func(p place) bool {
			done = p.unmount() == nil || done
			return true
		}); err != nil || !done {
			return err
		}
	}
	return nil
}

// unmount detaches a mount, of that disk in that mount namespace and no other.
func (p place) unmount() error {
	f, err := p.open()
	if err != nil {
		return err
	}
	defer f.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends in the machine
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(int(p.mounts.Fd()), unix.CLONE_NEWNS)
		}
		if err == nil {
			err = unix.Fchdir(int(f.Fd()))
		}
		if err == nil { // which the kernel refuses for a mount of another namespace
			err = unix.Unmount(".", unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
		done <- err
	}()
	return <-done
}

// open opens what is mounted, without access to its content. The machine may have changed what lies on the path: only
// a file of the disk is returned.
func (p place) open() (*os.File, error) {
	f, err := openPath(int(p.root.Fd()), p.path, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS|
		unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	if !isOn(f, p.loop) {
		f.Close()
		return nil, errReplaced
	}
	return f, nil
}

// openContent opens what is mounted for requests about its file system.
func (p place) openContent() (*os.File, error) {
	f, err := p.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return nil, errors.New("it is a special file")
	}
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// isOn reports whether a file is on the file system of a disk.
func isOn(f *os.File, loop int) bool {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return err == nil && st.Dev == unix.Mkdev(loopdevice.Major, uint32(loop))
}

func ioctl(f *os.File, request, argument uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, argument); errno != 0 {
		return errno
	}
	return nil
}
