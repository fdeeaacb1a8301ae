//go:build linux

package launch

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Hardware is the hardware that a machine sees. The kernel shows every process the host's processors and memory,
// whatever the limits of its cgroup; the kubelet reports as a node's capacity what it reads from these files (cAdvisor,
// machine.Info). They are mounted over those of the kernel.
type Hardware struct {
	InstanceID   string
	InstanceType string // "m5.large"
	CPUs         int
	// ThreadsPerCore divides CPUs into cores.
	ThreadsPerCore int
	ClockMHz       float64
	// MemoryKiB is MemTotal, the part of the instance type's memory that its kernel leaves; see MemTotal.
	MemoryKiB int64
	MachineID string // /etc/machine-id, 32 hex digits
	// Reference is the root directory of the model for the machine's /proc and /sys directories; "/" except in tests.
	Reference string `json:",omitempty"`
}

// MemTotal returns the memory that Linux reports on an instance of the given size, in KiB: firmware and kernel keep a
// part. On an m5.large (8192 MiB) with Amazon Linux it is about 7.57 GiB.
func MemTotal(memoryMiB int) int64 {
	return int64(memoryMiB)*1024*95/100 - 36*1024
}

// MachineID identifies an instance as EC2's images do, by 32 hex digits that begin with ec2.
func MachineID(instanceID string) string {
	sum := sha256.Sum256([]byte(instanceID))
	return "ec2" + hex.EncodeToString(sum[:])[:29]
}

// productUUID returns the machine ID in the form of the firmware's product UUID.
func (h Hardware) productUUID() string {
	id := h.MachineID
	if len(id) != 32 {
		return id
	}
	return strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
}

// sysctls are settings of the whole kernel that a kubelet wants and EKS images have. A machine sees them as wanted and
// changes its own copy: the host's stay as they are.
var sysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// The parts of the hardware directory, and what they are mounted on.
var parts = map[string]string{
	"meminfo":    "proc/meminfo",
	"cpuinfo":    "proc/cpuinfo",
	"swaps":      "proc/swaps",
	"boot_id":    "proc/sys/kernel/random/boot_id",
	"cpu":        "sys/devices/system/cpu",
	"node":       "sys/devices/system/node",
	"dmi":        "sys/devices/virtual/dmi/id",
	"machine-id": "etc/machine-id",
	"sysctl":     "", // each of sysctls on its own
}

// writeFiles writes all parts into dir, for a boot.
func (h Hardware) writeFiles(dir string) error {
	reference := h.Reference
	if reference == "" {
		reference = "/"
	}
	cpuinfo, err := os.ReadFile(filepath.Join(reference, "proc/cpuinfo"))
	if err != nil {
		return err
	}
	meminfo, err := os.ReadFile(filepath.Join(reference, "proc/meminfo"))
	if err != nil {
		return err
	}
	files := map[string]string{
		"meminfo":    h.meminfo(string(meminfo)),
		"cpuinfo":    h.cpuinfo(string(cpuinfo)),
		"swaps":      "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
		"boot_id":    randomBootID() + "\n",
		"machine-id": h.MachineID + "\n",
	}
	for name, value := range sysctls {
		files["sysctl/"+name] = value + "\n"
	}
	maps.Copy(files, h.topology())
	maps.Copy(files, h.dmiFiles())
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	for cpu := range h.CPUs { // as /sys/devices/system/node/node0/cpuN points
		if err := os.Symlink(fmt.Sprintf("../../cpu/cpu%d", cpu),
			filepath.Join(dir, fmt.Sprintf("node/node0/cpu%d", cpu))); err != nil {
			return err
		}
	}
	return nil
}

