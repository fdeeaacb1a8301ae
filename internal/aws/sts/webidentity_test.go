package sts_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	coraclests "github.com/coracle-eks/coracle/internal/aws/sts"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// signer signs tokens of an issuer.
type signer struct {
	key    *ecdsa.PrivateKey
	issuer string
	id     string
}

func newSigner(t *testing.T, issuer string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{key, issuer, "key-1"}
}

func (s *signer) keys(t *testing.T) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.Public(), KeyID: s.id,
		Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (s *signer) token(t *testing.T, change func(map[string]any)) *string {
	t.Helper()
	now := time.Now()
	claims := map[string]any{
		"iss": s.issuer, "sub": "system:serviceaccount:ns:sa", "aud": []string{"sts.amazonaws.com"}, "iat": now.Unix(),
		"nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	if change != nil {
		change(claims)
	}
	options := (&jose.SignerOptions{}).WithHeader("kid", s.id)
	with, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, options)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(with).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return &token
}

func TestServiceAccountsAssumeRoles(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	const id = "EXAMPLED539D4633E53DE1B716D3041E"
	issuer := record.IssuerURL(iamtest.Region, id)
	cluster := newSigner(t, issuer)
	if _, err := record.Issuers(a.Store).Create(ctx, store.Key(id), record.Issuer{Account: iamtest.Account,
		Region: iamtest.Region, Cluster: "ironman-2022", JWKS: cluster.keys(t)}); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(issuer, "https://")
	provider := "arn:aws:iam::111122223333:oidc-provider/" + host
	role := a.NewRole(t, "irsa", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Federated":"`+
		provider+`"},"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"`+host+
		`:sub":"system:serviceaccount:ns:sa","`+host+`:aud":"sts.amazonaws.com"}}}}`)
	unsigned := a.STS(aws.Credentials{})
	call := func(token *string) (*sts.AssumeRoleWithWebIdentityOutput, error) {
		return unsigned.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{RoleArn: &role,
			RoleSessionName: p("pod"), WebIdentityToken: token})
	}
	if _, err := call(cluster.token(t, nil)); awstest.Code(err) != "InvalidIdentityToken" || !strings.Contains(err.Error(),
		"No OpenIDConnect provider found in your account for "+issuer) {
		t.Errorf("without a provider: %v", err)
	}
	awstest.Must[*iam.CreateOpenIDConnectProviderOutput](t)(a.IAM(a.Root).CreateOpenIDConnectProvider(ctx,
		&iam.CreateOpenIDConnectProviderInput{Url: &issuer, ClientIDList: []string{"sts.amazonaws.com"}}))

	out := awstest.Must[*sts.AssumeRoleWithWebIdentityOutput](t)(call(cluster.token(t, nil)))
	if *out.SubjectFromWebIdentityToken != "system:serviceaccount:ns:sa" || *out.Audience != "sts.amazonaws.com" ||
		*out.Provider != provider {
		t.Errorf("answered %s %s %s", *out.SubjectFromWebIdentityToken, *out.Audience, *out.Provider)
	}
	if who := whoAmI(t, a,
		credentials(out.Credentials)); *who.Arn != "arn:aws:sts::111122223333:assumed-role/irsa/pod" {
		t.Errorf("the pod is %s", *who.Arn)
	}

	set := func(claim string, value any) func(map[string]any) { return func(c map[string]any) { c[claim] = value } }
	without := func(claim string) func(map[string]any) { return func(c map[string]any) { delete(c, claim) } }
	forger := newSigner(t, issuer)
	for _, test := range []struct {
		name  string
		token *string
		code  string
		says  string
	}{
		{"another service account", cluster.token(t, set("sub", "system:serviceaccount:ns:other")), "AccessDenied",
			"Not authorized to perform sts:AssumeRoleWithWebIdentity"},
		{"another audience", cluster.token(t, set("aud", "kubernetes")), "InvalidIdentityToken",
			"Incorrect token audience"},
		{"expired", cluster.token(t, set("exp", time.Now().Add(-time.Minute).Unix())), "ExpiredTokenException",
			"Token expired: current date/time"},
		{"not valid yet", cluster.token(t, set("nbf", time.Now().Add(time.Hour).Unix())), "InvalidIdentityToken",
			"not valid yet"},
		{"never expires", cluster.token(t, without("exp")), "InvalidIdentityToken", "Missing a required claim: exp"},
		{"nobody's", cluster.token(t, without("sub")), "InvalidIdentityToken", "Missing a required claim: sub"},
		{"no issuer", cluster.token(t, without("iss")), "InvalidIdentityToken", "Missing a required claim: iss"},
		{"forged", forger.token(t, nil), "InvalidIdentityToken", "does not verify"},
		{"unsigned", unsignedToken(issuer), "InvalidIdentityToken", "not a valid JWT"},
	} {
		if _, err := call(test.token); awstest.Code(err) != test.code || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %s %q", test.name, err, test.code, test.says)
		}
	}
	forger.id = "key-2"
	if _, err := call(forger.token(t, nil)); awstest.Code(err) != "InvalidIdentityToken" || !strings.Contains(err.Error(),
		"Couldn't retrieve verification key") {
		t.Errorf("unknown key: %v", err)
	}
}

// unsignedToken claims everything and proves nothing.
func unsignedToken(issuer string) *string {
	// {"alg":"none"} . {"iss":...} .
	return aws.String("eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+issuer+
		`","sub":"system:serviceaccount:ns:sa","aud":"sts.amazonaws.com","iat":1,"exp":99999999999}`)) + ".")
}

