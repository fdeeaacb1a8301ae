package controlplane

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/sourcegraph/conc/pool"
	"k8s.io/client-go/util/keyutil"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The users that EKS acts as in a cluster. Bootstrap is the only one in system:masters.
const (
	userBootstrap       = "eks:cluster-bootstrap"
	userCloudController = "eks:cloud-controller-manager"
)

// keys are a cluster's private keys, parsed.
type keys struct {
	ca, frontProxy *pki.Authority // that sign
	trusted        authorities
	serviceAccount serviceAccountKeys
	encryption     [][]byte
}

// ensureKeys reads the cluster's keys and rotates those that are due, or makes and stores them. They are stored before
// anything is signed with them, so that a crash can never leave certificates of a lost authority behind.
func (c *Controller) ensureKeys(ctx context.Context, cluster record.Cluster) (keys, error) {
	key := cluster.Key()
	row, err := c.secrets.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		made, err := makeSecrets(cluster.ID, c.clock.Now(), c.rsaKey)
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
	secrets, err := c.rotateKeys(ctx, cluster, row.Value)
	if err != nil {
		return keys{}, fmt.Errorf("rotate the service-account keys of cluster %s: %w", cluster.Name, err)
	}
	if secrets, err = c.rotateAuthorities(ctx, cluster, secrets); err != nil {
		return keys{}, fmt.Errorf("rotate the certificate authority of cluster %s: %w", cluster.Name, err)
	}
	k, err := parseSecrets(secrets)
	if err != nil {
		return keys{}, fmt.Errorf("the stored keys of cluster %s: %w", cluster.Name, err)
	}
	return k, c.publishIssuer(ctx, cluster, k)
}

// rsaBits is the size of the keys that EKS has of RSA.
const rsaBits = 2048

// standbyKeys is the number of RSA keys of a new cluster: of its certificate authority and of its service accounts.
const standbyKeys = 2

// rsaKey returns a key that was made in advance, if there is one, or a new one.
func (c *Controller) rsaKey() (*rsa.PrivateKey, error) {
	select {
	case key := <-c.standbyKeys:
		return key, nil
	default:
		return rsa.GenerateKey(rand.Reader, rsaBits)
	}
}

// generateStandbyKeys makes RSA keys in advance: each takes a tenth of a second, for which the next cluster need not
// wait.
func (c *Controller) generateStandbyKeys() error {
	for len(c.standbyKeys) < cap(c.standbyKeys) {
		key, err := rsa.GenerateKey(rand.Reader, rsaBits)
		if err != nil {
			return err
		}
		select {
		case c.standbyKeys <- key:
		default: // another worker was faster
		}
	}
	return nil
}

