package launch

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// startMapped assembles the machine and starts the second stage in its user namespace.
func (m *machine) startMapped(files []*os.File) (p *os.Process, err error) {
	namespace, err := userNamespace(m.spec.Network)
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	err = usernamespace.InMountNamespace(func() error {
		p, err = m.startAssembled(namespace, files)
		return err
	})
	return p, err
}

// userNamespace is the one that owns a network namespace.
func userNamespace(network string) (*os.File, error) {
	f, err := os.Open(network)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	namespace, err := usernamespace.Of(f)
	if err == nil && namespace == nil {
		err = fmt.Errorf("the network namespace %s belongs to the host's user namespace", network)
	}
	return namespace, err
}

// startAssembled assembles the machine in the mount namespace of the calling thread and starts the second stage from there.
func (m *machine) startAssembled(namespace *os.File, files []*os.File) (*os.Process, error) {
	if err := assemble(m.spec, namespace); err != nil {
		return nil, err
	}
	if err := handOver(os.Stdout, m.spec.UserID); err != nil {
		return nil, err
	}
	raiseLimits() // the kernel would not let the machine's root
	p, err := usernamespace.Start(usernamespace.Command{
		Namespace: namespace, Cloneflags: namespaces, Path: "/proc/self/exe", Args: insideArgs, Env: environment, Files: files,
	})
	if err != nil {
		return nil, err
	}
	return p, checkRange(p.Pid, m.spec.UserID)
}

// checkRange makes sure that the user namespace of a process has the IDs that the machine's files and control groups were given to.
func checkRange(pid int, first uint32) error {
	for _, file := range []string{"uid_map", "gid_map"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return err
		}
		if got, want := strings.Join(strings.Fields(string(data)), " "), fmt.Sprintf("0 %d %d", first, usernamespace.Size); got != want {
			return fmt.Errorf("the machine's user namespace maps the IDs %q, not %q", got, want)
		}
	}
	return nil
}

// enterAssembled makes a copy of what assemble has left, in which only the machine itself can still mount, the working directory: the root of
// a locked mount cannot become that of the machine.
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

// makeFilesAs has the files that the calling thread makes belong to owner, until back is called: where IDs are mapped, a file cannot belong to the
// host's root. What the thread may do stays the same.
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

// handOver lets root in the machine open the console by its name, /dev/console: init's standard output, a file that the first stage was given.
func handOver(console *os.File, owner uint32) error {
	info, err := console.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return console.Chown(int(owner), int(owner))
}
