// Package pki makes certificates: those of the daemon itself, for its etcd, its listener and its webhooks, and those of
// the control planes of clusters.
//
// An [Authority] is made once and kept, in two files ([OpenAuthority]) or wherever its owner keeps its PEM
// ([NewAuthority], [ParseAuthority]). Leaves are cheap: they are made again when what they say changes or when they
// have lived for a part of their life, as the [Profile] of the authority says.
package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/coracle-eks/coracle/internal/durable"
)

// Profile describes how an authority and its leaves are issued.
type Profile struct {
	// Organization is in the subject of the authority, and of leaves that have none of their own.
	Organization []string
	// AuthorityLife and LeafLife are the lifetimes of the authority and its leaves.
	AuthorityLife, LeafLife time.Duration
	// Skew is the time by which the clocks of clients may be behind.
	Skew time.Duration
	// Renew is the part of its life after which a leaf is made again.
	Renew float64
	// Usage are the usages of the authority's key.
	Usage x509.KeyUsage
	// SerialBits is the size of serial numbers.
	SerialBits uint
	// ExcludedDNSNames and ExcludedAddresses are what nobody believes the authority anything about: the names with all
	// their subdomains.
	ExcludedDNSNames  []string
	ExcludedAddresses []*net.IPNet
}

// Daemon is the profile of the daemon's own authorities.
var Daemon = Profile{
	Organization:  []string{"Coracle"},
	AuthorityLife: 30 * 365 * 24 * time.Hour,
	LeafLife:      2 * 365 * 24 * time.Hour, // below the 825 days that some TLS clients accept at most
	Skew:          time.Hour,
	Renew:         1. / 2,
	Usage:         x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	SerialBits:    127,
}

// Cluster is the profile of a cluster's authorities, which are those that kubeadm makes. They are never renewed: every
// kubeconfig out there trusts them.
var Cluster = Profile{
	AuthorityLife: 10 * 365 * 24 * time.Hour,
	LeafLife:      365 * 24 * time.Hour,
	Skew:          5 * time.Minute,
	Renew:         2. / 3,
	Usage:         x509.KeyUsageCertSign | x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
	SerialBits:    63,
}

// CertificateManager is the profile of the authority that signs what AWS Certificate Manager issues. Whoever may
// request a certificate gets one for any name: names of AWS, of hosts and of clusters, and all addresses are excluded.
// Those who trust the authority cannot be deceived about them.
// https://docs.aws.amazon.com/acm/latest/userguide/acm-certificate-characteristics.html
var CertificateManager = Profile{ // without an organization: the domains are somebody else's
	AuthorityLife: 30 * 365 * 24 * time.Hour,
	LeafLife:      198 * 24 * time.Hour,
	Skew:          time.Hour,
	Renew:         1. - 45./198,
	Usage:         x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	SerialBits:    127,
	ExcludedDNSNames: []string{"amazonaws.com", "amazonaws.com.cn", "aws", "arpa", "default", "internal",
		"invalid", "local", "localhost", "onion", "svc"},
	ExcludedAddresses: []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
	},
}

// Renewal returns when a leaf is to be made again.
func (p Profile) Renewal(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(time.Duration(float64(c.NotAfter.Sub(c.NotBefore)) * p.Renew))
}

// Authority is a certificate authority.
type Authority struct {
	Certificate *x509.Certificate
	PEM         []byte // the certificate
	KeyPEM      []byte
	key         crypto.Signer
	profile     Profile
}

// Pair is a certificate with its private key, both PEM.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// Leaf describes a certificate to issue.
type Leaf struct {
	CommonName   string
	Organization []string // groups, to Kubernetes; the profile's when there are none
	DNSNames     []string
	IPs          []net.IP
	Server       bool // for TLS servers
	Client       bool // for TLS clients
}

// OpenAuthority returns the authority of the daemon in dir/name.crt and dir/name.key, and makes it if it is not there.
func OpenAuthority(dir, name, commonName string) (*Authority, error) {
	return Daemon.OpenAuthority(dir, name, commonName)
}

