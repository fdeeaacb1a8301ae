//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHardwareIsOfTheInstanceType(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := Hardware{InstanceID: "i-0123456789abcdef0", InstanceType: "m5.2xlarge", CPUs: 8, ThreadsPerCore: 2,
		ClockMHz: 3100, MemoryKiB: MemTotal(32768), MachineID: MachineID("i-0123456789abcdef0")}
	if err := h.writeFiles(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if info := read("cpuinfo"); strings.Count(info, "\nprocessor\t: ")+1 != 8 || !strings.HasPrefix(info,
		"processor\t: 0\n") {
		t.Errorf("cpuinfo is\n%s", info)
	}
	for name, want := range map[string]string{
		"cpu/online":                             "0-7",
		"cpu/cpu5/topology/core_id":              "1",
		"cpu/cpu5/topology/thread_siblings_list": "1,5",
		"cpu/cpu5/topology/thread_siblings":      "00000022",
		"cpu/cpu5/topology/physical_package_id":  "0",
		"node/node0/cpu7/topology/core_id":       "3",
		"node/node0/cpulist":                     "0-7",
		"dmi/product_name":                       "m5.2xlarge",
		"dmi/board_asset_tag":                    "i-0123456789abcdef0",
		"sysctl/vm/overcommit_memory":            "1",
	} {
		if name == "node/node0/cpu7/topology/core_id" { // a link that leads there once both are mounted
			name = "cpu/cpu7/topology/core_id"
		}
		if got := strings.TrimSpace(read(name)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(read("dmi/product_uuid"), "ec2") || strings.Count(read("dmi/product_uuid"), "-") != 4 {
		t.Errorf("product_uuid is %q", read("dmi/product_uuid"))
	}
	if link, err := os.Readlink(filepath.Join(dir, "node/node0/cpu7")); err != nil || link != "../../cpu/cpu7" {
		t.Errorf("node0/cpu7 leads to %s, %v", link, err)
	}
}

func TestMemoryIsThatOfTheInstanceType(t *testing.T) {
	t.Parallel()
	h := Hardware{MemoryKiB: MemTotal(8192)}
	got := h.meminfo(
		"MemTotal:       24684084 kB\nMemFree:        16839668 kB\nSwapTotal:       1000000 kB\nSwapFree:         " +
			"999999 kB\nAnonPages:        900000 kB\nHugePages_Total:      64\nHugepagesize:       2048 kB\n")
	want := "MemTotal:        7932313 kB\nMemFree:         6345850 kB\nSwapTotal:             0 kB\nSwapFree:        " +
		"      0 kB\nAnonPages:         79323 kB\nHugePages_Total:       0\nHugepagesize:       2048 kB\n"
	if got != want {
		t.Errorf("meminfo is\n%s\nwant\n%s", got, want)
	}
}

func TestMasksOfProcessors(t *testing.T) {
	t.Parallel()
	if got := formatCPUMask([]int{0, 33, 95}); got != "80000000,00000002,00000001" {
		t.Errorf("mask is %s", got)
	}
}
