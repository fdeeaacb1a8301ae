package authenticator

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/coracle-eks/coracle/internal/record"
)

// as returns the TLS state of a connection of that cluster's API server.
func as(clusterID string) *tls.ConnectionState {
	return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{
		{{Subject: pkix.Name{CommonName: clientName(clusterID)}}}}}
}

func (f *fixture) serve(b *testing.B, path string, review any) {
	b.Helper()
	body, err := json.Marshal(review)
	f.put(err)
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/clusters/"+clusterID+"/"+path, bytes.NewReader(body))
		r.TLS = as(clusterID)
		w := httptest.NewRecorder()
		f.auth.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
	}
}

// What the authenticator adds to STS: the STS here answers from a map.
func BenchmarkAuthenticate(b *testing.B) {
	f := newFixture(b, onlyAPI)
	f.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::111122223333:role/Ops"})
	f.serve(b, "authenticate", &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: f.role("/",
		"Ops", "alice")}})
}

func BenchmarkAuthorize(b *testing.B) {
	f := newFixture(b, onlyAPI)
	f.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::111122223333:role/Ops",
		Policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSAdminPolicy")}})
	user := f.authenticate(f.role("/", "Ops", "alice")).User
	spec := on("delete", "apps", "deployments", "default", "x")
	spec.User, spec.Extra = user.Username, map[string]authorizationv1.ExtraValue{}
	for k, v := range user.Extra {
		spec.Extra[k] = authorizationv1.ExtraValue(v)
	}
	f.serve(b, "authorize", &authorizationv1.SubjectAccessReview{Spec: spec})
}
