package daemon

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/kube/clusterproxy"
)

// serveVPCs serves the AWS APIs to what is inside VPCs, until ctx ends. handler is that of the daemon's own endpoint.
func (d *daemon) serveVPCs(ctx context.Context, apis *endpoint.APIs, handler http.Handler) error {
	return serveBoth(ctx, apis, d.insideVPCs(handler), newCertificates(d.authority, apis.Addr().String()), shutdownTime,
		d.log)
}

// outsideVPCs adds to the daemon's own endpoint the console, and what is for clients that reach nothing else of this
// host: inside VPCs, publicAccessCidrs would not hold.
func (d *daemon) outsideVPCs(handler http.Handler) http.Handler {
	if d.settings.AdvertiseAddress == "" {
		return d.serveConsole(handler)
	}
	return d.serveConsole(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.settings.AdvertiseAddress == Auto || d.settings.AdvertiseAddress == r.Host {
			r = r.WithContext(clusterproxy.NewContext(r.Context(), r.Host))
		}
		if strings.HasPrefix(r.URL.Path, clusterproxy.Prefix) {
			d.apiServers.ServeHTTP(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
}

// insideVPCs leaves out of the daemon's own endpoint what is for processes of the host, and tells policies where in a
// VPC requests come from.
func (d *daemon) insideVPCs(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		source, inVPC, err := endpoint.SourceOf(r.Context(), local)
		if err != nil {
			d.log.Debug("the source of a request in a VPC is not known", "from", r.RemoteAddr, "error", err)
			http.Error(w, "the VPC of this request is not known; try again", http.StatusServiceUnavailable)
			return
		}
		if inVPC {
			r = r.WithContext(wire.WithVPCSource(r.Context(), vpcSource(source)))
		}
		if strings.HasPrefix(r.URL.Path, credentialsPrefix) {
			http.NotFound(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// vpcSource returns what policies may ask about the source of a request.
func vpcSource(s endpoint.Source) wire.VPCSource {
	if s.PublicIP.IsValid() {
		return wire.VPCSource{PublicIP: s.PublicIP.String()}
	}
	return wire.VPCSource{VPCID: s.VPCID, PrivateIP: s.PrivateIP.String(), EndpointID: s.EndpointID}
}
