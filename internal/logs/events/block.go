package events

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// A block is stored as these sections, one behind the other:
//
//	messages   all messages, concatenated, as one zstd frame
//	filter     of their words
//	columns    one section each
//	rows       the small columns that every event has
//	directory  where the others are, and their checksums
//
// The directory's own place and checksum are in the blockMeta. Everything from the columns on is the
// block's tail, read at once by who wants columns.

// blockMeta is the metadata of a block, which is available without reading it. It is stored in the catalog and in
// memory.
type blockMeta struct {
	offset         int64 // in its file
	size           int64
	tail           int64 // bytes of columns, rows and directory
	directory      int64 // bytes
	checksum       uint32
	rows           int
	raw            int64 // bytes of messages
	minSeq, maxSeq uint64
	spans          []span // by stream
}

// span is the part of a block that belongs to one stream.
type span struct {
	stream   StreamID
	rows     int
	raw      int64
	min, max int64 // Timestamp
}

func (m *blockMeta) minTime() int64 {
	return slices.MinFunc(m.spans, func(a, b span) int { return cmp.Compare(a.min, b.min) }).min
}

func (m *blockMeta) maxTime() int64 {
	return slices.MaxFunc(m.spans, func(a, b span) int { return cmp.Compare(a.max, b.max) }).max
}

func (m *blockMeta) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(m.offset))
	b = binary.AppendUvarint(b, uint64(m.size))
	b = binary.AppendUvarint(b, uint64(m.tail))
	b = binary.AppendUvarint(b, uint64(m.directory))
	b = binary.LittleEndian.AppendUint32(b, m.checksum)
	b = binary.AppendUvarint(b, uint64(m.rows))
	b = binary.AppendUvarint(b, uint64(m.raw))
	b = binary.AppendUvarint(b, m.minSeq)
	b = binary.AppendUvarint(b, m.maxSeq)
	b = binary.AppendUvarint(b, uint64(len(m.spans)))
	for _, s := range m.spans {
		b = binary.AppendUvarint(b, uint64(s.stream))
		b = binary.AppendUvarint(b, uint64(s.rows))
		b = binary.AppendUvarint(b, uint64(s.raw))
		b = binary.AppendVarint(b, s.min)
		b = binary.AppendVarint(b, s.max)
	}
	return b
}

func readBlockMeta(c *cursor) (m blockMeta) {
	m.offset = int64(c.readCount(math.MaxInt64 / 4))
	m.size = int64(c.readCount(math.MaxInt32))
	m.tail = int64(c.readCount(int(m.size)))
	m.directory = int64(c.readCount(int(m.tail)))
	if b := c.readBytes(4); b != nil {
		m.checksum = binary.LittleEndian.Uint32(b)
	}
	m.rows = c.readCount(maxBlockRows)
	m.raw = int64(c.readCount(maxBlockBytes))
	m.minSeq, m.maxSeq = c.uvarint(), c.uvarint()
	m.spans = make([]span, min(c.readCount(maxBlockRows), len(c.b)))
	for i := range m.spans {
		m.spans[i] = span{
			stream: StreamID(c.uvarint()), rows: c.readCount(maxBlockRows), raw: int64(c.readCount(maxBlockBytes)),
			min: c.varint(), max: c.varint(),
		}
	}
	if c.err == nil && (m.rows == 0 || len(m.spans) == 0) {
		c.recordError(fmt.Errorf("it lists a block of nothing"))
	}
	return m
}

// row is an event on its way into a block; its message is in a buffer beside it.
type row struct {
	stream              StreamID
	timestamp, ingested int64
	seq                 uint64
	at, size            int // of the message in the buffer
}

// blockOrder returns the order of rows in a block: a stream's events lie together, and compress best so.
func blockOrder(a, b row) int {
	return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.timestamp, b.timestamp), cmp.Compare(a.seq, b.seq))
}

// section is the position of a part of a block.
type section struct {
	at, size int // from the beginning of the block
	raw      int // decompressed; 0 when it isn't compressed
	checksum uint32
}

// blockWriter encodes blocks, one at a time. It holds some MiB, worth keeping between blocks.
type blockWriter struct {
	zstd     *zstd.Encoder
	messages []byte
	scratch  []byte
	words    wordSet
	columns  *extractor

	out       []byte
	directory []byte
}

func newBlockWriter() *blockWriter {
	return &blockWriter{zstd: newEncoder(zstd.SpeedDefault), columns: newExtractor()}
}

