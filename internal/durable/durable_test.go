package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	check := func(want string) os.FileInfo {
		t.Helper()
		content, err := os.ReadFile(name)
		if err != nil || string(content) != want {
			t.Errorf("the content is %q, want %q: %v", content, want, err)
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the permissions are %v: %v", info.Mode(), err)
		}
		return info
	}
	if err := WriteFile(name, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := check("one")
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := EnsureFile(name, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if same := check("one"); !os.SameFile(first, same) {
		t.Error("a file that has the content was replaced")
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := EnsureFile(name, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if other := check("two"); os.SameFile(first, other) {
		t.Error("a file was written over, and not replaced")
	}
	if err := SyncDir(dir); err != nil {
		t.Error(err)
	}

	// What is not finished leaves the file alone, and nothing behind.
	pending, err := Create(name, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pending.WriteString("three"); err != nil {
		t.Fatal(err)
	}
	if err := pending.Cleanup(); err != nil {
		t.Error(err)
	}
	check("two")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := WriteFile(filepath.Join(dir, "missing", "file"), nil, 0o600); err == nil {
		t.Error("a file was written into a directory that is not there")
	}
}

// A link with the name is replaced, and the file to which it points is not touched.
func TestLinksAreReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, name := filepath.Join(dir, "target"), filepath.Join(dir, "name")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(name, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(target); err != nil || string(content) != "kept" {
		t.Errorf("the target has %q: %v", content, err)
	}
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the name is %v: %v", info.Mode(), err)
	}
}
