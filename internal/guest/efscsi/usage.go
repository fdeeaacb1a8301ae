//go:build linux

package efscsi

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// usage knows how much is in volumes, by the paths where they are mounted. It counts in the background, as that may
// take longer than kubelet waits, and has each count for some time.
type usage struct {
	refresh time.Duration   // how long a count is good
	most    int             // counts at the same time, of one file system
	done    <-chan struct{} // closed when counting has to end

	counting sync.WaitGroup
	mu       sync.Mutex
	known    map[string]count // by path
	running  map[string]int   // by file system
}

// count is what a volume had at a time.
type count struct {
	bytes   int64
	at      time.Time
	known   bool
	running bool
}

// of returns how much is in a volume, if that is known, and counts where it is not, or is too old.
func (u *usage) of(fileSystem, path string) (bytes int64, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known == nil {
		u.known, u.running = make(map[string]count), make(map[string]int)
	}
	c := u.known[path]
	if !c.running && (!c.known || time.Since(c.at) > u.refresh) && u.running[fileSystem] < u.most {
		c.running = true
		u.known[path] = c
		u.running[fileSystem]++
		u.counting.Go(func() { u.count(fileSystem, path) })
	}
	return c.bytes, c.known
}

func (u *usage) count(fileSystem, path string) {
	bytes, err := countBytes(path, u.done)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running[fileSystem]--
	c, mounted := u.known[path]
	if !mounted {
		return
	}
	c.running = false
	if err == nil {
		c.bytes, c.at, c.known = bytes, time.Now(), true
	}
	u.known[path] = c
}

// forget forgets a path where a volume was mounted.
func (u *usage) forget(path string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, path)
}

var errStopped = errors.New("the driver ends")

// countBytes returns what the files of a directory take, those with several names once.
func countBytes(root string, done <-chan struct{}) (bytes int64, err error) {
	type file struct{ device, inode uint64 }
	seen := make(map[file]bool)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		select {
		case <-done:
			return errStopped
		default:
		}
		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil // deleted meanwhile
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		if st.Nlink > 1 && !info.IsDir() {
			f := file{st.Dev, st.Ino}
			if seen[f] {
				return nil
			}
			seen[f] = true
		}
		bytes += st.Blocks * 512
		return nil
	})
	return bytes, err
}
