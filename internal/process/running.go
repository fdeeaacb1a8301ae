package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The marks that every process carries in its environment.
const (
	mark     = "CORACLE_PROCESS="
	specMark = "CORACLE_PROCESS_SPEC="
)

var errGone = errors.New("the process is gone")

// running is a process that runs, or ran until a moment ago: our child, or one that we adopted.
type running struct {
	pid     int
	hash    string
	started time.Time
	pidfd   *os.File    // refers to this very process even after its number is used again
	ours    *os.Process // nil when adopted: then init reaps it
	ending  atomic.Bool
	gone    chan struct{} // closed once its death is accounted for
}

// launch forks and executes. The marks are in place from the child's first instruction.
func launch(owner string, spec Spec) (*running, error) {
	log := os.DevNull
	if spec.Log != "" {
		if err := os.MkdirAll(filepath.Dir(spec.Log), 0o700); err != nil {
			return nil, err
		}
		log = spec.Log
	}
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	in, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	hash := spec.Hash()
	fd := -1
	p, err := os.StartProcess(spec.Path, append([]string{spec.Path}, spec.Args...), &os.ProcAttr{
		Dir:   spec.Dir,
		Env:   append(append([]string{}, spec.Env...), mark+owner+"/"+spec.Name, specMark+hash),
		Files: []*os.File{in, out, out}, // nothing else is inherited: Go opens everything close-on-exec
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &fd},
	})
	if err != nil {
		return nil, err
	}
	if fd < 0 {
		err := errors.New("the kernel gave no pidfd for the child: Linux 5.10 or newer is needed")
		return nil, errors.Join(err, p.Kill())
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return &running{
		pid: p.Pid, hash: hash, started: time.Now(), ours: p,
		pidfd: os.NewFile(uintptr(fd), "pidfd"), gone: make(chan struct{}),
	}, nil
}

// adopt takes hold of a process that Find saw, or says errGone.
func adopt(f Found) (*running, error) {
	fd, err := unix.PidfdOpen(f.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("adopt process %d (%s): pidfd_open: %w", f.PID, f.Name, err)
	}
	r := &running{pid: f.PID, hash: f.Hash, started: f.Started, pidfd: os.NewFile(uintptr(fd), "pidfd"), gone: make(chan struct{})}
	// The number may have passed to another process since: look once more, now that it cannot.
	again, ok := look(f.PID)
	if !ok || again.start != f.start || again.Name != f.Name {
		r.release()
		return nil, errGone
	}
	return r, nil
}

// wait returns how the process ended, once it has. It fails when the process was released.
func (r *running) wait() (string, error) {
	raw, err := r.pidfd.SyscallConn()
	if err != nil {
		return "", err
	}
	// A pidfd becomes readable when its process exits. The runtime's poller waits for that, so
	// that a thousand processes do not take a thousand threads.
	err = raw.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		return err == nil && n > 0
	})
	if err != nil {
		return "", err
	}
	if r.ours == nil {
		r.killGroup()
		r.release()
		return "exited (adopted, so its status is unknown)", nil
	}
	// Until it is reaped its number, and so its group's, cannot be another's.
	if err := syscall.Kill(-r.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) {
		return "", fmt.Errorf("kill the rest of process group %d: %w", r.pid, err)
	}
	state, err := r.ours.Wait()
	r.release()
	if err != nil {
		return "exit status unknown: " + err.Error(), nil
	}
	return state.String(), nil
}

// killGroup ends what an adopted process left behind in its session.
func (r *running) killGroup() {
	for _, pid := range pids() {
		f, ok := look(pid)
		if !ok || f.session != r.pid || f.Hash != r.hash {
			continue
		}
		if rest, err := adopt(f); err == nil {
			_ = rest.send(syscall.SIGKILL) // already gone is as good
			rest.release()
		}
	}
}

// signal sends to the whole process group.
func (r *running) signal(sig syscall.Signal) error {
	err := r.send(0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	if err != nil {
		return err
	}
	// It leads its session, so the group bears its number.
	if err := syscall.Kill(-r.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// send sends to the very process.
func (r *running) send(sig syscall.Signal) error {
	raw, err := r.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	return sent
}

func (r *running) release() { _ = r.pidfd.Close() } // closing twice is harmless

func setOOMScoreAdj(pid, score int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(score)), 0)
}

// Found is a process that bears an owner's mark.
type Found struct {
	PID     int
	Name    string
	Hash    string
	Started time.Time
	// Leader is set for the process that was started; others are descendants of one.
	Leader bool

	owner   string
	start   uint64 // in clock ticks since boot
	session int
}

// Find is every process on this machine that bears owner's mark, leaders and descendants.
func Find(owner string) ([]Found, error) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		return nil, fmt.Errorf("processes are found through /proc: %w", err)
	}
	var found []Found
	for _, pid := range pids() {
		if f, ok := look(pid); ok && f.owner == owner {
			found = append(found, f)
		}
	}
	return found, nil
}

// Kill ends every process that bears owner's mark, at once. It is for "coracle reset", when no
// supervisor of the owner runs any more.
func Kill(owner string) (killed int, err error) {
	for range 100 {
		found, err := Find(owner)
		if err != nil || len(found) == 0 {
			return killed, err
		}
		for _, f := range found {
			r, err := adopt(f)
			if errors.Is(err, errGone) {
				continue
			}
			if err != nil {
				return killed, err
			}
			if err := r.send(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return killed, fmt.Errorf("kill process %d (%s): %w", f.PID, f.Name, err)
			}
			if _, err := r.wait(); err != nil {
				return killed, err
			}
			killed++
		}
	}
	return killed, fmt.Errorf("processes of %s keep appearing: is a daemon still running?", owner)
}

func pids() []int {
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

// look is what /proc says of a marked process; false when it is none, or gone, or another user's.
func look(pid int) (Found, bool) {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || !bytes.Contains(environ, []byte(mark)) {
		return Found{}, false
	}
	f := Found{PID: pid}
	for v := range strings.SplitSeq(string(environ), "\x00") {
		if m, ok := strings.CutPrefix(v, mark); ok {
			f.owner, f.Name, _ = strings.Cut(m, "/")
		} else if h, ok := strings.CutPrefix(v, specMark); ok {
			f.Hash = h
		}
	}
	if f.owner == "" || f.Name == "" {
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

// ticksPerSecond is USER_HZ, 100 on every architecture that Go runs on.
const ticksPerSecond = 100

func bootTime() time.Time {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Now()
	}
	return time.Now().Add(-time.Duration(up.Nano()))
}
