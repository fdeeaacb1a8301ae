//go:build linux

package volume

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const copyAtOnce = 8 << 20

// eachPart calls data for each part of a file that has content, with the end of all of it that follows without a hole,
// and hole for each that has none.
func eachPart(source *os.File, data func(from, to, end int64) error, hole func(from, to int64) error) error {
	info, err := source.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		from, err := unix.Seek(int(source.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			from, err = info.Size(), nil
		}
		if err != nil {
			return err
		}
		if from > at {
			if err := hole(at, from); err != nil {
				return err
			}
		}
		if from >= info.Size() {
			return nil
		}
		to, err := unix.Seek(int(source.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		for ; from < to; from += copyAtOnce {
			if err := data(from, min(from+copyAtOnce, to), to); err != nil {
				return err
			}
		}
		at = to
	}
	return nil
}

// ahead returns how many bytes are read from a part on while it is copied, for content up to end: what a machine has
// written is not in the page cache. The kernel reads holes, too, if it is told to: of a disk of many small parts,
// 24 MiB for each. There is nothing to read ahead of a last part.
func ahead(from, end int64) int64 {
	if end-from < copyAtOnce {
		return 0
	}
	return min(3*copyAtOnce, end-from)
}
