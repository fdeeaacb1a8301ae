package filetree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// What moves while it is walked does not lead the walk to another directory: it goes on where it was.
func TestAMovedDirectoryIsPassedOver(t *testing.T) {
	t.Parallel()
	dir, host := t.TempDir(), t.TempDir()
	deep(t, dir, 4)
	for _, file := range []string{filepath.Join(host, "file"), filepath.Join(dir, "d/sibling")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	err := Walk(dir, Visitor{Leave: func(at int, name string, isDir bool) error {
		left = append(left, name)
		if name == "file" {
			if err := os.Rename(filepath.Join(dir, "d/d/d"), filepath.Join(host, "d")); err != nil {
				return err
			}
		}
		flags := 0
		if isDir {
			flags = unix.AT_REMOVEDIR
		}
		return unix.Unlinkat(at, name, flags)
	}})
	if err != nil {
		t.Error(err)
	}
	slices.Sort(left)
	// Of the four directories, the one that was moved is passed over.
	if want := []string{"d", "d", "d", "file", "sibling"}; !slices.Equal(left, want) {
		t.Errorf("visited: %q, want %q", left, want)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left in the tree: %v, %v", entries, err)
	}
	for _, kept := range []string{"file", "d"} {
		if _, err := os.Stat(filepath.Join(host, kept)); err != nil {
			t.Error(err)
		}
	}
}

func TestWalksGoOnWhileDirectoriesMove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 50 {
		if err := os.MkdirAll(filepath.Join(dir, "a/x/y/z", strconv.Itoa(i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var mover sync.WaitGroup
	mover.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(filepath.Join(dir, "a/x"), filepath.Join(dir, "b/x"))
			_ = os.Rename(filepath.Join(dir, "b/x"), filepath.Join(dir, "a/x"))
		}
	})
	for range 200 {
		if err := Walk(dir, Visitor{}); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	mover.Wait()
}

// wide makes a tree of directories with more entries than a walk holds, and returns how many files and directories are
// in it.
func wide(t *testing.T, dir string) (files, directories int) {
	t.Helper()
	for at, level := dir, 0; level < 5; level++ {
		for i := range 300 {
			name := filepath.Join(at, strings.Repeat("n", 40)+strconv.Itoa(i))
			err := os.Mkdir(name, 0o700)
			if directories++; err == nil && i%2 == 0 {
				err, name = os.WriteFile(filepath.Join(name, "in"), nil, 0o600), name+".file"
				files++
			}
			if err == nil && i%2 == 0 {
				err = os.WriteFile(name, nil, 0o600)
				files++
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		at = filepath.Join(at, strings.Repeat("n", 40)+"150")
	}
	return files, directories
}

func TestWideDirectoriesAreReadInParts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, directories := wide(t, dir)
	const limit, buffer = 20, 512 // bytes: seven entries
	most := 0
	walk := func(root string, v Visitor) error {
		w := walker{limit: limit, buffer: make([]byte, buffer)}
		w.visitor = Visitor{Leave: func(at int, name string, isDir bool) error {
			if w.held > most {
				most = w.held
			}
			return v.Leave(at, name, isDir)
		}}
		return w.walk(root)
	}
	gotFiles, gotDirectories := 0, 0
	if err := walk(dir, Visitor{Leave: func(_ int, _ string, isDir bool) error {
		if isDir {
			gotDirectories++
		} else {
			gotFiles++
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if gotFiles != files || gotDirectories != directories {
		t.Errorf("visited %d files and %d directories, want %d and %d", gotFiles, gotDirectories, files, directories)
	}
	if most > limit+buffer/24 {
		t.Errorf("the walk held %d entries, with a limit of %d", most, limit)
	}
	if err := clearBy(dir, walk); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
}

// A file system may leave entries out when others are removed meanwhile.
func TestClearSeesWhatAWalkLeavesOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wide(t, dir)
	if err := clearBy(dir, func(root string, v Visitor) error {
		n := 0
		return Walk(root, Visitor{Leave: func(at int, name string, isDir bool) error {
			if n++; n%3 == 0 {
				return nil
			}
			return v.Leave(at, name, isDir)
		}})
	}); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
	if err := Clear(filepath.Join(dir, "none")); err != nil {
		t.Errorf("clear a directory that is not there: %v", err)
	}
}

// A removal goes on from where the last one ended, however deep directories are.
func TestDeepDirectoriesAreRemovedInTurns(t *testing.T) {
	t.Parallel()
	const levels = 4500
	dir := filepath.Join(t.TempDir(), "deep")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	deep(t, dir, levels)
	turns := 0
	for ; turns < levels; turns++ {
		ctx, cancel := context.WithCancel(t.Context())
		entered := 0
		err := RemoveAllContext(ctx, dir, func(int) error {
			if entered++; entered == 2*deepest { // a turn is over
				cancel()
			}
			return nil
		})
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || turns == 0 || turns > levels/deepest {
		t.Errorf("after %d turns: %v", turns, err)
	}
	if err := RemoveAllContext(t.Context(), dir, func(int) error { return nil }); err != nil {
		t.Errorf("what is not there: %v", err)
	}
}
