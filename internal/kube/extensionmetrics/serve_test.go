package extensionmetrics_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/pki"
)

// plane is a control plane: its certificates, and a component.
type plane struct {
	config         extensionmetrics.Config
	ca, frontProxy *pki.Authority
}

func newPlane(t *testing.T) plane {
	t.Helper()
	p := plane{config: extensionmetrics.Config{Dir: t.TempDir()}}
	authority := func(name string) *pki.Authority {
		a, err := pki.NewAuthority(pki.Cluster, pki.Leaf{CommonName: name}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.config.Dir, name+".crt"), a.PEM, 0o600); err != nil {
			t.Fatal(err)
		}
		return a
	}
	p.ca, p.frontProxy = authority("ca"), authority("front-proxy-ca")
	for name, leaf := range map[string]pki.Leaf{
		extensionmetrics.ServingCertificate: {CommonName: "metrics", Server: true,
			DNSNames: []string{extensionmetrics.ServerName}},
		extensionmetrics.ClientCertificate: {CommonName: extensionmetrics.User, Client: true},
	} {
		if _, _, err := p.ca.Ensure(p.config.Dir, name, leaf); err != nil {
			t.Fatal(err)
		}
	}
	scheduler := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprintf(w, "%s %s as %s, accepting %q, for %q\n", r.Method, r.URL, r.TLS.PeerCertificates[0].Subject.CommonName,
			r.Header.Get("Accept"), r.Header.Get("X-Remote-User"))
	}))
	certificate := p.certificate(t, p.ca, pki.Leaf{CommonName: "health", Server: true,
		IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	scheduler.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert}
	scheduler.StartTLS()
	t.Cleanup(scheduler.Close)
	p.config.Components = map[string]string{"ksh": scheduler.URL + "/metrics", "kcm": "https://127.0.0.1:1/metrics"}
	return p
}

func (p plane) certificate(t *testing.T, a *pki.Authority, leaf pki.Leaf) tls.Certificate {
	t.Helper()
	issued, err := a.Issue(leaf)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// client returns a client that shows a certificate, as the aggregation layer of an API server does.
func (p plane) client(t *testing.T, shows ...tls.Certificate) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(p.ca.Certificate)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = extensionmetrics.Serve(t.Context(), conn, p.config) // the client reports it
			}()
		}
	}()
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: extensionmetrics.ServerName, Certificates: shows,
			MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(t *testing.T, c *http.Client, path string) (status int, kind, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://metrics"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/plain")
	request.Header.Set("X-Remote-User", "alice")
	response, err := c.Do(request)
	if err != nil {
		return 0, "", err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Content-Type"), string(bytes.TrimSpace(body))
}

func TestServe(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	c := p.client(t, p.certificate(t, p.frontProxy, pki.Leaf{CommonName: extensionmetrics.Client, Client: true}))
	for _, test := range []struct {
		path string
		want int
		says string
	}{
		{"/apis/metrics.eks.amazonaws.com/v1/ksh/container/metrics", 200,
			`GET /metrics as eks:extension-metrics-apiserver, accepting "text/plain", for ""`},
		{"/apis/metrics.eks.amazonaws.com/v1/kcm/container/metrics", 503,
			`"message":"the metrics of kcm cannot be read: connect: connection refused"`},
		{"/apis/metrics.eks.amazonaws.com/v1/etcd/container/metrics", 404, `"reason":"NotFound"`},
		{"/apis/metrics.eks.amazonaws.com/v1/ksh/../../metrics", 0, ""},
		{"/apis/metrics.eks.amazonaws.com/v1", 200, `"groupVersion":"metrics.eks.amazonaws.com/v1"`},
		{"/apis/metrics.eks.amazonaws.com", 200, `"name":"metrics.eks.amazonaws.com"`},
		{"/openapi/v2", 200, `"swagger":"2.0"`}, {"/openapi/v3", 200, `"paths":{}`},
		{"/metrics", 404, `"reason":"NotFound"`}, {"/", 404, `"reason":"NotFound"`},
	} {
		status, kind, text := get(t, c, test.path)
		if test.want == 0 {
			if strings.Contains(text, "GET /metrics") {
				t.Errorf("%s: %d %s", test.path, status, text)
			}
			continue
		}
		if status != test.want || !strings.Contains(text, test.says) {
			t.Errorf("%s: %d %s %s, want %d %s", test.path, status, kind, text, test.want, test.says)
		}
	}
}

// TestServeAdmitsTheAPIServerAlone has clients without a certificate, with one of the cluster's users, and with one of
// the aggregation layer's authority for somebody else.
func TestServeAdmitsTheAPIServerAlone(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	for name, shows := range map[string][]tls.Certificate{
		"nobody": nil,
		"a user": {p.certificate(t, p.ca, pki.Leaf{CommonName: extensionmetrics.Client, Client: true,
			Organization: []string{"system:masters"}})},
		"another": {p.certificate(t, p.frontProxy, pki.Leaf{CommonName: "other", Client: true})},
	} {
		if status, _, text := get(t, p.client(t, shows...), "/apis/metrics.eks.amazonaws.com/v1"); status != 0 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

func TestServeWithoutCertificates(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer here.Close()
	err := extensionmetrics.Serve(t.Context(), there, extensionmetrics.Config{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "eks-extension-metrics-api.crt") {
		t.Errorf("got %v", err)
	}
}