// OpenAuthority is [OpenAuthority] for an authority of another profile than [Daemon].
func (p Profile) OpenAuthority(dir, name, commonName string) (*Authority, error) {
	crt, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	a, err := p.readAuthority(crt, key)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	if a, err = NewAuthority(p, Leaf{CommonName: commonName}, time.Now()); err != nil {
		return nil, err
	}
	// The key goes first: a certificate without its key would be taken for a broken authority,
	// a key without certificate is simply replaced.
	if err := WritePair(crt, key, Pair{a.PEM, a.KeyPEM}); err != nil {
		return nil, err
	}
	return a, nil
}

// ReadAuthority reads an authority from its two PEM files.
func ReadAuthority(certificateFile, keyFile string) (*Authority, error) {
	return Daemon.readAuthority(certificateFile, keyFile)
}

func (p Profile) readAuthority(certificateFile, keyFile string) (*Authority, error) {
	certificate, err := os.ReadFile(certificateFile)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	a, err := ParseAuthority(p, certificate, key)
	if err != nil {
		return nil, fmt.Errorf("certificate authority of %s and %s: %w", certificateFile, keyFile, err)
	}
	return a, nil
}

// ParseAuthority reads an authority from its PEM.
func ParseAuthority(profile Profile, certificatePEM, keyPEM []byte) (*Authority, error) {
	certificate, err := ParseCertificate(certificatePEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if !belongs(key, certificate) {
		return nil, errors.New("the key is not that of the certificate")
	}
	return &Authority{Certificate: certificate, PEM: certificatePEM, KeyPEM: keyPEM, key: key, profile: profile}, nil
}

// NewAuthority makes an authority with the common name and the DNS names of subject, and with a key as leaves have.
func NewAuthority(profile Profile, subject Leaf, now time.Time) (*Authority, error) {
	key, _, err := generateKey()
	if err != nil {
		return nil, err
	}
	return NewAuthorityWithKey(profile, key, subject, now)
}

// NewAuthorityWithKey is like [NewAuthority], with the key of the caller.
func NewAuthorityWithKey(profile Profile, key crypto.Signer, subject Leaf, now time.Time) (*Authority, error) {
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          profile.randomSerial(),
		Subject:               pkix.Name{CommonName: subject.CommonName, Organization: profile.Organization},
		DNSNames:              subject.DNSNames,
		NotBefore:             now.Add(-profile.Skew),
		NotAfter:              now.Add(profile.AuthorityLife),
		KeyUsage:              profile.Usage,
		BasicConstraintsValid: true,
		IsCA:                  true,
		ExcludedDNSDomains:    profile.ExcludedDNSNames,
		ExcludedIPRanges:      profile.ExcludedAddresses,
	}
	template.PermittedDNSDomainsCritical = len(profile.ExcludedDNSNames)+len(profile.ExcludedAddresses) > 0
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificatePEM, err := encodeCertificate(der)
	if err != nil {
		return nil, err
	}
	return ParseAuthority(profile, certificatePEM, keyPEM)
}

// Constrain returns another certificate of the authority, PEM, whose holder believes it only what it says of the DNS
// names and their subdomains, and of the IP addresses.
func (a *Authority) Constrain(dnsNames []string, addresses []*net.IPNet) ([]byte, error) {
	template := *a.Certificate
	template.SerialNumber = a.profile.randomSerial()
	template.PermittedDNSDomainsCritical = true
	template.PermittedDNSDomains, template.PermittedIPRanges = dnsNames, addresses
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a constrained certificate of %s: %w", a.Certificate.Subject, err)
	}
	return encodeCertificate(der)
}

// Issue makes a certificate that is valid from now.
func (a *Authority) Issue(leaf Leaf) (Pair, error) { return a.IssueAt(leaf, time.Now()) }

// IssueAt makes a certificate that is valid from a time.
func (a *Authority) IssueAt(leaf Leaf, now time.Time) (Pair, error) {
	key, keyPEM, err := generateKey()
	if err != nil {
		return Pair{}, err
	}
	certificatePEM, err := a.SignAt(key.Public(), leaf, now)
	return Pair{Certificate: certificatePEM, Key: keyPEM}, err
}

