//go:build linux

package cgroup

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPUTime returns how long the group has kept CPUs busy since it was made, of which each counts.
func (g Group) CPUTime() (time.Duration, error) {
	if g.Host.V2() {
		text, err := readFile(filepath.Dir(g.Dir("cpu")), "cpu.stat")
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, "usage_usec "); ok {
				return parseCPU(strings.TrimSpace(value), time.Microsecond)
			}
		}
		return 0, fmt.Errorf("%s has no usage_usec", filepath.Join(filepath.Dir(g.Dir("cpu")), "cpu.stat"))
	}
	text, err := readFile(filepath.Dir(g.Dir("cpuacct")), "cpuacct.usage")
	if err != nil {
		return 0, err
	}
	return parseCPU(text, time.Nanosecond)
}

func parseCPU(text string, unit time.Duration) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(n) * unit, err
}
