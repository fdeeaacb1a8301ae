package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock is the hold on a data directory. It ends with Release or with the process.
type Lock struct{ file *os.File }

// Held reports that another process holds the directory.
type Held struct {
	Dir Dir
	PID int // 0 when the lock does not say
}

func (h *Held) Error() string {
	who := "another process"
	if h.PID != 0 {
		who = fmt.Sprintf("process %d%s", h.PID, commandOf(h.PID))
	}
	return fmt.Sprintf(
		"the data directory %s is in use by %s: stop it with \"coracle down --data-dir %s\", or give --data-dir "+
			"another directory", h.Dir, who, h.Dir)
}

// Lock takes hold of the directory, or fails with a [*Held].
func (d Dir) Lock() (*Lock, error) {
	f, err := os.OpenFile(d.LockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, d.explain(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &Held{Dir: d, PID: readPID(f)}
		}
		return nil, fmt.Errorf("lock %s: %w", d.LockFile(), err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, d.explain(err)
	}
	return &Lock{file: f}, nil
}

// Release lets go.
func (l *Lock) Release() error { return l.file.Close() }

// Holder returns the process that holds the directory; held is false when none does.
func (d Dir) Holder() (pid int, held bool, err error) {
	f, err := os.OpenFile(d.LockFile(), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, d.explain(err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	switch {
	case err == nil: // closing the file lets go again
		return 0, false, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return readPID(f), true, nil
	}
	return 0, false, fmt.Errorf("lock %s: %w", d.LockFile(), err)
}

func readPID(f *os.File) int {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// commandOf returns " (name)" of a process, when the kernel knows it.
func commandOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return " (" + strings.TrimSpace(string(name)) + ")"
}
