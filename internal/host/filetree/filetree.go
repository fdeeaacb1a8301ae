// Package filetree walks and removes directories that a machine has made: as deep as it liked, deeper than a path can
// say or than there are file descriptors, and with symbolic links in them, which are never followed.
package filetree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Visitor is called for what [Walk] finds. Its functions may be nil.
type Visitor struct {
	// Enter is called for a directory before its content, with a descriptor of it.
	Enter func(dir int) error
	// Leave is called for each entry of a directory, of which it gets a descriptor: for a file at once, for a
	// directory after its content.
	Leave func(dir int, name string, isDir bool) error
}

// Walk visits everything in root, whose own parent it does not touch. It has three descriptors open at most, and reads
// directories in parts: its memory does not grow with the number of files. What vanishes or moves meanwhile is passed
// over, with its content; an error of the visitor ends the walk and is returned.
func Walk(root string, v Visitor) error {
	w := walker{visitor: v, limit: 16384, buffer: make([]byte, 32<<10)}
	if err := w.walk(root); err != nil {
		return fmt.Errorf("walk %s: %w", root, err)
	}
	return nil
}

// walker is a walk.
type walker struct {
	visitor Visitor
	root    int     // a descriptor
	at      int     // a descriptor of the last of levels
	offset  int64   // where the next entry of at is read
	levels  []level // from the root to at
	// held counts entries in levels. Above the limit those of levels before forgotten are dropped, to be read again.
	held, limit, forgotten int
	buffer                 []byte
}

// level is a directory between the root of a walk and where it is.
type level struct {
	name        string
	device, ino uint64
	entries     []entry // read and not visited
	next        int64   // the offset after the last entry that was visited
	end         bool    // all entries are read
}

// entry is a file in a directory.
type entry struct {
	name  string
	isDir bool
	after int64 // the offset of the next one
}

const directory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

