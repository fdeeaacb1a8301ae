package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/host/filetree"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

var (
	crashMade      = crash.At("filesystem/made")
	crashHidden    = crash.At("filesystem/hidden")
	crashRemoved   = crash.At("filesystem/removed")
	crashForgotten = crash.At("filesystem/forgotten")
)

// lookAgain is the time until content that is missing is looked for again.
const lookAgain = time.Minute

// ensureContent makes the directory of a file system, unless it was there once, and records whether it is there.
func (c *Controller) ensureContent(ctx context.Context, f record.FileSystem) (reconcile.Result, error) {
	row, err := c.contents.Get(ctx, f.Key())
	if errors.Is(err, store.ErrNotFound) { // before the directory, so that this is found by the record and removed
		row, err = c.contents.Create(ctx, f.Key(), record.FileSystemContent{FileSystemID: f.ID})
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	content := row.Value
	var made error
	switch there := isDirectory(c.o.Dir.FileSystemRoot(f.ID)); {
	case there:
		content.Ready, content.Made, content.Failure = true, true, ""
	case content.Made:
		content.Ready = false
		content.Failure = "its content is not on this host: restore " + filepath.Dir(c.o.Dir.FileSystemRoot(f.ID))
	default:
		if made = c.makeContent(f.ID); made != nil {
			content.Failure = record.Reason(made.Error())
			if errors.Is(made, diskspace.ErrFull) { // it says how much is free: that changes all the time, this does not
				content.Failure = "its directory cannot be made, because the disk is full: free some space, or inodes"
			}
			break
		}
		crashMade.Here()
		content.Ready, content.Made, content.Failure = true, true, ""
	}
	if row.Value != content {
		row.Value = content
		_, err = c.contents.Update(ctx, row)
	}
	return reconcile.Result{After: lookAgain}, errors.Join(made, err)
}

// makeContent makes the directory of a file system, so that it survives a loss of power. File systems cost nothing: an
// account can have so many that they fill a disk that is nearly full.
func (c *Controller) makeContent(id string) error {
	if err := c.o.CheckSpace(string(c.o.Dir)); err != nil {
		return fmt.Errorf("make the directory of the file system: %w", err)
	}
	root := c.o.Dir.FileSystemRoot(id)
	above := filepath.Dir(root)
	if err := os.MkdirAll(above, 0o700); err != nil {
		return fmt.Errorf("make the directory of the file system: %w", err)
	}
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the root directory of the file system: %w", err)
	}
	// open to others: on this host the directory above is closed, in machines it is as on EFS
	if err := os.Chmod(root, 0o755); err != nil {
		return fmt.Errorf("open the root directory of the file system: %w", err)
	}
	for _, dir := range []string{above, c.o.Dir.FileSystemsDir(), filepath.Dir(c.o.Dir.FileSystemsDir())} {
		if err := durable.SyncDir(dir); err != nil {
			return fmt.Errorf("keep the directory of the file system: %w", err)
		}
	}
	return nil
}

// removeContent removes the directory of the file system with a key, and then the record of its content.
func (c *Controller) removeContent(ctx context.Context, key string) error {
	parts := store.Parts(key)
	id := parts[len(parts)-1]
	dir := filepath.Join(c.o.Dir.FileSystemsDir(), id)
	hidden := filepath.Join(c.o.Dir.FileSystemsDir(), "deleted-"+id)
	if err := os.Rename(dir, hidden); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hide the content of file system %s: %w", id, err)
	}
	crashHidden.Here()
	if err := filetree.RemoveAllContext(ctx, hidden, seal); err != nil {
		return fmt.Errorf("remove the content of file system %s: %w", id, err)
	}
	crashRemoved.Here()
	row, err := c.contents.Get(ctx, key)
	if err == nil {
		err = c.contents.Delete(ctx, row)
	}
	crashForgotten.Here()
	return ignoreMissing(err)
}

// nobody is an ID that no user of a machine has on the host.
const nobody = 1<<32 - 2

// seal keeps machines from making files in a directory that is removed, even where they still have it open. Only root
// can: for others there are no machines.
func seal(dir int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := unix.Fchown(dir, nobody, nobody); err != nil {
		return fmt.Errorf("give a directory to nobody: %w", err)
	}
	if err := unix.Fchmod(dir, 0); err != nil {
		return fmt.Errorf("close a directory: %w", err)
	}
	return nil
}

// The size of a file system is measured again after measureAgain, and so that measuring takes a hundredth of the time
// at most.
const (
	measureAgain = time.Minute
	measureShare = 100
)

// measurement is the last time that a file system was measured.
type measurement struct {
	at   time.Time
	took time.Duration
}

// due returns the time until a file system is to be measured again.
func (m measurement) due() time.Duration {
	return time.Until(m.at.Add(max(measureAgain, measureShare*m.took)))
}

// reconcileSize measures the content of a file system, when that is due: a machine that writes all the time changes the
// size all the time.
func (c *Controller) reconcileSize(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := c.contents.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		c.mu.Lock()
		delete(c.measured, key)
		c.mu.Unlock()
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil || !row.Value.Ready {
		return reconcile.Result{}, err
	}
	c.mu.Lock()
	due := c.measured[key].due()
	c.mu.Unlock()
	if due > 0 {
		return reconcile.Result{After: due}, nil
	}
	began := time.Now()
	size, err := measure(ctx, c.o.Dir.FileSystemRoot(row.Value.FileSystemID))
	m := measurement{time.Now(), time.Since(began)}
	c.mu.Lock()
	c.measured[key] = m
	c.mu.Unlock()
	switch {
	case ctx.Err() != nil: // it is too large to be measured at once, or grows all the time
		return reconcile.Result{After: m.due()}, nil //nolint:nilerr // the error is that of ctx
	case err != nil:
		return reconcile.Result{After: m.due()}, fmt.Errorf("measure file system %s: %w", row.Value.FileSystemID, err)
	case !row.Value.MeasuredAt.IsZero() && row.Value.Size == size:
		return reconcile.Result{After: m.due()}, nil
	}
	_, err = c.contents.Modify(ctx, key, func(content *record.FileSystemContent) error {
		content.Size, content.MeasuredAt = size, c.o.Now().UTC().Truncate(time.Second)
		return nil
	})
	return reconcile.Result{After: m.due()}, ignoreMissing(err)
}

// deepest is how deep directories are measured: a machine that moves some meanwhile can make them look deeper.
const deepest = 10_000

// measure returns how many bytes the files in a directory take on the disk. Of a file with several names each has its
// share.
func measure(ctx context.Context, root string) (size int64, err error) {
	depth := 0
	err = filetree.Walk(root, filetree.Visitor{
		Enter: func(int) error {
			if depth++; depth > deepest {
				return fmt.Errorf("directories are deeper than %d", deepest)
			}
			return ctx.Err()
		},
		Leave: func(at int, name string, isDir bool) error {
			if isDir {
				depth--
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return nil //nolint:nilerr // it has gone
			}
			links := int64(1)
			if !isDir {
				links = max(1, int64(st.Nlink)) //nolint:gosec,unconvert // its type depends on the system
			}
			size += st.Blocks * 512 / links
			return nil
		},
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return size, err
}

func isDirectory(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
