package cluster

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	jose "github.com/go-jose/go-jose/v4"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// idp is an OpenID Connect provider of a user's own.
type idp struct {
	*httptest.Server
	signer jose.Signer
}

func startIDP(t *testing.T) *idp {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &idp{}
	if p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", "k1")); err != nil {
		t.Fatal(err)
	}
	answer := func(document func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(document()) //nolint:errcheck // a test's
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", answer(func() any {
		return map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys", "response_types_supported": []string{"id_token"},
			"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"}}
	}))
	mux.HandleFunc("/keys", answer(func() any {
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: "RS256",
			Use: "sig"}}}
	}))
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	return p
}

// token returns a token of the provider with claims beside those that every token has.
func (p *idp) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": p.URL, "aud": "kubernetes", "iat": time.Now().Unix(),
		"exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		all[name] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := p.signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// kubectl logs in with tokens of the user's own OpenID Connect provider while one is associated with the cluster.
func TestLoginWithAnIdentityProvider(t *testing.T) {
	t.Parallel()
	p := startIDP(t)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}),
		0o644); err != nil {
		t.Fatal(err)
	}
	// The provider is on this host, which an API server reaches only where machines have no network and the operator
	// allows it.
	d := harness.Start(t, "CORACLE_MACHINES=simulated", "CORACLE_EGRESS_CIDRS=127.0.0.1/32", "SSL_CERT_FILE="+roots)
	d.CreateCluster("dev", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("dev", ekstypes.ClusterStatusActive)
	admin := d.Login("dev")
	d.Run(admin, "kubectl", "create", "clusterrolebinding", "viewers", "--clusterrole=view", "--group=idp:viewers")

	d.Run(admin, "kubectl", "config", "set-credentials", "nobody", "--token=none")
	// whoami returns who a token is to the API server.
	whoami := func(token string) (string, error) {
		out, errs, err := d.Try(admin, "kubectl", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username} "+
			"{.status.userInfo.groups}", "--token="+token, "--user=nobody")
		if err != nil {
			return "", fmt.Errorf("%w: %s%s", err, out, errs)
		}
		return strings.TrimSpace(out), nil
	}
	good := map[string]any{"sub": "alice", "groups": []string{"viewers"}, "tenant": "blue"}
	if who, err := whoami(p.token(t, good)); err == nil {
		t.Fatalf("before the provider is associated, its token is that of %s", who)
	}
	d.Run("", "aws", "eks", "associate-identity-provider-config", "--cluster-name", "dev", "--oidc",
		"identityProviderConfigName=own,issuerUrl="+p.URL+",clientId=kubernetes,usernamePrefix=idp:,groupsClaim=groups,"+
			"groupsPrefix=idp:,requiredClaims={tenant=blue}")
	status := func() (s string) {
		var out struct {
			IdentityProviderConfig struct{ Oidc struct{ Status string } }
		}
		d.AWS(&out, "eks", "describe-identity-provider-config", "--cluster-name", "dev", "--identity-provider-config",
			"type=oidc,name=own")
		return out.IdentityProviderConfig.Oidc.Status
	}
	if s := status(); s != "CREATING" && s != "ACTIVE" {
		t.Errorf("status %s", s)
	}
	d.AwaitStatus("dev", ekstypes.ClusterStatusActive)
	if s := status(); s != "ACTIVE" {
		t.Errorf("status %s, want ACTIVE", s)
	}
	// The API server fetches the keys in its own time.
	err := eventually.Try(100*time.Millisecond, func() error {
		who, err := whoami(p.token(t, good))
		if err == nil && who != `idp:alice ["idp:viewers","system:authenticated"]` {
			return eventually.Never(fmt.Errorf("alice is %s", who))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Run(admin, "kubectl", "get", "pods", "--token="+p.token(t, good), "--user=nobody")
	if _, _, err := d.Try(admin, "kubectl", "get", "secrets", "--token="+p.token(t, good), "--user=nobody"); err == nil {
		t.Error("a viewer may see secrets")
	}
	for name, claims := range map[string]map[string]any{
		"without the required claim":      {"sub": "alice"},
		"with another value of it":        {"sub": "alice", "tenant": "red"},
		"for another audience":            {"sub": "alice", "tenant": "blue", "aud": "other"},
		"that has expired":                {"sub": "alice", "tenant": "blue", "exp": time.Now().Add(-time.Minute).Unix()},
		"without a subject":               {"tenant": "blue"},
		"of the issuer of another tenant": {"sub": "alice", "tenant": "blue", "iss": p.URL + "/other"},
	} {
		if who, err := whoami(p.token(t, claims)); err == nil {
			t.Errorf("a token %s is that of %s", name, who)
		}
	}

	d.Run("", "aws", "eks", "disassociate-identity-provider-config", "--cluster-name", "dev",
		"--identity-provider-config", "type=oidc,name=own")
	d.AwaitStatus("dev", ekstypes.ClusterStatusActive)
	// A connection to the API server that makes way may still be served by it for a moment.
	err = eventually.Try(100*time.Millisecond, func() error {
		if who, err := whoami(p.token(t, good)); err == nil {
			return fmt.Errorf("the token is still that of %s", who)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	d.Run(admin, "kubectl", "get", "secrets")
}
