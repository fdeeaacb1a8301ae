package events

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// eventOverhead is the size that an event counts in addition to its message.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
const eventOverhead = 26

// GroupStat has the size of a group, as readers see it.
type GroupStat struct {
	StoredBytes int64 // the messages and 26 bytes for each, as AWS counts
	Events      int64
	First, Last int64 // the earliest and the latest Timestamp; 0 and 0 when there is no event
}

// StreamStat has the size of a stream, as readers see it.
type StreamStat struct {
	First, Last  int64 // the earliest and the latest Timestamp
	LastIngested int64
	Events       int64
	StoredBytes  int64 // as in GroupStat
}

// GroupStat returns what the group holds; all zero when it holds nothing.
func (s *Store) GroupStat(id GroupID) GroupStat {
	g := s.findGroup(id)
	if g == nil {
		return GroupStat{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.streams) == 0 {
		return GroupStat{}
	}
	all := GroupStat{First: math.MaxInt64, Last: math.MinInt64}
	for _, st := range g.streams {
		all.StoredBytes += st.StoredBytes
		all.Events += st.Events
		all.First, all.Last = min(all.First, st.First), max(all.Last, st.Last)
	}
	return all
}

// StreamStat returns what a stream of the group holds, false when that is nothing.
func (s *Store) StreamStat(id GroupID, stream StreamID) (StreamStat, bool) {
	g := s.findGroup(id)
	if g == nil {
		return StreamStat{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	st, found := g.streams[stream]
	return st, found
}

// DeleteGroup deletes all events of a group. When it returns, that is durable and readers see none;
// the disk space returns soon after. Deleting what is not there is no error.
func (s *Store) DeleteGroup(id GroupID) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	if err := s.deleteGroup(id); err != nil {
		return fmt.Errorf("delete log events of group %d: %w", id, err)
	}
	return nil
}

func (s *Store) deleteGroup(id GroupID) error {
	g := s.findGroup(id)
	if g == nil {
		return nil
	}
	g.mu.Lock()
	if g.deleted {
		g.mu.Unlock()
		return nil
	}
	s.mu.Lock()
	floor := max(s.floor, g.last)
	s.mu.Unlock()
	b := s.db.NewBatch()
	err := b.Set(encodeKey(keyFloor), uvarintBytes(floor), nil)
	err = errors.Join(err, b.Delete(encodeKey(keyGroup, uint64(id)), nil))
	for _, kind := range []byte{keyStream, keyDead, keyPart, keyChunk} {
		from, to := groupKeys(kind, id)
		err = errors.Join(err, b.DeleteRange(from, to, nil))
	}
	var durable func() error
	if err == nil {
		durable, err = s.applyBatch(b)
	}
	if err != nil {
		g.mu.Unlock()
		return err
	}
	g.deleted = true
	s.mu.Lock()
	s.floor = max(s.floor, floor)
	delete(s.groups, id)
	s.mu.Unlock()
	parts := g.parts
	g.removed += storedBytes(g.streams)
	g.parts, g.streams = nil, nil
	g.notifyWaiters()
	g.mu.Unlock()

	if err := durable(); err != nil {
		return err
	}
	at("group deleted")
	for _, p := range parts {
		p.markDropped()
	}
	s.upkeep.enqueue(g)
	return nil
}

// DeleteStream deletes the events of one stream, as DeleteGroup does.
func (s *Store) DeleteStream(id GroupID, stream StreamID) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	g := s.findGroup(id)
	if g == nil {
		return nil
	}
	g.mu.Lock()
	if _, found := g.streams[stream]; !found {
		g.mu.Unlock()
		return nil
	}
	b := s.db.NewBatch()
	err := b.Set(encodeKey(keyDead, uint64(id), uint64(stream)), uvarintBytes(g.last), nil)
	err = errors.Join(err, b.Delete(encodeKey(keyStream, uint64(id), uint64(stream)), nil))
	var durable func() error
	if err == nil {
		durable, err = s.applyBatch(b)
	}
	if err == nil {
		g.dead = maps.Clone(g.dead)
		g.dead[stream] = g.last
		g.removed += g.streams[stream].StoredBytes
		delete(g.streams, stream)
		g.deletions = true
	}
	g.mu.Unlock()
	if err == nil {
		err = durable()
	}
	if err != nil {
		return fmt.Errorf("delete log events of stream %d in group %d: %w", stream, id, err)
	}
	s.upkeep.enqueue(g)
	return nil
}

// Expire deletes the events of a group with Timestamp < before, in milliseconds since 1970 UTC, as
// DeleteGroup does. Events as old that come in later are not shown either, unless the group never had
// an event before.
func (s *Store) Expire(id GroupID, before int64) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	g := s.findGroup(id)
	if g == nil {
		return nil
	}
	if err := s.expireEvents(g, before); err != nil {
		return fmt.Errorf("expire log events of group %d: %w", id, err)
	}
	return nil
}

