//go:build linux

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// startWithUserNamespace assembles the machine and starts the second stage in its user namespace.
func (m *machine) startWithUserNamespace(disk *os.File, files []*os.File) (p *os.Process, err error) {
	namespace, err := userNamespace(m.spec.Network)
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	err = usernamespace.InMountNamespace(func() error {
		p, err = m.startAssembled(namespace, disk, files)
		return err
	})
	return p, err
}

// userNamespace opens the user namespace that owns a network namespace; nil for the host's own.
func userNamespace(network string) (*os.File, error) {
	f, err := os.Open(network)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return usernamespace.Of(f)
}

// checkUserID returns an error unless the machine has user IDs of its own exactly where its network namespace belongs
// to a user namespace: without the record of them, root in the machine would be root of the host.
func checkUserID(spec Spec) error {
	namespace, err := userNamespace(spec.Network)
	if err != nil {
		return fmt.Errorf("find the user namespace of the machine: %w", err)
	}
	if namespace != nil {
		namespace.Close()
	}
	switch {
	case namespace == nil && spec.UserID != 0:
		return fmt.Errorf(
			"the network namespace %s belongs to the host's user namespace, not to one with the IDs from %d",
			spec.Network, spec.UserID)
	case namespace != nil && spec.UserID == 0:
		return fmt.Errorf(
			"the network namespace %s belongs to a user namespace, but the record of its user IDs is missing: "+
				"terminate %s and launch another instance", spec.Network, spec.InstanceID)
	}
	return nil
}

// limitUsers limits what the users of the machine's user namespace, in which the calling thread is, may have of the
// kernel's objects to what the kernel and the EKS images set on an EC2 instance with so much memory, so that programs
// see such limits. Root in the machine may raise them; the host's own limits for one user hold for the whole machine
// (see [usernamespace.Create]).
func limitUsers(memoryKiB int64) error {
	// Half of the threads that the kernel allows, whose stacks fill an eighth of the memory with 16 KiB each.
	namespaces := max(memoryKiB/8/16/2, 1024)
	limits := map[string]int64{
		"inotify_instances": 8192, "inotify_watches": 524288, // as in the EKS images
		"fanotify_groups": 128, "fanotify_marks": max(memoryKiB/100, 8192), // in which an inode takes about 1 KiB
	}
	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"} {
		limits[kind+"_namespaces"] = namespaces
	}
	for name, limit := range limits {
		f, err := os.OpenFile("/proc/sys/user/max_"+name, os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // not of this kernel
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(f, limit)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("limit the machine's users: %w", err)
		}
	}
	return nil
}

// startAssembled assembles the machine in the mount namespace of the calling thread and starts the second stage from
// there.
func (m *machine) startAssembled(namespace, disk *os.File, files []*os.File) (*os.Process, error) {
	if err := assemble(m.spec, namespace, disk); err != nil {
		return nil, err
	}
	if err := handOver(os.Stdout, m.spec.UserID); err != nil {
		return nil, err
	}
	raiseLimits() // the kernel would not let the machine's root
	p, err := usernamespace.Start(usernamespace.Command{
		Namespace: namespace, Cloneflags: namespaces, Path: "/proc/self/exe", Args: insideArgs, Env: environment,
		Files: files,
	})
	if err != nil {
		return nil, err
	}
	return p, checkRange(p.Pid, m.spec.UserID)
}

// checkRange makes sure that the user namespace of a process has the IDs that the machine's files and cgroups were
// given to.
func checkRange(pid int, first uint32) error {
	for _, file := range []string{"uid_map", "gid_map"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return err
		}
		if got, want := strings.Join(strings.Fields(string(data)), " "), fmt.Sprintf("0 %d %d", first,
			usernamespace.Size); got != want {
			return fmt.Errorf("the machine's user namespace maps the IDs %q, not %q", got, want)
		}
	}
	return nil
}

// enterAssembled makes a copy of what assemble has left, in which only the machine itself can still mount, the working
// directory: the root of a locked mount cannot become that of the machine.
func enterAssembled() error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, ".", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("clone the machine's root: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, ".", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the machine's root: %w", err)
	}
	return unix.Fchdir(fd)
}

// makeFilesAs makes owner the owner of the files that the calling thread creates, until back is called: where IDs are
// mapped, a file cannot belong to the host's root. The permissions of the thread do not change.
func makeFilesAs(owner uint32) (back func(), err error) {
	if owner == 0 {
		return func() {}, nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&header, &rights[0]); err != nil {
		return nil, fmt.Errorf("read the capabilities: %w", err)
	}
	back = func() { // to what it was before, which cannot fail
		_, _ = unix.SetfsuidRetUid(0)
		_, _ = unix.SetfsgidRetGid(0)
		_ = unix.Capset(&header, &rights[0])
	}
	_, err1 := unix.SetfsgidRetGid(int(owner))
	_, err2 := unix.SetfsuidRetUid(int(owner)) // takes the capabilities for files away
	if err := errors.Join(err1, err2, unix.Capset(&header, &rights[0])); err != nil {
		back()
		return nil, fmt.Errorf("make files as user %d: %w", owner, err)
	}
	return back, nil
}

// handOver lets root in the machine open the console by its name, /dev/console: init's standard output, a file that the
// first stage was given.
func handOver(console *os.File, owner uint32) error {
	info, err := console.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return console.Chown(int(owner), int(owner))
}
