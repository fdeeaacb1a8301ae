package logshipper

import (
	"bytes"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// identify returns the identity of the file at a path, relative to the directory that is open as at. With an empty
// path, it is the identity of the open file itself.
func identify(at int, path string) (id fileID, err error) {
	var s unix.Statx_t
	if err := unix.Statx(at, path, unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &s); err != nil {
		return id, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	id.Inode = s.Ino
	if s.Mask&unix.STATX_BTIME != 0 {
		id.Born = s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
	}
	return id, nil
}

// bootID is another after every start of the machine.
var bootID = func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}()
