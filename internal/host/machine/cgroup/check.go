//go:build linux

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
)

// Check reports why this host cannot put machines into cgroups; nil when it can. It makes a group with limits in every
// hierarchy, as for a machine, and removes it.
func Check() error { return try(func(Group) error { return nil }) }

// CheckDisks reports why machines of this host can have no volumes; nil when they can.
func CheckDisks() error {
	return try(func(g Group) error { return g.AllowDisks([]uint32{loopdevice.Last}) })
}

// try makes a group as for a machine, calls f with it and removes it.
func try(f func(Group) error) error {
	host, err := Open()
	if err != nil {
		return err
	}
	const owner = "check"
	g := host.Group(owner, strconv.Itoa(os.Getpid()))
	if err = g.Create(Limits{CPUs: 1, MemoryBytes: 64 << 20}); err == nil {
		err = f(g)
	}
	err = errors.Join(err, g.Remove())
	for _, h := range host {
		_ = os.Remove(filepath.Join(h.Mount, top, owner)) // unless another check is under way
		_ = os.Remove(filepath.Join(h.Mount, top))        // unless there are machines
	}
	return err
}