// encodeBlock encodes rows, which are in blockOrder, and their messages in buffer. The bytes are valid until
// the next call.
func (w *blockWriter) encodeBlock(rows []row, buffer []byte) ([]byte, blockMeta) {
	w.words.reset()
	w.columns.reset()
	w.messages = w.messages[:0]
	meta := blockMeta{rows: len(rows), minSeq: math.MaxUint64}
	for _, r := range rows {
		w.messages = append(w.messages, buffer[r.at:r.at+r.size]...)
		message := w.messages[len(w.messages)-r.size:]
		w.words.addWords(message)
		w.columns.add(message)

		meta.minSeq, meta.maxSeq = min(meta.minSeq, r.seq), max(meta.maxSeq, r.seq)
		if n := len(meta.spans); n == 0 || meta.spans[n-1].stream != r.stream {
			meta.spans = append(meta.spans, span{stream: r.stream, min: r.timestamp})
		}
		s := &meta.spans[len(meta.spans)-1]
		s.rows++
		s.raw += int64(r.size)
		s.max = r.timestamp // they are sorted
	}
	meta.raw = int64(len(w.messages))

	w.out, w.directory = w.out[:0], w.directory[:0]
	w.section(w.messages)
	w.plainSection(w.words.buildFilter())

	tail := len(w.out)
	kept, opaque, all := w.columns.columns(len(w.messages))
	w.directory = binary.AppendUvarint(w.directory, uint64(len(kept)))
	for _, k := range kept {
		w.directory = appendText(w.directory, k.path)
		w.scratch = appendColumn(w.scratch[:0], &k.Column)
		w.section(w.scratch)
	}
	w.directory = binary.AppendUvarint(w.directory, boolToBit(all))
	w.directory = binary.AppendUvarint(w.directory, uint64(len(opaque)))
	for _, o := range opaque {
		w.directory = appendText(w.directory, o.path)
		w.directory = binary.AppendUvarint(w.directory, boolToBit(o.below))
	}
	w.scratch = appendRows(w.scratch[:0], rows)
	w.section(w.scratch)

	directory := len(w.out)
	w.out = binary.AppendUvarint(w.out, uint64(len(w.directory)))
	w.out = w.zstd.EncodeAll(w.directory, w.out)
	meta.size = int64(len(w.out))
	meta.tail = meta.size - int64(tail)
	meta.directory = meta.size - int64(directory)
	meta.checksum = checksum(w.out[directory:])
	return w.out, meta
}

func boolToBit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// section adds a section, compressed if that makes it smaller.
func (w *blockWriter) section(raw []byte) {
	at := len(w.out)
	if len(raw) > 32 {
		if w.out = w.zstd.EncodeAll(raw, w.out); len(w.out)-at < len(raw) {
			w.appendSection(at, len(raw))
			return
		}
		w.out = w.out[:at]
	}
	w.plainSection(raw)
}

func (w *blockWriter) plainSection(raw []byte) {
	at := len(w.out)
	w.out = append(w.out, raw...)
	w.appendSection(at, 0)
}

// appendSection writes a section's line in the directory. It begins where the one before it ends.
func (w *blockWriter) appendSection(at, raw int) {
	w.directory = binary.AppendUvarint(w.directory, uint64(len(w.out)-at))
	w.directory = binary.AppendUvarint(w.directory, uint64(raw))
	w.directory = binary.LittleEndian.AppendUint32(w.directory, checksum(w.out[at:]))
}

// directory is the decoded directory of a block.
type directory struct {
	messages, filter, rows section
	columns                []columnSection // by path
	opaque                 []opaquePath
	all                    bool // a path that is neither a column nor opaque is in no message
}

type columnSection struct {
	path string
	section
}

func readDirectory(b []byte) (*directory, error) {
	c := &cursor{b: b}
	size := c.readCount(maxSection)
	if c.err != nil {
		return nil, c.err
	}
	b, err := decompress(nil, c.b, size)
	if err != nil {
		return nil, err
	}
	c = &cursor{b: b}
	at := 0
	next := func() section {
		s := section{at: at, size: c.readCount(math.MaxInt32), raw: c.readCount(maxBlockBytes)}
		if b := c.readBytes(4); b != nil {
			s.checksum = binary.LittleEndian.Uint32(b)
		}
		at += s.size
		return s
	}
	d := &directory{messages: next(), filter: next()}
	d.columns = make([]columnSection, c.readCount(columnsPerBlock))
	for i := range d.columns {
		d.columns[i].path = c.readText()
		d.columns[i].section = next()
	}
	d.all = c.uvarint() == 1
	d.opaque = make([]opaquePath, c.readCount(columnPaths))
	for i := range d.opaque {
		d.opaque[i] = opaquePath{c.readText(), c.uvarint() == 1}
	}
	d.rows = next()
	return d, c.checkEnd()
}

// findColumn finds the section of a path. When there is none, absent says that no message has the path.
func (d *directory) findColumn(path string) (s section, found, absent bool) {
	i, found := slices.BinarySearchFunc(d.columns, path,
		func(c columnSection, path string) int { return strings.Compare(c.path, path) })
	if found {
		return d.columns[i].section, true, false
	}
	return section{}, false, d.all && isAbsent(path, d.opaque)
}