func (w *walker) walk(root string) (err error) {
	if w.root, err = unix.Open(root, directory, 0); err != nil {
		return &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(w.root)
	if w.at, err = unix.Openat(w.root, ".", directory, 0); err != nil {
		return err
	}
	defer func() { unix.Close(w.at) }()
	if err := w.enterDirectory(""); err != nil {
		return err
	}
	for len(w.levels) > 0 {
		here := &w.levels[len(w.levels)-1]
		switch {
		case len(here.entries) > 0:
			e := here.entries[0]
			here.entries, here.next = here.entries[1:], e.after
			w.held--
			err = w.visit(e)
		case !here.end:
			err = w.readEntries(here)
		default:
			err = w.leaveDirectory()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// visit visits a file, or enters a directory.
func (w *walker) visit(e entry) error {
	if !e.isDir {
		if w.visitor.Leave == nil {
			return nil
		}
		return w.visitor.Leave(w.at, e.name, false)
	}
	child, err := unix.Openat(w.at, e.name, directory, 0)
	if isGoneError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", e.name, err)
	}
	w.switchTo(child)
	return w.enterDirectory(e.name)
}

// isGoneError reports whether an error says that there is no such directory any longer.
func isGoneError(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ESTALE)
}

// switchTo makes a descriptor the one where the walk is.
func (w *walker) switchTo(to int) {
	unix.Close(w.at)
	w.at, w.offset = to, 0
}

// enterDirectory makes the directory at which the walk is a level.
func (w *walker) enterDirectory(name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(w.at, &st); err != nil {
		return err
	}
	w.levels = append(w.levels, level{name: name, device: uint64(st.Dev), ino: st.Ino})
	if w.visitor.Enter == nil {
		return nil
	}
	return w.visitor.Enter(w.at)
}

// readEntries reads some entries of the directory at which the walk is.
func (w *walker) readEntries(here *level) error {
	for w.held > w.limit && w.forgotten < len(w.levels)-1 {
		l := &w.levels[w.forgotten]
		w.held -= len(l.entries)
		if l.entries != nil {
			l.entries, l.end = nil, false
		}
		w.forgotten++
	}
	if w.offset != here.next {
		if _, err := unix.Seek(w.at, here.next, io.SeekStart); err != nil {
			return err
		}
	}
	n, err := unix.ReadDirent(w.at, w.buffer)
	if errors.Is(err, unix.ENOENT) { // it was removed
		n, err = 0, nil
	}
	if err != nil {
		return fmt.Errorf("read a directory: %w", err)
	}
	here.end = n == 0
	here.entries = nil
	for data := w.buffer[:n]; len(data) > 0; {
		e, kind, size := parseEntry(data, w.offset)
		data = data[size:]
		w.offset = e.after
		if e.name == "." || e.name == ".." {
			if len(here.entries) == 0 {
				here.next = e.after
			}
			continue
		}
		if e.isDir = kind == unix.DT_DIR; kind == unix.DT_UNKNOWN { // the file system does not tell
			var st unix.Stat_t
			if err := unix.Fstatat(w.at, e.name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
				e.isDir = st.Mode&unix.S_IFMT == unix.S_IFDIR
			}
		}
		here.entries = append(here.entries, e)
	}
	w.held += len(here.entries)
	return nil
}

// leaveDirectory goes from a directory, all of which has been visited, to the one above.
func (w *walker) leaveDirectory() error {
	last := len(w.levels) - 1
	name := w.levels[last].name
	w.truncate(last)
	if last == 0 {
		return nil
	}
	up, err := unix.Openat(w.at, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil && !w.levels[last-1].matches(up) {
		unix.Close(up)
		return w.returnFromRoot()
	}
	if isGoneError(err) {
		return w.returnFromRoot()
	}
	if err != nil {
		return err
	}
	w.switchTo(up)
	if w.visitor.Leave == nil {
		return nil
	}
	return w.visitor.Leave(w.at, name, true)
}

// truncate makes levels shorter.
func (w *walker) truncate(n int) {
	for _, l := range w.levels[n:] {
		w.held -= len(l.entries)
	}
	w.levels = w.levels[:n]
	w.forgotten = min(w.forgotten, n)
}

// matches reports whether a descriptor is of the directory.
func (l level) matches(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && uint64(st.Dev) == l.device && st.Ino == l.ino
}

// returnFromRoot goes to the last of levels from the root, because the directory where the walk is was moved: what is
// above it now may be outside of the tree. The walk goes on in the last level that is where it was.
func (w *walker) returnFromRoot() error {
	at, err := unix.Openat(w.root, ".", directory, 0)
	if err != nil {
		return err
	}
	w.switchTo(at)
	for i := 1; i < len(w.levels); i++ {
		child, err := unix.Openat(w.at, w.levels[i].name, directory, 0)
		if err == nil && !w.levels[i].matches(child) {
			unix.Close(child)
			err = unix.ENOENT
		}
		if isGoneError(err) {
			w.truncate(i)
			return nil
		}
		if err != nil {
			return fmt.Errorf("open %s: %w", w.levels[i].name, err)
		}
		w.switchTo(child)
	}
	return nil
}

// RemoveAll removes what is at path, with everything in it, like [os.RemoveAll].
func RemoveAll(path string) error { return removeBy(path, Walk) }

// deepest is how deep [RemoveAllContext] goes.
const deepest = 1000

// RemoveAllContext is like [RemoveAll], until ctx ends: whoever writes to the directory can keep it from getting empty.
// enter is called for each directory before what is in it is removed, with a descriptor. What is deeper than 1,000
// directories is moved to the top first: however deep they are, each call removes some.
func RemoveAllContext(ctx context.Context, path string, enter func(dir int) error) error {
	top, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(top)
	return removeBy(path, func(root string, v Visitor) error {
		leave, depth := v.Leave, 0
		v.Enter = func(dir int) error {
			if err := errors.Join(ctx.Err(), enter(dir)); err != nil {
				return err
			}
			if depth++; depth > deepest {
				return moveDirectories(ctx, dir, top)
			}
			return nil
		}
		v.Leave = func(at int, name string, isDir bool) error {
			if isDir {
				depth--
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			return leave(at, name, isDir)
		}
		return Walk(root, v)
	})
}

// moveDirectories moves the directories in a directory to another of the same file system, under names that nobody has
// guessed. What it cannot move stays.
func moveDirectories(ctx context.Context, from, to int) error {
	fd, err := unix.Openat(from, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("read a deep directory: %w", err)
	}
	dir := os.NewFile(uintptr(fd), "deep")
	defer dir.Close()
	const most = 1000
	for {
		entries, err := dir.ReadDir(most)
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			if e.IsDir() {
				_ = unix.Renameat(from, e.Name(), to, "deep-"+rand.Text()) // else the walk goes deeper
			}
		}
		if err != nil { // the end, or what the walk finds as well
			return nil //nolint:nilerr // see above
		}
	}
}

func removeBy(path string, walk func(string, Visitor) error) error {
	err := unix.Unlink(path)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if info, statErr := os.Lstat(path); statErr != nil || !info.IsDir() {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	if err := clearBy(path, walk); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Clear removes everything in a directory, but not the directory.
func Clear(dir string) error {
	return clearBy(dir, Walk)
}

// clearBy removes everything that walk finds in a directory, until it finds nothing: not every file system shows all
// entries of a directory while some are removed.
func clearBy(dir string, walk func(string, Visitor) error) error {
	const passes = 100 // against who fills it meanwhile
	for range passes {
		found, removed := 0, 0
		var left error
		err := walk(dir, Visitor{Leave: func(at int, name string, isDir bool) error {
			found++
			flags := 0
			if isDir {
				flags = unix.AT_REMOVEDIR
			}
			err := unix.Unlinkat(at, name, flags)
			switch {
			case err == nil, errors.Is(err, unix.ENOENT):
				removed++
			case errors.Is(err, unix.ENOTEMPTY),
				errors.Is(err, unix.EISDIR),
				errors.Is(err, unix.ENOTDIR): // the next pass sees why
				left = fmt.Errorf("remove %s: %w", name, err)
			default:
				return fmt.Errorf("remove %s: %w", name, err)
			}
			return nil
		}})
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || found == 0 {
			return err
		}
		if removed == 0 {
			return fmt.Errorf("clear %s: %w", dir, left)
		}
	}
	return fmt.Errorf("clear %s: something fills the directory: stop what writes to it", dir)
}
