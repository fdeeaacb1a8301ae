package daemon

import (
	"crypto/x509"
	"net"
	"testing"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/pki"
)

// The system trusts the daemon for AWS's names and those of this host, and for nobody else's.
func TestTheSystemTrustsADaemonForItsNames(t *testing.T) {
	t.Parallel()
	dir := datadir.Dir(t.TempDir())
	if _, err := SystemAuthority(dir); err == nil {
		t.Error("a directory without a daemon has an authority")
	}
	settings := datadir.Settings{Listen: "192.0.2.1:4566", AdvertiseAddress: "eks.example.com:4566",
		PublicRange: "198.18.8.0/21"}
	if err := dir.WriteSettings(settings); err != nil {
		t.Fatal(err)
	}
	authority, err := pki.OpenAuthority(dir.PKI(), "ca", "coracle")
	if err != nil {
		t.Fatal(err)
	}
	text, err := SystemAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	trusted := func(leaf pki.Leaf) bool {
		t.Helper()
		pair, err := authority.Issue(leaf)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := pki.ParseCertificate(pair.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		_, err = certificate.Verify(x509.VerifyOptions{Roots: roots})
		return err == nil
	}
	for _, name := range []string{"oidc.eks.eu-west-1.amazonaws.com", "eks-auth.eu-west-1.api.aws", "localhost",
		"eks.example.com"} {
		if !trusted(pki.Leaf{CommonName: name, DNSNames: []string{name}, Server: true}) {
			t.Errorf("%s is not trusted", name)
		}
	}
	for _, name := range []string{"example.com", "amazonaws.com.evil.example", "console.aws.amazon.com"} {
		if trusted(pki.Leaf{CommonName: name, DNSNames: []string{name}, Server: true}) {
			t.Errorf("%s is trusted", name)
		}
	}
	for address, want := range map[string]bool{"127.0.0.1": true, "::1": true, "192.0.2.1": true, "198.18.8.3": true,
		"192.0.2.2": false, "198.18.16.3": false, "8.8.8.8": false} {
		leaf := pki.Leaf{CommonName: "x", IPs: []net.IP{net.ParseIP(address)}, Server: true}
		if got := trusted(leaf); got != want {
			t.Errorf("%s is trusted: %v", address, got)
		}
	}
	// What the endpoint shows to those who call it by no name of AWS.
	host := newCertificates(authority, settings.Listen, settings.AdvertiseAddress)
	if !trusted(pki.Leaf{CommonName: hostName, DNSNames: host.hosts, IPs: host.ips, Server: true}) {
		t.Error("the host's own certificate is not trusted")
	}
}
