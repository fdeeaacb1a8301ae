//go:build linux

package machine

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// jail makes a directory with one program in it, "/init", into which every user can change.
func jail(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	place := func(from, to string) {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		testenv.WriteProgram(t, to, content)
	}
	place("/proc/self/exe", "init")
	for from, to := range libraries(t) {
		place(from, to)
	}
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// libraries returns the files of the host that this program needs, with their paths: some when it is built with the
// race detector.
func libraries(t *testing.T) map[string]string {
	t.Helper()
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	interpreter := program.Section(".interp")
	if interpreter == nil {
		return nil
	}
	path, err1 := interpreter.Data()
	maps, err2 := os.ReadFile("/proc/self/maps")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	name := strings.TrimRight(string(path), "\x00")
	found := map[string]string{name: name}
	for line := range strings.Lines(string(maps)) {
		if f := strings.Fields(line); len(f) == 6 && strings.Contains(f[5], ".so.") {
			found[f[5]] = f[5]
		}
	}
	return found
}

// pretend starts what looks like a machine, with the marks of a real one: a session leader in the host's PID
// namespace, and a process 1 with a root of its own.
func pretend(t *testing.T, marks []string, user uint32, root string) (leader int) {
	t.Helper()
	args := []string{"--pid", "--fork", "--kill-child", "--root=" + root}
	if user != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	cmd := exec.Command("unshare", append(args, "/init", "init")...)
	cmd.Env, cmd.Dir = append(slices.Clone(marks), "PATH=/usr/bin:/bin:/usr/sbin:/sbin"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: user, Gid: user}}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var end error
	go func() {
		defer close(ended)
		end = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the test may have ended it
		<-ended
	})
	eventually.Nil(t, "the impostor runs", func() error {
		select {
		case <-ended:
			return eventually.Never(fmt.Errorf("it ended: %w: %s", end, said.String()))
		default:
		}
		if _, ok := initChild(cmd.Process.Pid); !ok {
			return errors.New("it has no process 1")
		}
		return nil
	})
	return cmd.Process.Pid
}

func marksOf(t *testing.T, pid int) (marks []string) {
	t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	for v := range strings.SplitSeq(string(environ), "\x00") {
		if strings.HasPrefix(v, "CORACLE_PROCESS") {
			marks = append(marks, v)
		}
	}
	if len(marks) != 3 {
		t.Fatalf("marks of process %d are %q", pid, marks)
	}
	return marks
}

func running(pid int) bool { return syscall.Kill(pid, 0) == nil }

// A user of this host, or a pod, that knows the marks of a machine's process is nobody to the daemon and to "coracle
// exec".
func TestImpostorsOfAMachine(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	root := jail(t)
	// The marks of a machine that does not run yet can be computed, all but the proof.
	early := pretend(t, []string{"CORACLE_PROCESS=" + h.owner + "/machine/" + one}, 65534, root)
	h.plug(one)
	h.launch(one, "m5.large")
	h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
	launched := h.processes.List(namePrefix)[0].PID
	marks := marksOf(t, launched)
	const host = "ip-10-0-0-4.eu-west-1.compute.internal"
	boot := h.run(one, "cat /proc/sys/kernel/random/boot_id; hostname")
	if !strings.HasSuffix(boot, host) {
		t.Fatalf("the machine says %q", boot)
	}

	impostors := []int{early, pretend(t, marks, 65534, root)}
	// From within the machine, as its root.
	h.run(one, "setsid env -i "+strings.Join(marks, " ")+" sleep 1000000 </dev/null >/dev/null 2>&1 &")
	eventually.True(t, "a process in the machine shows the marks", func() bool {
		groups, err := cgroup.Open()
		if err != nil {
			return false
		}
		pids, err := groups.Group(h.owner, one).Processes()
		return err == nil && slices.ContainsFunc(pids, func(pid int) bool {
			environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			return err == nil && strings.Contains(string(environ), marks[0])
		})
	})
	// Init has no mark that a pod could copy.
	init, err := findInit(machinetest.Identity(h.owner), one)
	if err != nil {
		t.Fatal(err)
	}
	if environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", init.pid)); err != nil ||
		strings.Contains(string(environ), "CORACLE_PROCESS") {
		t.Errorf("the environment of init is %q, %v", environ, err)
	}
	init.Close()

	real := func(what string) {
		t.Helper()
		if got := h.run(one, "cat /proc/sys/kernel/random/boot_id; hostname"); got != boot {
			t.Errorf("%s: a command ran in %q, want %q", what, got, boot)
		}
		for _, pid := range impostors {
			if !running(pid) {
				t.Errorf("%s: process %d, which is not the daemon's, was ended", what, pid)
			}
		}
	}
	real("beside impostors")
	h.down()
	h.up()
	h.until(one, "running after a restart of the daemon", inState(ec2types.InstanceStateNameRunning))
	eventually.True(t, "the daemon has adopted the machine", func() bool {
		all := h.processes.List(namePrefix)
		return len(all) == 1 && all[0].PID == launched && all[0].Problem == ""
	})
	real("after a restart of the daemon")

	// Root can copy everything. Nobody can tell the two apart then.
	twin := pretend(t, marks, 0, root)
	var ambiguous *process.AmbiguousError
	if _, err := Exec(t.Context(), machinetest.Identity(h.owner), one, Command{Args: []string{"true"}}); !errors.As(err,
		&ambiguous) ||
		!strings.Contains(err.Error(), strconv.Itoa(twin)) || !strings.Contains(err.Error(), strconv.Itoa(launched)) {
		t.Errorf("with a twin: %v", err)
	}
	h.down()
	h.up()
	eventually.True(t, "the daemon sees the twins", func() bool {
		all := h.processes.List(namePrefix)
		return len(all) == 1 && all[0].Problem != "" && all[0].PID == 0
	})
	if !running(twin) || !running(launched) {
		t.Error("one of the twins was ended")
	}
	if err := syscall.Kill(twin, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the daemon adopts the one that is left", func() bool {
		all := h.processes.List(namePrefix)
		return len(all) == 1 && all[0].PID == launched && all[0].Problem == ""
	})
	real("without the twin")
}
