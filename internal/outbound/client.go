package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/coracle-eks/coracle/internal/handshake"
)

const (
	connectTimeout = 3 * time.Second // of one address, and of a TLS handshake
	headerTimeout  = 30 * time.Second
	keepAlive      = 30 * time.Second
	maxHeader      = 256 << 10
	// MaxRedirects is the maximum number of redirects that a client follows.
	MaxRedirects = 3
)

// Options configures a [Transport] or [Client].
type Options struct {
	Policy
	// TLS verifies servers otherwise than by the host's certificate authorities (optional).
	TLS *tls.Config
	// MaxBody bounds the body of an answer in bytes. It must be set.
	MaxBody int64
	// MaxHeader bounds the header of an answer in bytes: 256 KiB unless set. Decoded, it takes up to 16 times as much.
	MaxHeader int64
	// Timeout bounds a request of a [Client] with its redirects and its body. Those of a [Transport] end with their
	// contexts.
	Timeout time.Duration
	// Proxy is that of the environment (HTTPS_PROXY, NO_PROXY), which is the operator's, unless set. It is reached
	// wherever it is, and is asked for addresses, not for names: what it resolves a name to would not be checked.
	Proxy func(*http.Request) (*url.URL, error)
	// Resolve resolves the names that a proxy is asked for, as [net.Resolver.LookupNetIP] does. It is that of the host
	// unless set.
	Resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
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

// NoRedirects makes an HTTP client return redirects as they are. Clients of API servers use it: an aggregated API is a
// user's program, which could redirect them anywhere, with their certificates.
func NoRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Transport returns the transport of a [Client], for libraries that have a client of their own.
func Transport(o Options) http.RoundTripper {
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	if o.Resolve == nil {
		o.Resolve = net.DefaultResolver.LookupNetIP
	}
	base := &http.Transport{
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // MaxBody counts what is read, not what it unpacks to
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: cmp.Or(o.MaxHeader, maxHeader),
		MaxIdleConns:           16,
		IdleConnTimeout:        keepAlive,
		// No context ends a request to a server that takes nothing.
		HTTP2: &http.HTTP2Config{SendPingTimeout: headerTimeout, WriteByteTimeout: headerTimeout},
	}
	t := &transport{o: o, secure: base, plain: base.Clone()}
	config := o.TLS.Clone()
	if config == nil {
		config = new(tls.Config)
	}
	config.NextProtos = []string{"h2", "http/1.1"}
	t.secure.DialTLSContext = handshake.Dialer((&proxied{
		policy: o.Policy, proxy: o.Proxy, resolve: o.Resolve, direct: o.Policy.Dialer().DialContext, tls: o.TLS,
		connect: (&net.Dialer{Timeout: connectTimeout, KeepAlive: keepAlive}).DialContext,
	}).dialProxy, config, connectTimeout)
	t.plain.DialContext = newDialer(func(a netip.Addr) error {
		if !o.Policy.isAllowed(a) {
			return &RefusedError{a}
		}
		return nil
	}).DialContext
	return t
}

// transport sends each request its way: encrypted, or plain to what the operator allowed.
type transport struct {
	o             Options
	secure, plain *http.Transport
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	way, err := t.chooseTransport(r)
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

func (t *transport) chooseTransport(r *http.Request) (*http.Transport, error) {
	if r.URL.User != nil {
		return nil, errors.New("a URL with a password is not for users")
	}
	switch r.URL.Scheme {
	case "https":
		return t.secure, nil
	case "http":
		// A proxy would be told the URL, and not the address that was checked.
		if proxy, err := t.o.Proxy(r); err != nil {
			return nil, fmt.Errorf("proxy of the environment: %w", err)
		} else if proxy == nil {
			return t.plain, nil
		}
	}
	return nil, fmt.Errorf("the scheme %q is not https", r.URL.Scheme)
}

// CloseIdleConnections ends connections that wait for the next request.
func (t *transport) CloseIdleConnections() {
	t.secure.CloseIdleConnections()
	t.plain.CloseIdleConnections()
}

// boundedBody fails, instead of ending, where there is more to read than it may.
type boundedBody struct {
	io.ReadCloser
	left int64
}

// ErrTooLarge reports that an answer is larger than [Options].MaxBody.
var ErrTooLarge = errors.New("the answer is too large")

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}
