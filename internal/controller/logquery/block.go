package logquery

import (
	"bytes"
	"context"
	"math/bits"
	"slices"
	"sync"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// scan is the state of one goroutine of a query that reads blocks, one after the other.
type scan struct {
	e       *execution
	plan    *insights.Plan
	fields  []string
	sources []fieldSource // of the fields
	where   *insights.Condition
	windows []insights.Window

	mu     sync.Mutex // held while the worker is used
	worker *insights.Worker

	event event
	// Of the block at hand:
	number  int // index in resultSet.blocks
	source  *source
	block   *events.Block
	rows    *events.Rows
	columns []column // by field
	free    []bitmap // for use again
}

// column is the content of the current block for a field.
type column struct {
	loaded bool
	stored *events.Column // nil: the messages must be read
	values []value.Value  // by code, those with known
	known  []bool
}

func newScan(e *execution, plan *insights.Plan) *scan {
	s := &scan{e: e, plan: plan, fields: plan.Fields(), where: plan.Where(), windows: plan.Windows(),
		worker: plan.NewWorker()}
	for _, f := range s.fields {
		s.sources = append(s.sources, systemFields[f])
	}
	if i := plan.Reference(); i >= 0 {
		s.sources[i] = toMessage
	}
	s.columns = make([]column, len(s.fields))
	s.event.s = s
	return s
}

// pauseRows is the number of rows after which a scan checks its context and releases its worker for partial results: a
// regular expression may take a millisecond for each row.
const pauseRows = 16

// pauseBytes is the size of a message after which a scan pauses regardless of pauseRows.
const pauseBytes = 64 << 10

// scanBlock scans one block.
func (s *scan) scanBlock(ctx context.Context, number int, src *source, b *events.Block) (err error) {
	inside := s.overlap(b)
	if inside == 0 {
		return nil
	}
	s.number, s.source, s.block, s.rows = number, src, b, nil
	s.forgetColumns()
	defer s.event.releaseBlock()
	p := &s.e.progress
	if s.where != nil {
		none, err := s.isExcluded(ctx, s.where)
		if err != nil {
			return err
		}
		if none {
			p.skipped.Add(int64(inside * float64(b.Len())))
			p.skippedBytes.Add(int64(inside * float64(b.RawBytes())))
			return nil
		}
	}
	if s.rows, err = b.Rows(); err != nil {
		return err
	}
	selected := s.acquireBitmap(b.Len())
	defer s.release(selected)
	s.selectRows(selected)
	if s.where != nil {
		if err := s.narrowSelection(ctx, s.where, selected); err != nil {
			return err
		}
		if s.canNarrowByWords(s.where) && selected.hasAnyBit() {
			if err := s.event.openMessages(); err != nil {
				return err
			}
			if err := s.narrowSelection(ctx, s.where, selected); err != nil {
				return err
			}
		}
	}
	return s.pushRows(ctx, selected)
}

// keptValues is for how many values of columns the memory is used again for the next block: each may have others.
const keptValues = 16 << 10

// forgetColumns forgets the columns of the block before, with all texts of theirs.
func (s *scan) forgetColumns() {
	kept := 0
	for i := range s.columns {
		c := &s.columns[i]
		c.loaded, c.stored = false, nil
		if kept += cap(c.values); kept > keptValues {
			kept -= cap(c.values)
			c.values, c.known = nil, nil
		}
		clear(c.values[:cap(c.values)])
	}
}

// pushRows gives the selected rows to the worker.
func (s *scan) pushRows(ctx context.Context, selected bitmap) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, n := s.worker.Matched(), 0
	for i := range selected.allRows {
		if n++; n%pauseRows == 0 || s.rows.Size[i] >= pauseBytes {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.mu.Unlock() // whoever wants partial results
			s.mu.Lock()
		}
		s.event.moveToRow(i)
		if err := s.worker.Push(&s.event); err != nil {
			return err
		}
		if s.event.err != nil {
			return s.event.err
		}
	}
	s.e.progress.matched.Add(s.worker.Matched() - before)
	return nil
}

