package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Batch is a set of events that Append makes durable at once: all of it, or nothing.
type Batch struct {
	Group  GroupID
	Events []Event // their Seq is ignored
	// Marks are set together with the events; a nil value deletes one. Who ships events from elsewhere
	// keeps his place there, so that a crash neither loses nor doubles an event.
	Marks map[string][]byte
}

// maxMessage is the longest message in bytes, more than any service takes.
const maxMessage = 16 << 20

// behind is the multiple of Options.SealBytes, and of SealRows, that a group may have unsealed before Append waits.
const behind = 4

// Append adds the events to their group and makes them durable before it returns. It returns the Seq
// of the first event; the others follow without a gap. It waits when events come in faster than they
// can be sealed.
//
// After ErrFull or an error of ctx nothing of the batch is kept, and the next call may succeed.
func (s *Store) Append(ctx context.Context, b Batch) (first uint64, err error) {
	if err := s.beginCall(); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	if err := s.checkSpace(); err != nil {
		return 0, fmt.Errorf("append log events: %w", err)
	}
	chunks, err := encodeChunks(b.Events)
	if err != nil {
		return 0, fmt.Errorf("append log events: %w", err)
	}
	defer chunks.release()

	batch := s.db.NewBatch()
	if err := setMarks(batch, b.Marks); err != nil {
		return 0, fmt.Errorf("append log events: %w", err)
	}
	g, err := s.lockForAppend(ctx, b.Group)
	if err != nil {
		return 0, fmt.Errorf("append log events: %w", err)
	}
	row, live, streams := g.groupRow, g.live, map[StreamID]StreamStat{}
	first = row.last + 1
	for i := range b.Events {
		e := &b.Events[i]
		row.last++
		row.unsealed += int64(len(e.Message))
		if e.Timestamp >= row.expired {
			live = row.last
			st, known := streams[e.Stream]
			if !known {
				st, known = g.streams[e.Stream]
			}
			streams[e.Stream] = st.withEvent(e, known)
		}
	}
	if len(b.Events) > 0 {
		seq := first
		for _, c := range chunks.chunks {
			err = errors.Join(err, batch.Set(encodeKey(keyChunk, uint64(g.id), seq), c.value, nil))
			seq += uint64(c.rows)
		}
		err = errors.Join(err, batch.Set(encodeKey(keyGroup, uint64(g.id)), row.encode(), nil))
		for id, st := range streams {
			err = errors.Join(err, batch.Set(encodeKey(keyStream, uint64(g.id), uint64(id)), st.encode(), nil))
		}
	}
	var durable func() error
	if err == nil {
		durable, err = s.applyBatch(batch)
	}
	if err != nil {
		g.mu.Unlock()
		return 0, fmt.Errorf("append log events: %w", err)
	}
	g.groupRow, g.live = row, live
	for id, st := range streams {
		g.streams[id] = st
	}
	g.mu.Unlock()
	if err := durable(); err != nil {
		return 0, fmt.Errorf("append log events: %w", err)
	}
	at("appended")
	g.mu.Lock()
	if row.last > g.durable { // the log is in the order of Seq: those before it are durable as well
		g.durable = row.last
		g.notifyWaiters()
	}
	full := s.isFull(g, 1)
	g.mu.Unlock()
	if full {
		s.upkeep.enqueue(g)
	}
	return first, nil
}

// isFull reports whether a group has as many events that are not sealed as make so many parts. The group is locked.
func (s *Store) isFull(g *group, parts int) bool {
	return g.unsealed >= int64(parts)*s.SealBytes || g.last-g.sealed >= uint64(parts*s.SealRows)
}

// lockForAppend locks the group when it may take more.
func (s *Store) lockForAppend(ctx context.Context, id GroupID) (*group, error) {
	kicked := false
	for {
		g := s.ensureGroup(id)
		g.mu.Lock()
		switch {
		case g.deleted:
			g.mu.Unlock()
			continue
		case !s.isFull(g, behind):
			return g, nil
		case g.sealError != nil && kicked:
			err := g.sealError
			g.mu.Unlock()
			return nil, err
		}
		if !kicked {
			g.sealError = nil // it is tried again for us
			kicked = true
		}
		changed := g.changed
		g.mu.Unlock()
		s.upkeep.enqueue(g)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.closing:
			return nil, ErrClosed
		}
	}
}

// withEvent returns the statistics with one more event.
func (s StreamStat) withEvent(e *Event, known bool) StreamStat {
	if !known {
		s = StreamStat{First: e.Timestamp, Last: e.Timestamp, LastIngested: e.Ingested}
	}
	return StreamStat{
		First: min(s.First, e.Timestamp), Last: max(s.Last, e.Timestamp), LastIngested: max(s.LastIngested, e.Ingested),
		Events: s.Events + 1, StoredBytes: s.StoredBytes + int64(len(e.Message)) + eventOverhead,
	}
}

// encodedChunks are the chunks of a batch.
type encodedChunks struct {
	chunks []encodedChunk
	buffer *[]byte
}

type encodedChunk struct {
	value []byte
	rows  int
}

var encodeBuffers = sync.Pool{New: newBuffer}

func encodeChunks(events []Event) (c encodedChunks, err error) {
	for i := range events {
		if len(events[i].Message) > maxMessage {
			return c, fmt.Errorf("a message has %d bytes; %d is the most", len(events[i].Message), maxMessage)
		}
	}
	c.buffer = encodeBuffers.Get().(*[]byte)
	free := *c.buffer
	for len(events) > 0 {
		value, n := encodeChunk(free, events)
		if len(c.chunks) == 0 {
			*c.buffer = value[:0] // it may have grown
		}
		c.chunks = append(c.chunks, encodedChunk{value, n})
		free, events = nil, events[n:]
	}
	return c, nil
}

func (c encodedChunks) release() {
	if c.buffer != nil {
		encodeBuffers.Put(c.buffer)
	}
}

func setMarks(b *pebble.Batch, marks map[string][]byte) error {
	for k, v := range marks {
		k := append([]byte{keyMark}, k...)
		err := error(nil)
		if v == nil {
			err = b.Delete(k, nil)
		} else {
			err = b.Set(k, v, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Mark returns the value of a mark, nil when it was never set.
func (s *Store) Mark(mark string) ([]byte, error) {
	marks, err := s.listMarks([]byte(mark), append([]byte(mark), 0))
	return marks[mark], err
}

// Marks returns all marks whose keys begin with prefix.
func (s *Store) Marks(prefix string) (map[string][]byte, error) {
	end := []byte(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) > 0 {
		end[len(end)-1]++
	}
	return s.listMarks([]byte(prefix), end)
}

// listMarks returns the marks with from <= mark < to; an empty to is no bound.
func (s *Store) listMarks(from, to []byte) (map[string][]byte, error) {
	if err := s.beginCall(); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	upper := []byte{keyMark + 1}
	if len(to) > 0 {
		upper = append([]byte{keyMark}, to...)
	}
	marks := map[string][]byte{}
	err := s.forEachEntry(append([]byte{keyMark}, from...), upper, func(k, v []byte) error {
		marks[string(k[1:])] = slices.Clone(v)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return marks, nil
}

// SetMarks sets marks durably, all or none, without events. A nil value deletes a mark.
func (s *Store) SetMarks(marks map[string][]byte) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	err := s.checkSpace()
	batch := s.db.NewBatch()
	if err == nil {
		err = setMarks(batch, marks)
	}
	if err == nil && len(marks) > 0 {
		err = s.commitBatch(batch)
	}
	if err != nil {
		return fmt.Errorf("set marks: %w", err)
	}
	return nil
}
