//go:build linux

package guestfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnsafe is returned for what is not a regular file with one name, and for a file that is longer than allowed.
var ErrUnsafe = errors.New("unsafe file of a machine")

// Read returns the content of the file name in dir, at most limit bytes of it: a longer file is an error. dir is a path
// that only the host decides on; its last element may not be a symbolic link either. The error is fs.ErrNotExist when
// there is no such file.
func Read(dir, name string, limit int64) ([]byte, error) {
	f, err := openRegular(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		err := fmt.Errorf("%w: it is longer than %d bytes", ErrUnsafe, limit)
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: err}
	}
	return data, nil
}

// ReadTail returns the last limit bytes of the file name in dir, and the file's size.
func ReadTail(dir, name string, limit int64) (tail []byte, size int64, err error) {
	f, err := openRegular(dir, name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	tail, err = io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-limit), limit))
	return tail, info.Size(), err
}

// openRegular opens a regular file for reading. It is opened without being used (O_PATH) at first: to open a device is
// to use it.
func openRegular(dir, name string) (*os.File, error) {
	path := dir + "/" + name
	failed := func(err error) error { return &fs.PathError{Op: "open", Path: path, Err: err} }
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return nil, failed(fs.ErrInvalid)
	}
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, failed(err)
	}
	defer unix.Close(at)
	seen, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, failed(err)
	}
	defer unix.Close(seen)
	var st unix.Stat_t
	if err := unix.Fstat(seen, &st); err != nil {
		return nil, failed(err)
	}
	// It has no name any more when it was replaced since it was opened.
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1 {
		return nil, failed(fmt.Errorf("%w: it is not a regular file with one name", ErrUnsafe))
	}
	// O_NONBLOCK: a lease that a machine holds on the file (fcntl(2), F_SETLEASE) is not waited for.
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Open(fmt.Sprintf("/proc/thread-self/fd/%d", seen), flags, 0)
	if err != nil {
		return nil, failed(err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
