package events

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// The size of a block, and what a stream must have in a part to get blocks of its own.
const (
	blockBytes = 2 << 20 // of messages
	blockRows  = 8192
	ownBlocks  = 512 << 10
)

// Neighbors are merged to parts of 8 seals, and those to parts of 64: some hundred files, not many thousand, hold
// 100 GiB.
const (
	mergeParts = 8
	mergeLimit = mergeParts * mergeParts
)

// linger is the time for which the background goroutine keeps its buffers for more work.
const linger = 2 * time.Second

// upkeep is the queue of the goroutine that seals, merges and cleans up.
type upkeep struct {
	mu    sync.Mutex
	queue []*group
	busy  bool
	idle  chan struct{} // closed when nothing is left to do; nil when nobody waits for that
	wake  chan struct{}
	done  sync.WaitGroup
}

// enqueue puts a group in the queue, unless it waits there already.
func (u *upkeep) enqueue(g *group) {
	u.mu.Lock()
	if !slices.Contains(u.queue, g) {
		u.queue = append(u.queue, g)
	}
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *upkeep) dequeue() *group {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.busy = len(u.queue) > 0
	if !u.busy {
		if u.idle != nil {
			close(u.idle)
			u.idle = nil
		}
		return nil
	}
	g := u.queue[0]
	u.queue = slices.Delete(u.queue, 0, 1)
	return g
}

// WaitIdle waits until all that can be sealed, merged or removed now has been.
func (s *Store) WaitIdle(ctx context.Context) error {
	u := &s.upkeep
	u.mu.Lock()
	if !u.busy && len(u.queue) == 0 {
		u.mu.Unlock()
		return nil
	}
	if u.idle == nil {
		u.idle = make(chan struct{})
	}
	idle := u.idle
	u.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-s.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runMaintenance works on the groups in the queue until the store is closed.
func (s *Store) runMaintenance() {
	w := &worker{store: s}
	idle := time.NewTimer(linger)
	defer idle.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-idle.C:
			w = &worker{store: s}
			continue
		case <-s.upkeep.wake:
		}
		for g := s.upkeep.dequeue(); g != nil; g = s.upkeep.dequeue() {
			select {
			case <-s.closing:
				return
			default:
				w.maintainGroup(g)
			}
		}
		idle.Reset(linger)
	}
}

// worker seals, merges and cleans up.
type worker struct {
	store   *Store
	buffer  []byte
	rows    []row
	writers []*blockWriter
}

// maintainGroup takes one step of the maintenance of a group, and queues the group again if there may be more.
func (w *worker) maintainGroup(g *group) {
	s := w.store
	did, err := w.sealEvents(g)
	g.mu.Lock()
	g.sealError = err
	g.notifyWaiters()
	g.mu.Unlock()
	if err != nil {
		s.log.Error("log events can't be sealed; they stay safe as they are", "group", g.id, "error", err)
	}
	if err == nil && !did {
		if did, err = w.collectGarbage(g); err != nil {
			s.log.Error("log events can't be cleaned up; the disk space of deleted ones stays taken", "group", g.id,
				"error", err)
		}
	}
	if did {
		s.upkeep.enqueue(g)
	}
}

// sealEvents turns the oldest unsealed events of a group into a part, if there are enough of them, or if
// most of them are deleted.
func (w *worker) sealEvents(g *group) (did bool, err error) {
	s := w.store
	g.mu.Lock()
	unsealed, sealedUpTo, last, deleted, deletions := g.unsealed, g.sealed, g.durable, g.deleted, g.deletions
	live, full := liveness{g.expired, g.dead}, s.isFull(g, 1)
	g.deletions = false
	g.mu.Unlock()
	if deleted || last == sealedUpTo {
		return false, nil
	}
	if !full {
		if !deletions {
			return false, nil
		}
		dead, err := s.deadChunks(g, live)
		if err != nil || dead < unsealed/2 || dead == 0 {
			return false, err
		}
	}
	sealed, raw, err := w.readChunks(g, last, live)
	if err != nil || sealed == 0 {
		return false, err
	}
	var p *part
	if len(w.rows) > 0 {
		if p, err = w.writePart(g, func(pw *partWriter) error { return w.writeRows(pw) }); err != nil {
			return false, err
		}
	}
	return true, s.replaceParts(g, nil, p, sealed, raw)
}

