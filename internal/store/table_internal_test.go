package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Values of large rows do not take memory without an end, those of small ones stay.
func TestLargeRowsAreForgotten(t *testing.T) {
	t.Parallel()
	rows := table[string]{store: &Store{}, name: "rows/"}
	read := func(size int) *entry {
		e := &entry{raw: fmt.Appendf(nil, "%q", strings.Repeat("x", size-2))}
		for range 2 {
			if row, err := rows.decodeRow("k", e); err != nil || len(row.Value) != size-2 {
				t.Fatalf("a row of %d bytes has %d, %v", size, len(row.Value), err)
			}
		}
		return e
	}
	small := read(largeRow - 1)
	var large []*entry
	for range 3 * maxLarge / (1 << 20) {
		large = append(large, read(1<<20))
	}
	size := 0
	for _, e := range large {
		if e.decoded.Load() != nil {
			size += len(e.raw)
		}
	}
	if size == 0 || size > maxLarge || small.decoded.Load() == nil {
		t.Errorf("%d bytes of large rows are decoded, a small row: %t", size, small.decoded.Load() != nil)
	}
	if row, err := rows.decodeRow("k", large[0]); err != nil || row.Value == "" {
		t.Errorf("a row that was forgotten: %v", err)
	}
}

// Values of small rows with many members, which take several times their size, take no memory without an end either.
func TestRowsOfManyMembersAreForgotten(t *testing.T) {
	t.Parallel()
	type tagged struct {
		ID   string
		Tags map[string]string
	}
	rows := table[tagged]{store: &Store{}, name: "rows/"}
	read := func(tags int) *entry {
		v := tagged{ID: "vol-0123456789abcdef0", Tags: map[string]string{}}
		for i := range tags {
			v.Tags[fmt.Sprintf("%02d", i)] = ""
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		e := &entry{raw: raw}
		if row, err := rows.decodeRow("k", e); err != nil || len(row.Value.Tags) != tags {
			t.Fatalf("%d tags: %+v, %v", tags, row.Value, err)
		}
		return e
	}
	few := read(5)
	const each = 2 << 10 // that such a row takes at least
	var many []*entry
	for range 2 * maxLarge / each {
		many = append(many, read(50))
	}
	kept := 0
	for _, e := range many {
		if e.decoded.Load() != nil {
			kept++
		}
	}
	if kept == 0 || kept*each > maxLarge || few.decoded.Load() == nil {
		t.Errorf("%d rows of 50 tags are decoded, one with few: %t", kept, few.decoded.Load() != nil)
	}
}

// What counts rows does not decode them.
func TestCountsDecodeNothing(t *testing.T) {
	t.Parallel()
	s := &Store{indexes: map[string]*index{}}
	rows := table[string]{store: s, name: "rows/"}
	for i := range 3 {
		s.rows.Set(fmt.Sprintf("rows/%d", i), &entry{raw: fmt.Appendf(nil, "%q", strings.Repeat("x", largeRow))})
	}
	byLength := NewIndex(Table[string](rows), "length", func(v string) string { return fmt.Sprint(len(v)) })
	length := fmt.Sprint(largeRow)
	if n := byLength.Count(length); n != 3 { // makes the index
		t.Fatalf("there are %d rows, want 3", n)
	}
	forget := func(_ string, e *entry) bool { e.decoded.Store(nil); return true }
	s.rows.Scan(forget)
	if all, indexed := rows.Count(""), byLength.Count(length); all != 3 || indexed != 3 {
		t.Errorf("%d rows, of the value %d, want 3", all, indexed)
	}
	s.rows.Scan(func(k string, e *entry) bool {
		if e.decoded.Load() != nil {
			t.Errorf("%s is decoded", k)
		}
		return true
	})
}
