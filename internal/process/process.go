// Package process runs programs that outlive the daemon which started them.
//
// The process table of the kernel is the only record. Every program is started in a session of its own with three
// variables in its environment, so that no instant exists at which a process runs that is not written down: a daemon
// killed right after the fork finds its child by [Find], and so does "coracle reset". A state file would only be a
// second truth that can be stale.
//
//	CORACLE_PROCESS=<owner>/<name>    whose process it is, and which
//	CORACLE_PROCESS_SPEC=<hash>       of its specification
//	CORACLE_PROCESS_PROOF=<HMAC>      of the two, with the key of the data directory
//
// Everybody can put the first two into the environment of a process of his own. A process is believed to be the
// daemon's only if
//
//   - its real, effective, saved and file system user are that of the daemon,
//   - its user and PID namespace are those of the daemon: whoever is root in a container is nobody here,
//   - its proof verifies: a set-user-ID program runs as root with an environment that a user chose, and
//   - it leads its session, and is the only one of its name that does all of this; see [AmbiguousError].
//
// The proof can be copied by whoever can read the environment of the process, which is root and the daemon's own user,
// who need no proof to do harm. It does not get into machines: the launcher of a machine starts its init with a clean
// environment, in namespaces of its own.
//
// A process that meets all but the proof was started by a version of coracle that knew none, or before the key
// was lost, or is an impostor. It is never adopted. Ensure and Stop end it where no other has its name, so that
// such a process of ours cannot hold on to ports and files; who gets his own program killed by that had marked it.
//
// The life of a process: [Supervisor.Ensure] starts it, or adopts the one that runs already
// with the same specification, or replaces the one that runs with another. When it dies it is
// started again after a pause that doubles with each death and is forgotten once it ran for a
// while. [Supervisor.Stop] ends it: SIGTERM, then SIGKILL after its grace time, to its whole
// process group. [Supervisor.Close] lets go of all of them and leaves them running.
//
// On Linux processes are found through /proc and held by pidfds, on macOS by sysctl(3) and kqueue(2). macOS has no
// namespaces, and bounds the memory of no other process.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/crash"
)

var (
	crashBeforeFork = crash.At("process/before-fork")
	crashAfterFork  = crash.At("process/after-fork")
	crashStopping   = crash.At("process/stopping")
)

// Status is the status of a process.
type Status struct {
	Name    string
	Running bool
	PID     int       // of the running process
	Started time.Time // of the running process
	Hash    string    // of the specification that runs, or is to run

	// Deaths counts those in a row that came too early to forget. LastExit says how the last
	// one was: "exit status 1", "signal: killed". Next is when it is tried again.
	Deaths   int
	LastExit string
	Next     time.Time

	// Problem explains why the process is neither used nor ended, although some run under its name: see
	// AmbiguousError. PID is 0 then.
	Problem string
}

// Event reports that a process started (or was adopted) or died.
type Event struct {
	Name   string
	Died   bool
	Status Status
}

// Options adjust a Supervisor.
type Options struct {
	// Identity marks whom the processes belong to, one for each data directory.
	Identity
	Log   *slog.Logger
	Clock clock.WithTicker
	// Events is called with each event, in order for each process. It must not block.
	Events func(Event)
	// MinBackoff and MaxBackoff bound the pause before a restart: 100 ms and 30 s when 0.
	MinBackoff, MaxBackoff time.Duration
	// Healthy is the time that a process must run for its earlier deaths to be forgotten; 20 s when 0.
	Healthy time.Duration
}

// Supervisor keeps processes running. It is safe for concurrent use.
type Supervisor struct {
	o      Options
	closed chan struct{}
	tasks  sync.WaitGroup

	mu       sync.Mutex
	children map[string]*child
}

