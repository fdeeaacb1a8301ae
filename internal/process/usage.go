package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Memory returns the proportional set size of a process of the daemon in bytes, the memory that its end would free. It
// is 0 where the kernel does not tell, as for a process that has just ended. It is not for processes of machines, which
// can keep whoever reads this waiting.
func Memory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		var kib int64
		if _, err := fmt.Sscanf(string(line), "Pss: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}

// tick is the unit of times in /proc, of which Linux has 100 in a second on all architectures (USER_HZ).
const tick = 10 * time.Millisecond

// CPUTime returns how long a process has kept CPUs busy, of which each counts; false where the kernel does not tell.
func CPUTime(pid int) (time.Duration, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	return parseCPUTime(text)
}

// parseCPUTime reads proc_pid_stat(5): utime and stime are the 14th and 15th fields. The name before, in parentheses,
// may have any bytes in it.
func parseCPUTime(stat []byte) (time.Duration, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tick, err1 == nil && err2 == nil
}
