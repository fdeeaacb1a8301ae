//go:build linux

package initd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/unit"
)

// watchMain waits until a running service ends by itself.
func (u *service) watchMain(r *run) {
	<-r.main.done
	u.op <- struct{}{}
	defer func() { <-u.op }()
	m := u.m
	m.mu.Lock()
	current, def := u.run == r, u.def
	m.mu.Unlock()
	if !current {
		return // it was stopped
	}
	u.recordExit(r.main)
	result := "success"
	if !u.isCleanExit(def, r.main.status, true) {
		result = resultOf(r.main.status)
	}
	if result == "success" && def.Bool("Service", "RemainAfterExit", false) {
		m.setState(u, "active", "exited")
		return
	}
	m.setState(u, "deactivating", "stop-post")
	u.takeDown(context.Background(), def)
	switch {
	case u.willRestart(def, result):
		if result != "success" {
			m.logUnit(u.name, "Failed with result '%s'.", result)
		}
		m.mu.Lock()
		u.run, u.result = nil, result
		m.mu.Unlock()
		u.closeOutputs()
		code, status := describe(r.main.status)
		u.countLife(fmt.Sprintf("the main process exited, code=%s, status=%s", code, status))
		u.restartLater(def)
	case result != "success":
		u.markFailed(result, nil)
	default:
		u.markInactive()
	}
}

// recordExit records how the main process ended.
func (u *service) recordExit(c *child) {
	u.m.mu.Lock()
	u.exit, u.exited = c.status, true
	u.m.mu.Unlock()
	code, status := describe(c.status)
	if c.status.Exited() && c.status.ExitStatus() == 0 {
		return
	}
	u.m.logUnit(u.name, "Main process exited, code=%s, status=%s", code, status)
}

// markInactive records that a unit ended well.
func (u *service) markInactive() {
	u.m.mu.Lock()
	u.run, u.result = nil, "success"
	u.m.mu.Unlock()
	u.closeOutputs()
	u.m.logUnit(u.name, "Deactivated successfully.")
	u.m.setState(u, "inactive", "dead")
}

// isCleanExit reports whether a main process ended as it should; being ended by a polite signal is clean for a daemon.
func (u *service) isCleanExit(def *unit.Unit, s syscall.WaitStatus, daemon bool) bool {
	for _, word := range strings.Fields(strings.Join(def.All("Service", "SuccessExitStatus"), " ")) {
		if matches(word, s) {
			return true
		}
	}
	if s.Exited() {
		return s.ExitStatus() == 0
	}
	switch s.Signal() {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE:
		return daemon
	}
	return false
}

// matches compares an end with a word of SuccessExitStatus= and its like: "143", "SIGPIPE".
func matches(word string, s syscall.WaitStatus) bool {
	if n, err := strconv.Atoi(word); err == nil {
		return s.Exited() && s.ExitStatus() == n
	}
	return s.Signaled() && unix.SignalNum(word) == s.Signal()
}

// resultOf returns systemd's word for an end that was not clean.
func resultOf(s syscall.WaitStatus) string {
	switch {
	case s.Exited():
		return "exit-code"
	case s.CoreDump():
		return "core-dump"
	}
	return "signal"
}

// describe returns an exit as systemd writes it: "exited", "1/FAILURE".
func describe(s syscall.WaitStatus) (code, status string) {
	if s.Exited() {
		name, ok := exitNames[s.ExitStatus()]
		if !ok {
			name = "n/a"
		}
		return "exited", fmt.Sprintf("%d/%s", s.ExitStatus(), name)
	}
	code = "killed"
	if s.CoreDump() {
		code = "dumped"
	}
	return code, fmt.Sprintf("%d/%s", s.Signal(), strings.TrimPrefix(unix.SignalName(s.Signal()), "SIG"))
}

var exitNames = map[int]string{
	0: "SUCCESS", 1: "FAILURE", 2: "INVALIDARGUMENT", 3: "NOTIMPLEMENTED", 4: "NOPERMISSION", 5: "NOTINSTALLED",
	6: "NOTCONFIGURED", 7: "NOTRUNNING",
	200: "CHDIR", 203: "EXEC", 205: "LIMITS", 216: "GROUP", 217: "USER", 219: "CGROUP",
}

// willRestart reports whether Restart= restarts a service after a result.
func (u *service) willRestart(def *unit.Unit, result string) bool {
	u.m.mu.Lock()
	exit, exited, ending := u.exit, u.exited, u.m.ending
	u.m.mu.Unlock()
	if ending {
		return false
	}
	if exited {
		for _, word := range strings.Fields(strings.Join(def.All("Service", "RestartPreventExitStatus"), " ")) {
			if matches(word, exit) {
				return false
			}
		}
		for _, word := range strings.Fields(strings.Join(def.All("Service", "RestartForceExitStatus"), " ")) {
			if matches(word, exit) {
				return true
			}
		}
	}
	abnormal := result == "signal" || result == "core-dump" || result == "timeout" || result == "watchdog" ||
		result == "protocol"
	switch def.Last("Service", "Restart") {
	case "always":
		return true
	case "on-success":
		return result == "success"
	case "on-failure":
		return result != "success"
	case "on-abnormal":
		return abnormal
	case "on-abort":
		return result == "signal" || result == "core-dump"
	}
	return false
}

// restartLater starts the unit again after RestartSec=, and with it the active units that require it.
func (u *service) restartLater(def *unit.Unit) {
	m := u.m
	ctx, cancel := context.WithCancel(context.Background())
	m.mu.Lock()
	u.cancelRestart = cancel
	u.restarts++
	count := u.restarts
	m.mu.Unlock()
	m.setState(u, "activating", "auto-restart")
	wait := def.Duration("Service", "RestartSec", 100*time.Millisecond)
	go func() {
		if !sleepContext(ctx, wait) {
			return
		}
		m.logUnit(u.name, "Scheduled restart job, restart counter is at %d.", count)
		var dependents []string
		m.mu.Lock()
		for _, other := range m.units {
			if other != u && other.active == "active" && slices.Contains(requires(other.def), u.name) {
				dependents = append(dependents, other.name)
			}
		}
		m.mu.Unlock()
		if len(dependents) > 0 {
			jobs, stopped, err := m.stopUnits(dependents)
			if err == nil {
				for _, j := range jobs {
					<-j.done
				}
				dependents = stopped
			}
		}
		if ctx.Err() != nil {
			return
		}
		if _, err := m.startUnits(append([]string{u.name}, dependents...)); err != nil {
			m.logUnit(u.name, "Failed to schedule restart job: %v", err)
		}
	}()
}
