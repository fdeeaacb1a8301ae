package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
)

const nobody = 65534

// impostor starts a program with the given marks in its environment, and returns its number once the kernel shows them.
func (f *fixture) impostor(path string, attributes syscall.SysProcAttr, marks ...string) int {
	f.Helper()
	cmd := exec.Command(path, "1000000")
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, marks...)
	cmd.Dir = "/"
	attributes.Setsid = true
	cmd.SysProcAttr = &attributes
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = cmd.Process.Kill() // a test may have ended it
		_ = cmd.Wait()
	})
	eventually.True(f, "the impostor shows its marks", func() bool {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
		return err == nil && strings.Contains(string(environ), mark)
	})
	return cmd.Process.Pid
}

// marks returns the marks that a supervisor of the fixture's identity gives to a process: those that the best informed
// impostor has.
func (f *fixture) marks(spec Spec) []string {
	id := identity(f.owner)
	return []string{mark + f.owner + "/" + spec.Name, specMark + spec.Hash(), proofMark +
		id.signMark(spec.Name, spec.Hash())}
}

func needRoot(t *testing.T) {
	t.Helper()
	testenv.NeedsRoot(t)
}

func TestOnlyThisUserInTheseNamespacesIsBelieved(t *testing.T) {
	needRoot(t)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	// A program that runs as root with the environment of whoever calls it, as su and passwd do.
	content, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	setuid := filepath.Join(dir, "sleep")
	testenv.WriteProgram(t, setuid, content)
	for name, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o755,
		setuid: 0o755 | os.ModeSetuid} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	asNobody := &syscall.Credential{Uid: nobody, Gid: nobody}
	inside := []syscall.SysProcIDMap{{ContainerID: 0, HostID: nobody, Size: 1}}
	whole := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	for _, c := range []struct {
		name       string
		path       string
		attributes syscall.SysProcAttr
	}{
		{"another user", sleep, syscall.SysProcAttr{Credential: asNobody}},
		{"another user in a set-user-ID program", setuid, syscall.SysProcAttr{Credential: asNobody}},
		{"root of another user's namespaces", sleep, syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID, UidMappings: inside, GidMappings: inside}},
		{"root in another user namespace", sleep, syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: whole, GidMappings: whole}},
		{"root in another PID namespace", sleep, syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			spec := f.spec("program")
			impostors := []int{f.impostor(c.path, c.attributes, f.marks(spec)...)}
			s := f.open()
			real := f.ensure(s, spec)
			if slices.Contains(impostors, real.PID) {
				t.Fatal("the impostor was adopted while nothing else ran")
			}
			impostors = append(impostors, f.impostor(c.path, c.attributes, f.marks(spec)...))
			s.Close()

			found, err := Find(identity(f.owner))
			if err != nil || len(found) != 1 || found[0].PID != real.PID {
				t.Errorf("found %+v, %v; want process %d", found, err, real.PID)
			}
			handle, err := Hold(identity(f.owner), spec.Name)
			if err != nil {
				t.Fatal(err)
			}
			defer handle.Close()
			if handle.PID() != real.PID || !handle.Alive() {
				t.Errorf("holding process %d, want %d", handle.PID(), real.PID)
			}
			s = f.open()
			if st := f.ensure(s, spec); st.PID != real.PID || st.Problem != "" {
				t.Errorf("adopted %+v, want process %d", st, real.PID)
			}
			changed := f.spec("program", "--more")
			if st := f.ensure(s, changed); st.PID == real.PID || slices.Contains(impostors, st.PID) || alive(real.PID) {
				t.Errorf("another specification did not replace process %d: %+v", real.PID, st)
			}
			if err := s.Stop(t.Context(), spec.Name); err != nil {
				t.Error(err)
			}
			if handle.Alive() {
				t.Error("the handle of an ended process says that it is alive")
			}
			if _, err := Hold(identity(f.owner), spec.Name); !errors.Is(err, ErrNotRunning) {
				t.Errorf("holding what has ended: %v", err)
			}
			if killed, err := Kill(f.owner); killed != 0 || err != nil {
				t.Errorf("Kill ended %d processes, %v", killed, err)
			}
			for _, pid := range impostors {
				if !alive(pid) {
					t.Errorf("process %d, which is not ours, was ended", pid)
				}
			}
		})
	}
}

