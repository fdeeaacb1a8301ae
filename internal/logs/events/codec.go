package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// How much may stand in one piece. What is read from a disk must not make us allocate more.
const (
	maxBlockBytes = 64 << 20 // of messages
	maxBlockRows  = 1 << 17
	maxSection    = 16 << 20 // of a small section, decompressed
)

var errShort = errors.New("it ends too early")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// cursor reads numbers and bytes one after the other. The first that is not there sets err, and all
// that follow are zero.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) recordError(err error) {
	if c.err == nil {
		c.err = err
	}
	c.b = nil
}

func (c *cursor) uvarint() uint64 {
	if len(c.b) > 0 && c.b[0] < 0x80 {
		v := c.b[0]
		c.b = c.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.recordError(errShort)
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varint() int64 {
	u := c.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// readCount reads a number that says how many follow; more than most is an error.
func (c *cursor) readCount(most int) int {
	v := c.uvarint()
	if v > uint64(most) {
		c.recordError(fmt.Errorf("it says %d where %d is the most", v, most))
		return 0
	}
	return int(v)
}

func (c *cursor) readBytes(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.recordError(errShort)
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

// readText reads a length and as many bytes.
func (c *cursor) readText() string { return string(c.readBytes(c.readCount(len(c.b)))) }

// checkEnd returns the first error, or an error when something is left over.
func (c *cursor) checkEnd() error {
	if c.err == nil && len(c.b) > 0 {
		return fmt.Errorf("it has %d bytes too many", len(c.b))
	}
	return c.err
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// The decoder is stateless, for all who read.
var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlockBytes),
		zstd.WithDecoderMaxWindow(maxBlockBytes), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
})

func newEncoder(level zstd.EncoderLevel) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(2<<20), zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}

// decompress appends to dst[:0] the size bytes that compressed holds.
func decompress(dst, compressed []byte, size int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(compressed); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !h.HasFCS || h.FrameContentSize != uint64(size) {
		return nil, fmt.Errorf("it decompresses to another size than %d bytes", size)
	}
	if cap(dst) < size {
		dst = make([]byte, 0, size)
	}
	out, err := decoder().DecodeAll(compressed, dst[:0])
	if err != nil {
		return nil, err
	}
	if len(out) != size {
		return nil, fmt.Errorf("it decompresses to %d bytes, not %d", len(out), size)
	}
	return out, nil
}
