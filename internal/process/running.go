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

// ErrStuck is the error of who ends a process that waits in the kernel for something else.
var ErrStuck = errors.New("did not end on SIGKILL within 10 s; it is stuck in the kernel")

// killPatience is the time that a killed process may take to end.
const killPatience = 10 * time.Second

// running is a process that runs, or ran until a moment ago: our child, or one that we adopted.
type running struct {
	handle
	pid   int
	hash  string
	proof string
	// verified is set for our children, and for those of an earlier supervisor whose mark is signed.
	verified bool
	started  time.Time
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

// launchProcess forks and executes. The marks are in place from the child's first instruction.
func launchProcess(id Identity, spec Spec) (*running, error) {
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
	restore := inheritOOMScoreAdj(spec.OOMScoreAdj)
	var p *os.Process
	var h handle
	err = startConfined(spec.ConnectPorts, func() (err error) {
		p, h, err = startProcess(spec.Path, append([]string{spec.Path}, spec.Args...), &os.ProcAttr{
			Dir: spec.Dir,
			Env: append(slices.Clone(spec.Env), mark+id.Owner+"/"+spec.Name, specMark+hash, proofMark+
				id.signMark(spec.Name, hash)),
			Files: []*os.File{in, out, out}, // nothing else is inherited: Go opens everything close-on-exec
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		return err
	})
	restore()
	if err != nil {
		return nil, err
	}
	return &running{
		handle: h, pid: p.Pid, hash: hash, proof: id.signMark(spec.Name, hash), verified: true, started: time.Now(),
		ours: p, gone: make(chan struct{}),
	}, nil
}

// adoptProcess returns a handle of a process that Find or Claims returned, or errGone.
//
// Between a look at the process table and the opening of a handle a number can pass to another process. So the process
// is inspected again when the handle is open, and has to be alive after that: then the number was its own all the
// while.
func adoptProcess(f Found) (*running, error) {
	h, err := openHandle(f.PID)
	if errors.Is(err, errGone) {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("adopt process %d (%s): %w", f.PID, f.Name, err)
	}
	r := &running{handle: h, pid: f.PID, hash: f.Hash, proof: f.proof, started: f.Started, gone: make(chan struct{})}
	view, err := openView()
	if err != nil {
		r.release()
		return nil, err
	}
	again, ok := view.inspect(f.PID)
	again.Started = f.Started // computed from the clock
	if !ok || again != f || !r.isAlive() {
		r.release()
		return nil, errGone
	}
	return r, nil
}

// wait returns how the process ended, once it has. It fails when the process was released.
func (r *running) wait() (string, error) {
	if err := r.awaitExit(); err != nil {
		return "", err
	}
	if r.ours == nil {
		r.killGroup()
		r.release()
		return "exited (adopted, so its status is unknown)", nil
	}
	// Until it is reaped its number, and so its group's, cannot be another's.
	if err := syscall.Kill(-r.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) &&
		!errors.Is(err, syscall.EPERM) {
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
		if rest, err := adoptProcess(f); err == nil {
			_ = rest.sendSignal(syscall.SIGKILL) // already gone is as good
			rest.release()
		}
	}
}

// signalGroup sends to the whole process group.
func (r *running) signalGroup(sig syscall.Signal) error {
	err := r.sendSignal(0)
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

// inheritOOMScoreAdj lets children that are started before restore is called inherit a score from their first
// instruction, so that no child of a tenant's process is ever protected like the daemon. A protected daemon is less so
// for that moment.
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
