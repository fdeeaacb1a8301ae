package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// handle refers to one process, which it knows by its number and the time of its start: macOS has no pidfd. A kqueue
// tells when it ends.
type handle struct{ *watch }

type watch struct {
	pid      int
	start    uint64
	exited   chan struct{} // closed when the process has ended
	released chan struct{}

	mu    sync.Mutex
	queue int // a kqueue, -1 when it is closed
}

// wake is the identifier of the event that ends the wait for the process.
const wake = 1

// startProcess is like [os.StartProcess], and returns a handle of the child.
func startProcess(name string, argv []string, attr *os.ProcAttr) (*os.Process, handle, error) {
	p, err := os.StartProcess(name, argv, attr)
	if err != nil {
		return nil, handle{}, err
	}
	h, err := openHandle(p.Pid)
	if errors.Is(err, errGone) { // it has ended already, and nobody has reaped it
		h, err = handle{&watch{pid: p.Pid, exited: make(chan struct{}), released: make(chan struct{}), queue: -1}}, nil
		close(h.exited)
	}
	if err != nil {
		return nil, handle{}, errors.Join(err, p.Kill())
	}
	return p, h, nil
}

// openHandle returns a handle of the process that has the number now. The error is errGone if there is none.
func openHandle(pid int) (handle, error) {
	queue, err := unix.Kqueue()
	if err != nil {
		return handle{}, fmt.Errorf("kqueue: %w", err)
	}
	unix.CloseOnExec(queue)
	events := make([]unix.Kevent_t, 2)
	unix.SetKevent(&events[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	events[0].Fflags = unix.NOTE_EXIT
	unix.SetKevent(&events[1], wake, unix.EVFILT_USER, unix.EV_ADD|unix.EV_ONESHOT)
	if _, err := unix.Kevent(queue, events, nil, nil); err != nil {
		unix.Close(queue)
		if errors.Is(err, unix.ESRCH) {
			return handle{}, errGone
		}
		return handle{}, fmt.Errorf("kevent: %w", err)
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		unix.Close(queue)
		return handle{}, errGone
	}
	w := &watch{
		pid: pid, start: startOf(info), exited: make(chan struct{}), released: make(chan struct{}), queue: queue,
	}
	go w.await()
	return handle{w}, nil
}

// await waits for the end of the process, or until the handle is released.
func (w *watch) await() {
	events := make([]unix.Kevent_t, 1)
	n, err := unix.Kevent(w.queue, nil, events, nil)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Kevent(w.queue, nil, events, nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	unix.Close(w.queue)
	w.queue = -1
	if err == nil && n > 0 && events[0].Filter == unix.EVFILT_PROC {
		close(w.exited)
	}
}

// awaitExit returns when the process has ended. It fails when the handle was released.
func (w *watch) awaitExit() error {
	select {
	case <-w.exited:
		return nil
	case <-w.released:
		return os.ErrClosed
	}
}

// sendSignal sends to the process, if it has not ended.
func (w *watch) sendSignal(sig syscall.Signal) error {
	select {
	case <-w.released:
		return os.ErrClosed
	default:
	}
	if !w.isAlive() {
		return unix.ESRCH
	}
	return unix.Kill(w.pid, sig)
}

// isAlive reports whether the process has not ended.
func (w *watch) isAlive() bool {
	select {
	case <-w.exited:
		return false
	case <-w.released:
		return false
	default:
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", w.pid)
	return err == nil && int(info.Proc.P_pid) == w.pid && info.Proc.P_stat != zombie && startOf(info) == w.start
}

// release ends the wait for the process. Releasing twice is harmless.
func (w *watch) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.released:
		return
	default:
	}
	close(w.released)
	if w.queue < 0 {
		return
	}
	event := make([]unix.Kevent_t, 1)
	unix.SetKevent(&event[0], wake, unix.EVFILT_USER, 0)
	event[0].Fflags = unix.NOTE_TRIGGER
	_, _ = unix.Kevent(w.queue, event, nil, nil) // the event was added with the queue
}

// boundMemory returns errors.ErrUnsupported: macOS bounds the memory of no other process.
func boundMemory(int, uint64) error { return errors.ErrUnsupported }
