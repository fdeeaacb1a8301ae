//go:build linux

package initd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/guest/unit"
)

// manager holds the units that were loaded and the jobs that change them.
type manager struct {
	o       Options
	cgroups cgroups
	journal journal

	childMu  sync.Mutex
	children map[int]*child
	sigchld  chan os.Signal // also told by fork

	reportMu   sync.Mutex
	bootReport boot.Report
	reported   map[string]time.Time // when the host was told last of a unit that fails again and again

	mu       sync.Mutex // guards what follows, and the fields of units and jobs that say so
	units    map[string]*service
	jobs     map[*service]*job
	env      map[string]string // of every service
	ending   bool              // nothing is started any more
	schedule *time.Timer       // of a shutdown that was asked for later
}

// job is the one change of a unit that is under way.
type job struct {
	unit  *service
	stop  bool
	after []*job // these end first
	done  chan struct{}
	err   error // valid after done
	// cancel ends a start that is to be given up.
	cancel context.CancelFunc
	ctx    context.Context
}

func newManager(o Options) *manager {
	m := &manager{
		o: o, cgroups: findCgroups(o.Cgroup), journal: journal{dir: o.Journal}, children: map[int]*child{},
		sigchld: make(chan os.Signal, 1), units: map[string]*service{}, jobs: map[*service]*job{},
		reported: map[string]time.Time{},
	}
	signal.Notify(m.sigchld, unix.SIGCHLD)
	return m
}

// loadUnit returns a unit by its name, which it loads when necessary. m.mu is held.
func (m *manager) loadUnit(name string) (*service, error) {
	if u := m.units[name]; u != nil {
		return u, nil
	}
	def, err := unit.Load(m.o.UnitPath, name)
	if err != nil {
		return nil, err
	}
	if u := m.units[def.Name]; u != nil { // an alias
		return u, nil
	}
	if kind := filepath.Ext(def.Name); kind != ".service" && kind != ".target" && kind != ".slice" {
		return nil, fmt.Errorf("Unit %s is a %s, which this machine's init does not run.", name, kind[1:])
	}
	u := &service{m: m, name: def.Name, def: def, active: "inactive", sub: "dead", op: make(chan struct{}, 1),
		result: "success"}
	m.units[def.Name] = u
	return u, nil
}

// reloadUnits reads the files of all units again, and the environment; what runs goes on as it was started.
func (m *manager) reloadUnits() {
	env := m.environment()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.env = env
	for name, u := range m.units {
		def, err := unit.Load(m.o.UnitPath, name)
		var gone unit.NotFoundError
		switch {
		case err == nil:
			u.def, u.loadError = def, nil
		case errors.As(err, &gone) && u.active == "inactive" && m.jobs[u] == nil:
			delete(m.units, name)
		default:
			u.loadError = err
		}
	}
}

// Dependencies, by the setting that says them. Wants and Requires include the directories.
func wantedUnits(d *unit.Unit) []string { return append(d.Names("Unit", "Wants"), d.WantsLinks...) }
func requires(d *unit.Unit) []string    { return append(requiresHard(d), d.RequiresLinks...) }
func requiresHard(d *unit.Unit) []string {
	return append(append(d.Names("Unit", "Requires"), d.Names("Unit", "BindsTo")...), d.Names("Unit", "Requisite")...)
}

// isOrderedAfter reports whether unit a is ordered after unit b, by what either says; a target is after all that it
// pulls in.
func isOrderedAfter(a, b *service) bool {
	if slices.Contains(a.def.Names("Unit", "After"), b.name) || slices.Contains(b.def.Names("Unit", "Before"), a.name) {
		return true
	}
	return filepath.Ext(a.name) == ".target" && !slices.Contains(b.def.Names("Unit", "After"), a.name) &&
		(slices.Contains(wantedUnits(a.def), b.name) || slices.Contains(requires(a.def), b.name))
}

