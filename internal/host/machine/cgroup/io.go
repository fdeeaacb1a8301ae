//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/coracle-eks/coracle/internal/host/filetree"
)

// ReclaimIO takes the limits of input and output from a machine that an earlier version has started (Hierarchy.IsIO):
// with cgroup v2 its groups lose the controller. With version 1 they stay as they are: the hierarchy is mounted in the
// machine, and no container would start there that may not make a group in it. LimitsIO tells. Limits of disks are
// removed from the machine's groups, whoever has set them.
func (g Group) ReclaimIO() error {
	var failures []error
	for _, h := range g.Host {
		dir := g.groupDir(h)
		switch {
		case h.V2 && g.Host.V2(): // without the controller the groups below have no limits
			failures = append(failures, disableIO(dir), removeLimits(dir))
		case h.IsIO() && isDelegated(g.machineDir(h)):
			failures = append(failures, removeLimitsBelow(dir))
		case h.IsIO(): // the groups below are root's, who sets none: a machine may have too many to look at each time
			failures = append(failures, removeLimits(dir), removeLimits(g.machineDir(h)))
		}
	}
	return errors.Join(failures...)
}

// LimitsIO reports whether a machine that an earlier version has started can limit input and output.
func (g Group) LimitsIO() bool {
	return slices.ContainsFunc(g.Host, func(h Hierarchy) bool { return h.IsIO() && isDelegated(g.machineDir(h)) })
}

// isDelegated reports whether a machine may make groups in its group: see Delegate.
func isDelegated(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.Sys().(*syscall.Stat_t).Uid != 0
}

// reclaimAttempts bounds how often is tried what a machine can get in the way of.
const reclaimAttempts = 20

// disableIO disables the controller io of cgroup v2 below a group, from the innermost group on.
func disableIO(dir string) error {
	const file = "cgroup.subtree_control"
	for range reclaimAttempts {
		enabled, err := readFile(dir, file)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !slices.Contains(strings.Fields(enabled), "io") {
			return nil
		}
		if err != nil {
			return err
		}
		err = filetree.Walk(dir, filetree.Visitor{Leave: func(at int, name string, isDir bool) error {
			if isDir { // one with a child that has it enabled is tried again
				_ = writeFile(fmt.Sprintf("/proc/self/fd/%d", at), filepath.Join(name, file), "-io")
			}
			return nil
		}})
		if err != nil {
			return err
		}
		if err := writeFile(dir, file, "-io"); err != nil && !errors.Is(err, syscall.EBUSY) {
			return err
		}
	}
	return fmt.Errorf("the machine keeps the cgroup controller io enabled below %s", dir)
}