// showHardware mounts what write has written in dir over what the kernel shows. The files are in memory and the
// machine's own: what it changes of them nobody else sees. What its kernel does not have stays missing.
func showHardware(dir *os.File) error {
	show := func(part, target string, readOnly bool) error {
		tree, err := openTree(int(dir.Fd()), part)
		if err != nil {
			return err
		}
		return attachment{tree: tree, target: target, optional: part != "machine-id", readOnly: readOnly}.attach(0)
	}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		if parts[part] == "" {
			continue
		}
		if err := show(part, "/"+parts[part], true); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sysctls)) {
		if err := show("sysctl/"+name, "/proc/sys/"+name, false); err != nil {
			return err
		}
	}
	return nil
}

var meminfoLine = regexp.MustCompile(`(?m)^(\w[\w()]*):( +)(\d+)( kB)?$`)

// meminfo returns the host's /proc/meminfo with the machine's memory. It does not show how much of the host's memory is
// in use.
func (h Hardware) meminfo(host string) string {
	total := h.MemoryKiB
	values := map[string]int64{
		"MemTotal": total, "MemFree": total * 80 / 100, "MemAvailable": total * 90 / 100, "Cached": total * 10 / 100,
		"CommitLimit": total / 2, "DirectMap1G": 0,
		"DirectMap2M": total / 2048 * 2048, "DirectMap4k": total % 2048, "Active": total * 5 / 100,
		"Inactive":     total * 5 / 100,
		"Active(file)": total * 5 / 100, "Inactive(file)": total * 5 / 100,
	}
	return meminfoLine.ReplaceAllStringFunc(host, func(line string) string {
		m := meminfoLine.FindStringSubmatch(line)
		value, ok := values[m[1]]
		if !ok {
			switch {
			case strings.HasPrefix(m[1], "Huge") && m[4] == "", strings.HasPrefix(m[1], "Swap"), m[1] == "Hugetlb",
				strings.HasPrefix(m[1], "Zswap"):
			case strings.HasPrefix(m[1], "Hugepagesize"), strings.HasPrefix(m[1], "Vmalloc"):
				return line
			default: // small, as after a boot
				n, _ := strconv.ParseInt(m[3], 10, 64)
				value = min(n, total/100)
			}
		}
		return fmt.Sprintf("%-16s%8d%s", m[1]+":", value, m[4])
	})
}

