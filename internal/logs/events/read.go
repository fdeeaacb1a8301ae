package events

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
)

// Position is the position of an event in the order in which events are read: by Timestamp, then by Seq.
type Position struct {
	Timestamp int64
	Seq       uint64
}

// Compare returns negative when p comes before q, and positive when behind.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Timestamp, q.Timestamp), cmp.Compare(p.Seq, q.Seq))
}

// Range selects the events of a group to read, and the direction.
type Range struct {
	From, To int64               // From <= Timestamp < To, in milliseconds since 1970 UTC
	Streams  func(StreamID) bool // nil: all
	// Words lets the store skip events that provably lack one of them as a whole word (package tokenizer).
	// It promises nothing: events without them are returned as well.
	Words    []string
	After    *Position // begin strictly behind it; before it when Backward
	Backward bool      // the latest first
	// Hold takes memory for what is read, in bytes, before it is read (optional). All of it is in use until the last
	// event has been read.
	Hold func(bytes int64) error
}

// Events reads a group's events in the order of their positions, from a snapshot taken when the first
// is asked for. It holds a few blocks in memory, whatever the size of the group. After an error nothing
// follows.
func (s *Store) Events(ctx context.Context, g GroupID, r Range) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if r.After != nil && r.Backward && r.After.Timestamp < math.MaxInt64 {
			r.To = min(r.To, r.After.Timestamp+1)
		} else if r.After != nil && !r.Backward {
			r.From = max(r.From, r.After.Timestamp)
		}
		v, err := s.snapshot(g, r.From, r.To, 0, math.MaxInt)
		if err == nil {
			err = newMerge(v, r).mergeBlocks(ctx, yield)
			err = errors.Join(err, v.Close())
		}
		if err != nil {
			yield(Event{}, fmt.Errorf("read log events: %w", err))
		}
	}
}

// openMessages is the number of blocks of a merge that may have their messages in memory, openRows that of those that
// may have their small columns: events of any number of blocks may be of the same time.
const openMessages, openRows = 12, 64

// merge reads the blocks of a view in the order of their events. A block is opened when an event of it
// may be next; then it is in the heap.
type merge struct {
	Range
	waiting []waitingBlock // in the order in which they may be needed
	open    []*openBlock   // a heap by the position of their next events
	listed  []*openBlock   // those with rows in memory, the one used last at the end
	loaded  []*openBlock   // those with messages in memory, the one used last at the end
	takes   int64          // memory of both, in bytes
	held    int64          // that was taken for them
}

type waitingBlock struct {
	block *Block
	edge  int64 // no event of it that is asked for lies before (behind when Backward)
}

type openBlock struct {
	block    *Block
	rows     *Rows   // nil while they are not in memory
	order    []int32 // the rows asked for, in the order of their events
	next     int
	position Position // of the next event
	messages *Messages
}

// rowBytes is what a row takes in memory: in Rows, and in the order of an open block.
const rowBytes = 40

// rowMemory returns the memory of the rows of a block, in bytes, messageMemory that of its messages.
func (o *openBlock) rowMemory() int64     { return rowBytes * int64(o.block.rows) }
func (o *openBlock) messageMemory() int64 { return o.block.raw + 4*int64(o.block.rows) }

// take counts memory, and takes it where it is more than there ever was.
func (m *merge) take(bytes int64) error {
	if m.takes += bytes; m.Hold == nil || m.takes <= m.held {
		return nil
	}
	more := m.takes - m.held
	m.held = m.takes
	return m.Hold(more)
}

func newMerge(v *View, r Range) *merge {
	m := &merge{Range: r}
	for _, b := range v.blocks {
		if edge, any := m.blockBound(b); any {
			m.waiting = append(m.waiting, waitingBlock{b, edge})
		}
	}
	slices.SortStableFunc(m.waiting, func(a, b waitingBlock) int { return m.direction(cmp.Compare(a.edge, b.edge)) })
	return m
}

// direction turns a comparison round when the order is backward.
func (m *merge) direction(comparison int) int {
	if m.Backward {
		return -comparison
	}
	return comparison
}

// blockBound returns a bound for the first event asked for in a block; false when it has none.
func (m *merge) blockBound(b *Block) (edge int64, any bool) {
	add := func(first, last int64) {
		e := max(first, m.From)
		if m.Backward {
			e = min(last, m.To)
		}
		if !any || m.direction(cmp.Compare(e, edge)) < 0 {
			edge, any = e, true
		}
	}
	if b.part == nil {
		if m.Streams == nil || slices.ContainsFunc(b.streams, m.Streams) {
			add(b.minTime, b.maxTime)
		}
		return edge, any
	}
	for _, s := range b.meta.spans {
		if s.max >= m.From && s.min < m.To && (m.Streams == nil || m.Streams(s.stream)) {
			add(s.min, s.max)
		}
	}
	return edge, any
}

