// Package clusterproxy serves the API servers of clusters under a path of the AWS endpoint, for clients that reach no
// other address of this host: those outside of a container, of which one port is published.
//
// A request is sent on as it is, from this host, to the public endpoint of the cluster. The API server authenticates
// and authorizes it, and the cluster's endpointPublicAccess and publicAccessCidrs hold for it. Client certificates do
// not pass; EKS gives out none.
package clusterproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/httpstream"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/originguard"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

type addressKey struct{}

// NewContext returns a context for a request of a client that reaches the AWS endpoint at address, HOST:PORT, and
// nothing else of this host.
func NewContext(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// URL returns where the client whose request has the context reaches the API server of a cluster. It is empty for
// clients that reach the cluster's own endpoint.
func URL(ctx context.Context, clusterID string) string {
	address, ok := ctx.Value(addressKey{}).(string)
	if !ok {
		return ""
	}
	return "https://" + address + Prefix + clusterID
}

// Prefix begins the paths of all API servers; the ID of a cluster follows.
const Prefix = "/kubernetes/"

// maxHeader limits the size of an answer's header, in bytes. Programs of a cluster's users may write it: an aggregated
// API, or what answers in place of a kubelet.
const maxHeader = 256 << 10

// What an API server has sent of an answer that its client does not read, in bytes: of one, and of all on a connection.
const (
	maxUnread    = 64 << 10
	maxAllUnread = 16 << 20 // so that those whose clients do not read hold up no others
)

// dialTimeout limits the time in which a connection to an API server opens. Packets from sources outside of
// publicAccessCidrs are dropped, as on EKS.
const dialTimeout = 10 * time.Second

// Proxy serves the API servers of all clusters in a store. It is an http.Handler.
type Proxy struct {
	issuers  store.Table[record.Issuer]
	clusters store.Table[record.Cluster]
	planes   store.Table[record.ControlPlane]
	log      *slog.Logger

	mu        sync.Mutex
	upstreams map[string]*upstream // by cluster ID
}

// upstream is the API server of a cluster.
type upstream struct {
	endpoint, address string
	authority         []byte
	url               *url.URL
	transport         *http.Transport
	upgrades          *http.Transport // without HTTP/2, which has no upgrades
}

// RoundTrip implements http.RoundTripper.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if httpstream.IsUpgradeRequest(r) {
		return u.upgrades.RoundTrip(r)
	}
	return u.transport.RoundTrip(r)
}

func (u *upstream) closeIdleConnections() {
	u.transport.CloseIdleConnections()
	u.upgrades.CloseIdleConnections()
}

// New returns a proxy for the clusters of s.
func New(s *store.Store, log *slog.Logger) *Proxy {
	return &Proxy{issuers: record.Issuers(s), clusters: record.Clusters(s), planes: record.ControlPlanes(s), log: log,
		upstreams: make(map[string]*upstream)}
}

// ServeHTTP sends a request on to the API server of the cluster that its path names.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Prefix), "/")
	http.StripPrefix(Prefix+id, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.ServeCluster(w, r, id)
	})).ServeHTTP(w, r)
}

// ServeCluster sends a request, whose path is one of Kubernetes, on to the API server of the cluster with an ID.
func (p *Proxy) ServeCluster(w http.ResponseWriter, r *http.Request, id string) {
	to, err := p.find(r.Context(), id)
	if err != nil {
		p.Error(w, r, err)
		return
	}
	// Each takes memory, and a connection to the API server, for as long as its client likes.
	release, ok := connlimit.Acquire("API server of "+id, 1)
	if !ok {
		p.Error(w, r, apierrors.NewTooManyRequests("too many requests to the cluster are being sent on: try again", 1))
		return
	}
	defer release()
	// Watches and logs last as long as the API server has them last. What does not support deadlines has none.
	control := http.NewResponseController(w)
	if err := errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{})); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		p.Error(w, r, err)
		return
	}
	handler := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.url.Scheme, to.url.Host, ""
			r.Out.URL.RawQuery = r.In.URL.RawQuery // a query of Kubernetes, whatever httputil finds in it
			r.SetXForwarded()
		},
		Transport: to,
		// Of an upgrade as well, whose header no http.ResponseWriter sees.
		ModifyResponse: func(answer *http.Response) error {
			originguard.KeepOfCluster(answer.Header)
			return nil
		},
		FlushInterval: -1, // an event is of use when it happens
		ErrorHandler:  p.Error,
		ErrorLog:      slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	if r.ProtoAtLeast(1, 1) && r.ContentLength != 0 && r.Header.Get("Expect") != "" {
		// net/http would write this when the body is read, while another goroutine writes what is answered first:
		// https://go.dev/issue/80949.
		w.WriteHeader(http.StatusContinue)
		r.Header.Del("Expect")
	}
	handler.ServeHTTP(w, r)
}

