package daemon

import (
	"crypto"
	"time"

	acmservice "github.com/coracle-eks/coracle/internal/aws/acm"
	"github.com/coracle-eks/coracle/internal/controller/certificate"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/pki"
)

// certificateAuthority signs what AWS Certificate Manager issues. It is not the authority of the daemon: this one is
// believed about AWS's names and those of the host, the other about all names but these.
type certificateAuthority struct{ authority *pki.Authority }

// certificateAuthorityFile returns the certificate of the authority, PEM.
func certificateAuthorityFile(dir datadir.Dir) string { return dir.Join("pki", "acm.crt") }

func openCertificateAuthority(dir datadir.Dir) (certificateAuthority, error) {
	a, err := pki.CertificateManager.OpenAuthority(dir.PKI(), "acm", "Coracle Certificate Manager")
	return certificateAuthority{a}, err
}

// Sign returns a certificate for servers of those names.
func (a certificateAuthority) Sign(key crypto.PublicKey, names []string, now time.Time) (
	text, chain []byte, err error) {
	leaf := pki.Leaf{DNSNames: names, Server: true}
	const longest = 64 // of a common name
	if len(names[0]) <= longest {
		leaf.CommonName = names[0]
	}
	text, err = a.authority.SignAt(key, leaf, now)
	return text, a.authority.PEM, err
}

// certificateOptions returns the options of AWS Certificate Manager.
func (d *daemon) certificateOptions() acmservice.Options {
	return acmservice.Options{Store: d.store,
		HostNames: newCertificates(d.authority, d.settings.Listen, d.settings.AdvertiseAddress).hosts}
}

// newCertificateController returns the controller that issues and renews certificates.
func (d *daemon) newCertificateController() *certificate.Controller {
	return certificate.New(certificate.Options{Store: d.store,
		ACM: acmservice.NewLifecycle(d.certificateOptions(), d.certificateAuthority)})
}