// decodeSection checks a section and decompresses it, into dst when it is large enough.
func (s section) decodeSection(dst, b []byte) ([]byte, error) {
	if checksum(b) != s.checksum {
		return nil, fmt.Errorf("its checksum is %08x where %08x was written", checksum(b), s.checksum)
	}
	if s.raw == 0 {
		return b, nil
	}
	return decompress(dst, b, s.raw)
}

func appendColumn(b []byte, col *Column) []byte {
	b = binary.AppendUvarint(b, uint64(len(col.Values)))
	for _, v := range col.Values {
		b = binary.AppendUvarint(b, uint64(len(v)))
	}
	for _, v := range col.Values {
		b = append(b, v...)
	}
	// A code is one byte where that is enough, then 255 is NoValue.
	if len(col.Values) < 0xff {
		for _, code := range col.Codes {
			b = append(b, byte(min(code, 0xff)))
		}
		return b
	}
	for _, code := range col.Codes {
		b = binary.LittleEndian.AppendUint16(b, code)
	}
	return b
}

func readColumn(b []byte, rows int) (*Column, error) {
	c := &cursor{b: b}
	n := c.readCount(min(columnValues, len(b)))
	sizes := make([]int, n)
	total := 0
	for i := range sizes {
		sizes[i] = c.readCount(columnValue)
		total += sizes[i]
	}
	text := string(c.readBytes(total))
	codes := c.readBytes(rows * (1 + int(boolToBit(n >= 0xff))))
	if err := c.checkEnd(); err != nil {
		return nil, err
	}
	col := &Column{Values: make([]string, n), Codes: make([]uint16, rows)}
	for i, size := range sizes {
		col.Values[i], text = text[:size], text[size:]
	}
	wrong := -1
	if n < 0xff {
		for i, code := range codes {
			if int(code) < n {
				col.Codes[i] = uint16(code)
			} else if col.Codes[i] = NoValue; code != 0xff {
				wrong = i
			}
		}
	} else {
		for i := range rows {
			code := binary.LittleEndian.Uint16(codes[2*i:])
			if col.Codes[i] = code; int(code) >= n && code != NoValue {
				wrong = i
			}
		}
	}
	if wrong >= 0 {
		return nil, fmt.Errorf("row %d has a code that no value has", wrong)
	}
	return col, nil
}

// appendRows writes the small columns, one after the other, as differences from the row before.
func appendRows(b []byte, rows []row) []byte {
	for _, r := range rows {
		b = binary.AppendUvarint(b, uint64(r.size))
	}
	for i := 0; i < len(rows); { // runs of a stream
		n := 1
		for i+n < len(rows) && rows[i+n].stream == rows[i].stream {
			n++
		}
		b = binary.AppendUvarint(b, uint64(rows[i].stream))
		b = binary.AppendUvarint(b, uint64(n))
		i += n
	}
	var last row
	for _, r := range rows {
		b = binary.AppendVarint(b, r.timestamp-last.timestamp)
		last = r
	}
	last = row{}
	for _, r := range rows {
		b = binary.AppendVarint(b, r.ingested-last.ingested)
		last = r
	}
	last = row{}
	for _, r := range rows {
		b = binary.AppendVarint(b, int64(r.seq-last.seq))
		last = r
	}
	return b
}

// readSizes reads the first of the small columns, the sizes of the messages.
func readSizes(c *cursor, n int) []int32 {
	if n > len(c.b) {
		c.recordError(errShort)
		return nil
	}
	sizes := make([]int32, n)
	for i := range sizes {
		sizes[i] = int32(c.readCount(maxBlockBytes))
	}
	return sizes
}

func readRows(b []byte, n int) (*Rows, error) {
	c := &cursor{b: b}
	r := &Rows{Size: readSizes(c, n)}
	if c.err != nil {
		return nil, c.err
	}
	r.Stream = make([]StreamID, n)
	for i := 0; i < n && c.err == nil; {
		stream, run := StreamID(c.uvarint()), c.readCount(n-i)
		if run == 0 {
			c.recordError(errShort)
		}
		for range run {
			r.Stream[i] = stream
			i++
		}
	}
	r.Timestamp, r.Ingested, r.Seq = make([]int64, n), make([]int64, n), make([]uint64, n)
	last := int64(0)
	for i := range r.Timestamp {
		last += c.varint()
		r.Timestamp[i] = last
	}
	last = 0
	for i := range r.Ingested {
		last += c.varint()
		r.Ingested[i] = last
	}
	seq := uint64(0)
	for i := range r.Seq {
		seq += uint64(c.varint())
		r.Seq[i] = seq
	}
	return r, c.checkEnd()
}
