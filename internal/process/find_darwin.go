package process

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func listPIDs() []int {
	processes, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Geteuid())
	if err != nil {
		return nil
	}
	all := make([]int, len(processes))
	for i, p := range processes {
		all[i] = int(p.Proc.P_pid)
	}
	return all
}

// zombie is the state of a process that has ended and was not reaped: SZOMB of sys/proc.h.
const zombie = 5

// view is the process table as this program sees it.
type view struct{}

func openView() (view, error) { return view{}, nil }

// inspect reads the marks of a process; ok is false if it has none, is gone, or is not to be trusted with any: its
// real, effective and saved user have to be this one. What inspect returns is about one process only as long as that
// lives; see adoptProcess.
func (view) inspect(pid int) (f Found, ok bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid || info.Proc.P_stat == zombie {
		return Found{}, false
	}
	uid := uint32(os.Geteuid())
	if info.Eproc.Ucred.Uid != uid || info.Eproc.Pcred.P_ruid != uid || info.Eproc.Pcred.P_svuid != uid {
		return Found{}, false
	}
	arguments, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return Found{}, false
	}
	f.PID = pid
	if !f.readMarks(environ(arguments)) {
		return Found{}, false
	}
	if f.session, err = unix.Getsid(pid); err != nil {
		return Found{}, false
	}
	f.Leader = f.session == pid
	f.start = startOf(info)
	f.Started = time.UnixMicro(int64(f.start))
	return f, true
}

// startOf returns when a process started, in microseconds since 1970.
func startOf(info *unix.KinfoProc) uint64 {
	start := info.Proc.P_starttime
	return uint64(start.Sec)*1e6 + uint64(start.Usec)
}