// startUnits begins to start units with all that they need, and returns their jobs. A unit that is active already has
// none.
func (m *manager) startUnits(names []string) ([]*job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ending {
		return nil, errors.New("Refusing operation, the machine is shutting down.")
	}
	var fresh, asked []*job
	visited := map[*service]bool{}
	var visit func(name string, hard bool) error
	visit = func(name string, hard bool) error {
		u, err := m.loadUnit(name)
		if err == nil && u.def.Masked {
			err = fmt.Errorf("Unit %s is masked.", name)
		}
		if err == nil && u.loadError != nil {
			err = u.loadError
		}
		if err != nil {
			var missing unit.NotFoundError
			if !hard && !errors.As(err, &missing) {
				m.logMessage("", err.Error())
			}
			if hard {
				return err
			}
			return nil
		}
		if visited[u] {
			return nil
		}
		visited[u] = true
		if j := m.jobs[u]; j != nil && !j.stop {
			asked = append(asked, j) // on its way already
			return nil
		}
		if (u.active == "active" || u.active == "reloading") && m.jobs[u] == nil {
			return nil
		}
		for _, need := range requires(u.def) {
			if err := visit(need, true); err != nil {
				return fmt.Errorf("Failed to start %s: %w", u.name, err)
			}
		}
		for _, wish := range wantedUnits(u.def) {
			if err := visit(wish, false); err != nil {
				return err
			}
		}
		fresh = append(fresh, m.registerJob(u, false))
		return nil
	}
	for _, name := range names {
		if err := visit(name, true); err != nil {
			for _, j := range fresh {
				delete(m.jobs, j.unit)
				close(j.done)
			}
			return nil, err
		}
	}
	m.orderJobs(fresh)
	for _, j := range fresh {
		go m.executeJob(j)
	}
	return append(asked, fresh...), nil
}

// registerJob registers a job; it replaces an opposite one, which it waits for. m.mu is held.
func (m *manager) registerJob(u *service, stop bool) *job {
	j := &job{unit: u, stop: stop, done: make(chan struct{})}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	if before := m.jobs[u]; before != nil {
		j.after = append(j.after, before)
		if stop {
			before.cancel()
		}
	}
	m.jobs[u] = j
	return j
}

// orderJobs makes fresh jobs wait for the jobs that come before them. m.mu is held.
func (m *manager) orderJobs(fresh []*job) {
	for _, j := range fresh {
		for _, k := range m.jobs {
			if k == j {
				continue
			}
			// Starting: what I am after, first. Stopping: what is after me, first.
			if (!j.stop && isOrderedAfter(j.unit, k.unit)) || (j.stop && k.stop && isOrderedAfter(k.unit, j.unit)) {
				if k.waitsFor(j, nil) {
					m.logMessage("", fmt.Sprintf("Found ordering cycle: %s is after %s, which is after it; ignored",
						j.unit.name, k.unit.name))
					continue
				}
				j.after = append(j.after, k)
			}
		}
	}
}

func (j *job) waitsFor(other *job, seen map[*job]bool) bool {
	if seen == nil {
		seen = map[*job]bool{}
	}
	seen[j] = true
	for _, k := range j.after {
		if k == other || (!seen[k] && k.waitsFor(other, seen)) {
			return true
		}
	}
	return false
}

// errCanceled is the end of a start that a stop took the place of.
var errCanceled = errors.New("Job canceled.")

// executeJob runs a job when all jobs that it is ordered after have ended.
func (m *manager) executeJob(j *job) {
	u := j.unit
	for _, k := range j.after {
		select {
		case <-k.done:
		case <-j.ctx.Done():
		}
	}
	j.err = j.ctx.Err()
	if j.err == nil && !j.stop {
		for _, k := range j.after {
			if k.err != nil && !k.stop && slices.Contains(requires(u.def), k.unit.name) {
				j.err = fmt.Errorf("A dependency job for %s failed. See 'journalctl -xe' for details.", u.name)
				m.logMessage(u.name, fmt.Sprintf("Dependency failed for %s.", u.displayName()))
				m.printStatus("DEPEND", fmt.Sprintf("Dependency failed for %s.", u.displayName()))
				break
			}
		}
	} else if j.err != nil {
		j.err = errCanceled
	}
	if j.err == nil {
		u.op <- struct{}{} // one at a time
		if j.stop {
			j.err = u.stop(j.ctx)
		} else if j.err = u.start(j.ctx); j.err != nil && j.ctx.Err() != nil {
			j.err = errCanceled
		}
		<-u.op
	}
	m.mu.Lock()
	if m.jobs[u] == j {
		delete(m.jobs, u)
	}
	m.mu.Unlock()
	j.cancel()
	close(j.done)
}

