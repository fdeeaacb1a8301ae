package logshipper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/fsnotify/fsnotify"
)

// watch reports the clusters whose logs were written to.
type watch struct {
	// notify is nil where the kernel gives none any more: each component of a cluster has some, and a user 128
	// by default. Then each poll reads all logs.
	notify *fsnotify.Watcher

	mu   sync.Mutex
	dirs map[string]watched
}

// watched is a directory of logs.
type watched struct {
	cluster string // key
	kinds   []ekstypes.LogType
}

// pending is the number of notifications that are fetched from the kernel in advance. The kernel merges equal ones that
// are still queued.
const pending = 4096

// poll is the time between two reconcile passes without notifications.
const poll = time.Second

func newWatch(log *slog.Logger) *watch {
	notify, err := fsnotify.NewBufferedWatcher(pending)
	if err != nil {
		log.Warn(
			"the logs of control planes can't be watched and are looked at each second; raise sysctl "+
				"fs.inotify.max_user_instances and restart the daemon", "error", err)
		notify = nil
	}
	return &watch{notify: notify, dirs: map[string]watched{}}
}

func (w *watch) close() error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Close()
}

// watchDirectory watches a directory, which it makes if there is none, for changes of the logs of some types.
func (w *watch) watchDirectory(cluster, dir string, kinds []ekstypes.LogType) error {
	if len(kinds) == 0 {
		w.unwatchDirectory(dir)
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.dirs[dir]; !known {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if w.notify == nil {
			// poll finds it
		} else if err := w.notify.Add(dir); err != nil {
			return fmt.Errorf("watch %s (see sysctl fs.inotify.max_user_watches): %w", dir, err)
		}
	}
	w.dirs[dir] = watched{cluster, slices.Clone(kinds)}
	return nil
}

// unwatchDirectory watches a directory no longer.
func (w *watch) unwatchDirectory(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.dirs[dir]; known {
		delete(w.dirs, dir)
		if w.notify == nil {
			return
		}
		w.notify.Remove(dir) //nolint:errcheck // it is not watched any more when the directory is gone
	}
}

// watchLogs sends the keys of the clusters whose logs have grown. It reports all growth within Gather once: more reads
// are not needed, and the kernel merges notifications while nobody reads them.
func (c *Controller) watchLogs(ctx context.Context, changed func(key string)) {
	if err := c.removeOffsets(ctx); err != nil {
		c.log.Error("could not forget how far the logs of clusters that are gone were shipped", "error", err)
	}
	dirty := map[string]bool{}
	var changes chan fsnotify.Event
	var failures chan error
	var polls <-chan time.Time
	if n := c.watch.notify; n != nil {
		changes, failures = n.Events, n.Errors
	} else {
		ticker := c.clock.NewTicker(poll)
		defer ticker.Stop()
		polls = ticker.C()
	}
	for {
		select {
		case <-polls:
			c.watch.noteAll(dirty)
		case e, open := <-changes:
			if !open {
				<-ctx.Done()
				return
			}
			c.watch.markDirty(e, dirty)
		case err, open := <-failures:
			if !open {
				<-ctx.Done()
				return
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				c.log.Error("watching the logs of control planes", "error", err)
			}
			c.watch.noteAll(dirty)
		case <-ctx.Done():
			return
		}
		timer := c.clock.NewTimer(c.o.Gather)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
		for range len(changes) {
			c.watch.markDirty(<-changes, dirty)
		}
		for key := range dirty {
			changed(key)
		}
		clear(dirty)
	}
}

// markDirty adds the cluster that an event is about to dirty, if one of its logs of a wanted type has changed.
func (w *watch) markDirty(e fsnotify.Event, dirty map[string]bool) {
	dir, name := filepath.Split(e.Name)
	source, _, ok := sourceOf(name)
	if !ok || !e.Has(fsnotify.Write) && !e.Has(fsnotify.Create) && !e.Has(fsnotify.Rename) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if d, known := w.dirs[filepath.Clean(dir)]; known && slices.Contains(d.kinds, source.kind) {
		dirty[d.cluster] = true
	}
}

// noteAll adds all clusters: nobody knows which logs have changed.
func (w *watch) noteAll(dirty map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.dirs {
		dirty[d.cluster] = true
	}
}
