// Package diskspace measures the disk of the data directory, and says how much of it stays free for what must go on.
//
// Many share that disk: etcd, log events, images, the disks of machines. etcd ends when a write of it fails. Therefore
// those that can wait stop early: images, log events and the results of queries at [Reserve]; then the writes of
// clusters, and last those of the daemon itself, which etcd refuses (internal/etcd).
package diskspace

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Bytes below which something stops that is not to stop with what [Reserve] bounds.
const (
	// Machine is the free space that the launch of a machine needs, and Cluster for changes of objects of clusters.
	Machine = 512 << 20
	Cluster = 512 << 20
	// Daemon is the free space that changes of AWS resources need: writes of the daemon.
	Daemon = 256 << 20
	// Start is the free space that etcd needs to start: it sets aside its logs of 64 MB each in advance.
	Start = 192 << 20
)

// Reserve is the number of bytes that images, log events and the results of queries leave free.
const Reserve = 2 << 30

// ErrFull is the error of what would leave less than [Reserve] free.
var ErrFull = errors.New("the disk is full")

// Measure returns how many bytes the file system of dir has for users, and how many it has in all. A file system whose
// inodes run out before its bytes, with many small files, is as full as its inodes are.
func Measure(dir string) (free, total int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("measure the disk of %s: %w", dir, err)
	}
	free, total = int64(fs.Bavail)*int64(fs.Bsize), int64(fs.Blocks)*int64(fs.Bsize)
	return min(free, freeByInodes(total, fs.Files, fs.Ffree)), total, nil
}

// freeByInodes returns the part of a file system's bytes that is free as its inodes are. Some file systems do not count
// them.
func freeByInodes(total int64, inodes, free uint64) int64 {
	if inodes == 0 || free >= inodes {
		return total
	}
	return int64(float64(total) * (float64(free) / float64(inodes)))
}

// Free returns how many bytes the file system of dir has for users.
func Free(dir string) (int64, error) {
	free, _, err := Measure(dir)
	return free, err
}

// CheckReserve returns ErrFull when less than [Reserve] is free on the disk of dir.
func CheckReserve(dir string) error {
	free, err := Free(dir)
	if err != nil {
		return err
	}
	if free < Reserve {
		return fmt.Errorf(
			"%w: %d MiB are free for %s, of which %d MiB are reserved for etcd: free some space, or inodes",
			ErrFull, free>>20, dir, int64(Reserve)>>20)
	}
	return nil
}
