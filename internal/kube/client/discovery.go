package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const (
	// discoveryTimeout ends requests of discovery, which take no context.
	discoveryTimeout = 15 * time.Second
	// maxDiscovery is the time that all requests of one discovery may take. client-go makes one for each version of
	// each API group, all at once, of an API server that does not return them in one response.
	maxDiscovery = time.Minute
	// requestValues is the number of values that a request counts as.
	requestValues = 64
)

// maxVersion is the maximum length in bytes of a version of an API server, or of its commit, which has 40.
const maxVersion = 64

// ServerVersion returns the version of the API server.
func (c *Client) ServerVersion(ctx context.Context) (version.Info, error) {
	var is version.Info
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	raw, err := c.Core.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(raw, &is)
	}
	if err == nil && max(len(is.GitVersion), len(is.GitCommit)) > maxVersion {
		err = fmt.Errorf("it has more than %d bytes", maxVersion)
	}
	if err != nil {
		return version.Info{}, fmt.Errorf("get the API server's version: %w", err)
	}
	return is, nil
}

// NewDiscovery makes a client that asks an API server for its kinds, over HTTP connections. All answers of one
// discovery together have the size limit that a single answer has elsewhere.
func NewDiscovery(config *rest.Config, connections *http.Client) (discovery.DiscoveryInterface, error) {
	limited := *connections
	limited.Timeout = discoveryTimeout
	limited.Transport = &discoveries{next: connections.Transport}
	return discovery.NewDiscoveryClientForConfigAndClient(config, &limited)
}

// discoveries bounds what the answers of one discovery have together.
type discoveries struct {
	next http.RoundTripper

	mu    sync.Mutex
	size  *listSize
	until time.Time
}

// WrappedRoundTripper lets the connections be closed.
func (t *discoveries) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *discoveries) RoundTrip(request *http.Request) (*http.Response, error) {
	t.mu.Lock()
	if t.size == nil || request.URL.Path == "/api" { // that is the first request
		t.size = &listSize{what: "the answers about kinds", maxBytes: MaxAnswer, maxValues: MaxValues}
		t.until = time.Now().Add(maxDiscovery)
	}
	size, late := t.size, time.Now().After(t.until)
	t.mu.Unlock()
	err := size.add(0, requestValues)
	if late {
		err = fmt.Errorf("the API server has not told its kinds within %s", maxDiscovery)
	}
	if err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, err
	}
	return t.next.RoundTrip(request.WithContext(context.WithValue(request.Context(), listKey{}, size)))
}
