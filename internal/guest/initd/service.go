//go:build linux

package initd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/unit"
)

// service is a unit with its state. A target or a slice is one that has no processes.
type service struct {
	m    *manager
	name string
	op   chan struct{} // held by who changes the unit: a job, or the one that sees it end

	// Guarded by m.mu.
	def                               *unit.Unit
	loadError                         error
	active, sub, result               string
	since, activeSince, inactiveSince time.Time
	run                               *run
	controlPID, lastPID               int
	exit                              syscall.WaitStatus // of the last main process
	exited                            bool
	commands                          []string // the ended commands of this start, for status
	text                              string   // STATUS= of the service
	restarts                          int
	began                             time.Time   // when it was started last
	shortLives                        int         // in a row: see countLife
	starts                            []time.Time // within the start limit's interval
	cancelRestart                     context.CancelFunc

	// Held with op.
	outputs map[string]*os.File // the write ends that its commands get, by setting
}

// run is one life of a service's main process.
type run struct {
	main  *child
	ready chan struct{} // closed when the service has said READY=1
	// Guarded by m.mu.
	notifiedReady bool
	mainPID       int // differs from main's when the service says MAINPID=
	notify        *net.UnixConn
}

func (u *service) displayName() string {
	if d := u.def.Last("Unit", "Description"); d != "" {
		return u.name + " - " + d
	}
	return u.name
}

func (u *service) serviceType() string {
	if filepath.Ext(u.name) != ".service" {
		return strings.TrimPrefix(filepath.Ext(u.name), ".")
	}
	if t := u.def.Last("Service", "Type"); t != "" {
		return t
	}
	if len(u.def.All("Service", "ExecStart")) == 0 {
		return "oneshot"
	}
	return "simple"
}

// listenNotify opens the socket over which the service says that it is ready.
func (u *service) listenNotify(r *run, env map[string]string) error {
	path := filepath.Join(u.m.o.Run, "notify.d", u.name)
	_ = os.Remove(path)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	_ = os.Chmod(path, 0o666)
	env["NOTIFY_SOCKET"] = path
	r.notify = conn
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			for _, line := range strings.Split(string(buf[:n]), "\n") {
				key, value, _ := strings.Cut(line, "=")
				u.m.mu.Lock()
				switch key {
				case "READY":
					if value == "1" && !r.notifiedReady {
						r.notifiedReady = true
						close(r.ready)
					}
				case "STATUS":
					u.text = value
				case "MAINPID":
					if pid, err := strconv.Atoi(value); err == nil {
						r.mainPID = pid
					}
				}
				u.m.mu.Unlock()
			}
		}
	}()
	return nil
}

// unitStatus returns the unit as systemctl shows it; m.mu is held.
func (u *service) unitStatus() UnitStatus {
	s := UnitStatus{
		Name: u.name, Description: u.def.Last("Unit", "Description"), Fragment: u.def.Fragment, DropIns: u.def.DropIns,
		Load:   "loaded",
		Active: u.active, Sub: u.sub, Result: u.result, Type: u.serviceType(), Since: u.since,
		ActiveSince: u.activeSince, Inactive: u.inactiveSince,
		Restarts: u.restarts, Processes: u.commands, StatusText: u.text, ControlPID: u.controlPID,
	}
	if s.Description == "" {
		s.Description = u.name
	}
	if u.def.Masked {
		s.Load = "masked"
	}
	if u.loadError != nil {
		s.Load, s.LoadError = "error", u.loadError.Error()
		var gone unit.NotFoundError
		if errors.As(u.loadError, &gone) {
			s.Load = "not-found"
		}
	}
	if j := u.m.jobs[u]; j != nil {
		if s.Job = "start"; j.stop {
			s.Job = "stop"
		}
	}
	if u.run != nil {
		s.MainPID = u.run.mainPID
	}
	if u.exited {
		code, status := describe(u.exit)
		s.MainStatus = fmt.Sprintf("code=%s, status=%s", code, status)
		s.ExitCode, s.ExitStatus = 1, u.exit.ExitStatus() // CLD_EXITED
		if u.exit.Signaled() {
			s.ExitCode, s.ExitStatus = 2, int(u.exit.Signal())
		}
	}
	if filepath.Ext(u.name) == ".service" {
		s.Cgroup = "/" + u.cgroupPath()
	}
	return s
}
