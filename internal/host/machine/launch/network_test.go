//go:build linux

package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAMachineReadsWhatItLeftInItsNetwork(t *testing.T) {
	eachIsolation(t, testAMachineReadsWhatItLeftInItsNetwork)
}

// testAMachineReadsWhatItLeftInItsNetwork makes 100,000 routes in the network namespace of a machine, as root there
// can. The next boot removes them in the machine's cgroup, not in the launcher, whose memory is the host's.
func testAMachineReadsWhatItLeftInItsNetwork(t *testing.T, r *rig) {
	r.script("echo up")
	launcher := r.on().PID
	r.untilConsole("up\n")
	before := mostMemory(t, launcher)
	var batch strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&batch, "route add unreachable 100.%d.%d.%d/32 table 77\n", 64+i>>16, i>>8&255, i&255)
	}
	file := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(batch.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	namespace := "--net=" + r.spec.Network
	if out, err := exec.Command("nsenter", namespace, "ip", "-batch", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %.200s", err, out)
	}
	if err := syscall.Kill(r.pid1(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	r.untilStatus("rebooted", func(s Status) bool { return s.State == Running && s.Starts == 2 })
	if grown := mostMemory(t, launcher) - before; grown > 16<<10 {
		t.Errorf("the launcher takes %d KiB more than at the first boot", grown)
	}
	out, err := exec.Command("nsenter", namespace, "ip", "route", "show", "table", "all").CombinedOutput()
	if err != nil || strings.Contains(string(out), "unreachable") {
		t.Errorf("after the boot: %v: %.200s", err, out)
	}
}

// mostMemory returns the peak resident memory of a process, in KiB.
func mostMemory(t *testing.T, pid int) (kib int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nVmHWM:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}
