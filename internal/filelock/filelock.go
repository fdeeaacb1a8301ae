// Package filelock takes locks that programs of one host share, by flock(2) on a file.
//
// Whoever can open a file, even just for reading, can lock it, and keep everybody else waiting. So lock files are their
// owner's alone, and a wait has an end, which says who holds the lock. The kernel drops the locks of a process
// that dies.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// retry is the time between two attempts to take a lock: flock(2) itself waits without a limit.
const retry = 20 * time.Millisecond

// Lock takes the lock of a file, which it creates if it is missing, in a directory that has to exist. If another
// process holds the lock, Lock calls waiting once, unless that is nil, and waits until ctx ends. The error then
// wraps the cause of ctx and names the process. The caller calls unlock.
func Lock(ctx context.Context, name string, waiting func()) (unlock func(), err error) {
	file, err := openLockFile(name)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	timer := time.NewTicker(retry)
	defer timer.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			who := describeHolder(file)
			file.Close()
			return nil, fmt.Errorf("lock %s: %s holds it: %w", name, who, context.Cause(ctx))
		case <-timer.C:
		}
	}
}

// openLockFile opens a lock file and makes it its owner's alone. That owner is this user, or the one whose directory it
// is in, who could replace it anyway.
func openLockFile(name string) (*os.File, error) {
	// O_NONBLOCK is for what is no file: opening a FIFO would wait for its writer.
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("it is a symbolic link, which no lock of coracle is: remove it")
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), name)
	var s, dir unix.Stat_t
	err = errors.Join(unix.Fstat(fd, &s), unix.Stat(filepath.Dir(name), &dir))
	switch {
	case err != nil:
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errors.New("it is no regular file, which every lock of coracle is: remove it")
	case int(s.Uid) != os.Geteuid() && s.Uid != dir.Uid:
		err = fmt.Errorf("it belongs to user %d, who could hold it for ever: remove it", s.Uid)
	case s.Mode&0o077 != 0 && int(s.Uid) == os.Geteuid():
		err = file.Chmod(0o600) // of an earlier version
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// describeHolder returns the holder of a lock as "process 7 (coracle)", from /proc/locks: "3: FLOCK ADVISORY WRITE 7
// fe:00:10608760 0 EOF".
func describeHolder(file *os.File) string {
	const unknown = "another process"
	var s syscall.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err != nil || syscall.Fstat(int(file.Fd()), &s) != nil {
		return unknown
	}
	want := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(s.Dev)), unix.Minor(uint64(s.Dev)), s.Ino)
	for line := range strings.Lines(string(locks)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != want { // who waits has an arrow before FLOCK
			continue
		}
		pid, err := strconv.Atoi(fields[4])
		if err != nil || pid <= 0 {
			continue // in another PID namespace
		}
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			continue
		}
		return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(command)))
	}
	return unknown
}
