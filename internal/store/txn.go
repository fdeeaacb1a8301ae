package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
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

func (t *table[T]) keyedOp(key string, o Op) Op {
	o.name, o.key = t.name+key, t.name+key
	return o
}

func (t *table[T]) encodeOp(key string, o Op, v T) Op {
	o.put, o.err = json.Marshal(v)
	return t.keyedOp(key, o)
}

func (t *table[T]) CreateOp(key string, v T) Op { return t.encodeOp(key, Op{want: wantAbsent}, v) }

func (t *table[T]) UpdateOp(row Row[T]) Op {
	return t.encodeOp(row.Key, Op{want: wantRevision, rev: row.Revision}, row.Value)
}

func (t *table[T]) PutOp(key string, v T) Op { return t.encodeOp(key, Op{}, v) }

func (t *table[T]) DeleteOp(row Row[T]) Op {
	return t.keyedOp(row.Key, Op{want: wantRevision, rev: row.Revision, del: true})
}

func (t *table[T]) RemoveOp(key string) Op { return t.keyedOp(key, Op{del: true}) }

func (t *table[T]) CheckOp(row Row[T]) Op {
	return t.keyedOp(row.Key, Op{want: wantRevision, rev: row.Revision})
}

func (t *table[T]) AbsentOp(key string) Op { return t.keyedOp(key, Op{want: wantAbsent}) }

// Txn carries out all ops or none. The error of the first op that could not be is
// ErrExists, ErrNotFound or ErrConflict, wrapped with its row. A row may stand in one op only. In a
// [Limited] context it fails with a [FullError] when it would add too much. In the context of a
// [Decision] it fails with the decision's error when rows have changed since and it is now refused.
func (s *Store) Txn(ctx context.Context, ops ...Op) error {
	if err := MeterError(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	var then []clientv3.Op
	for _, o := range ops {
		if o.err != nil {
			return fmt.Errorf("encode row %s: %w", o.name, o.err)
		}
		switch k := s.prefix + o.key; {
		case o.del:
			then = append(then, clientv3.OpDelete(k))
		case o.put != nil:
			then = append(then, clientv3.OpPut(k, string(o.put)))
		}
	}
	done, err := s.admitOps(ctx, ops)
	if err != nil {
		return fmt.Errorf("write to the store: %w", err)
	}
	defer done()
	decision := decisionOf(ctx)
	for {
		checks := decision.checks()
		free := max(0, maxConditions-len(ops))
		if len(checks) > free {
			if !s.hold(checks[free:]) {
				if err := decision.decideAnew(ctx); err != nil {
					return err
				}
				continue
			}
			checks = checks[:free]
		}
		conditions, other := s.compare(append(slices.Clip(ops), checks...))
		resp, err := s.client.Txn(ctx).If(conditions...).Then(then...).Else(other...).Commit()
		if err != nil {
			return fmt.Errorf("write to the store: %w: %w", ErrUnavailable, err)
		}
		if resp.Succeeded {
			decision.recordWrite(ops, resp.Header.Revision)
			if !hasWritten(resp) {
				return nil
			}
			return s.waitForRevision(ctx, resp.Header.Revision)
		}
		rows := resp.Responses
		if err := s.failure(ctx, ops, &rows); err != nil {
			return err
		}
		// Every op could be carried out: it is the decision that no longer stands.
		if err := s.failure(ctx, checks, &rows); err == nil || ctx.Err() != nil {
			return fmt.Errorf("write to the store: %w", cmp.Or(ctx.Err(), ErrConflict))
		}
		if err := decision.decideAnew(ctx); err != nil {
			return err
		}
	}
}

// maxConditions is the maximum number of conditions and operations of a transaction in an etcd with the default
// --max-txn-ops. Of a decision by more records, such as one about hundreds of resources, the rest is compared with the
// mirror just before.
const maxConditions = 128

// hold reports whether the conditions of ops hold in the mirror.
func (s *Store) hold(ops []Op) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, o := range ops {
		e, ok := s.rows.Get(o.key)
		if ok != (o.want == wantRevision) || ok && e.revision != o.rev {
			return false
		}
	}
	return true
}

// compare returns the conditions of ops, and the reads that tell which of them do not hold.
func (s *Store) compare(ops []Op) (conditions []clientv3.Cmp, reads []clientv3.Op) {
	for _, o := range ops {
		k := s.prefix + o.key
		switch o.want {
		case wantAbsent:
			conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(k), "=", 0))
		case wantRevision:
			conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(k), "=", o.rev))
		default:
			continue
		}
		reads = append(reads, clientv3.OpGet(k, clientv3.WithKeysOnly()))
	}
	return conditions, reads
}

// failure returns the error of the first op whose condition does not hold, nil if all hold, and takes what was read for
// ops from rows. It waits until the mirror has what made the condition fail, for the caller to read it again.
func (s *Store) failure(ctx context.Context, ops []Op, rows *[]*etcdserverpb.ResponseOp) error {
	var failed *Op
	var failure error
	for _, o := range ops {
		if o.want == wantAnything {
			continue
		}
		kvs := (*rows)[0].GetResponseRange().Kvs
		*rows = (*rows)[1:]
		switch {
		case failed != nil:
			continue
		case len(kvs) == 0 && o.want == wantRevision:
			failure = ErrNotFound
		case len(kvs) == 1 && o.want == wantAbsent:
			failure = ErrExists
		case len(kvs) == 1 && kvs[0].ModRevision != o.rev:
			failure = ErrConflict
		default:
			continue
		}
		failed = &o
	}
	if failed == nil {
		return nil
	}
	if err := s.awaitRow(ctx, *failed); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", failed.name, failure)
}

// hasWritten reports whether a transaction changed any row (deleting nothing does not).
func hasWritten(resp *clientv3.TxnResponse) bool {
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
