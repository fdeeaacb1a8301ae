package forward

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
)

// chunkSize is the size of chunks but the last.
const chunkSize = 64 << 10

// checksumSizes are the bytes of the checksums that are sent as trailers.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
var checksumSizes = map[string]int{
	"x-amz-checksum-crc32": 4, "x-amz-checksum-crc32c": 4, "x-amz-checksum-crc64nvme": 8, "x-amz-checksum-sha1": 20,
	"x-amz-checksum-sha256": 32,
}

// chunked encodes a payload with trailers in aws-chunked, without signatures of the chunks: the payload has been
// verified, and the endpoint verifies the trailer.
type chunked struct {
	payload *sigv4.Payload
	buffer  []byte
	out     []byte // encoded, not read yet
	done    bool
}

func newChunked(p *sigv4.Payload) *chunked {
	return &chunked{payload: p, buffer: make([]byte, chunkSize)}
}

// length returns the number of bytes of the encoded payload; false when a trailer is none of S3's.
func (c *chunked) length() (int64, bool) {
	chunk := func(n int64) int64 { return int64(len(fmt.Sprintf("%x\r\n\r\n", n))) + n }
	full, rest := c.payload.Length/chunkSize, c.payload.Length%chunkSize
	total := full*chunk(chunkSize) + int64(len("0\r\n"))
	if rest > 0 {
		total += chunk(rest)
	}
	for _, name := range c.payload.TrailerNames {
		size, ok := checksumSizes[name]
		if !ok {
			return 0, false
		}
		total += int64(len(name) + len(":\r\n") + base64.StdEncoding.EncodedLen(size))
	}
	return total + int64(len("\r\n")), true
}

func (c *chunked) Read(b []byte) (int, error) {
	if len(c.out) == 0 {
		if c.done {
			return 0, io.EOF
		}
		if err := c.encode(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.out)
	c.out = c.out[n:]
	return n, nil
}

// encode encodes the next chunk, or the end with the trailers.
func (c *chunked) encode() error {
	n, err := io.ReadFull(c.payload, c.buffer)
	if n > 0 {
		c.out = append(fmt.Appendf(c.out[:0], "%x\r\n", n), c.buffer[:n]...)
		c.out = append(c.out, "\r\n"...)
	}
	switch {
	case err == nil:
		return nil
	case c.payload.Err() != nil:
		return c.payload.Err()
	}
	c.out = append(c.out, "0\r\n"...)
	for _, name := range c.payload.TrailerNames {
		value := strings.TrimSpace(c.payload.Trailer.Get(name))
		if sum, err := base64.StdEncoding.DecodeString(value); err != nil || len(sum) != checksumSizes[name] {
			return &wire.Error{Code: "InvalidRequest", Status: http.StatusBadRequest,
				Message: "Value for " + name + " trailing header is invalid."}
		}
		c.out = fmt.Appendf(c.out, "%s:%s\r\n", name, value)
	}
	c.out = append(c.out, "\r\n"...)
	c.done = true
	return nil
}
