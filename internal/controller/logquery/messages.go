package logquery

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/klauspost/compress/zstd"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
	"github.com/coracle-eks/coracle/internal/recovery"
)

// Messages may be long (an audit event of a pod is 8 to 20 KB), and few queries filter by them. So rows hold references
// instead; once the rows of a result are known, their messages are read block by block and appended to the file of
// results.

// reference refers to an event in a query's snapshots: to its block, by the index in resultSet.blocks, and its row
// there.
type reference int64

const rowBits = 20 // of a reference; blocks have some thousand rows

func (s *scan) reference(row int) value.Value {
	return value.Int(int64(s.number)<<rowBits | int64(row))
}

func referenceOf(v value.Value) reference {
	n, _ := v.AsInt()
	return reference(n)
}

func (r reference) blockIndex() int { return int(r >> rowBits) }
func (r reference) rowIndex() int   { return int(r & (1<<rowBits - 1)) }

// resultSet is a result with the blocks that have its messages.
type resultSet struct {
	*insights.Result
	blocks []*events.Block
}

// location locates a message in a file of results: by its chunk, and its offset and size in the chunk.
type location struct{ chunk, at, size int }

// chunk is the length of a run of messages, compressed in the file and as it is.
type chunk struct{ size, raw int }

// chunkBytes is the size of a chunk of messages, unless one message is longer. Reading one page of rows decompresses
// the chunks of its messages.
const chunkBytes = 256 << 10

// messages are those that the rows of a result refer to, in a results' file.
type messages struct {
	references []reference // sorted
	locations  []location  // of each

	mu     sync.Mutex // while they are written
	file   *os.File
	chunks []chunk
}

func (m *messages) locationOf(r reference) location {
	i, _ := slices.BinarySearch(m.references, r)
	return m.locations[i]
}

// writeMessages appends the messages of a result to a file. It reads each block once, and holds one for each
// processor.
func (f *resultSet) writeMessages(ctx context.Context, file *os.File) (*messages, error) {
	m := &messages{file: file}
	if len(f.References) > 0 {
		for _, row := range f.Rows {
			m.references = append(m.references, referenceOf(row[f.References[0]])) // the others are the same
		}
	}
	slices.Sort(m.references)
	m.references = slices.Compact(m.references)
	m.locations = make([]location, len(m.references))

	var starts []int // of the references to a block
	for i, r := range m.references {
		if i == 0 || r.blockIndex() != m.references[i-1].blockIndex() {
			starts = append(starts, i)
		}
	}
	workers := min(runtime.GOMAXPROCS(0), len(starts))
	if workers == 0 {
		return m, nil
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers),
		zstd.WithWindowSize(chunkBytes))
	if err != nil {
		return nil, err
	}
	defer encoder.Close() //nolint:errcheck // it writes nowhere
	var next atomic.Int64
	group := recovery.Group(ctx)
	for range workers {
		group.Go(func(ctx context.Context) error {
			c := &chunkWriter{messages: m, encoder: encoder}
			for {
				i := int(next.Add(1)) - 1
				if i >= len(starts) {
					return c.flushChunk()
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				end := len(m.references)
				if i+1 < len(starts) {
					end = starts[i+1]
				}
				if err := c.writeBlock(f.blocks[m.references[starts[i]].blockIndex()], starts[i], end); err != nil {
					return err
				}
			}
		})
	}
	return m, group.Wait()
}

// chunkWriter makes chunks in one goroutine.
type chunkWriter struct {
	*messages
	encoder         *zstd.Encoder
	raw, compressed []byte
	pending         []int // the messages in raw: indexes of locations
}

// writeBlock writes the messages that the references from start to end are to, all of one block.
func (c *chunkWriter) writeBlock(b *events.Block, start, end int) error {
	texts, err := b.Messages()
	if err != nil {
		return err
	}
	defer texts.Release()
	for i := start; i < end; i++ {
		text := texts.At(c.references[i].rowIndex())
		if len(c.raw) > 0 && len(c.raw)+len(text) > chunkBytes {
			if err := c.flushChunk(); err != nil {
				return err
			}
		}
		c.locations[i] = location{at: len(c.raw), size: len(text)}
		c.pending = append(c.pending, i)
		c.raw = append(c.raw, text...)
	}
	return nil
}

// flushChunk writes the chunk at hand.
func (c *chunkWriter) flushChunk() error {
	if len(c.pending) == 0 {
		return nil
	}
	c.compressed = c.encoder.EncodeAll(c.raw, c.compressed[:0])
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.pending {
		c.locations[i].chunk = len(c.chunks)
	}
	c.chunks = append(c.chunks, chunk{len(c.compressed), len(c.raw)})
	_, err := c.file.Write(c.compressed)
	c.raw, c.pending = c.raw[:0], c.pending[:0]
	return err
}

const (
	partialBytes  = 4 << 20 // of the rows that a running query shows
	partialBlocks = 32      // that it decompresses for them
)

// firstRows returns the first rows of a result as GetQueryResults shows them: all, unless they are long or their
// messages far apart. It serves a query that still runs, whose results are requested again and again.
func (f *resultSet) firstRows() ([][]logstypes.ResultField, error) {
	type opened struct {
		block int
		texts *events.Messages
	}
	var last [4]opened // rows in the order of time are of few blocks at a time
	defer func() {
		for _, o := range last {
			if o.texts != nil {
				o.texts.Release()
			}
		}
	}()
	reads, bytes := 0, 0
	message := func(r reference) (value.Value, bool, error) {
		at := slices.IndexFunc(last[:], func(o opened) bool { return o.texts != nil && o.block == r.blockIndex() })
		if at < 0 {
			if reads == partialBlocks {
				return value.Value{}, false, nil
			}
			texts, err := f.blocks[r.blockIndex()].Messages()
			if err != nil {
				return value.Value{}, false, fmt.Errorf("read the messages of the rows so far: %w", err)
			}
			at = reads % len(last)
			if last[at].texts != nil {
				last[at].texts.Release()
			}
			last[at] = opened{r.blockIndex(), texts}
			reads++
		}
		return value.String(string(last[at].texts.At(r.rowIndex()))), true, nil
	}
	var rows [][]logstypes.ResultField
	for _, row := range f.Rows {
		row = slices.Clone(row)
		for i, c := range f.References {
			if i > 0 {
				row[c] = row[f.References[0]]
				continue
			}
			text, ok, err := message(referenceOf(row[c]))
			if err != nil || !ok {
				return rows, err
			}
			row[c] = text
		}
		for _, v := range row {
			bytes += v.Bytes()
		}
		if bytes > partialBytes && len(rows) > 0 {
			break
		}
		rows = append(rows, resultFields(f.Columns, row))
	}
	return rows, nil
}

// resultFields returns a row as GetQueryResults shows it.
func resultFields(columns []string, row []value.Value) []logstypes.ResultField {
	fields := make([]logstypes.ResultField, 0, len(row))
	for c, v := range row {
		if !v.IsNull() {
			text := v.String()
			fields = append(fields, logstypes.ResultField{Field: &columns[c], Value: &text})
		}
	}
	return fields
}
