package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

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

// aliveStrays returns the strays that have not ended. view is held.
func (c *child) aliveStrays() []*running {
	return slices.DeleteFunc(slices.Clone(c.strays), func(r *running) bool { return !r.isAlive() })
}

// ambiguous returns an *AmbiguousError while several verified strays run.
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

// recordExit records that r has exited, whoever started it.
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

// retryStart starts the process again when the timer fires that was set at its death.
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
	case <-time.After(killPatience):
		return fmt.Errorf("process %d of %s %w: see /proc/%[1]d/stack", r.pid, c.name, ErrStuck)
	}
}
