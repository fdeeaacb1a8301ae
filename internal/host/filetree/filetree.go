// Package filetree walks and removes directories that a machine has made: as deep as it liked, deeper than a path can say or than there are
// file descriptors, and with symbolic links in them, which are never followed.
package filetree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Visitor is called for what [Walk] finds. Its functions may be nil.
type Visitor struct {
	// Enter is called for a directory before its content, with a descriptor of it.
	Enter func(dir int) error
	// Leave is called for each entry of a directory, of which it gets a descriptor: for a file at once, for a directory after its content.
	Leave func(dir int, name string, isDir bool) error
}

// level is a directory between the root of a walk and where it is.
type level struct {
	name        string
	device, ino uint64
	left        []string // directories that have not been walked
}

// Walk visits everything in root, whose own parent it does not touch. It has two descriptors open at most. What vanishes meanwhile is passed over;
// an error of the visitor ends the walk and is returned.
func Walk(root string, v Visitor) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	at, err := unix.Open(root, flags, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer func() { unix.Close(at) }()
	top, err := enter(at, v)
	if err != nil {
		return fmt.Errorf("walk %s: %w", root, err)
	}
	levels := []level{top}
	for {
		here := &levels[len(levels)-1]
		if last := len(here.left) - 1; last >= 0 {
			name := here.left[last]
			here.left = here.left[:last]
			child, err := unix.Openat(at, name, flags, 0)
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
				continue // it is another file now, or none
			}
			if err != nil {
				return fmt.Errorf("walk %s: open %s: %w", root, name, err)
			}
			unix.Close(at)
			at = child
			next, err := enter(at, v)
			if err != nil {
				return fmt.Errorf("walk %s: %w", root, err)
			}
			next.name = name
			levels = append(levels, next)
			continue
		}
		if len(levels) == 1 {
			return nil
		}
		up, err := parent(at, levels[len(levels)-2])
		if err != nil {
			return fmt.Errorf("walk %s: %w", root, err)
		}
		unix.Close(at)
		at = up
		if v.Leave != nil {
			if err := v.Leave(at, here.name, true); err != nil {
				return fmt.Errorf("walk %s: %w", root, err)
			}
		}
		levels = levels[:len(levels)-1]
	}
}

// enter visits the files in a directory, and returns it with the names of those that are directories.
func enter(at int, v Visitor) (l level, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return l, err
	}
	l.device, l.ino = st.Dev, st.Ino
	if v.Enter != nil {
		if err := v.Enter(at); err != nil {
			return l, err
		}
	}
	fd, err := unix.FcntlInt(uintptr(at), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return l, err
	}
	// The name is where package os looks for types of files that the file system does not tell.
	dir := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			if e.IsDir() {
				l.left = append(l.left, e.Name())
			} else if v.Leave != nil {
				if err := v.Leave(at, e.Name(), false); err != nil {
					return l, err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			slices.Reverse(l.left) // they are taken from the end
			return l, nil
		}
		if err != nil {
			return l, err
		}
	}
}

// parent opens the parent of a directory, which has to be the one from which the walk has come.
func parent(at int, from level) (int, error) {
	up, err := unix.Openat(at, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(up, &st); err != nil {
		unix.Close(up)
		return -1, err
	}
	if st.Dev != from.device || st.Ino != from.ino {
		unix.Close(up)
		return -1, errors.New("a directory was moved meanwhile")
	}
	return up, nil
}

// RemoveAll removes what is at path, with everything in it, like [os.RemoveAll].
func RemoveAll(path string) error {
	err := unix.Unlink(path)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if info, statErr := os.Lstat(path); statErr != nil || !info.IsDir() {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	if err := Clear(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Clear removes everything in a directory, but not the directory.
func Clear(dir string) error {
	err := Walk(dir, Visitor{Leave: func(at int, name string, isDir bool) error {
		flags := 0
		if isDir {
			flags = unix.AT_REMOVEDIR
		}
		if err := unix.Unlinkat(at, name, flags); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		return nil
	}})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
