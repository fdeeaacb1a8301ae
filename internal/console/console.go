// Package console serves the console: a page for browsers, below [Prefix] of the AWS endpoint.
//
// The page is a client like all others. It signs requests to the AWS APIs itself, and reaches the API servers of
// clusters with tokens of EKS. What is served here besides its files is no way around that:
//
//	/console/session                              POST: temporary credentials, for the one-time code of a link that
//	                                              "coracle console" printed
//	/console/kubernetes/<region>/<cluster>/<path> a request for the API server of a cluster of the caller's account,
//	                                              whom a token of EKS authenticates
//
// Browsers run what they are given by anybody. A page of another origin cannot read what is served here, nor have a
// browser send credentials, for there are no cookies. Requests by names that others may have pointed at this host (DNS
// rebinding) are refused, and the content security policy lets a page run and load what is served here, and nothing
// else.
//
//	assets.go      the files of the page, which console/ is built to (make console)
//	hosts.go       the names and addresses that the console is served under
//	session.go     one-time codes, and the credentials that they are exchanged for
//	kubernetes.go  requests for API servers
package console

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/originguard"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Prefix begins the path of everything that is served here.
const Prefix = "/console/"

// Paths that are not files of the page.
const (
	sessionPath      = Prefix + "session"
	kubernetesPrefix = Prefix + "kubernetes/"
)

// policy lets a page run and load what comes from its own origin. Styles in attributes are those that scripts set.
// https://www.w3.org/TR/CSP3/
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Options configures a [Console]. All fields but PublishedPort must be set.
type Options struct {
	// Region is the region that a sign-in begins in.
	Region string
	// ServedUnder reports whether the console may be reached under a name or address; see [ServedUnder].
	ServedUnder func(host string) bool
	// PublishedPort is set where clients of this host, too, come from another address: by a port of a container.
	PublishedPort bool
	// Credentials returns temporary credentials of the root user of an account.
	Credentials func(ctx context.Context, account string) (Credentials, error)
	// Account returns the account of whoever signed a token of EKS for the cluster with a name. The error is about the
	// token where refused is set.
	Account func(ctx context.Context, token, cluster string) (account string, refused bool, err error)
	// Clusters are those of all accounts, and API servers what sends requests on to theirs.
	Clusters   store.Table[record.Cluster]
	APIServers APIServers
	Log        *slog.Logger
}

// APIServers sends requests on to the API servers of clusters.
type APIServers interface {
	// ServeCluster sends on a request, whose path is one of Kubernetes.
	ServeCluster(w http.ResponseWriter, r *http.Request, clusterID string)
	// Error answers as an API server does.
	Error(w http.ResponseWriter, r *http.Request, err error)
}

// Console is an http.Handler for the requests that [Serves] tells.
type Console struct {
	options Options
	codes   codes
	index   []byte
}

// New returns a Console.
func New(o Options) *Console {
	return &Console{options: o, codes: codes{now: time.Now}, index: indexIn(o.Region)}
}

// ServedUnder reports whether the console may be reached under a name or address.
func (c *Console) ServedUnder(host string) bool { return c.options.ServedUnder(host) }

// Serves reports whether a request is for the console.
func Serves(r *http.Request) bool {
	return r.URL.Path+"/" == Prefix || strings.HasPrefix(r.URL.Path, Prefix)
}

// ServeHTTP serves the page and what it needs.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	secure(w.Header())
	switch {
	case !c.options.ServedUnder(r.Host):
		http.Error(w, fmt.Sprintf("The console is not served under the name %q, which others may have pointed at this "+
			"host. Open it under the address that \"coracle console\" prints, or let the daemon know the name with "+
			"\"coracle up --advertise-address NAME:PORT\".", r.Host), http.StatusMisdirectedRequest)
	case !c.isConfidential(r):
		http.Error(w, "Somebody on the network may read along: the console is served to other hosts by https alone. Open "+
			"https://"+r.Host+Prefix+".", http.StatusForbidden)
	case r.URL.Path+"/" == Prefix:
		http.Redirect(w, r, Prefix, http.StatusPermanentRedirect)
	case r.URL.Path == sessionPath:
		c.serveSession(w, r)
	case strings.HasPrefix(r.URL.Path, kubernetesPrefix):
		// What programs in a cluster answer is no page of the console's, whatever it claims to be, and nobody keeps it.
		originguard.Serve(w, r, http.HandlerFunc(c.serveKubernetes), func(h http.Header) {
			secure(h)
			h.Set("Cache-Control", "no-store")
		})
	default:
		c.serveFile(w, r)
	}
}

// isConfidential reports whether nobody on a network reads what a browser and the daemon say to each other.
func (c *Console) isConfidential(r *http.Request) bool {
	if r.TLS != nil || sourceOf(r).IsLoopback() {
		return true
	}
	// By a published port of a container, a browser's own loopback address is where the port is published.
	return c.options.PublishedPort && IsLoopback(r.Host)
}

// sourceOf returns the address of a client; the zero Addr where it has none.
func sourceOf(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}

// secure sets what holds for all answers.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// isSameOrigin reports whether a request is not one that a page of another origin made.
func isSameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	// Something before the daemon may have ended the TLS of a request that comes without.
	return err == nil && u.Host == r.Host && (u.Scheme == "https" || u.Scheme == "http" && r.TLS == nil)
}

// answerJSON answers with a value, which nobody keeps.
func (c *Console) answerJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		c.options.Log.Debug("a browser went away", "error", err)
	}
}
