package events

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coracle-eks/coracle/internal/logs/tokenizer"
)

// View is a snapshot of a group: what is appended or deleted later does not change it.
type View struct {
	group  GroupID
	live   liveness
	blocks []*Block
	held   []*part
	last   uint64 // Seq up to which events are in it

	store    *Store
	unsealed *pebble.Snapshot // has the chunks, which are read when they are needed; nil without any

	mu    sync.Mutex
	tails [8]*tail // read last
	next  int
}

// liveness marks the rows that readers see.
type liveness struct {
	expired int64
	dead    map[StreamID]uint64
}

// isLiveRow reports whether a row is visible to readers.
func (l liveness) isLiveRow(stream StreamID, timestamp int64, seq uint64) bool {
	return timestamp >= l.expired && (len(l.dead) == 0 || seq > l.dead[stream])
}

// certain returns whether all rows of a stream with Timestamps from min to max and Seq from minSeq to maxSeq are
// visible, and whether none is.
func (l liveness) certain(stream StreamID, min, max int64, minSeq, maxSeq uint64) (all, none bool) {
	dead := l.dead[stream]
	return min >= l.expired && minSeq > dead, max < l.expired || maxSeq <= dead
}

// View takes a snapshot of the blocks which may hold events with from <= Timestamp < to.
func (s *Store) View(g GroupID, from, to int64) (*View, error) {
	v, err := s.snapshot(g, from, to, 0, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("view log events: %w", err)
	}
	return v, nil
}

