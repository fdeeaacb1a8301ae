package application

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// exchange is a request with its answer. It is the context of the request to the target.
type exchange struct {
	context.Context
	cancel context.CancelCauseFunc
	server *Server
	state  *state
	client *client
	r      *http.Request
	w      *writer
	h2     bool // it is a stream of HTTP/2
	room   bool // the load balancer has for it
	began  time.Time
	idle   idleWatch

	rule    *rule
	forward *Forward
	group   *group
	target  *target
	sticky  *target // to which a cookie leads
	user    *session
	leave   func() // the target

	path         string // that conditions are about
	class        string // of desync mitigation
	classReason  string
	actions      []string
	location     string // of a redirect
	reason       string // of an error
	trace        string
	newHost      string // after the transforms
	newURI       string
	own          http.Header // what the load balancer adds to the answer of a target
	transformed  string      // the status of the transforms
	status       int         // of the answer
	targetStatus int
	upgraded     atomic.Bool
	// reached is set once a target has the request, sent and headed are when it got it and began to answer.
	reached      bool
	sent, headed time.Time
	received     atomic.Int64 // bytes of the body from the client
	written      int64        // and to it
	appCookie    bool         // the request has the cookies of stickiness by the application
}

type exchangeKey struct{}

// Value implements context.Context.
func (e *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return e
	}
	return e.Context.Value(key)
}

// exchangeOf returns the exchange that a request to a target belongs to.
func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

func newExchange(s *Server, w http.ResponseWriter, r *http.Request) *exchange {
	e := &exchange{server: s, state: s.state.Load(), r: r, room: true, began: time.Now()}
	e.client, _ = r.Context().Value(clientKey{}).(*client)
	e.client.awaiting.Store(false)
	e.client.fields.HeaderRead()
	e.Context, e.cancel = context.WithCancelCause(r.Context())
	e.w = &writer{ResponseWriter: w, e: e}
	// The version that a request has can be what a client of HTTP/1 says.
	if e.h2 = e.client.streams != nil; e.h2 {
		// It has the deadline of answers that net/http gives itself.
		_ = http.NewResponseController(w).SetWriteDeadline(e.began.Add(longest))
		e.room = e.client.streams.beginRequest()
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &body{ReadCloser: r.Body, e: e}
	}
	return e
}

// longest is the deadline of what has others: with none at all, net/http would set the next one for a stream that has
// ended meanwhile, and keep that until then.
const longest = 365 * 24 * time.Hour

// finish ends the exchange, also when its answer is broken off.
func (e *exchange) finish() {
	e.idle.stop()
	if b, ok := e.r.Body.(*body); ok && e.r.ProtoMajor == 1 && !b.ended.Load() && !e.upgraded.Load() {
		// net/http reads what is left. The client must not keep it waiting.
		_ = http.NewResponseController(e.w.ResponseWriter).SetReadDeadline(time.Now().Add(e.state.idle))
	}
	if e.h2 { // what is left of the answer is written after this
		_ = http.NewResponseController(e.w.ResponseWriter).SetWriteDeadline(time.Now().Add(e.state.idle))
		e.client.streams.endRequest()
	}
	e.cancel(context.Canceled)
	if e.leave != nil {
		e.leave()
	}
	if e.status == 0 && !e.upgraded.Load() {
		e.status = statusClientClosed // nothing was answered, as nobody is there
	}
	e.log()
}

// serve answers the request.
func (e *exchange) serve() {
	Continue(e.w.ResponseWriter, e.r, e.h2)
	count := e.client.requests.Add(1)
	age := time.Duration(e.state.spec.Attributes.KeepAlive) * time.Second
	if age > 0 && e.server.o.now().Sub(e.client.since) > age || e.r.ProtoMajor == 2 && count >= maxOfConnection {
		e.w.Header().Set("Connection", "close")
	}
	if !e.room {
		e.refuse(http.StatusServiceUnavailable)
		return
	}
	if status := e.validate(); status != 0 {
		e.refuse(status)
		return
	}
	if !e.normalizePath() {
		e.refuse(http.StatusBadRequest)
		return
	}
	e.trace = traceID(e.r.Header.Get("X-Amzn-Trace-Id"), e.server)
	if len(e.state.logins) > 0 && e.r.URL.Path == loginPath {
		e.finishLogin()
		return
	}
	if e.rule = e.state.matchRule(e); e.rule == nil {
		e.answerError(http.StatusNotFound)
		return
	}
	for _, a := range e.rule.spec.Actions {
		if !e.performAction(a) {
			return
		}
	}
}

// performAction performs an action, and reports whether the next one is to be performed.
func (e *exchange) performAction(a Action) bool {
	switch {
	case a.OIDC != nil:
		e.actions = append(e.actions, "authenticate")
		return e.authenticate(e.rule.login)
	case a.Redirect != nil:
		e.actions = append(e.actions, "redirect")
		e.redirect(*a.Redirect)
	case a.FixedResponse != nil:
		e.actions = append(e.actions, "fixed-response")
		e.answerFixed(*a.FixedResponse)
	case a.Forward != nil:
		e.actions = append(e.actions, "forward")
		e.forwardRequest(a.Forward)
	}
	return false
}

// isGRPC reports whether the request is one of gRPC.
func (e *exchange) isGRPC() bool {
	return e.r.ProtoMajor == 2 && strings.HasPrefix(e.r.Header.Get("Content-Type"), "application/grpc")
}

// writer writes the answer to the client.
type writer struct {
	http.ResponseWriter
	e *exchange
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if status >= 200 {
		if w.e.status != 0 {
			return
		}
		w.e.status = status
		w.e.finishHeaders(w.Header())
	} else if w.e.group != nil && w.e.group.spec.Version != HTTP1 {
		return // the connection to the target, which others share, would wait for the client
	} else if w.e.h2 {
		// Of a header with this field, net/http writes a copy without it. Of another, it may go on to read that when the
		// stream has been reset and the header is being changed: https://go.dev/issue/67940.
		w.Header()["Content-Length"] = nil
		defer delete(w.Header(), "Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *writer) Write(b []byte) (int, error) {
	if w.e.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.e.idle.writing.Store(true)
	n, err := w.ResponseWriter.Write(b)
	w.e.idle.writing.Store(false)
	w.e.idle.touch()
	w.e.written += int64(n)
	return n, err
}

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	w.e.idle.writing.Store(true)
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.e.idle.writing.Store(false)
	w.e.idle.touch()
	return err
}

// finishHeaders changes the headers of an answer as the listener's attributes say.
func (e *exchange) finishHeaders(h http.Header) {
	for name, values := range e.own {
		for _, value := range values {
			if !slices.Contains(h[name], value) {
				h[name] = append(h[name], value)
			}
		}
	}
	a := &e.state.spec.Attributes
	if !a.ServerHeader {
		h.Del("Server")
	}
	for name, value := range a.ResponseHeaders {
		h.Set(name, value)
	}
}

// body is the body of a request.
type body struct {
	io.ReadCloser
	e     *exchange
	ended atomic.Bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.e.idle.reading.Store(true)
	n, err := b.ReadCloser.Read(p)
	b.e.idle.reading.Store(false)
	b.e.idle.touch()
	b.e.received.Add(int64(n))
	switch {
	case err == io.EOF: //nolint:errorlint // as io.Reader says
		b.ended.Store(true)
	case err != nil:
		b.e.idle.broken.Store(true)
	}
	return n, err
}
