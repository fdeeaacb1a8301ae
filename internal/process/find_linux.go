package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func listPIDs() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// namespaces are the user and the PID namespace of a process, as "user:[4026531837]".
type namespaces struct{ user, pid string }

func namespacesOf(process string) (n namespaces, err error) {
	if n.user, err = os.Readlink("/proc/" + process + "/ns/user"); err != nil {
		return n, err
	}
	n.pid, err = os.Readlink("/proc/" + process + "/ns/pid")
	return n, err
}

// view is the process table as this program sees it.
type view struct{ home namespaces }

func openView() (view, error) {
	home, err := namespacesOf("self")
	if err != nil {
		return view{}, fmt.Errorf("processes are found through /proc: %w", err)
	}
	return view{home}, nil
}

// inspect reads the marks of a process; ok is false if it has none, is gone, or is not to be trusted with any: it has
// to run as this user and in the namespaces of this program. That comes first: reading the environment of a process is
// reading its memory, which it can make large or slow. What inspect returns is about one process only as long as that
// lives; see adoptProcess.
func (v view) inspect(pid int) (f Found, ok bool) {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return Found{}, false
	}
	if at, err := namespacesOf(strconv.Itoa(pid)); err != nil || at != v.home {
		return Found{}, false
	}
	// The directory belongs to the effective user, who is root in a set-user-ID program that somebody else has
	// started, with an environment of his.
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !isRunByUser(string(status), os.Geteuid()) {
		return Found{}, false
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || !bytes.Contains(environ, []byte(mark)) {
		return Found{}, false
	}
	f.PID = pid
	if !f.readMarks(strings.SplitSeq(string(environ), "\x00")) {
		return Found{}, false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Found{}, false
	}
	// The second field is the command in parentheses and may hold anything.
	close := bytes.LastIndexByte(stat, ')')
	if close < 0 {
		return Found{}, false
	}
	fields := strings.Fields(string(stat[close+1:])) // from field 3 of proc(5) on
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return Found{}, false
	}
	f.session, _ = strconv.Atoi(fields[3])
	f.start, _ = strconv.ParseUint(fields[19], 10, 64)
	f.Leader = f.session == pid
	f.Started = bootTime().Add(time.Duration(f.start) * (time.Second / ticksPerSecond))
	return f, true
}

// isRunByUser reports whether the real, effective, saved and file system users of a proc_pid_status(5) are all uid.
func isRunByUser(status string, uid int) bool {
	for line := range strings.Lines(status) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			all := strings.Fields(ids)
			return len(all) == 4 && !slices.ContainsFunc(all, func(id string) bool { return id != strconv.Itoa(uid) })
		}
	}
	return false
}

// ticksPerSecond is USER_HZ, 100 on every architecture that Go runs on.
const ticksPerSecond = 100

func bootTime() time.Time {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Now()
	}
	return time.Now().Add(-time.Duration(up.Nano()))
}
