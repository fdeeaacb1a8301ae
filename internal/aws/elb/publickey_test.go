package elb_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/coracle-eks/coracle/internal/aws/elb"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestPublicKeys reads the key by which a target verifies what it is told of users, with and without a load balancer
// that has it.
func TestPublicKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	balancer := f.newApplication("web")
	f.newNetwork("other")
	rows, err := record.LoadBalancers(f.Store).List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var secrets record.ApplicationSecrets
	for _, row := range rows {
		if row.Value.Application != nil {
			secrets = *row.Value.Application
		}
	}
	keys := elb.NewPublicKeys(f.Store, slog.New(slog.DiscardHandler))
	const name = "public-keys.auth.elb." + region + ".amazonaws.com"
	request := func(method, host, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Host = host
		if !keys.Serves(r) {
			t.Errorf("%s is not served", host)
		}
		w := httptest.NewRecorder()
		keys.ServeHTTP(w, r)
		return w
	}
	for _, host := range []string{name, name + ":443", "Public-Keys.auth.elb." + region + ".amazonaws.com"} {
		w := request(http.MethodGet, host, "/"+secrets.SigningKeyID)
		block, rest := pem.Decode(w.Body.Bytes())
		if w.Code != http.StatusOK || block == nil || block.Type != "PUBLIC KEY" || len(rest) != 0 {
			t.Fatalf("%s: %d %s", host, w.Code, w.Body)
		}
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		private, _ := pem.Decode([]byte(secrets.SigningKey))
		if key, err := x509.ParsePKCS8PrivateKey(private.Bytes); err != nil ||
			!key.(*ecdsa.PrivateKey).PublicKey.Equal(public) {
			t.Errorf("%s: it is another key (%v)", host, err)
		}
	}
	for _, c := range []struct {
		method, host, path string
		code               int
	}{
		{http.MethodGet, name, "/", http.StatusNotFound},
		{http.MethodGet, name, "/nobody", http.StatusNotFound},
		{http.MethodGet, name, "/" + secrets.SigningKeyID + "/", http.StatusNotFound},
		{http.MethodGet, "public-keys.auth.elb.xx-west-9.amazonaws.com", "/" + secrets.SigningKeyID, http.StatusNotFound},
		{http.MethodPost, name, "/" + secrets.SigningKeyID, http.StatusMethodNotAllowed},
	} {
		if w := request(c.method, c.host, c.path); w.Code != c.code {
			t.Errorf("%s %s%s: %d %s", c.method, c.host, c.path, w.Code, w.Body)
		}
	}
	for _, host := range []string{"elb." + region + ".amazonaws.com", "public-keys.auth.elb." + region + ".evil.com", ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		if keys.Serves(r) {
			t.Errorf("%q is served", host)
		}
	}
	if _, err := f.v2.DeleteLoadBalancer(t.Context(),
		&v2.DeleteLoadBalancerInput{LoadBalancerArn: balancer.LoadBalancerArn}); err != nil {
		t.Fatal(err)
	}
	if w := request(http.MethodGet, name, "/"+secrets.SigningKeyID); w.Code != http.StatusNotFound {
		t.Errorf("the key of a deleted load balancer: %d", w.Code)
	}
}
