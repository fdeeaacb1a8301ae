//go:build linux

package volume

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"github.com/sourcegraph/conc/pool"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// transfer is the copying of content.
type transfer struct {
	// mayGo is called before each part: the error is that of why the next one is not copied.
	mayGo    func() error
	progress func(percent int32)
}

// transfer returns one that ends when its target is no longer wanted, and before the disk is full.
func (c *Controller) transfer(abandoned func() bool, progress func(int32)) transfer {
	if progress == nil {
		progress = func(int32) {}
	}
	return transfer{progress: progress, mayGo: func() error {
		if abandoned() {
			return errAbandoned
		}
		free, err := c.o.Free(c.o.Dir)
		if err == nil && free < diskspace.Reserve+copyAtOnce {
			err = fmt.Errorf("%w: %d MiB are free", unix.ENOSPC, free>>20)
		}
		return err
	}}
}

// content makes f have the content of source, at once where the file system can, sparse otherwise.
func (t transfer) content(ctx context.Context, f, source *os.File) error {
	if err := unix.IoctlFileClone(int(f.Fd()), int(source.Fd())); err == nil {
		return nil
	}
	return t.sparse(ctx, f, source)
}

// sparse copies the parts that have content into an empty file.
func (t transfer) sparse(ctx context.Context, f, source *os.File) error {
	info, err := source.Stat()
	if err != nil {
		return err
	}
	used, done := info.Sys().(*syscall.Stat_t).Blocks*512, int64(0)
	if err := f.Truncate(info.Size()); err != nil {
		return err
	}
	return eachPart(source, func(from, to, end int64) error {
		if err := t.mayGo(); err != nil {
			return err
		}
		if n := ahead(from, end); n > 0 {
			_ = unix.Fadvise(int(source.Fd()), from, n, unix.FADV_WILLNEED)
		}
		in, out := from, from
		for in < to {
			n, err := unix.CopyFileRange(int(source.Fd()), &in, int(f.Fd()), &out, int(to-in), 0)
			if err != nil {
				return fmt.Errorf("copy content: %w", err)
			}
			if n == 0 {
				return io.ErrUnexpectedEOF
			}
		}
		// The disk writes this part while the next one is read. An error is seen when the whole is synced.
		_ = unix.SyncFileRange(int(f.Fd()), from, to-from, unix.SYNC_FILE_RANGE_WRITE)
		done += to - from
		t.progress(int32(min(99, done*100/max(used, 1))))
		return ctx.Err()
	}, func(int64, int64) error { return nil })
}

// compareAtOnce is what of a file and its copy is compared at a time: small enough for the caches of a processor.
const compareAtOnce = 256 << 10

// changes makes a copy equal to its source where the two differ. All processors compare: writes may be held meanwhile.
func (t transfer) changes(ctx context.Context, f, source *os.File) error {
	comparing := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError().
		WithMaxGoroutines(runtime.GOMAXPROCS(0))
	err := eachPart(source, func(from, to, _ int64) error {
		if err := t.mayGo(); err != nil {
			return err
		}
		comparing.Go(func(ctx context.Context) error { return copyChanges(ctx, f, source, from, to) })
		return ctx.Err()
	}, func(from, to int64) error {
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
	})
	return cmp.Or(comparing.Wait(), err)
}

// copyChanges makes one part of a copy equal to its source.
func copyChanges(ctx context.Context, f, source *os.File, from, to int64) error {
	ours, theirs := make([]byte, compareAtOnce), make([]byte, compareAtOnce)
	for ; from < to && ctx.Err() == nil; from += compareAtOnce {
		n := min(compareAtOnce, to-from)
		if _, err := source.ReadAt(theirs[:n], from); err != nil {
			return err
		}
		if _, err := f.ReadAt(ours[:n], from); err != nil {
			return err
		}
		if !bytes.Equal(ours[:n], theirs[:n]) {
			if _, err := f.WriteAt(theirs[:n], from); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}