// cpuinfo returns /proc/cpuinfo with the first processor of the host repeated for each of the machine's processors.
func (h Hardware) cpuinfo(host string) string {
	first, _, _ := strings.Cut(host, "\n\n")
	cores := h.coreCount()
	var b strings.Builder
	for cpu := range h.CPUs {
		own := map[string]string{
			"processor": strconv.Itoa(cpu), "physical id": "0", "siblings": strconv.Itoa(h.CPUs),
			"core id": strconv.Itoa(cpu % cores), "cpu cores": strconv.Itoa(cores),
			"apicid": strconv.Itoa(cpu), "initial apicid": strconv.Itoa(cpu),
		}
		if h.ClockMHz > 0 {
			own["cpu MHz"] = fmt.Sprintf("%.3f", h.ClockMHz)
		}
		for line := range strings.SplitSeq(strings.TrimRight(first, "\n"), "\n") {
			name, _, found := strings.Cut(line, ":")
			if value, ok := own[strings.TrimSpace(name)]; found && ok {
				line = name + ": " + value
			}
			b.WriteString(line + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (h Hardware) coreCount() int { return max(1, h.CPUs/max(1, h.ThreadsPerCore)) }

// siblings returns the processors that share a core with cpu. As on EC2, the second threads of all cores follow the
// first.
func (h Hardware) siblings(cpu int) (all []int) {
	for other := cpu % h.coreCount(); other < h.CPUs; other += h.coreCount() {
		all = append(all, other)
	}
	return all
}

// topology returns the files of /sys/devices/system/cpu and node: one socket, one NUMA node.
func (h Hardware) topology() map[string]string {
	every := rangeOf(h.CPUs)
	smt := "0"
	if h.CPUs > h.coreCount() {
		smt = "1"
	}
	files := map[string]string{
		"cpu/online": every, "cpu/possible": every, "cpu/present": every, "cpu/offline": "", "cpu/isolated": "",
		"cpu/kernel_max": "8191", "cpu/smt/active": smt,
		"cpu/smt/control":     "notsupported",
		"node/online":         "0",
		"node/possible":       "0",
		"node/has_cpu":        "0",
		"node/has_memory":     "0",
		"node/node0/cpulist":  every,
		"node/node0/cpumap":   formatCPUMask(cpuRange(h.CPUs)),
		"node/node0/distance": "10",
		"node/node0/meminfo": fmt.Sprintf(
			"Node 0 MemTotal:       %8d kB\nNode 0 MemFree:        %8d kB\nNode 0 MemUsed:        %8d kB", h.MemoryKiB,
			h.MemoryKiB*80/100, h.MemoryKiB*20/100),
		"node/node0/hugepages/hugepages-2048kB/nr_hugepages":      "0",
		"node/node0/hugepages/hugepages-2048kB/free_hugepages":    "0",
		"node/node0/hugepages/hugepages-2048kB/surplus_hugepages": "0",
	}
	for cpu := range h.CPUs {
		at := fmt.Sprintf("cpu/cpu%d/", cpu)
		threads := h.siblings(cpu)
		for name, value := range map[string]string{
			"online":                        "1",
			"topology/core_id":              strconv.Itoa(cpu % h.coreCount()),
			"topology/physical_package_id":  "0",
			"topology/die_id":               "0",
			"topology/cluster_id":           strconv.Itoa(cpu % h.coreCount()),
			"topology/thread_siblings_list": formatCPUList(threads),
			"topology/thread_siblings":      formatCPUMask(threads),
			"topology/core_cpus_list":       formatCPUList(threads),
			"topology/core_cpus":            formatCPUMask(threads),
			"topology/core_siblings_list":   every,
			"topology/core_siblings":        formatCPUMask(cpuRange(h.CPUs)),
			"topology/package_cpus_list":    every,
			"topology/package_cpus":         formatCPUMask(cpuRange(h.CPUs)),
		} {
			files[at+name] = value
		}
	}
	for name, value := range files {
		files[name] = value + "\n"
	}
	return files
}

// dmiFiles returns the firmware information of a Nitro instance.
func (h Hardware) dmiFiles() map[string]string {
	files := map[string]string{}
	for name, value := range map[string]string{
		"sys_vendor": "Amazon EC2", "bios_vendor": "Amazon EC2", "board_vendor": "Amazon EC2",
		"chassis_vendor": "Amazon EC2", "bios_version": "1.0", "bios_date": "10/16/2017",
		"product_name": h.InstanceType, "product_uuid": h.productUUID(), "product_serial": h.productUUID(),
		"board_asset_tag": h.InstanceID, "chassis_asset_tag": "Amazon EC2", "chassis_type": "1",
		"product_version": "", "chassis_serial": "",
	} {
		files["dmi/"+name] = value + "\n"
	}
	return files
}

func rangeOf(n int) string {
	if n == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", n-1)
}

func cpuRange(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func formatCPUList(cpus []int) string {
	words := make([]string, len(cpus))
	for i, c := range cpus {
		words[i] = strconv.Itoa(c)
	}
	return strings.Join(words, ",")
}

// formatCPUMask formats a set of processors as the kernel does: groups of 32 bits in hexadecimal, the highest first.
func formatCPUMask(cpus []int) string {
	groups := make([]uint32, slices.Max(cpus)/32+1)
	for _, c := range cpus {
		groups[c/32] |= 1 << (c % 32)
	}
	words := make([]string, len(groups))
	for i, g := range groups {
		words[len(groups)-1-i] = fmt.Sprintf("%08x", g)
	}
	return strings.Join(words, ",")
}

// randomBootID returns a random UUID: it tells the kubelet that its node has booted.
func randomBootID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
