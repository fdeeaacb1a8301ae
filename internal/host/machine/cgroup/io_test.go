//go:build linux

package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// newGroup makes the group of a machine with a process that sleeps.
func newGroup(t *testing.T) (g Group, sleeper int) {
	t.Helper()
	testenv.NeedsRoot(t)
	host, err := Open()
	if err != nil {
		t.Skip(err)
	}
	g = host.Group("io-"+strconv.Itoa(os.Getpid()), "i-1")
	if err := g.Create(Limits{CPUs: 1, MemoryBytes: 256 << 20}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := host.RemoveAll(filepath.Base(filepath.Dir(g.Path))); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	})
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return g, cmd.Process.Pid
}

func owner(info os.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }

// Root in a machine that limits its own writes of a disk of the host stops all others that wait for the same journal.
func TestAMachineLimitsNoWrites(t *testing.T) {
	t.Parallel()
	g, sleeper := newGroup(t)
	const user = 123456
	if err := g.Delegate(user); err != nil {
		t.Fatal(err)
	}
	for _, h := range g.Host {
		if !h.V2 && !h.IsIO() {
			continue
		}
		limits, err := filepath.Glob(filepath.Join(g.machineDir(h), "io.[^p]*")) // not io.pressure
		if err != nil || len(limits) > 0 {
			t.Errorf("a machine has %v, %v", limits, err)
		}
		if !h.IsIO() {
			continue
		}
		for _, file := range []string{"", "cgroup.procs", "tasks"} {
			info, err := os.Stat(filepath.Join(g.machineDir(h), file))
			if err != nil || info.Mode().Perm()&0o022 != 0 || owner(info) != 0 {
				t.Errorf("root in a machine may write to %s of %s: %v", file, h.Mount, err)
			}
		}
		if g.LimitsIO() {
			t.Errorf("a machine that this version has started limits writes in %s", h.Mount)
		}
		// As an earlier version left it: containers have their groups there.
		dir := g.machineDir(h)
		below := filepath.Join(dir, "kubepods")
		if err := errors.Join(os.Mkdir(below, 0o755), os.Chown(dir, user, user), os.Chown(below, user, user)); err != nil {
			t.Fatal(err)
		}
		if err := writeFile(below, "cgroup.procs", strconv.Itoa(sleeper)); err != nil {
			t.Fatal(err)
		}
		if err := g.ReclaimIO(); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || owner(info) != user || !slices.Contains(processesIn(below), sleeper) {
			t.Errorf("containers of the machine cannot make groups in %s any more: %v", h.Mount, err)
		}
		if !g.LimitsIO() {
			t.Error("nobody is told that the machine limits writes")
		}
	}
}

// A directory of ordinary files stands in for a hierarchy of cgroup v2.
func TestVersion2TakesIOBack(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	g := Host{{Mount: root, V2: true}}.Group("owner", "i-1")
	dirs := []string{"coracle/owner", g.Path, filepath.Join(g.Path, inner), filepath.Join(g.Path, inner, "kubepods")}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, "cgroup.subtree_control"), []byte("io"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.ReclaimIO(); err != nil {
		t.Fatal(err)
	}
	for i, dir := range dirs {
		text, err := readFile(filepath.Join(root, dir), "cgroup.subtree_control")
		if err != nil || (text == "-io") != (i > 0) {
			t.Errorf("%s is %q, %v", dir, text, err)
		}
	}
}
