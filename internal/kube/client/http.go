package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/document"
	"github.com/coracle-eks/coracle/internal/outbound"
)

// What an API server answers is not to be trusted: for any API group, those that are built in included, a cluster's
// administrator can register an APIService that leads to a program of their own. The bounds hold for each answer, and
// for each event of a watch. Their number of values bounds what an answer grows to when it is decoded: "{}," is three
// bytes, and a pod of Go's a thousand. Quantities are checked before they are decoded; see document.Quantities.
const (
	// MaxAnswer is the largest answer that a client reads, in bytes: far more than etcd takes of one object.
	MaxAnswer = 32 << 20
	// MaxEvent is the largest event of a watch, or object of a list, in bytes. Objects in etcd have 1.5 MiB at most, of
	// which JSON makes six times as much where it has nothing but "<". Of what is larger little is read; see WithPartial.
	MaxEvent = 10 << 20
	// MaxValues is the largest number of values (elements, members, arrays and objects) in the JSON of an answer.
	MaxValues = 1 << 18
	// MaxEventValues is the largest number of values in the JSON of an event, or an object of a list.
	MaxEventValues = 1 << 16
	// MaxDepth is the maximum nesting depth of the JSON of a response or an event. Schemas of CustomResourceDefinitions
	// have a hundred levels; the paths to the fields of an object that is nested deeper cost more than the object.
	MaxDepth = 512
	// MaxList is the largest list that a client reads, in bytes of all its pages. See EachPage.
	MaxList = 256 << 20
	// MaxListValues is the largest number of values in the JSON of all pages of a list.
	MaxListValues = 1 << 24

	// maxRawAnswer and maxRawList bound the same where objects are too large to be decoded.
	maxRawAnswer, maxRawList = 8 * MaxAnswer, 8 * MaxList
	// readSize is how much is read of such an answer at a time.
	readSize = 32 << 10

	maxHeader = 256 << 10
	// maxConnections is the maximum number of connections of a client to an API server that does not speak HTTP/2.
	maxConnections = 256

	connectTimeout = 10 * time.Second
	headerTimeout  = time.Minute
	idleTimeout    = 90 * time.Second
	// bodyTimeout bounds requests other than watches. Many have a shorter deadline of their own.
	bodyTimeout = 2 * time.Minute
)

// ErrTooLarge reports that an answer, or an event of a watch, is larger than a client reads.
var ErrTooLarge = errors.New("more than is read of an API server")

// HTTP returns a client of one API server for clients of client-go. All clients of API servers come from here; the test
// of internal/importrules refuses others. cluster is the name of the cluster, for errors. The client
//
//   - bounds what it reads; see MaxAnswer,
//   - cuts the texts of errors; see MaxText,
//   - does not wait when an API server says so (Retry-After): controllers have a queue for that,
//   - neither asks for compressed answers nor takes them: a few megabytes unpack to gigabytes,
//   - asks for JSON and takes nothing else, for watches too: what protobuf grows to cannot be told from its bytes,
//   - does not follow redirects, and
//   - has connections of its own, which end with CloseIdleConnections and are checked while they are quiet.
func HTTP(config *rest.Config, cluster string) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	base := utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig: tls, DialContext: config.Dial, ForceAttemptHTTP2: true, DisableCompression: true,
		// API servers are never behind a proxy.
		Proxy:               func(*http.Request) (*url.URL, error) { return nil, nil },
		TLSHandshakeTimeout: connectTimeout, ResponseHeaderTimeout: headerTimeout, MaxResponseHeaderBytes: maxHeader,
		// HTTP/2 needs one; without it a thousand simulated nodes would want a thousand.
		MaxIdleConnsPerHost: 64, IdleConnTimeout: idleTimeout, MaxConnsPerHost: maxConnections,
	})
	wrapped, err := rest.HTTPWrappersForConfig(config, &bounded{base, cluster})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: wrapped, CheckRedirect: outbound.NoRedirects}, nil
}

// bounded bounds what API servers answer.
type bounded struct {
	next    http.RoundTripper
	cluster string
}

// WrappedRoundTripper lets the connections be closed.
func (t *bounded) WrappedRoundTripper() http.RoundTripper { return t.next }

// CloseIdleConnections ends connections that wait for the next request.
func (t *bounded) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(t.next) }

