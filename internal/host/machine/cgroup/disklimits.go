//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
)

// DiskLimits bound what is read from a disk. Zeros bound nothing.
//
// Writes have no bounds: whoever calls sync, in any machine and on the host, waits for all that is being written, to
// slow disks as well, and nobody can end such a wait. The kernel bounds what a program writes directly and what it
// syncs together.
type DiskLimits struct {
	IOPS           int64 `json:",omitempty"` // operations per second
	BytesPerSecond int64 `json:",omitempty"`
}

// LimitDisks bounds what the machine reads from its disks, which are loop devices by their minor numbers. Bounds end
// with the device. They are those of the group around the machine's own; with cgroup v1 also of the one that the
// machine is in, as it makes none in this hierarchy.
func (g Group) LimitDisks(disks map[uint32]DiskLimits) error {
	if len(disks) == 0 {
		return nil
	}
	if g.Host.V2() {
		for minor, limits := range disks {
			if err := g.limitDiskV2(minor, limits); err != nil {
				return fmt.Errorf("bound the disk %d: %w", minor, err)
			}
		}
		return nil
	}
	for _, h := range g.Host {
		if !h.hasController("blkio") {
			continue
		}
		var failed error
		if err := eachGroup(g.groupDir(h), func(group string) {
			failed = errors.Join(failed, limitDisksOf(group, disks))
		}); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
	}
	return nil
}

func (g Group) limitDiskV2(minor uint32, limits DiskLimits) error {
	word := func(n int64) string {
		if n == 0 {
			return "max"
		}
		return strconv.FormatInt(n, 10)
	}
	bytes, operations := word(limits.BytesPerSecond), word(limits.IOPS)
	for _, h := range g.Host {
		if !h.V2 {
			continue
		}
		err := writeFile(g.groupDir(h), "io.max", fmt.Sprintf("%s rbps=%s riops=%s", deviceNumber(minor), bytes,
			operations))
		if err := ignoreUnbounded(err); err != nil {
			return err
		}
	}
	return nil
}

// ignoreUnbounded ignores the errors of a kernel that has no bounds of disks, and of a disk that has just gone.
func ignoreUnbounded(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) ||
		errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

func deviceNumber(minor uint32) string { return fmt.Sprintf("%d:%d", loopdevice.Major, minor) }

// throttles are the files of version 1 that bound disks.
var throttles = map[string]func(DiskLimits) int64{
	"blkio.throttle.read_bps_device":  func(l DiskLimits) int64 { return l.BytesPerSecond },
	"blkio.throttle.read_iops_device": func(l DiskLimits) int64 { return min(l.IOPS, math.MaxUint32) },
}

// limitDisksOf bounds the disks in one group of version 1. It writes what is not so, since there may be many groups.
func limitDisksOf(group string, disks map[uint32]DiskLimits) error {
	for file, of := range throttles {
		text, err := readFile(group, file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil // the group has gone, or the kernel bounds nothing there
		}
		if err != nil {
			return err
		}
		now := parseThrottle(text)
		for _, minor := range slices.Sorted(maps.Keys(disks)) {
			if limit := of(disks[minor]); now[deviceNumber(minor)] != limit {
				err := writeFile(group, file, fmt.Sprintf("%s %d", deviceNumber(minor), limit))
				if err := ignoreUnbounded(err); err != nil {
					return fmt.Errorf("bound the disk %d (%s): %w", minor, file, err)
				}
			}
		}
	}
	return nil
}

// parseThrottle reads lines such as "7:1 131072000".
func parseThrottle(text string) map[string]int64 {
	limits := map[string]int64{}
	for line := range strings.Lines(text) {
		device, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			limits[device] = n
		}
	}
	return limits
}

// DiskUse is what the kernel has counted of a disk, and the bounds that it has of it.
type DiskUse struct {
	Read, Written int64 // bytes
	// Limits are the tightest that all groups of the machine have; zeros where a group has none.
	Limits DiskLimits
}

// DiskUse returns what the machine has read and written of a disk.
func (g Group) DiskUse(minor uint32) (use DiskUse, err error) {
	if g.Host.V2() {
		dir := filepath.Dir(g.Dir("io"))
		stat, err := readFile(dir, "io.stat")
		if err != nil {
			return use, err
		}
		counted := parseKeys(stat, deviceNumber(minor))
		limits, err := readFile(dir, "io.max")
		if err != nil {
			return use, err
		}
		bounds := parseKeys(limits, deviceNumber(minor))
		return DiskUse{Read: counted["rbytes"], Written: counted["wbytes"],
			Limits: DiskLimits{IOPS: bounds["riops"], BytesPerSecond: bounds["rbps"]}}, nil
	}
	dir := g.Dir("blkio")
	if dir == "" {
		return use, nil
	}
	first := true
	err = eachGroup(filepath.Dir(dir), func(group string) {
		text, _ := readFile(group, "blkio.throttle.io_service_bytes") // of a group that has gone
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			if len(fields) != 3 || fields[0] != deviceNumber(minor) {
				continue
			}
			n, _ := strconv.ParseInt(fields[2], 10, 64)
			switch fields[1] {
			case "Read":
				use.Read += n
			case "Write":
				use.Written += n
			}
		}
		limit := func(file string) int64 {
			text, _ := readFile(group, file)
			return parseThrottle(text)[deviceNumber(minor)]
		}
		limits := DiskLimits{limit("blkio.throttle.read_iops_device"), limit("blkio.throttle.read_bps_device")}
		if first {
			use.Limits = limits
		}
		use.Limits.IOPS = min(use.Limits.IOPS, limits.IOPS)
		use.Limits.BytesPerSecond = min(use.Limits.BytesPerSecond, limits.BytesPerSecond)
		first = false
	})
	return use, err
}

// parseKeys reads the line of a device in a file with nested keys: "7:1 rbytes=1 wbytes=2". What is "max" is 0.
// https://docs.kernel.org/admin-guide/cgroup-v2.html#format
func parseKeys(text, device string) map[string]int64 {
	values := map[string]int64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != device {
			continue
		}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			values[key], _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return values
}