// Expired returns the time before which Expire has ended the group: an event with an earlier Timestamp is shown to
// nobody. It never becomes earlier. It is 0, or less, when there was no Expire.
func (s *Store) Expired(id GroupID) int64 {
	g := s.findGroup(id)
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.expired
}

func (s *Store) expireEvents(g *group, before int64) error {
	g.mu.Lock()
	if g.deleted || before <= g.expired {
		g.mu.Unlock()
		return nil
	}
	streams, err := s.countExpired(g, before)
	row := g.groupRow
	row.expired = before
	b := s.db.NewBatch()
	err = errors.Join(err, b.Set(encodeKey(keyGroup, uint64(g.id)), row.encode(), nil))
	for id := range g.streams {
		k := encodeKey(keyStream, uint64(g.id), uint64(id))
		if st, left := streams[id]; !left {
			err = errors.Join(err, b.Delete(k, nil))
		} else if st != g.streams[id] {
			err = errors.Join(err, b.Set(k, st.encode(), nil))
		}
	}
	var durable func() error
	if err == nil {
		durable, err = s.applyBatch(b)
	}
	if err != nil {
		g.mu.Unlock()
		return err
	}
	g.removed += storedBytes(g.streams) - storedBytes(streams)
	g.groupRow, g.streams, g.deletions = row, streams, true
	g.mu.Unlock()
	if err := durable(); err != nil {
		return err
	}
	s.upkeep.enqueue(g)
	return nil
}

// storedBytes returns the StoredBytes of some streams.
func storedBytes(streams map[StreamID]StreamStat) (n int64) {
	for _, st := range streams {
		n += st.StoredBytes
	}
	return n
}

// countExpired returns the statistics of the streams without the events with a Timestamp below before. Blocks that end
// before it or begin after it are not read. The group is locked.
func (s *Store) countExpired(g *group, before int64) (map[StreamID]StreamStat, error) {
	streams := maps.Clone(g.streams)
	if !slices.ContainsFunc(slices.Collect(maps.Values(streams)),
		func(st StreamStat) bool { return st.First < before }) {
		return streams, nil
	}
	firsts := map[StreamID]int64{} // of what is left
	left := func(id StreamID, timestamp int64) {
		if first, known := firsts[id]; !known || timestamp < first {
			firsts[id] = timestamp
		}
	}
	gone := func(id StreamID, events int, raw int64) {
		st := streams[id]
		st.Events -= int64(events)
		st.StoredBytes -= raw + eventOverhead*int64(events)
		streams[id] = st
	}
	live := liveness{g.expired, g.dead}
	v := &View{group: g.id, live: live}
	defer v.Close()
	for _, p := range g.parts {
		p.acquire()
		v.held = append(v.held, p)
		for i := range p.blocks {
			m := &p.blocks[i]
			read := map[StreamID]bool{}
			for _, sp := range m.spans {
				all, none := live.certain(sp.stream, sp.min, sp.max, m.minSeq, m.maxSeq)
				switch {
				case none:
				case all && sp.max < before:
					gone(sp.stream, sp.rows, sp.raw)
				case all && sp.min >= before:
					left(sp.stream, sp.min)
				default:
					read[sp.stream] = true
				}
			}
			if len(read) == 0 {
				continue
			}
			r, err := (&Block{view: v, part: p, meta: m, rows: m.rows, raw: m.raw}).readRows()
			if err != nil {
				return nil, err
			}
			for i, stream := range r.Stream {
				switch {
				case !read[stream] || !live.isLiveRow(stream, r.Timestamp[i], r.Seq[i]):
				case r.Timestamp[i] < before:
					gone(stream, 1, int64(r.Size[i]))
				default:
					left(stream, r.Timestamp[i])
				}
			}
		}
	}
	from, to := groupKeys(keyChunk, g.id)
	if err := s.forEachEntry(from, to, func(k, value []byte) error {
		c, err := readChunk(keyNumber(k, 1), value)
		if err == nil {
			_, err = c.forEachRow(func(r row) {
				switch {
				case !live.isLiveRow(r.stream, r.timestamp, r.seq):
				case r.timestamp < before:
					gone(r.stream, 1, int64(r.size))
				default:
					left(r.stream, r.timestamp)
				}
			})
		}
		return err
	}); err != nil {
		return nil, err
	}
	for id, st := range streams {
		if first, some := firsts[id]; !some {
			delete(streams, id)
		} else {
			st.First = first
			streams[id] = st
		}
	}
	return streams, nil
}

// DiskBytes returns what the store's files take on the disk, in bytes, without the few MiB that the log of new events
// reserves for what comes.
func (s *Store) DiskBytes() int64 {
	if s.beginCall() != nil {
		return 0
	}
	defer s.life.RUnlock()
	m := s.db.Metrics()
	n := int64(m.DiskSpaceUsage() - m.WAL.PhysicalSize + m.WAL.Size)
	s.mu.Lock()
	groups := slices.Collect(maps.Values(s.groups))
	s.mu.Unlock()
	for _, g := range groups {
		g.mu.Lock()
		for _, p := range g.parts {
			n += p.size()
		}
		g.mu.Unlock()
	}
	return n
}
