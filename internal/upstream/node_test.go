package upstream

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/node"
)

// writeNodePrograms writes what Ensure would have built, as of a version.
func writeNodePrograms(t *testing.T, dir, version string) {
	t.Helper()
	for name := range node.Programs() {
		writeProgram(t, filepath.Join(dir, name), 0o755)
	}
	for name := range node.Data() {
		writeProgram(t, filepath.Join(dir, name), 0o644)
	}
	if err := os.WriteFile(filepath.Join(dir, "version"), []byte(version+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeProgram(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
		t.Fatal(err)
	}
}

func TestNodeProgramsPath(t *testing.T) {
	t.Setenv(EnvNode, "")
	data := t.TempDir()
	p := OpenNodePrograms(Options{DataDir: data})
	dir := filepath.Join(data, "node")
	if p.Dir() != dir {
		t.Errorf("programs are built into %s, want %s", p.Dir(), dir)
	}
	for _, name := range []string{"containerd", "10-aws.conflist", MachineProgram, "coracle-csi", "coracle-runc"} {
		if _, err := p.Path(name); !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s, which is not built: %v; want ErrNotBuilt with %s", name, err, dir)
		}
	}
	writeNodePrograms(t, dir, "node-of-yesterday")
	if _, err := p.Path("containerd"); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("of another version: %v, want ErrNotBuilt", err)
	}
	writeNodePrograms(t, dir, node.Version())
	for name := range OwnPrograms {
		writeProgram(t, filepath.Join(dir, name), 0o755)
	}
	for _, name := range []string{"containerd", "aws-k8s-agent", "10-aws.conflist", MachineProgram, "coracle-csi",
		"coracle-runc"} {
		if path, err := p.Path(name); err != nil || path != filepath.Join(dir, name) {
			t.Errorf("%s is at %s, %v", name, path, err)
		}
	}
	_, err := p.Path("dockerd")
	if err == nil || errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "dockerd") {
		t.Errorf("what is no program: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "coredns")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Path("coredns"); err == nil || !strings.Contains(err.Error(), "remove the directory") {
		t.Errorf("one that is missing: %v", err)
	}

	// A directory that the user names is taken as it is.
	elsewhere := t.TempDir()
	writeNodePrograms(t, elsewhere, "mine")
	t.Setenv(EnvNode, elsewhere)
	path, err := OpenNodePrograms(Options{DataDir: data}).Path("containerd")
	if err != nil || path != filepath.Join(elsewhere, "containerd") {
		t.Errorf("with %s: %s, %v", EnvNode, path, err)
	}
}
