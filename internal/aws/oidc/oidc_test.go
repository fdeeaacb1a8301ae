package oidc

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	region = "eu-west-1"
	id     = "0123456789ABCDEF0123456789ABCDEF"
	issuer = "https://oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF0123456789ABCDEF"
)

// cluster is a cluster whose issuer is recorded, and its private key.
type cluster struct {
	handler http.Handler
	key     *rsa.PrivateKey
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	jwks, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1",
		Algorithm: "RS256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := storetest.New(t)
	_, err = record.Issuers(s).Create(t.Context(), store.Key(id), record.Issuer{Account: "111122223333", Region: region,
		Cluster: "c", JWKS: jwks})
	if err != nil {
		t.Fatal(err)
	}
	return cluster{Handler(s, nil, slog.New(slog.DiscardHandler)), key}
}

// token returns a token as an API server gives it to a service account.
func (c cluster) token(t *testing.T, iss string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: c.key},
		(&jose.SignerOptions{}).WithHeader("kid", "k1"))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(map[string]any{
		"iss": iss, "sub": "system:serviceaccount:default:app", "aud": []string{"sts.amazonaws.com"},
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, test := range []struct {
		name, method, url string
		status            int
		jwksURI           string // of a discovery document
	}{
		{"by the endpoint", "GET", "http://127.0.0.1:4566/id/" + id + "/.well-known/openid-configuration", 200,
			"http://127.0.0.1:4566/id/" + id + "/keys"},
		{"by the endpoint over TLS", "GET", "https://localhost:4566/id/" + id + "/.well-known/openid-configuration",
			200, "https://localhost:4566/id/" + id + "/keys"},
		{"by EKS's name", "GET", issuer + "/.well-known/openid-configuration", 200, issuer + "/keys"},
		{"by EKS's name and our port", "GET", "https://oidc.eks.eu-west-1.amazonaws.com:4566/id/" + id +
			"/.well-known/openid-configuration", 200, "https://oidc.eks.eu-west-1.amazonaws.com:4566/id/" + id +
			"/keys"},
		{"by EKS's name of another region", "GET", strings.Replace(issuer, region, "eu-west-2", 1) +
			"/.well-known/openid-configuration", 404, ""},
		{"keys of another region", "GET", strings.Replace(issuer, region, "eu-west-2", 1) + "/keys", 404, ""},
		{"another cluster", "GET", "http://127.0.0.1:4566/id/FFFF/.well-known/openid-configuration", 404, ""},
		{"keys of another cluster", "GET", "http://127.0.0.1:4566/id/FFFF/keys", 404, ""},
		{"ID in lower case", "GET", "http://127.0.0.1:4566/id/" + strings.ToLower(id) + "/keys", 404, ""},
		{"ID with a slash in it", "GET", "http://127.0.0.1:4566/id/" + id + "%2f/keys", 404, ""},
		{"without a document", "GET", "http://127.0.0.1:4566/id/" + id, 404, ""},
		{"POST", "POST", "http://127.0.0.1:4566/id/" + id + "/keys", 405, ""},
		{"HEAD", "HEAD", "http://127.0.0.1:4566/id/" + id + "/keys", 200, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			c.handler.ServeHTTP(w, httptest.NewRequest(test.method, test.url, nil))
			if w.Code != test.status {
				t.Fatalf("status is %d, want %d: %s", w.Code, test.status, w.Body)
			}
			cache := w.Header().Get("Cache-Control")
			if w.Code == 200 && (cache != "public, max-age=3600" ||
				w.Header().Get("Content-Type") != "application/json") {
				t.Errorf("headers are %v", w.Header())
			}
			if w.Code == 404 && strings.Contains(cache, "public") {
				t.Errorf("a 404 may be cached: %q", cache)
			}
			if test.jwksURI == "" {
				return
			}
			var got map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"issuer":                                issuer,
				"jwks_uri":                              test.jwksURI,
				"authorization_endpoint":                "urn:kubernetes:programmatic_authorization",
				"response_types_supported":              []any{"id_token"},
				"subject_types_supported":               []any{"public"},
				"claims_supported":                      []any{"sub", "iss"},
				"id_token_signing_alg_values_supported": []any{"RS256"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}

// What EKS's name of a region leads here for and is not here may be another daemon's.
func TestUnknownIssuersMayBeElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := Handler(storetest.New(t), elsewhere, slog.New(slog.DiscardHandler))
	for url, want := range map[string]int{
		issuer + "/keys": http.StatusTeapot,
		issuer + "/.well-known/openid-configuration": http.StatusTeapot,
		"http://127.0.0.1:4566/id/" + id + "/keys":   http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", url, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", url, w.Code, want)
		}
	}
}

// A third party knows nothing but the issuer; its resolver and its trust lead it here.
func TestThirdPartyVerifiesTokens(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	authority, err := pki.OpenAuthority(t.TempDir(), "ca", "test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Leaf{CommonName: record.IssuerHost(region),
		DNSNames: []string{record.IssuerHost(region)}, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(c.handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(authority.Certificate)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != record.IssuerHost(region)+":443" {
				t.Errorf("the client wants to reach %s", address)
			}
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	ctx := gooidc.ClientContext(t.Context(), &http.Client{Transport: transport})
	provider, err := gooidc.NewProvider(ctx, issuer)
	if err != nil {
		t.Fatal(err)
	}
	verify(t, ctx, c, provider)
}

// A verifier with a discovery URL of its own reaches both documents by the plain endpoint: this is
// what an API server does with discoveryURL.
func TestVerifierWithDiscoveryURL(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	server := httptest.NewServer(c.handler)
	t.Cleanup(server.Close)
	ctx := gooidc.InsecureIssuerURLContext(t.Context(), issuer)
	provider, err := gooidc.NewProvider(ctx, server.URL+"/id/"+id)
	if err != nil {
		t.Fatal(err)
	}
	verify(t, ctx, c, provider)
}

func verify(t *testing.T, ctx context.Context, c cluster, provider *gooidc.Provider) {
	t.Helper()
	verifier := provider.Verifier(&gooidc.Config{ClientID: "sts.amazonaws.com"})
	token, err := verifier.Verify(ctx, c.token(t, issuer))
	if err != nil {
		t.Fatal(err)
	}
	if token.Subject != "system:serviceaccount:default:app" {
		t.Errorf("subject is %q", token.Subject)
	}
	if _, err := verifier.Verify(ctx, c.token(t, "https://other.example")); err == nil {
		t.Error("a token of another issuer was verified")
	}
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verifier.Verify(ctx, cluster{key: stranger}.token(t, issuer)); err == nil {
		t.Error("a token signed with another key was verified")
	}
}

func BenchmarkDocument(b *testing.B) {
	s := storetest.New(b)
	if _, err := record.Issuers(s).Create(b.Context(), store.Key(id),
		record.Issuer{Region: region, JWKS: []byte("{}")}); err != nil {
		b.Fatal(err)
	}
	handler := Handler(s, nil, slog.New(slog.DiscardHandler))
	for b.Loop() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", issuer+"/.well-known/openid-configuration", nil))
		if _, err := io.Copy(io.Discard, w.Body); err != nil || w.Code != 200 {
			b.Fatal(w.Code, err)
		}
	}
}