// SignAt returns a certificate, PEM, that is valid from a time, for somebody's key.
func (a *Authority) SignAt(key crypto.PublicKey, leaf Leaf, now time.Time) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber: a.profile.randomSerial(),
		Subject:      pkix.Name{CommonName: leaf.CommonName, Organization: a.organization(leaf)},
		DNSNames:     leaf.DNSNames,
		IPAddresses:  leaf.IPs,
		NotBefore:    now.Add(-a.profile.Skew),
		NotAfter:     now.Add(a.profile.LeafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	// Nothing outlives the authority; but an authority that has ended is no reason to issue again and again.
	if end := a.Certificate.NotAfter; template.NotAfter.After(end) && now.Before(end) {
		template.NotAfter = end
	}
	if leaf.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if leaf.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if _, ok := key.(*rsa.PublicKey); ok && leaf.Server {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %s: %w", leaf.CommonName, err)
	}
	return encodeCertificate(der)
}

func (a *Authority) organization(leaf Leaf) []string {
	if len(leaf.Organization) > 0 {
		return leaf.Organization
	}
	return a.profile.Organization
}

// Ensure writes a certificate that matches leaf to dir/name.crt and dir/name.key, unless they have one, and returns the
// two file names.
func (a *Authority) Ensure(dir, name string, leaf Leaf) (certificateFile, keyFile string, err error) {
	return a.EnsureAt(dir, name, leaf, time.Now())
}

// EnsureAt is like Ensure, as of the given time.
func (a *Authority) EnsureAt(dir, name string, leaf Leaf, now time.Time) (certificateFile, keyFile string, err error) {
	certificateFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if a.isReusable(certificateFile, keyFile, leaf, now) {
		return certificateFile, keyFile, nil
	}
	pair, err := a.IssueAt(leaf, now)
	if err != nil {
		return "", "", err
	}
	return certificateFile, keyFile, WritePair(certificateFile, keyFile, pair)
}

// isReusable reports whether the files hold a certificate of a that is good for leaf. Whatever is
// wrong with them, the answer is to issue another.
func (a *Authority) isReusable(certificateFile, keyFile string, leaf Leaf, now time.Time) bool {
	c, err := ReadPair(certificateFile, keyFile)
	if err != nil || c.CheckSignatureFrom(a.Certificate) != nil {
		return false
	}
	sameIPs := slices.EqualFunc(c.IPAddresses, leaf.IPs, func(x, y net.IP) bool { return x.Equal(y) })
	return sameIPs && c.Subject.CommonName == leaf.CommonName &&
		slices.Equal(c.Subject.Organization, a.organization(leaf)) && slices.Equal(c.DNSNames, leaf.DNSNames) &&
		now.Before(a.profile.Renewal(c))
}

// ReadPair returns the certificate of two PEM files, and fails unless the key is that of the certificate.
func ReadPair(certificateFile, keyFile string) (*x509.Certificate, error) {
	certificatePEM, err := os.ReadFile(certificateFile)
	if err != nil {
		return nil, err
	}
	certificate, err := ParseCertificate(certificatePEM)
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
	if !belongs(key, certificate) {
		return nil, fmt.Errorf("%s is not the key of %s", keyFile, certificateFile)
	}
	return certificate, nil
}

// WritePair writes a pair to two files that nobody else can read, unless they have it. The key goes first: whoever
// reads between the two sees a pair that does not match, and reads again.
func WritePair(certificateFile, keyFile string, pair Pair) error {
	if err := writeFile(keyFile, pair.Key); err != nil {
		return err
	}
	return writeFile(certificateFile, pair.Certificate)
}

// generateKey makes an ECDSA P-256 key: a hundred times cheaper to make and to sign with than RSA.
func generateKey() (crypto.Signer, []byte, error) {
	keyPEM, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, nil, err
	}
	key, err := parseKey(keyPEM)
	return key, keyPEM, err
}

// ParseCertificate returns the first certificate of a PEM text.
func ParseCertificate(text []byte) (*x509.Certificate, error) {
	all, err := cert.ParseCertsPEM(text)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func parseKey(text []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", key)
	}
	return signer, nil
}

// belongs reports whether a key is that of a certificate.
func belongs(key crypto.Signer, certificate *x509.Certificate) bool {
	public, ok := certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}

func encodeCertificate(der []byte) ([]byte, error) {
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return cert.EncodeCertificates(certificate)
}

func (p Profile) randomSerial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), p.SerialBits))
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
