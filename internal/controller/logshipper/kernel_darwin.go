package logshipper

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// identify returns the identity of the file at a path, relative to the directory that is open as at. With an empty
// path, it is the identity of the open file itself.
func identify(at int, path string) (id fileID, err error) {
	var s unix.Stat_t
	if path == "" {
		err = unix.Fstat(at, &s)
	} else {
		err = unix.Fstatat(at, path, &s, 0)
	}
	if err != nil {
		return id, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{Inode: s.Ino, Born: s.Btim.Nano()}, nil
}

// bootID is another after every start of the machine.
var bootID = func() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}()
