//go:build linux

package initd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// openOutput opens the output of a command, by the setting; the journal unless it names another.
func (u *service) openOutput(setting string) (*os.File, error) {
	setting = strings.Replace(setting, "syslog", "journal", 1)
	switch setting {
	case "", "inherit", "socket", "kmsg":
		setting = "journal"
	case "tty", "kmsg+console":
		setting = "journal+console"
	}
	if f := u.outputs[setting]; f != nil {
		return f, nil
	}
	var f *os.File
	var err error
	how, file, _ := strings.Cut(setting, ":")
	switch how {
	case "null":
		f, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	case "file":
		f, err = os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o644)
	case "append":
		f, err = os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	case "truncate":
		f, err = os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	default:
		var console io.Writer
		if how == "journal+console" {
			console = u.m.o.Console
		}
		var r *os.File
		if r, f, err = os.Pipe(); err == nil {
			// It ends with the last process that has the other end, which may be after the service's own.
			go func() {
				u.m.journal.copyLines(r, u.name, u.logSource, console)
				r.Close()
			}()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the output %q: %w", setting, err)
	}
	if u.outputs == nil {
		u.outputs = map[string]*os.File{}
	}
	u.outputs[setting] = f
	return f, nil
}

func (u *service) closeOutputs() {
	for _, f := range u.outputs {
		f.Close()
	}
	u.outputs = nil
}

// logSource returns the writer of a message, as the journal names it.
func (u *service) logSource() (identifier string, pid int) {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	identifier = u.def.Last("Service", "SyslogIdentifier")
	if pid = u.controlPID; pid == 0 && u.run != nil {
		pid = u.run.mainPID
	}
	if pid == 0 {
		pid = u.lastPID // what it wrote last may be read after it has ended
	}
	if identifier == "" {
		if commands, err := u.def.Commands("ExecStart"); err == nil && len(commands) > 0 {
			identifier = filepath.Base(commands[0].Path)
		} else {
			identifier = u.name
		}
	}
	return identifier, pid
}
