package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/pki"
)

func TestOnePortSpeaksPlainAndTLS(t *testing.T) {
	t.Parallel()
	ca, err := pki.OpenAuthority(t.TempDir(), "ca", "test")
	if err != nil {
		t.Fatal(err)
	}
	l, err := openListener("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s tls=%v %s", r.Host, r.TLS != nil, r.Proto)
	})
	go func() {
		ended <- serveBoth(ctx, l, handler, newCertificates(ca, address), time.Second, slog.New(slog.DiscardHandler))
	}()

	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate)
	client := http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		// Every name leads here, as /etc/hosts or a resolver would have it.
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}
	defer client.CloseIdleConnections()
	get := func(url string) (string, error) {
		resp, err := client.Get(url)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	for url, want := range map[string]string{
		"http://" + address:                         address + " tls=false HTTP/1.1",
		"https://" + address:                        address + " tls=true HTTP/1.1",
		"https://localhost":                         "localhost tls=true HTTP/1.1",
		"https://sts.eu-west-1.amazonaws.com":       "sts.eu-west-1.amazonaws.com tls=true HTTP/1.1",
		"https://oidc.eks.us-east-1.amazonaws.com/": "oidc.eks.us-east-1.amazonaws.com tls=true HTTP/1.1",
	} {
		if got, err := get(url); err != nil || got != want {
			t.Errorf("GET %s: %q, %v; want %q", url, got, err, want)
		}
	}
	if got, err := get("https://example.com"); err == nil {
		t.Errorf("a certificate for example.com was issued: %q", got)
	}

	// A connection that says nothing holds nobody up, not even the end.
	silent, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if got, err := get("http://" + address); err != nil {
		t.Errorf("beside a silent connection: %q, %v", got, err)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("serving ended with: %v", err)
		}
	case <-time.After(eventually.Limit):
		t.Error("serving does not end")
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("the port is still open")
	}
}

// TestTLSIsServedFromTheStart starts many, because it depends on the order in which their two halves start. HTTP/2 is
// not offered.
func TestTLSIsServedFromTheStart(t *testing.T) {
	t.Parallel()
	ca, err := pki.OpenAuthority(t.TempDir(), "ca", "test")
	if err != nil {
		t.Fatal(err)
	}
	certificates := newCertificates(ca, "127.0.0.1:0")
	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate)
	for range 50 {
		l, err := openListener("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- serveBoth(ctx, l, http.NotFoundHandler(), certificates, time.Second, slog.New(slog.DiscardHandler))
		}()
		client := http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{RootCAs: roots}}}
		if resp, err := client.Get("https://" + l.Addr().String()); err != nil {
			t.Error(err)
		} else {
			if resp.ProtoMajor != 1 {
				t.Errorf("TLS speaks %s", resp.Proto)
			}
			resp.Body.Close()
		}
		client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// OpenSSL takes a certificate with the name of its issuer for one that signs itself.
func TestCertificatesAreNotNamedAsTheirIssuer(t *testing.T) {
	t.Parallel()
	authority, err := pki.OpenAuthority(t.TempDir(), "ca", "coracle") // as Serve does
	if err != nil {
		t.Fatal(err)
	}
	c := newCertificates(authority, "127.0.0.1:4566")
	for _, name := range []string{"", "localhost", "sts.amazonaws.com"} {
		cert, err := c.getCertificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		if cert.Leaf.Subject.String() == cert.Leaf.Issuer.String() || len(cert.Leaf.AuthorityKeyId) == 0 {
			t.Errorf("%q is of %s, by %s", name, cert.Leaf.Subject, cert.Leaf.Issuer)
		}
	}
}

func TestCertificatesDoNotPileUp(t *testing.T) {
	t.Parallel()
	ca, err := pki.OpenAuthority(t.TempDir(), "ca", "test")
	if err != nil {
		t.Fatal(err)
	}
	c := newCertificates(ca, "127.0.0.1:4566")
	for i := range maxCertificates + 10 {
		if _, err := c.getCertificate(&tls.ClientHelloInfo{ServerName: fmt.Sprintf("x%d.amazonaws.com",
			i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.made) > maxCertificates {
		t.Errorf("%d certificates are kept", len(c.made))
	}
	// Nor is one made for what is no name: TLS lets a client send 60 KB.
	for _, name := range []string{
		strings.Repeat("a", 64) + ".amazonaws.com", strings.Repeat("a.", 125) + "amazonaws.com", "a b.amazonaws.com",
		strings.Repeat("a", 60_000) + ".amazonaws.com",
	} {
		cert, err := c.getCertificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil || cert.Leaf.Subject.CommonName != hostName {
			t.Errorf("%.20s… gets a certificate of its own, %v", name, err)
		}
	}
}
