package endpoint

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/host/headerfields"
)

// fieldListener accepts connections whose requests have few header fields. Its observe is the ConnState of the
// [http.Server] that serves them, its inContext the ConnContext, and the handler calls [headerRead] first.
type fieldListener struct {
	*connlimit.Listener
	// unwrap ends TLS, if there is any.
	unwrap func(*connlimit.Conn) (stream, error)
	idle   time.Duration
}

// Accept implements net.Listener.
func (l fieldListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &fieldConn{Conn: c.(*connlimit.Conn), unwrap: l.unwrap, idle: l.idle}, nil
}

func (fieldListener) observe(c net.Conn, state http.ConnState) {
	if f, ok := c.(*fieldConn); ok && state == http.StateIdle {
		f.fields.Begin()
	}
}

type fieldConnKey struct{}

func (fieldListener) inContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, fieldConnKey{}, c)
}

// headerRead says that what comes on the connection of a request is its body.
func headerRead(r *http.Request) {
	if f, ok := r.Context().Value(fieldConnKey{}).(*fieldConn); ok {
		f.fields.HeaderRead()
	}
}

// fieldConn counts the header fields of requests. Its TLS ends when it is first read.
type fieldConn struct {
	*connlimit.Conn
	unwrap func(*connlimit.Conn) (stream, error)
	begin  sync.Once
	failed error
	idle   time.Duration
	inner  atomic.Pointer[stream]
	fields headerfields.Counter
}

// Read implements net.Conn.
func (f *fieldConn) Read(b []byte) (int, error) {
	f.begin.Do(func() {
		inner, err := f.unwrap(f.Conn)
		if f.failed = err; err == nil {
			f.inner.Store(&inner)
		}
	})
	if f.failed != nil {
		return 0, f.failed
	}
	return f.fields.Read(*f.inner.Load(), b)
}

// stream returns what is in TLS, once it has been read of.
func (f *fieldConn) stream() stream {
	if inner := f.inner.Load(); inner != nil {
		return *inner
	}
	return f.Conn
}

// Write implements net.Conn. The client has the idle timeout to take that.
func (f *fieldConn) Write(b []byte) (int, error) {
	if err := f.SetWriteDeadline(time.Now().Add(f.idle)); err != nil {
		return 0, err
	}
	return f.stream().Write(b)
}

// Close implements net.Conn.
func (f *fieldConn) Close() error { return f.stream().Close() }

// CloseWrite ends what is sent, before the connection is closed.
func (f *fieldConn) CloseWrite() error { return f.stream().CloseWrite() }
