package application

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"golang.org/x/net/http2"
)

const (
	// mostUncounted is the number of requests that a connection of HTTP/2 may have under way beyond those that the load
	// balancer has room for, so that they are answered with 503.
	mostUncounted = 1
	// headerPart is the number of bytes of a header, as they come, for which a request counts once: of each, net/http
	// makes up to 35 in the map of the names in a Trailer field.
	headerPart = 7 << 10
	// maxReference is the number of bytes that a byte of a header may stand for: a field of one before it.
	maxReference = 4 << 10
	// mostAhead is the number of frames that are read while others are being written, which the client has to take:
	// net/http queues what it answers to them, and keeps the memory of that queue for as long as the connection is there.
	mostAhead = 256
	// longestAnswer is the length in bytes of the longest frame that is queued, the answer to a ping.
	longestAnswer = frameHeader + 8
	// writeBuffer is the number of bytes of net/http's buffer. It writes less when no answer is queued.
	writeBuffer = 4 << 10
	// receiveWindow is the number of bytes that a client may send of a body before it is told that it may send more.
	receiveWindow = 256 << 10
	// maxFrame is the number of bytes that a client may send in a frame.
	maxFrame = 16 << 10
)

// These end a connection of HTTP/2: one whose client goes on with requests that there is no room for, and one of which
// net/http has given up, but keeps everything for a while.
var (
	errUncounted = errors.New("the load balancer has all requests that it may have")
	errGoneAway  = errors.New("the client has broken the protocol")
)

// stream is a request that has begun.
type stream struct {
	length  int   // of its header, as it came, in bytes
	headers int   // frames that began one
	window  int64 // the bytes of its body that its client may send
}

// multiplexed is a connection of HTTP/2 as net/http sees it, with TLS taken off. It follows the frames: net/http
// refuses some requests itself, without a handler, and keeps them until their clients have taken the answer. Each
// request counts like a connection, and one with a large header like several, until net/http says that it has ended.
// What it queues to be written is bounded by what is read: no more frames than answers are taken, and no more of a body
// than its client can know that it may send.
type multiplexed struct {
	net.Conn
	*client
	in, out frames
	granted frames // of what is about to be written

	mu       sync.Mutex
	taken    *sync.Cond // nothing is being written, or the connection is gone
	gone     bool       // closed, or the client has broken the protocol
	writing  bool
	ahead    int               // answers to frames that were read while others were being written, less what was since
	leaving  bool              // net/http takes no further streams
	open     map[uint32]stream // by their numbers
	weight   int               // of these requests together
	handled  int               // requests that have a handler; that of a stream which has been reset goes on
	reset    int               // the weight of streams that have been reset, which net/http may have yet
	seen     int               // of these, what had been reset before the last frame that it has written
	twice    bool              // the stream that is being reset may be two, of one number
	releases []func()          // of what is counted
}

// newMultiplexed returns the connection of a client.
func newMultiplexed(c net.Conn, of *client) *multiplexed {
	m := &multiplexed{Conn: c, client: of, open: map[uint32]stream{}}
	m.taken = sync.NewCond(&m.mu)
	m.in.left = len(http2.ClientPreface)
	of.streams = m
	return m
}

// Read reads from the client, which is to take what it has been answered.
func (m *multiplexed) Read(b []byte) (int, error) {
	m.mu.Lock()
	for m.writing && m.ahead >= mostAhead && !m.gone {
		m.taken.Wait()
	}
	m.mu.Unlock()
	n, err := m.Conn.Read(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return 0, errGoneAway
	}
	m.in.follow(b[:n], m.beginRead, func(f *frames) {
		switch about := binary.BigEndian.Uint32(f.payload[:4]) & (1<<31 - 1); {
		case f.kind == http2.FrameRSTStream:
			m.reset += m.forget(f.id)
		case f.kind == http2.FramePriority && about == f.id, f.kind == http2.FrameWindowUpdate && about == 0:
			m.gone = true // net/http would reset a stream that it may not have opened
		}
	})
	switch {
	case m.gone:
		return 0, errGoneAway
	case m.count() > mostUncounted:
		return 0, errUncounted
	}
	return n, err
}

// beginRead follows the header of a frame of the client. mu is held.
func (m *multiplexed) beginRead(f *frames) {
	if m.writing {
		if m.ahead++; f.kind == http2.FrameData {
			m.ahead++ // of a stream that has ended, it opens the window of the connection, too
		}
	}
	s, open := m.open[f.id]
	before := weightOf(s.length)
	switch {
	case f.kind == http2.FrameHeaders:
		if !open { // whatever its number is: net/http may not have opened a later one
			s, before = stream{window: receiveWindow}, 0
		}
		s.headers++
		s.length += f.left
	case f.kind == http2.FrameContinuation && open:
		s.length += f.left
	case f.kind == http2.FrameData && open:
		s.window -= int64(f.left)
	default:
		return
	}
	m.open[f.id] = s
	m.weight += weightOf(s.length) - before
	if s.window < 0 || s.length > maxHeader+maxFrame {
		m.gone = true // net/http keeps all of a header field that does not end
	}
}

