package outbound

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

const (
	connectTimeout = 3 * time.Second // of one address, and of a TLS handshake
	headerTimeout  = 30 * time.Second
	keepAlive      = 30 * time.Second
	maxHeader      = 256 << 10
	// MaxRedirects is how often a client is led on.
	MaxRedirects = 3
)

// Options are how a [Transport] or [Client] asks.
type Options struct {
	Policy
	// TLS verifies servers otherwise than by the host's certificate authorities (optional).
	TLS *tls.Config
	// MaxBody bounds the body of an answer in bytes. It must be set.
	MaxBody int64
	// Timeout bounds a request of a [Client] with its redirects and its body. Those of a [Transport] end with their contexts.
	Timeout time.Duration
	// Proxy is that of the environment (HTTPS_PROXY, NO_PROXY), which is the operator's, unless set. It is asked for public
	// names only, and reached wherever it is.
	Proxy func(*http.Request) (*url.URL, error)
}

// Client returns an HTTP client for URLs that users chose.
func Client(o Options) *http.Client {
	return &http.Client{
		Transport: Transport(o),
		Timeout:   o.Timeout,
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > MaxRedirects {
				return fmt.Errorf("redirected more than %d times", MaxRedirects)
			}
			return nil
		},
	}
}

// NoRedirects has an HTTP client return redirects as they are. Clients of API servers use it: an aggregated API is a user's program,
// which would lead them anywhere, with their certificates.
func NoRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Transport returns the transport of a [Client], for libraries that have a client of their own.
func Transport(o Options) http.RoundTripper {
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	base := &http.Transport{
		TLSClientConfig:        o.TLS,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // MaxBody counts what is read, not what it unpacks to
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           16,
		IdleConnTimeout:        keepAlive,
	}
	t := &transport{o: o, direct: base, plain: base.Clone(), proxied: base.Clone()}
	t.direct.DialContext = o.Policy.Dialer().DialContext
	t.plain.DialContext = dialer(func(a netip.Addr) error {
		if !o.Policy.allows(a) {
			return &RefusedError{a}
		}
		return nil
	}).DialContext
	t.proxied.Proxy = o.Proxy
	t.proxied.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: keepAlive}).DialContext
	return t
}

// transport sends each request its way: encrypted and direct, plain to what the operator allowed, or through the operator's proxy.
type transport struct {
	o                      Options
	direct, plain, proxied *http.Transport
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	way, err := t.choose(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.URL.Redacted(), err)
	}
	response, err := way.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: t.o.MaxBody}
	return response, nil
}

func (t *transport) choose(r *http.Request) (*http.Transport, error) {
	if r.URL.User != nil {
		return nil, errors.New("a URL with a password is not for users")
	}
	proxy, err := t.o.Proxy(r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("proxy of the environment: %w", err)
	case r.URL.Scheme == "http" && proxy == nil:
		return t.plain, nil
	case r.URL.Scheme != "https":
		return nil, fmt.Errorf("the scheme %q is not https", r.URL.Scheme)
	case proxy == nil:
		return t.direct, nil
	}
	// The proxy resolves the name. What is no name of the internet is refused here.
	host := r.URL.Hostname()
	if a, err := netip.ParseAddr(host); err == nil {
		return t.proxied, t.o.Policy.Check(a)
	}
	if name := strings.ToLower(strings.TrimSuffix(host, ".")); name == "localhost" || strings.HasSuffix(name, ".localhost") || !strings.Contains(name, ".") {
		return nil, &RefusedError{}
	}
	return t.proxied, nil
}

// CloseIdleConnections ends connections that wait for the next request.
func (t *transport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	t.plain.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}

// boundedBody fails, instead of ending, where there is more to read than it may.
type boundedBody struct {
	io.ReadCloser
	left int64
}

// ErrTooLarge says that an answer is larger than [Options].MaxBody.
var ErrTooLarge = errors.New("the answer is too large")

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}
