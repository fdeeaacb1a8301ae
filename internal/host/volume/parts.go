//go:build linux

package volume

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const copyAtOnce = 8 << 20

// eachPart calls data for each part of a file that has content, of at most copyAtOnce, and hole for each that has none.
func eachPart(source *os.File, data func(from, to int64) error, hole func(from, to int64) error) error {
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
			if err := data(from, min(from+copyAtOnce, to)); err != nil {
				return err
			}
		}
		at = to
	}
	return nil
}
