package controlplane

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
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

	jose "github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/errgroup"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// authorityLife is how long a cluster's certificate authorities live, as kubeadm's do. They
	// are never renewed: every kubeconfig out there trusts them.
	authorityLife = 10 * 365 * 24 * time.Hour
	// leafLife is how long all other certificates live. They are made again after two thirds.
	leafLife = 365 * 24 * time.Hour
	// clockSkew is how far the clocks of a cluster's clients may be behind.
	clockSkew = 5 * time.Minute
)

// The users that EKS acts as in a cluster. Bootstrap is the only one in system:masters.
const (
	userBootstrap       = "eks:cluster-bootstrap"
	userCloudController = "eks:cloud-controller-manager"
)

// keys are a cluster's private keys, parsed.
type keys struct {
	ca, frontProxy authority
	serviceAccount *rsa.PrivateKey
	encryption     [][]byte
}

type authority struct {
	certificate *x509.Certificate
	pem         []byte
	keyPEM      []byte
	key         crypto.Signer
}

// keys reads the cluster's keys, or makes and stores them. They are stored before anything is
// signed with them, so that a crash can never leave certificates of a lost authority behind.
func (c *Controller) keys(ctx context.Context, cluster record.Cluster) (keys, error) {
	key := cluster.Key()
	row, err := c.secrets.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		made, err := makeSecrets(cluster.ID, c.clock.Now(), c.serviceAccountKey)
		if err != nil {
			return keys{}, fmt.Errorf("make the keys of the cluster: %w", err)
		}
		crashBeforeKeys.Here()
		if row, err = c.secrets.Create(ctx, key, made); err != nil {
			return keys{}, err
		}
		crashKeys.Here()
	} else if err != nil {
		return keys{}, err
	}
	k, err := parseSecrets(row.Value)
	if err != nil {
		return keys{}, fmt.Errorf("the stored keys of cluster %s: %w", cluster.Name, err)
	}
	return k, c.publishIssuer(ctx, cluster, k)
}

// serviceAccountKey is the key that was made in advance, if there is one, or a new one.
func (c *Controller) serviceAccountKey() (*rsa.PrivateKey, error) {
	select {
	case key := <-c.spareKey:
		return key, nil
	default:
		return rsa.GenerateKey(rand.Reader, 2048)
	}
}

// spare makes a service-account key in advance: it takes a tenth of a second, for which the next
// cluster need not wait.
func (c *Controller) spare() error {
	if len(c.spareKey) > 0 {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	select {
	case c.spareKey <- key:
	default: // another worker was faster
	}
	return nil
}

func makeSecrets(clusterID string, now time.Time, serviceAccountKey func() (*rsa.PrivateKey, error)) (record.ControlPlaneSecrets, error) {
	s := record.ControlPlaneSecrets{ClusterID: clusterID}
	var group errgroup.Group
	group.Go(func() error {
		key, err := serviceAccountKey()
		if err != nil {
			return err
		}
		s.ServiceAccountKey = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
		return nil
	})
	group.Go(func() (err error) {
		// EKS's cluster certificate authority is called so, too.
		if s.CertificateAuthority, s.CertificateAuthorityKey, err = makeAuthority("kubernetes", now); err != nil {
			return err
		}
		if s.FrontProxyCA, s.FrontProxyCAKey, err = makeAuthority("front-proxy-ca", now); err != nil {
			return err
		}
		encryption := make([]byte, 32)
		if _, err := rand.Read(encryption); err != nil {
			return err
		}
		s.EncryptionKeys = [][]byte{encryption}
		return nil
	})
	return s, group.Wait()
}

func parseSecrets(s record.ControlPlaneSecrets) (k keys, err error) {
	if k.ca, err = parseAuthority(s.CertificateAuthority, s.CertificateAuthorityKey); err != nil {
		return k, fmt.Errorf("certificate authority: %w", err)
	}
	if k.frontProxy, err = parseAuthority(s.FrontProxyCA, s.FrontProxyCAKey); err != nil {
		return k, fmt.Errorf("front-proxy certificate authority: %w", err)
	}
	block, _ := pem.Decode(s.ServiceAccountKey)
	if block == nil {
		return k, errors.New("service-account key: no PEM in it")
	}
	if k.serviceAccount, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
		return k, fmt.Errorf("service-account key: %w", err)
	}
	k.encryption = s.EncryptionKeys
	return k, nil
}

func makeAuthority(name string, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := makeKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: name},
		DNSNames:              []string{name},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, nil
}

