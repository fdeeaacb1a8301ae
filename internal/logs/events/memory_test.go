package events

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// overlapping appends batches of short messages, each of which has events of the same time.
func overlapping(t *testing.T, s *Store, g GroupID, batches, each int) {
	t.Helper()
	for batch := range batches {
		b := Batch{Group: g}
		for i := range each {
			b.Events = append(b.Events, Event{Stream: StreamID(1 + batch%3), Timestamp: int64(i * 1000),
				Message: fmt.Sprint(batch, i)})
		}
		if _, err := s.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadsOfOverlappingBlocksAreBounded reads more blocks of the same time than may be in memory, sealed and not: what
// a merge has in memory does not grow with them, it is held before, and all events come in their order.
func TestReadsOfOverlappingBlocksAreBounded(t *testing.T) {
	t.Parallel()
	const batches, each = 3 * openRows, 40
	for name, o := range map[string]Options{"sealed": {SealRows: each}, "not sealed": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), o)
			overlapping(t, s, 1, batches, each)
			waitIdle(t, s)
			for _, backward := range []bool{false, true} {
				v, err := s.View(1, 0, 1<<60)
				if err != nil {
					t.Fatal(err)
				}
				if o.SealRows == 0 { // as many blocks, which the reader makes of chunks
					v.blocks = splitChunks(t, v.blocks)
				}
				if len(v.blocks) < 2*openRows {
					t.Fatalf("there are %d blocks", len(v.blocks))
				}
				held := int64(0)
				m := newMerge(v, Range{To: 1 << 60, Backward: backward, Hold: func(n int64) error { held += n; return nil }})
				var last *Event
				n := 0
				err = m.mergeBlocks(t.Context(), func(e Event, _ error) bool {
					at := Position{e.Timestamp, e.Seq}
					if last != nil && m.direction(at.Compare(Position{last.Timestamp, last.Seq})) <= 0 {
						t.Fatalf("%v comes behind %v", e, *last)
					}
					if want := fmt.Sprint((e.Seq-1)/each, (e.Seq-1)%each); e.Message != want {
						t.Fatalf("event %d is %q, want %q", e.Seq, e.Message, want)
					}
					if len(m.listed) > openRows || len(m.loaded) > openMessages {
						t.Fatalf("%d blocks have their rows in memory, and %d their messages", len(m.listed), len(m.loaded))
					}
					last, n = &e, n+1
					return true
				})
				if err != nil || n != batches*each {
					t.Errorf("%d events of %d: %v", n, batches*each, err)
				}
				if m.takes != 0 || held == 0 || held > openRows*each*rowBytes+openMessages*each*16 {
					t.Errorf("%d bytes were held, and %d are left", held, m.takes)
				}
				if err := v.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// splitChunks makes a block of each chunk.
func splitChunks(t *testing.T, blocks []*Block) (split []*Block) {
	t.Helper()
	for _, b := range blocks {
		if err := b.forEachChunk(func(c *chunk) error {
			split = append(split, &Block{view: b.view, rows: c.rows, raw: c.raw, minTime: c.minTime, maxTime: c.maxTime,
				first: c.first, last: c.first, streams: c.streams})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return split
}

// TestViewsKeepNoMessages takes snapshots of groups whose events are not sealed: a query has one of each of its groups.
func TestViewsKeepNoMessages(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	random := rand.New(rand.NewPCG(1, 2))
	message := make([]byte, 1<<20)
	for i := range message {
		message[i] = byte(random.Uint32())
	}
	for range 7 {
		b := Batch{Group: 1, Events: []Event{{Stream: 1, Message: string(message)}}}
		if _, err := s.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	var views []*View
	for range 20 {
		v, err := s.View(1, 0, 1<<60)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close() //nolint:errcheck // it was only read
		views = append(views, v)
	}
	if after := heap(); after > before+20<<20 {
		t.Errorf("20 views of 7 MiB take %d MiB", (after-before)>>20)
	}
	runtime.KeepAlive(views)
}

// TestViewsOfManyChunksAreSmall takes snapshots of a group with a chunk for each event, as clients write that send one
// at a time.
func TestViewsOfManyChunksAreSmall(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	const events = 3 * blockRows
	for i := range events {
		b := Batch{Group: 1, Events: []Event{{Stream: StreamID(i % 3), Timestamp: int64(i % 7)}}}
		if _, err := s.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	v, err := s.View(1, 0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // it was only read
	rows := 0
	for _, b := range v.blocks {
		rows += b.rows
		if len(b.streams) != 3 {
			t.Errorf("a block has %d streams, want 3", len(b.streams))
		}
	}
	if rows != events || len(v.blocks) != events/blockRows {
		t.Errorf("the view has %d events in %d blocks, want %d in %d", rows, len(v.blocks), events, events/blockRows)
	}
}

// TestShortMessagesAreSealed appends events of no length: what is not sealed does not grow without end.
func TestShortMessagesAreSealed(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealRows: 1000})
	for range 20 {
		b := Batch{Group: 1}
		for i := range 500 {
			b.Events = append(b.Events, Event{Stream: 1, Timestamp: int64(i)})
		}
		if _, err := s.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, s, 1, func(g *group) bool { return g.last-g.sealed < 1000 && g.last == 10_000 })
	if n := count(t, s, 1, Range{To: 1 << 60}); n != 10_000 {
		t.Errorf("%d events are there", n)
	}
}

// TestFollowersKeepAsManyEventsAsTheyAskFor follows a group of which one part has many blocks of the same Seq.
func TestFollowersKeepAsManyEventsAsTheyAskFor(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealRows: 20_000})
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := Batch{Group: 1}
		for range 1000 {
			b.Events = append(b.Events, Event{Stream: StreamID(1 + random.IntN(5)), Timestamp: random.Int64N(1000)})
		}
		if _, err := s.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	waitIdle(t, s)
	seq := uint64(0)
	for seq < 20_000 {
		list, err := s.Since(t.Context(), 1, seq, 700)
		if err != nil || len(list) == 0 {
			t.Fatalf("after %d: %v", seq, err)
		}
		for _, e := range list {
			if seq++; e.Seq != seq {
				t.Fatalf("%d comes where %d is due", e.Seq, seq)
			}
		}
	}
}

// TestPartsOfShortMessagesAreMergedTwice merges parts of events of no length: as others, each is copied twice and not
// with each eight that follow.
func TestPartsOfShortMessagesAreMergedTwice(t *testing.T) {
	t.Parallel()
	const rows, all = 10, mergeParts * mergeParts * 3
	s := open(t, t.TempDir(), Options{SealRows: rows})
	for range all {
		if _, err := s.Append(t.Context(), Batch{Group: 1, Events: make([]Event, rows)}); err != nil {
			t.Fatal(err)
		}
	}
	waitIdle(t, s)
	g := s.findGroup(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	most := 0
	for _, p := range g.parts {
		most = max(most, p.rows)
	}
	if len(g.parts) > all/mergeParts || most > mergeParts*mergeParts*rows {
		t.Errorf("%d parts have %d rows at most, of %d together", len(g.parts), most, all*rows)
	}
}

// TestAViewOutlivesTheStore closes a store while somebody has a view of it.
func TestAViewOutlivesTheStore(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	overlapping(t, s, 1, 3, 10)
	v, err := s.View(1, 0, 1<<60)
	if err != nil || len(v.Blocks()) == 0 {
		t.Fatalf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close the store: %v", err)
	}
	if _, err := v.Blocks()[0].Messages(); !errors.Is(err, ErrClosed) {
		t.Errorf("read on: %v", err)
	}
	if err := v.Close(); err != nil {
		t.Errorf("close the view: %v", err)
	}
}

// A query may name thousands of fields that a block lacks.
func TestColumnsWithoutValuesTakeNoMemory(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealRows: 100})
	b := Batch{Group: 1}
	for i := range 200 {
		b.Events = append(b.Events, Event{Stream: 1, Timestamp: int64(i), Message: fmt.Sprintf(`{"n":%d}`, i%3)})
	}
	if _, err := s.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, s)
	v, err := s.View(1, 0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // it was only read
	block := v.blocks[0]
	var first *Column
	for _, path := range []string{"a", "b"} {
		c, ok, err := block.Column(path)
		if err != nil || !ok || len(c.Codes) != block.Len() || slices.IndexFunc(c.Codes, func(code uint16) bool {
			return code != NoValue
		}) >= 0 {
			t.Fatalf("column %s: %v, %v, %v", path, c, ok, err)
		}
		if first != nil && &c.Codes[0] != &first.Codes[0] {
			t.Error("each has codes of its own")
		}
		first = c
	}
	if c := absentColumn(blockRows + 5); len(c.Codes) != blockRows+5 || c.Codes[blockRows] != NoValue {
		t.Errorf("a large block has %d codes", len(c.Codes))
	}
}
