package pid1

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// inContainer selects the role of this program in the container of a test: process 1 where it is the first, else what
// process 1 runs.
const inContainer = "CORACLE_TEST_PID1"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(inContainer) == "":
		os.Exit(m.Run())
	case Is():
		status, err := Run()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
		os.Exit(status)
	}
	os.Exit(serve())
}

// serve leaves one process that has ended and one that goes on to process 1, prints what process 1 has as children once
// the former is gone, waits for SIGTERM, and ends with the status 7.
func serve() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if err := exec.Command("sh", "-c", "sh -c 'exit 3' & sleep 600 & exit 0").Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err := eventually.Try(time.Millisecond, func() error {
		// Orphans are children of its first thread, this process of whichever thread started it.
		threads, err := filepath.Glob("/proc/1/task/*/children")
		if err != nil {
			return err
		}
		var children []string
		for _, thread := range threads {
			out, err := os.ReadFile(thread)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			children = append(children, strings.Fields(string(out))...)
		}
		if len(children) != 2 {
			return fmt.Errorf("the children of process 1 are %q", children)
		}
		return nil
	})
	fmt.Println("serving", err)
	<-signals
	return 7
}

// TestRun checks what a container runtime relies on: orphans are waited for, signals arrive, the exit status is that of
// the daemon, and nothing is left.
func TestRun(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", program)
	cmd.Env = append(os.Environ(), inContainer+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "serving <nil>\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	first, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(first), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("it ends with %v, want the status 7", err)
	}
}

func TestLeaveRootCgroup(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := leaveRootCgroup(root); err != nil {
		t.Errorf("without cgroup v2: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte("1\n7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is a container that is started again
		if err := leaveRootCgroup(root); err != nil {
			t.Fatal(err)
		}
	}
	// A file keeps the last; a cgroup takes each.
	if got, err := os.ReadFile(filepath.Join(root, "init", "cgroup.procs")); err != nil || string(got) != "7" {
		t.Errorf("in the cgroup are %q, %v", got, err)
	}
}