// snapshot takes a view of the events behind a Seq. Of those which are not sealed it takes only some
// more than atMost; then last is less than the group's.
func (s *Store) snapshot(id GroupID, from, to int64, after uint64, atMost int) (*View, error) {
	if err := s.beginCall(); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	v := &View{group: id, store: s}
	g := s.findGroup(id)
	if g == nil {
		return v, nil
	}
	g.mu.Lock()
	v.live, v.last = liveness{g.expired, g.dead}, g.durable
	from = max(from, g.expired)
	for _, p := range g.parts {
		if p.maxSeq <= after {
			continue
		}
		held := false
		for i := range p.blocks {
			if m := &p.blocks[i]; m.maxSeq > after && m.overlaps(v.live, from, to) {
				v.blocks = append(v.blocks, &Block{view: v, part: p, meta: m, rows: m.rows, raw: m.raw,
					minTime: m.minTime(), maxTime: m.maxTime()})
				held = true
			}
		}
		if held {
			p.acquire()
			v.held = append(v.held, p)
		}
	}
	if g.sealed < g.durable {
		s.openCatalog(v)
	}
	g.mu.Unlock()
	if err := v.takeChunks(from, to, after, atMost); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// takeChunks makes blocks of the chunks behind a Seq. It keeps nothing of them but where they are: a view of many
// groups would have all that is not sealed in memory, and there may be a chunk for each event.
func (v *View) takeChunks(from, to int64, after uint64, atMost int) (err error) {
	if v.unsealed == nil {
		return nil
	}
	lower, _ := groupKeys(keyChunk, v.group)
	it, err := v.unsealed.NewIter(&pebble.IterOptions{LowerBound: lower,
		UpperBound: encodeKey(keyChunk, uint64(v.group), v.last+1)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	valid := it.SeekLT(encodeKey(keyChunk, uint64(v.group), after+1))
	if !valid {
		valid = it.First()
	}
	var b *Block
	streams := map[StreamID]bool{}
	end := func() {
		if b != nil && b.maxTime >= from && b.minTime < to {
			b.streams = slices.Collect(maps.Keys(streams))
			v.blocks = append(v.blocks, b)
		}
		b = nil
		clear(streams)
	}
	taken := 0
	for ; valid; valid = it.Next() {
		if taken > atMost {
			v.last = keyNumber(it.Key(), 1) - 1
			break
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		first := keyNumber(it.Key(), 1)
		c, err := readChunk(first, value)
		if err != nil {
			return v.damagedChunk(first, err)
		}
		if first+uint64(c.rows) <= after+1 {
			continue
		}
		if b != nil && (b.raw+c.raw > blockBytes || b.rows+c.rows > blockRows) {
			end()
		}
		if b == nil {
			b = &Block{view: v, first: first, minTime: c.minTime, maxTime: c.maxTime}
		}
		b.last = first
		b.rows += c.rows
		b.raw += c.raw
		b.minTime, b.maxTime = min(b.minTime, c.minTime), max(b.maxTime, c.maxTime)
		for _, s := range c.streams {
			streams[s] = true
		}
		taken += c.rows
	}
	end()
	return it.Error()
}

// overlaps reports whether a block may have a visible row in a time range.
func (m *blockMeta) overlaps(l liveness, from, to int64) bool {
	for _, s := range m.spans {
		_, none := l.certain(s.stream, s.min, s.max, m.minSeq, m.maxSeq)
		if s.max >= from && s.min < to && !none {
			return true
		}
	}
	return false
}

// Blocks returns the view's blocks, in no order that means anything.
func (v *View) Blocks() []*Block { return v.blocks }

// Close ends the view. Its blocks, and what was read from them, are not used after it.
func (v *View) Close() error {
	for _, p := range v.held {
		p.release()
	}
	v.held, v.blocks, v.tails = nil, nil, [8]*tail{}
	if v.store == nil {
		return nil
	}
	return v.store.closeCatalog(v)
}

// openCatalog takes a snapshot of the catalog for a view.
func (s *Store) openCatalog(v *View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.unsealed = s.db.NewSnapshot()
	s.views[v] = true
}

// closeCatalog gives up the snapshot that a view has of the catalog.
func (s *Store) closeCatalog(v *View) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.views[v] {
		return nil
	}
	delete(s.views, v)
	return v.unsealed.Close()
}

// Block is some thousand events of a view. Several goroutines may use it at once.
type Block struct {
	view             *View
	rows             int
	raw              int64
	minTime, maxTime int64

	part *part // where a sealed block is, with
	meta *blockMeta

	first, last uint64     // Seq of the first and the last chunk that a block is made of that is not sealed, with
	streams     []StreamID // of its events
}

// Len returns the number of rows, dead ones included (see Rows.Live).
func (b *Block) Len() int { return b.rows }

// MinTime returns the earliest Timestamp of the block's rows.
func (b *Block) MinTime() int64 { return b.minTime }

// MaxTime returns the latest Timestamp of the block's rows.
func (b *Block) MaxTime() int64 { return b.maxTime }

// RawBytes returns the length of the messages of all rows together.
func (b *Block) RawBytes() int64 { return b.raw }

// minSeq returns the smallest Seq of the block's rows.
func (b *Block) minSeq() uint64 {
	if b.part != nil {
		return b.meta.minSeq
	}
	return b.first
}

// MayContain returns false only when no message of the block has the word (package tokenizer) as a whole word. It is
// true when that cannot be told, because the block isn't sealed or cannot be read.
func (b *Block) MayContain(w string) bool {
	if b.part == nil {
		return true
	}
	whole := false
	tokenizer.Each(w, func(part string) bool { whole = part == w; return false })
	if !whole {
		return true
	}
	t, err := b.view.readTail(b)
	if err != nil {
		return true // who reads the rows gets the error
	}
	filter, err := b.section(t, t.directory.filter)
	if err != nil {
		return true
	}
	return mayContain(filter, wordHash([]byte(w)))
}

// Rows are the columns that every event has, one element per row.
type Rows struct {
	Timestamp []int64
	Ingested  []int64
	Seq       []uint64
	Stream    []StreamID
	Size      []int32 // of the message, in bytes
	// Live reports whether row i is there for readers: false when its stream was deleted or its time has
	// expired. Nil: all are.
	Live func(i int) bool
}

// Rows reads the small columns. The caller doesn't change them.
func (b *Block) Rows() (*Rows, error) {
	r, err := b.readRows()
	if err == nil && !b.allLive(r) {
		live := b.view.live
		r.Live = func(i int) bool { return live.isLiveRow(r.Stream[i], r.Timestamp[i], r.Seq[i]) }
	}
	return r, err
}

func (b *Block) allLive(r *Rows) bool {
	live := b.view.live
	if b.minTime < live.expired {
		return false
	}
	if len(live.dead) == 0 {
		return true
	}
	var last StreamID
	for _, s := range r.Stream {
		if s != last {
			if _, dead := live.dead[s]; dead {
				return false
			}
			last = s
		}
	}
	return live.dead[0] == 0
}

func (b *Block) readRows() (*Rows, error) {
	if b.part != nil {
		t, err := b.view.readTail(b)
		if err != nil {
			return nil, err
		}
		section, err := b.section(t, t.directory.rows)
		if err != nil {
			return nil, err
		}
		r, err := readRows(section, b.rows)
		if err != nil {
			return nil, b.part.damaged(b.meta.offset, err)
		}
		return r, nil
	}
	r := &Rows{
		Timestamp: make([]int64, 0, b.rows), Ingested: make([]int64, 0, b.rows), Seq: make([]uint64, 0, b.rows),
		Stream: make([]StreamID, 0, b.rows), Size: make([]int32, 0, b.rows),
	}
	return r, b.forEachChunk(func(c *chunk) error {
		_, err := c.forEachRow(func(x row) {
			r.Timestamp, r.Ingested, r.Seq = append(r.Timestamp, x.timestamp), append(r.Ingested, x.ingested),
				append(r.Seq, x.seq)
			r.Stream, r.Size = append(r.Stream, x.stream), append(r.Size, int32(x.size))
		})
		return err
	})
}

// forEachChunk reads the chunks of the block, each of which use may look at until it returns.
func (b *Block) forEachChunk(use func(*chunk) error) (err error) {
	v := b.view
	if err := v.store.beginCall(); err != nil {
		return err
	}
	defer v.store.life.RUnlock()
	it, err := v.unsealed.NewIter(&pebble.IterOptions{LowerBound: encodeKey(keyChunk, uint64(v.group), b.first),
		UpperBound: encodeKey(keyChunk, uint64(v.group), b.last+1)})
	if err != nil {
		return v.damagedChunk(b.first, err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for valid := it.First(); valid; valid = it.Next() {
		first := keyNumber(it.Key(), 1)
		value, err := it.ValueAndErr()
		if err != nil {
			return v.damagedChunk(first, err)
		}
		c, err := readChunk(first, value)
		if err == nil {
			err = use(&c)
		}
		if err != nil {
			return v.damagedChunk(first, err)
		}
	}
	return it.Error()
}

// damagedChunk returns the error of a chunk that isn't what was written.
func (v *View) damagedChunk(first uint64, err error) error {
	return fmt.Errorf("%w: catalog, events from %d of group %d: %w", ErrDamaged, first, v.group, err)
}

// NoValue is the code in Column.Codes of a row whose message has no such path, or is no JSON object.
const NoValue = 0xffff

// Column has the values of the messages of a block at one JSON path.
type Column struct {
	Values []string // raw JSON scalars as the messages write them: "get" with its quotes, 201, true, null
	Codes  []uint16 // per row, an index into Values, or NoValue
}

// noCodes has the codes of columns without a value: those of all fields that a block lacks, of which a query may name
// many.
var noCodes = sync.OnceValue(func() []uint16 { return slices.Repeat([]uint16{NoValue}, blockRows) })

// absentColumn returns a column without a value. Nobody changes it.
func absentColumn(rows int) *Column {
	if rows > blockRows {
		return &Column{Codes: slices.Repeat([]uint16{NoValue}, rows)}
	}
	return &Column{Codes: noCodes()[:rows:rows]}
}

// Column reads the values of a JSON path that the block keeps apart: keys joined by dots, array elements
// by index, as in `user.groups.0`. It is false when the path is not kept, which says nothing about the
// messages; when it is true, Column tells of every row exactly what its message says. The caller doesn't change it.
func (b *Block) Column(path string) (*Column, bool, error) {
	if b.part == nil {
		return nil, false, nil
	}
	t, err := b.view.readTail(b)
	if err != nil {
		return nil, false, err
	}
	at, found, absent := t.directory.findColumn(path)
	if absent {
		return absentColumn(b.rows), true, nil
	}
	if !found {
		return nil, false, nil
	}
	section, err := b.section(t, at)
	if err != nil {
		return nil, false, err
	}
	c, err := readColumn(section, b.rows)
	if err != nil {
		return nil, false, b.part.damaged(b.meta.offset, fmt.Errorf("column %s: %w", path, err))
	}
	return c, true, nil
}

// Columns returns the paths that the block keeps apart, in order.
func (b *Block) Columns() ([]string, error) {
	if b.part == nil {
		return nil, nil
	}
	t, err := b.view.readTail(b)
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(t.directory.columns))
	for i, c := range t.directory.columns {
		paths[i] = strings.Clone(c.path)
	}
	return paths, nil
}

// tail is the end of a block: its directory, and the columns and rows as they are on the disk.
type tail struct {
	block     *Block
	bytes     []byte
	directory *directory
}

// readTail reads the tail of a block, or finds it among those read last: who reads a block asks for one
// column after the other.
func (v *View) readTail(b *Block) (*tail, error) {
	v.mu.Lock()
	for _, t := range v.tails {
		if t != nil && t.block == b {
			v.mu.Unlock()
			return t, nil
		}
	}
	v.mu.Unlock()
	m := b.meta
	bytes, err := b.part.readRange(nil, m.offset+m.size-m.tail, m.tail)
	if err != nil {
		return nil, err
	}
	encoded := bytes[m.tail-m.directory:]
	if sum := checksum(encoded); sum != m.checksum {
		return nil, b.part.damaged(m.offset, fmt.Errorf("the directory's checksum is %08x where %08x was written", sum,
			m.checksum))
	}
	d, err := readDirectory(encoded)
	if err != nil {
		return nil, b.part.damaged(m.offset, fmt.Errorf("directory: %w", err))
	}
	t := &tail{b, bytes, d}
	v.mu.Lock()
	v.tails[v.next] = t
	v.next = (v.next + 1) % len(v.tails)
	v.mu.Unlock()
	return t, nil
}

// section reads a section, from the tail if it is there, and decompresses it.
func (b *Block) section(t *tail, s section) ([]byte, error) {
	raw, err := b.rawSection(nil, t, s)
	if err == nil {
		raw, err = s.decodeSection(nil, raw)
		if err != nil {
			err = b.part.damaged(b.meta.offset, err)
		}
	}
	return raw, err
}

func (b *Block) rawSection(dst []byte, t *tail, s section) ([]byte, error) {
	m := b.meta
	if int64(s.at+s.size) > m.size {
		return nil, b.part.damaged(m.offset, errShort)
	}
	if at := int64(s.at) - (m.size - m.tail); at >= 0 {
		return t.bytes[at : at+int64(s.size)], nil
	}
	return b.part.readRange(dst, m.offset+int64(s.at), int64(s.size))
}
