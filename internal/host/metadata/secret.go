package metadata

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/durable"
)

// secret holds the keys that the service signs with. They are created at the first use and stored, so that signatures
// stay valid after a restart of the daemon.
type secret struct {
	dir string

	mu          sync.Mutex
	tokens      []byte // a key for HMAC-SHA256
	documents   *rsa.PrivateKey
	certificate *x509.Certificate
}

// loadOrCreate returns the content of a file. It creates the file with the result of make when there is none.
func (s *secret) loadOrCreate(name string, make func() ([]byte, error)) ([]byte, error) {
	path := filepath.Join(s.dir, name)
	if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
		return b, nil
	}
	b, err := make()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	return b, durable.WriteFile(path, b, 0o600)
}

func (s *secret) tokenKey() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens != nil {
		return s.tokens, nil
	}
	var err error
	s.tokens, err = s.loadOrCreate("token.key", func() ([]byte, error) {
		b := make([]byte, 32)
		_, err := rand.Read(b)
		return b, err
	})
	return s.tokens, err
}

// errToken reports that a token is not valid here and now.
var errToken = errors.New("the token is not valid")

// newToken returns a session token of an instance, as long as EC2's: the time of its expiry, and a signature over that
// and the instance.
func (s *secret) newToken(instanceID string, expires int64) (string, error) {
	key, err := s.tokenKey()
	if err != nil {
		return "", err
	}
	return base64.URLEncoding.EncodeToString(signToken(key, instanceID, expires)), nil
}

func signToken(key []byte, instanceID string, expires int64) []byte {
	token := binary.BigEndian.AppendUint64([]byte{1, 0}, uint64(expires))
	mac := hmac.New(sha256.New, key)
	mac.Write(token)
	mac.Write([]byte(instanceID))
	return mac.Sum(token)
}

// verifyToken verifies a token of an instance and returns its remaining lifetime in seconds.
func (s *secret) verifyToken(token, instanceID string, now int64) (left int64, err error) {
	raw, err := base64.URLEncoding.DecodeString(token)
	if err != nil || len(raw) != 42 {
		return 0, errToken
	}
	key, err := s.tokenKey()
	if err != nil {
		return 0, err
	}
	expires := int64(binary.BigEndian.Uint64(raw[2:10]))
	// The texts are compared: the decoder passes over line ends, and a token has one form.
	if !hmac.Equal([]byte(token), []byte(base64.URLEncoding.EncodeToString(signToken(key, instanceID, expires)))) ||
		expires <= now {
		return 0, errToken
	}
	return expires - now, nil
}

// documentSigner returns the key of identity documents, with its certificate.
func (s *secret) documentSigner() (*rsa.PrivateKey, *x509.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.documents != nil {
		return s.documents, s.certificate, nil
	}
	der, err := s.loadOrCreate("identity.key", func() ([]byte, error) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, err
		}
		return x509.MarshalPKCS1PrivateKey(key), nil
	})
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParsePKCS1PrivateKey(der)
	if err != nil {
		return nil, nil, err
	}
	der, err = s.loadOrCreate("identity.crt", func() ([]byte, error) {
		template := x509.Certificate{
			SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(100, 0, 0),
			// As EC2's own certificates say.
			Subject: pkix.Name{Country: []string{"US"}, Province: []string{"Washington State"},
				Locality: []string{"Seattle"}, Organization: []string{"Amazon Web Services LLC"},
				CommonName: "coracle"},
		}
		return x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	})
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	s.documents, s.certificate = key, certificate
	return key, certificate, nil
}
