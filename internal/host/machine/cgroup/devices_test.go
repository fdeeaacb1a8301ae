//go:build linux

package cgroup

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// asMachine makes the test program enter a group and open device files that it makes in a directory, as root does in a
// machine.
const asMachine = "open-devices"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == asMachine {
		if err := writeFile(os.Args[2], "cgroup.procs", "0"); err != nil {
			fmt.Println(err)
		}
		for _, device := range os.Args[4:] {
			fmt.Println(device, openDevice(filepath.Join(os.Args[3], strings.ReplaceAll(device, " ", "-")), device))
		}
		return
	}
	if len(os.Args) == 4 && os.Args[1] == asOwnServer {
		fmt.Println(waitForItself(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func openDevice(path, device string) string {
	var kind string
	var major, minor uint32
	if _, err := fmt.Sscanf(device, "%s %d:%d", &kind, &major, &minor); err != nil {
		return err.Error()
	}
	mode := map[string]uint32{"b": unix.S_IFBLK, "c": unix.S_IFCHR}[kind]
	if err := unix.Mknod(path, mode|0o600, int(unix.Mkdev(major, minor))); err != nil {
		return "cannot be made: " + err.Error()
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == unix.EPERM {
		return "refused"
	}
	if err == nil {
		unix.Close(fd)
	}
	return "allowed" // or without a driver
}

// hierarchy finds one of this host in which a test may make a group, and makes it.
func hierarchy(t *testing.T, suits func(Hierarchy) bool) (dir string) {
	t.Helper()
	testenv.NeedsRoot(t)
	host, err := Open()
	if err != nil {
		t.Skip(err)
	}
	for _, h := range host {
		if suits(h) {
			var name [8]byte
			_, _ = rand.Read(name[:])
			dir = filepath.Join(h.Mount, "coracle-test-"+hex.EncodeToString(name[:]))
			break
		}
	}
	if dir == "" {
		t.Skip("this host has no such hierarchy")
	}
	if err := os.MkdirAll(filepath.Join(dir, "child"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := killAndRemove([]string{dir}, connections{}); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// disk returns a disk of this host: "b 254:0".
func disk(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("/sys/block/*/dev")
	if len(found) == 0 {
		t.Skip("this host has no disk")
	}
	number, err := os.ReadFile(found[len(found)-1])
	if err != nil {
		t.Fatal(err)
	}
	return "b " + strings.TrimSpace(string(number))
}

// tryDevices opens devices in a group, and compares what was allowed.
func tryDevices(t *testing.T, group string, allowed, refused []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{asMachine, group, t.TempDir()}, append(allowed, refused...)...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range allowed {
		if !bytes.Contains(out, []byte(device+" allowed\n")) {
			t.Errorf("%s is not allowed", device)
		}
	}
	for _, device := range refused {
		if !bytes.Contains(out, []byte(device+" refused\n")) {
			t.Errorf("%s is not refused", device)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

var (
	ofContainers = []string{
		"c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2", "c 10:200", "c 10:229", "c 136:0",
	}
	ofTheHost = []string{
		"c 1:1", "c 1:4", "c 1:11", "c 4:0", "c 4:64", "c 7:0", "c 10:232", "c 10:237", "c 10:238", "c 13:64", "c 21:0",
		"c 108:0", "c 202:0", "c 240:0", "c 511:0", "c 10:500", "b 7:0", "b 1:0", "b 259:0", "b 8:0",
	}
)

func TestDevicesOfVersion2(t *testing.T) {
	t.Parallel()
	dir := hierarchy(t, func(h Hierarchy) bool { return h.V2 })
	child := filepath.Join(dir, "child")
	refused := append([]string{disk(t), "c 5:1"}, ofTheHost...)
	tryDevices(t, child, append(ofContainers, refused...), nil)
	if err := attachDeviceFilter(dir, nil); err != nil {
		t.Fatal(err)
	}
	tryDevices(t, child, ofContainers, refused)

	// A group below, such as that of a privileged container, cannot allow more.
	everything, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.CGroupDevice, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer everything.Close()
	group, err := os.Open(child)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	if err := link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(group.Fd()), Program: everything, Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI,
	}); err != nil {
		t.Fatal(err)
	}
	tryDevices(t, child, ofContainers, refused)
}

func TestDisksOfVersion2(t *testing.T) {
	t.Parallel()
	dir := hierarchy(t, func(h Hierarchy) bool { return h.V2 })
	if err := attachDeviceFilter(dir, nil); err != nil {
		t.Fatal(err)
	}
	g := Group{Host: Host{{Mount: filepath.Dir(dir), V2: true}}, Path: filepath.Base(dir)}
	testDisks(t, g, filepath.Join(dir, "child"))
}

// The kernel makes a loop device that somebody opens, whatever its number: there is none that is not denied, so there
// are no volumes.
func TestDisksOfVersion1(t *testing.T) {
	t.Parallel()
	dir := hierarchy(t, func(h Hierarchy) bool { return h.hasController("devices") })
	for _, rule := range denials(true) {
		if err := writeFile(dir, "devices.deny", rule); err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
	}
	child := filepath.Join(dir, "child", "grandchild")
	if err := os.Mkdir(child, 0o755); err != nil {
		t.Fatal(err)
	}
	g := Group{Host: Host{{Mount: filepath.Dir(dir), Controllers: []string{"devices"}}}, Path: filepath.Base(dir)}
	if err := g.AllowDisks([]uint32{9}); !errors.Is(err, ErrNoDisks) {
		t.Errorf("a disk is allowed: %v", err)
	}
	if err := g.AllowDisks(nil); err != nil {
		t.Errorf("no disk: %v", err)
	}
	tryDevices(t, child, ofContainers, append([]string{"b 7:9", "b 7:4096", "b 7:1048575"}, ofTheHost...))
}

// testDisks allows disks to a group, one after the other.
func testDisks(t *testing.T, g Group, child string) {
	t.Helper()
	tryDevices(t, child, ofContainers, ofTheHost)
	for _, step := range []struct {
		now              []uint32
		allowed, refused []string
	}{
		{[]uint32{9}, []string{"b 7:9"}, []string{"b 7:8", "b 7:0"}},
		{[]uint32{9, 11}, []string{"b 7:9", "b 7:11"}, []string{"b 7:10", "c 7:9"}},
		{[]uint32{11}, []string{"b 7:11"}, []string{"b 7:9"}},
		{nil, nil, []string{"b 7:9", "b 7:11"}},
	} {
		if err := g.AllowDisks(step.now); err != nil {
			t.Fatal(err)
		}
		tryDevices(t, child, append(step.allowed, ofContainers...), append(step.refused, ofTheHost...))
	}
	// What cannot be replaced still decides, and nobody may take a disk for one that the machine lacks.
	if err := (Group{Host: g.Host, Path: g.Path + "/gone"}).AllowDisks(nil); err == nil || errors.Is(err, ErrNoDisks) {
		t.Errorf("no disks are allowed to a group that cannot be looked at: %v", err)
	}
}

func TestDevicesOfVersion1(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		all     bool
		refused []string
	}{
		"beside version 2": {false, []string{"c 1:1", "c 1:4", "b 1:0", "b 259:0"}},
		"alone":            {true, ofTheHost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := hierarchy(t, func(h Hierarchy) bool { return h.hasController("devices") })
			child := filepath.Join(dir, "child")
			refused := append([]string{disk(t)}, c.refused...)
			tryDevices(t, child, append(ofContainers, refused...), nil)
			for _, rule := range denials(c.all) {
				if err := writeFile(dir, "devices.deny", rule); err != nil {
					t.Fatalf("%s: %v", rule, err)
				}
			}
			tryDevices(t, child, ofContainers, refused)

			// What runc writes for a privileged container, and for another.
			if err := writeFile(child, "devices.allow", "a"); err != nil {
				t.Errorf("a privileged container: %v", err)
			}
			tryDevices(t, child, ofContainers, refused)
			if err := writeFile(child, "devices.deny", "a"); err != nil {
				t.Fatal(err)
			}
			for _, rule := range []string{
				"c *:* m", "b *:* m", "c 1:3 rwm", "c 1:8 rwm", "c 1:7 rwm", "c 5:0 rwm", "c 1:5 rwm", "c 1:9 rwm",
				"c 5:1 rwm", "c 136:* rwm", "c 5:2 rwm",
			} {
				if err := writeFile(child, "devices.allow", rule); err != nil {
					t.Errorf("a container with %s: %v", rule, err)
				}
			}
			if err := writeFile(child, "devices.allow", "b 8:0 r"); err == nil {
				t.Error("a container was allowed a disk")
			}
		})
	}
}

// A machine may make of its own group what it likes: what bounds it is in the one around.
// Who has a user namespace may clear nodev of mounts of its disks, and write device files to them.
func TestNoConsoleWithUserNamespaces(t *testing.T) {
	t.Parallel()
	dir := hierarchy(t, func(h Hierarchy) bool { return h.hasController("devices") })
	host, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	g := Group{Path: filepath.Base(dir)}
	for _, h := range host {
		if h.hasController("devices") {
			g.Host = append(g.Host, h)
		}
	}
	child := filepath.Join(dir, inner)
	tryDevices(t, child, []string{"c 5:1"}, nil)
	if err := os.MkdirAll(child, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.Delegate(os.Getuid()); err != nil {
		t.Fatal(err)
	}
	tryDevices(t, child, []string{"c 5:0"}, []string{"c 5:1"})
}

func TestAMachineDoesNotSeeWhatBoundsIt(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	host, err := Open()
	if err != nil {
		t.Skip(err)
	}
	var name [8]byte
	_, _ = rand.Read(name[:])
	owner := hex.EncodeToString(name[:])
	t.Cleanup(func() {
		if _, err := host.RemoveAll(owner); err != nil {
			t.Error(err)
		}
	})
	g := host.Group(owner, "i-1")
	const limit = 512 << 20
	if err := g.Create(Limits{CPUs: 1, MemoryBytes: limit}); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"memory.limit_in_bytes": "-1"}
	if host.V2() {
		files = map[string]string{"memory.max": "max", "cpu.max": "max"}
	}
	for _, dir := range g.limited("pids") {
		if most, err := readFile(dir, "pids.max"); err != nil || most != "4096" {
			t.Errorf("%s may have %s processes, %v; want 4096", dir, most, err)
		}
	}
	for file, most := range files {
		seen := g.Dir("memory")
		if inside, err := readFile(seen, file); err != nil || file != "cpu.max" && inside != strconv.Itoa(limit) {
			t.Errorf("the machine sees %s %s, %v", file, inside, err)
		}
		// where swap is accounted for, it has to be raised first
		_ = writeFile(seen, "memory.memsw.limit_in_bytes", most)
		if err := writeFile(seen, file, most); err != nil {
			t.Fatal(err)
		}
		around, err := readFile(filepath.Dir(seen), file)
		if err != nil || file != "cpu.max" && around != strconv.Itoa(limit) {
			t.Errorf("a machine has made its %s %s, %v", file, around, err)
		}
	}
}
