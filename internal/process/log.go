package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Trim gives the disk space of what a log holds before offset back to the file system. The file
// keeps its length and reads as zeros there, so that nothing else moves: its writers, which have it
// open with O_APPEND, and readers further on notice nothing, and no line is lost. The error is
// errors.ErrUnsupported where the file system cannot punch holes (fallocate(2)).
func Trim(name string, offset int64) error {
	offset -= offset % int64(os.Getpagesize())
	if offset <= 0 {
		return nil
	}
	f, err := openLog(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	err = punchHole(f, offset)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("punch a hole into %s: %w", name, errors.ErrUnsupported)
	}
	return err
}

// openLog opens a log, which its writer may have been given to: a machine has its console. A writer can hold a lease
// on the file (fcntl(2), F_SETLEASE), for which openLog does not wait: the error is unix.EWOULDBLOCK, and the kernel
// takes the lease away some time later. Logs are regular files, and no symbolic links.
func openLog(name string, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("a log is a regular file, and this is none")}
	}
	if err == nil {
		err = unix.SetNonblock(int(f.Fd()), false) // a child has it as its output
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Excess returns the number of bytes of a log that precede its last limit bytes, 0 while it takes no more than limit on
// the disk.
func Excess(info fs.FileInfo, limit int64) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Blocks*512 <= limit {
		return 0 // holes take nothing
	}
	return max(0, info.Size()-limit)
}

// trimLogs bounds the logs.
func (s *Supervisor) trimLogs() {
	ticker := s.o.Clock.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-ticker.C():
		}
		s.mu.Lock()
		children := slices.Collect(maps.Values(s.children))
		s.mu.Unlock()
		for _, c := range children {
			c.mu.Lock()
			spec := c.spec
			c.mu.Unlock()
			if spec.Log == "" || spec.LogLimit < 0 {
				continue
			}
			if err := trimLog(spec.Log, spec.logLimit()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.o.Log.Warn("could not trim a log", "log", spec.Log, "error", err)
			}
		}
	}
}

// trimLog removes all but the last limit bytes of a log. It skips a log whose writer holds a lease on it, until the
// next time.
func trimLog(name string, limit int64) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	excess := Excess(info, limit)
	if excess == 0 {
		return nil
	}
	err = Trim(name, excess)
	if errors.Is(err, errors.ErrUnsupported) {
		err = putAside(name, limit)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	return err
}

// putAside moves the last limit bytes of a log to name + ".1" where holes cannot be had: they are copied and
// the file cut, and what is written between the two is lost.
func putAside(name string, limit int64) error {
	in, err := openLog(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(name), ".rotate-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	if _, err := io.Copy(out, io.NewSectionReader(in, max(0, info.Size()-limit), limit)); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Close(); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), name+".1"); err != nil {
		return err
	}
	return in.Truncate(0)
}
