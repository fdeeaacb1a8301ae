package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/coracle-eks/coracle/internal/durable"
)

// A part is an immutable file of blocks. Its name is in the catalog before anybody reads it, and out
// of it before the file is removed; files that the catalog doesn't know are removed by Open.
type part struct {
	store *Store
	group GroupID
	id    uint64
	raw   int64 // bytes of messages
	rows  int
	// The Seq of its events are from minSeq to maxSeq; no other part of the group has one between them.
	minSeq, maxSeq uint64
	blocks         []blockMeta

	mu      sync.Mutex
	views   int  // that may read it
	dropped bool // from the catalog: the last view removes the file
}

const partSuffix = ".part"

func partName(g GroupID, id uint64) string {
	return fmt.Sprintf("%016x-%016x%s", uint64(g), id, partSuffix)
}

func newPart(s *Store, g GroupID, id uint64, blocks []blockMeta) *part {
	p := &part{store: s, group: g, id: id, blocks: blocks, minSeq: math.MaxUint64}
	for i := range blocks {
		p.raw += blocks[i].raw
		p.rows += blocks[i].rows
		p.minSeq, p.maxSeq = min(p.minSeq, blocks[i].minSeq), max(p.maxSeq, blocks[i].maxSeq)
	}
	return p
}

func (p *part) filePath() string { return filepath.Join(p.store.parts, partName(p.group, p.id)) }

func (p *part) size() (n int64) {
	for i := range p.blocks {
		n += p.blocks[i].size
	}
	return n
}

func (p *part) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(len(p.blocks)))
	for i := range p.blocks {
		b = p.blocks[i].appendTo(b)
	}
	return b
}

func readPart(s *Store, g GroupID, id uint64, value []byte) (*part, error) {
	c := &cursor{b: value}
	blocks := make([]blockMeta, c.readCount(len(value)/16))
	for i := range blocks {
		if blocks[i] = readBlockMeta(c); c.err != nil {
			break
		}
	}
	if err := c.checkEnd(); err != nil {
		return nil, err
	}
	return newPart(s, g, id, blocks), nil
}

// acquire prevents the removal of the file until release.
func (p *part) acquire() {
	p.mu.Lock()
	p.views++
	p.mu.Unlock()
}

func (p *part) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.views--
	if p.views == 0 && p.dropped {
		p.removeFile()
	}
}

// markDropped removes the file, when its last reader is done. The catalog has forgotten it, durably.
func (p *part) markDropped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = true
	if p.views == 0 {
		p.removeFile()
	}
}

func (p *part) removeFile() {
	p.store.files.RLock()
	defer p.store.files.RUnlock()
	if err := os.Remove(p.filePath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		p.store.log.Error("cannot remove a file of log events that is no longer needed; the next start tries again",
			"error", err)
	}
}

// readRange reads a piece of the file, for who has acquired the part. The file is open no longer than that: a query
// may have the parts of many groups.
func (p *part) readRange(dst []byte, offset, size int64) ([]byte, error) {
	f, err := os.Open(p.filePath())
	if err != nil {
		return nil, fmt.Errorf("read log events: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if int64(cap(dst)) < size {
		dst = make([]byte, size)
	}
	dst = dst[:size]
	if _, err := f.ReadAt(dst, offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = errShort
		}
		return nil, p.damaged(offset, err)
	}
	return dst, nil
}

// damaged returns the error of a file that isn't what was written.
func (p *part) damaged(offset int64, err error) error {
	return fmt.Errorf("%w: file %s, block at byte %d: %w", ErrDamaged, p.filePath(), offset, err)
}

// partWriter writes the file of a new part.
type partWriter struct {
	path   string
	file   *os.File
	offset int64
	blocks []blockMeta
}

func newPartWriter(path string) (*partWriter, error) {
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	return &partWriter{path: path, file: f}, err
}

func (w *partWriter) addBlock(encoded []byte, meta blockMeta) error {
	meta.offset = w.offset
	w.offset += meta.size
	w.blocks = append(w.blocks, meta)
	_, err := w.file.Write(encoded)
	return err
}

// finishFile makes the file durable under its name.
func (w *partWriter) finishFile() error {
	err := w.file.Sync()
	err = errors.Join(err, w.file.Close())
	if err == nil {
		at("part written")
		err = os.Rename(w.path+".tmp", w.path)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(w.path))
	}
	if err != nil {
		err = errors.Join(err, w.removeFiles())
	}
	return err
}

// abandon removes what was written.
func (w *partWriter) abandon() error {
	return errors.Join(w.file.Close(), w.removeFiles())
}

func (w *partWriter) removeFiles() error {
	var errs []error
	for _, path := range []string{w.path, w.path + ".tmp"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// at is called at the instructions where a crash is worth a test.
var at = func(point string) {}
