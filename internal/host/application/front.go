package application

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what a client sends.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-troubleshooting.html
const (
	maxLine   = 16 << 10 // the request line, and each header
	maxHeader = 64 << 10 // all headers
	// maxAnswerHeader bounds the headers of a target's answer.
	maxAnswerHeader = 32 << 10
	// maxStreams is the number of requests that a client may have under way on a connection: twice as many as on AWS, so
	// that of those who have no more than there none waits for a handler.
	maxStreams = 256
	// refusalTime is the time that a client has for the answer to a request that net/http refuses itself.
	refusalTime = 5 * time.Second
	// maxOfConnection is the number of requests on a connection of HTTP/2, before the client is to make another.
	maxOfConnection = 10000
)

// frontKey has the attributes with which HTTP servers are made. They cannot be changed in one that serves.
type frontKey struct{ idle int }

// front has the HTTP servers that read requests.
type front struct {
	key       frontKey
	plain, h2 *queue
	servers   []*http.Server
	open      atomic.Int64
	ctx       context.Context
	cancel    context.CancelFunc
}

// frontFor returns the HTTP servers for attributes. mu is held.
func (s *Server) frontFor(a Attributes) *front {
	key := frontKey{idle: a.Idle}
	if f := s.fronts[key]; f != nil {
		return f
	}
	f := &front{key: key}
	f.ctx, f.cancel = context.WithCancel(s.ctx)
	idle := time.Duration(key.idle) * time.Second
	serve := func(protocols *http.Protocols) *queue {
		q := &queue{conns: make(chan net.Conn), done: f.ctx.Done()}
		server := &http.Server{
			Handler: s, ReadHeaderTimeout: idle, IdleTimeout: idle, MaxHeaderBytes: maxHeader,
			DisableGeneralOptionsHandler: true,
			Protocols:                    protocols,
			HTTP2: &http.HTTP2Config{
				MaxConcurrentStreams:          maxStreams,
				MaxReadFrameSize:              maxFrame,      // each connection keeps a buffer for the longest that has come
				MaxReceiveBufferPerConnection: receiveWindow, // what a connection counts for (internal/connlimit)
				MaxReceiveBufferPerStream:     receiveWindow,
				MaxEncoderHeaderTableSize:     1, // none: net/http changes it, as clients say, while another goroutine uses it
				SendPingTimeout:               idle,
				WriteByteTimeout:              idle,
			},
			ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
			BaseContext: func(net.Listener) context.Context { return s.ctx },
			ConnContext: func(ctx context.Context, c net.Conn) context.Context {
				return context.WithValue(ctx, clientKey{}, clientOf(c))
			},
			ConnState: f.observe,
		}
		if protocols.UnencryptedHTTP2() {
			server.WriteTimeout = min(idle, refusalTime) // of each stream; see newExchange
		}
		f.servers = append(f.servers, server)
		// Most listeners never see both protocols.
		q.serve = sync.OnceFunc(func() {
			s.runTask(func() {
				if err := server.Serve(q); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
					s.o.Log.Warn("a load balancer ended", "error", err)
				}
			})
		})
		return q
	}
	h1, h2 := new(http.Protocols), new(http.Protocols)
	h1.SetHTTP1(true)
	h2.SetUnencryptedHTTP2(true)
	f.plain, f.h2 = serve(h1), serve(h2)
	s.fronts[key] = f
	return f
}

// queueConnection queues a connection, and reports whether it is served.
func (f *front) queueConnection(q *queue, c net.Conn) bool {
	f.open.Add(1)
	if f.ctx.Err() == nil {
		q.serve()
		select {
		case q.conns <- c:
			return true
		case <-q.done:
		}
	}
	f.open.Add(-1)
	return false
}

// observe follows the states of a connection.
func (f *front) observe(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateIdle:
		if p, ok := c.(*plain); ok {
			p.partial.Store(false)
			p.awaiting.Store(true)
			p.fields.Begin()
		}
	case http.StateClosed, http.StateHijacked:
		f.open.Add(-1)
	}
}

// retireFronts forgets HTTP servers that get no new connections once they have none. mu is held.
func (s *Server) retireFronts(current *front) {
	for key, f := range s.fronts {
		if f != current && f.open.Load() == 0 {
			f.close()
			delete(s.fronts, key)
		}
	}
}

func (f *front) close() {
	f.cancel()
	for _, server := range f.servers {
		server.Close()
	}
}
