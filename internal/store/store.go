package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Errors that table operations return, wrapped with the table and key.
var (
	// ErrNotFound reports that the row does not exist. See [IgnoreNotFound].
	ErrNotFound = errors.New("not found")
	// ErrExists reports that a row to be created exists already.
	ErrExists = errors.New("already exists")
	// ErrConflict reports that the row changed since it was read.
	ErrConflict = errors.New("changed since it was read")
	// ErrUnavailable reports that etcd did not carry out a write, or did not say so in time. In the
	// second case it may have; nothing was acknowledged.
	ErrUnavailable = errors.New("etcd does not answer")
)

// IgnoreNotFound returns nil for [ErrNotFound], and any other error as it is.
func IgnoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Store is an open set of tables. It is safe for concurrent use.
type Store struct {
	client *clientv3.Client
	prefix string
	log    *slog.Logger
	limit  time.Duration
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.RWMutex
	rows    btree.Map[string, *entry] // by key below prefix
	applied int64                     // revision the mirror has reached
	version uint64                    // grows with each change of rows
	moved   chan struct{}             // closed and replaced whenever applied grows
	subs    map[*subscription]struct{}

	large    largeRows         // of the mirror
	usage    *usage            // of the mirror
	indexes  map[string]*index // by name; guarded by mu
	building sync.Mutex        // held while an index is made; taken before mu
}

// Options adjust Open.
type Options struct {
	// Prefix is the prefix of the store's keys in etcd; "/coracle/" when empty.
	Prefix string
	// Log receives what the store has to say about its watch; slog.Default() when nil.
	Log *slog.Logger
	// WriteTimeout is the time that a write may take before it fails with ErrUnavailable; 10 s when 0.
	WriteTimeout time.Duration
	// Quota bounds the writes of contexts that are [Limited].
	Quota Quota
	// Migrations bring an older store up to date, in order of their versions.
	Migrations []Migration
}

// Open loads the store that lives in client's etcd. The client stays the caller's:
// Close does not close it.
func Open(ctx context.Context, client *clientv3.Client, o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = "/coracle/"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if err := migrate(ctx, client, o.Prefix, o.Migrations); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	s := &Store{
		client:  client,
		prefix:  o.Prefix + "t/",
		log:     o.Log,
		limit:   o.WriteTimeout,
		cancel:  cancel,
		done:    make(chan struct{}),
		moved:   make(chan struct{}),
		subs:    map[*subscription]struct{}{},
		usage:   newUsage(o.Quota),
		indexes: map[string]*index{},
	}
	if err := s.loadMirror(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("load the store: %w", err)
	}
	go s.maintainMirror(life)
	return s, nil
}

// Close stops the watch. Reads go on answering from the mirror as it was.
func (s *Store) Close() {
	s.cancel()
	<-s.done
}

// Version returns a number that is greater after each change of rows. Whoever has read some knows by it whether they
// may be others now.
func (s *Store) Version() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}

// Backup writes a consistent snapshot of the whole etcd (every table, and every
// cluster that shares it) to w while everything keeps running.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	r, err := s.client.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("take a snapshot of etcd: %w", err)
	}
	defer r.Close()
	if _, err := io.Copy(w, r); err != nil {
		return fmt.Errorf("read the snapshot of etcd: %w", err)
	}
	return nil
}

// Key joins the parts of a row's key. A part may hold any text: what would divide
// it is escaped.
func Key(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	return strings.Join(escaped, "/")
}

// Prefix returns the prefix of all keys that begin with the given parts.
func Prefix(parts ...string) string {
	if len(parts) == 0 {
		return ""
	}
	return Key(parts...) + "/"
}

// Parts undoes Key.
func Parts(key string) []string {
	parts := strings.Split(key, "/")
	for i, p := range parts {
		if u, err := url.PathUnescape(p); err == nil {
			parts[i] = u
		}
	}
	return parts
}

// loadMirror replaces the mirror by what etcd holds now and tells subscribers the difference.
func (s *Store) loadMirror(ctx context.Context) error {
	const page = 5000
	var (
		fresh btree.Map[string, *entry]
		rev   int64
		from  = s.prefix
		end   = clientv3.GetPrefixRangeEnd(s.prefix)
	)
	for {
		resp, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(rev))
		if err != nil {
			return err
		}
		if rev == 0 {
			rev = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			key := string(kv.Key[len(s.prefix):])
			fresh.Set(key, newEntry(key, kv))
		}
		if !resp.More {
			break
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	var changed []string
	s.rows.Scan(func(k string, old *entry) bool {
		if now, ok := fresh.Get(k); !ok || now.revision != old.revision {
			changed = append(changed, k)
			s.replaceEntry(k, old, now)
		}
		return true
	})
	fresh.Scan(func(k string, now *entry) bool {
		if _, ok := s.rows.Get(k); !ok {
			changed = append(changed, k)
			s.replaceEntry(k, nil, now)
		}
		return true
	})
	s.rows = fresh
	s.advance(rev, changed)
	return nil
}

// maintainMirror updates the mirror until ctx ends.
func (s *Store) maintainMirror(ctx context.Context) {
	defer close(s.done)
	for ctx.Err() == nil {
		err := s.watchChanges(ctx)
		if ctx.Err() != nil {
			return
		}
		s.log.Warn("store watch ended; loading again", "error", err)
		for ctx.Err() == nil {
			attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
			err := s.loadMirror(attempt)
			cancel()
			if err == nil {
				break
			}
			s.log.Warn("store load failed; trying again", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
}

func (s *Store) watchChanges(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	s.mu.RLock()
	from := s.applied + 1
	s.mu.RUnlock()
	for resp := range s.client.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if err := resp.Err(); err != nil {
			return err
		}
		s.applyEvents(resp.Header.Revision, resp.Events)
	}
	return errors.New("watch channel closed")
}

// applyEvents takes one watch response, whole, so that readers never see half a transaction.
func (s *Store) applyEvents(rev int64, events []*clientv3.Event) {
	if len(events) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := make([]string, 0, len(events))
	for _, ev := range events {
		k := string(ev.Kv.Key[len(s.prefix):])
		if ev.Type == mvccpb.DELETE {
			old, _ := s.rows.Delete(k)
			s.replaceEntry(k, old, nil)
		} else {
			now := newEntry(k, ev.Kv)
			old, _ := s.rows.Set(k, now)
			s.replaceEntry(k, old, now)
		}
		changed = append(changed, k)
		rev = max(rev, ev.Kv.ModRevision)
	}
	s.advance(rev, changed)
}

// advance sets the applied revision and notifies subscribers of the changed keys. The caller holds mu.
func (s *Store) advance(rev int64, changed []string) {
	if rev > s.applied {
		s.applied = rev
		close(s.moved)
		s.moved = make(chan struct{})
	}
	if len(changed) == 0 {
		return
	}
	s.version++
	for sub := range s.subs {
		sub.enqueue(changed)
	}
}

// waitForRevision returns once the mirror has reached rev.
func (s *Store) waitForRevision(ctx context.Context, rev int64) error {
	for {
		s.mu.RLock()
		reached, moved := s.applied >= rev, s.moved
		s.mu.RUnlock()
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-s.done:
			return errors.New("the store is closed")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
