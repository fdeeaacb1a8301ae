//go:build linux

package disks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
)

// The kernel takes memory for each group of a file system when it is mounted, which counts for no cgroup: about 1 KiB
// with XFS, 200 bytes with ext4. What is written to a disk can ask for millions of groups, all of which are empty.
const (
	mostXFSGroups  = loopdevice.MostXFSGroups
	mostExt4Groups = 65536
	// ext4GroupSize is the size of a group, in bytes, of which a file system may have any number. Those that mkfs.ext4
	// makes are that large; only with blocks of less than 4 KiB, which small file systems have, they are smaller.
	ext4GroupSize = 128 << 20
)

// A machine can write another superblock while the kernel mounts what was checked. XFS has no groups of less than
// leastXFSGroup bytes, each of which takes up to xfsGroupMemory: by the size of a disk, no mount takes more than a part
// of the host's memory, one in memoryParts.
const (
	leastXFSGroup  = 16 << 20
	xfsGroupMemory = 1200
	memoryParts    = 32
)

// checkSize returns an error when a file system on a disk could take too much of so many bytes of memory, whatever it
// says of itself. The error number is what the machine gets.
func checkSize(kind string, size, memory uint64) error {
	if kind == "xfs" && size/leastXFSGroup*xfsGroupMemory > memory/memoryParts {
		return fmt.Errorf("an XFS on a disk of %d GiB may take %d MiB of the host's memory, of which it has too little: %w",
			size>>30, size/leastXFSGroup*xfsGroupMemory>>20, unix.ENOMEM)
	}
	return nil
}

// tooManyGroups returns the error for a file system with that many groups. The error number is what the machine gets.
func tooManyGroups(kind string, groups, most uint64) error {
	return fmt.Errorf("the %s file system has %d groups of blocks, and the host mounts none with more than %d: make one "+
		"with larger groups: %w", kind, groups, most, unix.EFBIG)
}

// checkSuperblock returns an error when a file system has more groups than that. What is no superblock passes, since
// the kernel refuses it.
func checkSuperblock(kind string, device io.ReaderAt) error {
	block := alignedBlock()
	if n, err := device.ReadAt(block, 0); err != nil && !errors.Is(err, io.EOF) || n < len(block) {
		return fmt.Errorf("read the superblock: %w", err)
	}
	if kind == "xfs" {
		// struct xfs_dsb: sb_agcount, and sb_rgcount of the realtime section
		return checkXFSGroups(binary.BigEndian.Uint32(block[88:]), binary.BigEndian.Uint32(block[272:]))
	}
	// struct ext4_super_block: s_blocks_count, s_log_block_size, s_blocks_per_group, s_feature_incompat
	super := block[1024:2048]
	blocks := uint64(binary.LittleEndian.Uint32(super[0x04:]))
	const wide = 0x80 // EXT4_FEATURE_INCOMPAT_64BIT
	if binary.LittleEndian.Uint32(super[0x60:])&wide != 0 {
		blocks |= uint64(binary.LittleEndian.Uint32(super[0x150:])) << 32
	}
	logSize, perGroup := binary.LittleEndian.Uint32(super[0x18:]), uint64(binary.LittleEndian.Uint32(super[0x20:]))
	if logSize > 6 || perGroup == 0 { // ext4 has none of these
		return nil
	}
	return checkExt4Groups(blocks/perGroup, blocks<<(10+logSize))
}

// alignedBlock returns memory for 4 KiB that may be read past what the kernel remembers of a disk.
func alignedBlock() []byte {
	const size = 4096
	memory := make([]byte, 2*size)
	before := -uintptr(unsafe.Pointer(&memory[0])) % size
	return memory[before : before+size : before+size]
}

func checkXFSGroups(allocation, realtime uint32) error {
	if groups := max(allocation, realtime); groups > mostXFSGroups {
		return tooManyGroups("XFS", uint64(groups), mostXFSGroups)
	}
	return nil
}

func checkExt4Groups(groups, size uint64) error {
	if most := max(mostExt4Groups, size/ext4GroupSize+1); groups > most {
		return tooManyGroups("ext4", groups, most)
	}
	return nil
}

// checkMounted checks what the kernel has mounted from loop device loop as checkSuperblock does what is on it: the
// machine may have changed it in between. root is the root directory of the file system, host that of the host.
func checkMounted(kind string, device *os.File, loop int, root, host *os.File) error {
	if kind == "xfs" {
		g, err := loopdevice.GeometryOfXFS(root)
		if err != nil {
			return fmt.Errorf("read the geometry of the file system: %w", err)
		}
		return checkXFSGroups(g.AllocationGroups, g.RealtimeGroups)
	}
	if err := checkSuperblock(kind, device); err != nil {
		return err
	}
	size, err := device.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	groups, err := ext4Groups(host, loop)
	if errors.Is(err, fs.ErrNotExist) { // before Linux 5.14
		return nil
	}
	if err != nil {
		return fmt.Errorf("read how many groups the file system has: %w", err)
	}
	return checkExt4Groups(groups, uint64(size))
}

// ext4Groups returns how many groups a mounted file system has, which the kernel shows with its statistics only.
func ext4Groups(host *os.File, loop int) (groups uint64, err error) {
	name := fmt.Sprintf("loop%d", loop)
	const attempts = 10 // another mount of the same disk may turn them off
	for range attempts {
		f, err := openAt(host, "proc/fs/ext4/"+name+"/mb_stats", unix.O_RDONLY)
		if err != nil {
			return 0, err
		}
		err = writeAt(host, "sys/fs/ext4/"+name+"/mb_stats", "1")
		shown, err1 := io.ReadAll(f)
		f.Close()
		if err := errors.Join(err, err1, writeAt(host, "sys/fs/ext4/"+name+"/mb_stats", "0")); err != nil {
			return 0, err
		}
		_, after, found := strings.Cut(string(shown), "buddies_generated:")
		var buddies uint64
		if _, err := fmt.Sscanf(after, " %d/%d", &buddies, &groups); found && err == nil {
			return groups, nil
		}
	}
	return 0, errors.New("the kernel does not show it")
}

func openAt(dir *os.File, path string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func writeAt(dir *os.File, path, text string) error {
	f, err := openAt(dir, path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