// Open finds the processes that an earlier supervisor of the same owner left behind. They run
// on untouched until Ensure claims or Stop ends them.
func Open(o Options) (*Supervisor, error) {
	if o.Owner == "" || strings.Contains(o.Owner, "/") {
		return nil, fmt.Errorf("process: bad owner %q", o.Owner)
	}
	if len(o.Key) == 0 {
		return nil, errors.New("process: no key")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	if o.MinBackoff == 0 {
		o.MinBackoff = 100 * time.Millisecond
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = 30 * time.Second
	}
	if o.Healthy == 0 {
		o.Healthy = 20 * time.Second
	}
	s := &Supervisor{o: o, closed: make(chan struct{}), children: map[string]*child{}}
	if err := s.findStrays(); err != nil {
		return nil, err
	}
	s.tasks.Go(s.trimLogs)
	return s, nil
}

// findStrays makes strays of the processes that run.
func (s *Supervisor) findStrays() error {
	claims, err := Claims(s.o.Owner)
	if err != nil {
		return err
	}
	for _, f := range claims {
		if !f.Leader {
			continue
		}
		r, err := adoptProcess(f)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return err
		}
		r.verified = s.o.verifies(f)
		c := s.ensureChild(f.Name)
		c.strays = append(c.strays, r)
	}
	for _, c := range s.children {
		isVerified := func(r *running) bool { return r.verified }
		if slices.ContainsFunc(c.strays, isVerified) {
			c.strays = slices.DeleteFunc(c.strays, func(r *running) bool {
				if !r.verified {
					s.o.Log.Warn(
						"a process claims to be one of ours, which runs, and cannot prove it; leaving it alone",
						"process", c.name, "pid", r.pid)
					r.release()
				}
				return !r.verified
			})
		}
		c.hash = c.strays[0].hash
		if err := c.ambiguous(); err != nil {
			s.o.Log.Error("a process is neither used nor ended", "process", c.name, "error", err)
		}
	}
	return nil
}

func (s *Supervisor) ensureChild(name string) *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.children[name]
	if c == nil {
		c = &child{s: s, name: name}
		s.children[name] = c
	}
	return c
}

// Ensure makes the process run as spec says and go on running, and returns once it has been
// started. A process that died and waits for its next attempt is left to it. ctx bounds the wait for the
// end of a process that must make way.
func (s *Supervisor) Ensure(ctx context.Context, spec Spec) (Status, error) {
	c := s.ensureChild(spec.Name)
	c.mu.Lock()
	for c.removed {
		c.mu.Unlock()
		c = s.ensureChild(spec.Name)
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	hash := spec.Hash()
	if err := c.claimStray(ctx, hash); err != nil {
		return c.currentStatus(), err
	}
	same := c.wanted && c.spec.Hash() == hash
	c.wanted, c.spec = true, spec
	if r := c.current(); r != nil {
		if r.hash == hash {
			return c.currentStatus(), c.applyLimits(r)
		}
		if err := c.stopProcess(ctx, r); err != nil {
			return c.currentStatus(), err
		}
	} else if same && c.waiting() {
		return c.currentStatus(), nil
	}
	c.view.Lock()
	c.deaths, c.lastExit = 0, ""
	c.view.Unlock()
	err := c.forkProcess()
	return c.currentStatus(), err
}

// Stop ends the process for good and returns once it is gone.
func (s *Supervisor) Stop(ctx context.Context, name string) error {
	s.mu.Lock()
	c := s.children[name]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ambiguous(); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	c.wanted = false
	c.view.Lock()
	if c.retry != nil {
		c.retry.Stop()
		c.retry = nil
	}
	c.next = time.Time{}
	c.view.Unlock()
	for len(c.strays) > 0 {
		if err := c.stopProcess(ctx, c.strays[0]); err != nil {
			return err
		}
		c.popStray()
	}
	if r := c.current(); r != nil {
		if err := c.stopProcess(ctx, r); err != nil {
			return err
		}
	}
	c.removed = true
	s.mu.Lock()
	if s.children[name] == c {
		delete(s.children, name)
	}
	s.mu.Unlock()
	return nil
}

// List returns the status of every process whose name begins with prefix, sorted by name. It includes those that are
// not claimed yet.
func (s *Supervisor) List(prefix string) []Status {
	s.mu.Lock()
	children := slices.Collect(maps.Values(s.children))
	s.mu.Unlock()
	var all []Status
	for _, c := range children {
		if strings.HasPrefix(c.name, prefix) {
			all = append(all, c.currentStatus())
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Close stops supervising; the processes run on.
func (s *Supervisor) Close() {
	s.mu.Lock()
	select {
	case <-s.closed:
		s.mu.Unlock()
		return
	default:
	}
	close(s.closed)
	children := slices.Collect(maps.Values(s.children))
	s.mu.Unlock()
	for _, c := range children {
		c.mu.Lock()
		c.wanted = false
		c.view.Lock()
		if c.retry != nil {
			c.retry.Stop()
		}
		if c.run != nil {
			c.run.release()
		}
		c.view.Unlock()
		for _, r := range c.strays {
			r.release()
		}
		c.mu.Unlock()
	}
	s.tasks.Wait()
}

func (s *Supervisor) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}
