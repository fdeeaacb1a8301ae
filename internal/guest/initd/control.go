//go:build linux

package initd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/unit"
)

func (m *manager) serveControl(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, for now
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go func() {
			defer conn.Close()
			var request Request
			if err := json.NewDecoder(conn).Decode(&request); err != nil {
				return
			}
			_ = json.NewEncoder(conn).Encode(m.dispatch(request))
		}()
	}
}

func (m *manager) dispatch(r Request) Response {
	var response Response
	failed := func(name string, err error) {
		var missing unit.NotFoundError
		response.Errors = append(response.Errors, Failure{name, err.Error(), errors.As(err, &missing)})
	}
	switch r.Verb {
	case "daemon-reload":
		m.reloadUnits()
	case "poweroff", "reboot", "halt":
		m.scheduleShutdown(map[string]int{"poweroff": unix.LINUX_REBOOT_CMD_POWER_OFF,
			"reboot": unix.LINUX_REBOOT_CMD_RESTART, "halt": unix.LINUX_REBOOT_CMD_HALT}[r.Verb], r.Delay)
	case "cancel-shutdown":
		m.mu.Lock()
		if m.schedule != nil {
			m.schedule.Stop()
		}
		m.mu.Unlock()
	case "status":
		response.Units = m.statuses(r.Units)
	case "reset-failed":
		m.mu.Lock()
		for name, u := range m.units {
			if u.active == "failed" && (len(r.Units) == 0 || slices.Contains(r.Units, name)) {
				u.active, u.sub, u.result, u.starts, u.restarts = "inactive", "dead", "success", nil, 0
			}
		}
		m.mu.Unlock()
	case "start":
		// All are of one transaction, so that they wait for one another; those that cannot be loaded do not keep back
		// the others.
		var jobs []*job
		for _, name := range r.Units {
			js, err := m.startUnits([]string{name})
			if err != nil {
				failed(name, err)
			}
			for _, j := range js {
				if j.unit.name == name || len(js) == 1 {
					jobs = append(jobs, j)
				}
			}
		}
		if !r.NoBlock {
			for _, j := range jobs {
				if <-j.done; j.err != nil {
					failed(j.unit.name, j.err)
				}
			}
		}
	case "stop":
		for _, name := range r.Units {
			jobs, _, err := m.stopUnits([]string{name})
			if err != nil {
				failed(name, err)
				continue
			}
			if !r.NoBlock {
				for _, j := range jobs {
					if <-j.done; j.err != nil {
						failed(name, j.err)
					}
				}
			}
		}
	case "restart", "try-restart":
		restart := func() error { return m.restart(r.Units, r.Verb == "try-restart") }
		if r.NoBlock {
			go func() { _ = restart() }()
		} else if err := restart(); err != nil {
			name := ""
			if len(r.Units) > 0 {
				name = r.Units[0]
			}
			failed(name, err)
		}
	case "reload":
		for _, name := range r.Units {
			if err := m.reloadUnit(name); err != nil {
				failed(name, err)
			}
		}
	case "kill":
		for _, name := range r.Units {
			if err := m.signalUnit(name, r.Signal); err != nil {
				failed(name, err)
			}
		}
	default:
		failed("", fmt.Errorf("Unknown command verb %s.", r.Verb))
	}
	return response
}

// scheduleShutdown ends the machine after a delay; systemctl has its answer before.
func (m *manager) scheduleShutdown(cmd int, delay time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.schedule != nil {
		m.schedule.Stop()
	}
	m.schedule = time.AfterFunc(max(delay, 20*time.Millisecond), func() { m.shutdown(cmd) })
}

// statuses returns the status of the named units, which it loads when necessary, or of all units.
func (m *manager) statuses(names []string) []UnitStatus {
	if len(names) == 0 {
		return m.snapshot()
	}
	var all []UnitStatus
	for _, name := range names {
		m.mu.Lock()
		u, err := m.loadUnit(name)
		if err != nil {
			m.mu.Unlock()
			load := "error"
			var missing unit.NotFoundError
			if errors.As(err, &missing) {
				load = "not-found"
			}
			all = append(all, UnitStatus{Name: name, Description: name, Load: load, LoadError: err.Error(),
				Active: "inactive", Sub: "dead", Result: "success"})
			continue
		}
		s := u.unitStatus()
		m.mu.Unlock()
		if s.Cgroup != "" {
			s.Memory, s.CPU, s.Tasks = m.cgroups.readUsage(s.Cgroup)
			s.PIDs = m.cgroups.listPIDs(s.Cgroup)
		}
		all = append(all, s)
	}
	return all
}

// reloadUnit runs ExecReload.
func (m *manager) reloadUnit(name string) error {
	m.mu.Lock()
	u, err := m.loadUnit(name)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	def, r, active := u.def, u.run, u.active
	m.mu.Unlock()
	if active != "active" {
		return fmt.Errorf("%s is not active, cannot reload.", name)
	}
	if len(def.All("Service", "ExecReload")) == 0 {
		return fmt.Errorf("Failed to reload %s: Job type reload is not applicable for unit %s.", name, name)
	}
	env, err := u.environment(def)
	if err != nil {
		return err
	}
	if r != nil {
		env["MAINPID"] = strconv.Itoa(r.mainPID)
	}
	u.op <- struct{}{}
	defer func() { <-u.op }()
	timed, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	return u.control(timed, def, "ExecReload", env)
}

// signalUnit sends a signal to all processes of a unit.
func (m *manager) signalUnit(name, signal string) error {
	sig := syscall.SIGTERM
	if signal != "" {
		if n, err := strconv.Atoi(signal); err == nil {
			sig = syscall.Signal(n)
		} else if sig = unix.SignalNum(signal); sig == 0 {
			if sig = unix.SignalNum("SIG" + signal); sig == 0 {
				return fmt.Errorf("Failed to parse signal string %s.", signal)
			}
		}
	}
	m.mu.Lock()
	u, err := m.loadUnit(name)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	path, r := u.cgroupPath(), u.run
	m.mu.Unlock()
	if r != nil {
		_ = syscall.Kill(r.mainPID, sig)
	}
	for _, pid := range m.cgroups.listPIDs(path) {
		if r == nil || pid != r.mainPID {
			_ = syscall.Kill(pid, sig)
		}
	}
	return nil
}