func parseAuthority(certPEM, keyPEM []byte) (a authority, err error) {
	if a.certificate, err = parseCertificate(certPEM); err != nil {
		return a, err
	}
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return a, errors.New("no PEM key in it")
	}
	if a.key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
		return a, err
	}
	a.pem, a.keyPEM = certPEM, keyPEM
	return a, nil
}

// makeKey makes an ECDSA P-256 key: a hundred times cheaper to make and to sign with than RSA.
func makeKey() (crypto.Signer, []byte, error) {
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

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return n
}

// publishIssuer stores the public side of the service-account key, from which the daemon serves
// the OIDC discovery document of the cluster.
func (c *Controller) publishIssuer(ctx context.Context, cluster record.Cluster, k keys) error {
	jwks, err := keySet(&k.serviceAccount.PublicKey)
	if err != nil {
		return err
	}
	row, err := c.issuers.Get(ctx, store.Key(cluster.ID))
	if err == nil && bytes.Equal(row.Value.JWKS, jwks) {
		return nil
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, err = c.issuers.Put(ctx, store.Key(cluster.ID), record.Issuer{
		Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name, JWKS: jwks,
	})
	return err
}

// keySet is the JSON Web Key Set of a key. Its key ID is the one that the API server puts into
// the tokens it signs: the SHA-256 of the public key in DER.
func keySet(public *rsa.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	return json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
		Key:       public,
		KeyID:     base64.RawURLEncoding.EncodeToString(sum[:]),
		Algorithm: string(jose.RS256),
		Use:       "sig",
	}}})
}

// leaf says what a certificate is for.
type leaf struct {
	name          string // of the two files, name.crt and name.key
	user          string
	groups        []string
	dns           []string
	ips           []net.IP
	server        bool
	frontProxyCA  bool
	ofOtherIssuer func() (certPEM, keyPEM []byte, err error) // signed elsewhere: by etcd's authority
}

// leaves are all certificates of a cluster.
func (c *Controller) leaves(p plane) ([]leaf, error) {
	cluster, addresses := p.cluster, p.network.addresses()
	serviceIPs, err := firstServiceIPs(cluster)
	if err != nil {
		return nil, err
	}
	if p.public != nil {
		addresses = append(addresses, p.public)
	}
	serving := leaf{
		name: "kube-apiserver", user: "kube-apiserver", server: true,
		dns: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost",
			endpointName(cluster),
		},
		ips: append(append([]net.IP{net.IPv4(127, 0, 0, 1).To4()}, serviceIPs...), addresses...),
	}
	return []leaf{
		serving,
		{name: "kube-apiserver-kubelet-client", user: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
		{name: "front-proxy-client", user: "front-proxy-client", frontProxyCA: true},
		{name: "apiserver-etcd-client", user: etcdUser(cluster.ID), ofOtherIssuer: func() ([]byte, []byte, error) {
			pair, err := c.o.Etcd.IssueClient(etcdUser(cluster.ID))
			return pair.Certificate, pair.Key, err
		}},
		{name: "kube-controller-manager", user: "system:kube-controller-manager"},
		{name: "kube-scheduler", user: "system:kube-scheduler"},
		{name: "cloud-controller-manager", user: userCloudController},
		// What the controller manager and the scheduler serve their health with. They would make
		// an RSA key each themselves, which takes longer than the rest of their start.
		{name: "health", user: "health", server: true, dns: []string{"localhost"}, ips: []net.IP{p.local()}},
	}, nil
}

// endpointName is the name that EKS would give the cluster's endpoint.
func endpointName(cluster record.Cluster) string {
	return cluster.ID + ".gr7." + cluster.Region + ".eks.amazonaws.com"
}

