package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Row is one row as it was at a revision.
type Row[T any] struct {
	Key      string
	Value    T     // shared between readers: never change what it points at
	Revision int64 // of etcd, when the row was last written
	Created  int64 // of etcd, when the row was created
}

// Table is a typed view of one table. Copies are equal.
//
// It is an interface because of the time that it takes to compile: the methods of a generic struct are compiled in each
// package that sees its type, in a field of a struct of another package, say. Those of an interface are compiled where
// NewTable is called.
type Table[T any] interface {
	// Get returns the record under key, or ErrNotFound.
	Get(ctx context.Context, key string) (Row[T], error)
	// Copy is like Get, and returns a value of the caller's own, to be changed and given to Update or UpdateOp.
	Copy(ctx context.Context, key string) (Row[T], error)
	// List returns every record whose key begins with prefix, in key order.
	List(ctx context.Context, prefix string) ([]Row[T], error)
	// Page returns at most limit records (all when limit is 0) whose keys begin with prefix and come after the key after.
	// next is the after of the following page, empty at the end.
	Page(ctx context.Context, prefix, after string, limit int) (rows []Row[T], next string, err error)
	// Count returns how many rows there are whose keys begin with prefix.
	Count(prefix string) int

	// Create writes a new row, or fails with ErrExists.
	Create(ctx context.Context, key string, v T) (Row[T], error)
	// Update writes row.Value if the row is still at row.Revision; otherwise it fails with
	// ErrConflict, or ErrNotFound when the row is gone.
	Update(ctx context.Context, row Row[T]) (Row[T], error)
	// Put writes the row whatever was there. It is for facts with one writer that need
	// no compare, such as observations.
	Put(ctx context.Context, key string, v T) (Row[T], error)
	// Modify reads the row, lets change edit a private copy, and writes it, as often as it
	// takes for no other writer to come between. An error from change ends it unwritten.
	Modify(ctx context.Context, key string, change func(*T) error) (Row[T], error)
	// Delete removes the row if it is still at row.Revision; otherwise it fails with
	// ErrConflict, or ErrNotFound when it is gone already.
	Delete(ctx context.Context, row Row[T]) error

	// CreateOp creates a row that must not exist.
	CreateOp(key string, v T) Op
	// UpdateOp writes row.Value over the row, which must still be at row.Revision.
	UpdateOp(row Row[T]) Op
	// PutOp writes a row whatever was there.
	PutOp(key string, v T) Op
	// DeleteOp removes a row that must still be at row.Revision.
	DeleteOp(row Row[T]) Op
	// RemoveOp removes a row if it is there.
	RemoveOp(key string) Op
	// CheckOp demands that a row which the transaction relies on is still at row.Revision.
	CheckOp(row Row[T]) Op
	// AbsentOp demands that no row exists under key.
	AbsentOp(key string) Op

	// Watch calls each for every change at or after revision from (0: from now on) of the rows
	// whose keys begin with prefix, until ctx ends or each fails. A revision that etcd has
	// compacted away ends it with an error: list again, and watch from there.
	Watch(ctx context.Context, prefix string, from int64, each func(Event[T]) error) error
	// Notify calls changed with the key of every row there is below prefix, and then with the key of each row as it is
	// created, changed or deleted, until ctx ends. Changes that come faster than they are taken are merged into one. By
	// the time of the call a Get sees the change.
	Notify(ctx context.Context, prefix string, changed func(key string))
}

// table implements Table. By its pointer, so that the compiler makes no second function of each method for each T.
type table[T any] struct {
	store *Store
	name  string
}

// NewTable returns the table of that name. A name belongs to one record type.
func NewTable[T any](s *Store, name string) Table[T] {
	if name == "" || strings.Contains(name, "/") {
		panic(fmt.Sprintf("store: bad table name %q", name))
	}
	return &table[T]{store: s, name: name + "/"}
}

// entry is a row of the mirror. It is decoded at its first read, and later ones return the same value: large rows only
// as long as there are few of them.
type entry struct {
	raw      []byte
	revision int64
	created  int64
	account  string // that the row is charged to
	decoded  atomic.Pointer[any]
}

func newEntry(key string, kv *mvccpb.KeyValue) *entry {
	return &entry{
		raw: kv.Value, revision: kv.ModRevision, created: kv.CreateRevision,
		account: accountOf(key, kv.Value),
	}
}

// largeRow is the size of rows whose values are not kept for ever once they are decoded, in bytes, and maxLarge that of
// those which are kept together, decoded. Smaller ones whose values take much more memory than the quota of their
// account counts are not kept for ever either.
const (
	largeRow = 4 << 10
	maxLarge = 64 << 20
)

// largeRows are the large rows that are decoded.
type largeRows struct {
	mu   sync.Mutex
	rows []*entry
	size int // in bytes, decoded
}

// add counts a row that has been decoded, whose value takes so many bytes. Once there are too many, all others are
// forgotten, and decoded at their next read.
func (l *largeRows) add(e *entry, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size += size; l.size > maxLarge {
		for _, other := range l.rows {
			other.decoded.Store(nil)
		}
		l.rows, l.size = nil, size
	}
	l.rows = append(l.rows, e)
}

