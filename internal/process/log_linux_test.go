package process

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A machine has its console open, and can take a lease on it: whoever opens the file for writing then waits for the
// machine.
func TestALeaseOnALogIsNotAwaited(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	w, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const limit = 64 << 10
	if _, err := w.Write(make([]byte, 4*limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("the file system has no leases:", err)
	}
	if err := trimLog(name, limit); err != nil {
		t.Error(err)
	}
	taken := func() int64 {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	// The kernel takes the lease away from who does not give it back, after 45 seconds by default.
	if got := taken(); got < 4*limit {
		t.Errorf("the log takes %d bytes: it was trimmed when the lease had ended", got)
	}
	if err := putAside(name, limit); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("put aside: %v, want EWOULDBLOCK", err)
	}
	if _, err := openOutput(name); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("open for the next process: %v, want EWOULDBLOCK", err)
	}
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Fatal(err)
	}
	if err := trimLog(name, limit); err != nil {
		t.Error(err)
	}
	if got := taken(); got > 2*limit {
		t.Errorf("a trimmed log takes %d bytes", got)
	}
}
