package application

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// dataTime is the time for which what a target is told of a user is valid.
const dataTime = 2 * time.Minute

// The headers that tell a target of a user.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html
const (
	headerAccessToken = "X-Amzn-Oidc-Accesstoken" //nolint:gosec // a name
	headerIdentity    = "X-Amzn-Oidc-Identity"
	headerData        = "X-Amzn-Oidc-Data"
)

// signer signs what a target is told of a user.
type signer struct {
	id  string
	key *ecdsa.PrivateKey
}

func newSigner(spec Identity) (*signer, error) {
	block, _ := pem.Decode([]byte(spec.Key))
	if block == nil {
		return nil, errors.New("the key that signs identities is no PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if parsed, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
			return nil, fmt.Errorf("the key that signs identities: %w", err)
		}
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("the key that signs identities is not on P-256")
	}
	return &signer{spec.KeyID, key}, nil
}

// addUser tells a target of the user, and of nobody else. A listener that authenticates users passes on no identity
// that a client tells: not by its other rules either, which may have the same targets, nor do other listeners of the
// load balancer.
func (e *exchange) addUser(h http.Header) {
	if len(e.state.logins) == 0 && !e.state.spec.Authenticates {
		return
	}
	for _, name := range []string{headerAccessToken, headerIdentity, headerData} {
		h.Del(name)
	}
	l := e.rule.login
	if l == nil || e.user == nil {
		return
	}
	h.Set(headerAccessToken, headerValue(e.user.AccessToken))
	h.Set(headerIdentity, headerValue(e.user.Subject))
	if e.state.signer == nil {
		return
	}
	data, err := e.state.signer.sign(l, e.state.spec.LoadBalancer, e.user, e.server.o.now())
	if err != nil {
		e.server.o.Log.Warn("cannot sign an identity", "error", err)
		return
	}
	h.Set(headerData, data)
}

// sign returns the claims of a user as a JSON web token, with the padding that AWS's have.
func (s *signer) sign(l *login, loadBalancer string, user *session, now time.Time) (string, error) {
	expires := now.Add(dataTime).Unix()
	header, err := json.Marshal(map[string]any{"typ": "JWT", "alg": "ES256", "kid": s.id, "signer": loadBalancer,
		"iss": l.spec.Issuer, "client": l.spec.ClientID, "exp": expires})
	if err != nil {
		return "", err
	}
	claims := map[string]any{}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(user.Claims, &given); err != nil {
		return "", err
	}
	for name, value := range given {
		claims[name] = value
	}
	claims["exp"], claims["iss"] = expires, l.spec.Issuer
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := base64.URLEncoding.EncodeToString(header) + "." + base64.URLEncoding.EncodeToString(payload)
	sum := sha256.Sum256([]byte(text))
	r, v, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		return "", err
	}
	var signature [64]byte
	r.FillBytes(signature[:32])
	v.FillBytes(signature[32:])
	return text + "." + base64.URLEncoding.EncodeToString(signature[:]), nil
}
