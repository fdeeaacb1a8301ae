package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/host/hostsfile"
	"github.com/coracle-eks/coracle/internal/host/trust"
)

const (
	// askedHeader marks requests of a daemon to another, which does not ask further.
	askedHeader = "Coracle-Asked-By-Daemon"
	// askTime bounds how long the other daemons may take, maxAsking the requests that are asked about at a time.
	askTime   = 3 * time.Second
	maxAsking = 16
	// maxDiscovery is the size of a discovery document or key set, at most.
	maxDiscovery = 256 << 10
)

// otherIssuers returns the handler that answers for the clusters of other daemons of this host: all of them give the
// name of the issuers of a region an address of their own, and programs take the first. It answers those who come from
// this host alone. Without a network it is nil: the name leads nowhere then.
func (d *daemon) otherIssuers() http.Handler {
	if d.host.apis == nil {
		return nil
	}
	return &otherIssuers{
		own: d.host.apis.Address(), host: d.host.hostAddress, addresses: hostsfile.Addresses, authorities: trust.Published,
		port: "443", asking: make(chan struct{}, maxAsking), log: d.log,
	}
}

type otherIssuers struct {
	own, host   netip.Addr // the address of the AWS APIs, and that from which this host calls them
	port        string
	addresses   func(name string) ([]netip.Addr, error)
	authorities func() ([][]byte, error)
	asking      chan struct{}
	log         *slog.Logger
}

func (o *otherIssuers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || from.Addr().Unmap() != o.host || r.TLS == nil || r.Header.Get(askedHeader) != "" {
		writeNotFound(w)
		return
	}
	select {
	case o.asking <- struct{}{}:
		defer func() { <-o.asking }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, `{"message":"Too Many Requests"}`, http.StatusTooManyRequests)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	body, header, err := o.ask(ctx, r)
	if err != nil {
		o.log.Warn("cannot ask the other daemons of this host for an issuer", "path", r.URL.Path, "error", err)
	}
	if body == nil {
		writeNotFound(w)
		return
	}
	for _, name := range []string{"Content-Type", "Cache-Control"} {
		w.Header().Set(name, header.Get(name))
	}
	if _, err := w.Write(body); err != nil {
		o.log.Debug("client of OIDC discovery went away", "path", r.URL.Path, "error", err)
	}
}

// ask returns the document of the daemon that has it; nil where none has.
func (o *otherIssuers) ask(ctx context.Context, r *http.Request) (body []byte, header http.Header, err error) {
	host, _, _ := strings.Cut(r.Host, ":")
	addresses, err := o.addresses(host)
	if err != nil {
		return nil, nil, err
	}
	authorities, err := o.authorities()
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	for _, authority := range authorities {
		roots.AppendCertsFromPEM(authority)
	}
	for _, address := range addresses {
		if address == o.own {
			continue
		}
		body, header, failed := askIssuer(ctx, net.JoinHostPort(address.String(), o.port), host, r.URL.Path, roots)
		if body != nil {
			return body, header, nil
		}
		if failed != nil {
			err = failed // it may have ended, and another have the document
		}
	}
	return nil, nil, err
}

// askIssuer asks the daemon at an address for a document; nil when it has none.
func askIssuer(ctx context.Context, address, host, path string, roots *x509.CertPool) ([]byte, http.Header, error) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+path, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set(askedHeader, "true")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDiscovery))
	return body, response.Header, err
}

func writeNotFound(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	io.WriteString(w, `{"message":"Not Found"}`) //nolint:errcheck // the client is gone
}
