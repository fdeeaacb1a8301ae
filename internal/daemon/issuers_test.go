package daemon

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/pki"
)

// The name of an issuer leads to one daemon of the host, which asks the others.
func TestOtherDaemonsIssuers(t *testing.T) {
	t.Parallel()
	const name, path = "oidc.eks.eu-west-1.amazonaws.com", "/id/0123456789ABCDEF0123456789ABCDEF/keys"
	authority, err := pki.OpenAuthority(t.TempDir(), "ca", "other")
	if err != nil {
		t.Fatal(err)
	}
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != name || r.Header.Get(askedHeader) == "" || r.URL.Path != path {
			writeNotFound(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "keys") //nolint:errcheck // a test's
	}))
	other.TLS = &tls.Config{GetCertificate: newCertificates(authority).getCertificate, MinVersion: tls.VersionTLS12}
	other.StartTLS()
	t.Cleanup(other.Close)
	_, port, err := net.SplitHostPort(other.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	own := netip.MustParseAddr("127.0.0.9")
	o := &otherIssuers{
		own: own, host: netip.MustParseAddr("198.18.8.1"), port: port, asking: make(chan struct{}, 1),
		addresses: func(string) ([]netip.Addr, error) {
			return []netip.Addr{own, netip.MustParseAddr("127.0.0.1")}, nil
		},
		authorities: func() ([][]byte, error) { return [][]byte{authority.PEM}, nil },
		log:         slog.New(slog.DiscardHandler),
	}
	ask := func(edit func(*http.Request)) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "https://"+name+path, nil)
		r.RemoteAddr = "198.18.8.1:40000"
		if edit != nil {
			edit(r)
		}
		w := httptest.NewRecorder()
		o.ServeHTTP(w, r)
		return w
	}
	if w := ask(nil); w.Code != 200 || w.Body.String() != "keys" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, c := range []struct {
		name string
		edit func(*http.Request)
	}{
		{"from a VPC", func(r *http.Request) { r.RemoteAddr = "198.18.9.4:40000" }},
		{"without TLS", func(r *http.Request) { r.TLS = nil }},
		{"from another daemon", func(r *http.Request) { r.Header.Set(askedHeader, "true") }},
		{"that nobody has", func(r *http.Request) { r.URL.Path = strings.Replace(path, "0", "F", 1) }},
	} {
		if w := ask(c.edit); w.Code != 404 {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
	o.asking <- struct{}{}
	if w := ask(nil); w.Code != 429 {
		t.Errorf("while others ask: %d %s", w.Code, w.Body)
	}
	<-o.asking
	o.authorities = func() ([][]byte, error) { return nil, nil }
	if w := ask(nil); w.Code != 404 {
		t.Errorf("of a server that has no certificate of a daemon: %d %s", w.Code, w.Body)
	}
}
