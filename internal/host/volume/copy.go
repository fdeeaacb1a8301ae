//go:build linux

package volume

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"sync/atomic"
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
	return t.eachDirect(ctx, f, source, func(to, from directFile, start, end int64) error {
		return transferRange(to, from, start, end)
	}, func(start, end int64) {
		done += end - start
		t.progress(int32(min(99, done*100/max(used, 1))))
	}, func(int64, int64) error { return nil })
}

// changes makes a copy equal to its source where the two differ. Writes may be held meanwhile.
func (t transfer) changes(ctx context.Context, f, source *os.File) error {
	return t.eachDirect(ctx, f, source, copyChanges, func(int64, int64) {}, func(start, end int64) error {
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, start, end-start)
	})
}

// atOnce is the number of parts of a copy that are read and written at a time: disks read and write at once.
const atOnce = 4

// eachDirect calls data for each part of source that has content, for atOnce parts at a time, begun before each, and
// hole for each part that has none.
func (t transfer) eachDirect(ctx context.Context, f, source *os.File,
	data func(to, from directFile, start, end int64) error, begun func(start, end int64),
	hole func(start, end int64) error) error {
	to, from := openDirect(f), openDirect(source)
	defer to.Close()
	defer from.Close()
	parts := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError().WithMaxGoroutines(atOnce)
	var failed atomic.Bool
	err := eachPart(source, func(start, end int64) error {
		if failed.Load() {
			return context.Canceled // the pool has the error
		}
		if err := t.mayGo(); err != nil {
			return err
		}
		parts.Go(func(ctx context.Context) error {
			if ctx.Err() != nil || failed.Load() {
				return ctx.Err()
			}
			err := data(to, from, start, end)
			if err != nil {
				failed.Store(true)
			}
			return err
		})
		begun(start, end)
		return ctx.Err()
	}, hole)
	return cmp.Or(parts.Wait(), err)
}

// copyChanges makes one part of a copy equal to its source.
func copyChanges(to, from directFile, start, end int64) error {
	ours, theirs := buffers.Get().(*[]byte), buffers.Get().(*[]byte)
	defer buffers.Put(ours)
	defer buffers.Put(theirs)
	for at := start; at < end; at += bufferSize {
		n := min(bufferSize, end-at)
		if _, err := from.ReadAt((*theirs)[:n], at); err != nil {
			return err
		}
		if _, err := to.ReadAt((*ours)[:n], at); err != nil {
			return err
		}
		if bytes.Equal((*ours)[:n], (*theirs)[:n]) {
			continue
		}
		if _, err := to.WriteAt((*theirs)[:n], at); err != nil {
			return err
		}
	}
	return nil
}
