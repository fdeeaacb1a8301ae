package application

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// rig is a Server that serves on the loopback.
type rig struct {
	*Server
	t       testing.TB
	spec    Listener
	address string
	roots   *x509.CertPool
	passed  atomic.Int64 // time

	mu      sync.Mutex
	entries []string // of the access log
}

// newRig returns a rig of a listener, whose options may be changed.
func newRig(t testing.TB, spec Listener, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, spec: spec, roots: x509.NewCertPool()}
	if r.spec.Secret == nil {
		r.spec.Secret = bytes.Repeat([]byte{1}, 32)
	}
	if r.spec.Port == 0 {
		r.spec.Port = 80
	}
	if r.spec.TLS != nil {
		for _, c := range r.spec.TLS.Certificates {
			r.roots.AppendCertsFromPEM([]byte(c.Chain))
		}
	}
	o := Options{
		Dial: func(ctx context.Context, target netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", target.String())
		},
		AccessLog: func(entry string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.entries = append(r.entries, entry)
		},
		Log: slog.New(slog.DiscardHandler),
		now: func() time.Time { return time.Now().Add(time.Duration(r.passed.Load())) },
	}
	for _, f := range change {
		f(&o)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if r.Server, err = New(r.spec, o); err != nil {
		t.Fatal(err)
	}
	r.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	t.Cleanup(func() {
		r.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return r
}

// logged returns an entry of the access log that has come meanwhile.
func (r *rig) logged(n int) string {
	r.t.Helper()
	var entry string
	eventually.True(r.t, "the request is logged", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.entries) > n {
			entry = r.entries[n]
		}
		return entry != ""
	})
	return entry
}

// client returns an HTTP client for any name, which all lead to the rig. It follows no redirects.
func (r *rig) client(h2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetHTTP2(h2)
	transport := &http.Transport{
		Protocols:       protocols,
		TLSClientConfig: &tls.Config{RootCAs: r.roots},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", r.address)
		},
		DisableCompression:  true,
		MaxIdleConnsPerHost: 128,
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: eventually.Limit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get requests a URL with headers, and returns the answer with its body read.
func get(t testing.TB, c *http.Client, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return do(t, c, r)
}

func do(t testing.TB, c *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// raw sends bytes to the rig, and returns what comes until it closes the connection.
func (r *rig) raw(request string) string {
	r.t.Helper()
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(c, request); err != nil {
		r.t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil && len(text) == 0 {
		r.t.Fatal(err)
	}
	return string(text)
}

// serveTarget serves a target on the loopback.
func serveTarget(t testing.TB, handler http.HandlerFunc) Target {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return targetAt(s.Listener.Addr())
}

func targetAt(at net.Addr) Target { return Target{Address: at.(*net.TCPAddr).AddrPort()} }

// say serves a target that says its name.
func say(t testing.TB, name string) Target {
	t.Helper()
	return serveTarget(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
}

// deadTarget returns a target that accepts no connection.
func deadTarget(t testing.TB) Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return targetAt(l.Addr())
}

// groupOf returns a target group with AWS's defaults.
func groupOf(id string, targets ...Target) TargetGroup {
	return TargetGroup{ID: id, ARN: "arn:" + id, Protocol: "HTTP", Version: HTTP1, Algorithm: RoundRobin, Targets: targets}
}

// forwardTo returns the action that forwards to target groups with equal weights.
func forwardTo(ids ...string) Action {
	f := &Forward{}
	for _, id := range ids {
		f.Groups = append(f.Groups, WeightedGroup{ID: id, Weight: 1})
	}
	return Action{Forward: f}
}

// fixed returns the action that answers with a text.
func fixed(text string) Action {
	return Action{FixedResponse: &FixedResponse{Status: 200, ContentType: "text/plain", Body: text}}
}

// defaultRule returns the default rule with an action.
func defaultRule(a ...Action) Rule { return Rule{Priority: "default", Actions: a} }

// forwarding returns a listener that forwards all to a target group.
func forwarding(g TargetGroup) Listener {
	return Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(forwardTo(g.ID))}, Groups: []TargetGroup{g}}
}

// secure returns a listener with TLS.
func secure(t testing.TB, spec Listener, names ...string) Listener {
	t.Helper()
	spec.Port, spec.TLS = 443, &TLS{}
	for _, name := range names {
		spec.TLS.Certificates = append(spec.TLS.Certificates, newCertificate(t, name))
	}
	return spec
}

func newCertificate(t testing.TB, name string) Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Certificate{
		ARN:   "arn:aws:acm:eu-west-1:111122223333:certificate/" + name,
		Chain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Key:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}
}
