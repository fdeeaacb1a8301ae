package filetree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestMeterCountsAsDu(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"a": 100_000, "inner/b": 5, "inner/c": 0} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(inner, "again")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr", filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "du", "-sk", dir).Output()
	if err != nil {
		t.Skipf("no du: %v", err)
	}
	want, err := strconv.ParseInt(strings.Fields(string(out))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var m Meter
	if err := m.Add(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if m.Bytes>>10 != want {
		t.Errorf("counted %d KiB, du counts %d", m.Bytes>>10, want)
	}
	before := m.Bytes
	m.AddFile(filepath.Join(dir, "a"))
	if m.Bytes != before {
		t.Errorf("a file of two links was counted again")
	}
}
