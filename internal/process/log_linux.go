package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// punchHole gives the disk space of the first bytes of a file back to the file system.
func punchHole(f *os.File, bytes int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, bytes)
}
