package sts_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// BenchmarkAssumeRoleWithWebIdentity measures how pods get roles, without the network: 4,000/s is the goal. Beside it
// is what the signature of the same token takes alone, with RS256 as API servers sign.
func BenchmarkAssumeRoleWithWebIdentity(b *testing.B) {
	a := iamtest.New(b)
	const id = "EXAMPLED539D4633E53DE1B716D3041E"
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.Fatal(err)
	}
	issuer := record.IssuerURL(iamtest.Region, id)
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1",
		Algorithm: "RS256", Use: "sig"}}})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := record.Issuers(a.Store).Create(b.Context(), store.Key(id), record.Issuer{Account: iamtest.Account,
		Region: iamtest.Region, Cluster: "c", JWKS: keys}); err != nil {
		b.Fatal(err)
	}
	if _, err := a.IAM(a.Root).CreateOpenIDConnectProvider(b.Context(), &iam.CreateOpenIDConnectProviderInput{
		Url: &issuer, ClientIDList: []string{"sts.amazonaws.com"}}); err != nil {
		b.Fatal(err)
	}
	host := strings.TrimPrefix(issuer, "https://")
	role := a.NewRole(b, "app", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Federated":
		"arn:aws:iam::111122223333:oidc-provider/`+host+`"},"Action":"sts:AssumeRoleWithWebIdentity","Condition":{
		"StringEquals":{"`+host+`:sub":"system:serviceaccount:ns:sa","`+host+`:aud":"sts.amazonaws.com"}}}}`)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	token, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: issuer, Subject: "system:serviceaccount:ns:sa",
		Audience: jwt.Audience{"sts.amazonaws.com"}, IssuedAt: jwt.NewNumericDate(now),
		Expiry: jwt.NewNumericDate(now.Add(24 * time.Hour))}).Serialize()
	if err != nil {
		b.Fatal(err)
	}
	body := url.Values{"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
		"RoleSessionName": {"pod"}, "WebIdentityToken": {token}}.Encode()
	b.Run("request", func(b *testing.B) {
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				r := httptest.NewRequest(http.MethodPost, "http://sts.us-east-1.amazonaws.com/", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				w := httptest.NewRecorder()
				a.Mux.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					text, _ := io.ReadAll(w.Body)
					b.Fatalf("%d %s", w.Code, text)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	})
	b.Run("signature alone", func(b *testing.B) {
		parsed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
		if err != nil {
			b.Fatal(err)
		}
		sum := sha256.Sum256([]byte(token[:strings.LastIndexByte(token, '.')]))
		signature := parsed.Signatures[0].Signature
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], signature); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "verifications/s")
	})
}
