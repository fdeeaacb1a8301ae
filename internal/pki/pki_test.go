package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
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
	pair, err := ca.Issue(Leaf{CommonName: "web", DNSNames: []string{"web.example"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true})
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
		_, err := loaded.Leaf.Verify(x509.VerifyOptions{DNSName: c.name, Roots: roots, KeyUsages: []x509.ExtKeyUsage{c.usage}})
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
