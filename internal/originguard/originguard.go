// Package originguard keeps answers that others have a say in from acting for the origin that they come from.
//
// The AWS endpoint and the console share an origin. Objects of buckets, layers of images and programs in clusters are
// answered there as well, and a browser that opens one of these must neither run it as a page or a script of the
// origin, nor change by its header what the browser keeps for the origin. Clients that are no browsers read none of the
// headers that are added or dropped.
package originguard

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
)

// Policy has a browser show an answer in an origin of its own, without scripts and without requests of its own. It is
// one more policy beside those of the answer: all have to allow something.
// https://www.w3.org/TR/CSP3/
const Policy = "sandbox; default-src 'none'; frame-ancestors 'none'"

// kept are the headers with which an answer changes what a browser keeps for the whole origin, or host, and Refresh,
// which leads on from an answer. Their names are in canonical form.
var kept = [...]string{"Accept-Ch", "Activate-Storage-Access", "Alt-Svc", "Clear-Site-Data", "Critical-Ch", "Nel",
	"Refresh", "Report-To", "Reporting-Endpoints", "Secure-Session-Challenge", "Secure-Session-Registration",
	"Service-Worker-Allowed", "Set-Cookie", "Set-Login", "Speculation-Rules", "Strict-Transport-Security",
	"Use-As-Dictionary"}

// strip removes from the header of an answer what changes the state of a browser, as far as that is known.
func strip(h http.Header) {
	for _, name := range kept {
		delete(h, name)
	}
}

// ofClusters are the headers that API servers send, and the programs behind them, and that clients read. Those that
// begin with "X-" are no browser's.
var ofClusters = [...]string{"Accept-Ranges", "Age", "Allow", "Audit-Id", "Cache-Control", "Connection",
	"Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Range",
	"Content-Security-Policy", "Content-Type", "Date", "Etag", "Expires", "Grpc-Message", "Grpc-Status", "Last-Modified",
	"Location", "Retry-After", "Sec-Websocket-Accept", "Sec-Websocket-Extensions", "Sec-Websocket-Protocol",
	"Server", "Trailer", "Transfer-Encoding", "Upgrade", "Vary", "Warning"}

// KeepOfCluster removes from the header of an answer of a cluster all but what clients read: a cluster runs programs of
// its users, and has no say in what a browser keeps, or asks its user.
func KeepOfCluster(h http.Header) {
	for name := range h {
		if !slices.Contains(ofClusters[:], name) && !strings.HasPrefix(name, "X-") {
			delete(h, name)
		}
	}
}

// Handler returns a handler whose answers are those of handler, guarded. Pages of the origin get none of them as a
// script, a worker or a style: they may read them only.
func Handler(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isRun(r) {
			http.Error(w, "What is answered here is no part of a page of this origin.", http.StatusForbidden)
			return
		}
		Serve(w, r, handler, nil)
	})
}

// isRun reports whether a page of this origin runs or embeds what is answered.
// https://www.w3.org/TR/fetch-metadata/
func isRun(r *http.Request) bool {
	if r.Header.Get("Service-Worker") != "" {
		return true
	}
	if r.Header.Get("Sec-Fetch-Site") != "same-origin" {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Dest") {
	case "", "empty", "document", "image", "websocket": // a request of a script, or a page of its own
		return false
	}
	return true
}

// Serve has handler answer a request, guarded. set adds to the header of the answer, whatever the handler made of it
// (optional).
func Serve(w http.ResponseWriter, r *http.Request, handler http.Handler, set func(http.Header)) {
	guarded := &writer{ResponseWriter: w, set: set}
	handler.ServeHTTP(guarded, r)
	guarded.begin() // an answer without content
}

// writer guards an answer when its header is written: no handler and no proxy takes that away. A proxy that passes
// interim answers on clears the header after each of them.
type writer struct {
	http.ResponseWriter
	set   func(http.Header)
	begun bool
}

// begin guards the header, once.
func (w *writer) begin() {
	if w.begun {
		return
	}
	w.begun = true
	h := w.Header()
	strip(h)
	h.Add("Content-Security-Policy", Policy)
	if w.set != nil {
		w.set(h)
	}
}

// WriteHeader leaves out interim answers but for the invitation to send a body, which has no header. Browsers act on
// their headers.
func (w *writer) WriteHeader(status int) {
	switch {
	case status == http.StatusContinue:
		h := w.Header()
		saved := maps.Clone(h)
		clear(h)
		w.ResponseWriter.WriteHeader(status)
		maps.Copy(h, saved)
		return
	case status == http.StatusSwitchingProtocols, status < 100 || status >= 200:
		w.begin()
	default:
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom: the kernel may move the bytes.
func (w *writer) ReadFrom(from io.Reader) (int64, error) {
	w.begin()
	return io.Copy(w.ResponseWriter, from)
}

// Flush implements http.Flusher.
func (w *writer) Flush() { w.FlushError() } //nolint:errcheck,gosec // http.Flusher has no error

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. Who takes the connection writes the header, too, and begins with [writer.Header].
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin()
	}
	return conn, both, err
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
