//go:build linux

package usernamespace

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// needSupport skips a test where the host cannot have what it is about.
func needSupport(t *testing.T) {
	t.Helper()
	if err := Check(t.TempDir()); err != nil {
		t.Skip("user namespaces:", err)
	}
}

// newNamespace creates a user namespace with a network namespace of its own, and returns both.
func newNamespace(t *testing.T, first uint32) (user, network *os.File) {
	t.Helper()
	err := Create(first, unix.CLONE_NEWNET, func(pid int) error {
		var err error
		network, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { network.Close() })
	if user, err = Of(network); err != nil || user == nil {
		t.Fatalf("the owner of the network namespace: %v, %v", user, err)
	}
	t.Cleanup(func() { user.Close() })
	return user, network
}

func TestACommandIsRootInsideAndNobodyOutside(t *testing.T) {
	t.Parallel()
	needSupport(t)
	const first = First + 7*Size
	user, _ := newNamespace(t, first)
	for name, flags := range map[string]uintptr{"in the namespaces of the thread": 0,
		"in namespaces of its own": unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			null, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			p, err := Start(Command{
				Namespace: user, Cloneflags: flags, Path: "/bin/sh", Dir: "/usr", Env: []string{"A=b"},
				Files: []*os.File{null, w, w},
				Args: []string{"sh", "-c",
					`echo $(id -u) $(id -G) $PWD $A; cat /proc/self/uid_map /proc/self/gid_map; echo $$; echo x >/proc/sys/kernel/core_pattern; exit 3`},
			})
			w.Close()
			if err != nil {
				t.Fatal(err)
			}
			output, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			state, err := p.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if state.ExitCode() != 3 {
				t.Errorf("exit code %d, want 3", state.ExitCode())
			}
			ids := fmt.Sprintf("0 %d %d", first, Size)
			got := strings.Join(strings.Fields(string(output)), " ")
			if want := "0 0 /usr b " + ids + " " + ids; !strings.HasPrefix(got, want) {
				t.Errorf("the command says %q, want %q first", got, want)
			}
			if flags != 0 && !strings.Contains(got, ids+" 1 ") {
				t.Errorf("the command is not process 1: %q", got)
			}
			if !strings.Contains(got, "ermission denied") {
				t.Errorf("the command could write core_pattern: %q", got)
			}
		})
	}
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	t.Parallel()
	needSupport(t)
	user, network := newNamespace(t, First+8*Size)
	for name, c := range map[string]struct {
		command Command
		want    string
	}{
		"no program": {Command{Namespace: user, Path: "/nowhere", Args: []string{"x"}},
			"start /nowhere: start the program: no such file or directory"},
		"no program, cloned": {Command{Namespace: user, Path: "/nowhere", Args: []string{"x"},
			Cloneflags: unix.CLONE_NEWPID}, "start /nowhere: start the program: no such file or directory"},
		"no directory": {Command{Namespace: user, Path: "/bin/true", Dir: "/nowhere", Args: []string{"x"}},
			"enter the directory"},
		"no user namespace": {Command{Namespace: network, Path: "/bin/true", Args: []string{"x"}},
			"enter the user namespace: invalid argument"},
		"no terminal": {Command{Namespace: user, Path: "/bin/true", Args: []string{"x"}, Terminal: true,
			Files: []*os.File{network}}, "take the terminal"},
		"a directory of root": {Command{Namespace: user, Path: "/bin/true", Dir: privateDirectory(t),
			Args: []string{"x"}}, "enter the directory: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Start(c.command)
			if err == nil {
				_, _ = p.Wait()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %q, want %q", err, c.want)
			}
		})
	}
}

func privateDirectory(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRangesOfIDs(t *testing.T) {
	t.Parallel()
	for _, first := range []uint32{0, 65536, First - Size, First + 1, Last, Last + 1} {
		if err := Create(first, 0, func(int) error { return nil }); err == nil {
			t.Errorf("Create takes the range from %d", first)
		}
	}
}

func TestNamespacesOfTheHostHaveNoOwner(t *testing.T) {
	t.Parallel()
	f, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if user, err := Of(f); err != nil || user != nil {
		t.Errorf("Of answers %v, %v for a namespace of the host", user, err)
	}
}

func TestCheckLeavesNothing(t *testing.T) {
	t.Parallel()
	needSupport(t)
	dir := t.TempDir()
	if err := Check(dir); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
}

// What a machine has of namespaces, inotify instances and the like counts against the owner of its user namespace.
func TestANamespaceBelongsToItsOwnRange(t *testing.T) {
	t.Parallel()
	needSupport(t)
	const first = First + 9*Size
	user, network := newNamespace(t, first)
	owner := ^uint32(0)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, user.Fd(), unix.NS_GET_OWNER_UID,
		uintptr(unsafe.Pointer(&owner))); errno != 0 {
		t.Fatal(errno)
	}
	if owner != first {
		t.Errorf("the owner of the user namespace is %d, want %d", owner, first)
	}
	if again, err := Of(network); err != nil || again == nil {
		t.Errorf("the network namespace belongs to %v, %v", again, err)
	} else {
		again.Close()
	}
}

func TestWhatTheCallerHasOpenStaysItsOwn(t *testing.T) {
	t.Parallel()
	needSupport(t)
	if err := Create(First+10*Size, 0, func(pid int) error {
		files := fmt.Sprintf("/proc/%d/fd", pid)
		eventually.True(t, "the process in the namespace closes its files", func() bool {
			entries, err := os.ReadDir(files)
			return err == nil && len(entries) == 0
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
