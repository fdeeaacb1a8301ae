//go:build linux

package machine

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/time/rate"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
)

// watcher reports the machines whose status files have changed. It is a convenience: where the kernel has no notices
// left, machines that boot are observed every second.
type watcher struct {
	log   *slog.Logger
	after func(time.Duration) <-chan time.Time // time.After, but in tests

	mu      sync.Mutex
	w       *fsnotify.Watcher   // nil while it does not run, or cannot
	watched map[string]*watched // by directory
}

// watched is a directory of a machine.
type watched struct {
	key string
	// limit bounds how busy a machine can keep the controller: it writes its report as often as it likes.
	limit *rate.Limiter
	// noise bounds how busy it can keep the one reader of all notices: it makes files there as often as it likes.
	noise *rate.Limiter
	muted bool // for a pause; of run alone
}

// Notices of a directory that are passed on at once; further ones wait for a pause.
const (
	noticesAtOnce = 20
	noticePause   = time.Second
)

// Notices of a directory that are read, of any file in it. One with more is not watched for a pause.
const (
	noiseAtOnce = 1000
	noiseRate   = 200 // in a second
	noisePause  = 10 * time.Second
)

func newWatcher(log *slog.Logger) *watcher {
	return &watcher{log: log, after: time.After, watched: map[string]*watched{}}
}

// run implements reconcile.Source.
func (w *watcher) run(ctx context.Context, changed func(string)) {
	notices, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("no notices of files: machines are looked at now and then", "error", err)
		<-ctx.Done()
		return
	}
	defer notices.Close()
	w.mu.Lock()
	w.w = notices
	missed := make([]string, 0, len(w.watched))
	for dir, d := range w.watched {
		d.muted = false
		missed = append(missed, dir)
	}
	w.mu.Unlock()
	for _, dir := range missed {
		_ = notices.Add(dir) // it may be gone
	}
	defer func() {
		w.mu.Lock()
		w.w = nil
		w.mu.Unlock()
	}()
	delayed := map[string]bool{} // keys of whom to tell after the pause
	var pause <-chan time.Time
	resumed := make(chan *watched)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-notices.Events:
			dir, name := filepath.Split(e.Name)
			dir = filepath.Clean(dir)
			w.mu.Lock()
			d := w.watched[dir]
			w.mu.Unlock()
			switch {
			case d == nil || d.muted:
			case !d.noise.Allow():
				d.muted = true
				go w.unwatch(ctx, notices, dir, d, resumed) // it may wait for this loop
			case name != launch.StatusFile && name != boot.File:
			case d.limit.Allow():
				changed(d.key)
			default:
				delayed[d.key] = true
				if pause == nil {
					pause = time.After(noticePause)
				}
			}
		case d := <-resumed:
			d.muted = false
			changed(d.key) // something may have been missed
		case <-pause:
			for key := range delayed {
				changed(key)
			}
			clear(delayed)
			pause = nil
		case err := <-notices.Errors:
			w.log.Debug("a notice of a file was lost", "error", err)
		}
	}
}

// unwatch watches a directory no more, and again after a pause.
func (w *watcher) unwatch(ctx context.Context, notices *fsnotify.Watcher, dir string, d *watched,
	resumed chan<- *watched) {
	_ = notices.Remove(dir) // it may be gone
	select {
	case <-w.after(noisePause):
	case <-ctx.Done():
		return
	}
	w.mu.Lock()
	current := w.watched[dir] == d
	w.mu.Unlock()
	if !current {
		return
	}
	_ = notices.Add(dir)
	select {
	case resumed <- d:
	case <-ctx.Done():
	}
}

// add watches the files of the machine in dir.
func (w *watcher) add(dir, key string) error {
	for _, d := range []string{dir, filepath.Join(dir, launch.RunDir)} {
		w.mu.Lock()
		before, notices := w.watched[d], w.w
		known := before != nil && before.key == key
		if !known {
			w.watched[d] = &watched{key: key, limit: rate.NewLimiter(rate.Every(noticePause), noticesAtOnce),
				noise: rate.NewLimiter(noiseRate, noiseAtOnce)}
		}
		w.mu.Unlock()
		if known || notices == nil {
			continue
		}
		if err := notices.Add(d); errors.Is(err, fs.ErrNotExist) {
			return err
		} else if err != nil && !errors.Is(err, fsnotify.ErrClosed) {
			w.log.Debug("no notices of a machine's files", "dir", d, "error", err)
		}
	}
	return nil
}

func (w *watcher) remove(dir string) {
	for _, d := range []string{dir, filepath.Join(dir, launch.RunDir)} {
		w.mu.Lock()
		delete(w.watched, d)
		notices := w.w
		w.mu.Unlock()
		if notices != nil {
			_ = notices.Remove(d) // it may never have been watched
		}
	}
}
