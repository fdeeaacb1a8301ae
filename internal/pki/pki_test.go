package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAnAuthorityIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := OpenAuthority(dir, "ca", "test")
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenAuthority(dir, "ca", "another name")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.PEM, again.PEM) {
		t.Error("opening an authority again made another")
	}
	if info, err := os.Stat(filepath.Join(dir, "ca.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %v, %v", info.Mode(), err)
	}

	// A crash between the two files leaves a key without a certificate.
	if err := os.Remove(filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthority(dir, "ca", "test"); err != nil {
		t.Errorf("half an authority: %v", err)
	}

	// The key of another is noticed.
	other, err := OpenAuthority(t.TempDir(), "ca", "other")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), other.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthority(dir, "ca", "test"); err == nil {
		t.Error("an authority with the key of another was opened")
	}
}

func TestLeavesAreVerifiedForWhatTheySay(t *testing.T) {
	t.Parallel()
	ca, err := OpenAuthority(t.TempDir(), "ca", "test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(Leaf{CommonName: "web", DNSNames: []string{"web.example"},
		IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate)
	for _, c := range []struct {
		name  string
		usage x509.ExtKeyUsage
		good  bool
	}{
		{"web.example", x509.ExtKeyUsageServerAuth, true},
		{"127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		{"other.example", x509.ExtKeyUsageServerAuth, false},
		{"web.example", x509.ExtKeyUsageClientAuth, false},
	} {
		_, err := loaded.Leaf.Verify(x509.VerifyOptions{DNSName: c.name, Roots: roots,
			KeyUsages: []x509.ExtKeyUsage{c.usage}})
		if (err == nil) != c.good {
			t.Errorf("%s for usage %d: %v", c.name, c.usage, err)
		}
	}
}

func TestEnsureIssuesAgainOnlyWhenItMust(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := OpenAuthority(dir, "ca", "test")
	if err != nil {
		t.Fatal(err)
	}
	leaf := Leaf{CommonName: "a", DNSNames: []string{"a.example"}, Server: true}
	ensure := func() []byte {
		t.Helper()
		crt, _, err := ca.Ensure(dir, "leaf", leaf)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(crt)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	first := ensure()
	if !bytes.Equal(first, ensure()) {
		t.Error("a good certificate was issued again")
	}
	leaf.DNSNames = []string{"b.example"}
	second := ensure()
	if bytes.Equal(first, second) {
		t.Error("a certificate with the old name was kept")
	}
	if err := os.WriteFile(filepath.Join(dir, "leaf.key"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(second, ensure()) {
		t.Error("a certificate with a damaged key was kept")
	}
}

// Authorities and leaves that older versions made, or an operator for his etcd, are used on.
func TestAuthoritiesOfOlderVersions(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key   crypto.Signer
		block pem.Block
	}{
		"an EC key":     {ec, pem.Block{Type: "EC PRIVATE KEY", Bytes: ecDER}},
		"an RSA key":    {r, pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(r)}},
		"a PKCS #8 key": {ec, pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}},
	} {
		dir := t.TempDir()
		write := func(name, kind string, der []byte) {
			t.Helper()
			text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now()
		authority := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "old", Organization: []string{"Coracle"}},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(Daemon.AuthorityLife),
			KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
			BasicConstraintsValid: true, IsCA: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, authority, authority, c.key.Public(), c.key)
		if err != nil {
			t.Fatal(err)
		}
		write("ca.crt", "CERTIFICATE", der)
		write("ca.key", c.block.Type, c.block.Bytes)
		old := &x509.Certificate{
			SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf", Organization: []string{"Coracle"}},
			DNSNames: []string{"leaf.example"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(Daemon.LeafLife),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}
		if der, err = x509.CreateCertificate(rand.Reader, old, authority, ec.Public(), c.key); err != nil {
			t.Fatal(err)
		}
		write("leaf.crt", "CERTIFICATE", der)
		write("leaf.key", "EC PRIVATE KEY", ecDER)

		ca, err := OpenAuthority(dir, "ca", "new")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if ca.Certificate.Subject.CommonName != "old" {
			t.Errorf("%s: another authority was made", name)
		}
		leaf := Leaf{CommonName: "leaf", DNSNames: []string{"leaf.example"}, Server: true}
		crt, _, err := ca.Ensure(dir, "leaf", leaf)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(crt)
		if err != nil {
			t.Fatal(err)
		}
		if certificate, err := ParseCertificate(kept); err != nil || certificate.SerialNumber.Int64() != 2 {
			t.Errorf("%s: a good leaf was issued again: %v", name, err)
		}
		leaf.DNSNames = []string{"other.example"}
		pair, err := ca.Issue(leaf)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := ParseCertificate(pair.Certificate)
		if err != nil || certificate.CheckSignatureFrom(ca.Certificate) != nil {
			t.Errorf("%s: it does not sign: %v", name, err)
		}
	}
}

func TestLeavesEndWithTheirAuthority(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca, err := NewAuthority(Cluster, Leaf{CommonName: "kubernetes", DNSNames: []string{"kubernetes"}}, now)
	if err != nil {
		t.Fatal(err)
	}
	end := ca.Certificate.NotAfter
	for name, c := range map[string]struct{ at, want time.Time }{
		"a year":                                 {now, now.Add(Cluster.LeafLife)},
		"until the authority ends":               {end.Add(-time.Hour), end},
		"a year, of an authority that has ended": {end.Add(time.Hour), end.Add(time.Hour + Cluster.LeafLife)},
	} {
		pair, err := ca.IssueAt(Leaf{CommonName: "leaf", Client: true}, c.at)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := ParseCertificate(pair.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if !certificate.NotAfter.Equal(c.want.Truncate(time.Second)) {
			t.Errorf("%s: it is valid until %v, want %v", name, certificate.NotAfter, c.want)
		}
	}
}

// Nobody who trusts the authority of AWS Certificate Manager can be deceived about names of AWS, of hosts and of
// clusters, whoever gets it to sign a certificate for them.
func TestWhatTheAuthorityOfCertificateManagerIsNotBelieved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := CertificateManager.OpenAuthority(dir, "acm", "test"); err != nil {
		t.Fatal(err)
	}
	ca, err := CertificateManager.OpenAuthority(dir, "acm", "test") // from its files
	if err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate)
	now := time.Now()
	for name, believed := range map[string]bool{
		"web.example.com": true, "shop.test": true, "internal.example.com": true,
		"sts.eu-west-1.amazonaws.com": false, "x.gr7.eu-west-1.eks.amazonaws.com": false, "s3.amazonaws.com.cn": false,
		"eks.eu-west-1.api.aws": false, "x.on.aws": false, "localhost": false, "a.localhost": false,
		"ip-10-0-0-1.ec2.internal": false, "kubernetes.default.svc": false, "web.default.svc.cluster.local": false,
		"kubernetes.default": false, "127.0.0.1": false, "::1": false,
	} {
		leaf := Leaf{CommonName: "x", DNSNames: []string{name}, Server: true}
		if ip := net.ParseIP(name); ip != nil {
			leaf.DNSNames, leaf.IPs = nil, []net.IP{ip}
		}
		text, err := ca.SignAt(key.Public(), leaf, now)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ParseCertificate(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); (err == nil) != believed {
			t.Errorf("%s: %v", name, err)
		}
		if life := c.NotAfter.Sub(now); life > 198*24*time.Hour || life < 197*24*time.Hour {
			t.Errorf("%s is valid for %v", name, life)
		}
	}
}
