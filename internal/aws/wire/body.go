package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Bounds of what requests hold in memory before anybody is known to answer for them, in bytes.
const (
	// DefaultMaxBody is the largest request body that is read unless [Options] says otherwise: 10 MiB.
	DefaultMaxBody = 10 << 20
	// maxUnsigned is how much of a body is read before its signature names an access key that exists and a time that is now. It is also
	// the largest body of a request without a signature, which carries a web identity token and a session policy.
	maxUnsigned = 128 << 10
	// DefaultMaxBodies is how much all bodies together may have, unless [Options] says otherwise, without those of up to maxUnsigned.
	DefaultMaxBodies = 256 << 20
)

// bodyWait is how long a request waits for others to end, when all that bodies may have is in use.
const bodyWait = 5 * time.Second

// errTooLarge refuses a body.
func errTooLarge(limit int64) error {
	return &Error{
		Code: "RequestEntityTooLarge", Status: http.StatusRequestEntityTooLarge,
		Message: fmt.Sprintf("The request body is larger than %d bytes.", limit),
	}
}

// read reads the beginning of the body into the buffer: all of it, for most requests.
func (m *Mux) read(b *buffer, r *request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > m.options.MaxBody {
		return errTooLarge(m.options.MaxBody)
	}
	b.in.Reset()
	err := b.readUpTo(r, min(m.options.MaxBody, maxUnsigned))
	if err == nil && r.unread && m.options.MaxBody <= maxUnsigned {
		return errTooLarge(m.options.MaxBody)
	}
	return err
}

// readRest reads what read has left of the body, once there is reason to believe that the request is signed. It takes its size from what all
// bodies may have, until the buffer is released.
func (m *Mux) readRest(b *buffer, r *request) error {
	if !r.unread {
		return nil
	}
	size := r.ContentLength
	if size < int64(b.in.Len()) { // it is not said, or not true, as an in-process request may have it
		size = m.options.MaxBody
	}
	ctx, cancel := context.WithTimeout(r.Context(), bodyWait)
	defer cancel()
	if err := m.bodies.Acquire(ctx, size); err != nil {
		return &Error{
			Code: "ServiceUnavailable", Status: http.StatusServiceUnavailable, Err: err,
			Message: "Too many large requests are being read. Please try again.",
		}
	}
	b.release = func() { m.bodies.Release(size) }
	b.in.Grow(int(size) - b.in.Len() + bytes.MinRead)
	if err := b.readUpTo(r, m.options.MaxBody); err != nil {
		return err
	}
	if r.unread {
		return errTooLarge(m.options.MaxBody)
	}
	return nil
}

// readUpTo reads the body until the buffer has limit bytes, and one more to see whether there are more.
func (b *buffer) readUpTo(r *request, limit int64) error {
	_, err := b.in.ReadFrom(io.LimitReader(r.Body, limit+1-int64(b.in.Len())))
	if err != nil {
		return &Error{Code: "RequestTimeout", Message: "The request body could not be read to its end.", Status: http.StatusBadRequest, Err: err}
	}
	r.unread = int64(b.in.Len()) > limit
	r.body = b.in.Bytes()
	return nil
}

// drain reads and forgets the rest of a body that is refused, so that its sender gets to read why: many clients send all before
// they look at the answer.
func (m *Mux) drain(r *request) {
	if r.unread {
		_, _ = io.CopyN(io.Discard, r.Body, m.options.MaxBody) // the connection is closed with what is left
	}
}

// buffer holds the bodies of one request and its response.
type buffer struct {
	in      bytes.Buffer
	out     []byte
	release func() // gives back what readRest has taken; nil for most requests
}

var buffers = sync.Pool{New: func() any { return &buffer{} }}

// free gives the buffer back, unless one large request would make every later one hold its memory.
func (b *buffer) free() {
	const keep = 1 << 20
	b.giveBack()
	if b.in.Cap() > keep || cap(b.out) > keep {
		return
	}
	b.in.Reset()
	b.out = b.out[:0]
	buffers.Put(b)
}

// giveBack lets other bodies have what this one has taken.
func (b *buffer) giveBack() {
	if b.release != nil {
		b.release()
		b.release = nil
	}
}