func TestACopiedProofIsReportedAndNothingIsTouched(t *testing.T) {
	f := newFixture(t)
	spec := f.spec("program")
	copies := []int{f.impostor("/bin/sleep", syscall.SysProcAttr{}, f.marks(spec)...)}
	real, err := launchProcess(identity(f.owner), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = real.ours.Kill() // the test may have ended it
		_, _ = real.ours.Wait()
	})
	copies = append(copies, f.impostor("/bin/sleep", syscall.SysProcAttr{}, f.marks(spec)...))
	eventually.True(f, "all show their marks", func() bool {
		found, err := Find(identity(f.owner))
		return err == nil && len(found) == 3
	})
	want := append([]int{real.pid}, copies...)
	slices.Sort(want)
	refused := func(what string, err error) {
		t.Helper()
		var ambiguous *AmbiguousError
		if !errors.As(err, &ambiguous) || !slices.Equal(ambiguous.PIDs, want) || ambiguous.Name != spec.Name {
			t.Errorf("%s: %v; want an error about %v", what, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("ps -o pid,ppid,lstart,args -p %d,%d,%d", want[0],
			want[1], want[2])) {
			t.Errorf("%s: %q does not say what to do", what, err)
		}
	}
	_, err = Hold(identity(f.owner), spec.Name)
	refused("Hold", err)
	s := f.open()
	_, err = s.Ensure(t.Context(), spec)
	refused("Ensure", err)
	_, err = s.Ensure(t.Context(), f.spec("program", "--more"))
	refused("Ensure of another specification", err)
	refused("Stop", s.Stop(t.Context(), spec.Name))
	if st := status(s, spec.Name); !st.Running || st.PID != 0 || !strings.Contains(st.Problem, "carry the mark of "+
		spec.Name) {
		t.Errorf("status is %+v", st)
	}
	for _, pid := range want {
		if !alive(pid) {
			t.Errorf("process %d was ended", pid)
		}
	}

	// Somebody does what the message says.
	for _, pid := range copies {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	eventually.Nil(f, "the one that is left is adopted", func() error {
		st, err := s.Ensure(t.Context(), spec)
		if err == nil && (st.PID != real.pid || st.Problem != "") {
			err = fmt.Errorf("status is %+v, want process %d", st, real.pid)
		}
		return err
	})
}

func TestWithoutProofNothingIsAdopted(t *testing.T) {
	unsigned := func(f *fixture, spec Spec) []string { return f.marks(spec)[:2] }
	other := func(f *fixture, spec Spec) []string {
		id := Identity{Owner: f.owner, Key: []byte("another key")}
		return append(unsigned(f, spec), proofMark+id.signMark(spec.Name, spec.Hash()))
	}
	anotherName := func(f *fixture, spec Spec) []string {
		marks := f.marks(spec)
		spec.Name = "cluster/other"
		return append(marks[:2], f.marks(spec)[2])
	}
	for name, marks := range map[string]func(*fixture, Spec) []string{
		"no proof": unsigned, "proof of another key": other, "proof of another name": anotherName,
	} {
		t.Run(name+", alone", func(t *testing.T) {
			f := newFixture(t)
			spec := f.spec("program")
			impostor := f.impostor("/bin/sleep", syscall.SysProcAttr{}, marks(f, spec)...)
			if found, err := Find(identity(f.owner)); err != nil || len(found) != 0 {
				t.Errorf("found %+v, %v", found, err)
			}
			if claims, err := Claims(f.owner); err != nil || len(claims) != 1 || claims[0].PID != impostor {
				t.Errorf("claims are %+v, %v", claims, err)
			}
			// A process of an earlier version must not keep its ports.
			if st := f.ensure(f.open(), spec); st.PID == impostor || alive(impostor) {
				t.Errorf("process %d is in the way: %+v", impostor, st)
			}
		})
		t.Run(name+", beside ours", func(t *testing.T) {
			f := newFixture(t)
			spec := f.spec("program")
			s := f.open()
			impostors := []int{f.impostor("/bin/sleep", syscall.SysProcAttr{}, marks(f, spec)...)}
			real := f.ensure(s, spec)
			impostors = append(impostors, f.impostor("/bin/sleep", syscall.SysProcAttr{}, marks(f, spec)...))
			s.Close()
			s = f.open()
			if st := f.ensure(s, spec); st.PID != real.PID || st.Problem != "" {
				t.Errorf("adopted %+v, want process %d", st, real.PID)
			}
			for _, pid := range impostors {
				if !alive(pid) {
					t.Errorf("process %d was ended", pid)
				}
			}
		})
	}
}

func TestKillNeedsNoKey(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	st := f.ensure(s, f.spec("program"))
	s.Close()
	if found, err := Find(Identity{Owner: f.owner}); err != nil || len(found) != 0 {
		t.Errorf("without a key %+v is believed, %v", found, err)
	}
	if killed, err := Kill(f.owner); err != nil || killed != 1 || alive(st.PID) {
		t.Errorf("killed %d, %v", killed, err)
	}
	if _, err := Kill(""); err == nil {
		t.Error("Kill without an owner has no error")
	}
}

func TestUsersOfAProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status string
		want   bool
	}{
		{"Name:\tsleep\nUid:\t7\t7\t7\t7\nGid:\t0\t0\t0\t0\n", true},
		{"Name:\tsleep\nUid:\t8\t7\t7\t7\n", false},
		{"Name:\tsleep\nUid:\t7\t8\t7\t7\n", false},
		{"Name:\tsleep\nUid:\t7\t7\t8\t7\n", false},
		{"Name:\tsleep\nUid:\t7\t7\t7\t8\n", false},
		{"Name:\tsleep\nUid:\t7\t7\t7\n", false},
		{"Name:\tUid:\t7\t7\t7\t7\n", false},
		{"", false},
	} {
		if got := isRunByUser(c.status, 7); got != c.want {
			t.Errorf("%q: %v, want %v", c.status, got, c.want)
		}
	}
}
