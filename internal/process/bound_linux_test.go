package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
)

func TestAProcessBeyondItsMemoryLimitEnds(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	greedy := f.spec("greedy")
	greedy.Env = append(greedy.Env, "GOTRACEBACK=none")
	greedy.MemoryLimit = 512 << 20
	if _, err := s.Ensure(t.Context(), greedy); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the process has ended and is started again", func() bool {
		return s.List(greedy.Name)[0].Deaths > 0
	})
	log, err := os.ReadFile(greedy.Log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "out of memory") || strings.Contains(string(log), "has 2 GiB") {
		t.Errorf("the log: %s", log)
	}
}

func TestAnAdoptedProcessIsBounded(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	program := f.spec("program")
	if _, err := s.Ensure(t.Context(), program); err != nil { // by a daemon that has no bound yet
		t.Fatal(err)
	}
	program.MemoryLimit = 1 << 30
	status, err := s.Ensure(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(status.PID, unix.RLIMIT_DATA, nil, &limit); err != nil || limit.Max != program.MemoryLimit {
		t.Errorf("%+v, %v", limit, err)
	}
}

func TestChildrenDoNotInheritTheScoreOfTheDaemon(t *testing.T) {
	f := newFixture(t)
	if err := ProtectSelf(-850); errors.Is(err, os.ErrPermission) {
		t.Skip("this host lets nobody lower an OOM score")
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ProtectSelf(0); err != nil {
			t.Error(err)
		}
	}()
	s := f.open()
	for _, want := range []int{0, -500, -900} {
		program := f.spec("program")
		program.Name = fmt.Sprint("score", want)
		program.OOMScoreAdj = want
		status, err := s.Ensure(t.Context(), program)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", status.PID))
		if err != nil || strings.TrimSpace(string(got)) != fmt.Sprint(want) {
			t.Errorf("the score of the child is %s, %v, want %d", got, err, want)
		}
	}
	if got, err := os.ReadFile("/proc/self/oom_score_adj"); err != nil || strings.TrimSpace(string(got)) != "-850" {
		t.Errorf("the score of the daemon is %s, %v", got, err)
	}
}