// deadChunks returns how many bytes of the unsealed messages are deleted.
func (s *Store) deadChunks(g *group, live liveness) (dead int64, err error) {
	from, to := groupKeys(keyChunk, g.id)
	err = s.forEachEntry(from, to, func(k, value []byte) error {
		c, err := readChunk(keyNumber(k, 1), value)
		if err != nil || c.minTime >= live.expired && len(live.dead) == 0 {
			return err
		}
		_, err = c.forEachRow(func(r row) {
			if !live.isLiveRow(r.stream, r.timestamp, r.seq) {
				dead += int64(r.size)
			}
		})
		return err
	})
	return dead, err
}

// readChunks reads chunks from the first on until there are enough for a part. It returns the Seq of
// the last event read and the bytes of all messages, those of deleted events included.
func (w *worker) readChunks(g *group, last uint64, live liveness) (sealed uint64, raw int64, err error) {
	if w.buffer == nil {
		w.buffer = make([]byte, 0, w.store.SealBytes+2*chunkBytes)
	}
	w.buffer, w.rows = w.buffer[:0], w.rows[:0]
	from, _ := groupKeys(keyChunk, g.id)
	enough, rows := errors.New("enough"), 0
	err = w.store.forEachEntry(from, encodeKey(keyChunk, uint64(g.id), last+1), func(k, value []byte) error {
		if raw >= w.store.SealBytes || rows >= w.store.SealRows {
			return enough
		}
		first := keyNumber(k, 1)
		c, err := readChunk(first, value)
		rows += c.rows
		if err == nil {
			start := len(w.buffer)
			w.buffer = slices.Grow(w.buffer, int(c.raw))[:start+int(c.raw)]
			var messages []byte
			messages, err = c.forEachRow(func(r row) {
				if live.isLiveRow(r.stream, r.timestamp, r.seq) {
					r.at += start
					w.rows = append(w.rows, r)
				}
			})
			if err == nil {
				err = c.decompress(w.buffer[start:], messages)
			}
		}
		if err != nil {
			return fmt.Errorf("%w: catalog, events from %d of group %d: %w", ErrDamaged, first, g.id, err)
		}
		sealed, raw = first+uint64(c.rows)-1, raw+c.raw
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return sealed, raw, err
}

// writePart makes the file of a new part, from whatever fill adds to it; nil when that is nothing.
func (w *worker) writePart(g *group, fill func(*partWriter) error) (*part, error) {
	s := w.store
	if err := s.checkSpace(); err != nil {
		return nil, err
	}
	id := s.lastPart.Add(1)
	pw, err := newPartWriter(filepath.Join(s.parts, partName(g.id, id)))
	if err != nil {
		return nil, err
	}
	if err := fill(pw); err != nil || len(pw.blocks) == 0 {
		return nil, errors.Join(err, pw.abandon())
	}
	if err := pw.finishFile(); err != nil {
		return nil, err
	}
	at("part named")
	return newPart(s, g.id, id, pw.blocks), nil
}

// writeRows adds w.rows to a part, in blocks that all cores encode.
func (w *worker) writeRows(pw *partWriter) error {
	slices.SortFunc(w.rows, blockOrder)
	blocks := splitRows(w.rows)
	n := runtime.GOMAXPROCS(0)
	for len(w.writers) < n {
		w.writers = append(w.writers, newBlockWriter())
	}
	for len(blocks) > 0 {
		now := blocks[:min(n, len(blocks))]
		encoded, metas := make([][]byte, len(now)), make([]blockMeta, len(now))
		var all sync.WaitGroup
		for i, rows := range now {
			all.Go(func() { encoded[i], metas[i] = w.writers[i].encodeBlock(rows, w.buffer) })
		}
		all.Wait()
		for i := range now {
			if err := pw.addBlock(encoded[i], metas[i]); err != nil {
				return err
			}
		}
		blocks = blocks[len(now):]
	}
	return nil
}

// splitRows divides rows in blockOrder into blocks: a stream that has much gets blocks of its own, of about
// the same size, and streams that have little share one.
func splitRows(rows []row) (blocks [][]row) {
	start, size, target := 0, 0, blockBytes
	end := func(i int) {
		if i > start {
			blocks = append(blocks, rows[start:i])
		}
		start, size = i, 0
	}
	for i := 0; i < len(rows); {
		next, total := i, 0
		for next < len(rows) && rows[next].stream == rows[i].stream {
			total += rows[next].size
			next++
		}
		own := total >= ownBlocks
		if own {
			end(i)
			target = total/((total+blockBytes-1)/blockBytes) + 1
		} else {
			target = blockBytes
		}
		for ; i < next; i++ {
			if size > 0 && size+rows[i].size > target+blockBytes/8 || i-start >= blockRows {
				end(i)
			}
			size += rows[i].size
		}
		if own {
			end(i)
		}
	}
	end(len(rows))
	return blocks
}

// replaceParts puts a part, which may be nil, in the place of others, or of the events up to the Seq sealed,
// which have raw bytes of messages; and removes the files of the others.
func (s *Store) replaceParts(g *group, old []*part, p *part, sealed uint64, raw int64) error {
	forget := func(err error) error {
		if p != nil {
			p.markDropped()
		}
		return err
	}
	g.mu.Lock()
	if g.deleted {
		g.mu.Unlock()
		return forget(nil)
	}
	b := s.db.NewBatch()
	row := g.groupRow
	var err error
	if sealed > 0 {
		row.sealed = sealed
		row.unsealed -= raw
		err = errors.Join(err,
			b.DeleteRange(encodeKey(keyChunk, uint64(g.id)), encodeKey(keyChunk, uint64(g.id), sealed+1), nil),
			b.Set(encodeKey(keyGroup, uint64(g.id)), row.encode(), nil))
	}
	for _, o := range old {
		err = errors.Join(err, b.Delete(encodeKey(keyPart, uint64(g.id), o.id), nil))
	}
	parts := slices.DeleteFunc(slices.Clone(g.parts), func(q *part) bool { return slices.Contains(old, q) })
	if p != nil {
		err = errors.Join(err, b.Set(encodeKey(keyPart, uint64(g.id), p.id), p.encode(), nil))
		parts = append(parts, p)
		sortParts(parts)
	}
	var durable func() error
	if err == nil {
		durable, err = s.applyBatch(b)
	}
	if err != nil {
		g.mu.Unlock()
		return forget(err)
	}
	g.groupRow, g.parts = row, parts
	// What was deleted before it was sealed had its chunks in the catalog until now, whatever was compacted meanwhile.
	if g.removed += raw; p != nil && sealed > 0 {
		g.removed -= p.raw
	}
	g.notifyWaiters()
	g.mu.Unlock()
	if err := durable(); err != nil {
		return err // it may be on the disk or not: both are consistent, and Open sees which
	}
	at("part cataloged")
	for _, o := range old {
		o.markDropped()
	}
	return nil
}

// collectGarbage gives back the disk space of deleted events and keeps the number of files small: one step,
// and reports whether it did something.
func (w *worker) collectGarbage(g *group) (did bool, err error) {
	s := w.store
	g.mu.Lock()
	parts, live := g.parts, liveness{g.expired, g.dead}
	g.mu.Unlock()
	for _, p := range parts {
		dead := p.deadBytes(live)
		if dead < p.raw/2 || dead == 0 {
			continue
		}
		return true, w.rewrite(g, []*part{p}, live)
	}
	if run := s.mergeable(parts); run != nil {
		return true, w.rewrite(g, run, live)
	}
	return false, errors.Join(w.forgetDead(g), w.compactChunks(g))
}

// deadBytes returns about how many bytes of a part's messages belong to deleted events; it is exact when none or all
// are.
func (p *part) deadBytes(live liveness) (dead int64) {
	for i := range p.blocks {
		m := &p.blocks[i]
		for _, sp := range m.spans {
			all, none := live.certain(sp.stream, sp.min, sp.max, m.minSeq, m.maxSeq)
			switch {
			case none:
				dead += sp.raw
			case !all && sp.max > sp.min && sp.min < live.expired:
				dead += int64(float64(sp.raw) * float64(live.expired-sp.min) / float64(sp.max-sp.min+1))
			}
		}
	}
	return dead
}

// mergeable finds neighbors that are small enough to become one part, or nil. What they become is of the next class,
// lest a large one is copied with each few small ones that follow it.
func (s *Store) mergeable(parts []*part) []*part {
	// The number of seals that make as much as a part.
	seals := func(p *part) int64 { return max(1, p.raw/s.SealBytes, int64(p.rows/s.SealRows)) }
	for next := int64(mergeParts); next <= mergeLimit; next *= mergeParts {
		first, sum := 0, int64(0)
		for i, p := range parts {
			if seals(p) >= next {
				first, sum = i+1, 0
			} else if sum += seals(p); sum >= next {
				return parts[first : i+1]
			}
		}
	}
	return nil
}

// rewrite makes one part of several, without what is deleted. Blocks of which everything, or nearly
// everything, is there are copied as they are.
func (w *worker) rewrite(g *group, old []*part, live liveness) error {
	v := &View{group: g.id, live: live}
	defer v.Close()
	p, err := w.writePart(g, func(pw *partWriter) error {
		for _, o := range old {
			o.acquire()
			v.held = append(v.held, o)
			for i := range o.blocks {
				if err := w.rewriteBlock(pw, v, o, &o.blocks[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.store.replaceParts(g, old, p, 0, 0)
}

func (w *worker) rewriteBlock(pw *partWriter, v *View, p *part, m *blockMeta) error {
	one := &part{blocks: []blockMeta{*m}}
	switch dead := one.deadBytes(v.live); {
	case dead == m.raw && !m.overlaps(v.live, -1<<62, 1<<62):
		return nil
	case dead < m.raw/2:
		encoded, err := p.readRange(nil, m.offset, m.size)
		if err != nil {
			return err
		}
		return pw.addBlock(encoded, *m)
	}
	b := &Block{view: v, part: p, meta: m, rows: m.rows, raw: m.raw, minTime: m.minTime(), maxTime: m.maxTime()}
	r, err := b.Rows()
	if err != nil {
		return err
	}
	messages, err := b.Messages()
	if err != nil {
		return err
	}
	defer messages.Release()
	w.buffer, w.rows = w.buffer[:0], w.rows[:0]
	for i := range b.rows {
		if r.Live == nil || r.Live(i) {
			w.rows = append(w.rows, row{r.Stream[i], r.Timestamp[i], r.Ingested[i], r.Seq[i], len(w.buffer),
				int(r.Size[i])})
			w.buffer = append(w.buffer, messages.At(i)...)
		}
	}
	return w.writeRows(pw)
}

// forgetDead forgets deleted streams of which nothing is left.
func (w *worker) forgetDead(g *group) error {
	s := w.store
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.dead) == 0 || g.deleted {
		return nil
	}
	gone := maps.Clone(g.dead)
	for stream, seq := range g.dead {
		if g.sealed < seq {
			delete(gone, stream) // its events may be among those which are not sealed
		}
	}
	for _, p := range g.parts {
		for i := range p.blocks {
			for _, sp := range p.blocks[i].spans {
				if p.blocks[i].minSeq <= gone[sp.stream] {
					delete(gone, sp.stream)
				}
			}
		}
	}
	if len(gone) == 0 {
		return nil
	}
	b := s.db.NewBatch()
	dead := maps.Clone(g.dead)
	for stream := range gone {
		if err := b.Delete(encodeKey(keyDead, uint64(g.id), uint64(stream)), nil); err != nil {
			return err
		}
		delete(dead, stream)
	}
	if err := s.commitBatch(b); err != nil {
		return err
	}
	g.dead = dead
	return nil
}

// compactBytes of deleted messages are worth the work to make the catalog give back the space at
// once; it does so by itself some time later.
const compactBytes = 256 << 10

// compactChunks makes the catalog give back the disk space of a group's chunks, after deletions.
func (w *worker) compactChunks(g *group) error {
	g.mu.Lock()
	removed := g.removed
	if removed >= compactBytes {
		g.removed = 0
	}
	g.mu.Unlock()
	if removed < compactBytes {
		return nil
	}
	from, to := groupKeys(keyChunk, g.id)
	err := w.store.db.Compact(w.store.background, from, to, false)
	if errors.Is(err, context.Canceled) {
		return nil // the store is being closed
	}
	return err
}
