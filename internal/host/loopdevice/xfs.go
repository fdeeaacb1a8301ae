//go:build linux

package loopdevice

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// xfsPatience is for how many seconds XFS tries again to write what it could not write, after which it fails until it
// is mounted again.
const xfsPatience = "60"

// LimitXFS makes the XFS that is mounted from a loop device give up where the disk of the host is full. By itself it
// tries for ever, and once its log has no room processes wait for it which no signal ends: the machine could not be
// ended, nor the disk be deleted that takes the space. ext4 gives up at once. host is the host's root directory.
func LimitXFS(host *os.File, number int) error {
	for _, class := range []string{"ENOSPC", "EIO", "default"} {
		file := fmt.Sprintf("sys/fs/xfs/loop%d/error/metadata/%s/retry_timeout_seconds", number, class)
		fd, err := unix.Openat(int(host.Fd()), file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte(xfsPatience))
			err = errors.Join(err, unix.Close(fd))
		}
		if err != nil {
			return fmt.Errorf("limit how long XFS tries to write: %s: %w", file, err)
		}
	}
	return nil
}

// MostXFSGroups is the number of groups beyond which no XFS is mounted or grown: the kernel takes memory for each,
// which counts for no cgroup.
const MostXFSGroups = 16384

// ErrManyGroups is the error of a growth to more than MostXFSGroups.
var ErrManyGroups = errors.New("the file system would have too many groups of blocks")

// growthGroups is how many groups a growth adds at once. The kernel makes all that is in them as buffers of its memory,
// some 36 KB for each, before it writes any of it; they count for no cgroup. Each time it writes the superblocks of all
// groups, so that fewer would take long.
const growthGroups = 256

// XFSGeometry is struct xfs_fsop_geom.
type XFSGeometry struct {
	BlockSize        uint32
	_                uint32
	GroupBlocks      uint32
	AllocationGroups uint32
	_                [3]uint32
	MaxInodes        uint32 // percent
	Blocks           uint64
	_                [84]byte
	RealtimeGroups   uint32
	_                [128]byte
}

// growth is struct xfs_growfs_data.
type growth struct {
	blocks    uint64
	maxInodes uint32
	_         uint32
}

// Requests of ioctl(2).
const (
	xfsGeometry = 0x8100587e // XFS_IOC_FSGEOMETRY
	xfsGrow     = 0x4010586e // XFS_IOC_FSGROWFSDATA
)

// GeometryOfXFS returns the geometry of the mounted XFS that a file is on.
func GeometryOfXFS(f *os.File) (g XFSGeometry, err error) {
	err = xfsIoctl(f, xfsGeometry, unsafe.Pointer(&g))
	return g, err
}

func xfsIoctl(f *os.File, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// GrowXFS changes the number of blocks of the mounted XFS that a file is on, a few groups at a time, and how many
// percent of them inodes may take. It ends between two steps, with what has grown, once goesOn reports false.
func GrowXFS(f *os.File, blocks uint64, maxInodes uint32, goesOn func() bool) error {
	g, err := GeometryOfXFS(f)
	if err != nil {
		return err
	}
	if groups := groupsOf(blocks, g.GroupBlocks); groups > MostXFSGroups {
		return fmt.Errorf("%w: %d, and may have %d", ErrManyGroups, groups, MostXFSGroups)
	}
	for to := range growthSteps(g.Blocks, blocks, g.GroupBlocks) {
		if !goesOn() {
			return unix.EINTR
		}
		if err := xfsIoctl(f, xfsGrow, unsafe.Pointer(&growth{blocks: to, maxInodes: maxInodes})); err != nil {
			return err
		}
	}
	return nil
}

// groupsOf returns how many groups have that many blocks.
func groupsOf(blocks uint64, groupBlocks uint32) uint64 {
	size := max(uint64(groupBlocks), 1)
	return blocks/size + min(blocks%size, 1)
}

// growthSteps yields the numbers of blocks by which a file system goes from one to another.
func growthSteps(from, to uint64, groupBlocks uint32) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for size := max(uint64(groupBlocks), 1); ; {
			next := (from/size + growthGroups) * size
			if next >= to {
				yield(to)
				return
			}
			if !yield(next) {
				return
			}
			from = next
		}
	}
}
