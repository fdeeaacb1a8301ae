package kubeproxy

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSizesCanBeSetInANamespace(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("makes namespaces, which takes root")
	}
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
			if host, err := isHost(); err != nil || host {
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
