package filetree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// deep makes directories in one another, with a file in the innermost.
func deep(t *testing.T, dir string, levels int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		next := -1
		err := unix.Mkdirat(at, "d", 0o700)
		if err == nil {
			next, err = unix.Openat(at, "d", unix.O_DIRECTORY, 0)
		}
		unix.Close(at)
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	defer unix.Close(at)
	f, err := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(f)
}

func TestDeepDirectoriesAreRemoved(t *testing.T) {
	t.Parallel()
	const levels = 5000 // more than a path has characters for, and than a process has descriptors for by default
	dir := filepath.Join(t.TempDir(), "machine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	deep(t, dir, levels)
	files, directories, entered := 0, 0, 0
	err := Walk(dir, Visitor{
		Enter: func(int) error { entered++; return nil },
		Leave: func(_ int, name string, isDir bool) error {
			if isDir {
				directories++
			} else if files++; name != "file" {
				t.Errorf("a file is %s", name)
			}
			return nil
		},
	})
	if err != nil || files != 1 || directories != levels || entered != levels+1 {
		t.Errorf("%d files and %d directories, %d entered: %v", files, directories, entered, err)
	}
	if err := RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := RemoveAll(dir); err != nil {
		t.Errorf("remove nothing: %v", err)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	host, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 { // several reads of the directory
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{host, filepath.Join(host, "file"), "/nowhere"} {
		if err := os.Symlink(link, filepath.Join(dir, "to-"+filepath.Base(link))); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(host, link); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Clear(dir), RemoveAll(link)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(host, "file")); err != nil {
		t.Error(err)
	}
	if err := Walk(link, Visitor{}); err == nil {
		t.Error("a link was walked")
	}
}

// What moves while it is walked does not lead the walk to another directory.
func TestAMovedDirectoryEndsTheWalk(t *testing.T) {
	t.Parallel()
	dir, host := t.TempDir(), t.TempDir()
	deep(t, dir, 3)
	if err := os.WriteFile(filepath.Join(host, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := Walk(dir, Visitor{Leave: func(at int, name string, isDir bool) error {
		if !isDir {
			return os.Rename(filepath.Join(dir, "d/d/d"), filepath.Join(host, "d"))
		}
		return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}})
	if err == nil {
		t.Error("the walk went on")
	}
	if _, err := os.Stat(filepath.Join(host, "file")); err != nil {
		t.Error(err)
	}
}