// overlap estimates which part of the block is in the query's time range. It returns 0 only when certainly no part is.
func (s *scan) overlap(b *events.Block) float64 {
	first, last := b.MinTime(), b.MaxTime()
	part := 0.0
	for _, w := range s.windows {
		from, to := max(first, w.Start), min(last, w.End)
		if from > to {
			continue
		}
		part += float64(to-from+1) / float64(last-first+1)
	}
	return min(1, part)
}

// selectRows selects the rows in the query's time range that are not deleted and whose stream exists. It counts them as
// scanned.
func (s *scan) selectRows(selected bitmap) {
	r := s.rows
	within := false
	for _, w := range s.windows {
		within = within || w.Start <= s.block.MinTime() && s.block.MaxTime() <= w.End
	}
	var (
		count, size int64
		stream      events.StreamID
		exists      bool
	)
	for i, t := range r.Timestamp {
		if !within && !s.inWindow(t) || r.Live != nil && !r.Live(i) {
			continue
		}
		if st := r.Stream[i]; st != stream || i == 0 {
			stream = st
			_, exists = s.source.streams[st]
		}
		if !exists {
			continue
		}
		selected.set(i)
		count++
		size += int64(r.Size[i])
	}
	s.e.progress.scanned.Add(count)
	s.e.progress.scannedBytes.Add(size)
}

func (s *scan) inWindow(t int64) bool {
	for _, w := range s.windows {
		if w.Start <= t && t <= w.End {
			return true
		}
	}
	return false
}

