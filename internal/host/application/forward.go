package application

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/host/headerfields"
)

// buffers are for the bodies of answers.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }

// FlushInterval is the time for which a part of an answer of known length is held back, so that its header and a short
// body take one system call rather than two. Of other answers, what a target writes goes on at once.
const FlushInterval = 5 * time.Millisecond

// newProxy returns what forwards requests to targets.
func newProxy(s *Server) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:      s,
		BufferPool:     new(buffers),
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		FlushInterval:  FlushInterval,
		Rewrite:        rewriteRequest,
		ModifyResponse: modifyResponse,
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			exchangeOf(r.Context()).failForward(err)
		},
	}
}

// forwardRequest forwards the request to a target group.
func (e *exchange) forwardRequest(f *Forward) {
	e.forward = f
	if e.group = e.chooseGroup(f); e.group == nil {
		e.answerError(http.StatusServiceUnavailable)
		return
	}
	grpc := e.isGRPC()
	switch version := e.group.spec.Version; {
	case e.r.ProtoMajor < 2 && version != HTTP1, grpc && version == HTTP1,
		version == GRPC && e.r.Method != http.MethodPost:
		e.answerError(statusIncompatible)
		return
	}
	if len(e.group.targets) == 0 {
		e.answerError(http.StatusServiceUnavailable)
		return
	}
	e.findSticky()
	if h := e.w.Header(); len(h) > 0 {
		// httputil sends what is there with the first informational answer, and clears it.
		e.own = maps.Clone(h)
		clear(h)
	}
	e.idle.start(e)
	e.server.proxy.ServeHTTP(e.w, e.r.WithContext(e))
}

// Continue has the client of a request of HTTP/1 send its body, and the target not asked whether it wants that. Else
// net/http says so to the client when the body is read, while another goroutine writes what the target says first:
// https://go.dev/issue/80949. Which version it has is not for the request to say: net/http takes "PRI * HTTP/2.0".
func Continue(w http.ResponseWriter, r *http.Request, h2 bool) {
	if h2 || r.Header.Get("Expect") == "" {
		return
	}
	if r.ProtoAtLeast(1, 1) && r.ContentLength != 0 {
		w.WriteHeader(http.StatusContinue)
	}
	r.Header.Del("Expect")
}

// RoundTrip implements http.RoundTripper. It sends a request to a target, and to another one if that accepts no
// connection.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	e := exchangeOf(r.Context())
	if e.transformed != "" && e.transformed != transformSuccess {
		return nil, errTransform
	}
	g := e.group
	r.URL.Scheme = g.pool.scheme
	content := r.Body
	var tried []*target
	err := errNoTarget
	for range mostTried {
		t := g.chooseTarget(e, tried)
		if t == nil {
			break
		}
		e.target, r.URL.Host = t, t.host
		if content != nil && content != http.NoBody {
			r.Body = io.NopCloser(content) // a target that accepts nothing must not close it for the next one
		}
		t.outstanding.Add(1)
		unbind := context.AfterFunc(t.ctx, func() { e.cancel(context.Cause(t.ctx)) })
		leave := func() {
			unbind()
			t.outstanding.Add(-1)
		}
		e.sent = time.Now()
		answer, failure := g.pool.transport.RoundTrip(r.WithContext(headerfields.InContext(r.Context())))
		if failure == nil {
			e.reached, e.headed, e.targetStatus = true, time.Now(), answer.StatusCode
			e.leave = leave
			return answer, nil
		}
		leave()
		var refused dialError
		if !errors.As(failure, &refused) || e.Err() != nil {
			return nil, failure // it may have the request
		}
		err, tried = failure, append(tried, t)
	}
	return nil, err
}

// modifyResponse changes an answer of a target.
func modifyResponse(r *http.Response) error {
	e := exchangeOf(r.Request.Context())
	if headerfields.Count(r.Header, r.Trailer) > headerfields.Most { // those of HTTP/2 are not counted while they come
		return headerfields.ErrMany
	}
	if r.StatusCode < 200 && r.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the target answers with the status %d", r.StatusCode) // net/http would panic
	}
	if r.StatusCode == http.StatusSwitchingProtocols && (!slices.ContainsFunc(r.Header["Connection"], func(s string) bool {
		return strings.Contains(strings.ToLower(s), "upgrade")
	}) || r.Request.Header.Get("Upgrade") == "" || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket")) {
		return errors.New("the target switches to what it was not asked for") // httputil would not close the connection
	}
	if r.StatusCode == http.StatusSwitchingProtocols {
		e.status = r.StatusCode
		e.upgraded.Store(true)
		e.finishHeaders(r.Header)
	}
	e.idle.touch()
	e.setStickiness(r)
	if r.Body != nil && r.StatusCode != http.StatusSwitchingProtocols {
		r.Body = &answerBody{ReadCloser: r.Body, e: e}
	}
	return nil
}

// answerBody is the body of an answer.
type answerBody struct {
	io.ReadCloser
	e *exchange
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.e.idle.touch()
	return n, err
}

// failForward answers a request that could not be forwarded, as AWS does:
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-troubleshooting.html
func (e *exchange) failForward(err error) {
	cause := context.Cause(e.Context)
	var refused dialError
	switch {
	case e.idle.expired.Load():
		e.w.Header().Set("Connection", "close")
		e.answerError(http.StatusRequestTimeout)
	case errors.Is(cause, errTargetSilent):
		e.answerError(http.StatusGatewayTimeout)
	case errors.Is(cause, errDeregistered):
		e.answerError(http.StatusBadGateway)
	case e.idle.broken.Load() && e.r.ProtoMajor == 1: // the client sent less than it said
		e.w.Header().Set("Connection", "close")
		e.answerError(http.StatusBadRequest)
	case e.r.Context().Err() != nil:
		e.abort()
	case errors.Is(err, errTransform):
		e.answerError(http.StatusInternalServerError)
	case errors.Is(err, errNoTarget), errors.Is(err, errShare):
		e.answerError(http.StatusServiceUnavailable)
	case errors.As(err, &refused) && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)):
		e.answerError(http.StatusGatewayTimeout)
	default:
		e.server.o.Log.Debug("a target does not answer", "target", fmt.Sprint(e.target), "error", err)
		e.answerError(http.StatusBadGateway)
	}
}
