//go:build linux

package initd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// makeKubepods makes the group of pods where the machine sees other processors than it may use: more than the host has,
// or others with cgroup v1. The kubelet (1.35) gives its group all that it sees, which the kernel refuses, and does not
// start. It leaves out what is there already; and its later writes, which it repeats, change nothing in the cpuset of
// cgroup v1. What is made below gets the processors of the machine.
func (c cgroups) makeKubepods(seen string) error {
	const pods = "kubepods"
	usable, file := "", "cpuset.cpus"
	if c.v2 {
		file += ".effective"
	}
	for _, root := range c.roots { // one of them has it
		usable += strings.TrimSpace(readFile(filepath.Join(root, file)))
	}
	if usable == "" || usable == strings.TrimSpace(seen) {
		return nil
	}
	if _, err := c.createGroup(pods); err != nil {
		return fmt.Errorf("make the group of pods: %w", err)
	}
	for _, root := range c.roots {
		dir := filepath.Join(root, pods)
		if c.v2 {
			c.delegate(dir)
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.clone_children"), []byte("1"), 0); err != nil {
			return fmt.Errorf("have groups of pods inherit processors: %w", err)
		}
		if err := unix.Mount(os.DevNull, filepath.Join(dir, file), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keep the processors of pods: %w", err)
		}
	}
	return nil
}
