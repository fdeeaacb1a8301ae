package application

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coracle-eks/coracle/internal/handshake"
	"github.com/coracle-eks/coracle/internal/host/headerfields"
)

// handshakeTime is the time that a client has for its TLS handshake.
const handshakeTime = 10 * time.Second

// client is what requests know of the connection that they came by.
type client struct {
	server  *Server
	address netip.AddrPort
	since   time.Time
	tls     *tls.ConnectionState // nil without TLS
	under   net.Conn             // what TLS is on; nil without
	// certificate is the ARN of the certificate that it was shown, and named is set if it asked for it by name.
	certificate string
	named       bool
	// awaiting is set while no handler has the connection, and partial once a byte of the next request has come.
	awaiting, partial atomic.Bool
	active            atomic.Int64 // when it last received or sent something
	requests          atomic.Int64
	fields            headerfields.Counter // of HTTP/1.1
	read, written     atomic.Int64         // bytes, of HTTP/1.1
	streams           *multiplexed         // with HTTP/2
	id                [2]uint64            // in logs
}

// below is a connection of a client under TLS.
type below struct {
	*handshake.Conn
	*client
}

// Write gives the client the idle timeout to take a record, also one that TLS writes by itself: the answer to a change
// of keys, say, while it is read.
func (b *below) Write(p []byte) (int, error) {
	if err := b.Conn.SetWriteDeadline(time.Now().Add(b.server.state.Load().idle)); err != nil {
		return 0, err
	}
	return b.Conn.Write(p)
}

// plain is a connection of a client as net/http sees it, with TLS taken off.
type plain struct {
	net.Conn
	*client
}

type clientKey struct{}

// acceptClient takes a new connection: it ends TLS, and gives the connection to the HTTP server of its protocol.
func (s *Server) acceptClient(c net.Conn) {
	st := s.state.Load()
	peer := &client{server: s, since: time.Now(), id: [2]uint64{s.random(), s.random()}}
	if at, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		ap := at.AddrPort()
		peer.address = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	peer.awaiting.Store(true)
	if st.tls == nil {
		s.logConnection(st, peer, false, nil)
		s.queueConnection(&plain{c, peer}, false)
		return
	}
	under := &below{handshake.Bound(c, handshake.MostOfClient), peer}
	secure := tls.Server(under, st.tls)
	ctx, cancel := context.WithTimeout(s.ctx, handshakeTime)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		s.logConnection(st, peer, true, err)
		var notTLS tls.RecordHeaderError
		if errors.As(err, &notTLS) && notTLS.Conn != nil && looksLikeHTTP(notTLS.RecordHeader) {
			_ = c.SetWriteDeadline(time.Now().Add(handshakeTime))
			_, _ = c.Write(rawAnswer(http.StatusBadRequest, peer))
		}
		c.Close()
		return
	}
	under.End()
	state := secure.ConnectionState()
	peer.tls, peer.under = &state, c
	s.logConnection(st, peer, true, nil)
	if state.NegotiatedProtocol == "h2" {
		s.queueConnection(newMultiplexed(secure, peer), true)
		return
	}
	s.queueConnection(&plain{secure, peer}, false)
}

// looksLikeHTTP reports whether a record header is the beginning of an HTTP request.
func looksLikeHTTP(header [5]byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH"} {
		if string(header[:]) == method {
			return true
		}
	}
	return false
}

// errorHeaders are in the answers that net/http gives by itself to requests that it cannot read, and in no other.
var errorHeaders = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// Write writes to the client, which has the idle timeout to take that. What net/http has to say to a request that it
// cannot read AWS says in other words.
func (p *plain) Write(b []byte) (int, error) {
	p.touch()
	if err := p.Conn.SetWriteDeadline(time.Now().Add(p.server.state.Load().idle)); err != nil {
		return 0, err
	}
	if p.awaiting.Load() && bytes.HasPrefix(b, []byte("HTTP/1.1 ")) && len(b) > 12 && bytes.Contains(b, errorHeaders) {
		status, err := strconv.Atoi(string(b[9:12]))
		if err == nil {
			if status == http.StatusRequestHeaderFieldsTooLarge {
				status = http.StatusBadRequest
			}
			if _, err := p.Conn.Write(rawAnswer(status, p.client)); err != nil {
				return 0, err
			}
			p.server.logUnread(p.client, status)
			return len(b), nil
		}
	}
	n, err := p.Conn.Write(b)
	p.written.Add(int64(n))
	p.touch()
	return n, err
}

// Read reads from the client. One that has sent a part of a request and then nothing is told that.
func (p *plain) Read(b []byte) (int, error) {
	n, err := p.fields.Read(p.Conn, b)
	if n > 0 {
		p.partial.Store(true)
		p.read.Add(int64(n))
		p.touch()
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && p.awaiting.Load() && p.partial.Load() {
		_ = p.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = p.Conn.Write(rawAnswer(http.StatusRequestTimeout, p.client))
		p.server.logUnread(p.client, http.StatusRequestTimeout)
	}
	return n, err
}

// Close closes the connection.
func (p *plain) Close() error { return p.close(p.Conn) }

// close closes a connection, also while TLS waits for the client to take something.
func (c *client) close(conn net.Conn) error {
	if c.under != nil {
		defer time.AfterFunc(refusalTime, func() { c.under.Close() }).Stop()
	}
	return conn.Close()
}

// epoch is the zero of times that are compared among themselves.
var epoch = time.Now()

func (c *client) touch() { c.active.Store(int64(time.Since(epoch))) }

// clientOf returns the client of a connection of net/http.
func clientOf(c net.Conn) *client {
	switch c := c.(type) {
	case *plain:
		return c.client
	case *multiplexed:
		return c.client
	}
	return nil
}

// queueConnection gives a connection to the HTTP server of its protocol that is the current one.
func (s *Server) queueConnection(c net.Conn, h2 bool) {
	for s.ctx.Err() == nil {
		f := s.state.Load().front
		q := f.plain
		if h2 {
			q = f.h2
		}
		if f.queueConnection(q, c) {
			return
		}
	}
	c.Close()
}

// queue is a listener whose connections somebody else has accepted.
type queue struct {
	conns chan net.Conn
	done  <-chan struct{}
	serve func() // starts the HTTP server of the queue
}

// Accept implements net.Listener.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (q *queue) Close() error { return nil }

// Addr implements net.Listener.
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }
