//go:build linux

package disks

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// namespacesOf opens the mount and the user namespace of a process.
func namespacesOf(t *testing.T, pid int) (mounts, users *os.File) {
	t.Helper()
	var opened []*os.File
	for _, kind := range []string{"mnt", "user"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		opened = append(opened, f)
	}
	return opened[0], opened[1]
}

// The number of a process of the machine may be that of one of the host a moment later.
func TestMountNamespacesOfTheHostAreNotTheMachines(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	machine := exec.Command("/bin/cat")
	machine.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS}
	input, err := machine.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := machine.Start(); err != nil {
		t.Skip("user namespaces:", err)
	}
	defer func() {
		input.Close()
		_ = machine.Wait()
	}()
	mounts, users := namespacesOf(t, machine.Process.Pid)
	own, _ := namespacesOf(t, os.Getpid())
	if !ofMachine(mounts, users) || !ofMachine(mounts, nil) {
		t.Error("a mount namespace of the machine is not known")
	}
	if ofMachine(own, users) || ofMachine(own, nil) {
		t.Error("the mount namespace of the host is the machine's")
	}
}

func TestMountsThatAreNotOfTheDiskStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inMachine(t, dir, func() error {
		root, err := openPath(unix.AT_FDCWD, "/", 0)
		if err != nil {
			return err
		}
		defer root.Close()
		mounts, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/mnt", unix.Gettid()))
		if err != nil {
			return err
		}
		defer mounts.Close()
		if err := (place{root: root, mounts: mounts, path: dir, loop: 4000}).unmount(); err == nil {
			t.Error("another mount was detached")
		}
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/mountinfo", unix.Gettid()))
		if err == nil && !strings.Contains(string(info), " "+dir+" ") {
			t.Error("the mount is gone")
		}
		return err
	})
}

func TestMountPoints(t *testing.T) {
	t.Parallel()
	got := mountPoints(strings.NewReader(`24 1 7:5 / /mnt rw - ext4 /dev/xvdaa rw
25 1 7:6 / /other rw - ext4 /dev/xvdab rw
26 1 0:5 / /dev rw - tmpfs tmpfs rw
27 1 7:5 /a /with\040space rw - ext4 /dev/xvdaa rw
`), []int{5})
	if len(got) != 2 || got[0].path != "/with space" || got[1].path != "/mnt" || got[1].loop != 5 {
		t.Errorf("the mounts are %+v", got)
	}
}