func TestForeignIssuers(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	var issuer *signer
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	issuer = newSigner(t, server.URL)
	fetched := 0
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"%s/keys"}`, server.URL, server.URL)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		fetched++
		w.Write(issuer.keys(t)) //nolint:errcheck // the client's test fails then
	})
	host := strings.TrimPrefix(server.URL, "https://")
	role := a.NewRole(
		t,
		"ci",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::111122223333:oidc-provider/`+host+`"},"Action":"sts:AssumeRoleWithWebIdentity"}}`,
	)
	provider := registerProvider(t, a, host)
	call := func() error {
		_, err := a.STS(aws.Credentials{}).AssumeRoleWithWebIdentity(ctx,
			&sts.AssumeRoleWithWebIdentityInput{RoleArn: &role, RoleSessionName: p("job"),
				WebIdentityToken: issuer.token(t, nil)})
		return err
	}
	if err := call(); awstest.Code(err) != "InvalidIdentityToken" || !strings.HasSuffix(err.Error(), noKey) {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
	sum := sha1.Sum(server.Certificate().Raw)
	awstest.Must[*iam.UpdateOpenIDConnectProviderThumbprintOutput](t)(
		a.IAM(a.Root).UpdateOpenIDConnectProviderThumbprint(ctx,
			&iam.UpdateOpenIDConnectProviderThumbprintInput{
				OpenIDConnectProviderArn: &provider, ThumbprintList: []string{hex.EncodeToString(sum[:])},
			}),
	)
	for range 3 {
		if err := call(); err != nil {
			t.Fatalf("with the thumbprint: %v", err)
		}
	}
	if fetched != 1 {
		t.Errorf("the keys were fetched %d times", fetched)
	}

	// What has been fetched is not for those who do not vouch for the server.
	awstest.Must[*iam.UpdateOpenIDConnectProviderThumbprintOutput](t)(
		a.IAM(a.Root).UpdateOpenIDConnectProviderThumbprint(ctx,
			&iam.UpdateOpenIDConnectProviderThumbprintInput{
				OpenIDConnectProviderArn: &provider, ThumbprintList: []string{strings.Repeat("0", 40)},
			}),
	)
	if err := call(); awstest.Code(err) != "InvalidIdentityToken" || !strings.HasSuffix(err.Error(), noKey) {
		t.Errorf("with another thumbprint: %v", err)
	}
}

// noKey is the beginning of AWS's message about every provider whose keys cannot be retrieved; the reason follows.
const noKey = "Couldn't retrieve verification key from your identity provider,  please reference " +
	"AssumeRoleWithWebIdentity documentation for requirements"

// registerProvider registers a provider at an address of this host, which the API refuses, and returns its ARN.
func registerProvider(t *testing.T, a *iamtest.AWS, host string) string {
	t.Helper()
	p := record.OIDCProvider{Account: iamtest.Account, URL: host, ClientIDs: []string{"sts.amazonaws.com"}}
	if _, err := record.OIDCProviders(a.Store).Create(t.Context(), record.OIDCProviderKey(p.Account, p.URL),
		p); err != nil {
		t.Fatal(err)
	}
	return p.ARN()
}

// Nobody learns from AssumeRoleWithWebIdentity, which nobody signs, what listens on this host: whatever is there, the
// answer is the same, and nothing of this host is asked. The reason is in the daemon's log.
func TestProvidersAreNoWayIntoTheHost(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	var log bytes.Buffer
	keys := coraclests.NewIssuers(a.Store, outbound.Policy{}, slog.New(slog.NewTextHandler(&log, nil)))
	mux := wire.NewMux(wire.Options{Credentials: a.Identity, Authorizer: a.Identity,
		Logger: slog.New(slog.DiscardHandler), Region: iamtest.Region})
	coraclests.New(a.Store, a.Identity, keys, nil).Register(mux)
	endpoint := httptest.NewServer(mux)
	defer endpoint.Close()
	client := sts.New(sts.Options{Region: iamtest.Region, BaseEndpoint: &endpoint.URL, HTTPClient: awsclient.HTTP(),
		RetryMaxAttempts: 1})
	sum := sha1.Sum(server.Certificate().Raw)
	for _, host := range []string{strings.TrimPrefix(server.URL, "https://"), "127.0.0.1:1", "localhost",
		"169.254.169.254", "10.255.255.1", "[::1]:22"} {
		registerProvider(t, a, host)
		if _, err := record.OIDCProviders(a.Store).Modify(t.Context(), record.OIDCProviderKey(iamtest.Account, host),
			func(p *record.OIDCProvider) error {
				p.Thumbprints = []string{hex.EncodeToString(sum[:])}
				return nil
			}); err != nil {
			t.Fatal(err)
		}
		role := "arn:aws:iam::" + iamtest.Account + ":role/any"
		token := newSigner(t, "https://"+host).token(t, nil)
		_, err := client.AssumeRoleWithWebIdentity(t.Context(), &sts.AssumeRoleWithWebIdentityInput{RoleArn: &role,
			RoleSessionName: aws.String("job"), WebIdentityToken: token})
		var refused *types.InvalidIdentityTokenException
		if !errors.As(err, &refused) || refused.ErrorMessage() != noKey {
			t.Errorf("%s: %v", host, err)
		}
		if line := fmt.Sprintf("https://%s", host); !strings.Contains(log.String(), line) ||
			!strings.Contains(log.String(), "not an address of the public internet") {
			t.Errorf("the log does not say why %s is refused:\n%s", host, log.String())
		}
		log.Reset()
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("this host was asked %d times", n)
	}
}
