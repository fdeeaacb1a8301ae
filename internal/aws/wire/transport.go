package wire

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Transport returns a RoundTripper that answers from m without a network: what controllers give to their SDK clients, so that their calls are
// signed, verified and authorised like everybody's.
func (m *Mux) Transport() http.RoundTripper { return inProcess{m} }

type inProcess struct{ handler http.Handler }

func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	// A handler owns the request that it is given; a RoundTripper must not change the one that it got.
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	defer in.Body.Close()
	if in.Host == "" {
		in.Host = in.URL.Host
	}
	in.RequestURI = in.URL.RequestURI()
	w := &recorded{header: http.Header{}}
	t.handler.ServeHTTP(w, in)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		StatusCode:    w.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(bytes.NewReader(w.body.Bytes())),
		ContentLength: int64(w.body.Len()),
		Request:       r,
	}, nil
}

// recorded is the http.ResponseWriter of an in-process request.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorded) Header() http.Header { return w.header }

func (w *recorded) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorded) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
