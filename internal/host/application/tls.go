package application

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/host/headerfields"
)

// certificate is a Certificate in the form in which handshakes need it.
type certificate struct {
	tls.Certificate
	arn string
}

// certificates are those of a listener.
type certificates struct {
	all    []*certificate // the default one first
	byName map[string][]*certificate
}

// parseCertificates returns the certificates that match their keys, and what is wrong with the others.
func parseCertificates(specs []Certificate) (*certificates, error) {
	c := &certificates{byName: map[string][]*certificate{}}
	var failures []error
	for _, spec := range specs {
		pair, err := tls.X509KeyPair([]byte(spec.Chain), []byte(spec.Key))
		if err != nil {
			failures = append(failures, fmt.Errorf("certificate %s: %w", spec.ARN, err))
			continue
		}
		one := &certificate{pair, spec.ARN}
		c.all = append(c.all, one)
		names := pair.Leaf.DNSNames
		if len(names) == 0 && pair.Leaf.Subject.CommonName != "" {
			names = []string{pair.Leaf.Subject.CommonName}
		}
		for _, name := range names {
			name = strings.ToLower(name)
			c.byName[name] = append(c.byName[name], one)
		}
	}
	return c, errors.Join(failures...)
}

var errNoCertificate = errors.New("the listener has no certificate")

// chooseCertificate returns the certificate for a client, and whether the client asked for it by name: of those for the
// name, the first that the client can use; else the default one.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/https-listener-certificates.html
func (c *certificates) chooseCertificate(hello *tls.ClientHelloInfo) (chosen *certificate, named bool, err error) {
	if len(c.all) == 0 {
		return nil, false, errNoCertificate
	}
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	candidates := c.byName[name]
	if _, parent, ok := strings.Cut(name, "."); ok && len(candidates) == 0 {
		candidates = c.byName["*."+parent]
	}
	for _, one := range candidates {
		if hello.SupportsCertificate(&one.Certificate) == nil {
			return one, true, nil
		}
	}
	if len(candidates) > 0 {
		return candidates[0], true, nil
	}
	return c.all[0], false, nil
}

// versions are the versions of TLS by AWS's names.
var versions = map[string]uint16{"TLSv1": tls.VersionTLS10, "TLSv1.0": tls.VersionTLS10, "TLSv1.1": tls.VersionTLS11,
	"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}

// ciphers are the cipher suites below TLS 1.3 by AWS's names, which are OpenSSL's.
var ciphers = map[string]uint16{
	"ECDHE-ECDSA-AES128-GCM-SHA256": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-RSA-AES128-GCM-SHA256":   tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-ECDSA-AES256-GCM-SHA384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-RSA-AES256-GCM-SHA384":   tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-ECDSA-CHACHA20-POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-RSA-CHACHA20-POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-ECDSA-AES128-SHA256":     tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256,
	"ECDHE-RSA-AES128-SHA256":       tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,
	"ECDHE-ECDSA-AES128-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
	"ECDHE-RSA-AES128-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
	"ECDHE-ECDSA-AES256-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,
	"ECDHE-RSA-AES256-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
	"AES128-GCM-SHA256":             tls.TLS_RSA_WITH_AES_128_GCM_SHA256,
	"AES256-GCM-SHA384":             tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
	"AES128-SHA256":                 tls.TLS_RSA_WITH_AES_128_CBC_SHA256,
	"AES128-SHA":                    tls.TLS_RSA_WITH_AES_128_CBC_SHA,
	"AES256-SHA":                    tls.TLS_RSA_WITH_AES_256_CBC_SHA,
	"DES-CBC3-SHA":                  tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA,
}

// newTLSConfig returns the configuration of handshakes with clients.
func newTLSConfig(spec TLS, certs *certificates, protocols []string) *tls.Config {
	config := &tls.Config{ //nolint:gosec // the user's security policy has the versions
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			chosen, named, err := certs.chooseCertificate(hello)
			if err != nil {
				return nil, err
			}
			switch lower := hello.Conn.(type) {
			case *below:
				lower.certificate, lower.named = chosen.arn, named
			case *greeted:
				lower.certificate, lower.offered = chosen.arn, hello.SupportedProtos
			}
			return &chosen.Certificate, nil
		},
	}
	var known []uint16
	for _, name := range spec.Policy.Protocols {
		if v, ok := versions[name]; ok {
			known = append(known, v)
		}
	}
	if len(known) > 0 {
		config.MinVersion, config.MaxVersion = slices.Min(known), slices.Max(known)
	}
	for _, name := range spec.Policy.Ciphers {
		if id, ok := ciphers[name]; ok {
			config.CipherSuites = append(config.CipherSuites, id)
		}
	}
	return config
}

// versionName returns AWS's name of a version of TLS.
func versionName(version uint16) string {
	switch version {
	case tls.VersionTLS10:
		return "TLSv1"
	case tls.VersionTLS11:
		return "TLSv1.1"
	case tls.VersionTLS12:
		return "TLSv1.2"
	}
	return "TLSv1.3"
}

// cipherName returns AWS's name of a cipher suite.
func cipherName(id uint16) string {
	for name, have := range ciphers {
		if have == id {
			return name
		}
	}
	return tls.CipherSuiteName(id)
}

// The headers that tell a target of the client's TLS, unless the listener calls them otherwise.
const (
	headerTLS    = "X-Amzn-Tls-Version"
	headerCipher = "X-Amzn-Tls-Cipher-Suite"
)

// addTLSHeaders adds what the client negotiated to the headers of a request to a target.
func (e *exchange) addTLSHeaders(h http.Header) {
	a := &e.state.spec.Attributes
	if !a.TLSHeaders {
		return
	}
	for _, name := range []string{headerTLS, headerCipher} {
		other := cmp.Or(a.RequestNames[name], name)
		headerfields.DeleteShadows(h, http.CanonicalHeaderKey(other))
		h.Del(other) // of the client
		switch {
		case e.client.tls == nil:
		case name == headerTLS:
			h.Set(other, versionName(e.client.tls.Version))
		default:
			h.Set(other, cipherName(e.client.tls.CipherSuite))
		}
	}
}
