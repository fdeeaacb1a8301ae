//go:build linux

package initd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// TestGroupOfPods writes the processors that a machine sees to the group of pods, as a kubelet does, where it may use
// others: the write changes nothing, and groups below have those of the machine.
func TestGroupOfPods(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	const hierarchy = "/sys/fs/cgroup/cpuset"
	root := filepath.Join(hierarchy, fmt.Sprintf("coracle-pods-%d", os.Getpid()))
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Skipf("there is no cpuset of cgroup v1: %v", err)
	}
	t.Cleanup(func() { cgroups{roots: []string{root}}.removeGroup("") })
	inherit(hierarchy, root)
	usable := readFile(filepath.Join(root, "cpuset.cpus"))
	c := cgroups{roots: []string{root}}
	if err := c.makeKubepods(usable); err != nil {
		t.Fatal(err)
	}
	pods := filepath.Join(root, "kubepods")
	if _, err := os.Stat(pods); err == nil {
		t.Fatal("a machine that sees what it has gets a group of pods")
	}
	if err := c.makeKubepods("0-4095"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(filepath.Join(pods, "cpuset.cpus"), 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(pods, "cpuset.cpus"), []byte("0-4095"), 0); err != nil {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(pods, "burstable"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := readFile(filepath.Join(pods, "burstable", "cpuset.cpus")); got != usable {
		t.Errorf("groups of pods have the processors %q, want %q", got, usable)
	}
}
