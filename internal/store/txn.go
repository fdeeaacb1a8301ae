package store

import (
	"context"
	"encoding/json"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Op is one step of a transaction: what must hold of a row, and what is then done to it.
type Op struct {
	name string // table and key, for errors
	key  string // below the store's prefix
	want want
	rev  int64
	put  []byte // nil: nothing is written
	del  bool
	err  error
}

type want int

const (
	wantAnything want = iota
	wantAbsent
	wantRevision
)

func (t Table[T]) op(key string, o Op) Op {
	o.name, o.key = t.name+key, t.name+key
	return o
}

func (t Table[T]) encode(key string, o Op, v T) Op {
	o.put, o.err = json.Marshal(v)
	return t.op(key, o)
}

// CreateOp creates a row that must not exist.
func (t Table[T]) CreateOp(key string, v T) Op { return t.encode(key, Op{want: wantAbsent}, v) }

// UpdateOp writes row.Value over the row, which must still be at row.Revision.
func (t Table[T]) UpdateOp(row Row[T]) Op {
	return t.encode(row.Key, Op{want: wantRevision, rev: row.Revision}, row.Value)
}

// PutOp writes a row whatever was there.
func (t Table[T]) PutOp(key string, v T) Op { return t.encode(key, Op{}, v) }

// DeleteOp removes a row that must still be at row.Revision.
func (t Table[T]) DeleteOp(row Row[T]) Op {
	return t.op(row.Key, Op{want: wantRevision, rev: row.Revision, del: true})
}

// RemoveOp removes a row if it is there.
func (t Table[T]) RemoveOp(key string) Op { return t.op(key, Op{del: true}) }

// CheckOp demands that a row which the transaction relies on is still at row.Revision.
func (t Table[T]) CheckOp(row Row[T]) Op {
	return t.op(row.Key, Op{want: wantRevision, rev: row.Revision})
}

// AbsentOp demands that no row exists under key.
func (t Table[T]) AbsentOp(key string) Op { return t.op(key, Op{want: wantAbsent}) }

// Txn carries out all ops or none. The error of the first op that could not be is
// ErrExists, ErrNotFound or ErrConflict, wrapped with its row. A row may stand in one op only. In a
// [Limited] context it fails with a [FullError] when it would add too much.
func (s *Store) Txn(ctx context.Context, ops ...Op) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	var (
		cmps  []clientv3.Cmp
		then  []clientv3.Op
		other []clientv3.Op
		held  []Op
	)
	for _, o := range ops {
		if o.err != nil {
			return fmt.Errorf("encode row %s: %w", o.name, o.err)
		}
		k := s.prefix + o.key
		switch o.want {
		case wantAbsent:
			cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(k), "=", 0))
		case wantRevision:
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(k), "=", o.rev))
		}
		if o.want != wantAnything {
			other = append(other, clientv3.OpGet(k, clientv3.WithKeysOnly()))
			held = append(held, o)
		}
		switch {
		case o.del:
			then = append(then, clientv3.OpDelete(k))
		case o.put != nil:
			then = append(then, clientv3.OpPut(k, string(o.put)))
		}
	}
	done, err := s.admit(ctx, ops)
	if err != nil {
		return fmt.Errorf("write to the store: %w", err)
	}
	defer done()
	resp, err := s.client.Txn(ctx).If(cmps...).Then(then...).Else(other...).Commit()
	if err != nil {
		return fmt.Errorf("write to the store: %w: %w", ErrUnavailable, err)
	}
	if resp.Succeeded {
		if !wrote(resp) {
			return nil
		}
		return s.await(ctx, resp.Header.Revision)
	}
	// The mirror must have what made the comparison fail before the caller reads again.
	for i, o := range held {
		kvs := resp.Responses[i].GetResponseRange().Kvs
		var failure error
		switch {
		case len(kvs) == 0 && o.want == wantRevision:
			failure = ErrNotFound
		case len(kvs) == 1 && o.want == wantAbsent:
			failure = ErrExists
		case len(kvs) == 1 && kvs[0].ModRevision != o.rev:
			failure = ErrConflict
		default:
			continue
		}
		if err := s.awaitRow(ctx, o); err != nil {
			return err
		}
		return fmt.Errorf("%s: %w", o.name, failure)
	}
	return fmt.Errorf("write to the store: %w", ErrConflict)
}

// wrote reports whether a transaction changed any row (deleting nothing does not).
func wrote(resp *clientv3.TxnResponse) bool {
	for _, r := range resp.Responses {
		if r.GetResponsePut() != nil {
			return true
		}
		if d := r.GetResponseDeleteRange(); d != nil && d.Deleted > 0 {
			return true
		}
	}
	return false
}

// awaitRow waits until the mirror no longer shows the row as the op expected it: the watch
// delivers what happened to it. Revisions of other users of the etcd never arrive here, so
// waiting for the transaction's revision itself could last for ever.
func (s *Store) awaitRow(ctx context.Context, o Op) error {
	for {
		s.mu.RLock()
		e, ok := s.rows.Get(o.key)
		stale := o.want == wantRevision && ok && e.revision == o.rev || o.want == wantAbsent && !ok
		moved := s.moved
		s.mu.RUnlock()
		if !stale {
			return nil
		}
		select {
		case <-moved:
		case <-s.done:
			return fmt.Errorf("%s: the store is closed", o.name)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