// Write writes to the client.
func (m *multiplexed) Write(b []byte) (int, error) {
	m.mu.Lock()
	before := m.reset
	if m.writing = true; len(b) < writeBuffer {
		m.ahead = 0
	}
	m.granted.follow(b, func(*frames) {}, func(f *frames) {
		// The client may send more before this returns. What has no number yet is the window of the connection.
		if s, open := m.open[f.id]; f.kind == http2.FrameWindowUpdate && open {
			s.window += int64(binary.BigEndian.Uint32(f.payload[:4]))
			m.open[f.id] = s
		}
	})
	m.mu.Unlock()
	n, err := m.Conn.Write(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writing, m.ahead = false, max(0, m.ahead-n/longestAnswer)
	m.taken.Broadcast()
	acts := false // net/http goes on to act on what it reads
	m.out.follow(b[:n], func(f *frames) {
		switch f.kind {
		case http2.FrameGoAway:
			m.leaving = true
			return
		case http2.FrameSettings, http2.FrameContinuation: // net/http writes settings after an error, too
			return
		case http2.FrameRSTStream:
			m.twice = m.open[f.id].headers > 1
			m.reset += m.forget(f.id) // it may have been waiting for a handler
		case http2.FrameHeaders, http2.FrameData:
			if f.flags.Has(http2.FlagDataEndStream) { // of both
				m.forget(f.id)
			}
		}
		acts = true
	}, func(f *frames) {
		// Of a stream that net/http resets for an error it may not have taken the number, which another has used since.
		code := f.payload[:4]
		if f.kind == http2.FrameGoAway {
			code = f.payload[4:]
		}
		broken := http2.ErrCode(binary.BigEndian.Uint32(code))
		if f.kind == http2.FrameGoAway && broken != http2.ErrCodeNo ||
			f.kind == http2.FrameRSTStream && broken == http2.ErrCodeProtocol && m.twice {
			m.gone = true
		}
	})
	// What has been reset is gone, unless all handlers are taken: then it may wait for one. After an error of the
	// connection net/http looks at no reset, and writes nothing but that; one frame may have been in its buffer.
	if acts && !m.gone && !m.leaving {
		if len(m.open)+m.handled < maxStreams {
			m.reset -= m.seen
			before = max(0, before-m.seen)
		}
		m.seen = min(before, m.reset)
	}
	m.count()
	return n, err
}

// weightOf returns for how many a request counts, by the bytes of its header. Of more than there may be, net/http reads
// nothing.
func weightOf(length int) int { return 1 + min(length+maxReference, maxHeader)/headerPart }

// forget forgets a stream that has ended, and returns for how many it counted. mu is held.
func (m *multiplexed) forget(id uint32) int {
	s, open := m.open[id]
	if !open {
		return 0
	}
	delete(m.open, id)
	m.weight -= weightOf(s.length)
	return weightOf(s.length)
}

// Close implements net.Conn.
func (m *multiplexed) Close() error {
	err := m.close(m.Conn)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone, m.weight, m.reset, m.seen = true, 0, 0, 0
	clear(m.open)
	m.taken.Broadcast()
	m.count()
	return err
}

// beginRequest is called when a handler begins, and reports whether there is room for the request.
func (m *multiplexed) beginRequest() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handled++
	return m.count() == 0
}

// endRequest is called when a handler ends.
func (m *multiplexed) endRequest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handled--
	m.count()
}

// count counts the requests that are under way, and returns how many of them there is no room for. mu is held.
func (m *multiplexed) count() (uncounted int) {
	requests := max(m.weight, m.handled) + m.reset
	for len(m.releases) < requests {
		release, ok := m.server.o.Acquire(m.address.Addr())
		if !ok {
			break
		}
		m.releases = append(m.releases, release)
	}
	for len(m.releases) > requests {
		last := len(m.releases) - 1
		m.releases[last]()
		m.releases = m.releases[:last]
	}
	return requests - len(m.releases)
}

// frameHeader is the length in bytes of the header of a frame.
//
// https://www.rfc-editor.org/rfc/rfc9113#section-4.1
const frameHeader = 9

// frames follows one direction of a connection of HTTP/2 from frame to frame.
type frames struct {
	kind    http2.FrameType
	flags   http2.Flags
	id      uint32
	left    int     // bytes of the payload that are yet to come
	payload [8]byte // its first bytes
	copied  int
	header  [frameHeader]byte
	read    int // bytes of the header
}

// follow calls begins for each frame whose header ends in b, and ends for each whose payload does.
func (f *frames) follow(b []byte, begins, ends func(*frames)) {
	for len(b) > 0 {
		if f.left == 0 {
			n := copy(f.header[f.read:], b)
			f.read += n
			b = b[n:]
			if f.read < frameHeader {
				return
			}
			h := &f.header
			f.kind, f.flags, f.id = http2.FrameType(h[3]), http2.Flags(h[4]), binary.BigEndian.Uint32(h[5:])&(1<<31-1)
			f.left, f.read, f.copied = int(h[0])<<16|int(h[1])<<8|int(h[2]), 0, 0
			clear(f.payload[:])
			begins(f)
			if f.left == 0 {
				ends(f)
			}
			continue
		}
		n := min(f.left, len(b))
		f.copied += copy(f.payload[f.copied:], b[:n])
		f.left -= n
		b = b[n:]
		if f.left == 0 {
			ends(f)
		}
	}
}
