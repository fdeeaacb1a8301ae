package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// The test binary plays the programs that are run, and a daemon that is killed.
func TestMain(m *testing.M) {
	switch role := os.Getenv("ROLE"); role {
	case "":
		os.Exit(m.Run())
	case "program":
		fmt.Println("hello from", os.Args[1])
		pause()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		pause()
	case "parent": // of a process that it leaves behind in its session
		c := exec.Command(os.Args[0], "grandchild")
		c.Env = append(os.Environ(), "ROLE=program")
		if err := c.Start(); err != nil {
			panic(err)
		}
		pause()
	case "greedy": // as a component whose API is a tenant's
		var all [][]byte
		for {
			block := make([]byte, 16<<20)
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			if all = append(all, block); len(all) == 128 {
				fmt.Println("has 2 GiB")
				pause()
			}
		}
	case "caller": // says which of the addresses it can connect to
		for _, address := range os.Args[2:] {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				err = conn.Close()
			}
			fmt.Printf("%s: %v\n", address, err)
		}
		fmt.Println("done")
		pause()
	case "mortal":
		os.Exit(3)
	case "daemon": // dies where CORACLE_CRASH_AT says
		s, err := Open(Options{Identity: identity(os.Args[1])})
		if err != nil {
			panic(err)
		}
		if _, err := s.Ensure(context.Background(), spec(os.Args[2], "program")); err != nil {
			panic(err)
		}
		pause()
	}
}

// pause waits for a signal. A select without cases would be taken for a deadlock.
func pause() {
	for {
		time.Sleep(time.Hour)
	}
}

func identity(owner string) Identity { return Identity{Owner: owner, Key: []byte("key of " + owner)} }

func spec(dir, role string, args ...string) Spec {
	return Spec{
		Name: "cluster/" + role,
		Path: os.Args[0],
		Args: append([]string{role}, args...),
		Env:  []string{"ROLE=" + role, "DIR=" + dir},
		Log:  filepath.Join(dir, role+".log"),
	}
}

type fixture struct {
	*testing.T
	owner string
	dir   string

	mu     sync.Mutex
	events []Event
}

