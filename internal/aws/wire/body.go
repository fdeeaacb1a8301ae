package wire

import (
	"bytes"
	"context"
	"errors"
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
	// maxUnsigned limits the part of a body that is read before its signature names an access key that exists and a time
	// that is now. It is also the largest body of a request without a signature, which carries a web identity token and a
	// session policy.
	maxUnsigned = 128 << 10
	// DefaultMaxBodies limits the memory of all bodies together, unless [Options] says otherwise, without the
	// beginnings of freeBody. One source has at most an eighth of it.
	DefaultMaxBodies = 256 << 20
	// freeBody is the part of each body that is read regardless of other requests: more than most requests have. The
	// number of requests is bounded by that of connections.
	freeBody = 8 << 10
	// bodyChunk is the memory that a body reserves at a time, as its bytes arrive.
	bodyChunk = 32 << 10
)

const (
	// bodyWait limits the time that a request waits for others to end while the memory for bodies is in use.
	bodyWait = 5 * time.Second
	// answerWait limits the time that a large answer waits for others to be read.
	answerWait = 5 * time.Second
	// beginTime limits the time in which the first maxUnsigned bytes of a body arrive, and bodyTime that of the rest.
	beginTime = 20 * time.Second
	bodyTime  = 60 * time.Second
)

// errTooLarge refuses a body.
func errTooLarge(limit int64) error {
	return &Error{
		Code: "RequestEntityTooLarge", Status: http.StatusRequestEntityTooLarge,
		Message: fmt.Sprintf("The request body is larger than %d bytes.", limit),
	}
}

// readBody reads the beginning of the body into the buffer: all of it, for most requests.
func (m *Mux) readBody(b *buffer, r *request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > m.options.MaxBody {
		return errTooLarge(m.options.MaxBody)
	}
	b.in.Reset()
	err := m.readUpTo(b, r, min(m.options.MaxBody, maxUnsigned), beginTime)
	if err == nil && r.unread && m.options.MaxBody <= maxUnsigned {
		return errTooLarge(m.options.MaxBody)
	}
	return err
}

// readRest reads what read has left of the body, once there is reason to believe that the request is signed.
func (m *Mux) readRest(b *buffer, r *request) error {
	if !r.unread {
		return nil
	}
	if err := m.readUpTo(b, r, m.options.MaxBody, bodyTime); err != nil {
		return err
	}
	if r.unread {
		return errTooLarge(m.options.MaxBody)
	}
	return nil
}

// readUpTo reads the body until the buffer has limit bytes, and one more to see whether there are more. It takes what
// the body has from what all bodies may have, until the buffer is given back. What does so has to arrive within a
// time.
func (m *Mux) readUpTo(b *buffer, r *request, limit int64, within time.Duration) error {
	for {
		have := int64(b.in.Len())
		if have > limit {
			break
		}
		if have >= freeBody+b.held {
			if err := m.holdBody(b, r, bodyChunk); err != nil {
				return err
			}
			if r.expected != within {
				r.expected = within
				r.setReadTimeout(within)
			}
		}
		_, err := io.CopyN(&b.in, r.Body, min(freeBody+b.held, limit+1)-have)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &Error{
				Code: "RequestTimeout", Status: http.StatusBadRequest, Err: err,
				Message: "The request body could not be read to its end.",
			}
		}
	}
	r.unread = int64(b.in.Len()) > limit
	r.body = b.in.Bytes()
	if r.expected > 0 && !r.unread {
		r.expected = 0
		r.setReadTimeout(0)
	}
	return nil
}

// holdBody takes memory for a body from what all bodies may have, until the buffer is given back.
func (m *Mux) holdBody(b *buffer, r *request, bytes int64) error {
	ctx, cancel := context.WithTimeout(r.Context(), bodyWait)
	defer cancel()
	if err := m.bodies.acquire(ctx, sourceOf(r.RemoteAddr), bytes); err != nil {
		return &Error{
			Code: "ServiceUnavailable", Status: http.StatusServiceUnavailable, Err: err,
			Message: "Too many large requests are being read. Please try again.",
		}
	}
	b.held += bytes
	b.release = func() { m.bodies.release(sourceOf(r.RemoteAddr), b.held); b.held = 0 }
	return nil
}

// setReadTimeout has reads of the request fail after a time; 0: never. A request of this process has no such time.
func (r *request) setReadTimeout(within time.Duration) {
	if r.reads == nil {
		return
	}
	deadline := time.Time{}
	if within > 0 {
		deadline = time.Now().Add(within)
	}
	_ = r.reads.SetReadDeadline(deadline)
}

// drainBody reads and forgets the rest of a body that is refused, so that its sender gets to read why: many clients
// send all before they look at the answer.
func (m *Mux) drainBody(r *request) {
	if r.unread {
		_, _ = io.CopyN(io.Discard, r.Body, m.options.MaxBody) // the connection is closed with what is left
	}
}

// buffer holds the bodies of one request and its response.
type buffer struct {
	in      bytes.Buffer
	out     []byte
	held    int64  // that the body has taken of what all may have
	release func() // gives held back; nil for most requests
}

var buffers = sync.Pool{New: func() any { return &buffer{} }}

// recycle gives the buffer back, unless one large request would make every later one hold its memory.
func (b *buffer) recycle() {
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
