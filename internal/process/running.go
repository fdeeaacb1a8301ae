package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var errGone = errors.New("the process is gone")

// running is a process that runs, or ran until a moment ago: our child, or one that we adopted.
type running struct {
	pid   int
	hash  string
	proof string
	// verified is set for our children, and for those of an earlier supervisor whose mark is signed.
	verified bool
	started  time.Time
	pidfd    *os.File    // refers to this very process even after its number is used again
	ours     *os.Process // nil when adopted: then init reaps it
	ending   atomic.Bool
	gone     chan struct{} // closed once its death is accounted for
}

// openOutput opens the log of a process, or for none what discards its output.
func openOutput(log string) (*os.File, error) {
	if log == "" {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return nil, err
	}
	return openLog(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// launch forks and executes. The marks are in place from the child's first instruction.
func launch(id Identity, spec Spec) (*running, error) {
	out, err := openOutput(spec.Log)
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
	restore := inheritOOMScoreAdj(spec.OOMScoreAdj)
	p, err := os.StartProcess(spec.Path, append([]string{spec.Path}, spec.Args...), &os.ProcAttr{
		Dir:   spec.Dir,
		Env:   append(slices.Clone(spec.Env), mark+id.Owner+"/"+spec.Name, specMark+hash, proofMark+id.proof(spec.Name, hash)),
		Files: []*os.File{in, out, out}, // nothing else is inherited: Go opens everything close-on-exec
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &fd},
	})
	restore()
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
		pid: p.Pid, hash: hash, proof: id.proof(spec.Name, hash), verified: true, started: time.Now(), ours: p,
		pidfd: os.NewFile(uintptr(fd), "pidfd"), gone: make(chan struct{}),
	}, nil
}

// adopt returns a handle of a process that Find or Claims returned, or errGone.
//
// Between a look into /proc and pidfd_open(2) a number can pass to another process. So the process is inspected again
// when the descriptor is open, and has to be alive after that: then the number was its own all the while.
func adopt(f Found) (*running, error) {
	fd, err := unix.PidfdOpen(f.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("adopt process %d (%s): pidfd_open: %w", f.PID, f.Name, err)
	}
	r := &running{pid: f.PID, hash: f.Hash, proof: f.proof, started: f.Started, pidfd: os.NewFile(uintptr(fd), "pidfd"), gone: make(chan struct{})}
	home, err := namespacesOf("self")
	if err != nil {
		r.release()
		return nil, err
	}
	again, ok := inspect(f.PID, home)
	again.Started = f.Started // computed from the clock
	if !ok || again != f || !r.alive() {
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

// killGroup ends what an adopted process left behind in its session. The kernel says who is in it, and the mark
// that the number of the session has not passed to another.
func (r *running) killGroup() {
	claims, err := Claims("")
	if err != nil {
		return
	}
	for _, f := range claims {
		if f.session != r.pid || f.Hash != r.hash || f.proof != r.proof {
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

// alive reports whether the process has not ended.
func (r *running) alive() bool {
	raw, err := r.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	ended := true
	// A pidfd becomes readable when its process exits.
	err = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		ended = err == nil && n > 0
	})
	return err == nil && !ended
}

func (r *running) release() { _ = r.pidfd.Close() } // closing twice is harmless

func setOOMScoreAdj(pid, score int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(score)), 0)
}

// The OOM scores of what the clusters of all tenants need. No process of a tenant has less than the daemon.
const (
	EtcdOOMScoreAdj         = -900 // everything else can start again; with etcd the clusters stand still
	DaemonOOMScoreAdj       = -850
	EndpointOOMScoreAdj     = -800
	ControlPlaneOOMScoreAdj = -100
)

// ownScore guards the score of this process, which children inherit.
var ownScore struct {
	sync.Mutex
	adj int
}

// ProtectSelf sets the OOM score of this process, where the kernel lets it, which takes root for less than it has.
func ProtectSelf(score int) error {
	ownScore.Lock()
	defer ownScore.Unlock()
	if err := setOOMScoreAdj(os.Getpid(), score); err != nil {
		return fmt.Errorf("set the OOM score of this process: %w", err)
	}
	ownScore.adj = score
	return nil
}

// inheritOOMScoreAdj lets children that are started before restore is called inherit a score from their first instruction, so that no
// child of a tenant's process is ever protected like the daemon. A protected daemon is less so for that moment.
func inheritOOMScoreAdj(score int) (restore func()) {
	ownScore.Lock()
	if ownScore.adj >= score {
		return ownScore.Unlock
	}
	_ = setOOMScoreAdj(os.Getpid(), score) // it is set for the child, too, once that runs
	return func() {
		_ = setOOMScoreAdj(os.Getpid(), ownScore.adj) // permitted: this process had it before
		ownScore.Unlock()
	}
}