func makeSecrets(clusterID string, now time.Time, rsaKey func() (*rsa.PrivateKey, error)) (
	record.ControlPlaneSecrets, error) {
	s := record.ControlPlaneSecrets{ClusterID: clusterID}
	group := pool.New().WithErrors()
	group.Go(func() error {
		key, err := rsaKey()
		if err != nil {
			return err
		}
		s.ServiceAccountKey, err = keyutil.MarshalPrivateKeyToPEM(key)
		return err
	})
	group.Go(func() error {
		key, err := rsaKey()
		if err != nil {
			return err
		}
		ca, err := newAuthority(key, now)
		if err != nil {
			return err
		}
		s.CertificateAuthority, s.CertificateAuthorityKey = ca.PEM, ca.KeyPEM
		return nil
	})
	group.Go(func() error {
		frontProxy, err := pki.NewAuthority(pki.Cluster, subjectOf("front-proxy-ca"), now)
		if err != nil {
			return err
		}
		s.FrontProxyCA, s.FrontProxyCAKey = frontProxy.PEM, frontProxy.KeyPEM
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
	if k.ca, err = pki.ParseAuthority(pki.Cluster, s.CertificateAuthority, s.CertificateAuthorityKey); err != nil {
		return k, fmt.Errorf("certificate authority: %w", err)
	}
	if k.trusted, err = parseAuthorities(s); err != nil {
		return k, fmt.Errorf("certificate authorities: %w", err)
	}
	if k.frontProxy, err = pki.ParseAuthority(pki.Cluster, s.FrontProxyCA, s.FrontProxyCAKey); err != nil {
		return k, fmt.Errorf("front-proxy certificate authority: %w", err)
	}
	if k.serviceAccount, err = parseServiceAccountKeys(s); err != nil {
		return k, fmt.Errorf("service-account key: %w", err)
	}
	k.encryption = s.EncryptionKeys
	return k, nil
}

// newAuthority makes a certificate authority of a cluster. The name and the kind of key are those of EKS's, which
// clients may show or check.
func newAuthority(key *rsa.PrivateKey, now time.Time) (*pki.Authority, error) {
	return pki.NewAuthorityWithKey(pki.Cluster, key, subjectOf("kubernetes"), now)
}

// subjectOf returns the subject of an authority, as kubeadm makes it.
func subjectOf(authority string) pki.Leaf {
	return pki.Leaf{CommonName: authority, DNSNames: []string{authority}}
}

// publishIssuer stores the public side of the service-account keys, from which the daemon serves the OIDC discovery
// document of the cluster, and STS verifies tokens.
func (c *Controller) publishIssuer(ctx context.Context, cluster record.Cluster, k keys) error {
	jwks, err := jsonWebKeySet(k.serviceAccount.published)
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

// jsonWebKeySet returns the JSON Web Key Set of public keys. Their key IDs are those that the API server puts into the
// tokens it signs: the SHA-256 of the public key in DER.
func jsonWebKeySet(all []*rsa.PublicKey) ([]byte, error) {
	var set jose.JSONWebKeySet
	for _, public := range all {
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(der)
		set.Keys = append(set.Keys, jose.JSONWebKey{
			Key:       public,
			KeyID:     base64.RawURLEncoding.EncodeToString(sum[:]),
			Algorithm: string(jose.RS256),
			Use:       "sig",
		})
	}
	return json.Marshal(set)
}

// leaf is a certificate of a cluster.
type leaf struct {
	name string // of the two files, name.crt and name.key
	pki.Leaf
	frontProxyCA  bool                     // signed by that authority
	ofOtherIssuer func() (pki.Pair, error) // signed elsewhere: by etcd's authority
}

// clientLeaf returns the certificate of a client that Kubernetes knows as a user with groups.
func clientLeaf(user string, groups ...string) pki.Leaf {
	return pki.Leaf{CommonName: user, Organization: groups, Client: true}
}

// requiredLeaves returns all certificates of a cluster.
func (c *Controller) requiredLeaves(p plane) ([]leaf, error) {
	cluster, addresses := p.cluster, p.network.addresses()
	serviceIPs, err := firstServiceIPs(cluster)
	if err != nil {
		return nil, err
	}
	if p.public != nil {
		addresses = append(addresses, p.public)
	}
	serving := pki.Leaf{
		CommonName: "kube-apiserver", Server: true,
		DNSNames: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"localhost",
			endpointName(cluster),
		},
		IPs: append(append([]net.IP{net.IPv4(127, 0, 0, 1).To4()}, serviceIPs...), addresses...),
	}
	return []leaf{
		{name: "kube-apiserver", Leaf: serving},
		{name: "kube-apiserver-kubelet-client", Leaf: clientLeaf("kube-apiserver-kubelet-client", "system:masters")},
		{name: "front-proxy-client", Leaf: clientLeaf(extensionmetrics.Client), frontProxyCA: true},
		{name: "apiserver-etcd-client", ofOtherIssuer: func() (pki.Pair, error) {
			return c.o.Etcd.IssueClient(etcdUser(cluster.ID))
		}},
		{name: "kube-controller-manager", Leaf: clientLeaf("system:kube-controller-manager")},
		{name: "kube-scheduler", Leaf: clientLeaf("system:kube-scheduler")},
		{name: "cloud-controller-manager", Leaf: clientLeaf(userCloudController)},
		{name: extensionmetrics.ServingCertificate, Leaf: pki.Leaf{CommonName: extensionmetrics.Service, Server: true,
			DNSNames: []string{extensionmetrics.ServerName}}},
		{name: extensionmetrics.ClientCertificate, Leaf: clientLeaf(extensionmetrics.User)},
		// What the controller manager and the scheduler serve their health with. They would make
		// an RSA key each themselves, which takes longer than the rest of their start.
		{name: "health", Leaf: pki.Leaf{
			CommonName: "health", Server: true, DNSNames: []string{"localhost"}, IPs: []net.IP{p.localIP()},
		}},
	}, nil
}

// endpointName returns the name that EKS would give the cluster's endpoint.
func endpointName(cluster record.Cluster) string {
	return cluster.ID + ".gr7." + cluster.Region + ".eks.amazonaws.com"
}

// issueCertificates writes the cluster's certificates and keys into its directory: those that are missing, do not match
// their spec, or have lived for two thirds of their life. The components reload them by themselves.
func (c *Controller) issueCertificates(p plane) error {
	cluster, k := p.cluster, p.keys
	dir := c.clusterDir(cluster.ID, "pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	leaves, err := c.requiredLeaves(p)
	if err != nil {
		return err
	}
	legacy, err := keyutil.MarshalPrivateKeyToPEM(k.serviceAccount.legacy)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt":             k.ca.PEM,
		"ca.key":             k.ca.KeyPEM,
		"front-proxy-ca.crt": k.frontProxy.PEM,
		"sa.key":             legacy, // of the controller manager
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
	if l.ofOtherIssuer == nil {
		authority := k.ca
		if l.frontProxyCA {
			authority = k.frontProxy
		}
		_, _, err := authority.EnsureAt(dir, l.name, l.Leaf, c.clock.Now())
		return err
	}
	certFile, keyFile := filepath.Join(dir, l.name+".crt"), filepath.Join(dir, l.name+".key")
	certificate, err := pki.ReadPair(certFile, keyFile)
	if err == nil && c.clock.Now().Before(pki.Cluster.Renewal(certificate)) {
		return nil
	}
	pair, err := l.ofOtherIssuer()
	if err != nil || len(pair.Certificate) == 0 { // an etcd without client certificates
		return err
	}
	return pki.WritePair(certFile, keyFile, pair)
}

// renewalDue returns when the first of the cluster's certificates must be replaced.
func (c *Controller) renewalDue(clusterID string) (time.Time, error) {
	var due time.Time
	files, err := filepath.Glob(c.clusterDir(clusterID, "pki", "*.crt"))
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
		certificate, err := pki.ParseCertificate(b)
		if err != nil {
			return due, fmt.Errorf("%s: %w", f, err)
		}
		if r := pki.Cluster.Renewal(certificate); due.IsZero() || r.Before(due) {
			due = r
		}
	}
	return due, nil
}

// etcdCertificate reports whether the cluster has a client certificate for etcd: it has none
// when the etcd takes clients without.
func (c *Controller) etcdCertificate(clusterID string) (bool, error) {
	_, err := os.Stat(c.clusterDir(clusterID, "pki", "apiserver-etcd-client.crt"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ensureFile makes a private file hold content, in one step, and leaves it alone if it does.
func ensureFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return durable.EnsureFile(name, content, 0o600)
}

// firstServiceIPs returns the addresses of the service "kubernetes": the first of each service range.
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
