package image

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/kubernetes"
)

// mortal names the directory of the registry that a daemon works on which is about to die.
const mortal = "CORACLE_TEST_MORTAL_IMAGES"

func TestMortal(t *testing.T) {
	dir := os.Getenv(mortal)
	if dir == "" {
		t.Skip("is run by the test below")
	}
	r := open(t, Options{Dir: dir})
	prepare(t, r)
}

func prepare(t *testing.T, r *Registry) string {
	t.Helper()
	if err := r.Assemble(t.Context(), kubernetes.Default); err != nil {
		t.Fatal(err)
	}
	dir, err := r.Golden(t.Context(), slices.Collect(maps.Values(References(region, kubernetes.Default))))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A daemon that dies while it makes images leaves nothing that looks finished, and no process: the next makes them.
func TestADaemonMayDieAnywhere(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	var points []string
	for _, p := range crash.Points() {
		if strings.HasPrefix(p, "image/") {
			points = append(points, p)
		}
	}
	if len(points) != 2 {
		t.Fatalf("the points are %v", points)
	}
	for _, point := range points {
		child := exec.Command(os.Args[0], "-test.run=^TestMortal$")
		child.Env = append(os.Environ(), mortal+"="+dir, crash.Environment+"="+point)
		output, err := child.CombinedOutput()
		if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() ||
			status.Signal() != syscall.SIGKILL {
			t.Fatalf("it did not die at %s: %v\n%s", point, err, output)
		}
		if made, err := filepath.Glob(filepath.Join(dir, "golden", "*")); err != nil || len(made) > 0 {
			t.Errorf("after %s there is %v, %v", point, made, err)
		}
	}
	r := open(t, Options{Dir: dir})
	golden := prepare(t, r)
	if found, err := filepath.Glob(filepath.Join(golden,
		"io.containerd.snapshotter.v1.overlayfs/snapshots/*/fs/coredns")); err != nil || len(found) != 1 {
		t.Errorf("coredns is unpacked at %v, %v", found, err)
	}
	if left, err := os.ReadDir(r.scratchDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
