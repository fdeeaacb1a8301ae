package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Watch is a source of keys that come from the API servers of clusters, whose administrators decide how many there are:
// each object that somebody makes up is a key. changed waits, until its context ends, while as many keys of the
// cluster, or of the account, wait as may; the watch that tells of them waits with it. It returns an error only then. A
// key waits from its first mention until a pass over it succeeds, and may be told again meanwhile.
//
// Passes never wait for a watch, so that they go on to make room: what a pass needs it reads itself, or from what
// another goroutine of the watch keeps.
type Watch func(ctx context.Context, changed func(ctx context.Context, key string) error)

const (
	// maxClusterKeys and maxAccountKeys are the maximum numbers of keys of one cluster, and of all clusters of an account,
	// that come from watches and wait.
	maxClusterKeys, maxAccountKeys = 1000, 4000

	// blockedEvery is the interval at which the log says again that the watch of a cluster is blocked.
	blockedEvery = time.Minute
)

// waiting has the keys from watches that wait.
type waiting struct {
	controller string
	log        *slog.Logger

	mu       sync.Mutex
	keys     map[string]bool
	accounts map[string]*accountKeys
	said     map[string]time.Time // when the log said last that the watch of a cluster is blocked
}

// accountKeys counts the keys of an account.
type accountKeys struct {
	keys     int
	clusters map[string]int
	room     chan struct{} // closed, and replaced, when a key leaves
	watches  int           // that wait for room
}

func newWaiting(controller string, log *slog.Logger) *waiting {
	return &waiting{controller: controller, log: log, keys: map[string]bool{}, accounts: map[string]*accountKeys{},
		said: map[string]time.Time{}}
}

// add adds a key, once there is room for it.
func (w *waiting) add(ctx context.Context, key string) error {
	owners := ownersOf(key)
	account, cluster := owners[0], owners[1]
	counted := false
	defer func() {
		if counted {
			blockedWatches.WithLabelValues(w.controller).Dec()
		}
	}()
	for {
		w.mu.Lock()
		if w.keys[key] {
			w.mu.Unlock()
			return nil
		}
		a := w.accounts[account]
		if a == nil {
			a = &accountKeys{clusters: map[string]int{}, room: make(chan struct{})}
			w.accounts[account] = a
		}
		if a.keys < maxAccountKeys && a.clusters[cluster] < maxClusterKeys {
			w.keys[key] = true
			a.keys++
			a.clusters[cluster]++
			w.mu.Unlock()
			return nil
		}
		room := a.room
		a.watches++
		w.sayBlocked(cluster, a)
		w.mu.Unlock()
		if !counted {
			counted = true
			blockedWatches.WithLabelValues(w.controller).Inc()
		}
		var err error
		select {
		case <-room:
		case <-ctx.Done():
			err = ctx.Err()
		}
		w.mu.Lock()
		a.watches--
		w.forget(account, cluster, a)
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// sayBlocked logs that the watch of a cluster is blocked, once in blockedEvery, whatever keys come and go meanwhile. It
// forgets clusters of which it has not said so since then: names of deleted ones do not pile up. The caller holds mu.
func (w *waiting) sayBlocked(cluster string, a *accountKeys) {
	now := time.Now()
	if now.Sub(w.said[cluster]) < blockedEvery {
		return
	}
	maps.DeleteFunc(w.said, func(_ string, at time.Time) bool { return now.Sub(at) >= blockedEvery })
	w.said[cluster] = now
	w.log.Warn("a watch waits: too many keys of the cluster or of its account do", "cluster", cluster,
		"cluster keys", a.clusters[cluster], "account keys", a.keys)
}

// remove makes room for another key. It does nothing for keys that other sources have told.
func (w *waiting) remove(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.keys[key] {
		return
	}
	delete(w.keys, key)
	owners := ownersOf(key)
	a := w.accounts[owners[0]]
	a.keys--
	a.clusters[owners[1]]--
	if a.watches > 0 {
		close(a.room)
		a.room = make(chan struct{})
	}
	w.forget(owners[0], owners[1], a)
}

// forget drops the counts of a cluster and an account without keys: names of deleted clusters do not pile up. The
// caller holds mu.
func (w *waiting) forget(account, cluster string, a *accountKeys) {
	if a.clusters[cluster] == 0 {
		delete(a.clusters, cluster)
	}
	if a.keys == 0 && a.watches == 0 && w.accounts[account] == a {
		delete(w.accounts, account)
	}
}
