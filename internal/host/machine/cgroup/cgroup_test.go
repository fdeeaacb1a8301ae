//go:build linux

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

func TestHierarchiesAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mountinfo string
		v2        bool
		memory    string // Dir of the memory controller of a group
		err       string
	}{
		"version 2": {"30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", true,
			"/sys/fs/cgroup/coracle/o/i-1/machine", ""},
		"version 1": {`31 30 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
35 30 0:28 / /other/memory rw - cgroup cgroup rw,memory
`, false, "/sys/fs/cgroup/memory/coracle/o/i-1/machine", ""},
		"no memory controller": {"33 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", false, "",
			"no memory cgroups"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, err := parseMountinfo(bufio.NewScanner(strings.NewReader(c.mountinfo)))
			if c.err != "" {
				if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error is %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if host.V2() != c.v2 {
				t.Errorf("V2 is %v", host.V2())
			}
			if got := host.Group("o", "i-1").Dir("memory"); got != c.memory {
				t.Errorf("memory is in %s, want %s", got, c.memory)
			}
		})
	}
}

// A directory of ordinary files stands in for a hierarchy of cgroup v2: what is written where is what counts.
func TestVersion2DelegatesAndLimits(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	host := Host{{Mount: root, V2: true}}
	g := host.Group("owner", "i-1")
	for dir := g.Dir("memory"); ; dir = filepath.Dir(dir) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{
			"cgroup.controllers": "cpuset cpu memory pids io\n", "cgroup.subtree_control": "", "cpu.max": "",
			"cpu.weight": "", "memory.max": "", "memory.swap.max": "", "cgroup.procs": "",
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if dir == root {
			break
		}
	}
	for _, h := range host {
		if err := g.createIn(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.limitV2(Limits{CPUs: 2, MemoryBytes: 8 << 30}); err != nil {
		t.Fatal(err)
	}
	if err := g.EnableControllers(); err == nil {
		t.Error("init.scope has no cgroup.procs, yet EnableControllers said nothing")
	}
	for file, want := range map[string]string{
		"cgroup.subtree_control":                    "+io", // each is written on its own; this is the last
		"coracle/owner/cgroup.subtree_control":      "+io",
		"coracle/owner/i-1/cgroup.subtree_control":  "+pids", // a machine gets no io
		"coracle/owner/i-1/cpu.max":                 "200000 100000",
		"coracle/owner/i-1/cpu.weight":              "200",
		"coracle/owner/i-1/memory.max":              "8589934592",
		"coracle/owner/i-1/memory.swap.max":         "0",
		"coracle/owner/i-1/machine/cpu.max":         "200000 100000",
		"coracle/owner/i-1/machine/memory.max":      "8589934592",
		"coracle/owner/i-1/machine/memory.swap.max": "0",
	} {
		b, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || !strings.HasPrefix(string(b), want) {
			t.Errorf("%s is %q, %v; want %q", file, b, err, want)
		}
	}
	scope := filepath.Join(root, "coracle/owner/i-1/machine/exec.scope")
	if _, err := g.OpenProcesses("exec.scope"); err == nil || !strings.Contains(err.Error(), scope+"/cgroup.procs") {
		t.Errorf("OpenProcesses says %v, and looks elsewhere than in %s", err, scope)
	}

	// A machine of a part of a CPU. These files keep the rest of what they had.
	if err := g.limitV2(Limits{CPUs: 1, MilliCPUs: 250, MemoryBytes: 512 << 20}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"cpu.max": "25000 100000", "cpu.weight": "25", "memory.max": "536870912"} {
		if got, err := readFile(g.groupDir(host[0]), file); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q, %v; want %q", file, got, err, want)
		}
	}
}

// groupOfFiles returns a machine's group in directories of ordinary files, which stand in for a hierarchy.
func groupOfFiles(t *testing.T, h Hierarchy, files ...string) Group {
	t.Helper()
	h.Mount = t.TempDir()
	g := Host{h}.Group("owner", "i-1")
	for _, dir := range []string{g.machineDir(h), g.groupDir(h)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte("max"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return g
}

func TestMachinesHaveNoHugePages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hierarchy Hierarchy
		limits    []string
		others    []string
	}{
		"version 2": {Hierarchy{V2: true}, []string{"hugetlb.2MB.max", "hugetlb.2MB.rsvd.max", "hugetlb.1GB.max"},
			[]string{"memory.max", "hugetlb.2MB.current"}},
		"version 1": {Hierarchy{Controllers: []string{"hugetlb"}},
			[]string{"hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.rsvd.limit_in_bytes"},
			[]string{"hugetlb.2MB.usage_in_bytes"}},
		"another hierarchy": {Hierarchy{Controllers: []string{"memory"}}, nil, []string{"hugetlb.2MB.limit_in_bytes"}},
	} {
		g := groupOfFiles(t, c.hierarchy, slices.Concat(c.limits, c.others)...)
		if err := g.limitHugePages(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		dir := g.groupDir(g.Host[0])
		for _, dir := range []string{dir, filepath.Join(dir, inner)} {
			for _, file := range slices.Concat(c.limits, c.others) {
				want := "max"
				if slices.Contains(c.limits, file) {
					want = "0" // a short write over what was there
				}
				if got, err := readFile(dir, file); err != nil || !strings.HasPrefix(got, want) {
					t.Errorf("%s: %s is %q, %v; want %q", name, file, got, err, want)
				}
			}
		}
	}
}

// What machines take is told by groups: whoever reads what the kernel shows of a process' memory waits for as long as
// the process likes.
func TestMemoryOfMachinesIsThatOfTheirGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hierarchy  Hierarchy
		used, stat string
	}{
		"version 2": {Hierarchy{V2: true}, "memory.current", "inactive_anon 7\ninactive_file 100\nactive_file 9\n"},
		"version 1": {Hierarchy{Controllers: []string{"memory"}}, "memory.usage_in_bytes",
			"inactive_file 1\ntotal_inactive_anon 7\ntotal_inactive_file 100\n"},
	} {
		g := groupOfFiles(t, c.hierarchy)
		if used, set := g.MemoryUsed(), g.WorkingSet(); used != 0 || set != 0 {
			t.Errorf("%s: without a group %d bytes are used, %d of them in use", name, used, set)
		}
		dir := g.groupDir(g.Host[0])
		if err := os.WriteFile(filepath.Join(dir, c.used), []byte("1000\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if used, set := g.MemoryUsed(), g.WorkingSet(); used != 1000 || set != 1000 {
			t.Errorf("%s: of 1000 bytes %d are used, %d of them in use", name, used, set)
		}
		if err := os.WriteFile(filepath.Join(dir, "memory.stat"), []byte(c.stat), 0o600); err != nil {
			t.Fatal(err)
		}
		if used, set := g.MemoryUsed(), g.WorkingSet(); used != 1000 || set != 900 {
			t.Errorf("%s: of 1000 bytes, 100 of them of files, %d are used, %d of them in use", name, used, set)
		}
	}
}

func TestSocketsCountForMachines(t *testing.T) {
	t.Parallel()
	for commandLine, want := range map[string][2]bool{
		"quiet":                               {false, false},
		"quiet cgroup.memory=nokmem":          {false, true},
		"cgroup.memory=nosocket quiet":        {true, false},
		"quiet cgroup.memory=nokmem,nosocket": {true, true},
	} {
		for i, part := range []string{"nosocket", "nokmem"} {
			if got := disables(commandLine, part); got != want[i] {
				t.Errorf("%q has %s: %t", commandLine, part, got)
			}
		}
	}
	v1 := Hierarchy{Controllers: []string{"memory"}}
	if (Host{v1}).ChargesSockets() {
		t.Error("sockets of groups below a machine's count for it with version 1")
	}
	const file = "memory.kmem.tcp.limit_in_bytes"
	for _, files := range [][]string{{"memory.limit_in_bytes"}, {"memory.limit_in_bytes", file}} {
		g := groupOfFiles(t, v1, files...)
		if err := g.limitV1(Limits{CPUs: 2, MemoryBytes: 8 << 30}); err != nil {
			t.Errorf("with %v: %v", files, err)
		}
		for _, dir := range g.limited("memory") {
			if got, err := readFile(dir, file); err == nil && got != "4294967296" {
				t.Errorf("%s is %q", file, got)
			}
		}
	}
}

func TestVersion1SharesProcessors(t *testing.T) {
	t.Parallel()
	for limits, want := range map[Limits]string{
		{CPUs: 2}:                  "2048",
		{CPUs: 1, MilliCPUs: 250}:  "256",
		{CPUs: 2, MilliCPUs: 1500}: "1536",
		{CPUs: 1, MilliCPUs: 1}:    "2", // the least that the kernel takes
	} {
		g := groupOfFiles(t, Hierarchy{Controllers: []string{"cpu"}}, "cpu.shares")
		if err := g.limitV1(limits); err != nil {
			t.Fatal(err)
		}
		for _, dir := range g.limited("cpu") {
			if got, err := readFile(dir, "cpu.shares"); err != nil || !strings.HasPrefix(got, want) {
				t.Errorf("%+v: cpu.shares is %q, %v; want %q", limits, got, err, want)
			}
		}
	}
}

func TestMemoryOfAGroup(t *testing.T) {
	t.Parallel()
	for file, host := range map[string]Host{
		"memory.current":        {{Mount: t.TempDir(), V2: true}},
		"memory.usage_in_bytes": {{Mount: t.TempDir(), Controllers: []string{"memory"}}},
	} {
		g := host.Group("owner", "i-1")
		if got := g.MemoryUsed(); got != 0 {
			t.Errorf("%s: a group that is not there has %d bytes", file, got)
		}
		dir := filepath.Join(host[0].Mount, g.Path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte("4096\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := g.MemoryUsed(); got != 4096 {
			t.Errorf("%s: %d bytes, want 4096", file, got)
		}
	}
}

func TestMachinesAreSpreadOverTheProcessors(t *testing.T) {
	t.Parallel()
	cpus, err := parseCPUs("0-3,8,10-11\n")
	if err != nil || !slices.Equal(cpus, []int{0, 1, 2, 3, 8, 10, 11}) {
		t.Fatalf("parsed %v, %v", cpus, err)
	}
	used := map[int]bool{}
	for _, id := range []string{"i-0", "i-1", "i-2", "i-3", "i-4", "i-5", "i-6", "i-7", "i-8", "i-9"} {
		chosen := pickCPUs(cpus, 2, id)
		if len(chosen) != 2 || chosen[0] == chosen[1] || !slices.Contains(cpus, chosen[0]) ||
			!slices.Contains(cpus, chosen[1]) {
			t.Errorf("%s gets %v", id, chosen)
		}
		for _, c := range chosen {
			used[c] = true
		}
	}
	if len(used) < 5 {
		t.Errorf("ten machines use %d of 7 processors", len(used))
	}
}

// Root in a machine makes groups in one another as deep as it likes, and freezes what is in them: a machine ends
// nevertheless.
func TestDeepAndFrozenGroupsAreRemoved(t *testing.T) {
	t.Parallel()
	dir := hierarchy(t, func(h Hierarchy) bool { return h.V2 || h.hasController("freezer") })
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	const name = "a-group-with-a-name-that-makes-the-path-longer-than-paths-can-be"
	for range 100 {
		next := -1
		err := unix.Mkdirat(at, name, 0o755)
		if err == nil {
			next, err = unix.Openat(at, name, unix.O_DIRECTORY, 0)
		}
		unix.Close(at)
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	defer unix.Close(at)
	group := fmt.Sprintf("/proc/self/fd/%d", at)
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(group, "cgroup.procs", strconv.Itoa(sleeper.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(group, "freezer.state", "FROZEN"); err != nil {
		if err := writeFile(group, "cgroup.freeze", "1"); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error)
	go func() { ended <- sleeper.Wait() }()
	if err := killAndRemove([]string{dir}, connections{}); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Errorf("the frozen process has ended with %v", err)
	}
}

// A process that is frozen in one hierarchy holds its groups in all.
func TestAFrozenMachineIsRemoved(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	host, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	owner := filepath.Base(t.TempDir()) + strconv.Itoa(os.Getpid())
	g := host.Group(owner, "i-1")
	if err := g.Create(Limits{CPUs: 1, MemoryBytes: 256 << 20}); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sleeper.Wait() }()
	if err := g.Add(sleeper.Process.Pid); err != nil {
		t.Fatal(err)
	}
	frozen := false
	for _, h := range host {
		frozen = writeFile(g.machineDir(h), "freezer.state", "FROZEN") == nil || writeFile(g.machineDir(h),
			"cgroup.freeze", "1") == nil || frozen
	}
	if !frozen {
		t.Error("nothing freezes it")
	}
	if removed, err := host.RemoveAll(owner); err != nil || len(removed) != len(host) {
		t.Errorf("removed %v, %v", removed, err)
	}
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Errorf("the frozen process has ended with %v", err)
	}
}

func TestProcessesOfAMachine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ memory, host, want int64 }{
		{512 << 20, 4 << 20, 4096}, // t3.nano
		{256 << 20, 4 << 20, 2048},
		{64 << 20, 4 << 20, 1024},
		{8 << 30, 4 << 20, 65536}, // m5.large
		{8 << 30, 32768, 8192},
		{384 << 30, 4 << 20, 1 << 20}, // m5.24xlarge
	} {
		if got := (Limits{MemoryBytes: test.memory}).processes(test.host); got != test.want {
			t.Errorf("%d bytes on a host for %d: %d, want %d", test.memory, test.host, got, test.want)
		}
	}
	host, err := hostProcesses()
	if err != nil || host < 1024 {
		t.Errorf("this host can have %d, %v", host, err)
	}
}
