package insights

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// sink consumes the rows that pass the steps of a segment; each worker has a state of it.
type sink interface {
	newState(s *segment, b *budget, command string) state
}

// state is the part of a sink that one worker holds.
type state interface {
	add(f *frame) error
	// merge takes over what another state of the same sink holds; the other must not be used afterwards.
	merge(other state) error
	// rows returns the input of the next segment, in order.
	rows() ([]passedRow, error)
	release()
}

// top keeps the first rows in the segment's order, as many as its limit; with dedup the first of each key. Of the first
// segment's rows, events, those that the keys leave equal are ordered by @timestamp (newest first) and @ptr; later
// segments' rows as they came.
//
// Without dedup all workers share one, so that a limit of 10,000 costs the memory of 10,000 rows, whatever the number
// of workers.
type top struct {
	segment *segment
	// the last row kept, once there are as many as the limit: what comes behind it is of no interest
	bound atomic.Pointer[topRow]

	mu      sync.Mutex // guards what follows
	heap    topHeap
	byKey   map[string]*topRow
	account account
}

// topRow is a row that is kept. All but at is constant.
type topRow struct {
	keys     []value.Value
	time     float64
	ptr      string
	sequence int // of the row in a later segment, of an element of unnest in an event
	values   passedRow
	key      string // dedup; empty: none
	bytes    int
	at       int // index in the heap
}

func newTopSink(s *segment, b *budget, command string) *top {
	t := &top{
		segment: s, heap: topHeap{segment: s},
		account: account{budget: b, command: command, advice: "set a lower limit, or ask for fewer and shorter fields"},
	}
	if s.dedup != nil {
		t.byKey = make(map[string]*topRow)
	}
	return t
}

// topState is a worker's access to a top.
type topState struct {
	*top
	time, ptr int // fields; of the first segment only
	candidate topRow
	hasPtr    bool // of the candidate
	key       []byte
}

func (t *top) newTopState() *topState {
	s := &topState{top: t, candidate: topRow{keys: make([]value.Value, len(t.segment.order))}}
	if t.segment.previous == nil {
		s.time, s.ptr = t.segment.fieldAt["@timestamp"], t.segment.fieldAt["@ptr"]
	}
	return s
}

func (t *topState) add(f *frame) error {
	c, s := &t.candidate, t.segment
	for i := range s.order {
		if !s.order[i].time {
			c.keys[i] = s.order[i].of.eval(f)
		}
	}
	c.sequence = f.sequence
	if s.previous == nil {
		c.time, _ = f.fieldValue(t.time).AsNumber()
		t.hasPtr = false
	}
	// The pointer is read only if nothing else decides: it may be expensive to make.
	load := func() string {
		if !t.hasPtr && s.previous == nil {
			c.ptr, t.hasPtr = f.fieldValue(t.ptr).String(), true
		}
		return c.ptr
	}
	if f.stopped() {
		return f.err
	}
	if bound := t.bound.Load(); bound != nil && t.heap.compare(c, bound, load) >= 0 {
		return nil
	}
	t.key = smallKey(t.key)
	for _, d := range s.dedup {
		v := d.eval(f)
		if v.IsNull() {
			t.key = t.key[:0]
			break
		}
		f.charge(3 * v.Bytes()) // the key, as it grows and as it is kept
		if f.stopped() {
			return f.err
		}
		t.key = value.AppendKey(t.key, v)
	}
	if len(t.key) > 0 { // such a top is this worker's alone
		if mine := t.byKey[string(t.key)]; mine != nil && t.heap.compare(c, mine, load) >= 0 {
			return nil
		}
	}
	row := &topRow{
		keys: make([]value.Value, len(s.order)), time: c.time, ptr: strings.Clone(load()), sequence: c.sequence,
		values: make(passedRow, len(s.puts)), key: string(t.key),
	}
	row.bytes = 192 + len(row.ptr) + 2*len(row.key) // a topRow and its places in the heap, by key and in the result
	keep := func(v value.Value, of code) value.Value {
		if s.previous != nil && of.field >= 0 {
			row.bytes += value.Value{}.Bytes() // its text is in the row that the segment before has kept
			return v
		}
		if f.charge(v.Bytes()); f.stopped() { // until the row is kept
			return value.Value{}
		}
		row.bytes += v.Bytes()
		return v.Clone() // the memory of events is used again, and the text may be a small part of a large one
	}
	for i, k := range c.keys {
		row.keys[i] = keep(k, s.order[i].of)
	}
	for i, p := range s.puts {
		row.values[i] = keep(p.eval(f), p)
	}
	if f.stopped() {
		return f.err
	}
	return t.offerRow(row)
}

// smallKey returns the memory of a key for use again, unless it is much.
func smallKey(key []byte) []byte {
	if cap(key) > 64<<10 {
		return nil
	}
	return key[:0]
}

// offerRow keeps a row if it is among the first.
func (t *top) offerRow(row *topRow) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	bytes := row.bytes
	if row.key != "" {
		if mine := t.byKey[row.key]; mine != nil {
			if t.heap.compare(row, mine, nil) >= 0 {
				return nil
			}
			row.at = mine.at
			t.heap.rows[row.at] = row
			t.byKey[row.key] = row
			heap.Fix(&t.heap, row.at)
			t.tighten()
			return t.account.reserve(bytes - mine.bytes)
		}
	}
	if len(t.heap.rows) == t.segment.limit {
		last := t.heap.rows[0]
		if t.heap.compare(row, last, nil) >= 0 {
			return nil
		}
		delete(t.byKey, last.key)
		bytes -= last.bytes
		t.heap.rows[0], row.at = row, 0
		heap.Fix(&t.heap, 0)
	} else {
		heap.Push(&t.heap, row)
	}
	if row.key != "" {
		t.byKey[row.key] = row
	}
	t.tighten()
	return t.account.reserve(bytes)
}

// tighten sets the bound, once there is one.
func (t *top) tighten() {
	if len(t.heap.rows) == t.segment.limit {
		t.bound.Store(t.heap.rows[0])
	}
}

func (t *topState) merge(other state) error {
	from := other.(*topState).top
	if from == t.top {
		return nil
	}
	from.release() // the rows are counted again
	for _, row := range from.heap.rows {
		if err := t.offerRow(row); err != nil {
			return err
		}
	}
	return nil
}

func (t *top) rows() ([]passedRow, error) { //nolint:unparam // other states have errors
	sorted := slices.Clone(t.heap.rows)
	slices.SortFunc(sorted, func(a, b *topRow) int { return t.heap.compare(a, b, nil) })
	rows := make([]passedRow, len(sorted))
	for i, r := range sorted {
		rows[i] = r.values
	}
	return rows, nil
}

func (t *top) release() { t.account.release() }

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

// compare reports whether a row comes before another (negative) or behind it. loadA gives a's pointer if it isn't there
// yet.
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
