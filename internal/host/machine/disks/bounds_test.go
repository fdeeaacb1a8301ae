//go:build linux

package disks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/testenv"
)

func TestFileSystemsWithManyGroups(t *testing.T) {
	t.Parallel()
	xfs := func(allocation, realtime uint32) []byte {
		b := make([]byte, 4096)
		copy(b, "XFSB")
		binary.BigEndian.PutUint32(b[88:], allocation)
		binary.BigEndian.PutUint32(b[272:], realtime)
		return b
	}
	ext4 := func(blocks uint64, logSize, perGroup, incompatible uint32) []byte {
		b := make([]byte, 4096)
		super := b[1024:]
		binary.LittleEndian.PutUint32(super[0x04:], uint32(blocks))
		binary.LittleEndian.PutUint32(super[0x18:], logSize)
		binary.LittleEndian.PutUint32(super[0x20:], perGroup)
		binary.LittleEndian.PutUint32(super[0x60:], incompatible)
		binary.LittleEndian.PutUint32(super[0x150:], uint32(blocks>>32))
		return b
	}
	const wide = 0x80
	for name, c := range map[string]struct {
		kind    string
		block   []byte
		refused bool
	}{
		"XFS of 20 GiB grown to 64 TiB":         {"xfs", xfs(13108, 0), false},
		"XFS of 4 TiB in groups of 16 MiB":      {"xfs", xfs(262144, 0), true},
		"XFS with many realtime groups":         {"xfs", xfs(4, 1<<20), true},
		"no XFS":                                {"xfs", make([]byte, 4096), false},
		"ext4 of 1 GiB":                         {"ext4", ext4(262144, 2, 32768, wide), false},
		"ext4 of 64 TiB":                        {"ext4", ext4(1<<34, 2, 32768, wide), false},
		"ext4 of 512 GiB in blocks of 1 KiB":    {"ext4", ext4(1<<29, 0, 8192, wide), false},
		"ext4 of 1 GiB in groups of one block":  {"ext4", ext4(262144, 2, 1, wide), true},
		"ext4 of 64 TiB in groups of 64 MiB":    {"ext4", ext4(1<<34, 2, 16384, wide), true},
		"ext4 of 16 TiB in small groups":        {"ext4", ext4(1<<32-1, 2, 8, 0), true},
		"ext4 that has no high bits":            {"ext4", ext4(1<<40|262144, 2, 32768, 0), false},
		"ext4 with groups of no blocks":         {"ext4", ext4(262144, 2, 0, wide), false},
		"ext4 with blocks of a size unheard of": {"ext4", ext4(262144, 70, 1, wide), false},
		"no ext4":                               {"ext4", make([]byte, 4096), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkSuperblock(c.kind, bytes.NewReader(c.block))
			if c.refused != errors.Is(err, unix.EFBIG) || !c.refused && err != nil {
				t.Errorf("the error is %v", err)
			}
		})
	}
	if err := checkSuperblock("xfs", bytes.NewReader(nil)); err == nil {
		t.Error("a disk without a size has a superblock")
	}
}

// A machine writes what the kernel mounts until it does. What XFS can take at most follows from the size of the disk.
func TestLargeDisksNeedMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind         string
		size, memory uint64
		refused      bool
	}{
		{"xfs", 1 << 40, 4 << 30, false},
		{"xfs", 4 << 40, 8 << 30, true},
		{"xfs", 8 << 40, 24 << 30, false},
		{"xfs", 50 << 40, 24 << 30, true},
		{"xfs", 64 << 40, 256 << 30, false},
		{"ext4", 64 << 40, 4 << 30, false},
	} {
		err := checkSize(c.kind, c.size, c.memory)
		if errors.Is(err, unix.ENOMEM) != c.refused || !c.refused && err != nil {
			t.Errorf("%s on %d GiB with %d GiB of memory: the error is %v", c.kind, c.size>>30, c.memory>>30, err)
		}
	}
}