func (m *merge) Len() int { return len(m.open) }
func (m *merge) Less(i, j int) bool {
	return m.direction(m.open[i].position.Compare(m.open[j].position)) < 0
}
func (m *merge) Swap(i, j int) { m.open[i], m.open[j] = m.open[j], m.open[i] }
func (m *merge) Push(x any)    { m.open = append(m.open, x.(*openBlock)) }
func (m *merge) Pop() any {
	last := m.open[len(m.open)-1]
	m.open = m.open[:len(m.open)-1]
	return last
}

// positionOf returns the position of a row.
func (r *Rows) positionOf(row int32) Position { return Position{r.Timestamp[row], r.Seq[row]} }

func (m *merge) mergeBlocks(ctx context.Context, yield func(Event, error) bool) error {
	defer func() {
		for _, o := range m.loaded {
			o.messages.Release()
		}
	}()
	for n := 0; ; n++ {
		for len(m.waiting) > 0 && (len(m.open) == 0 ||
			m.direction(cmp.Compare(m.waiting[0].edge, m.open[0].position.Timestamp)) <= 0) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := m.openNext(); err != nil {
				return err
			}
		}
		if len(m.open) == 0 {
			return nil
		}
		if n%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		o := m.open[0]
		if err := m.loadBlock(ctx, o); err != nil {
			return err
		}
		i := int(o.order[o.next])
		e := Event{o.rows.Stream[i], o.rows.Timestamp[i], o.rows.Ingested[i], o.rows.Seq[i], string(o.messages.At(i))}
		if !yield(e, nil) {
			return nil
		}
		if o.next++; o.next < len(o.order) {
			o.position = o.rows.positionOf(o.order[o.next])
			heap.Fix(m, 0)
			continue
		}
		heap.Pop(m)
		m.dropMessages(o)
		m.dropRows(o)
	}
}

// openNext opens the next block, if it may have the words asked for.
func (m *merge) openNext() error {
	b := m.waiting[0].block
	m.waiting = m.waiting[1:]
	for _, w := range m.Words {
		if !b.MayContain(w) {
			return nil
		}
	}
	o := &openBlock{block: b}
	if err := m.listRows(o); err != nil {
		return err
	}
	if len(o.order) == 0 {
		m.dropRows(o)
		return nil
	}
	o.position = o.rows.positionOf(o.order[0])
	heap.Push(m, o)
	return nil
}

// listRows reads the small columns of a block into memory, and drops those of other blocks beyond a limit.
func (m *merge) listRows(o *openBlock) error {
	if len(m.listed) >= openRows {
		m.dropRows(m.listed[0])
	}
	if err := m.take(o.rowMemory()); err != nil {
		return err
	}
	rows, err := o.block.Rows()
	if err != nil {
		return err
	}
	order := make([]int32, 0, o.block.rows)
	for i, t := range rows.Timestamp {
		row := int32(i)
		if t >= m.From && t < m.To && (m.Streams == nil || m.Streams(rows.Stream[i])) &&
			(m.After == nil || m.direction(rows.positionOf(row).Compare(*m.After)) > 0) &&
			(rows.Live == nil || rows.Live(i)) {
			order = append(order, row)
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return m.direction(rows.positionOf(a).Compare(rows.positionOf(b))) })
	o.rows, o.order = rows, order
	m.listed = append(m.listed, o)
	return nil
}

// dropRows drops the small columns of a block from memory.
func (m *merge) dropRows(o *openBlock) {
	o.rows, o.order = nil, nil
	m.listed = slices.DeleteFunc(m.listed, func(l *openBlock) bool { return l == o })
	m.takes -= o.rowMemory()
}

// dropMessages drops the messages of a block from memory.
func (m *merge) dropMessages(o *openBlock) {
	o.messages.Release()
	o.messages = nil
	m.loaded = slices.DeleteFunc(m.loaded, func(l *openBlock) bool { return l == o })
	m.takes -= o.messageMemory()
}

// loadBlock has the block of the next event in memory: its small columns, and its messages.
func (m *merge) loadBlock(ctx context.Context, o *openBlock) error {
	if n := len(m.loaded); n > 0 && m.loaded[n-1] == o && o.rows != nil {
		return nil
	}
	if err := ctx.Err(); err != nil { // each may be read anew for each event
		return err
	}
	if o.rows == nil {
		if err := m.listRows(o); err != nil {
			return err
		}
	} else {
		m.listed = append(slices.DeleteFunc(m.listed, func(l *openBlock) bool { return l == o }), o)
	}
	if o.messages != nil {
		m.loaded = append(slices.DeleteFunc(m.loaded, func(l *openBlock) bool { return l == o }), o)
		return nil
	}
	if len(m.loaded) == openMessages {
		m.dropMessages(m.loaded[0])
	}
	if err := m.take(o.messageMemory()); err != nil {
		return err
	}
	messages, err := o.block.Messages()
	if err != nil {
		return err
	}
	o.messages = messages
	m.loaded = append(m.loaded, o)
	return nil
}

// Event finds one event by its position, false when there is none (any more).
func (s *Store) Event(g GroupID, p Position) (Event, bool, error) {
	e, found, err := s.findEvent(g, p)
	if err != nil {
		err = fmt.Errorf("read a log event: %w", err)
	}
	return e, found, err
}