// isExcluded reports whether certainly no row of the block satisfies c. It does not read rows: it uses the words of the
// block and the distinct values of its columns, of which each may take as long as an event.
func (s *scan) isExcluded(ctx context.Context, c *insights.Condition) (bool, error) {
	switch {
	case c.All != nil:
		for _, each := range c.All {
			if out, err := s.isExcluded(ctx, each); out || err != nil {
				return out, err
			}
		}
		return false, nil
	case c.Any != nil:
		for _, each := range c.Any {
			if out, err := s.isExcluded(ctx, each); !out || err != nil {
				return out, err
			}
		}
		return true, nil
	}
	for _, w := range c.Words {
		if !s.block.MayContain(w) {
			return true, nil
		}
	}
	if s.sources[c.Field] != fromJSON {
		return false, nil
	}
	col, err := s.loadColumn(c.Field)
	if err != nil || col.stored == nil {
		return false, err
	}
	for code := range col.stored.Values {
		if passes := c.Test(col.decodeValue(uint16(code))); passes || ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	// A row may lack the field.
	return !c.Test(value.Value{}), nil
}

// narrowSelection removes from selected the rows that certainly do not satisfy c. Conditions on messages count only
// once the messages are open.
func (s *scan) narrowSelection(ctx context.Context, c *insights.Condition, selected bitmap) error {
	switch {
	case c.All != nil:
		for _, each := range c.All {
			if err := s.narrowSelection(ctx, each, selected); err != nil {
				return err
			}
		}
		return nil
	case c.Any != nil:
		either, one := s.acquireBitmap(s.block.Len()), s.acquireBitmap(s.block.Len())
		defer s.release(either, one)
		for _, each := range c.Any {
			copy(one, selected)
			if err := s.narrowSelection(ctx, each, one); err != nil {
				return err
			}
			either.unionWith(one)
		}
		copy(selected, either)
		return nil
	}
	switch s.sources[c.Field] {
	case logStream:
		passes := map[events.StreamID]bool{}
		var last events.StreamID
		var pass, any bool
		for i := range selected.allRows {
			if st := s.rows.Stream[i]; st != last || !any {
				var known bool
				if pass, known = passes[st]; !known {
					if err := ctx.Err(); err != nil {
						return err
					}
					pass = c.Test(value.String(s.source.streams[st]))
					passes[st] = pass
				}
				last, any = st, true
			}
			if !pass {
				selected.clear(i)
			}
		}
	case logGroup:
		if !c.Test(value.String(s.source.log)) {
			clear(selected)
		}
	case message:
		s.narrowWords(c, selected)
	case fromJSON:
		col, err := s.loadColumn(c.Field)
		if err != nil {
			return err
		}
		if col.stored == nil {
			s.narrowWords(c, selected)
			return nil
		}
		passes := make([]bool, len(col.stored.Values))
		for code := range passes {
			if err := ctx.Err(); err != nil {
				return err
			}
			passes[code] = c.Test(col.decodeValue(uint16(code)))
		}
		absent := c.Test(value.Value{})
		codes := col.stored.Codes
		for i := range selected.allRows {
			pass := absent
			if code := codes[i]; code != events.NoValue {
				pass = passes[code]
			}
			if !pass {
				selected.clear(i)
			}
		}
	}
	return nil // the plan tests the other conditions
}

// narrowWords takes out the rows whose messages lack a word of c. A message with a backslash may have the
// word spelled with escapes.
func (s *scan) narrowWords(c *insights.Condition, selected bitmap) {
	if len(c.Words) == 0 || s.event.messages == nil {
		return
	}
	longest := c.Words[0]
	for _, w := range c.Words {
		if len(w) > len(longest) {
			longest = w
		}
	}
	word := []byte(longest)
	for i := range selected.allRows {
		message := s.event.messages.At(i)
		if !bytes.Contains(message, word) && bytes.IndexByte(message, '\\') < 0 {
			selected.clear(i)
		}
	}
}

// canNarrowByWords reports whether messages can exclude rows by their words: whether a part of c that needs messages
// has words.
func (s *scan) canNarrowByWords(c *insights.Condition) bool {
	if c.Test == nil {
		return slices.ContainsFunc(c.All, s.canNarrowByWords) || slices.ContainsFunc(c.Any, s.canNarrowByWords)
	}
	return len(c.Words) > 0 && (s.sources[c.Field] == message || s.sources[c.Field] == fromJSON &&
		s.columns[c.Field].stored == nil)
}

// loadColumn returns the content of the block for a field, which is not one of the system's.
func (s *scan) loadColumn(field int) (*column, error) {
	c := &s.columns[field]
	if c.loaded || s.e.noColumns {
		return c, nil
	}
	stored, ok, err := s.block.Column(s.fields[field])
	if err != nil {
		return nil, err
	}
	c.loaded = true
	if ok {
		c.stored = stored
		if cap(c.values) < len(stored.Values) {
			c.values, c.known = make([]value.Value, len(stored.Values)), make([]bool, len(stored.Values))
		}
		c.values, c.known = c.values[:len(stored.Values)], c.known[:len(stored.Values)]
		clear(c.known)
	}
	return c, nil
}

// decodeValue returns the value of a code. It parses the JSON of each code once in a block.
func (c *column) decodeValue(code uint16) value.Value {
	if code == events.NoValue {
		return value.Value{}
	}
	if !c.known[code] {
		c.values[code] = value.FromJSON([]byte(c.stored.Values[code]))
		c.known[code] = true
	}
	return c.values[code]
}

// bitmap is a set of rows.
type bitmap []uint64

func (s *scan) acquireBitmap(rows int) bitmap {
	words := (rows + 63) / 64
	if n := len(s.free); n > 0 && cap(s.free[n-1]) >= words {
		b := s.free[n-1][:words]
		s.free = s.free[:n-1]
		clear(b)
		return b
	}
	return make(bitmap, words)
}

func (s *scan) release(b ...bitmap) { s.free = append(s.free, b...) }

func (b bitmap) set(i int)   { b[i>>6] |= 1 << (i & 63) }
func (b bitmap) clear(i int) { b[i>>6] &^= 1 << (i & 63) }

func (b bitmap) unionWith(other bitmap) {
	for i, w := range other {
		b[i] |= w
	}
}

func (b bitmap) hasAnyBit() bool {
	for _, w := range b {
		if w != 0 {
			return true
		}
	}
	return false
}

// allRows yields the rows in order. The row at hand may be cleared meanwhile.
func (b bitmap) allRows(yield func(int) bool) {
	for i, w := range b {
		for ; w != 0; w &= w - 1 {
			if !yield(i<<6 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}
