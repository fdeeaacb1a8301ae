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
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/crash"
)

var (
	crashBeforeFork = crash.At("process/before-fork")
	crashAfterFork  = crash.At("process/after-fork")
	crashStopping   = crash.At("process/stopping")
)

// Spec says what is to run. Two specifications with the same Hash run the same.
type Spec struct {
	// Name identifies the process among those of its owner: "<cluster ID>/kube-apiserver".
	Name string
	Path string
	// Args are the arguments, without the program's name.
	Args []string
	// Env is the whole environment beside the two marks.
	Env []string
	Dir string
	// Revision stands for what the process reads only when it starts: another restarts it.
	Revision string

	// Log is the file that its output is appended to. Of what it holds the last LogLimit bytes
	// (20 MiB when 0) are kept; see Trim. Where it is negative, somebody else calls Trim.
	Log      string
	LogLimit int64
	// Grace is the time between SIGTERM and SIGKILL; 10 s when 0.
	Grace time.Duration
	// OOMScoreAdj is what the kernel adds to its badness when memory runs out, -1000 to 1000. That of the daemon is not
	// inherited.
	OOMScoreAdj int
	// MemoryLimit bounds its private memory in bytes (RLIMIT_DATA), no bound when 0: a Go program ends with "out of
	// memory" beyond it. It holds where the daemon may not write cgroups, too. Like the score, it does not count for
	// Hash.
	MemoryLimit uint64
}

