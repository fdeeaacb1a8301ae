package application

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

// sealer seals what cookies contain. Only load balancers with the same secret open it.
type sealer struct{ aead cipher.AEAD }

// Uses of keys that derive from a secret. Each answer may have cookies of stickiness, and the nonces of a key are
// random, which is good for some 2^32 texts: sessions have a key of their own.
const (
	sealsLogins     = "logins"
	sealsStickiness = "stickiness"
)

// newSealer returns what seals with a key that derives from the secret of a load balancer, for a use.
func newSealer(secret []byte, use string) *sealer {
	key, err := hkdf.Key(sha256.New, secret, nil, "cookies of an Application Load Balancer: "+use, 32)
	if err != nil {
		panic(err) // 32 bytes are not too many
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key is of 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has blocks of 16 bytes
	}
	return &sealer{aead}
}

// seal returns a text for a cookie. It is bound to a purpose: opened for another, it is no text of ours.
func (s *sealer) seal(plain []byte, purpose string) string {
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(purpose)))
}

var errNotOurs = errors.New("it is not sealed by this load balancer")

func (s *sealer) open(text, purpose string) ([]byte, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, errNotOurs
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(purpose))
	if err != nil {
		return nil, errNotOurs
	}
	return plain, nil
}

// randomText returns a text that nobody guesses.
func randomText() string { return rand.Text() }
