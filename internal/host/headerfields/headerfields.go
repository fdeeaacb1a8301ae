// Package headerfields bounds the number of header fields of the HTTP requests that load balancers forward, and of the
// answers, while they come: before the end of a header nobody else knows how many it has.
package headerfields

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/handshake"
)

// Most bounds the header fields of a request or an answer. Decoded, and copied for the other side, a field takes some
// hundred bytes, however short it is: headers that are bounded in bytes alone take fifty times as much memory.
const Most = 500

// ErrMany is the error of a request or an answer with more fields than [Most].
var ErrMany = errors.New("the header has too many fields")

// Count returns the number of fields of a header. Each name that a Trailer field announces is one, too: net/http takes
// that field out of the header, and makes a map of it.
func Count(header, trailer http.Header) int {
	fields := len(trailer)
	for _, values := range header {
		fields += len(values)
	}
	return fields
}

// trailerName begins the field that announces trailers.
var trailerName = []byte("trailer:")

// Counter counts the fields of the headers on a connection with HTTP/1, and the names in a Trailer field as [Count]
// does. The zero value begins with a header.
type Counter struct {
	mu      sync.Mutex
	answers bool // rather than requests
	inBody  bool
	lines   int                   // with that of the method or the status, and the further names in a Trailer field
	length  int                   // of the line that has not ended
	begin   [len("trailer:")]byte // of that line
	crs     bool                  // it has carriage returns alone
	trailer bool                  // the field is Trailer
	status  [3]byte               // of an answer, as far as it has come
	digits  int
}

// Begin says that the header of the next request comes, or of the answer to it.
func (c *Counter) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inBody, c.lines, c.length, c.digits, c.trailer = false, 0, 0, 0, false
}

// HeaderRead says that the header has been read: what comes is the body.
func (c *Counter) HeaderRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inBody = true
}

// switching is the status of an answer after which the connection has another protocol.
var switching = [3]byte{'1', '0', '1'}

// Read reads from a connection, and counts that. Once it has failed it reads no more: readers of headers pass over an
// error between two lines, and would wait for the next.
func (c *Counter) Read(from io.Reader, b []byte) (int, error) {
	if c.hasMany() {
		return 0, ErrMany
	}
	n, err := from.Read(b)
	if many := c.Count(b[:n]); many != nil {
		return 0, many
	}
	return n, err
}

func (c *Counter) hasMany() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.inBody && c.lines > Most+1
}

// Count counts what was received. It returns ErrMany when these are too many fields.
func (c *Counter) Count(received []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(received) > 0 && !c.inBody {
		n := bytes.IndexByte(received, '\n')
		if n < 0 {
			c.countPart(received)
			if c.lines > Most+1 {
				return ErrMany
			}
			break
		}
		c.countPart(received[:n])
		received = received[n+1:]
		ends := c.length == 0 || c.length == 1 && c.crs
		blank := c.length == 0 || c.crs
		c.length = 0
		if c.lines == 0 && blank {
			continue // net/http passes over some of them before a request
		}
		if c.lines++; c.lines > Most+1 && !ends {
			return ErrMany
		}
		if c.inBody = ends; ends && c.answers && c.digits > 0 && c.status[0] == '1' && c.status != switching {
			c.inBody, c.lines, c.digits, c.trailer = false, 0, 0, false // the header of another answer comes
		}
	}
	return nil
}

// countPart counts a part of a line, without its end.
func (c *Counter) countPart(part []byte) {
	if len(part) == 0 {
		return
	}
	if c.length == 0 {
		c.crs = true
		if part[0] != ' ' && part[0] != '\t' { // it does not go on with the field of the line before
			c.trailer = false
		}
	}
	if c.crs {
		c.crs = len(bytes.Trim(part, "\r")) == 0
	}
	had := c.length
	c.length += len(part)
	if c.lines == 0 {
		if c.answers {
			c.readStatus(part, had)
		}
		return
	}
	if had < len(trailerName) {
		copied := copy(c.begin[had:len(trailerName)], part)
		if had+copied == len(trailerName) && bytes.EqualFold(c.begin[:], trailerName) {
			c.trailer = true
		}
	}
	if c.trailer {
		c.lines += bytes.Count(part, comma)
	}
}

var comma = []byte(",")

// readStatus reads the status of an answer of a part of its first line, before which the line had so many bytes.
func (c *Counter) readStatus(part []byte, had int) {
	for i, b := range part {
		if c.digits == len(c.status) {
			return
		}
		if had+i >= len("HTTP/1.1 ") && b != ' ' {
			c.status[c.digits] = b
			c.digits++
		}
	}
}

// AnswerConn is a connection to a server of HTTP/1 whose answers have few header fields.
type AnswerConn struct {
	net.Conn
	fields Counter
}

// Dialer returns what makes such connections of those that dial makes, for requests with a context of [InContext]. It
// is for the DialContext or DialTLSContext of an [http.Transport].
func Dialer(dial handshake.Dial) handshake.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &AnswerConn{Conn: c, fields: Counter{answers: true, inBody: true}}, nil
	}
}

// closeTime is the time that the end of a TLS connection may take, as with HTTP/2 in net/http.
const closeTime = 250 * time.Millisecond

// Close implements net.Conn. TLS waits for what the server does not take, and net/http waits for TLS with locks held.
func (a *AnswerConn) Close() error {
	if secure, ok := a.Conn.(*tls.Conn); ok {
		defer time.AfterFunc(closeTime, func() { secure.NetConn().Close() }).Stop()
	}
	return a.Conn.Close()
}

// Read implements net.Conn.
func (a *AnswerConn) Read(b []byte) (int, error) { return a.fields.Read(a.Conn, b) }

// InContext returns the context of a request, with which an [http.Transport] says that the header of its answer comes.
func InContext(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if a, ok := i.Conn.(*AnswerConn); ok {
			a.fields.Begin()
		}
	}})
}

// DeleteShadows deletes the headers that a server may take for one of others, whose names are given in canonical form:
// CGI, WSGI and PHP make one variable of X-Forwarded-For, X_Forwarded_For and, some of them, X.Forwarded.For.
func DeleteShadows(h http.Header, names ...string) {
	for name := range h {
		if !strings.ContainsFunc(name, isOther) {
			continue
		}
		plain := strings.Map(func(c rune) rune {
			if isOther(c) {
				return '-'
			}
			return c
		}, name)
		if slices.Contains(names, http.CanonicalHeaderKey(plain)) {
			delete(h, name)
		}
	}
}

// isOther reports whether a character of a name is neither alphanumeric nor a hyphen.
func isOther(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
}
