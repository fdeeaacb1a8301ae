//go:build linux

package logrouter

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	tagPrefix   = "kube.var.log.containers."
	blockSize   = 64 << 10
	rotateWait  = 30 * time.Second // for which a file that was renamed or removed may still be written to
	maxSources  = 256
	maxRounds   = 16 // blocks of one file before the next file has its turn
	memoryLimit = 45 * 1000 * 1000
)

// tailer reads log files. One goroutine calls poll; others release chunks.
type tailer struct {
	dir, positionsFile string
	saved              map[fileID]position
	sources            []*source
	now                func() time.Time
	log                *processLog
	budget             *budget
	// emit takes a record whose log is a line. It adds to the chunk what has to be delivered of it.
	emit func(tag, line string, at time.Time, c *chunk)

	mu    sync.Mutex // guards the committed positions and chunks of sources
	dirty bool
}

// source is a file that is read: what a link leads to, or led to before a rotation.
type source struct {
	id      fileID
	path    string
	tag     string
	file    *os.File
	buffer  []byte // what has been read and not been taken as lines; it begins at offset
	offset  int64
	skip    bool  // the rest of a line that is too long
	skipped int64 // where that line begins
	joiner  joiner
	gone    time.Time // when no link led there any more; zero while one does

	chunks    []*chunk
	committed int64
}

// chunk is a part of a file whose records are delivered. It ends at a position in the file.
type chunk struct {
	source  *source
	end     int64
	pending int
	sealed  bool
}

// budget counts the bytes that are in flight.
type budget struct {
	mu    sync.Mutex
	used  int64
	limit int64
}

func (b *budget) add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
}

func (b *budget) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used >= b.limit
}

// open loads the positions and goes on with files that were renamed while nobody read them.
func (t *tailer) open() {
	saved, err := loadPositions(t.positionsFile)
	if err != nil {
		t.log.warn("input:tail:tail.0", "cannot read the positions in log files, which are read again: %v", err)
	}
	t.saved = saved
	t.scan()
	for id, p := range t.saved {
		if t.source(id) == nil {
			if name := rotated(p); name != "" {
				t.add(name, p.Path, id)
			}
		}
	}
	t.saved = nil
}

func (t *tailer) source(id fileID) *source {
	for _, s := range t.sources {
		if s.id == id {
			return s
		}
	}
	return nil
}

// scan finds new files, and those that have been renamed or removed.
func (t *tailer) scan() {
	links, err := filepath.Glob(filepath.Join(t.dir, "*.log"))
	if err != nil {
		return
	}
	seen := map[fileID]bool{}
	for _, link := range links {
		info, err := os.Stat(link)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		id := idOf(info)
		seen[id] = true
		if t.source(id) == nil {
			t.add(link, link, id)
		}
	}
	for _, s := range t.sources {
		switch {
		case seen[s.id]:
			s.gone = time.Time{}
		case s.gone.IsZero():
			s.gone = t.now()
		}
	}
}

// add opens a file, which link led to.
func (t *tailer) add(name, link string, id fileID) {
	if len(t.sources) >= maxSources {
		return
	}
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || idOf(info) != id {
		_ = file.Close()
		return
	}
	s := &source{id: id, path: link, tag: tagPrefix + filepath.Base(link), file: file}
	if p, ok := t.saved[id]; ok && p.Path == link && p.Offset <= info.Size() && endsLine(file, p.Offset) {
		s.offset, s.committed = p.Offset, p.Offset
	}
	t.log.info("input:tail:tail.0", "inotify_fs_add(): inode=%d name=%s", id.Inode, link)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources = append(t.sources, s)
}

// endsLine reports whether a line of a file ends at an offset. If none does, it is another file with the same number.
func endsLine(f *os.File, offset int64) bool {
	if offset == 0 {
		return true
	}
	b := make([]byte, 1)
	_, err := f.ReadAt(b, offset-1)
	return err == nil && b[0] == '\n'
}

// poll reads what is new, until nothing is or too many bytes are in flight. It reports whether it has read all.
func (t *tailer) poll() (all bool) {
	t.scan()
	all = true
	for _, s := range slices.Clone(t.sources) {
		done := t.read(s)
		all = all && done
		if done && !s.gone.IsZero() && t.now().Sub(s.gone) >= rotateWait {
			t.retire(s)
		}
	}
	return all
}

// retire closes a file that has been read to its end and is not written to any more.
func (t *tailer) retire(s *source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(s.chunks) > 0 {
		return // its position has to be kept until all is delivered
	}
	_ = s.file.Close()
	t.sources = slices.DeleteFunc(t.sources, func(other *source) bool { return other == s })
	t.dirty = true
}

