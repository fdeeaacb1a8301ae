package store

import (
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
