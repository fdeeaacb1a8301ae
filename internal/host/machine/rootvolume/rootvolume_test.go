//go:build linux

package rootvolume

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// rig is a root volume with its device.
type rig struct {
	t     *testing.T
	file  string
	name  loopdevice.Name
	loop  int
	tools string
	at    string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	testenv.NeedsRoot(t)
	if err := Check(); err != nil {
		t.Skip(err)
	}
	tools, err := machinetest.Base()
	if err != nil {
		t.Fatal(err)
	}
	var owner [8]byte
	_, _ = rand.Read(owner[:])
	dir := t.TempDir()
	r := &rig{t: t, file: filepath.Join(dir, "volume"), tools: tools, at: filepath.Join(dir, "at"),
		name: loopdevice.Name{Owner: hex.EncodeToString(owner[:]), Volume: "vol-0123456789abcdef0",
			InstanceID: "i-0123456789abcdef0"}}
	if err := os.Mkdir(r.at, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(r.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(8 << 30); err != nil {
		t.Fatal(err)
	}
	testenv.NeedsLoopDevices(t)
	if r.loop, err = loopdevice.Attach(f, r.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := loopdevice.RemoveAll(r.name.Owner); err != nil {
			t.Errorf("devices %v: %v", left, err)
		}
	})
	return r
}

// prepare prepares the volume and returns its size in bytes.
func (r *rig) prepare(fill func(dir string) error) (size int64) {
	r.t.Helper()
	err := Prepare(r.t.Context(), r.name, r.tools, r.at, func(dir string) error {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return err
		}
		size = int64(st.Blocks) * st.Bsize
		return fill(dir)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return size
}

func (r *rig) write(at int64, text []byte) {
	r.t.Helper()
	device, err := loopdevice.Open(r.loop, unix.O_RDWR)
	if err != nil {
		r.t.Fatal(err)
	}
	defer device.Close()
	if _, err := device.WriteAt(text, at); err != nil {
		r.t.Fatal(err)
	}
}

// TestPrepare makes a file system, finds it again with its files, and makes it larger with its volume.
func TestPrepare(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	began := time.Now()
	if size := r.prepare(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "file"), []byte("kept"), 0o600)
	}); size < 7<<30 || size > 8<<30 {
		t.Errorf("it has %d bytes", size)
	}
	t.Logf("prepared in %v", time.Since(began))
	if entries, err := os.ReadDir(r.at); err != nil || len(entries) > 0 {
		t.Errorf("the host sees %v, %v", entries, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(r.file, &st); err != nil || st.Blocks*512 > 80<<20 {
		t.Errorf("it takes %d bytes of the host, %v", st.Blocks*512, err)
	}
	kept := func(dir string) error {
		if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "kept" {
			t.Errorf("the file has %q, %v", got, err)
		}
		return nil
	}
	r.prepare(kept)

	if err := os.Truncate(r.file, 12<<30); err != nil {
		t.Fatal(err)
	}
	if err := loopdevice.Grow(r.loop, 12<<30); err != nil {
		t.Fatal(err)
	}
	mounted, err := Mount(r.name)
	if err != nil {
		t.Fatal(err)
	}
	if err := Grow(r.loop, r.name, r.at); err != nil { // as a machine has it
		t.Fatal(err)
	}
	limit, err := os.ReadFile(fmt.Sprintf("/sys/fs/xfs/loop%d/error/metadata/ENOSPC/retry_timeout_seconds", r.loop))
	if err != nil || strings.TrimSpace(string(limit)) != "60" {
		t.Errorf("it tries for %s to write to a full disk, %v", limit, err)
	}
	if err := loopdevice.ReleaseUnmounted(r.loop, r.name); !errors.Is(err, loopdevice.ErrInUse) {
		t.Errorf("a device that is mounted is released: %v", err)
	}
	if err := mounted.Close(); err != nil {
		t.Fatal(err)
	}
	if size := r.prepare(kept); size < 11<<30 {
		t.Errorf("grown, it has %d bytes", size)
	}
	if err := loopdevice.ReleaseUnmounted(r.loop, r.name); err != nil {
		t.Error(err)
	}
	if _, err := Find(r.name); !errors.Is(err, ErrAbsent) {
		t.Errorf("the device is there: %v", err)
	}
	if err := Prepare(t.Context(), r.name, r.tools, r.at, kept); !errors.Is(err, ErrAbsent) {
		t.Errorf("without a device: %v", err)
	}
}

// A file system grows in steps, between which it ends when nobody waits for it, and to no more groups than it may have:
// the kernel takes memory for each that counts for nobody. One that a volume leaves too far behind is as it was.
func TestFileSystemsGrowInSteps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	device, err := loopdevice.Open(r.loop, unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	const groupSize = 16 << 20
	if err := errors.Join(os.Truncate(r.file, 1024*groupSize), loopdevice.Grow(r.loop, 1024*groupSize)); err != nil {
		t.Fatal(err)
	}
	cmd, err := command(t.Context(), r.tools, "usr/sbin/mkfs.xfs", "--unsupported", "-q", "-f", "-K", "-l", "size=13m",
		"-d", "agsize=16m,size=320m", "/proc/self/fd/3")
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{device}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	groups, goesOn := uint32(0), func() bool { return true }
	if err := whileMounted(r.loop, r.name, r.at, func() error {
		root, err := os.Open(r.at)
		if err != nil {
			return err
		}
		defer root.Close()
		g, err := loopdevice.GeometryOfXFS(root)
		if err != nil {
			return err
		}
		asked, before := 0, g.AllocationGroups
		err = loopdevice.GrowXFS(root, 1000*uint64(g.GroupBlocks), g.MaxInodes, func() bool {
			asked++
			return asked < 3
		})
		if g, _ = loopdevice.GeometryOfXFS(root); !errors.Is(err, unix.EINTR) || g.AllocationGroups != before+2*256 {
			t.Errorf("after two steps it has %d groups, %v", g.AllocationGroups, err)
		}
		err = loopdevice.GrowXFS(root, 700*uint64(g.GroupBlocks), g.MaxInodes, goesOn)
		if g, _ = loopdevice.GeometryOfXFS(root); err != nil || g.AllocationGroups != 700 ||
			g.Blocks != 700*uint64(g.GroupBlocks) {
			t.Errorf("its geometry is %+v, %v", g, err)
		}
		groups = g.AllocationGroups
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	size := (loopdevice.MostXFSGroups + 1) * int64(groupSize)
	if err := errors.Join(os.Truncate(r.file, size), loopdevice.Grow(r.loop, size)); err != nil {
		t.Fatal(err)
	}
	if err := Grow(r.loop, r.name, r.at); !errors.Is(err, loopdevice.ErrManyGroups) {
		t.Errorf("it grows without bounds: %v", err)
	}
	r.prepare(func(dir string) error {
		root, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		if g, err := loopdevice.GeometryOfXFS(root); err != nil || g.AllocationGroups != groups {
			t.Errorf("a machine has %d groups, %v", g.AllocationGroups, err)
		}
		return nil
	})
}

// TestPrepareAgain finds a file system whose making has been cut off, and makes it.
func TestPrepareAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	half := make([]byte, 512)
	copy(half, "XFSB")
	half[126] = 1
	r.write(0, half)
	r.prepare(func(string) error { return nil })
}

// TestNothingIsOverwritten has something else on the volume.
func TestNothingIsOverwritten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(100, []byte("content"))
	err := Prepare(t.Context(), r.name, r.tools, r.at, func(string) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("it was prepared: %v", err)
	}
}
