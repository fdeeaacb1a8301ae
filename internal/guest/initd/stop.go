//go:build linux

package initd

import (
	"context"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/unit"
)

// stop takes a unit down; op is held.
func (u *service) stop(ctx context.Context) error {
	m := u.m
	m.mu.Lock()
	if u.cancelRestart != nil {
		u.cancelRestart()
		u.cancelRestart = nil
	}
	u.restarts = 0
	def, r, active := u.def, u.run, u.active
	m.mu.Unlock()
	if active == "inactive" || active == "failed" {
		return nil
	}
	if kind := u.serviceType(); kind == "target" || kind == "slice" {
		m.setState(u, "inactive", "dead")
		return nil
	}
	m.setState(u, "deactivating", "stop")
	m.logMessage(u.name, "Stopping "+u.displayName()+"...")
	limit := def.Duration("Service", "TimeoutStopSec", def.Duration("Service", "TimeoutSec", 90*time.Second))
	timed, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		timed, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	if env, err := u.environment(def); err == nil && len(def.All("Service", "ExecStop")) > 0 {
		if r != nil {
			env["MAINPID"] = strconv.Itoa(r.mainPID)
		}
		if err := u.control(timed, def, "ExecStop", env); err != nil && timed.Err() == nil {
			m.logUnit(u.name, "ExecStop: %v", err)
		}
	}
	u.takeDown(timed, def)
	m.cgroups.removeGroup(u.cgroupPath())
	if r != nil && r.main != nil && !u.isCleanExit(def, r.main.status, true) && timed.Err() == nil {
		m.mu.Lock()
		u.run, u.exit, u.exited = nil, r.main.status, true
		m.mu.Unlock()
		u.markFailed(resultOf(r.main.status), nil)
		m.logMessage(u.name, "Stopped "+u.displayName()+".")
		return nil
	}
	u.markInactive()
	m.logMessage(u.name, "Stopped "+u.displayName()+".")
	m.printStatus("  OK  ", "Stopped "+u.displayName()+".")
	return nil
}

// takeDown ends what is left of a service as KillMode= says, and runs ExecStopPost. It returns when the processes are
// gone, at the latest a moment after ctx, when they are killed.
func (u *service) takeDown(ctx context.Context, def *unit.Unit) {
	m := u.m
	m.mu.Lock()
	r := u.run
	m.mu.Unlock()
	mode := def.Last("Service", "KillMode")
	if r != nil && r.main != nil && mode != "none" {
		sig := unix.SignalNum(def.Last("Service", "KillSignal"))
		if sig == 0 {
			sig = syscall.SIGTERM
		}
		select {
		case <-r.main.done:
		default:
			if r.mainPID != r.main.pid && r.mainPID > 1 {
				_ = syscall.Kill(r.mainPID, sig)
			}
			_ = syscall.Kill(r.main.pid, sig)
			if mode == "" || mode == "control-group" {
				m.cgroups.signalAll(u.cgroupPath(), sig)
			}
			if def.Bool("Service", "SendSIGHUP", false) {
				_ = syscall.Kill(r.main.pid, syscall.SIGHUP)
			}
			select {
			case <-r.main.done:
			case <-ctx.Done():
				m.logUnit(u.name, "State 'stop-sigterm' timed out. Killing.")
				m.logUnit(u.name, "Killing process %d with signal SIGKILL.", r.main.pid)
				_ = syscall.Kill(r.main.pid, syscall.SIGKILL)
				<-r.main.done
			}
		}
		if r.notify != nil {
			r.notify.Close()
		}
	}
	u.killRest(ctx, def)
	if len(def.All("Service", "ExecStopPost")) > 0 {
		if env, err := u.environment(def); err == nil {
			timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), 90*time.Second)
			defer cancel()
			if err := u.control(timed, def, "ExecStopPost", env); err != nil {
				m.logUnit(u.name, "ExecStopPost: %v", err)
			}
		}
	}
}

// killRest ends the processes of the cgroup beside the main one, unless KillMode= spares them.
func (u *service) killRest(ctx context.Context, def *unit.Unit) {
	m := u.m
	mode := def.Last("Service", "KillMode")
	if mode == "process" || mode == "none" || len(m.cgroups.roots) == 0 {
		return
	}
	path := u.cgroupPath()
	if len(m.cgroups.listPIDs(path)) == 0 {
		return
	}
	if mode == "mixed" {
		m.cgroups.signalAll(path, syscall.SIGKILL)
	} else {
		m.cgroups.signalAll(path, syscall.SIGTERM)
	}
	for wait := 5 * time.Millisecond; len(m.cgroups.listPIDs(path)) > 0; wait = min(2*wait, 100*time.Millisecond) {
		if !sleepContext(ctx, wait) {
			m.cgroups.signalAll(path, syscall.SIGKILL)
			for range 100 {
				if len(m.cgroups.listPIDs(path)) == 0 {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			return
		}
	}
}
