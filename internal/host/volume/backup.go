//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// Contents is the content of volumes and snapshots that a backup reads. As long as it is held, none of it is removed;
// what is deleted meanwhile is removed afterwards.
type Contents struct {
	c       *Controller
	release map[string]func() // by the ID of the volume or snapshot
}

// Contents returns the content of no volume yet.
func (c *Controller) Contents() *Contents { return &Contents{c: c, release: map[string]func(){}} }

// Hold holds the content that volumes and snapshots have now, until Release is called.
func (h *Contents) Hold() error {
	entries, err := os.ReadDir(h.c.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		id := e.Name()
		if h.release[id] != nil || !strings.HasPrefix(id, "vol-") && !strings.HasPrefix(id, "snap-") {
			continue
		}
		release := h.c.kept.hold(id)
		if _, err := os.Stat(h.c.file(id)); err == nil {
			h.release[id] = release
			continue
		} else if release(); !errors.Is(err, fs.ErrNotExist) { // not there: it is still made, or has just been removed
			return err
		}
	}
	return nil
}

// IDs returns the volumes and snapshots whose content is held.
func (h *Contents) IDs() []string { return slices.Sorted(maps.Keys(h.release)) }

// Release ends the hold.
func (h *Contents) Release() {
	for _, release := range h.release {
		release()
	}
	h.release = map[string]func(){}
}

// Open opens the content of a volume or snapshot at one moment. That of a volume is copied into scratch, a file of the
// data directory's file system, as for a snapshot.
func (h *Contents) Open(ctx context.Context, id string, scratch *os.File) (*os.File, error) {
	f, err := os.Open(h.c.file(id))
	if err != nil || strings.HasPrefix(id, "snap-") {
		return f, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := h.c.checkCopy("the copy of "+id+" for the backup", f); err != nil {
		return nil, err
	}
	err = h.c.capture(ctx, scratch, f, id, h.c.transfer(func() bool { return ctx.Err() != nil }, nil))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("copy the content of %s: %w", id, whyNotMade(err))
	}
	if err := scratch.Truncate(info.Size()); err != nil { // it may have grown
		return nil, err
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", scratch.Fd()))
}
