package initd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// ControlSocket is the socket through which systemctl reaches init, below Options.Run.
const ControlSocket = "private"

// JournalDir has a file for each unit, of lines "TIME IDENTIFIER[PID]: MESSAGE" with RFC 3339 times, oldest first, and
// the older half beside it with the suffix ".1": journalctl reads them.
const JournalDir = "/var/log/journal"

// Request is one request of systemctl, a line of JSON; the answer is a Response. A connection has one of each.
type Request struct {
	// Verb is start, stop, restart, try-restart, reload, kill, reset-failed, daemon-reload, status, poweroff, reboot,
	// halt or cancel-shutdown.
	Verb    string
	Units   []string `json:",omitempty"`
	NoBlock bool     `json:",omitempty"` // answer before the jobs have ended
	Signal  string   `json:",omitempty"` // of kill
	// Delay postpones poweroff and its like.
	Delay time.Duration `json:",omitempty"`
}

// Response is the answer of init.
type Response struct {
	Errors []Failure    `json:",omitempty"`
	Units  []UnitStatus `json:",omitempty"` // of status: those asked for, or all that are loaded
}

// Failure is a unit with what went wrong; Missing says that there is no such unit.
type Failure struct {
	Unit, Message string
	Missing       bool `json:",omitempty"`
}

// Call asks the init whose sockets are in dir (empty: /run/systemd).
func Call(dir string, request Request) (Response, error) {
	var response Response
	if dir == "" {
		dir = "/run/systemd"
	}
	conn, err := net.Dial("unix", filepath.Join(dir, ControlSocket))
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return response, errors.New("Access denied: only root controls the machine.")
		}
		return response, fmt.Errorf("Failed to connect to init: %w", err)
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return response, err
	}
	if err := json.NewDecoder(conn).Decode(&response); err != nil {
		return response, fmt.Errorf("init did not answer: %w", err)
	}
	return response, nil
}

// UnitStatus is a unit as it is seen by systemctl.
type UnitStatus struct {
	Name, Description, Fragment  string
	DropIns                      []string
	Load                         string // loaded, not-found, masked, error
	LoadError                    string
	Active, Sub, Result          string
	Type, Cgroup                 string
	MainPID, ControlPID          int
	MainStatus                   string // of the process that ended last: "exited, status=1/FAILURE"
	ExitCode, ExitStatus         int
	Since, ActiveSince, Inactive time.Time
	Restarts                     int
	Memory                       uint64
	CPU                          time.Duration
	Tasks                        int
	PIDs                         []int
	Processes                    []string // ended: "Process: 12 ExecStartPre=... (code=exited, status=0/SUCCESS)"
	StatusText                   string
	Job                          string // start or stop, while one is under way
}