// Hash identifies what the process runs; how it is logged and stopped does not count.
func (s Spec) Hash() string {
	b, err := json.Marshal([]any{s.Path, s.Args, s.Env, s.Dir, s.Revision})
	if err != nil {
		panic(err) // strings always marshal
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

func (s Spec) gracePeriod() time.Duration {
	if s.Grace == 0 {
		return 10 * time.Second
	}
	return s.Grace
}

func (s Spec) logLimit() int64 {
	if s.LogLimit == 0 {
		return 20 << 20
	}
	return s.LogLimit
}

// Status is how a process is.
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

	// Problem says why the process is neither used nor ended, although some run under its name: see
	// AmbiguousError. PID is 0 then.
	Problem string
}

// Event tells that a process started (or was adopted) or died.
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
	// Events is told what happens, in order for each process. It must not block.
	Events func(Event)
	// MinBackoff and MaxBackoff bound the pause before a restart: 100 ms and 30 s when 0.
	MinBackoff, MaxBackoff time.Duration
	// Healthy is how long a process must run for its earlier deaths to be forgotten; 20 s when 0.
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

// child is one name.
type child struct {
	s    *Supervisor
	name string

	mu      sync.Mutex // held while the child is started or stopped
	removed bool       // stopped and forgotten: look the name up again
	wanted  bool
	spec    Spec

	view     sync.Mutex // guards what follows, briefly
	strays   []*running // found at Open and not yet claimed; all of them verified, or none
	run      *running   // nil when dead
	hash     string
	deaths   int
	lastExit string
	next     time.Time
	retry    clock.Timer
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

// List is the status of every process, also of those that nobody has claimed yet, whose names
// begin with prefix, sorted by name.
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

func (c *child) current() *running {
	c.view.Lock()
	defer c.view.Unlock()
	return c.run
}

func (c *child) waiting() bool {
	c.view.Lock()
	defer c.view.Unlock()
	return c.retry != nil
}

func (c *child) currentStatus() Status {
	c.view.Lock()
	defer c.view.Unlock()
	st := Status{Name: c.name, Hash: c.hash, Deaths: c.deaths, LastExit: c.lastExit, Next: c.next}
	r := c.run
	if alive := c.aliveStrays(); r == nil && len(alive) > 0 {
		r = alive[0]
		if err := ambiguous(c.name, alive); err != nil {
			st.Running, st.Problem = true, err.Error()
			return st
		}
	}
	if r != nil {
		st.Running, st.PID, st.Started = true, r.pid, r.started
	}
	return st
}

// aliveStrays are the strays that have not ended. view is held.
func (c *child) aliveStrays() []*running {
	return slices.DeleteFunc(slices.Clone(c.strays), func(r *running) bool { return !r.isAlive() })
}

// ambiguous is an *AmbiguousError while several verified strays run.
func (c *child) ambiguous() error {
	c.view.Lock()
	defer c.view.Unlock()
	return ambiguous(c.name, c.aliveStrays())
}

func ambiguous(name string, strays []*running) error {
	if len(strays) < 2 || !strays[0].verified {
		return nil
	}
	e := &AmbiguousError{Name: name}
	for _, r := range strays {
		e.PIDs = append(e.PIDs, r.pid)
	}
	slices.Sort(e.PIDs)
	return e
}

// claimStray takes the stray that runs what is wanted for the child's own and ends all others.
func (c *child) claimStray(ctx context.Context, hash string) error {
	if err := c.ambiguous(); err != nil {
		return err
	}
	for len(c.strays) > 0 {
		r := c.strays[0]
		if r.verified && r.hash == hash && r.isAlive() {
			c.followProcess(r)
		} else {
			if !r.verified {
				c.s.o.Log.Warn(
					"ending a process that cannot prove to be ours: an earlier version of coracle has started it, or "+
						"the key was lost",
					"process", c.name, "pid", r.pid)
			}
			if err := c.stopProcess(ctx, r); err != nil {
				return err
			}
		}
		c.popStray()
	}
	return nil
}

func (c *child) popStray() {
	c.view.Lock()
	c.strays = c.strays[1:]
	c.view.Unlock()
}

// followProcess makes r the child's process and follows it.
func (c *child) followProcess(r *running) {
	c.view.Lock()
	c.run, c.hash = r, r.hash
	c.next = time.Time{}
	c.retry = nil
	c.view.Unlock()
	c.s.o.Events(Event{Name: c.name, Status: c.currentStatus()})
	c.s.tasks.Go(func() {
		exit, err := r.wait()
		if err != nil { // released
			return
		}
		c.recordExit(r, exit)
	})
}

// forkProcess forks. It is called with mu held and no process running.
func (c *child) forkProcess() error {
	if c.s.isClosed() {
		return errors.New("the supervisor is closed")
	}
	crashBeforeFork.Here()
	r, err := launchProcess(c.s.o.Identity, c.spec)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	crashAfterFork.Here()
	r.started = c.s.o.Clock.Now()
	err = c.applyLimits(r)
	c.followProcess(r)
	return err
}

// applyLimits sets what the kernel grants a process. It is done again for one that was adopted: the daemon that started
// it may have been killed before it did.
func (c *child) applyLimits(r *running) error {
	if err := setOOMScoreAdj(r.pid, c.spec.OOMScoreAdj); err != nil {
		c.s.o.Log.Debug("could not set the OOM score; going on with the inherited one", "process", c.name, "error", err)
	}
	if c.spec.MemoryLimit == 0 || !r.isAlive() {
		return nil
	}
	err := boundMemory(r.pid, c.spec.MemoryLimit)
	if errors.Is(err, errors.ErrUnsupported) {
		c.s.o.Log.Debug("this system does not bound the memory of a process", "process", c.name)
		return nil
	}
	// An adopted one that has a bound keeps it where the daemon may not raise it.
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("bound the memory of %s: %w", c.name, err)
	}
	return nil
}

// recordExit is called when r has exited, whoever made it.
func (c *child) recordExit(r *running, exit string) {
	c.view.Lock()
	if c.run != r {
		c.view.Unlock()
		return
	}
	ran := c.s.o.Clock.Since(r.started)
	c.run = nil
	c.lastExit = exit
	if ran >= c.s.o.Healthy {
		c.deaths = 0
	}
	c.deaths++
	if r.ending.Load() || c.s.isClosed() {
		c.view.Unlock()
		close(r.gone)
		return
	}
	pause := c.schedule()
	c.view.Unlock()
	close(r.gone)
	c.s.o.Log.Warn("process died; starting it again", "process", c.name, "pid", r.pid, "exit", exit, "ran",
		ran.Round(time.Millisecond), "in", pause)
	c.s.o.Events(Event{Name: c.name, Died: true, Status: c.currentStatus()})
}

// schedule promises the next attempt. view is held.
func (c *child) schedule() time.Duration {
	pause := min(c.s.o.MaxBackoff, c.s.o.MinBackoff<<min(c.deaths-1, 20))
	c.next = c.s.o.Clock.Now().Add(pause)
	retry := c.s.o.Clock.NewTimer(pause)
	c.retry = retry
	c.s.tasks.Go(func() {
		select {
		case <-retry.C():
			c.retryStart(retry)
		case <-c.s.closed:
		}
	})
	return pause
}

// retryStart is the attempt that died promised.
func (c *child) retryStart(promised clock.Timer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view.Lock()
	due := c.wanted && c.run == nil && c.retry == promised
	c.view.Unlock()
	if !due {
		return
	}
	if err := c.forkProcess(); err != nil {
		c.s.o.Log.Error("could not start a process again", "process", c.name, "error", err)
		c.view.Lock()
		c.deaths++
		c.lastExit = err.Error()
		c.schedule()
		c.view.Unlock()
		c.s.o.Events(Event{Name: c.name, Died: true, Status: c.currentStatus()})
	}
}

// stopProcess stops r and waits until it is gone. mu is held.
func (c *child) stopProcess(ctx context.Context, r *running) error {
	r.ending.Store(true)
	if c.current() != r { // a stray: nobody follows it yet
		c.s.tasks.Go(func() {
			if _, err := r.wait(); err == nil {
				close(r.gone)
			}
		})
	}
	if err := r.signalGroup(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	crashStopping.Here()
	grace := c.s.o.Clock.NewTimer(c.spec.gracePeriod())
	defer grace.Stop()
	select {
	case <-r.gone:
		return nil
	case <-grace.C():
	case <-ctx.Done():
	}
	// A cancelled wait must not leave a half-stopped process behind either.
	if err := r.signalGroup(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	select {
	case <-r.gone:
		return nil
	case <-time.After(10 * time.Second):
		return fmt.Errorf(
			"process %d of %s did not end on SIGKILL within 10 s; it is stuck in the kernel: see /proc/%d/stack", r.pid,
			c.name, r.pid)
	}
}
