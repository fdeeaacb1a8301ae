package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Values of large rows do not take memory without an end, those of small ones stay.
func TestLargeRowsAreForgotten(t *testing.T) {
	t.Parallel()
	rows := &table[string]{store: &Store{}, name: "rows/"}
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

// rowOf is a row as the JSON of a value, read once.
func rowOf[T any](t *testing.T, rows *table[T], v T) *entry {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	e := &entry{raw: raw}
	if _, err := rows.decodeRow("k", e); err != nil {
		t.Fatal(err)
	}
	return e
}

// Values of small rows that take several times their size, those of many members and those of lists of short texts,
// take no memory without an end either.
func TestRowsOfManyMembersAreForgotten(t *testing.T) {
	t.Parallel()
	type object struct {
		ID   string
		Tags map[string]string
		List []string
		Deep []struct {
			On               *bool  `json:",omitempty"`
			A, B, C, D, E, F string `json:",omitempty"`
		}
	}
	tagged := object{ID: "vol-0123456789abcdef0", Tags: map[string]string{}}
	for i := range 50 {
		tagged.Tags[fmt.Sprintf("%02d", i)] = ""
	}
	letters := object{List: slices.Repeat([]string{"a"}, 850)}
	var empty object
	if err := json.Unmarshal([]byte(`{"Deep":[`+strings.Repeat("{},", 850)+`{}]}`), &empty); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		v    object
		each int // bytes that such a row takes at least, decoded
	}{
		"tags": {tagged, 2 << 10}, "letters": {letters, 850 * 16}, "empty objects": {empty, 850 * 100},
	} {
		rows := &table[object]{store: &Store{}, name: "rows/"}
		few := rowOf(t, rows, object{ID: "vol-0123456789abcdef0", Tags: map[string]string{"Name": "x", "team": "y"},
			List: []string{"default", "kube-system"}})
		var many []*entry
		for range 2 * maxLarge / test.each {
			many = append(many, rowOf(t, rows, test.v))
		}
		if size := len(many[0].raw); size >= largeRow {
			t.Fatalf("%s: a row has %d bytes, and is large by that alone", name, size)
		}
		kept := 0
		for _, e := range many {
			if e.decoded.Load() != nil {
				kept++
			}
		}
		if kept == 0 || kept*test.each > maxLarge || few.decoded.Load() == nil {
			t.Errorf("%s: %d rows of %d are decoded, one with few: %t", name, kept, len(many), few.decoded.Load() != nil)
		}
	}
}

// The measure of a decoded value is about what the heap grows by. No other test runs beside it.
func TestDecodedSize(t *testing.T) {
	type part struct {
		Name *string
		Rest map[string]int
	}
	type object struct {
		At    time.Time
		Any   any
		Bytes []byte
		Pairs [2]string
		Parts []part
		Tags  map[string]string
	}
	v := object{At: time.Now(), Any: []any{"x", 1.0}, Bytes: make([]byte, 3000), Pairs: [2]string{"aaaa", "bbbb"},
		Tags: map[string]string{}}
	for i := range 40 {
		v.Parts = append(v.Parts, part{Name: new(fmt.Sprintf("name-%04d", i)), Rest: map[string]int{"x": 1}})
		v.Tags[fmt.Sprintf("key-of-%09d", i)] = strings.Repeat("v", 16)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	decoded := make([]object, 2000)
	before := heapSize()
	for i := range decoded {
		if err := json.Unmarshal(raw, &decoded[i]); err != nil {
			t.Fatal(err)
		}
	}
	took := (heapSize() - before) / len(decoded)
	if got := decodedSize(&decoded[0]) - int(reflect.TypeFor[object]().Size()); got < took*3/4 || got > took*4/3 {
		t.Errorf("a value of %d bytes is measured as %d", took, got)
	}
	runtime.KeepAlive(decoded)
}

func heapSize() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// What counts rows does not decode them.
func TestCountsDecodeNothing(t *testing.T) {
	t.Parallel()
	s := &Store{indexes: map[string]*index{}}
	rows := &table[string]{store: s, name: "rows/"}
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
