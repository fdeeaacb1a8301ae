package sts_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// FuzzWebIdentity shows that nobody gets credentials of a role for a token of another form than the cluster signed: it
// begins with a token that is genuine, taken apart into its three parts.
func FuzzWebIdentity(f *testing.F) {
	a := iamtest.New(f)
	now := time.Now()
	a.SetNow(now)
	const id = "EXAMPLED539D4633E53DE1B716D3041E"
	issuer := record.IssuerURL(iamtest.Region, id)
	host := strings.TrimPrefix(issuer, "https://")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	keys, err := json.Marshal(
		jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}},
	)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := record.Issuers(a.Store).Create(f.Context(), store.Key(id), record.Issuer{Account: iamtest.Account,
		Region: iamtest.Region, Cluster: "demo", JWKS: keys}); err != nil {
		f.Fatal(err)
	}
	if _, err := a.IAM(a.Root).CreateOpenIDConnectProvider(f.Context(),
		&iam.CreateOpenIDConnectProviderInput{Url: &issuer, ClientIDList: []string{"sts.amazonaws.com"}}); err != nil {
		f.Fatal(err)
	}
	role := a.NewRole(
		f,
		"irsa",
		trust(`{"Federated":"arn:aws:iam::111122223333:oidc-provider/`+host+`"}`, `"sts:AssumeRoleWithWebIdentity"`),
	)
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", "k"),
	)
	if err != nil {
		f.Fatal(err)
	}
	genuine, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": issuer, "sub": "system:serviceaccount:ns:sa", "aud": []string{"sts.amazonaws.com"}, "iat": now.Unix(),
		"nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}).Serialize()
	if err != nil {
		f.Fatal(err)
	}
	var parts [3][]byte
	for i, part := range strings.Split(genuine, ".") {
		if parts[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			f.Fatal(err)
		}
	}
	client := sts.New(
		sts.Options{
			Region:           iamtest.Region,
			BaseEndpoint:     aws.String("http://coracle.test"),
			HTTPClient:       &http.Client{Transport: a.Mux.Transport()},
			Credentials:      aws.AnonymousCredentials{},
			RetryMaxAttempts: 1,
		},
	)
	call := func(t testing.TB, token string) error {
		_, err := client.AssumeRoleWithWebIdentity(
			t.Context(),
			&sts.AssumeRoleWithWebIdentityInput{RoleArn: &role, RoleSessionName: aws.String("pod"),
				WebIdentityToken: &token},
		)
		return err
	}
	if err := call(f, genuine); err != nil {
		f.Fatal(err)
	}
	f.Add(parts[0], parts[1], parts[2])
	f.Add([]byte(`{"alg":"none"}`), parts[1], []byte{})
	f.Add([]byte(`{"alg":"HS256","kid":"k"}`), parts[1], parts[2])
	f.Add([]byte(`{"alg":"ES256","kid":"k","crit":["b64"],"b64":false,"jwk":{}}`), parts[1], parts[2])
	f.Add(parts[0], bytes.Replace(parts[1], []byte("ns:sa"), []byte("ns:sb"), 1), parts[2])
	f.Fuzz(func(t *testing.T, header, claims, signature []byte) {
		encoded := base64.RawURLEncoding.EncodeToString
		err := call(t, encoded(header)+"."+encoded(claims)+"."+encoded(signature))
		switch got := awstest.Code(err); {
		case err == nil && (!bytes.Equal(header, parts[0]) || !bytes.Equal(claims, parts[1])):
			t.Fatalf("%q %q %x gets credentials", header, claims, signature)
		case got == "InternalFailure" || got == "AccessDenied":
			t.Fatalf("%q %q %x: %v", header, claims, signature, err)
		}
	})
}
