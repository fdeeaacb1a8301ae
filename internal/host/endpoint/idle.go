package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// errIdle ends a request whose target sends nothing for the idle timeout.
var errIdle = errors.New("the target sends nothing for the idle timeout")

// requestBody is the body of a request, which ends when its client sends nothing for the idle timeout.
type requestBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
	// whole is set once it has been read, expired when the client has sent nothing for too long.
	whole, expired atomic.Bool
}

type requestBodyKey struct{}

// watchBody returns a request with a requestBody. The caller calls end when the request has been answered.
func watchBody(w http.ResponseWriter, r *http.Request, idle time.Duration) (watched *http.Request, end func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, func() {}
	}
	b := &requestBody{ReadCloser: r.Body, control: http.NewResponseController(w), idle: idle}
	watched = r.WithContext(context.WithValue(r.Context(), requestBodyKey{}, b))
	watched.Body = b
	return watched, func() {
		if !b.whole.Load() && !b.expired.Load() { // net/http reads what is left
			_ = b.control.SetReadDeadline(time.Now().Add(idle))
		}
	}
}

// answerGone answers a request whose context has ended: the client has gone, or has not sent all of the body, which
// net/http does not tell apart.
func answerGone(w http.ResponseWriter, r *http.Request) {
	if b, ok := r.Context().Value(requestBodyKey{}).(*requestBody); ok && !b.whole.Load() {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestTimeout)
		return
	}
	panic(http.ErrAbortHandler)
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(b.idle))
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF): // net/http waits for the client to go
		b.whole.Store(true)
		_ = b.control.SetReadDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.expired.Store(true) // the deadline stays: net/http waits no longer
	}
	return n, err
}

// answerBody is the body of an answer, which ends when the target sends nothing for the idle timeout.
type answerBody struct {
	io.ReadCloser
	idle   time.Duration
	cancel context.CancelCauseFunc // of the request
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	defer time.AfterFunc(b.idle, func() { b.cancel(errIdle) }).Stop()
	return b.ReadCloser.Read(p)
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
