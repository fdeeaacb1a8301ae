package resourceusage

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/datapoint"
	"github.com/coracle-eks/coracle/internal/diskspace"
)

// hostMemory returns the memory of the host in bytes, and how much of it new programs can have; false where the kernel
// does not tell.
func hostMemory() (total, available float64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, false
	}
	return parseMemory(text)
}

// parseMemory reads proc_meminfo(5).
func parseMemory(text []byte) (total, available float64, ok bool) {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		kib, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "MemTotal:":
			total = kib * 1024
		case "MemAvailable:":
			available = kib * 1024
		}
	}
	return total, available, total > 0 && available > 0
}

// hostCPU returns for how long the CPUs of the host were busy, for how long they were there, in the same unit, and how
// many there are; false where the kernel does not tell.
func hostCPU() (busy, all, cpus float64, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, 0, false
	}
	return parseCPU(text)
}

// parseCPU reads proc_stat(5): user, nice, system, idle, iowait, irq, softirq and steal. The time of guests is part of
// user and nice.
func parseCPU(text []byte) (busy, all, cpus float64, ok bool) {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		if fields[0] != "cpu" {
			cpus++
			continue
		}
		for i, field := range fields[1:9] {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return 0, 0, 0, false
			}
			all += n
			if i != 3 && i != 4 { // idle, iowait
				busy += n
			}
		}
	}
	return busy, all, cpus, cpus > 0 && all > 0
}

// addDirectories adds the disk of the data directory, and once after each measurement, what is in it.
func (p *pass) addDirectories() {
	if free, total, err := diskspace.Measure(p.c.o.Dir); err == nil {
		p.add(p.host(), own, "DiskTotal", bytesUnit, float64(total))
		p.add(p.host(), own, "DiskFree", bytesUnit, float64(free))
	}
	p.c.mu.Lock()
	directories, clusterDirs := p.c.directories, p.c.clusterDirs
	p.c.directories, p.c.clusterDirs = nil, nil
	p.c.mu.Unlock()
	if directories == nil {
		return
	}
	var all float64
	for name, bytes := range directories {
		all += float64(bytes)
		if name != "" {
			p.add(p.host(), own, "DiskUsed", bytesUnit, float64(bytes), datapoint.Dimension{Name: "Directory", Value: name})
		}
	}
	p.add(p.host(), own, "DiskUsed", bytesUnit, all)
	for id, bytes := range clusterDirs {
		if cluster, ok := p.clusters[id]; ok {
			p.add(owner{cluster.Account, cluster.Region}, own, "DiskUsed", bytesUnit, float64(bytes),
				datapoint.Dimension{Name: "ClusterName", Value: cluster.Name})
		}
	}
}
