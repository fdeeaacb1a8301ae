package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/kube/authenticator/authenticatortest"
	"github.com/coracle-eks/coracle/internal/record"
)

// password gets a password for registries.
func (w *walk) password() string {
	w.Helper()
	text, err := base64.StdEncoding.DecodeString(w.authorizationToken())
	w.must(err)
	return strings.TrimPrefix(string(text), "AWS:")
}

func (w *walk) authorizationToken() string {
	w.Helper()
	out, err := ecr.NewFromConfig(w.config(w.user)).GetAuthorizationToken(w.Context(),
		&ecr.GetAuthorizationTokenInput{})
	w.must(err)
	return *out.AuthorizationData[0].AuthorizationToken
}

// serviceAccountToken returns a token of a service account of the cluster.
func (w *walk) serviceAccountToken(audience string, forged bool) string {
	w.Helper()
	row, err := record.ControlPlaneSecretsTable(w.daemon.store).Get(w.Context(), record.ClusterKey(walkAccount,
		walkRegion, "one"))
	w.must(err)
	key, err := x509.ParseECPrivateKey(row.Value.ServiceAccountKey)
	if forged {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	w.must(err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", "key"))
	w.must(err)
	now := time.Now()
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: record.IssuerURL(walkRegion, walkCluster), Subject: "system:serviceaccount:default:app",
		Audience: jwt.Audience{audience},
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Hour)),
	}).Serialize()
	w.must(err)
	return token
}

// tokenFor returns what "aws eks get-token" prints.
func (w *walk) tokenFor(cluster string) string {
	w.Helper()
	c := w.config(w.user)
	c.BaseEndpoint = aws.String("http://" + walkListen)
	token, err := authenticatortest.Token(w.Context(), c, cluster)
	w.must(err)
	return token
}

// metadataTokenOf gets a session token as an instance.
func (w *walk) metadataTokenOf(address string) string {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPut, w.metadata+"/latest/api/token", nil)
	w.must(err)
	r.Header.Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "600")
	client := &http.Client{Transport: &http.Transport{
		DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext,
		DisableKeepAlives: true}}
	status, body := w.send(client, r)
	if status != http.StatusOK {
		w.Fatalf("a metadata token for %s: %d %s", address, status, body)
	}
	return body
}

// presign presigns GET /clusters of EKS.
func (w *walk) presign() string {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.api.URL+"/clusters?X-Amz-Expires=600", nil)
	w.must(err)
	signed, _, err := v4.NewSigner().PresignHTTP(w.Context(), w.user, r, emptyHash, "eks", walkRegion, time.Now())
	w.must(err)
	return signed
}

const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// upload begins an upload and returns its path and its state.
func (w *walk) upload() (path, state string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.api.URL+"/v2/"+walkRegistry+
		"/app/blobs/uploads/", nil)
	w.must(err)
	r.SetBasicAuth("AWS", w.password())
	response, err := http.DefaultClient.Do(r)
	w.must(err)
	response.Body.Close()
	location, err := url.Parse(response.Header.Get("Location"))
	w.must(err)
	if response.StatusCode != http.StatusAccepted || location.Query().Get("_state") == "" {
		w.Fatalf("an upload: %s %s", response.Status, location)
	}
	return location.Path, location.Query().Get("_state")
}
