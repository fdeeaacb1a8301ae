//go:build linux

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// Check reports why this host cannot put machines into cgroups; nil when it can. It makes a group with limits in every
// hierarchy, as for a machine, and removes it.
func Check() error {
	host, err := Open()
	if err != nil {
		return err
	}
	const owner = "check"
	g := host.Group(owner, strconv.Itoa(os.Getpid()))
	err = errors.Join(g.Create(Limits{CPUs: 1, MemoryBytes: 64 << 20}), g.Remove())
	for _, h := range host {
		_ = os.Remove(filepath.Join(h.Mount, top, owner)) // unless another check is under way
		_ = os.Remove(filepath.Join(h.Mount, top))        // unless there are machines
	}
	return err
}
