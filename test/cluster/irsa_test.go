package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/coracle-eks/coracle/test/harness"
)

// TestAServiceAccountBecomesARole takes a token from the cluster to STS, as IRSA does, and to a
// third party that verifies it by OIDC discovery.
func TestAServiceAccountBecomesARole(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	d.CreateCluster("irsa", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("irsa", "ACTIVE")
	config := d.Kubeconfig("irsa")
	issuer := strings.TrimSpace(d.Run("", "aws", "eks", "describe-cluster", "--name", "irsa", "--query",
		"cluster.identity.oidc.issuer", "--output", "text"))
	provider := strings.TrimPrefix(issuer, "https://")
	if !strings.HasPrefix(provider, "oidc.eks."+harness.Region+".amazonaws.com/id/") {
		t.Fatalf("the issuer is %s", issuer)
	}
	token := func(serviceAccount, audience string) string {
		t.Helper()
		return strings.TrimSpace(d.Run(config, "kubectl", "create", "token", serviceAccount, "--audience", audience))
	}
	assume := func(token string) (string, string, error) {
		return d.Try("", "aws", "sts", "assume-role-with-web-identity", "--role-arn",
			"arn:aws:iam::111122223333:role/pod",
			"--role-session-name", "app-1", "--web-identity-token", token, "--query",
			"[AssumedRoleUser.Arn,SubjectFromWebIdentityToken]", "--output", "text")
	}
	d.Run(config, "kubectl", "create", "serviceaccount", "app")
	d.AWS(nil, "iam", "create-role", "--role-name", "pod", "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::111122223333:oidc-provider/`+provider+`"},
		"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"`+provider+
			`:sub":"system:serviceaccount:default:app","`+provider+`:aud":"sts.amazonaws.com"}}}]}`)

	refused := func(what, token, want string) {
		t.Helper()
		out, errs, err := assume(token)
		if err == nil || !strings.Contains(errs, want) {
			t.Errorf("%s: %v, %s%s, want %s", what, err, out, errs, want)
		}
	}
	good := token("app", "sts.amazonaws.com")
	refused("before the provider is registered", good, "InvalidIdentityToken")
	d.AWS(nil, "iam", "create-open-id-connect-provider", "--url", issuer, "--client-id-list", "sts.amazonaws.com",
		"--thumbprint-list", "9e99a48a9960b14926bb7f3b02e22da2b0ab7280")
	out, errs, err := assume(good)
	if err != nil || !strings.Contains(out, "assumed-role/pod/app-1\tsystem:serviceaccount:default:app") {
		t.Errorf("%v %s%s", err, out, errs)
	}
	refused("another service account", token("default", "sts.amazonaws.com"), "AccessDenied")
	refused("another audience", token("app", "elsewhere"), "InvalidIdentityToken")
	parts := strings.Split(good, ".")
	refused("a forged signature", parts[0]+"."+parts[1]+"."+strings.Repeat("A", len(parts[2])), "InvalidIdentityToken")

	// A third party that is told where the issuer's name leads verifies the token by discovery.
	ca, err := os.ReadFile(filepath.Join(d.Dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no CA in the data directory")
	}
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(d.Endpoint, "http://"))
		},
	}}
	ctx := oidc.ClientContext(t.Context(), client)
	discovered, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		t.Fatal(err)
	}
	verified, err := discovered.Verifier(&oidc.Config{ClientID: "sts.amazonaws.com"}).Verify(ctx, good)
	if err != nil || verified.Subject != "system:serviceaccount:default:app" {
		t.Errorf("a third party verified %+v: %v", verified, err)
	}
	// The same document without any name resolution.
	resp, err := http.Get(d.Endpoint + "/id/" + issuer[strings.LastIndex(issuer, "/")+1:] +
		"/.well-known/openid-configuration")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var document struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &document); err != nil || document.Issuer != issuer ||
		!strings.HasPrefix(document.JWKSURI, d.Endpoint) {
		t.Errorf("%v %s", err, body)
	}
}
