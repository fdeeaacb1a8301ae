//go:build linux

package cgroup

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// A directory of ordinary files stands in for a hierarchy of cgroup v2.
func TestVersion2BoundsDisks(t *testing.T) {
	t.Parallel()
	g := Host{{Mount: t.TempDir(), V2: true}}.Group("owner", "i-1")
	dir := g.groupDir(g.Host[0])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.LimitDisks(map[uint32]DiskLimits{3: {IOPS: 1}}); err != nil {
		t.Errorf("a kernel without bounds: %v", err)
	}
	file := filepath.Join(dir, "io.max")
	for _, test := range []struct {
		limits DiskLimits
		want   string
	}{
		{DiskLimits{IOPS: 3000, BytesPerSecond: 125 << 20}, "7:3 rbps=131072000 riops=3000"},
		{DiskLimits{IOPS: 100}, "7:3 rbps=max riops=100"},
		{DiskLimits{}, "7:3 rbps=max riops=max"},
	} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := g.LimitDisks(map[uint32]DiskLimits{3: test.limits}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != test.want {
			t.Errorf("%+v is %q, %v", test.limits, got, err)
		}
		stat := "8:0 rbytes=1 wbytes=1\n7:3 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\n"
		if err := os.WriteFile(filepath.Join(dir, "io.stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
		use, err := g.DiskUse(3)
		if want := (DiskUse{Read: 4096, Written: 512, Limits: test.limits}); err != nil || use != want {
			t.Errorf("the use is %+v, %v; want %+v", use, err, want)
		}
	}
}

// What a process of the machine reads and writes of a disk, past the host's memory, counts for the group with bounds.
func TestDisksAreBounded(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	host, err := Open()
	if err != nil {
		t.Skip(err)
	}
	if !host.V2() && !host.hasController("blkio") {
		t.Skip("this host has no cgroups for disks")
	}
	var random [8]byte
	_, _ = rand.Read(random[:])
	owner := hex.EncodeToString(random[:])
	g := host.Group(owner, "i-0123456789abcdef0")
	t.Cleanup(func() {
		if _, err := host.RemoveAll(owner); err != nil {
			t.Error(err)
		}
	})
	if err := g.Create(Limits{CPUs: 1, MemoryBytes: 256 << 20}); err != nil {
		t.Fatal(err)
	}
	disk, device := newDisk(t, owner)
	limits := DiskLimits{IOPS: 3000, BytesPerSecond: 125 << 20}
	set := func() {
		t.Helper()
		if err := g.LimitDisks(map[uint32]DiskLimits{disk: limits}); err != nil {
			t.Fatal(err)
		}
		use, err := g.DiskUse(disk)
		if err != nil || use.Limits != limits {
			t.Errorf("the bounds are %+v, %v; want %+v", use.Limits, err, limits)
		}
	}
	set()
	limits = DiskLimits{IOPS: 16000, BytesPerSecond: 1000 << 20} // modified while it is used
	set()

	if err := g.AllowDisks([]uint32{disk}); err != nil {
		t.Fatal(err)
	}
	runIn(t, g, device, "dd if=/dev/zero of=/proc/self/fd/3 bs=64k count=16 oflag=direct && "+
		"dd if=/dev/zero of=/proc/self/fd/3 bs=64k count=16 conv=fsync && "+
		"dd if=/proc/self/fd/3 of=/dev/null bs=64k count=32 iflag=direct")
	use, err := g.DiskUse(disk)
	if err != nil || use.Written != 2<<20 || use.Read != 2<<20 {
		t.Errorf("counted are %+v, %v; want 2 MiB read and written", use, err)
	}
}

// newDisk returns the number of a loop device, and the device.
func newDisk(t *testing.T, owner string) (minor uint32, device *os.File) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(8 << 20); err != nil {
		t.Fatal(err)
	}
	number, err := loopdevice.Attach(f, loopdevice.Name{Owner: owner, Volume: "vol-1", InstanceID: "i-1"})
	if err != nil {
		t.Skip("loop devices:", err)
	}
	t.Cleanup(func() {
		if _, err := loopdevice.RemoveAll(owner); err != nil {
			t.Error(err)
		}
	})
	if device, err = loopdevice.Open(number, unix.O_RDWR); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.Close() })
	return uint32(number), device
}

// runIn runs a script in a group, with a file as its descriptor 3.
func runIn(t *testing.T, g Group, file *os.File, script string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-ec", "read go; "+script)
	cmd.ExtraFiles = []*os.File{file}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	added := g.Add(cmd.Process.Pid)
	_, _ = begin.Write([]byte("go\n"))
	if err := cmd.Wait(); err != nil || added != nil {
		t.Fatalf("%v, %v: %s", added, err, &out)
	}
}
