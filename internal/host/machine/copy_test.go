//go:build linux

package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

func TestWhatAMachineWritesIsSharedWithNobody(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	from, dir := t.TempDir(), t.TempDir()
	const content, snapshots = "io.containerd.content.v1.content/blobs/sha256/abc", snapshotsDir + "/"
	for _, name := range []string{
		content, "io.containerd.metadata.v1.bolt/meta.db",
		snapshots + "1/fs/bin/program", snapshots + "2/fs/bin/other", snapshots + "3/fs/etc/kept",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, name), []byte(name), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.MkdirAll(filepath.Join(from, snapshots, "1/work"), 0o711),
		os.Symlink("program", filepath.Join(from, snapshots, "1/fs/bin/link")),
		os.Chmod(filepath.Join(from, snapshots, "1/fs"), 0o711),
		os.Lchown(filepath.Join(from, snapshots, "1/fs/bin/program"), 7, 8),
		unix.Mknod(filepath.Join(from, snapshots, "2/fs/bin/deleted"), unix.S_IFCHR, 0),
		unix.Setxattr(filepath.Join(from, snapshots, "3/fs/etc"), opaque, []byte("y"), 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	to, layers := filepath.Join(dir, "containerd"), filepath.Join(dir, "layers")
	if err := copyContainerd(from, to, layers); err != nil {
		t.Fatal(err)
	}

	same := func(a, b string) bool {
		t.Helper()
		first, err1 := os.Lstat(a)
		second, err2 := os.Lstat(b)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if first.Mode() != second.Mode() {
			t.Errorf("mode of %s is %s, want %s", b, second.Mode(), first.Mode())
		}
		return os.SameFile(first, second)
	}
	for _, file := range []string{"bin/program", "bin/link"} {
		if !same(filepath.Join(from, snapshots, "1/fs", file), filepath.Join(layers, "1", file)) {
			t.Errorf("%s is not shared", file)
		}
	}
	if same(filepath.Join(from, snapshots, "1/fs"), filepath.Join(layers, "1")) {
		t.Error("a directory is shared")
	}
	target, err := os.Readlink(filepath.Join(to, snapshots, "1/fs"))
	if err != nil || target != "/usr/lib/coracle/layers/1" {
		t.Errorf("the layer is at %s, %v", target, err)
	}
	// Layers that delete files of those below are the machine's own.
	for _, file := range []string{"2/fs/bin/other", "2/fs/bin/deleted", "3/fs/etc/kept"} {
		if same(filepath.Join(from, snapshots, file), filepath.Join(to, snapshots, file)) {
			t.Errorf("%s is shared", file)
		}
	}
	if _, err := unix.Getxattr(filepath.Join(to, snapshots, "3/fs/etc"), opaque, nil); err != nil {
		t.Errorf("what the layer deletes is lost: %v", err)
	}
	if entries, err := os.ReadDir(layers); err != nil || len(entries) != 1 {
		t.Errorf("layers are %v, %v", entries, err)
	}
	var st unix.Stat_t
	err = filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if err == nil && !d.IsDir() && st.Nlink > 1 {
			t.Errorf("the machine writes to %s, which has %d names", path, st.Nlink)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Lstat(filepath.Join(layers, "1/bin/program"), &st); err != nil || st.Uid != 7 || st.Gid != 8 {
		t.Errorf("the program belongs to %d:%d, %v", st.Uid, st.Gid, err)
	}
}

func TestAnEmptyDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := copyContainerd("", filepath.Join(dir, "containerd"), filepath.Join(dir, "layers")); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "containerd" {
		t.Errorf("there are %v, %v", entries, err)
	}
	if err := copyTree(filepath.Join(dir, "nothing"), filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "log")); err != nil || !info.IsDir() {
		t.Errorf("log is %v, %v", info, err)
	}
}
