package logshipper

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/process"
)

// untrimmed is the number of bytes of a component's log that are not trimmed, for people who read the files.
const untrimmed = 20 << 20

// lossDisk is the free space on the disk, in bytes, below which logs that cannot be shipped are dropped. Shipping ends
// at diskspace.Reserve; a cluster goes on to write logs, and must not use the space that etcd needs.
const lossDisk = diskspace.Reserve / 2

// mustGiveUp reports whether the disk is so full that lines are given up before they are shipped.
func (s *shipment) mustGiveUp() bool {
	free, err := s.c.free(s.c.o.Dir)
	return err == nil && free < lossDisk
}

// removeShipped gives the disk back what nobody reads any more: files that were put aside and are shipped or not
// wanted, and the beginnings of the others. What is not shipped yet stays, unless it must be given up.
func (s *shipment) removeShipped(files []*file, giveUp bool) error {
	for _, f := range files {
		on := slices.Contains(s.offsets.On, f.kind) && !giveUp
		switch {
		case f.aside && (!on || s.offsets.ensureFileOffset(f).Done):
			crashDeleting.Here()
			if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case !f.aside && f.full == 0:
			if err := s.trimFile(f, on); err != nil {
				return err
			}
		}
	}
	return nil
}

// trimFile removes the beginning of a component's log, except the last bytes, and what is not shipped yet.
func (s *shipment) trimFile(f *file, on bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	before := process.Excess(info, untrimmed)
	if on {
		before = min(before, s.offsets.ensureFileOffset(f).Offset)
	}
	if before == 0 {
		return nil
	}
	err = process.Trim(f.Name(), before)
	if errors.Is(err, errors.ErrUnsupported) && (!on || s.offsets.ensureFileOffset(f).Offset == info.Size()) {
		// Then the whole file is cut. What is written since its length was asked for is lost.
		return os.Truncate(f.Name(), 0)
	}
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
