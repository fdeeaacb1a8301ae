package daemon

import (
	"context"
	"net/http"
	"strings"

	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/kube/clusterproxy"
)

// serveVPCs serves the AWS APIs to what is inside VPCs, until ctx ends. handler is that of the daemon's own endpoint.
func (d *daemon) serveVPCs(ctx context.Context, apis *endpoint.APIs, handler http.Handler) error {
	return serveBoth(ctx, apis, insideVPCs(handler), newCertificates(d.authority, apis.Addr().String()), shutdownTime,
		d.log)
}

// outsideVPCs adds to the daemon's own endpoint what is for clients that reach nothing else of this host: inside VPCs,
// publicAccessCidrs would not hold.
func (d *daemon) outsideVPCs(handler http.Handler) http.Handler {
	if d.settings.AdvertiseAddress == "" {
		return handler
	}
	clusters := clusterproxy.New(d.store, d.log)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.settings.AdvertiseAddress == Auto || d.settings.AdvertiseAddress == r.Host {
			r = r.WithContext(clusterproxy.NewContext(r.Context(), r.Host))
		}
		if strings.HasPrefix(r.URL.Path, clusterproxy.Prefix) {
			clusters.ServeHTTP(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// insideVPCs leaves out of the daemon's own endpoint what is for processes of the host.
func insideVPCs(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, credentialsPrefix) {
			http.NotFound(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