// What the kernel has mounted counts, whatever is on the disk.
func TestGroupsOfMountedFileSystems(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		size   int64
		make   []string
		groups uint64
	}{
		"ext4": {64 << 20, []string{"mkfs.ext4", "-q", "-F", "-b", "1024"}, 8},
		"xfs":  {512 << 20, []string{"mkfs.xfs", "-q", "-d", "agcount=5"}, 5},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testenv.NeedsRoot(t)
			dir := t.TempDir()
			image, at := filepath.Join(dir, "disk"), filepath.Join(dir, "mnt")
			f, err := os.Create(image)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := errors.Join(f.Truncate(c.size), os.Mkdir(at, 0o700)); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(c.make[0], append(c.make[1:], image)...).CombinedOutput()
			if errors.Is(err, exec.ErrNotFound) {
				t.Skip(err)
			} else if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			name := loopdevice.Name{Owner: filepath.Base(filepath.Dir(dir)), Volume: "vol-1", InstanceID: kind}
			testenv.NeedsLoopDevices(t)
			loop, err := loopdevice.Attach(f, name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := loopdevice.Release(loop, name); err != nil {
					t.Error(err)
				}
			})
			device, err := loopdevice.Open(loop, unix.O_RDONLY)
			if err != nil {
				t.Fatal(err)
			}
			defer device.Close()
			if err := loopdevice.Grow(loop, c.size); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount(device.Name(), at, kind, 0, ""); errors.Is(err, unix.ENODEV) {
				t.Skip("the kernel has no "+kind+":", err)
			} else if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := unix.Unmount(at, 0); err != nil {
					t.Error(err)
				}
			}()
			root, err1 := os.Open(at)
			host, err2 := openPath(unix.AT_FDCWD, "/", 0)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			defer host.Close()
			if err := checkMounted(kind, device, loop, root, host); err != nil {
				t.Error(err)
			}
			if kind == "ext4" {
				if groups, err := ext4Groups(host, loop); err != nil || groups != c.groups {
					t.Errorf("it has %d groups, %v", groups, err)
				}
				return
			}
			g, err := loopdevice.GeometryOfXFS(root)
			if err != nil || uint64(g.AllocationGroups) != c.groups || g.RealtimeGroups != 0 {
				t.Errorf("its geometry is %+v, %v", g, err)
			}
		})
	}
}

// What is on a disk counts, and what the kernel remembers of it: one of two machines that have a disk writes it past
// what the kernel remembers for the other.
func TestTheSuperblockIsReadWhereTheKernelReadsIt(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	disk, err := os.Create(filepath.Join(dir, "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	const size = 1 << 20
	if err := disk.Truncate(size); err != nil {
		t.Fatal(err)
	}
	attach := func(instance string) (path string) {
		name := loopdevice.Name{Owner: fmt.Sprintf("superblock-%d", os.Getpid()), Volume: "vol-1", InstanceID: instance}
		testenv.NeedsLoopDevices(t)
		loop, err := loopdevice.Attach(disk, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := loopdevice.Release(loop, name); err != nil {
				t.Error(err)
			}
		})
		path = filepath.Join(dir, instance)
		if err := errors.Join(loopdevice.Grow(loop, size),
			unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(loopdevice.Major, uint32(loop))))); err != nil {
			t.Fatal(err)
		}
		return path
	}
	superblock := func(groups uint32) []byte {
		b := alignedBlock()
		copy(b, "XFSB")
		binary.BigEndian.PutUint32(b[88:], groups)
		return b
	}
	write := func(path string, flags int, content []byte) {
		f, err := os.OpenFile(path, os.O_RDWR|flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt(content, 0)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	own, other := attach("i-1"), attach("i-2")
	few, many := superblock(4), superblock(1<<20)
	for name, c := range map[string]struct {
		remembered, onDisk []byte
		refused            bool
	}{
		"on the disk":                {few, many, true},
		"in the memory of a machine": {many, few, true},
		"nowhere":                    {few, few, false},
	} {
		write(own, 0, c.remembered)
		kept, err := os.Open(own) // as long as it is open, the kernel remembers what was read
		if err == nil {
			_, err = kept.ReadAt(make([]byte, 4096), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		write(other, unix.O_DIRECT, c.onDisk)
		device, err := order{Type: "xfs", Source: own}.openDisk()
		if (err != nil) != c.refused || c.refused && !errors.Is(err, unix.EFBIG) {
			t.Errorf("many groups %s: the error is %v", name, err)
		}
		device.Close() // of a nil file is an error and nothing else
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	}
}
