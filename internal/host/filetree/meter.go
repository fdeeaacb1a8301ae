package filetree

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// Meter adds up what directories take of their disks, as du(1) does: a file counts once, whatever links it has. The
// zero Meter is ready to use.
type Meter struct {
	Bytes int64
	seen  map[inode]bool
}

type inode struct{ device, number uint64 }

// maxLinked bounds how many files of several links a Meter remembers; the links of further ones count each.
const maxLinked = 200_000

// deepestMeasured is how deep a Meter goes: a machine that moves directories while they are walked can make them look
// deeper than they are.
const deepestMeasured = 10_000

// Add adds what a directory takes, with itself and as much of it as can be read, until ctx ends.
func (m *Meter) Add(ctx context.Context, dir string) error {
	depth := 0
	enter := func(at int) error {
		if depth++; depth > deepestMeasured {
			return fmt.Errorf("directories are deeper than %d", deepestMeasured)
		}
		return ctx.Err()
	}
	leave := func(at int, name string, isDir bool) error {
		if isDir {
			depth--
		}
		var st unix.Stat_t
		if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil { // otherwise it has vanished
			m.count(st, isDir)
		}
		return nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err == nil {
		m.count(st, true)
	}
	_ = Walk(dir, Visitor{Enter: enter, Leave: leave}) // what cannot be read is not counted
	return ctx.Err()
}

// AddFile adds what a file takes, if it is there.
func (m *Meter) AddFile(path string) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err == nil {
		m.count(st, false)
	}
}

func (m *Meter) count(st unix.Stat_t, isDir bool) {
	if st.Nlink > 1 && !isDir {
		id := inode{uint64(st.Dev), st.Ino}
		if m.seen[id] {
			return
		}
		if m.seen == nil {
			m.seen = map[inode]bool{}
		}
		if len(m.seen) < maxLinked {
			m.seen[id] = true
		}
	}
	m.Bytes += st.Blocks * 512
}
