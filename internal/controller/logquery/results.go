package logquery

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/klauspost/compress/zstd"

	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/durable"
)

// A results' file is
//
//	a line that names the format
//	the messages that its rows show, in chunks, each a zstd frame with its checksum
//	the table, one zstd frame with its checksum:
//		the number of chunks and, for each, its length in the file and decompressed
//		the number of columns, and for each its name and 1 if it shows messages, otherwise 0
//		row by row, a cell for each column
//	the end, of fixed length: where the table begins and the number of rows (8 bytes each, little endian), and the
//		CRC-32C of these
//
// Numbers are varints; a text is its length and its bytes. A cell is 0 when the row lacks the field, otherwise 1 more
// than the length of its text, and the text; that of a message is its chunk, and its offset and length in the chunk
// when that is decompressed.
const (
	resultsFormat = "coracle logs results 2\n"
	resultsEnd    = 8 + 8 + 4
)

// errResults is wrapped by the errors about a file that writeResults did not write: the query must run again.
var errResults = errors.New("the file is not one of results, is of an earlier version of Coracle, or is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeResults makes the file of what a query has found, durably and at once.
func writeResults(ctx context.Context, path string, f *resultSet) (err error) {
	if err := diskspace.CheckReserve(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := durable.Create(path, 0o600)
	if err != nil {
		return err
	}
	defer file.Cleanup() //nolint:errcheck // the next start of the daemon tries again
	if _, err := file.WriteString(resultsFormat); err != nil {
		return err
	}
	m, err := f.writeMessages(ctx, file.File)
	if err != nil {
		return err
	}
	at, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if err := f.writeTable(file.File, m); err != nil {
		return err
	}
	end := binary.LittleEndian.AppendUint64(nil, uint64(at))
	end = binary.LittleEndian.AppendUint64(end, uint64(len(f.Rows)))
	end = binary.LittleEndian.AppendUint32(end, crc32.Checksum(end, castagnoli))
	if _, err := file.Write(end); err != nil {
		return err
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

func (f *resultSet) writeTable(to io.Writer, m *messages) error {
	encoder, err := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	var buf []byte
	number := func(n int) { buf = binary.AppendUvarint(buf, uint64(n)) }
	number(len(m.chunks))
	for _, c := range m.chunks {
		number(c.size)
		number(c.raw)
	}
	shown := make([]bool, len(f.Columns))
	for _, c := range f.References {
		shown[c] = true
	}
	number(len(f.Columns))
	for i, c := range f.Columns {
		number(len(c))
		buf = append(buf, c...)
		if shown[i] {
			number(1)
		} else {
			number(0)
		}
	}
	w := bufio.NewWriter(encoder)
	for _, row := range f.Rows {
		for i, v := range row {
			switch {
			case shown[i]:
				p := m.locationOf(referenceOf(v))
				number(p.chunk)
				number(p.at)
				number(p.size)
			case v.IsNull():
				number(0)
			default:
				text := v.String()
				number(len(text) + 1)
				buf = append(buf, text...)
			}
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		buf = buf[:0]
	}
	if _, err := w.Write(buf); err != nil {
		return err
	}
	return errors.Join(w.Flush(), encoder.Close())
}

// results is an open file of results.
type results struct {
	file     *os.File
	at, size int64 // of the table
	rows     int

	chunks   []chunk // once the table was read
	chunksAt []int64
}

// openResults opens what writeResults wrote. Its error wraps fs.ErrNotExist or errResults when there is no such file.
func openResults(path string) (*results, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &results{file: file}
	if err := r.readEnd(); err != nil {
		file.Close()
		return nil, err
	}
	return r, nil
}

func (r *results) close() { r.file.Close() }

func (r *results) readEnd() error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	length := info.Size() - resultsEnd
	if length < int64(len(resultsFormat)) {
		return errResults
	}
	format, end := make([]byte, len(resultsFormat)), make([]byte, resultsEnd)
	if _, err := r.file.ReadAt(format, 0); err != nil {
		return err
	}
	if _, err := r.file.ReadAt(end, length); err != nil {
		return err
	}
	at, rows, sum := binary.LittleEndian.Uint64(end), binary.LittleEndian.Uint64(end[8:]),
		binary.LittleEndian.Uint32(end[16:])
	if string(format) != resultsFormat || crc32.Checksum(end[:16], castagnoli) != sum || at > uint64(length) ||
		rows > math.MaxInt32 {
		return errResults
	}
	r.at, r.size, r.rows = int64(at), length-int64(at), int(rows)
	return nil
}

// damaged makes errResults of what goes wrong with what was read, but not of errors of reading it.
func damaged(err error) error {
	var path *os.PathError
	if err == nil || errors.As(err, &path) || errors.Is(err, errResults) {
		return err
	}
	return fmt.Errorf("%w: %w", errResults, err)
}

// cell is a message that a row of a page shows.
type cell struct {
	location
	text *string
}

// What a row and each of its cells take in memory beside the text, in bytes.
const (
	rowBytes  = int(unsafe.Sizeof([]logstypes.ResultField{}))
	cellBytes = int(unsafe.Sizeof(logstypes.ResultField{}) + unsafe.Sizeof("") + unsafe.Sizeof(cell{}))
)

// bytesOf returns what rows take in memory.
func bytesOf(rows [][]logstypes.ResultField) int64 {
	n := 0
	for _, row := range rows {
		n += rowBytes + len(row)*cellBytes
		for _, f := range row {
			n += len(*f.Value)
		}
	}
	return int64(n)
}

// readRows gives the rows from <= i < to, up to the one that brings them to most bytes, as GetQueryResults shows them,
// and holds no others. hold is called with the number of bytes that they take, before they are read.
func (r *results) readRows(from, to, most int, hold func(bytes int64) error) ([][]logstypes.ResultField, error) {
	t, err := r.readTable(from, to, most, false)
	if err == nil {
		err = hold(int64(t.bytes))
	}
	if err == nil {
		t, err = r.readTable(from, from+t.count, math.MaxInt, true)
	}
	if err == nil {
		err = damaged(r.readMessages(t.cells))
	}
	return t.rows, err
}

// table holds the rows of a table that were read.
type table struct {
	count, bytes int // how many they are, and what they take in memory
	rows         [][]logstypes.ResultField
	cells        []cell
}

// readTable reads the whole table, and gives the rows from <= i < to, up to the one that brings them to most bytes. It
// only counts them unless they are to be kept.
func (r *results) readTable(from, to, most int, keep bool) (table, error) {
	decoder, err := zstd.NewReader(io.NewSectionReader(r.file, r.at, r.size), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return table{}, err
	}
	defer decoder.Close()
	t, err := r.decodeTable(bufio.NewReader(decoder), from, to, most, keep)
	return t, damaged(err)
}

func (r *results) decodeTable(in *bufio.Reader, from, to, most int, keep bool) (t table, err error) {
	// After an error of number or text the others do nothing.
	number := func() int {
		if err != nil {
			return 0
		}
		var n uint64
		if n, err = binary.ReadUvarint(in); err == nil && n > math.MaxInt32 {
			n, err = 0, errResults
		}
		return int(n)
	}
	text := func(n int) *string {
		if err != nil {
			return nil
		}
		b := make([]byte, n)
		_, err = io.ReadFull(in, b)
		s := unsafe.String(unsafe.SliceData(b), n) // nobody else has b
		return &s
	}
	at := int64(len(resultsFormat))
	r.chunks, r.chunksAt = nil, nil
	for n := number(); len(r.chunks) < n && err == nil; {
		c := chunk{number(), number()}
		r.chunks, r.chunksAt = append(r.chunks, c), append(r.chunksAt, at)
		at += int64(c.size)
	}
	if err == nil && at != r.at {
		return t, errResults
	}
	var columns []*string
	var shown []bool
	for n := number(); len(columns) < n && err == nil; {
		columns, shown = append(columns, text(number())), append(shown, number() == 1)
	}
	for i := 0; i < r.rows && err == nil; i++ {
		wanted := from <= i && i < to && t.bytes < most
		kept := wanted && keep
		bytes := rowBytes
		var row []logstypes.ResultField
		if kept {
			row = make([]logstypes.ResultField, 0, len(columns))
		}
		for c := range columns {
			if shown[c] {
				p := location{number(), number(), number()}
				bytes += cellBytes + p.size
				if kept {
					value := new(string)
					row = append(row, logstypes.ResultField{Field: columns[c], Value: value})
					t.cells = append(t.cells, cell{p, value})
				}
				continue
			}
			n := number()
			if n == 0 || err != nil {
				continue
			}
			bytes += cellBytes + n - 1
			if kept {
				row = append(row, logstypes.ResultField{Field: columns[c], Value: text(n - 1)})
			} else {
				_, err = in.Discard(n - 1)
			}
		}
		if wanted {
			t.count, t.bytes = t.count+1, t.bytes+bytes
		}
		if kept {
			t.rows = append(t.rows, row)
		}
	}
	if err != nil {
		return table{}, err
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) { // reads the checksum, too
		return table{}, errors.Join(errResults, err)
	}
	return t, nil
}

// readMessages reads the texts of cells, chunk by chunk.
func (r *results) readMessages(cells []cell) error {
	if len(cells) == 0 {
		return nil
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer decoder.Close()
	slices.SortFunc(cells, func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.chunk, b.chunk), cmp.Compare(a.at, b.at), cmp.Compare(a.size, b.size))
	})
	var compressed, raw []byte
	for i, c := range cells {
		if i > 0 && c.location == cells[i-1].location {
			*c.text = *cells[i-1].text
			continue
		}
		if c.chunk >= len(r.chunks) {
			return errResults
		}
		if at := r.chunks[c.chunk]; i == 0 || c.chunk != cells[i-1].chunk {
			compressed = slices.Grow(compressed[:0], at.size)[:at.size]
			if _, err := r.file.ReadAt(compressed, r.chunksAt[c.chunk]); err != nil {
				return err
			}
			if raw, err = decoder.DecodeAll(compressed, slices.Grow(raw[:0], at.raw)); err != nil {
				return err
			}
			if len(raw) != at.raw {
				return errResults
			}
		}
		if c.at+c.size > len(raw) {
			return errResults
		}
		*c.text = string(raw[c.at : c.at+c.size])
	}
	return nil
}