func newFixture(t *testing.T) *fixture {
	t.Parallel()
	f := &fixture{T: t, dir: t.TempDir()}
	f.owner = "test-" + strconv.Itoa(os.Getpid()) + "-" + strings.ReplaceAll(t.Name(), "/", "-")
	t.Cleanup(func() {
		if _, err := Kill(f.owner); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) spec(role string, args ...string) Spec {
	s := spec(f.dir, role, args...)
	exe, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	s.Path = exe
	return s
}

func (f *fixture) open() *Supervisor {
	f.Helper()
	s, err := Open(Options{Identity: identity(f.owner), MinBackoff: 10 * time.Millisecond,
		MaxBackoff: 80 * time.Millisecond, Events: func(e Event) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, e)
		}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	return s
}

func (f *fixture) ensure(s *Supervisor, spec Spec) Status {
	f.Helper()
	st, err := s.Ensure(f.Context(), spec)
	if err != nil {
		f.Fatal(err)
	}
	return st
}

func status(s *Supervisor, name string) Status {
	for _, st := range s.List("") {
		if st.Name == name {
			return st
		}
	}
	return Status{}
}

func TestOutputGoesToTheLogAndNoFileIsInherited(t *testing.T) {
	f := newFixture(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	st := f.ensure(f.open(), f.spec("program"))
	eventually.True(f, "output", func() bool {
		b, _ := os.ReadFile(filepath.Join(f.dir, "program.log"))
		return string(b) == "hello from program\n"
	})
	for _, target := range openFiles(t, st.PID) {
		if strings.HasPrefix(target, "socket:") {
			t.Errorf("the child has inherited a socket, %s", target)
		}
	}
	if sid, err := syscall.Getpgid(st.PID); err != nil || sid != st.PID {
		t.Errorf("process group is %d (%v), want its own, %d", sid, err, st.PID)
	}
}

func TestEnsureAgainChangesNothingAndAnotherSpecificationReplaces(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	first := f.ensure(s, f.spec("program"))
	if again := f.ensure(s, f.spec("program")); again.PID != first.PID {
		t.Errorf("the same specification restarted the process: %d, then %d", first.PID, again.PID)
	}
	changed := f.spec("program", "--more")
	second := f.ensure(s, changed)
	if second.PID == first.PID || alive(first.PID) {
		t.Errorf("another specification did not replace the process %d", first.PID)
	}
	changed.Revision = "of a file"
	if third := f.ensure(s, changed); third.PID == second.PID {
		t.Error("another revision did not replace the process")
	}
}

func TestAdoption(t *testing.T) {
	f := newFixture(t)
	before := f.open()
	earliest := time.Now()
	first := f.ensure(before, f.spec("program"))
	before.Close()
	if !alive(first.PID) {
		t.Fatal("the process ended with its supervisor")
	}

	after := f.open()
	if st := status(after, "cluster/program"); !st.Running || st.PID != first.PID {
		t.Fatalf("the process is not listed before it is claimed: %+v", st)
	}
	adopted := f.ensure(after, f.spec("program"))
	if adopted.PID != first.PID {
		t.Fatalf("adopted %d, want %d", adopted.PID, first.PID)
	}
	// The kernel counts hundredths of a second.
	if s := adopted.Started; s.Before(earliest.Add(-time.Second)) || s.After(first.Started.Add(time.Second)) {
		t.Errorf("it was started at %v, not between %v and %v", s, earliest, first.Started)
	}
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually.True(f, "a new process after the adopted one died", func() bool {
		st := status(after, "cluster/program")
		return st.Running && st.PID != first.PID && st.Deaths == 1
	})
}

func TestAdoptionOfAnotherSpecificationReplaces(t *testing.T) {
	f := newFixture(t)
	before := f.open()
	first := f.ensure(before, f.spec("program"))
	before.Close()
	second := f.ensure(f.open(), f.spec("program", "--more"))
	if second.PID == first.PID || alive(first.PID) {
		t.Error("a process with outdated arguments was kept")
	}
}

func TestDaemonKilledBetweenForkAndAnythingElse(t *testing.T) {
	crash.Require(t)
	for _, point := range []string{"process/before-fork", "process/after-fork"} {
		t.Run(point, func(t *testing.T) {
			f := newFixture(t)
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			// The daemon runs the test binary under its own name too.
			daemon := exec.Command(exe, f.owner, f.dir)
			daemon.Env = append(os.Environ(), "ROLE=daemon", crash.Environment+"="+point)
			err = daemon.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the daemon did not die at %s: %v", point, err)
			}
			want := 0
			if point == "process/after-fork" {
				want = 1
			}
			// The kernel shows the environment of a program some microseconds after it began to execute it.
			var found []Found
			eventually.True(f, fmt.Sprintf("the processes left are %d", want), func() bool {
				found, err = Find(identity(f.owner))
				return err == nil && len(found) == want
			})
			s := f.open()
			st := f.ensure(s, spec(f.dir, "program"))
			if want == 1 && st.PID != found[0].PID {
				t.Errorf("process %d was not adopted: %d runs", found[0].PID, st.PID)
			}
			eventually.True(f, "one process", func() bool {
				all, err := Find(identity(f.owner))
				return err == nil && len(all) == 1
			})
		})
	}
}

func TestDeathsAreFollowedByLongerPauses(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	f.ensure(s, f.spec("mortal"))
	// The count is higher some microseconds before the event is told.
	eventually.True(f, "five deaths", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		deaths := 0
		for _, e := range f.events {
			if e.Died {
				deaths++
			}
		}
		return deaths >= 5
	})
	if st := status(s, "cluster/mortal"); st.LastExit != "exit status 3" {
		t.Errorf("last exit is %q", st.LastExit)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var died []time.Time
	for _, e := range f.events {
		if e.Died {
			died = append(died, e.Status.Next)
		}
	}
	if gap := died[4].Sub(died[3]); gap < 80*time.Millisecond {
		t.Errorf("the fifth attempt came %v after the fourth, want at least 80 ms", gap)
	}
}

func TestAProcessThatRanForAWhileStartsOver(t *testing.T) {
	f := newFixture(t)
	s, err := Open(Options{Identity: identity(f.owner), MinBackoff: time.Millisecond, Healthy: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	st := f.ensure(s, f.spec("program"))
	for range 3 {
		if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		old := st.PID
		eventually.True(f, "restart", func() bool {
			st = status(s, "cluster/program")
			return st.Running &&
				st.PID != old
		})
		if st.Deaths != 1 {
			t.Errorf("%d deaths are remembered, want 1", st.Deaths)
		}
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	sp := f.spec("stubborn")
	sp.Grace = 50 * time.Millisecond
	st := f.ensure(s, sp)
	eventually.True(f, "ready", func() bool {
		b, _ := os.ReadFile(sp.Log)
		return string(b) == "ready\n"
	})
	if err := s.Stop(t.Context(), sp.Name); err != nil {
		t.Fatal(err)
	}
	if alive(st.PID) {
		t.Error("it still runs")
	}
	if all := s.List(""); len(all) != 0 {
		t.Errorf("it is still listed: %+v", all)
	}
	if st := f.ensure(s, sp); !st.Running {
		t.Error("it cannot be started again")
	}
}

func TestStopTakesTheWholeGroup(t *testing.T) {
	for _, adopted := range []bool{false, true} {
		t.Run(fmt.Sprintf("adopted=%v", adopted), func(t *testing.T) {
			f := newFixture(t)
			s := f.open()
			f.ensure(s, f.spec("parent"))
			eventually.True(f, "a grandchild", func() bool { all, _ := Find(identity(f.owner)); return len(all) == 2 })
			if adopted {
				s.Close()
				s = f.open()
			}
			if err := s.Stop(t.Context(), "cluster/parent"); err != nil {
				t.Fatal(err)
			}
			eventually.True(f, "an empty group",
				func() bool { all, _ := Find(identity(f.owner)); return len(all) == 0 })
		})
	}
}

func TestKillFindsEverything(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	f.ensure(s, f.spec("parent"))
	f.ensure(s, f.spec("stubborn"))
	eventually.True(f, "a grandchild", func() bool { all, _ := Find(identity(f.owner)); return len(all) == 3 })
	s.Close()
	killed, err := Kill(f.owner)
	if err != nil || killed < 2 {
		t.Errorf("killed %d (%v)", killed, err)
	}
	if all, _ := Find(identity(f.owner)); len(all) != 0 {
		t.Errorf("%d are left", len(all))
	}
}

func TestAMissingProgramIsAnErrorThatNamesIt(t *testing.T) {
	f := newFixture(t)
	sp := f.spec("program")
	sp.Path = filepath.Join(f.dir, "no-such-program")
	if _, err := f.open().Ensure(t.Context(), sp); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("error is %v", err)
	}
}

func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	w, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const limit = 1 << 20
	line := []byte(strings.Repeat("x", 1023) + "\n")
	write := func(n int) {
		for range n {
			if _, err := w.Write(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(limit / len(line))
	if err := trimLog(name, limit); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(name); bytes.Contains(b, []byte{0}) {
		t.Error("a log within its limit was trimmed")
	}
	write(4 * limit / len(line))
	if err := trimLog(name, limit); err != nil {
		t.Fatal(err)
	}
	write(1)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if taken := info.Sys().(*syscall.Stat_t).Blocks * 512; taken > limit+64<<10 {
		t.Errorf("a trimmed log takes %d bytes", taken)
	}
	if want := int64(5*limit + len(line)); info.Size() != want {
		t.Errorf("its length is %d, want %d: what is in it must not move", info.Size(), want)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if kept := b[4*limit:]; !bytes.Equal(kept, bytes.Repeat(line, len(kept)/len(line))) {
		t.Error("the end of a trimmed log has changed")
	}
}

func TestLogsAreBoundedWhereHolesCannotBeHad(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	w, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Truncate(1 << 40); err != nil { // what is a hole is not copied
		t.Fatal(err)
	}
	fmt.Fprint(w, "0123456789a")
	if err := putAside(name, 11); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, "b")
	if b, _ := os.ReadFile(name); string(b) != "b" {
		t.Errorf("log is %q, want b", b)
	}
	if b, _ := os.ReadFile(name + ".1"); string(b) != "0123456789a" {
		t.Errorf("old log is %q", b)
	}
}

func TestALogIsARegularFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	host, link, fifo := filepath.Join(dir, "host"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(host, []byte("the host's"), 0o600), os.Symlink(host, link),
		unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	// so that it can be opened for writing
	reader, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(reader)
	for _, name := range []string{link, fifo} {
		if f, err := openOutput(name); err == nil {
			f.Close()
			t.Errorf("%s was opened as a log", name)
		}
		if err := putAside(name, 5); err == nil {
			t.Errorf("%s was put aside", name)
		}
	}
	if b, err := os.ReadFile(host); err != nil || string(b) != "the host's" {
		t.Errorf("the host's file is %q, %v", b, err)
	}
}
