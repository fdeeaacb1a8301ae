package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

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
	podsGetRoles(t, d, config)
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

// podsGetRoles checks what the admission webhook does to pods, without running them: kubectl has the API server admit
// them and store nothing.
func podsGetRoles(t *testing.T, d *harness.Daemon, config string) {
	t.Helper()
	const role = "arn:aws:iam::111122223333:role/pod"
	d.Run(config, "kubectl", "annotate", "serviceaccount", "app", "eks.amazonaws.com/role-arn="+role,
		"eks.amazonaws.com/token-expiration=7200")
	for name, expected := range map[string]struct {
		pod  string
		want []string
	}{
		"no role": {`{"serviceAccountName":"default","containers":[{"name":"c","image":"i"}]}`, nil},
		"a role": {`{"serviceAccountName":"app","containers":[{"name":"c","image":"i"}]}`, []string{
			"AWS_STS_REGIONAL_ENDPOINTS=regional", "AWS_DEFAULT_REGION=" + harness.Region, "AWS_REGION=" + harness.Region,
			"AWS_ROLE_ARN=" + role,
			"AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
			"aws-iam-token:sts.amazonaws.com:7200"}},
		"a role of its own": {`{"serviceAccountName":"app","containers":[{"name":"c","image":"i","env":[
			{"name":"AWS_ROLE_ARN","value":"own"},{"name":"AWS_REGION","value":"us-west-2"}]}]}`, []string{
			"AWS_ROLE_ARN=own", "AWS_REGION=us-west-2", "AWS_STS_REGIONAL_ENDPOINTS=regional",
			"aws-iam-token:sts.amazonaws.com:7200"}},
	} {
		file := filepath.Join(t.TempDir(), "pod.json")
		err := os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":`+expected.pod+`}`),
			0o600)
		if err != nil {
			t.Fatal(err)
		}
		var pod corev1.Pod
		out := d.Run(config, "kubectl", "create", "--dry-run=server", "-o", "json", "-f", file)
		if err := json.Unmarshal([]byte(out), &pod); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, variable := range pod.Spec.Containers[0].Env {
			got = append(got, variable.Name+"="+variable.Value)
		}
		for _, volume := range pod.Spec.Volumes {
			if volume.Name == "aws-iam-token" {
				token := volume.Projected.Sources[0].ServiceAccountToken
				got = append(got, fmt.Sprintf("%s:%s:%d", volume.Name, token.Audience, *token.ExpirationSeconds))
			}
		}
		if diff := cmp.Diff(expected.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
