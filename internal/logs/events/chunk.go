package events

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
)

// A chunk is the events of one Append, or of a part of a large one, as they lie in the catalog until
// they are sealed: its key has the Seq of the first, the others follow without a gap.
//
//	version, rows, bytes of messages, earliest and latest Timestamp, streams,
//	then per row: Timestamp, Ingested (as differences), stream, size;
//	then all messages, concatenated, in S2

const (
	chunkVersion = 1
	chunkBytes   = 2 << 20 // of messages, from which the next chunk begins
	chunkRows    = 8192
)

// encodeChunk takes events from the front of a batch, says how many, and encodes them, in dst if that
// is large enough.
func encodeChunk(dst []byte, all []Event) (value []byte, n int) {
	raw := 0
	minTime, maxTime := int64(math.MaxInt64), int64(math.MinInt64)
	streams := map[StreamID]uint64{}
	var order []StreamID
	for n < len(all) && n < chunkRows && (n == 0 || raw+len(all[n].Message) <= chunkBytes) {
		e := &all[n]
		raw += len(e.Message)
		minTime, maxTime = min(minTime, e.Timestamp), max(maxTime, e.Timestamp)
		if _, known := streams[e.Stream]; !known {
			streams[e.Stream] = uint64(len(order))
			order = append(order, e.Stream)
		}
		n++
	}
	b := append(slices.Grow(dst[:0], 64+10*len(order)+40*n+s2.MaxEncodedLen(raw)), chunkVersion)
	b = binary.AppendUvarint(b, uint64(n))
	b = binary.AppendUvarint(b, uint64(raw))
	b = binary.AppendVarint(b, minTime)
	b = binary.AppendVarint(b, maxTime)
	b = binary.AppendUvarint(b, uint64(len(order)))
	for _, s := range order {
		b = binary.AppendUvarint(b, uint64(s))
	}
	scratch := chunkBuffers.Get().(*[]byte)
	defer chunkBuffers.Put(scratch)
	messages := (*scratch)[:0]
	timestamp, ingested := minTime, minTime
	for i := range all[:n] {
		e := &all[i]
		b = binary.AppendVarint(b, e.Timestamp-timestamp)
		b = binary.AppendVarint(b, e.Ingested-ingested)
		b = binary.AppendUvarint(b, streams[e.Stream])
		b = binary.AppendUvarint(b, uint64(len(e.Message)))
		timestamp, ingested = e.Timestamp, e.Ingested
		messages = append(messages, e.Message...)
	}
	at := len(b)
	b = b[:at+len(s2.Encode(b[at:cap(b)], messages))]
	*scratch = messages
	return b, n
}

var chunkBuffers = sync.Pool{New: newBuffer}

// chunk is a decoded chunk, its messages still compressed.
type chunk struct {
	first            uint64 // Seq
	rows             int
	raw              int64
	minTime, maxTime int64
	streams          []StreamID
	rest             []byte // the rows and the messages
}

// readChunk reads the head of a chunk; it refers to value.
func readChunk(first uint64, value []byte) (chunk, error) {
	c := &cursor{b: value}
	if version := c.readCount(chunkVersion); version != chunkVersion {
		c.recordError(errShort)
	}
	k := chunk{first: first, rows: c.readCount(chunkRows), raw: int64(c.readCount(maxBlockBytes)), minTime: c.varint(),
		maxTime: c.varint()}
	k.streams = make([]StreamID, c.readCount(min(k.rows, len(c.b))))
	for i := range k.streams {
		k.streams[i] = StreamID(c.uvarint())
	}
	k.rest = c.b
	return k, c.err
}

// forEachRow yields the rows in the order of their Seq; at and size are offset and length in the messages. It returns
// the compressed messages.
func (k *chunk) forEachRow(yield func(r row)) (messages []byte, err error) {
	c := &cursor{b: k.rest}
	timestamp, ingested, at := k.minTime, k.minTime, 0
	for i := range k.rows {
		timestamp += c.varint()
		ingested += c.varint()
		stream, size := c.uvarint(), c.readCount(maxBlockBytes)
		if stream >= uint64(len(k.streams)) || int64(at+size) > k.raw {
			c.recordError(errShort)
		}
		if c.err != nil {
			return nil, c.err
		}
		yield(row{k.streams[stream], timestamp, ingested, k.first + uint64(i), at, size})
		at += size
	}
	return c.b, nil
}

// decompress writes the messages to dst, which has room for k.raw bytes.
func (k *chunk) decompress(dst, messages []byte) error {
	n, err := s2.DecodedLen(messages)
	if err == nil && int64(n) != k.raw {
		err = errShort
	}
	if err == nil {
		_, err = s2.Decode(dst[:k.raw], messages)
	}
	return err
}
