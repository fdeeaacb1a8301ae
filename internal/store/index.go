package store

import (
	"context"
	"strings"

	"github.com/tidwall/btree"
)

// Index finds rows of a table by a value of theirs, without a look at all others. It is an interface for the reason
// that [Table] is one.
type Index[T any] interface {
	// List is every row with that value, in key order.
	List(ctx context.Context, value string) ([]Row[T], error)
}

// tableIndex implements Index.
type tableIndex[T any] struct {
	table table[T]
	name  string
	value func(T) string
}

// NewIndex is the index of that name over a table. value returns what a row is found by, empty for a row that is not
// found. It is kept in memory from its first use on.
func NewIndex[T any](t Table[T], name string, value func(T) string) Index[T] {
	of := t.(table[T]) // what NewTable returns
	return tableIndex[T]{table: of, name: of.name + name, value: value}
}

func (i tableIndex[T]) List(ctx context.Context, value string) ([]Row[T], error) {
	s := i.table.store
	s.mu.RLock()
	x := s.indexes[i.name]
	if x == nil {
		s.mu.RUnlock()
		i.build()
		s.mu.RLock()
		x = s.indexes[i.name]
	}
	var all []found
	first := value + "\x00"
	x.keys.Ascend(first, func(k string) bool {
		key, ok := strings.CutPrefix(k, first)
		if ok {
			e, _ := s.rows.Get(i.table.name + key)
			all = append(all, found{key, e})
		}
		return ok
	})
	s.mu.RUnlock()
	return i.table.decodeRows(ctx, all)
}

// build makes the index of the rows that there are.
func (i tableIndex[T]) build() {
	s := i.table.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.indexes[i.name] != nil {
		return
	}
	x := &index{table: i.table.name, value: func(key string, e *entry) string {
		row, err := i.table.decodeRow(key, e)
		if err != nil { // whoever reads the row is told
			return ""
		}
		return i.value(row.Value)
	}}
	s.rows.Ascend(x.table, func(k string, e *entry) bool {
		if !strings.HasPrefix(k, x.table) {
			return false
		}
		x.replace(k, nil, e)
		return true
	})
	s.indexes[i.name] = x
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
	if now == nil {
		return
	}
	if value := x.value(key, now); value != "" {
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
