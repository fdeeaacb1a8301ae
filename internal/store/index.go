package store

import (
	"context"
	"strings"

	"github.com/tidwall/btree"
)

// Index finds rows of a table by a value of theirs, without a look at all others. It is an interface for the reason
// that [Table] is one.
type Index[T any] interface {
	// List returns every row with that value, in key order.
	List(ctx context.Context, value string) ([]Row[T], error)
	// Page returns at most limit rows (all when limit is 0) with that value whose keys come after the key after, in key
	// order. next is the after of the following page, empty at the end.
	Page(ctx context.Context, value, after string, limit int) (rows []Row[T], next string, err error)
	// Count returns how many rows have that value. It decodes none of them.
	Count(value string) int
}

// tableIndex implements Index.
type tableIndex[T any] struct {
	table *table[T]
	name  string
	value func(T) string
}

// NewIndex returns the index of that name over a table. value returns what a row is found by, empty for a row that is
// not found. The index is kept in memory from its first use on.
func NewIndex[T any](t Table[T], name string, value func(T) string) Index[T] {
	of := t.(*table[T]) // what NewTable returns
	return &tableIndex[T]{table: of, name: of.name + name, value: value}
}

func (i *tableIndex[T]) List(ctx context.Context, value string) ([]Row[T], error) {
	rows, _, err := i.Page(ctx, value, "", 0)
	return rows, err
}

func (i *tableIndex[T]) Page(ctx context.Context, value, after string, limit int) (
	rows []Row[T], next string, err error) {
	var all []found
	more := false
	i.ascend(value, after, func(key string) bool {
		if limit > 0 && len(all) == limit {
			more = true
			return false
		}
		e, _ := i.table.store.rows.Get(i.table.name + key)
		all = append(all, found{key, e})
		return true
	})
	if rows, err = i.table.decodeRows(ctx, all); err != nil {
		return nil, "", err
	}
	if more {
		next = rows[len(rows)-1].Key
	}
	return rows, next, nil
}

func (i *tableIndex[T]) Count(value string) (n int) {
	i.ascend(value, "", func(string) bool {
		n++
		return true
	})
	return n
}

// ascend calls each with the keys of the rows with that value that come after the key after, until it returns false.
// The mirror does not change meanwhile.
func (i *tableIndex[T]) ascend(value, after string, each func(key string) bool) {
	s := i.table.store
	s.mu.RLock()
	x := s.indexes[i.name]
	if x == nil {
		s.mu.RUnlock()
		i.build()
		s.mu.RLock()
		x = s.indexes[i.name]
	}
	defer s.mu.RUnlock()
	first := value + "\x00"
	from := first
	if after != "" {
		from = first + after + "\x00"
	}
	x.keys.Ascend(from, func(k string) bool {
		key, ok := strings.CutPrefix(k, first)
		return ok && each(key)
	})
}

// build makes the index of the rows that there are, unless it is there. They are decoded before the mirror is locked:
// there may be many, of all accounts, and others read and write meanwhile.
func (i *tableIndex[T]) build() {
	s := i.table.store
	s.building.Lock() // whoever else needs the index waits for it, and does not decode the same rows
	defer s.building.Unlock()
	x := &index{table: i.table.name, value: func(key string, e *entry) string {
		row, err := i.table.decodeRow(key, e)
		if err != nil { // whoever reads the row is told
			return ""
		}
		return i.value(row.Value)
	}}
	s.mu.RLock()
	_, built := s.indexes[i.name]
	var all []found
	if !built {
		s.eachRow(x.table, func(key string, e *entry) { all = append(all, found{key, e}) })
	}
	s.mu.RUnlock()
	if built {
		return
	}
	values := make(map[*entry]string, len(all))
	for _, f := range all {
		values[f.e] = x.value(f.key, f.e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eachRow(x.table, func(key string, e *entry) {
		value, known := values[e]
		if !known { // it was written meanwhile
			value = x.value(key, e)
		}
		x.insert(key, value)
	})
	s.indexes[i.name] = x
}

// eachRow calls each with the rows of a table, whose name ends with a slash. It is called with mu held.
func (s *Store) eachRow(table string, each func(key string, e *entry)) {
	s.rows.Ascend(table, func(k string, e *entry) bool {
		key, ok := strings.CutPrefix(k, table)
		if ok {
			each(key, e)
		}
		return ok
	})
}

// index is that of the mirror, which guards it.
type index struct {
	table string                            // its name, with the slash
	value func(key string, e *entry) string // of a row
	keys  btree.Set[string]                 // value, NUL, key of the row
}

// replace indexes a row that replaces another in the mirror; either may be nil.
func (x *index) replace(k string, old, now *entry) {
	key, ok := strings.CutPrefix(k, x.table)
	if !ok {
		return
	}
	if old != nil {
		x.keys.Delete(x.value(key, old) + "\x00" + key)
	}
	if now != nil {
		x.insert(key, x.value(key, now))
	}
}

// insert indexes a row under a value, empty for a row that is not found.
func (x *index) insert(key, value string) {
	if value != "" {
		x.keys.Insert(value + "\x00" + key)
	}
}

// replaceEntry notifies what follows the mirror of a row that replaces another in it; either may be nil. It is called
// with mu held.
func (s *Store) replaceEntry(k string, old, now *entry) {
	s.usage.replace(k, old, now)
	for _, x := range s.indexes {
		x.replace(k, old, now)
	}
}
