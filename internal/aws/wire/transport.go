package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// Transport returns a RoundTripper that answers from m without a network: what controllers give to their SDK clients,
// so that their calls are signed, verified and authorized like everybody's. The body of an answer that is flushed, an
// event stream, is read while it is written.
func (m *Mux) Transport() http.RoundTripper { return inProcess{m} }

type inProcess struct{ handler http.Handler }

// inProcessKey marks the context of a request that took no network. Nothing outside of this file can set it.
type inProcessKey struct{}

// IsInProcess reports whether a request took no network: it is one of the daemon's own.
func IsInProcess(ctx context.Context) bool { return ctx.Value(inProcessKey{}) != nil }

// serviceHeader is the header of answers in this process that says which AWS service acts with the credentials of the
// request.
const serviceHeader = "X-Coracle-Service"

// ServiceOf returns the AWS service that made a request, given the answer of [Mux.Transport]: [Caller.Service] of whom
// its signature was verified for. It is empty for everybody else.
func ServiceOf(answer *http.Response) string { return answer.Header.Get(serviceHeader) }

func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	// A handler owns the request that it is given; a RoundTripper must not change the one that it got.
	ctx, cancel := context.WithCancel(r.Context())
	in := r.Clone(context.WithValue(ctx, inProcessKey{}, true))
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.Host == "" {
		in.Host = in.URL.Host
	}
	in.RequestURI = in.URL.RequestURI()
	w := &recorded{header: http.Header{}, flushed: make(chan struct{})}
	done := make(chan struct{})
	var panicked any
	go func() {
		defer close(done)
		defer cancel()
		defer in.Body.Close()
		defer w.closeBody()
		defer func() { panicked = recover() }()
		t.handler.ServeHTTP(w, in)
	}()
	response := &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r}
	select {
	case <-done:
		if panicked != nil {
			panic(panicked)
		}
		w.WriteHeader(http.StatusOK)
		response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(w.body.Bytes())), int64(w.body.Len())
	case <-w.flushed:
		response.Body, response.ContentLength = &streamed{w.reader, cancel, done}, -1
		context.AfterFunc(ctx, func() { w.writer.CloseWithError(context.Cause(ctx)) })
	}
	response.Status, response.StatusCode, response.Header = fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		w.status, w.sent
	return response, nil
}

// recorded is the http.ResponseWriter of an in-process request. Until it is flushed it keeps the body.
type recorded struct {
	header, sent http.Header
	status       int
	body         bytes.Buffer

	flushed chan struct{}
	reader  *io.PipeReader
	writer  *io.PipeWriter
}

func (w *recorded) Header() http.Header { return w.header }

func (w *recorded) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *recorded) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.writer != nil {
		return w.writer.Write(p)
	}
	return w.body.Write(p)
}

// Flush lets the client have what was written; from here on a Write ends when the client has read it.
func (w *recorded) Flush() {
	if w.writer != nil {
		return
	}
	w.WriteHeader(http.StatusOK)
	w.reader, w.writer = io.Pipe()
	close(w.flushed)
	w.writer.Write(w.body.Bytes()) //nolint:errcheck // a client that has gone away is told to the next Write
}

// closeBody ends the body of an answer that was flushed.
func (w *recorded) closeBody() {
	if w.writer != nil {
		w.writer.Close()
	}
}

// streamed is the body of an answer that the handler is still writing. Closing it ends the handler.
type streamed struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   <-chan struct{}
}

func (s *streamed) Close() error {
	s.cancel()
	err := s.PipeReader.Close()
	<-s.done
	return err
}
