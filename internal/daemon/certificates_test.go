package daemon

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/pki"
)

// What AWS Certificate Manager issues is believed by those who use the bundle of "coracle env", and the authority that
// signs it is neither the daemon's own nor one that API servers ask identity providers with.
func TestCertificatesOfCertificateManagerAreInTheBundleAlone(t *testing.T) {
	t.Parallel()
	dir := datadir.Dir(t.TempDir())
	if _, err := pki.OpenAuthority(dir.PKI(), "ca", "coracle"); err != nil {
		t.Fatal(err)
	}
	settings := datadir.Settings{Listen: "127.0.0.1:4566", Simulated: "for the test"}
	if _, err := WriteBundle(dir, settings, ""); err != nil {
		t.Errorf("the bundle of a directory that an older daemon has made: %v", err)
	}
	authority, err := openCertificateAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := WriteBundle(dir, settings, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := writeTrusted(dir.ProviderRoots(), dir, settings, ""); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 60) + ".example.com"
	text, chain, err := authority.Sign(key.Public(), []string{long, "web.example.com"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(chain, authority.authority.PEM) {
		t.Error("the chain is not the authority")
	}
	certificate, err := pki.ParseCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	if certificate.Subject.String() != "" {
		t.Errorf("the subject is %s", certificate.Subject)
	}
	own, _ := authorityFiles(dir)
	for file, want := range map[string]bool{bundle: true, dir.ProviderRoots(): false, own: false} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		_, err = certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: "web.example.com"})
		if (err == nil) != want {
			t.Errorf("with %s: %v", file, err)
		}
	}
}
