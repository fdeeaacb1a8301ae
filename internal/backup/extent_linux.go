package backup

import (
	"errors"
	"os"
	"syscall"
)

// Values of whence in lseek(2).
const (
	seekData = 3
	seekHole = 4
)

// nextExtent returns the next part of a file from an offset that has content; from its end on if there is none.
func nextExtent(f *os.File, at, size int64) (from, to int64, err error) {
	from, err = f.Seek(at, seekData)
	if errors.Is(err, syscall.ENXIO) || err == nil && from >= size {
		return size, size, nil
	}
	if err != nil {
		return 0, 0, err
	}
	to, err = f.Seek(from, seekHole)
	return from, min(to, size), err
}
