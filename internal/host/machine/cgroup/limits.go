//go:build linux

package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Limits are the size of a machine.
type Limits struct {
	CPUs        int   // virtual CPUs
	MemoryBytes int64 // of memory; there is no swap
	// MilliCPUs is the time that it has of its CPUs, in thousandths of one; 0: all of it.
	MilliCPUs int64 `json:",omitempty"`
}

// milliCPUs returns the time that the machine has, in thousandths of a CPU.
func (l Limits) milliCPUs() int64 { return cmp.Or(l.MilliCPUs, 1000*int64(l.CPUs)) }

// processes returns the maximum number of processes, threads included: as many as Linux allows on a host with so much
// memory, where their stacks may take an eighth of it (kernel.threads-max), and no more than a quarter of those of this
// host.
func (l Limits) processes(host int64) int64 {
	const stack = 16 << 10
	return min(max(l.MemoryBytes/8/stack, 1024), host/4)
}

// hostProcesses returns the maximum number of processes, threads included, of this host.
func hostProcesses() (int64, error) {
	least := int64(math.MaxInt64)
	for _, file := range []string{"pid_max", "threads-max"} {
		text, err := readFile("/proc/sys/kernel", file)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/sys/kernel/%s: %w", file, err)
		}
		least = min(least, n)
	}
	return least, nil
}

// limitProcesses bounds the processes of the machine, and those of all machines together: a quarter of what the host
// can have is left to it.
func (g Group) limitProcesses(l Limits) error {
	host, err := hostProcesses()
	if err != nil {
		return err
	}
	for _, dir := range g.limited("pids") {
		if err := writeFile(dir, "pids.max", strconv.FormatInt(l.processes(host), 10)); err != nil {
			return err
		}
	}
	if dir := g.Dir("pids"); dir != "" {
		all := strings.TrimSuffix(dir, filepath.Join("/", strings.TrimPrefix(g.Path, top), inner))
		return writeFile(all, "pids.max", strconv.FormatInt(host/4*3, 10))
	}
	return nil
}

// Bounds of the groups that a machine can make, where the kernel has any: as many as a node with 250 pods of 10
// containers needs, twice.
const (
	mostGroups    = 6000
	deepestGroups = 64
)

// limitGroups bounds the groups that the machine can make: version 1 has no such limit.
func (g Group) limitGroups() error {
	for _, h := range g.Host {
		if !h.V2 {
			continue
		}
		for file, limit := range map[string]int{"cgroup.max.descendants": mostGroups,
			"cgroup.max.depth": deepestGroups} {
			if err := writeFile(g.groupDir(h), file, strconv.Itoa(limit)); err != nil &&
				!errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// limitHugePages keeps the machine from huge pages that the operator has reserved: they are beside the memory of its
// instance type.
func (g Group) limitHugePages() error {
	for _, dir := range g.limited("hugetlb") {
		for _, pattern := range []string{"hugetlb.*.max", "hugetlb.*.limit_in_bytes"} {
			files, err := filepath.Glob(filepath.Join(dir, pattern)) // for each size, what is used and what is reserved
			if err != nil {
				return err
			}
			for _, file := range files {
				if err := writeFile(dir, filepath.Base(file), "0"); err != nil {
					return fmt.Errorf("keep the machine from huge pages: %w", err)
				}
			}
		}
	}
	return nil
}

// limitV1 bounds CPU time by the number of CPUs that may be used rather than by a quota: version 1 refuses a quota
// above that of any group around it, so that a container whose limit is more than the machine has, which Kubernetes
// allows, could not start. A machine of a part of a CPU gets no more than that part where others want the CPU, too.
func (g Group) limitV1(l Limits) error {
	for _, dir := range g.limited("cpuset") {
		all, err := readFile(dir, "cpuset.cpus")
		if err != nil {
			return err
		}
		cpus, err := parseCPUs(all)
		if err != nil {
			return err
		}
		if l.CPUs < len(cpus) {
			if err := writeFile(dir, "cpuset.cpus", formatCPUs(pickCPUs(cpus, l.CPUs, g.Path))); err != nil {
				return err
			}
		}
	}
	for _, dir := range g.limited("cpu") {
		if err := writeFile(dir, "cpu.shares", strconv.FormatInt(max(2, 1024*l.milliCPUs()/1000), 10)); err != nil {
			return err
		}
	}
	bytes := strconv.FormatInt(l.MemoryBytes, 10)
	for _, dir := range g.limited("memory") {
		if err := writeFile(dir, "memory.limit_in_bytes", bytes); err != nil {
			return err
		}
		// Where swap is accounted for, it is not to be used.
		if err := writeFile(dir, "memory.memsw.limit_in_bytes", bytes); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// Of all sockets, not of TCP alone; but only of processes in the group itself, see ChargesSockets.
		if err := writeFile(dir, "memory.kmem.tcp.limit_in_bytes", strconv.FormatInt(l.MemoryBytes/2, 10)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return nil
}

func (g Group) limitV2(l Limits) error {
	for _, dir := range g.limited("memory") {
		for _, w := range [][2]string{
			{"cpu.max", fmt.Sprintf("%d 100000", 100*l.milliCPUs())},
			{"cpu.weight", strconv.FormatInt(min(max(l.milliCPUs()/10, 1), 10000), 10)},
			{"memory.max", strconv.FormatInt(l.MemoryBytes, 10)},
		} {
			if err := writeFile(dir, w[0], w[1]); err != nil {
				return err
			}
		}
		if err := writeFile(dir, "memory.swap.max", "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// pickCPUs chooses n of the CPUs, which ones depends on the seed, so that machines spread.
func pickCPUs(cpus []int, n int, seed string) []int {
	start := 0
	for _, b := range []byte(seed) {
		start = (start*31 + int(b)) % len(cpus)
	}
	chosen := make([]int, n)
	for i := range chosen {
		chosen[i] = cpus[(start+i)%len(cpus)]
	}
	slices.Sort(chosen)
	return chosen
}

// parseCPUs reads a list as cpuset(7) has it: "0-3,8".
func parseCPUs(list string) (cpus []int, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("list of CPUs %q: %w", list, err)
		}
		for ; a <= b; a++ {
			cpus = append(cpus, a)
		}
	}
	return cpus, nil
}

func formatCPUs(cpus []int) string {
	words := make([]string, len(cpus))
	for i, c := range cpus {
		words[i] = strconv.Itoa(c)
	}
	return strings.Join(words, ",")
}