// issue brings the cluster's certificates and keys into its directory: those that are missing,
// say something else than they should, or have lived for two thirds of their life. The
// components read them again by themselves.
func (c *Controller) issue(p plane) error {
	cluster, k := p.cluster, p.keys
	dir := c.dir(cluster.ID, "pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	leaves, err := c.leaves(p)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&k.serviceAccount.PublicKey)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt":             k.ca.pem,
		"ca.key":             k.ca.keyPEM,
		"front-proxy-ca.crt": k.frontProxy.pem,
		"sa.key":             pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k.serviceAccount)}),
		"sa.pub":             pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	}
	for name, content := range files {
		if err := ensureFile(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	for _, l := range leaves {
		if err := c.issueLeaf(dir, k, l); err != nil {
			return fmt.Errorf("certificate %s: %w", l.name, err)
		}
	}
	return nil
}

func (c *Controller) issueLeaf(dir string, k keys, l leaf) error {
	certFile, keyFile := filepath.Join(dir, l.name+".crt"), filepath.Join(dir, l.name+".key")
	if l.ofOtherIssuer != nil {
		if c.fresh(certFile, keyFile, l, nil) {
			return nil
		}
		certPEM, keyPEM, err := l.ofOtherIssuer()
		if err != nil {
			return err
		}
		if len(certPEM) == 0 { // an etcd without client certificates
			return nil
		}
		return writePair(certFile, certPEM, keyFile, keyPEM)
	}
	signer := k.ca
	if l.frontProxyCA {
		signer = k.frontProxy
	}
	if c.fresh(certFile, keyFile, l, signer.certificate) {
		return nil
	}
	certPEM, keyPEM, err := signer.sign(l, c.clock.Now())
	if err != nil {
		return err
	}
	return writePair(certFile, certPEM, keyFile, keyPEM)
}

// writePair writes the key first: whoever reads between the two sees a pair that does not
// match, and reads again.
func writePair(certFile string, certPEM []byte, keyFile string, keyPEM []byte) error {
	if err := ensureFile(keyFile, keyPEM); err != nil {
		return err
	}
	return ensureFile(certFile, certPEM)
}

func (a authority) sign(l leaf, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := makeKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: l.user, Organization: l.groups},
		DNSNames:     l.dns,
		IPAddresses:  l.ips,
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(leafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if l.server {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, nil
}

// fresh reports whether the files hold a pair that says what l says and has a third of its life
// left. Whatever is wrong with them, the answer is to issue another.
func (c *Controller) fresh(certFile, keyFile string, l leaf, signer *x509.Certificate) bool {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return false
	}
	cert, err := parseCertificate(certPEM)
	if err != nil || signer != nil && cert.CheckSignatureFrom(signer) != nil {
		return false
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return false
	}
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return false
	}
	if signer != nil {
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil || !key.PublicKey.Equal(cert.PublicKey) {
			return false
		}
		sameIPs := slices.EqualFunc(cert.IPAddresses, l.ips, func(x, y net.IP) bool { return x.Equal(y) })
		if cert.Subject.CommonName != l.user || !slices.Equal(cert.Subject.Organization, l.groups) || !slices.Equal(cert.DNSNames, l.dns) || !sameIPs {
			return false
		}
	}
	return c.clock.Now().Before(renewal(cert))
}

// renewal is when a certificate is to be replaced: after two thirds of its life.
func renewal(cert *x509.Certificate) time.Time {
	return cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) / 3 * 2)
}

// renewalDue is when the first of the cluster's certificates must be replaced.
func (c *Controller) renewalDue(clusterID string) (time.Time, error) {
	var due time.Time
	files, err := filepath.Glob(c.dir(clusterID, "pki", "*.crt"))
	if err != nil {
		return due, err
	}
	for _, f := range files {
		switch name := filepath.Base(f); {
		case name == "ca.crt", name == "front-proxy-ca.crt":
			continue
		case name == "apiserver-etcd-client.crt" && !c.o.Etcd.Separates():
			continue // the daemon's own, which its owner renews
		}
		b, err := os.ReadFile(f)
		if err != nil {
			return due, err
		}
		cert, err := parseCertificate(b)
		if err != nil {
			return due, fmt.Errorf("%s: %w", f, err)
		}
		if r := renewal(cert); due.IsZero() || r.Before(due) {
			due = r
		}
	}
	return due, nil
}

// etcdCertificate reports whether the cluster has a client certificate for etcd: it has none
// when the etcd takes clients without.
func (c *Controller) etcdCertificate(clusterID string) (bool, error) {
	_, err := os.Stat(c.dir(clusterID, "pki", "apiserver-etcd-client.crt"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func parseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM certificate in it")
	}
	return x509.ParseCertificate(block.Bytes)
}

// ensureFile makes a private file hold content, in one step, and leaves it alone if it does.
func ensureFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return durable.EnsureFile(name, content, 0o600)
}

// firstServiceIPs are the addresses of the service "kubernetes": the first of each service range.
func firstServiceIPs(cluster record.Cluster) ([]net.IP, error) {
	var ips []net.IP
	for _, cidr := range []string{cluster.ServiceIPv4CIDR, cluster.ServiceIPv6CIDR} {
		if cidr == "" {
			continue
		}
		_, network, err := net.ParseCIDR(cidr)
		if err != nil {
			return nil, fmt.Errorf("service range %q: %w", cidr, err)
		}
		ip := slices.Clone(network.IP)
		ip[len(ip)-1]++
		ips = append(ips, ip)
	}
	if len(ips) == 0 {
		return nil, errors.New("the cluster has no service range")
	}
	return ips, nil
}