// read takes the lines of a file, and reports whether it has taken all.
func (t *tailer) read(s *source) bool {
	if info, err := s.file.Stat(); err == nil && info.Size() < s.offset {
		t.log.warn("input:tail:tail.0", "%s was truncated: it is read again from its beginning", s.path)
		s.offset, s.buffer, s.skip, s.joiner = 0, nil, false, joiner{}
		t.mu.Lock()
		s.committed, s.chunks = 0, nil
		t.mu.Unlock()
	}
	for range maxRounds {
		if !t.takeLines(s) {
			return false
		}
		if t.budget.full() {
			return false
		}
		n, err := t.fill(s)
		if n == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				t.log.warn("input:tail:tail.0", "cannot read %s: %v", s.path, err)
			}
			return true
		}
	}
	return false
}

// fill reads a block behind the buffer.
func (t *tailer) fill(s *source) (int, error) {
	held := len(s.buffer)
	s.buffer = slices.Grow(s.buffer, blockSize)
	n, err := s.file.ReadAt(s.buffer[held:held+blockSize], s.offset+int64(held))
	s.buffer = s.buffer[:held+n]
	return n, err
}

// takeLines takes the complete lines of the buffer, and reports false when it has stopped because too many bytes are in
// flight.
func (t *tailer) takeLines(s *source) bool {
	c := &chunk{source: s}
	t.mu.Lock()
	s.chunks = append(s.chunks, c)
	t.mu.Unlock()
	taken := 0
	finished := true
	for {
		i := bytes.IndexByte(s.buffer[taken:], '\n')
		if i < 0 {
			if len(s.buffer)-taken > maxLine {
				// The line is dropped as it comes: its parts are not kept.
				if !s.skip {
					s.skipped = s.offset
					t.log.warn("input:tail:tail.0", "file=%s have long lines. Skipping long lines.", s.path)
				}
				s.skip = true
				s.offset += int64(len(s.buffer) - taken)
				s.buffer = s.buffer[:taken]
			}
			break
		}
		if t.budget.full() {
			finished = false
			break
		}
		line := bytes.TrimSuffix(s.buffer[taken:taken+i], []byte("\r"))
		at := s.offset
		s.offset += int64(i + 1)
		taken += i + 1
		if s.skip || len(line) > maxLine {
			s.skip = false
			continue
		}
		if len(line) == 0 {
			continue
		}
		if complete, when, ok := s.joiner.add(string(line), at, t.now()); ok {
			t.emit(s.tag, complete, when, c)
		}
	}
	s.buffer = append(s.buffer[:0], s.buffer[taken:]...)
	if cap(s.buffer) > 4*blockSize && len(s.buffer) < blockSize {
		s.buffer = slices.Clone(s.buffer)
	}
	t.closeChunk(c)
	return finished
}

// addPending adds an event to those of a chunk that are not delivered.
func (t *tailer) addPending(c *chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.pending++
}

// closeChunk ends a chunk where its file has been read to.
func (t *tailer) closeChunk(c *chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := c.source.offset
	if c.source.skip {
		end = c.source.skipped // reading goes on only where a line begins
	}
	c.end, c.sealed = c.source.joiner.start(end), true
	t.advance(c.source)
}

// removePending marks one event of a chunk as delivered.
func (t *tailer) removePending(c *chunk) {
	if c == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c.pending--
	t.advance(c.source)
}

// advance commits the positions up to which all chunks have been delivered.
func (t *tailer) advance(s *source) {
	for len(s.chunks) > 0 && s.chunks[0].sealed && s.chunks[0].pending == 0 {
		if end := s.chunks[0].end; end > s.committed {
			s.committed, t.dirty = end, true
		}
		s.chunks = s.chunks[1:]
	}
}

// save writes the positions if there are new ones.
func (t *tailer) save() {
	t.mu.Lock()
	if !t.dirty {
		t.mu.Unlock()
		return
	}
	list := make([]position, 0, len(t.sources))
	for _, s := range t.sources {
		list = append(list, position{Device: s.id.Device, Inode: s.id.Inode, Path: s.path, Offset: s.committed})
	}
	t.dirty = false
	t.mu.Unlock()
	if err := savePositions(t.positionsFile, list); err != nil {
		t.log.error("input:tail:tail.0", "cannot write the positions in log files: %v", err)
		t.mu.Lock()
		t.dirty = true
		t.mu.Unlock()
	}
}

func (t *tailer) close() {
	for _, s := range t.sources {
		_ = s.file.Close()
	}
}
