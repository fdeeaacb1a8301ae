package insights

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// sink is what a segment does with the rows that pass its steps; each worker has a state of it.
type sink interface {
	newState(s *segment, b *budget, command string) state
}

// state is what one worker holds for a sink.
type state interface {
	add(f *frame) error
	// merge takes over what another state of the same sink holds; the other must not be used afterwards.
	merge(other state) error
	// rows are what the next segment gets, in order.
	rows() []keptRow
	release()
}

// topState keeps the first rows in the segment's order, as many as its limit; with dedup the first of each key. Of the first segment's rows,
// events, those that the keys leave equal are ordered by @timestamp (newest first) and @ptr; later segments' rows as they came.
type topState struct {
	segment   *segment
	time, ptr int // fields; of the first segment only
	heap      topHeap
	byKey     map[string]*topRow
	candidate topRow
	key       []byte
	account   account
}

type topRow struct {
	keys     []value.Value
	time     float64
	ptr      string
	hasPtr   bool
	sequence int // of the row in a later segment, of an element of unnest in an event
	values   keptRow
	key      string // dedup; empty: none
	at       int    // index in the heap
	bytes    int
}

func (s *segment) newTop(b *budget, command string) *topState {
	t := &topState{segment: s, account: account{budget: b, command: command, advice: "set a lower limit, or ask for fewer and shorter fields"}}
	t.heap.segment = s
	t.candidate.keys = make([]value.Value, len(s.order))
	if s.previous == nil {
		t.time, t.ptr = s.fieldAt["@timestamp"], s.fieldAt["@ptr"]
	}
	if s.dedup != nil {
		t.byKey = make(map[string]*topRow)
	}
	return t
}

func (t *topState) add(f *frame) error {
	c := &t.candidate
	s := t.segment
	for i := range s.order {
		if !s.order[i].time {
			c.keys[i] = s.order[i].of.eval(f)
		}
	}
	c.sequence = f.sequence
	if s.previous == nil {
		c.time, _ = f.field(t.time).AsNumber()
		c.hasPtr = false
	}
	// The pointer is read only if nothing else decides: it may be expensive to make.
	load := func() string {
		if !c.hasPtr {
			c.ptr, c.hasPtr = f.field(t.ptr).String(), true
		}
		return c.ptr
	}
	full := len(t.heap.rows) == s.limit
	if full && t.heap.compare(c, t.heap.rows[0], load) >= 0 {
		return nil
	}
	t.key = t.key[:0]
	for _, d := range s.dedup {
		v := d.eval(f)
		if v.IsNull() {
			t.key = t.key[:0]
			break
		}
		t.key = value.AppendKey(t.key, v)
	}
	var row *topRow
	if len(t.key) > 0 {
		if row = t.byKey[string(t.key)]; row != nil && t.heap.compare(c, row, load) >= 0 {
			return nil
		}
	}
	isNew := row == nil
	if isNew && full {
		row = t.heap.rows[0]
		if row.key != "" {
			delete(t.byKey, row.key)
		}
	} else if isNew {
		row = &topRow{values: make(keptRow, len(s.puts)), keys: make([]value.Value, len(s.order)), at: -1}
	}
	before := row.bytes
	row.bytes = 128
	row.time, row.sequence = c.time, c.sequence
	if s.previous == nil {
		row.ptr, row.hasPtr = strings.Clone(load()), true
		row.bytes += len(row.ptr)
	}
	for i, k := range c.keys {
		row.keys[i] = k.Clone()
		row.bytes += row.keys[i].Bytes()
	}
	for i, p := range s.puts {
		row.values[i] = p.eval(f).Clone()
		row.bytes += row.values[i].Bytes()
	}
	if isNew && len(t.key) > 0 {
		row.key = string(t.key)
		t.byKey[row.key] = row
		row.bytes += 2 * len(row.key)
	} else if isNew {
		row.key = ""
	}
	if row.at < 0 {
		heap.Push(&t.heap, row)
	} else {
		heap.Fix(&t.heap, row.at)
	}
	return t.account.take(row.bytes - before)
}

// offer takes over a row of another state.
func (t *topState) offer(row *topRow) error {
	if row.key != "" {
		if mine := t.byKey[row.key]; mine != nil {
			if t.heap.compare(row, mine, nil) < 0 {
				row.at = mine.at
				t.heap.rows[mine.at] = row
				t.byKey[row.key] = row
				heap.Fix(&t.heap, row.at)
			}
			return nil
		}
	}
	if len(t.heap.rows) == t.segment.limit {
		worst := t.heap.rows[0]
		if t.heap.compare(row, worst, nil) >= 0 {
			return nil
		}
		if worst.key != "" {
			delete(t.byKey, worst.key)
		}
		heap.Pop(&t.heap)
	}
	if row.key != "" {
		t.byKey[row.key] = row
	}
	heap.Push(&t.heap, row)
	return nil
}

func (t *topState) merge(other state) error {
	for _, row := range other.(*topState).heap.rows {
		if err := t.offer(row); err != nil {
			return err
		}
	}
	return nil
}

func (t *topState) rows() []keptRow {
	sorted := slices.Clone(t.heap.rows)
	slices.SortFunc(sorted, func(a, b *topRow) int { return t.heap.compare(a, b, nil) })
	rows := make([]keptRow, len(sorted))
	for i, r := range sorted {
		rows[i] = r.values
	}
	return rows
}

func (t *topState) release() { t.account.release() }

// topHeap has the row that comes last at its root.
type topHeap struct {
	segment *segment
	rows    []*topRow
}

func (h *topHeap) Len() int           { return len(h.rows) }
func (h *topHeap) Less(i, j int) bool { return h.compare(h.rows[i], h.rows[j], nil) > 0 }
func (h *topHeap) Swap(i, j int) {
	h.rows[i], h.rows[j] = h.rows[j], h.rows[i]
	h.rows[i].at, h.rows[j].at = i, j
}
func (h *topHeap) Push(x any) {
	row := x.(*topRow)
	row.at = len(h.rows)
	h.rows = append(h.rows, row)
}
func (h *topHeap) Pop() any {
	last := h.rows[len(h.rows)-1]
	h.rows = h.rows[:len(h.rows)-1]
	return last
}

// compare says whether a row comes before another (negative) or behind it. loadA gives a's pointer if it isn't there yet.
func (h *topHeap) compare(a, b *topRow, loadA func() string) int {
	newest, timed := true, false
	for i, k := range h.segment.order {
		var c int
		if k.time {
			c = cmp.Compare(a.time, b.time)
			if !timed {
				timed, newest = true, k.descending
			}
		} else {
			c = compareKeys(a.keys[i], b.keys[i], k.descending)
			if c != 0 {
				return c
			}
			continue
		}
		if c != 0 {
			if k.descending {
				return -c
			}
			return c
		}
	}
	if h.segment.previous == nil {
		if !timed && a.time != b.time {
			return cmp.Compare(b.time, a.time)
		}
		ptr := a.ptr
		if loadA != nil {
			ptr = loadA()
		}
		if c := cmp.Compare(ptr, b.ptr); c != 0 {
			if newest {
				return -c
			}
			return c
		}
	}
	return cmp.Compare(a.sequence, b.sequence)
}

// compareKeys orders the values of a key of sort.
func compareKeys(a, b value.Value, descending bool) int {
	if descending {
		a, b = b, a
	}
	return value.Compare(a, b)
}
