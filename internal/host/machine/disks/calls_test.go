//go:build linux

package disks

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// The launcher works for a machine beside its limits: calls are counted before they are looked at, as often as they are
// begun; a signal makes one begin again. rate.Limiter makes them wait when there are too many.
func TestCallsOfAMachineTakeTheirTurn(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	const calls, burst = 5, 1 << 20
	s := &Server{slots: make(chan struct{}, callsAtOnce), calls: rate.NewLimiter(rate.Every(time.Hour), burst)}
	ready, ask, got := make(chan error), make(chan bool), make(chan int)
	defer close(ask)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its filter
		listener, err := listenToCallsOfThisThread()
		if err == nil {
			s.ServeCalls(listener)
		}
		ready <- err
		for range ask {
			got <- unix.Getppid()
		}
	}()
	if err := <-ready; err != nil {
		t.Skipf("nobody can listen to calls here: %v", err)
	}
	for range calls {
		ask <- true
		if parent := <-got; parent != os.Getppid() {
			t.Errorf("a call returns %d, want %d", parent, os.Getppid())
		}
	}
	if left := s.calls.Tokens(); left >= burst-calls+1 {
		t.Errorf("after %d calls %v of %d are left", calls, left, burst)
	}
}

// A process of the host that mounts something begins beside the machine's limits, too. Those of all calls have turns.
func TestProcessesOfAMachineTakeTheirTurn(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	const burst = 1 << 20
	s := &Server{starts: rate.NewLimiter(rate.Every(time.Hour), burst), mounting: make(chan struct{}, 1),
		remoteSlots: make(chan struct{}, 1), attached: map[int]*attached{}}
	nobody := &caller{release: func() {}} // which no listener has
	if err := s.awaitStart(nobody); !errors.Is(err, unix.ENOENT) {
		t.Errorf("for a caller who has ended the error is %v", err)
	}
	if err := s.mountRemote(nobody, "nfs4", 0); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a network file system for a caller who has ended is mounted with %v", err)
	}
	if left := s.starts.Tokens(); left >= burst-1 {
		t.Errorf("after two processes %v of %d are left", left, burst)
	}
}

// listenToCallsOfThisThread makes getppid(2) of the calling thread one that the listener decides about.
func listenToCallsOfThisThread() (*os.File, error) {
	raw, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_GETPPID, SkipFalse: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	})
	if err != nil {
		return nil, err
	}
	instructions := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		instructions[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	program := unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(instructions)
	if errno != 0 {
		return nil, errno
	}
	return os.NewFile(fd, "listener"), nil
}
