package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
)

func TestAProcessConnectsToItsPortsAlone(t *testing.T) {
	rules, err := connectRules([]int{1})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this kernel has no rules of Landlock for networks")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := rules.Close(); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	s := f.open()
	own, other := listen(t), listen(t)
	caller := f.spec("caller", own.String(), other.String())
	caller.ConnectPorts = []int{own.Port}
	free := f.spec("caller", other.String()) // beside it, by the same daemon
	free.Name, free.Log = "free", free.Log+".free"
	for spec, want := range map[*Spec]string{
		&caller: fmt.Sprintf("%s: <nil>\n%s: dial tcp %s: connect: permission denied\ndone\n", own, other, other),
		&free:   fmt.Sprintf("%s: <nil>\ndone\n", other),
	} {
		if _, err := s.Ensure(t.Context(), *spec); err != nil {
			t.Fatal(err)
		}
		var log []byte
		eventually.True(t, spec.Name+" has called", func() bool {
			log, _ = os.ReadFile(spec.Log)
			return strings.Contains(string(log), "done\n")
		})
		if string(log) != want {
			t.Errorf("%s: %q, want %q", spec.Name, log, want)
		}
	}
	if conn, err := net.Dial("tcp", other.String()); err != nil {
		t.Errorf("the daemon itself: %v", err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if caller.Hash() == f.spec("caller", own.String(), other.String()).Hash() {
		t.Error("a process without bounds counts as one with them")
	}
}

// TestWhatKeepsTheKernelFromConfining: who cannot be confined is told why, as each reason has another cure.
func TestWhatKeepsTheKernelFromConfining(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]struct {
		version int
		errno   unix.Errno
	}{
		"":                           {landlockNetworks, 0},
		"seccomp profile":            {-1, unix.EPERM},
		"lsm= on its command line":   {-1, unix.EOPNOTSUPP},
		"the kernel has no Landlock": {-1, unix.ENOSYS},
		"version 3 of Landlock":      {3, 0},
	} {
		err := checkLandlock(answer.version, answer.errno)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", answer, err, want)
		}
	}
}

func listen(t *testing.T) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().(*net.TCPAddr)
}