// stopUnits begins to stop units and all active ones that require them, and returns their jobs and all of the units'
// names.
func (m *manager) stopUnits(names []string) ([]*job, []string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var fresh []*job
	var stopped []string
	visited := map[*service]bool{}
	var visit func(u *service)
	visit = func(u *service) {
		if visited[u] {
			return
		}
		visited[u] = true
		for _, other := range m.units {
			if other.active != "inactive" && other.active != "failed" &&
				(slices.Contains(requires(other.def), u.name) || slices.Contains(other.def.Names("Unit", "PartOf"),
					u.name)) {
				visit(other)
			}
		}
		if j := m.jobs[u]; j != nil && j.stop {
			fresh = append(fresh, j)
			return
		}
		if (u.active == "inactive" || u.active == "failed") && m.jobs[u] == nil {
			return
		}
		stopped = append(stopped, u.name)
		fresh = append(fresh, m.registerJob(u, true))
	}
	for _, name := range names {
		u, err := m.loadUnit(name)
		if err != nil {
			return nil, nil, err
		}
		visit(u)
	}
	var own []*job
	for _, j := range fresh {
		if slices.Contains(stopped, j.unit.name) {
			own = append(own, j)
		}
	}
	m.orderJobs(own)
	for _, j := range own {
		go m.executeJob(j)
	}
	return fresh, stopped, nil
}

// restart stops units, and starts them and what was stopped with them; only those that run when onlyActive is true.
func (m *manager) restart(names []string, onlyActive bool) error {
	m.mu.Lock()
	for i := 0; i < len(names); i++ {
		u, err := m.loadUnit(names[i])
		if err == nil && u.def.Masked {
			err = fmt.Errorf("Unit %s is masked.", names[i])
		}
		if err != nil {
			m.mu.Unlock()
			return err
		}
		if onlyActive && (u.active == "inactive" || u.active == "failed") && m.jobs[u] == nil {
			names = slices.Delete(slices.Clone(names), i, i+1)
			i--
		}
	}
	m.mu.Unlock()
	jobs, stopped, err := m.stopUnits(names)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		<-j.done
	}
	for _, name := range stopped {
		if !slices.Contains(names, name) {
			names = append(slices.Clone(names), name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if jobs, err = m.startUnits(names); err != nil {
		return err
	}
	var failed error
	for _, j := range jobs {
		<-j.done
		if failed == nil && slices.Contains(names, j.unit.name) {
			failed = j.err
		}
	}
	return failed
}

// setState changes what a unit is seen as.
func (m *manager) setState(u *service, active, sub string) {
	m.mu.Lock()
	if u.active != active {
		u.since = time.Now()
		switch active {
		case "active":
			u.activeSince = u.since
		case "inactive", "failed":
			u.inactiveSince = u.since
		}
	}
	changed := u.active != active
	u.active, u.sub = active, sub
	m.mu.Unlock()
	if changed {
		m.observe(u.name, active)
		u.watchStability(active)
	}
}

// openSockets opens the sockets: systemctl's, and /dev/log.
func (m *manager) openSockets() error {
	if err := os.MkdirAll(filepath.Join(m.o.Run, "notify.d"), 0o755); err != nil {
		return err
	}
	path := filepath.Join(m.o.Run, ControlSocket)
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen for systemctl: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	go m.serveControl(l)
	if m.o.Run == "/run/systemd" {
		log := "/run/systemd/dev-log"
		_ = os.Remove(log)
		if conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: log, Net: "unixgram"}); err == nil {
			_ = os.Chmod(log, 0o666)
			_ = os.Remove("/dev/log")
			_ = os.Symlink(log, "/dev/log")
			go func() {
				buf := make([]byte, 8<<10)
				for {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					m.logSyslog(buf[:n])
				}
			}()
		}
	}
	return nil
}

func (m *manager) snapshot() []UnitStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []UnitStatus
	for _, u := range m.units {
		all = append(all, u.unitStatus())
	}
	slices.SortFunc(all, func(a, b UnitStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}
