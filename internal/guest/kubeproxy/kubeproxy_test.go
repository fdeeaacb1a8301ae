//go:build linux

package kubeproxy

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// TestMain runs the tests, or the program of TestSizesCanBeSetInAUserNamespace.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "sizes" {
		if err := setSizes(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// setSizes sets the sizes in the mount namespace of this process.
func setSizes() error {
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		// of which it is root, as of that of a container
		return err
	}
	for _, name := range sizes {
		if err := private(name); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte("131072"), 0o640); err != nil {
			return err
		}
	}
	return nil
}

func TestSizesCanBeSetInAUserNamespace(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	if _, err := os.Stat(sizes[0]); err != nil {
		t.Skip(err)
	}
	if n, err := os.ReadFile("/proc/sys/user/max_user_namespaces"); err != nil || strings.TrimSpace(string(n)) == "0" {
		t.Skip("there are no user namespaces", err)
	}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 1<<31 - 2*65536, Size: 65536}}
	cmd := exec.Command("/proc/self/exe", "sizes")
	cmd.Env = []string{"TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS, UidMappings: ids, GidMappings: ids,
		Credential: &syscall.Credential{},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSizesCanBeSetInANamespace(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	if _, err := os.Stat(sizes[0]); err != nil {
		t.Skip(err)
	}
	before, err := os.ReadFile(sizes[0])
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		done <- func() error {
			runtime.LockOSThread() // and never unlocked: the thread goes with its namespaces
			if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			if host, err := canSetConntrack(); err != nil || host {
				t.Errorf("a new network namespace is taken for the host's: %v, %v", host, err)
			}
			for _, name := range sizes {
				if err := os.WriteFile(name, []byte("131072"), 0o640); err == nil {
					t.Errorf("%s can be set without help", name)
				}
				if err := private(name); err != nil {
					return err
				}
				if err := os.WriteFile(name, []byte("131072"), 0o640); err != nil {
					return err
				}
				if b, err := os.ReadFile(name); string(b) != "131072" {
					t.Errorf("%s reads %q, %v", name, b, err)
				}
			}
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(sizes[0]); err != nil || string(after) != string(before) {
		t.Errorf("the host's own went from %q to %q: %v", before, after, err)
	}
}
