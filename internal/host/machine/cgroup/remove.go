//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/filetree"
)

// patience is the time that killed processes may take to end: the kernel frees their resources first. Those that have
// not ended within abortAfter may wait for FUSE servers that do not answer.
const (
	patience   = 20 * time.Second
	abortAfter = time.Second
)

// Remove kills what runs in the group and removes it with all groups below.
func (g Group) Remove() error {
	var dirs, machines []string
	for _, h := range g.Host {
		dirs, machines = append(dirs, g.groupDir(h)), append(machines, g.machineDir(h))
	}
	return killAndRemove(dirs, connectionsOf(machines))
}

// RemoveAll removes the groups of all machines of an owner, and returns those that there were.
func (host Host) RemoveAll(owner string) (removed []string, err error) {
	var machines []string
	for _, h := range host {
		dir := filepath.Join(h.Mount, top, owner)
		if _, err := os.Stat(dir); err == nil {
			removed = append(removed, dir)
		}
		found, _ := filepath.Glob(filepath.Join(dir, "*", inner)) // of a pattern that is none
		machines = append(machines, found...)
	}
	if err := killAndRemove(removed, connectionsOf(machines)); err != nil {
		return nil, err
	}
	for _, dir := range removed {
		_ = os.Remove(filepath.Dir(dir)) // unless other daemons have groups in it
	}
	return removed, nil
}

// killAndRemove kills what runs in the groups at dirs, one in each hierarchy, and removes them. A process that is
// frozen in one hierarchy keeps its groups in all: so all are thawed and killed before any is removed. One that waits
// for what the limits of a disk hold back does not die before it has that, and one that waits for a FUSE server may
// never: the connections of machines are aborted then.
func killAndRemove(dirs []string, c connections) error {
	start := time.Now()
	deadline, abortAt := start.Add(patience), start.Add(abortAfter)
	var aborted error
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		var failures []error
		for _, dir := range dirs {
			failures = append(failures, killGroup(dir), removeLimitsBelow(dir))
		}
		for _, dir := range dirs {
			failures = append(failures, removeGroups(dir))
		}
		err := errors.Join(failures...)
		if err == nil || !errors.Is(err, syscall.EBUSY) {
			return err
		}
		now := <-poll.C
		if now.After(deadline) {
			return errors.Join(err, aborted)
		}
		if now.After(abortAt) {
			aborted, abortAt = c.abort(), now.Add(abortAfter)
		}
	}
}

// removeGroups removes a group and those below it, the innermost first.
func removeGroups(dir string) error {
	err := filetree.Walk(dir, filetree.Visitor{Leave: func(at int, name string, isDir bool) error {
		if !isDir {
			return nil
		}
		return removeGroup(at, name)
	}})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return removeGroup(unix.AT_FDCWD, dir)
}

func removeGroup(at int, name string) error {
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove cgroup %s: %w", name, err)
	}
	return nil
}

// killGroup thaws everything below dir and sends it SIGKILL.
func killGroup(dir string) error {
	if err := writeFile(dir, "cgroup.kill", "1"); err == nil { // version 2, Linux 5.14
		return nil
	}
	return eachGroup(dir, func(group string) {
		// a frozen process does not die; only that hierarchy has the file
		_ = writeFile(group, "freezer.state", "THAWED")
		held := map[int]int{}
		for _, pid := range processesIn(group) {
			if pid > 1 && pid != os.Getpid() {
				if fd, err := unix.PidfdOpen(pid, 0); err == nil {
					held[pid] = fd
				}
			}
		}
		// A number may have passed to a process elsewhere before it was opened. One that is still in the group has not.
		still := processesIn(group)
		for pid, fd := range held {
			if slices.Contains(still, pid) {
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may have ended
			}
			unix.Close(fd)
		}
	})
}
