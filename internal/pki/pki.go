// Package pki makes the certificates of the daemon itself: for its etcd, its listener and its
// webhooks. The certificates of clusters are internal/cluster/controlplane's.
//
// An [Authority] lives in two files, written once. Leaves are cheap: they are made again when
// what they say changes or when less than a year of them is left.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/durable"
)

const (
	authorityLife = 30 * 365 * 24 * time.Hour
	// leafLife stays below the 825 days that some TLS clients accept at most.
	leafLife = 2 * 365 * 24 * time.Hour
	// renewBefore is how much life a leaf must have left to be used again.
	renewBefore = 365 * 24 * time.Hour
)

// Authority is a certificate authority.
type Authority struct {
	Certificate *x509.Certificate
	PEM         []byte // the certificate
	key         crypto.Signer
}

// Pair is a certificate with its private key, both PEM.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// Leaf says what a certificate is for.
type Leaf struct {
	CommonName string
	DNSNames   []string
	IPs        []net.IP
	Server     bool // for TLS servers
	Client     bool // for TLS clients
}

// OpenAuthority is the authority in dir/name.crt and dir/name.key, made if it is not there.
func OpenAuthority(dir, name, commonName string) (*Authority, error) {
	crt, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	a, err := ReadAuthority(crt, key)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	a, keyPEM, err := newAuthority(commonName)
	if err != nil {
		return nil, err
	}
	// The key goes first: a certificate without its key would be taken for a broken authority,
	// a key without certificate is simply replaced.
	if err := writeFile(key, keyPEM); err != nil {
		return nil, err
	}
	if err := writeFile(crt, a.PEM); err != nil {
		return nil, err
	}
	return a, nil
}

// ReadAuthority reads an authority from its two PEM files.
func ReadAuthority(certificateFile, keyFile string) (*Authority, error) {
	certPEM, err := os.ReadFile(certificateFile)
	if err != nil {
		return nil, err
	}
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certificateFile, err)
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	if public, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(key.Public()) {
		return nil, fmt.Errorf("%s is not the key of %s", keyFile, certificateFile)
	}
	return &Authority{Certificate: cert, PEM: certPEM, key: key}, nil
}

func newAuthority(commonName string) (*Authority, []byte, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: commonName, Organization: []string{"Coracle"}},
		NotBefore:             now.Add(-time.Hour), // clocks differ
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	return &Authority{Certificate: cert, PEM: encodeCertificate(der), key: key}, keyPEM, nil
}

// Issue makes a certificate.
func (a *Authority) Issue(leaf Leaf) (Pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: leaf.CommonName, Organization: []string{"Coracle"}},
		DNSNames:     leaf.DNSNames,
		IPAddresses:  leaf.IPs,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(leafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	if template.NotAfter.After(a.Certificate.NotAfter) {
		template.NotAfter = a.Certificate.NotAfter
	}
	if leaf.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if leaf.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign a certificate for %s: %w", leaf.CommonName, err)
	}
	return Pair{Certificate: encodeCertificate(der), Key: keyPEM}, nil
}

// Ensure keeps a certificate in dir/name.crt and dir/name.key that says what leaf says, and
// returns the two file names.
func (a *Authority) Ensure(dir, name string, leaf Leaf) (certificateFile, keyFile string, err error) {
	certificateFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if a.holds(certificateFile, keyFile, leaf) {
		return certificateFile, keyFile, nil
	}
	pair, err := a.Issue(leaf)
	if err != nil {
		return "", "", err
	}
	if err := writeFile(keyFile, pair.Key); err != nil {
		return "", "", err
	}
	if err := writeFile(certificateFile, pair.Certificate); err != nil {
		return "", "", err
	}
	return certificateFile, keyFile, nil
}

// holds reports whether the files hold a certificate of a that is good for leaf. Whatever is
// wrong with them, the answer is to issue another.
func (a *Authority) holds(certificateFile, keyFile string, leaf Leaf) bool {
	certPEM, err := os.ReadFile(certificateFile)
	if err != nil {
		return false
	}
	cert, err := parseCertificate(certPEM)
	if err != nil || cert.CheckSignatureFrom(a.Certificate) != nil {
		return false
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return false
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return false
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(key.Public()) {
		return false
	}
	sameIPs := slices.EqualFunc(cert.IPAddresses, leaf.IPs, func(x, y net.IP) bool { return x.Equal(y) })
	return sameIPs && cert.Subject.CommonName == leaf.CommonName && slices.Equal(cert.DNSNames, leaf.DNSNames) &&
		time.Until(cert.NotAfter) > renewBefore
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func parseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM certificate in it")
	}
	return x509.ParseCertificate(block.Bytes)
}

func parseKey(data []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM key in it")
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the key is not an EC, RSA or PKCS #8 private key")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", key)
	}
	return signer, nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return n
}

// writeFile replaces a file at once, unless it has that content. Nobody else can read it.
func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return durable.EnsureFile(name, data, 0o600)
}
