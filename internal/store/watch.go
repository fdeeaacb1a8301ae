package store

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Event is one change of a row, in the order of revisions.
type Event[T any] struct {
	Row     Row[T] // of a deleted row only Key and Revision are set
	Deleted bool
}

func (t *table[T]) Watch(ctx context.Context, prefix string, from int64, each func(Event[T]) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	full := t.store.prefix + t.name
	for resp := range t.store.client.Watch(ctx, full+prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("watch %s%s: %w", t.name, prefix, err)
		}
		for _, ev := range resp.Events {
			key := string(ev.Kv.Key[len(full):])
			out := Event[T]{Row: Row[T]{Key: key, Revision: ev.Kv.ModRevision}}
			if ev.Type == mvccpb.DELETE {
				out.Deleted = true
			} else {
				row, err := t.decodeRow(key, newEntry(t.name+key, ev.Kv))
				if err != nil {
					return err
				}
				out.Row = row
			}
			if err := each(out); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func (t *table[T]) Notify(ctx context.Context, prefix string, changed func(key string)) {
	full := t.name + prefix
	sub := &subscription{prefix: full, pending: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	s := t.store
	s.mu.Lock()
	s.subs[sub] = struct{}{}
	var present []string
	s.rows.Ascend(full, func(k string, _ *entry) bool {
		if !strings.HasPrefix(k, full) {
			return false
		}
		present = append(present, k)
		return true
	})
	sub.enqueue(present)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.subs, sub)
		s.mu.Unlock()
	}()
	for {
		for _, k := range sub.takePending() {
			changed(k[len(t.name):])
		}
		select {
		case <-sub.wake:
		case <-ctx.Done():
			return
		}
	}
}

// subscription collects changed keys for one listener without ever holding up the mirror.
type subscription struct {
	prefix string
	wake   chan struct{}

	mu      sync.Mutex
	pending map[string]struct{}
	order   []string
}

func (b *subscription) enqueue(keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		if !strings.HasPrefix(k, b.prefix) {
			continue
		}
		if _, ok := b.pending[k]; !ok {
			b.pending[k] = struct{}{}
			b.order = append(b.order, k)
		}
	}
	if len(b.order) > 0 {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
}

func (b *subscription) takePending() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := b.order
	b.order = nil
	clear(b.pending)
	return keys
}