func (t *table[T]) decodeRow(key string, e *entry) (Row[T], error) {
	r := Row[T]{Key: key, Revision: e.revision, Created: e.created}
	if p := e.decoded.Load(); p != nil {
		r.Value = (*p).(T)
		return r, nil
	}
	v, err := t.decodeValue(key, e.raw)
	if err != nil {
		return r, err
	}
	var boxed any = v
	e.decoded.Store(&boxed)
	if size := decodedSize(&v); len(e.raw) >= largeRow || size > 2*(len(e.raw)+rowOverhead) {
		t.store.large.add(e, size)
	}
	r.Value = v
	return r, nil
}

func (t *table[T]) decodeValue(key string, raw []byte) (T, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("decode row %s%s: %w", t.name, key, err)
	}
	return v, nil
}

func (t *table[T]) rowError(key string, err error) error {
	return fmt.Errorf("%s%s: %w", t.name, key, err)
}

func (t *table[T]) Get(ctx context.Context, key string) (Row[T], error) {
	e, err := t.find(ctx, key)
	if err != nil {
		return Row[T]{}, err
	}
	return t.decodeRow(key, e)
}

// find returns the row's entry in the mirror, or ErrNotFound.
func (t *table[T]) find(ctx context.Context, key string) (*entry, error) {
	t.store.mu.RLock()
	e, ok := t.store.rows.Get(t.name + key)
	t.store.mu.RUnlock()
	if !ok {
		recordRead(ctx, t.name+key, 0)
		return nil, t.rowError(key, ErrNotFound)
	}
	recordRead(ctx, t.name+key, e.revision)
	return e, meterRead(ctx, rowSize(t.name+key, e.raw))
}

func (t *table[T]) List(ctx context.Context, prefix string) ([]Row[T], error) {
	rows, _, err := t.Page(ctx, prefix, "", 0)
	return rows, err
}

func (t *table[T]) Page(ctx context.Context, prefix, after string, limit int) (rows []Row[T], next string, err error) {
	var all []found
	full := t.name + prefix
	from := full
	if after != "" && t.name+after >= from {
		from = t.name + after + "\x00"
	}
	more := false
	t.store.mu.RLock()
	t.store.rows.Ascend(from, func(k string, e *entry) bool {
		if !strings.HasPrefix(k, full) {
			return false
		}
		if limit > 0 && len(all) == limit {
			more = true
			return false
		}
		all = append(all, found{k[len(t.name):], e})
		return true
	})
	t.store.mu.RUnlock()
	if rows, err = t.decodeRows(ctx, all); err != nil {
		return nil, "", err
	}
	if more {
		next = rows[len(rows)-1].Key
	}
	return rows, next, nil
}

// found is a row of a list, before it is decoded.
type found struct {
	key string
	e   *entry
}

// decodeRows counts what a list has found, and decodes it.
func (t *table[T]) decodeRows(ctx context.Context, all []found) ([]Row[T], error) {
	var size int64
	for _, f := range all {
		size += rowSize(t.name+f.key, f.e.raw)
	}
	if err := meterRead(ctx, size); err != nil {
		return nil, err
	}
	rows := make([]Row[T], 0, len(all))
	for _, f := range all {
		r, err := t.decodeRow(f.key, f.e)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (t *table[T]) Count(prefix string) (n int) {
	full := t.name + prefix
	t.store.mu.RLock()
	defer t.store.mu.RUnlock()
	t.store.rows.Ascend(full, func(k string, _ *entry) bool {
		if !strings.HasPrefix(k, full) {
			return false
		}
		n++
		return true
	})
	return n
}

func (t *table[T]) Create(ctx context.Context, key string, v T) (Row[T], error) {
	return t.writeRow(ctx, key, t.CreateOp(key, v))
}

func (t *table[T]) Update(ctx context.Context, row Row[T]) (Row[T], error) {
	return t.writeRow(ctx, row.Key, t.UpdateOp(row))
}

func (t *table[T]) Put(ctx context.Context, key string, v T) (Row[T], error) {
	return t.writeRow(ctx, key, t.PutOp(key, v))
}

func (t *table[T]) writeRow(ctx context.Context, key string, op Op) (Row[T], error) {
	if err := t.store.Txn(ctx, op); err != nil {
		return Row[T]{}, err
	}
	row, err := t.Get(Unmetered(ctx), key) // the caller has the value, and must learn that it was written
	if errors.Is(err, ErrNotFound) {       // it was written, and somebody else has deleted it since
		v, err := t.decodeValue(key, op.put)
		return Row[T]{Key: key, Value: v}, err
	}
	return row, err
}

func (t *table[T]) Modify(ctx context.Context, key string, change func(*T) error) (Row[T], error) {
	for {
		row, err := t.Copy(ctx, key)
		if err != nil {
			return row, err
		}
		if err := change(&row.Value); err != nil {
			return row, err
		}
		updated, err := t.Update(ctx, row)
		if !errors.Is(err, ErrConflict) {
			return updated, err
		}
	}
}

func (t *table[T]) Copy(ctx context.Context, key string) (Row[T], error) {
	e, err := t.find(ctx, key)
	if err != nil {
		return Row[T]{}, err
	}
	v, err := t.decodeValue(key, e.raw)
	return Row[T]{Key: key, Value: v, Revision: e.revision, Created: e.created}, err
}

func (t *table[T]) Delete(ctx context.Context, row Row[T]) error {
	return t.store.Txn(ctx, t.DeleteOp(row))
}