func (s *Store) findEvent(g GroupID, p Position) (e Event, found bool, err error) {
	if p.Seq == 0 || p.Timestamp == math.MaxInt64 {
		return e, false, nil
	}
	v, err := s.snapshot(g, p.Timestamp, p.Timestamp+1, p.Seq-1, 0)
	if err != nil {
		return e, false, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	for _, b := range v.blocks {
		if b.minSeq() > p.Seq {
			continue
		}
		rows, err := b.Rows()
		if err != nil {
			return e, false, err
		}
		i := slices.Index(rows.Seq, p.Seq)
		if i < 0 {
			continue
		}
		if rows.Timestamp[i] != p.Timestamp || rows.Live != nil && !rows.Live(i) {
			return e, false, nil
		}
		messages, err := b.Messages()
		if err != nil {
			return e, false, err
		}
		defer messages.Release()
		return Event{rows.Stream[i], p.Timestamp, rows.Ingested[i], p.Seq, string(messages.At(i))}, true, nil
	}
	return e, false, nil
}

// sinceBytes is the maximum size of the messages that Since returns, unless one message has more.
const sinceBytes = 4 << 20

// Since returns events with a Seq greater than after, in the order of Seq and without a gap, at most max. It returns
// none only when there are none: after fewer than max there may be more.
func (s *Store) Since(ctx context.Context, g GroupID, after uint64, max int) ([]Event, error) {
	for {
		events, last, err := s.eventsSince(g, after, max)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("read log events: %w", err)
		}
		if len(events) > 0 {
			return events, nil
		}
		if last <= after || s.noneSince(g, after, last) {
			return nil, nil
		}
		after = last // everything between was deleted
	}
}

// eventsSince reads some events with a Seq greater than after, and returns the Seq up to which it did.
func (s *Store) eventsSince(g GroupID, after uint64, most int) (events []Event, last uint64, err error) {
	v, err := s.snapshot(g, math.MinInt64, math.MaxInt64, after, most)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	slices.SortFunc(v.blocks, func(a, b *Block) int { return cmp.Compare(a.minSeq(), b.minSeq()) })

	// Blocks of one part overlap, so some are looked into, until none that is left can have an earlier row.
	type found struct {
		block *Block
		row   int
		seq   uint64
		size  int
	}
	var rows []found
	last = v.last
	for i, b := range v.blocks {
		if len(rows) >= most {
			slices.SortFunc(rows, func(a, b found) int { return cmp.Compare(a.seq, b.seq) })
			rows = rows[:most] // no more are asked for
			if rows[most-1].seq < b.minSeq() {
				last = rows[most-1].seq
				v.blocks = v.blocks[:i]
				break
			}
		}
		r, err := b.Rows()
		if err != nil {
			return nil, 0, err
		}
		for i, seq := range r.Seq {
			if seq > after && (r.Live == nil || r.Live(i)) {
				rows = append(rows, found{b, i, seq, int(r.Size[i])})
			}
		}
	}
	slices.SortFunc(rows, func(a, b found) int { return cmp.Compare(a.seq, b.seq) })
	rows = rows[:min(len(rows), most)]
	bytes := 0
	for i, f := range rows {
		if bytes += f.size; bytes > sinceBytes && i > 0 {
			rows = rows[:i]
			break
		}
	}
	events = make([]Event, len(rows))
	for _, b := range v.blocks {
		var messages *Messages
		var r *Rows
		for i, f := range rows {
			if f.block != b {
				continue
			}
			if messages == nil {
				if r, err = b.Rows(); err != nil {
					return nil, 0, err
				}
				if messages, err = b.Messages(); err != nil {
					return nil, 0, err
				}
			}
			events[i] = Event{r.Stream[f.row], r.Timestamp[f.row], r.Ingested[f.row], f.seq, string(messages.At(f.row))}
		}
		if messages != nil {
			messages.Release()
		}
	}
	return events, last, nil
}

// noneSince records that there is no event for readers behind after, so that Wait waits, unless some have arrived since
// last was the newest.
func (s *Store) noneSince(id GroupID, after, last uint64) bool {
	g := s.findGroup(id)
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.durable != last || g.last != last {
		return false
	}
	g.live = min(g.live, after)
	return true
}

// Wait returns when the group has an event with a Seq greater than after, or with the error of ctx, or
// with ErrClosed. It waits for the first event of a group that has none, too.
func (s *Store) Wait(ctx context.Context, id GroupID, after uint64) error {
	for {
		if err := s.beginCall(); err != nil {
			return err
		}
		g := s.ensureGroup(id)
		s.life.RUnlock()
		g.mu.Lock()
		there, changed := min(g.live, g.durable) > after && !g.deleted, g.changed
		g.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
			return ErrClosed
		}
	}
}

// LastSeq returns the Seq of the newest event that the group ever had, or a number that no Seq of it will be: events
// that come in later have greater ones.
func (s *Store) LastSeq(id GroupID) uint64 {
	s.mu.Lock()
	g, floor := s.groups[id], s.floor
	s.mu.Unlock()
	if g == nil {
		return floor
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.durable
}