// Error answers a request that cannot be sent on, as an API server does. It implements proxy.ErrorResponder.
func (p *Proxy) Error(w http.ResponseWriter, r *http.Request, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		p.log.Debug("cannot reach an API server for a client", "path", r.URL.Path, "error", err)
		status = apierrors.NewGenericServerResponse(http.StatusBadGateway, r.Method, schema.GroupResource{}, "",
			"the API server cannot be reached: "+err.Error(), 0, true)
	}
	answer := status.Status()
	answer.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(answer.Code))
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		p.log.Debug("client of an API server went away", "path", r.URL.Path, "error", err)
	}
}

// find returns the API server of the cluster with an ID. The error is an apierrors.APIStatus where there is none that
// clients may reach.
func (p *Proxy) find(ctx context.Context, id string) (*upstream, error) {
	issuer, err := p.issuers.Get(ctx, store.Key(id))
	if errors.Is(err, store.ErrNotFound) {
		p.forget(id)
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, id)
	} else if err != nil {
		return nil, err
	}
	key := record.ClusterKey(issuer.Value.Account, issuer.Value.Region, issuer.Value.Cluster)
	cluster, err := p.clusters.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && cluster.Value.ID != id { // the name may be another cluster's now
		p.forget(id)
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, id)
	} else if err != nil {
		return nil, err
	}
	plane, err := p.planes.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	switch {
	case !plane.Value.Ready:
		return nil, apierrors.NewServiceUnavailable("the control plane of the cluster is being created")
	case !cluster.Value.EndpointPublicAccess:
		return nil, apierrors.NewServiceUnavailable("the endpoint of the cluster has no public access " +
			"(endpointPublicAccess is false): it is reached from its VPC alone")
	}
	return p.open(id, plane.Value)
}

func (p *Proxy) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.upstreams[id]; u != nil {
		u.closeIdleConnections()
		delete(p.upstreams, id)
	}
}

// open returns the API server of a control plane, whose connections its requests share.
func (p *Proxy) open(id string, plane record.ControlPlane) (*upstream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.upstreams[id]
	if u != nil && u.endpoint == plane.Endpoint && u.address == plane.PublicAddress &&
		bytes.Equal(u.authority, plane.CertificateAuthority) {
		return u, nil
	}
	location, err := url.Parse(plane.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint of the cluster: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(plane.CertificateAuthority) {
		return nil, errors.New("the cluster has no certificate authority")
	}
	if u != nil {
		u.closeIdleConnections()
	}
	u = &upstream{endpoint: plane.Endpoint, address: plane.PublicAddress, authority: plane.CertificateAuthority,
		url: location}
	u.transport, u.upgrades = u.newTransport(roots, true), u.newTransport(roots, false)
	p.upstreams[id] = u
	return u, nil
}

// newTransport returns a transport to the API server, with or without HTTP/2.
func (u *upstream) newTransport(roots *x509.CertPool, http2 bool) *http.Transport {
	dialer := net.Dialer{Timeout: dialTimeout, Control: connlimit.BoundBuffers}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(http2)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if u.address != "" { // this host may not be able to resolve the name
				address = net.JoinHostPort(u.address, "443")
			}
			return dialer.DialContext(ctx, network, address)
		},
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: dialTimeout,
		Protocols:           protocols,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: maxUnread,
			MaxReceiveBufferPerConnection: maxAllUnread},
		DisableCompression:     true, // that is between the client and the API server
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
	}
}
