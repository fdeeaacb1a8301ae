//go:build linux

package cgroup

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// limitFiles are the files of a group that limit disks.
func limitFiles(t *testing.T, g Group) (files []string) {
	t.Helper()
	for _, h := range g.Host {
		for _, dir := range []string{g.groupDir(h), g.machineDir(h)} {
			for file := range diskLimits {
				if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
					files = append(files, filepath.Join(dir, file))
				}
			}
		}
	}
	return files
}

// limited returns the first of files that limits a loop device.
func limited(t *testing.T, files []string) string {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(text), "7:") || strings.Contains(string(text), "\n7:") {
			return file
		}
	}
	return ""
}

// An earlier version has limited disks: a program that asks for many reads at once takes the memory of the host then,
// and does not end.
func TestNoDiskIsLimited(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	host, err := Open()
	if err != nil {
		t.Skip(err)
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
	files := limitFiles(t, g)
	if len(files) == 0 {
		t.Skip("this host has no cgroups for disks")
	}
	disk, device := newDisk(t, owner)
	if err := g.AllowDisks([]uint32{disk}); err != nil {
		t.Fatal(err)
	}
	setLimits(t, files, disk)
	if err := g.ReclaimIO(); err != nil {
		t.Fatal(err)
	}
	if file := limited(t, files); file != "" {
		t.Errorf("%s limits the disk still", file)
	}

	// One that waits for what a limit holds back dies when its machine ends, and the group goes.
	setLimits(t, files, disk)
	cmd := startIn(t, g, device, "dd if=/proc/self/fd/3 of=/dev/null bs=1M count=8 iflag=direct")
	if err := g.Remove(); err != nil {
		t.Errorf("remove the group of a machine that waits for its disk: %v", err)
	}
	_ = cmd.Wait() // it was killed
}

// setLimits lets a disk be read and written at a byte a second.
func setLimits(t *testing.T, files []string, disk uint32) {
	t.Helper()
	for _, file := range files {
		limit := "1"
		if filepath.Base(file) == "io.max" {
			limit = "rbps=1 wbps=1"
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, "7:%d %s", disk, limit), 0); err != nil {
			t.Fatal(err)
		}
	}
	if limited(t, files) == "" {
		t.Fatalf("%v limit nothing", files)
	}
}

// A directory of ordinary files stands in for a hierarchy of cgroup v2.
func TestVersion2LimitsNoDisk(t *testing.T) {
	t.Parallel()
	const limited, unlimited = "7:3 rbps=1 wbps=max riops=3000 wiops=max\n", "7:3 rbps=max wbps=max riops=max wiops=max"
	for name, test := range map[string]struct {
		reset func(g Group) error
		below string // what a group of the machine has then: it may have too many to look at while it runs
	}{
		"reclaimed": {Group.ReclaimIO, limited},
		"removed":   {func(g Group) error { _ = g.Remove(); return nil }, unlimited}, // files cannot be removed like groups
	} {
		g := Host{{Mount: t.TempDir(), V2: true}}.Group("owner", "i-1")
		want := map[string]string{g.groupDir(g.Host[0]): unlimited, filepath.Join(g.groupDir(g.Host[0]), "pod"): test.below}
		for dir := range want {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "io.max"), []byte(limited), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := test.reset(g); err != nil {
			t.Fatal(err)
		}
		for dir, want := range want {
			if got, err := os.ReadFile(filepath.Join(dir, "io.max")); err != nil || string(got) != want {
				t.Errorf("%s: io.max of %s is %q, %v; want %q", name, dir, got, err, want)
			}
		}
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
	testenv.NeedsLoopDevices(t)
	number, err := loopdevice.Attach(f, loopdevice.Name{Owner: owner, Volume: "vol-1", InstanceID: "i-1"})
	if err != nil {
		t.Fatal(err)
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

// startIn starts a script in a group, with a file as its descriptor 3.
func startIn(t *testing.T, g Group, file *os.File, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-ec", "read go; "+script)
	cmd.ExtraFiles = []*os.File{file}
	begin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	added := g.Add(cmd.Process.Pid)
	_, err = begin.Write([]byte("go\n"))
	if err := errors.Join(added, err); err != nil {
		t.Fatal(err)
	}
	return cmd
}
