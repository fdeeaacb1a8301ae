package servicerole_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/kube/servicerole"
)

func TestNamesOfRoles(t *testing.T) {
	t.Parallel()
	for _, r := range servicerole.Roles {
		if len(r.Name) > 64 {
			t.Errorf("%s has %d characters", r.Name, len(r.Name))
		}
		if user, ok := servicerole.UserOf("arn:aws:iam::602401143452:role/"+r.Name, servicerole.Principal); !ok ||
			user != r.User {
			t.Errorf("%s is the user %q", r.Name, user)
		}
		for _, principal := range []string{"", servicerole.Service, "cloudformation.amazonaws.com"} {
			if user, ok := servicerole.UserOf("arn:aws:iam::602401143452:role/"+r.Name, principal); ok {
				t.Errorf("%s in a session of %q is the user %q", r.Name, principal, user)
			}
		}
		if name, ok := servicerole.NameOf(r.User); !ok || name != r.Name {
			t.Errorf("%s has the role %q", r.User, name)
		}
		for _, other := range []string{"arn:aws:iam::111122223333:role/" + r.Name,
			"arn:aws:iam::602401143452:role/" + r.Name + "x", "arn:aws:iam::602401143452:user/" + r.Name,
			"arn:aws:iam::602401143452:role/x/" + r.Name} {
			if user, ok := servicerole.UserOf(other, servicerole.Principal); ok {
				t.Errorf("%s is the user %q", other, user)
			}
		}
	}
	if _, ok := servicerole.NameOf("eks:cluster-bootstrap"); ok {
		t.Error("eks:cluster-bootstrap has a role")
	}
}

// TestConfigShowsTokens has an API server that refuses the first token it sees.
func TestConfigShowsTokens(t *testing.T) {
	t.Parallel()
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen = append(seen, r.Header.Get("Authorization")); len(seen) == 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"gitVersion":"v1.35.0"}`))
	}))
	defer server.Close()
	config := servicerole.Config(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		CertData: []byte("certificate"), KeyData: []byte("key")}}, "demo", "eu-west-1",
		credentials.NewStaticCredentialsProvider("ASIAEXAMPLE", "secret", "session"))
	clients, err := client.New(config, "demo", "vpcLambda")
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	for n := range 3 {
		if _, err := clients.ServerVersion(t.Context()); (err != nil) != (n == 0) {
			t.Errorf("request %d: %v", n, err)
		}
	}
	if len(seen) != 3 || seen[1] != seen[2] {
		t.Fatalf("the API server has seen %q", seen)
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(seen[2], "Bearer k8s-aws-v1."))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if u.Host != "sts.eu-west-1.amazonaws.com" || q.Get("Action") != "GetCallerIdentity" ||
		!strings.Contains(q.Get("X-Amz-SignedHeaders"), "x-k8s-aws-id") || q.Get("X-Amz-Expires") != "60" {
		t.Errorf("the token is of %s", text)
	}
}
