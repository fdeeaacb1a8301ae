// Package client makes client-go's clients of API servers in the way that EKS's controllers need them: with connections
// of their own, without retries, and with the requests of kubectl where EKS uses kubectl.
package client

import (
	"errors"
	"io"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Client are client-go's clients of one API server, over connections of their own. [Client.Close] puts an end to those.
type Client struct {
	Config    *rest.Config
	HTTP      *http.Client // see [HTTP]
	Objects   dynamic.Interface
	Core      corev1client.CoreV1Interface
	Discovery discovery.DiscoveryInterface
}

// New makes clients of a cluster's API server with a user agent; client-go's when it is empty.
func New(config *rest.Config, cluster, userAgent string) (*Client, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next} })
	c := &Client{Config: config}
	var err error
	if c.HTTP, err = HTTP(config, cluster); err != nil {
		return nil, err
	}
	if c.Objects, err = dynamic.NewForConfigAndClient(config, c.HTTP); err != nil {
		return nil, err
	}
	if c.Core, err = corev1client.NewForConfigAndClient(config, c.HTTP); err != nil {
		return nil, err
	}
	c.Discovery, err = NewDiscovery(config, c.HTTP)
	return c, err
}

// Close closes the idle connections.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.HTTP.Transport) }

// Unreachable is the error of a request that the API server has not answered, or not completely.
type Unreachable struct{ Err error }

func (u *Unreachable) Error() string { return u.Err.Error() }

// Unwrap returns the cause.
func (u *Unreachable) Unwrap() error { return u.Err }

// transport distinguishes the errors of connections from the answers of an API server.
type transport struct{ next http.RoundTripper }

// WrappedRoundTripper lets [Client.Close] find the connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, &Unreachable{err}
	}
	response.Body = incomplete{response.Body}
	return response, nil
}

// incomplete is the body of an answer.
type incomplete struct{ io.ReadCloser }

func (b incomplete) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, ErrTooLarge) { //nolint:errorlint // a reader returns EOF itself
		err = &Unreachable{err}
	}
	return n, err
}
