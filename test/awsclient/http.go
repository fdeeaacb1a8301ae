// Package awsclient has the clients with which tests ask AWS's services: what the SDK speaks HTTP with, and the
// unmodified aws command line.
package awsclient

import (
	"bytes"
	"io"
	"net/http"
)

// HTTP returns an HTTPClient for the SDK in tests. It has a pool of connections of its own.
func HTTP() *http.Client { return &http.Client{Transport: copying{&http.Transport{}}} }

// copying sends a copy of each request's body. The SDK closes a body as soon as the answer begins, and when that comes
// before net/http has seen the body's end, as it may on a busy host, net/http closes the connection from which the
// answer is being read: "use of closed network connection".
type copying struct{ *http.Transport }

func (t copying) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return t.Transport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	copied := r.Clone(r.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body))
	return t.Transport.RoundTrip(copied)
}
