package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// handle is a pidfd: it refers to one process even after its number is used again.
type handle struct{ pidfd *os.File }

// startProcess is like [os.StartProcess], and returns a handle of the child.
func startProcess(name string, argv []string, attr *os.ProcAttr) (*os.Process, handle, error) {
	fd := -1
	attr.Sys.PidFD = &fd
	p, err := os.StartProcess(name, argv, attr)
	if err != nil {
		return nil, handle{}, err
	}
	if fd < 0 {
		err := errors.New("the kernel gave no pidfd for the child: Linux 5.10 or newer is needed")
		return nil, handle{}, errors.Join(err, p.Kill())
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, handle{}, errors.Join(err, p.Kill())
	}
	return p, handle{os.NewFile(uintptr(fd), "pidfd")}, nil
}

// openHandle returns a handle of the process that has the number now. The error is errGone if there is none.
func openHandle(pid int) (handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return handle{}, errGone
	}
	if err != nil {
		return handle{}, fmt.Errorf("pidfd_open: %w", err)
	}
	return handle{os.NewFile(uintptr(fd), "pidfd")}, nil
}

// awaitExit returns when the process has ended. It fails when the handle was released.
func (h handle) awaitExit() error {
	raw, err := h.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	// A pidfd becomes readable when its process exits. The runtime's poller waits for that, so
	// that a thousand processes do not take a thousand threads.
	return raw.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		return err == nil && n > 0
	})
}

// sendSignal sends to the very process.
func (h handle) sendSignal(sig syscall.Signal) error {
	raw, err := h.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }) != nil {
		return os.ErrClosed // released; the error itself is of an internal package
	}
	return sent
}

// isAlive reports whether the process has not ended.
func (h handle) isAlive() bool {
	raw, err := h.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	ended := true
	// A pidfd becomes readable when its process exits.
	err = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		ended = err == nil && n > 0
	})
	return err == nil && !ended
}

func (h handle) release() { _ = h.pidfd.Close() } // closing twice is harmless

// boundMemory bounds the private memory of a process (RLIMIT_DATA).
func boundMemory(pid int, bytes uint64) error {
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
}