func (t *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	isWatch := request.URL.Query().Get("watch") != ""
	if !isWatch {
		ctx, cancel = context.WithTimeout(request.Context(), bodyTimeout)
	}
	var isConnected atomic.Bool
	request = request.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { isConnected.Store(true) }}))
	if accept := request.Header.Get("Accept"); strings.Contains(accept, protobuf) {
		request.Header.Set("Accept", withoutProtobuf(accept))
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		cancel()
		if !isConnected.Load() {
			return nil, unreached{err}
		}
		return nil, err
	}
	b := &body{
		ReadCloser: response.Body, cancel: cancel, request: request, cluster: t.cluster,
		meter: meter{maxBytes: MaxAnswer, maxValues: MaxValues},
	}
	b.list, _ = ctx.Value(listKey{}).(*listSize)
	if response.StatusCode == http.StatusOK && (isWatch || b.list.hasItems()) {
		b.items = newItems(isWatch, b.list)
	}
	// client-go would wait that long and try again, up to ten times, while a worker waits with it.
	response.Header.Del("Retry-After")
	response.Header.Del("Warning") // for users, not for the daemon's log
	response.Body = b
	if err := checkResponse(response); err != nil {
		response.Body.Close()
		return nil, b.requestError(err)
	}
	if response.StatusCode < http.StatusOK || response.StatusCode > http.StatusPartialContent { // as client-go has it
		if isWatch {
			defer time.AfterFunc(bodyTimeout, cancel).Stop()
		}
		if err := cutFailure(response); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// checkResponse refuses answers in a form that was not asked for.
func checkResponse(response *http.Response) error {
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Errorf("the answer is encoded as %q, which was not asked for", cut(encoding, maxWord))
	}
	full := response.Header.Get("Content-Type")
	if full == "" {
		// Clients of client-go would take it for what they prefer, protobuf.
		full = "application/json"
		response.Header.Set("Content-Type", full)
	}
	kind, _, err := mime.ParseMediaType(full)
	if err != nil {
		return fmt.Errorf("the answer's content type %q: %w", cut(full, maxWord), err)
	}
	if kind == "application/json" || strings.HasPrefix(kind, "text/") {
		return nil
	}
	return fmt.Errorf("the answer's content type is %q, which was not asked for", cut(kind, maxWord))
}

// withoutProtobuf returns a header field Accept without what it has of protobuf. Clients of metadata name two forms of
// it, and get whole objects unless that of JSON stays.
func withoutProtobuf(accept string) string {
	types := slices.DeleteFunc(strings.Split(accept, ","), func(t string) bool { return strings.Contains(t, protobuf) })
	return cmp.Or(strings.Join(types, ","), "application/json")
}

const protobuf = "application/vnd.kubernetes.protobuf"

// body is the body of an answer, up to the bounds of its meter.
type body struct {
	io.ReadCloser
	cancel  context.CancelFunc
	request *http.Request
	cluster string
	meter   meter
	list    *listSize // nil for what is no list
	items   *items    // of a list or a watch
	buffer  []byte
	err     error
}

func (b *body) Read(p []byte) (int, error) {
	if b.items != nil {
		return b.readItems(p)
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	before := b.meter.values
	exceeded := b.meter.add(p[:n])
	if exceeded == nil {
		exceeded = b.list.add(n, b.meter.values-before)
	}
	if exceeded != nil {
		b.err = b.requestError(exceeded)
		return 0, b.err
	}
	return n, err
}

// readItems reads an answer object by object.
func (b *body) readItems(p []byte) (int, error) {
	for len(b.items.ready) == 0 && b.err == nil {
		if b.buffer == nil {
			b.buffer = make([]byte, readSize)
		}
		n, err := b.ReadCloser.Read(b.buffer)
		if b.err = err; n > 0 {
			if exceeded := b.items.add(b.buffer[:n]); exceeded != nil {
				b.err = b.requestError(exceeded)
				return 0, b.err
			}
		}
	}
	n := copy(p, b.items.ready)
	if b.items.ready = b.items.ready[n:]; len(b.items.ready) > 0 {
		return n, nil
	}
	b.items.ready = nil
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// Close ends the request, too.
func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

func (b *body) requestError(err error) error {
	at := b.request.URL.Path
	if b.cluster != "" {
		at = "cluster " + b.cluster + ": " + at
	}
	return fmt.Errorf("%s %s: %w", b.request.Method, at, err)
}

// meter counts the bytes and values of an answer, or of one of its objects, and checks its quantities.
type meter struct {
	maxBytes, maxValues int

	bytes, values int
	// The state of the JSON.
	depth             int
	inString, escaped bool
	quantities        document.Quantities
}

// add returns an error once the bounds are exceeded.
func (m *meter) add(p []byte) error {
	if err := m.quantities.Add(p); err != nil {
		return fmt.Errorf("the answer: %w, %w", err, ErrTooLarge)
	}
	for _, c := range p {
		m.bytes++
		switch {
		case m.escaped:
			m.escaped = false
		case m.inString:
			m.escaped, m.inString = c == '\\', c != '"'
		case c == '"':
			m.inString = true
		case c == ',':
			m.values++
		case c == '{', c == '[':
			m.values++
			if m.depth++; m.depth > MaxDepth {
				return fmt.Errorf("the answer nests deeper than %d levels, %w", MaxDepth, ErrTooLarge)
			}
		case c == '}', c == ']':
			m.depth--
		}
	}
	return m.checkBounds()
}

func (m *meter) checkBounds() error {
	if m.bytes > m.maxBytes {
		return fmt.Errorf("the answer is larger than %d MiB, %w", m.maxBytes>>20, ErrTooLarge)
	}
	if m.values > m.maxValues {
		return fmt.Errorf("the answer has more than %d values, %w", m.maxValues, ErrTooLarge)
	}
	return nil
}
