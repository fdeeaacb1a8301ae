package sts

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/record"
)

// TestCertificatesOfKeysAreNotRead shows that what a provider says of certificates is neither decoded nor kept.
func TestCertificatesOfKeysAreNotRead(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(jose.JSONWebKey{Key: &key.PublicKey, KeyID: "one", Algorithm: "ES256", Use: "sig"})
	if err != nil {
		t.Fatal(err)
	}
	text = append(text[:len(text)-1], `,"x5c":["no certificate"],"X5C":["none"],"x5u":"http://example.com","x5t":"x"}`...)
	var got bareKey
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.KeyID != "one" || got.Algorithm != "ES256" || got.Use != "sig" || !key.PublicKey.Equal(got.Key) ||
		len(got.Certificates) > 0 || got.CertificatesURL != nil {
		t.Errorf("the key is %+v", got)
	}
}

// TestKeysThatCostTooMuchAreNotUsed shows key sets of a provider that wants to keep the daemon busy: one verification
// with an RSA key of 112,000 bits takes ten seconds, and a key set of a megabyte holds dozens of them.
func TestKeysThatCostTooMuchAreNotUsed(t *testing.T) {
	t.Parallel()
	modulus := func(bits uint) jose.JSONWebKey {
		n := new(big.Int).Lsh(big.NewInt(1), bits-1)
		return jose.JSONWebKey{Key: &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537}}
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	exponent := modulus(2048)
	exponent.Key.(*rsa.PublicKey).E = 1<<31 - 1
	many := make([]jose.JSONWebKey, maxKeys+1)
	for i := range many {
		many[i] = modulus(2048)
	}
	for name, c := range map[string]struct {
		keys []jose.JSONWebKey
		want int // 0 for a refused set
	}{
		"common keys": {[]jose.JSONWebKey{modulus(2048), modulus(4096),
			{Key: &curve.PublicKey}}, 3},
		"a large key":           {[]jose.JSONWebKey{modulus(8192)}, 0},
		"a large exponent":      {[]jose.JSONWebKey{exponent}, 0},
		"a huge key":            {[]jose.JSONWebKey{modulus(112000)}, 0},
		"a weak key":            {[]jose.JSONWebKey{modulus(1024)}, 0},
		"a huge key beside one": {[]jose.JSONWebKey{modulus(112000), modulus(2048)}, 1},
		"keys of other kinds":   {[]jose.JSONWebKey{{Key: other}, {Key: []byte("secret")}}, 0},
		"too many keys":         {many, 0},
		"no keys":               {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := usableKeys(jose.JSONWebKeySet{Keys: c.keys})
			if len(got.Keys) != c.want || (err != nil) != (c.want == 0) {
				t.Errorf("%d keys, %v", len(got.Keys), err)
			}
		})
	}
}

// countedKeys is a KeySource that counts how often it is asked.
type countedKeys struct {
	sets  []jose.JSONWebKeySet // the last one again and again
	asked int
}

func (k *countedKeys) Keys(context.Context, string, []string, bool) (jose.JSONWebKeySet, error) {
	k.asked++
	return k.sets[min(k.asked, len(k.sets))-1], nil
}

// TestTokensAreVerifiedWithFewKeys shows tokens of nobody yet, by what verifying them takes: each key that is tried
// takes a signature's verification.
func TestTokensAreVerifiedWithFewKeys(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other := func(id string, n int) jose.JSONWebKey {
		modulus := new(big.Int).Lsh(big.NewInt(1), 2047)
		return jose.JSONWebKey{KeyID: id, Key: &rsa.PublicKey{N: modulus.Add(modulus, big.NewInt(int64(2*n+1))), E: 65537}}
	}
	others := func(id string, n int) (keys []jose.JSONWebKey) {
		for i := range n {
			keys = append(keys, other(id, i))
		}
		return keys
	}
	right := func(id string) jose.JSONWebKey { return jose.JSONWebKey{KeyID: id, Key: &private.PublicKey} }
	sign := func(id string) *jwt.JSONWebToken {
		options := &jose.SignerOptions{}
		if id != "" {
			options = options.WithHeader("kid", id)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: private}, options)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: "https://example.com"}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.ParseSigned(text, algorithms)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		id   string
		sets [][]jose.JSONWebKey
		want string // in the error
	}{
		"the key that is named":        {id: "a", sets: [][]jose.JSONWebKey{append(others("b", 50), right("a"))}},
		"no key is named":              {sets: [][]jose.JSONWebKey{append(others("b", 3), right("a"))}},
		"keys of another kind":         {sets: [][]jose.JSONWebKey{append(repeat(&curve.PublicKey, 50), right("a"))}},
		"keys that changed":            {sets: [][]jose.JSONWebKey{others("b", 4), append(others("b", 4), right("a"))}},
		"no key is named among many":   {sets: [][]jose.JSONWebKey{append(others("b", 4), right("a"))}, want: "kid"},
		"many keys have the same name": {id: "a", sets: [][]jose.JSONWebKey{append(others("a", 4), right("a"))}, want: "kid"},
		"no key fits":                  {sets: [][]jose.JSONWebKey{others("b", 4)}, want: "verification key"},
		"the client has left": {ctx: gone, id: "a", sets: [][]jose.JSONWebKey{{right("a")}},
			want: context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := &countedKeys{}
			for _, set := range c.sets {
				source.sets = append(source.sets, jose.JSONWebKeySet{Keys: set})
			}
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			s := &Service{keys: source}
			err := s.verifyToken(ctx, sign(c.id), record.OIDCProvider{}, "https://example.com", &claims{})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func repeat(key *ecdsa.PublicKey, n int) (keys []jose.JSONWebKey) {
	for range n {
		keys = append(keys, jose.JSONWebKey{Key: key})
	}
	return keys
}
