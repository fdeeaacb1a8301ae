package sts

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"math/big"
	"testing"

	"github.com/go-jose/go-jose/v4"
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
	many := make([]jose.JSONWebKey, maxKeys+1)
	for i := range many {
		many[i] = modulus(2048)
	}
	for name, c := range map[string]struct {
		keys []jose.JSONWebKey
		want int // 0 for a refused set
	}{
		"common keys": {[]jose.JSONWebKey{modulus(2048), modulus(4096), modulus(8192),
			{Key: &curve.PublicKey}}, 4},
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
