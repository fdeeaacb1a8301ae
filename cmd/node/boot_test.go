//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// The test program is coracle-node: it launches the machines, and is their init and all that they call.
func TestMain(m *testing.M) {
	applet := filepath.Base(os.Args[0])
	if _, ok := applets[applet]; !ok && len(os.Args) > 1 {
		applet = os.Args[1]
	}
	if _, ok := applets[applet]; ok {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestMemoryOfInit measures the memory of init. It does not run in parallel: it changes the program that machines run.
func TestMemoryOfInit(t *testing.T) {
	testenv.NeedsAll(t, "it builds and boots a program of its own")
	builtNode = filepath.Join(t.TempDir(), "coracle-node")
	defer func() { builtNode = "" }()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", builtNode, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := newMachine(t, rootfs.AL2, "1.35", "#!/bin/bash\nexport AWS_ENDPOINT_URL=@AWS@\n/etc/eks/bootstrap.sh demo\n")
	m.on()
	m.untilNode()
	m.untilBooted()
	var anonymous, all int
	for _, line := range strings.Split(m.read("/proc/1/status"), "\n") {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &all)
		_, _ = fmt.Sscanf(line, "RssAnon: %d kB", &anonymous)
	}
	t.Logf("init has %d KiB, of which %d KiB are its own", all, anonymous)
	// Pages of the program are shared by all machines of a host.
	if anonymous == 0 || anonymous > 6<<10 {
		t.Errorf("init has %d KiB of its own, want at most 6 MiB", anonymous)
	}
}

func TestDaemonsComeBack(t *testing.T) {
	t.Parallel()
	m := newMachine(t, rootfs.AL2, "1.35", "#!/bin/bash\nexport AWS_ENDPOINT_URL=@AWS@\n/etc/eks/bootstrap.sh demo\n")
	m.on()
	m.untilNode()
	pid := func(unit string) string {
		return strings.TrimSpace(m.run("systemctl", "show", unit, "-p", "MainPID", "--value"))
	}
	kubelet, containerd := pid("kubelet"), pid("containerd")
	m.run("kill", "-9", kubelet)
	eventually.True(t, "the kubelet is back", func() bool { p := pid("kubelet"); return p != kubelet && p != "0" })
	kubelet = pid("kubelet")
	m.run("kill", "-9", containerd)
	eventually.True(t, "containerd is back, and the kubelet, which requires it", func() bool {
		c, k := pid("containerd"), pid("kubelet")
		return c != containerd && c != "0" && k != kubelet && k != "0"
	})
	var out bytes.Buffer
	cmd := m.inside("ctr", "version")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "Server:") {
		t.Errorf("containerd does not answer: %v, %s", err, &out)
	}
}
