//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// What a machine reads and writes of a disk has no limit of a cgroup (blk-throttle). The kernel queues whatever exceeds
// one without making the program wait, in memory that counts for nobody: a program that asks for many reads at once
// takes the memory of the host, and waits for hours where no signal reaches it. Others wait with it: whoever calls sync
// waits for all that is being written, and for what a file system reads in a transaction. Without a limit the programs
// wait for the device, each with a request or two.

// diskLimits are the files with such limits, and what takes one from a device.
var diskLimits = map[string]string{
	"io.max":                           "rbps=max wbps=max riops=max wiops=max",
	"blkio.throttle.read_bps_device":   "0",
	"blkio.throttle.read_iops_device":  "0",
	"blkio.throttle.write_bps_device":  "0",
	"blkio.throttle.write_iops_device": "0",
}

// removeLimitsBelow takes the limits of disks from a group and those below: limits that an earlier version has set, or
// a machine in groups that one has given it. What waits for them goes on.
func removeLimitsBelow(dir string) error {
	var failed error
	err := eachGroup(dir, func(group string) { failed = errors.Join(failed, removeLimits(group)) })
	return errors.Join(err, failed)
}

// removeLimits takes the limits of disks from one group.
func removeLimits(group string) error {
	var failures []error
	for file, none := range diskLimits {
		failures = append(failures, removeLimitsIn(group, file, none))
	}
	return errors.Join(failures...)
}

func removeLimitsIn(group, file, none string) error {
	text, err := readFile(group, file)
	if isGone(err) {
		return nil // the group has gone, or the kernel limits nothing there
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		device, _, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found {
			continue
		}
		if err := writeFile(group, file, device+" "+none); err != nil && !isGone(err) {
			return fmt.Errorf("take the limit of the device %s from a machine: %w", device, err)
		}
	}
	return nil
}

// isGone reports whether an error says that a group or a device has just gone, or that the kernel has no such limits.
func isGone(err error) bool {
	for _, gone := range []error{fs.ErrNotExist, unix.ENODEV, unix.ENXIO, unix.EOPNOTSUPP} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}
