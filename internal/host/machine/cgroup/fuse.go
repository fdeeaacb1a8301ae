//go:build linux

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// connections are FUSE connections of machines. A process that waits for the answer to a request does not die before it
// comes, or the connection is aborted. The end of the server aborts it, unless the process that waits is itself the one
// that has the connection open: then it waits for ever.
type connections struct {
	// owners are the first of the host's user IDs of machines with user namespaces. The kernel lets them mount FUSE for
	// users of that range only, wherever the mount is now.
	owners []uint32
	// groups are the machines' groups: the mounts of their processes are those of a machine without a user namespace.
	groups []string
}

// connectionsOf finds out whose the connections of machines are, while their groups are there. The root of a machine
// can give its group to another user of the same range.
func connectionsOf(groups []string) connections {
	c := connections{groups: groups}
	for _, group := range groups {
		var st unix.Stat_t
		if err := unix.Lstat(group, &st); err == nil && st.Uid >= usernamespace.First {
			c.owners = append(c.owners, st.Uid-st.Uid%usernamespace.Size)
		}
	}
	return c
}

func (c connections) include(st unix.Stat_t, name string, mounted map[string]bool) bool {
	for _, first := range c.owners {
		if st.Uid >= first && st.Uid-first < usernamespace.Size {
			return true
		}
	}
	return mounted[name]
}

// abort aborts the connections. It mounts the file system that controls FUSE, and attaches it nowhere.
func (c connections) abort() error {
	control, err := openControl()
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOSYS) { // without FUSE, or before Linux 5.2
		return nil
	}
	if err != nil {
		return fmt.Errorf("mount the control of FUSE: %w", err)
	}
	defer control.Close()
	names, err := control.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list FUSE connections: %w", err)
	}
	mounted := c.mounted()
	var failures []error
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(int(control.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil ||
			!c.include(st, name, mounted) {
			continue
		}
		failures = append(failures, abortConnection(control, name))
	}
	return errors.Join(failures...)
}

// openControl opens the directory that has one of each connection.
func openControl() (*os.File, error) {
	fs, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, err
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, err
	}
	defer unix.Close(mount)
	fd, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "fusectl"), nil
}

// mounted returns the names of connections that threads in the groups have mounted and the caller, who is on the host,
// has not.
func (c connections) mounted() map[string]bool {
	names, seen := map[string]bool{}, map[string]bool{}
	for _, group := range c.groups {
		_ = eachGroup(group, func(group string) { // which may be gone
			for _, pid := range processesIn(group) {
				threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
				for _, thread := range threads {
					namespace, err := os.Readlink(thread + "/ns/mnt")
					if err != nil || seen[namespace] {
						continue
					}
					// a thread that ends meanwhile shows no mounts, others of its namespace do
					seen[namespace] = addConnections(names, thread)
				}
			}
		})
	}
	if len(names) > 0 {
		own := map[string]bool{}
		addConnections(own, "/proc/thread-self")
		for name := range own {
			delete(names, name)
		}
	}
	return names
}

// addConnections adds the connections that a thread sees, and reports whether the thread was there to see them.
func addConnections(names map[string]bool, thread string) bool {
	f, err := os.Open(thread + "/mountinfo")
	if err != nil {
		return false
	}
	defer f.Close()
	return parseConnections(names, f) == nil
}

// parseConnections adds the connections that proc_pid_mountinfo(5) shows. Their names are the minor device numbers.
func parseConnections(names map[string]bool, mountinfo io.Reader) error {
	lines := bufio.NewReaderSize(mountinfo, 64<<10)
	for {
		begin, end, err := readEnds(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, after, ok := strings.Cut(end, " - ")
		fields, kind := strings.Fields(begin), strings.Fields(after)
		if !ok || len(fields) < 3 || len(kind) == 0 || kind[0] != "fuse" && !strings.HasPrefix(kind[0], "fuse.") {
			continue
		}
		if minor, ok := strings.CutPrefix(fields[2], "0:"); ok {
			if _, err := strconv.ParseUint(minor, 10, 32); err == nil {
				names[minor] = true
			}
		}
	}
}

// readEnds reads a line, and returns the first and the last 64 KiB of it, at least: the root of a machine can make a
// mount point with a path of any length.
func readEnds(lines *bufio.Reader) (begin, end string, err error) {
	chunk, more, err := lines.ReadLine()
	begin = string(chunk)
	end = begin
	for last := begin; more && err == nil; {
		chunk, more, err = lines.ReadLine()
		end, last = last+string(chunk), string(chunk)
	}
	return begin, end, err
}
