package acm

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// Bounds of what is imported. AWS takes chains of 2 MiB; what a listener has of a certificate is to be small
// (record.MaxCertificateMaterial). The size of the keys in a chain bounds what it costs to check it.
const (
	maxChain           = 64 << 10 // bytes, with what is written between the certificates
	maxIssuers         = 10
	maxKeyLength       = 8192 // bits
	maxCertificateName = 250  // names of a certificate
)

// imported is a certificate that somebody imports.
type imported struct {
	certificate       *x509.Certificate
	algorithm         types.KeyAlgorithm
	keyUsages         []types.KeyUsageName
	extendedKeyUsages []types.ExtendedKeyUsageName
	material          record.CertificateMaterial
}

// parseImport reads what is imported, and refuses what could not be served.
// https://docs.aws.amazon.com/acm/latest/userguide/troubleshoot-import.html
func parseImport(in *acm.ImportCertificateInput, now time.Time) (*imported, error) {
	all, err := parseCertificates("certificate", in.Certificate)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 {
		return nil, validation("The certificate field contains more than one certificate. You can specify only one " +
			"certificate in this field. Put its issuers into the certificate chain.")
	}
	i := &imported{certificate: all[0]}
	if i.algorithm, err = algorithmOf(i.certificate.PublicKey); err != nil {
		return nil, err
	}
	key, err := parsePrivateKey(in.PrivateKey)
	if err != nil {
		return nil, err
	}
	switch public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); {
	case !ok || !public.Equal(i.certificate.PublicKey):
		return nil, validation("The private key does not match the certificate: import the key that the certificate was " +
			"requested with.")
	case i.certificate.Version != 3:
		return nil, validation("The certificate is of X.509 version %d: only version 3 is supported.",
			i.certificate.Version)
	case now.After(i.certificate.NotAfter):
		return nil, validation("The certificate has expired on %s: import one that is valid.",
			i.certificate.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(i.certificate.NotBefore):
		return nil, validation("The certificate is not valid before %s: import one that is valid now.",
			i.certificate.NotBefore.UTC().Format(time.RFC3339))
	case len(namesOf(i.certificate)) == 0:
		return nil, validation("The certificate has neither a common name nor a subject alternative name: import one for a " +
			"domain name or an IP address.")
	case len(namesOf(i.certificate)) > maxCertificateName:
		return nil, validation("The certificate has %d names, and coracle takes %d: import several certificates.",
			len(namesOf(i.certificate)), maxCertificateName)
	}
	i.keyUsages, i.extendedKeyUsages = usagesOf(i.certificate)
	i.material = record.CertificateMaterial{Certificate: encodeCertificates(all)}
	if i.material.PrivateKey, err = encodePrivateKey(key); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(in.CertificateChain)) > 0 {
		if i.material.Chain, err = parseChain(i.certificate, in.CertificateChain); err != nil {
			return nil, err
		}
	}
	size := len(i.material.Certificate) + len(i.material.Chain) + len(i.material.PrivateKey)
	if size > record.MaxCertificateMaterial {
		return nil, validation("The certificate, its chain and its private key have %d bytes together, and coracle takes "+
			"%d: leave out what is not an issuer of the certificate.", size, record.MaxCertificateMaterial)
	}
	return i, nil
}

// parseChain reads the issuers of a certificate, each of which has signed the one before it.
func parseChain(certificate *x509.Certificate, text []byte) ([]byte, error) {
	if len(text) > maxChain {
		return nil, validation("The certificate chain has %d bytes, and coracle takes %d: leave out what is not an issuer "+
			"of the certificate.", len(text), maxChain)
	}
	chain, err := parseCertificates("certificate chain", text)
	if err != nil {
		return nil, err
	}
	if len(chain) > maxIssuers {
		return nil, validation("The certificate chain has %d certificates, and coracle takes %d: leave out what is not an "+
			"issuer of the certificate.", len(chain), maxIssuers)
	}
	if chain[0].Equal(certificate) {
		return nil, validation("Could not validate the certificate with the certificate chain: the chain begins with the " +
			"certificate itself. Leave it out of the chain.")
	}
	below := certificate
	for _, issuer := range chain {
		if key, ok := issuer.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxKeyLength {
			return nil, validation("The key of %q in the certificate chain has %d bits: up to %d are supported.",
				issuer.Subject, key.N.BitLen(), maxKeyLength)
		}
		if err := below.CheckSignatureFrom(issuer); err != nil {
			var weak x509.InsecureAlgorithmError
			if errors.As(err, &weak) {
				return nil, validation("The certificate of %q is signed with %s, which is not supported.", below.Subject,
					below.SignatureAlgorithm)
			}
			return nil, validation("Could not validate the certificate with the certificate chain: %q is not the issuer of "+
				"%q. The chain begins with the issuer of the certificate, and each certificate in it has signed the one "+
				"before it.", issuer.Subject, below.Subject)
		}
		below = issuer
	}
	return encodeCertificates(chain), nil
}

// parseCertificates reads certificates that are PEM, and nothing but certificates.
func parseCertificates(what string, text []byte) (all []*x509.Certificate, err error) {
	rest := bytes.TrimSpace(text)
	for len(rest) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, validation("The %s is not in a valid PEM format: it consists of blocks from -----BEGIN "+
				"CERTIFICATE----- to -----END CERTIFICATE-----.", what)
		}
		if block.Type != "CERTIFICATE" {
			return nil, validation("The %s has a PEM block of type %q, and may only have certificates.", what, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, validation("Unable to parse the %s: %v.", what, err)
		}
		all, rest = append(all, c), bytes.TrimSpace(rest)
	}
	if len(all) == 0 {
		return nil, validation("The %s is empty.", what)
	}
	return all, nil
}

// parsePrivateKey reads a private key that is PEM and not encrypted.
func parsePrivateKey(text []byte) (crypto.Signer, error) {
	rest := bytes.TrimSpace(text)
	var block *pem.Block
	for {
		if block, rest = pem.Decode(rest); block == nil {
			return nil, validation("The private key is not in a valid PEM format.")
		}
		if block.Type != "EC PARAMETERS" { // which OpenSSL writes before a key
			break
		}
	}
	if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
		return nil, validation("The private key is encrypted. Remove its passphrase, for example with openssl pkey.")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return nil, validation("The private key field has a PEM block of type %q, which is no private key.", block.Type)
	}
	if err != nil {
		return nil, validation("The private key is not supported: %v.", err)
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		return key, nil
	}
	return nil, validation("The private key is not supported: it is a %T, and may be of RSA or ECDSA.", key)
}

// algorithmOf returns the name of the algorithm of a public key.
// https://docs.aws.amazon.com/acm/latest/userguide/acm-certificate-characteristics.html#algorithms-term
func algorithmOf(public any) (types.KeyAlgorithm, error) {
	switch key := public.(type) {
	case *rsa.PublicKey:
		algorithm := types.KeyAlgorithm(fmt.Sprintf("RSA_%d", key.N.BitLen()))
		if slices.Contains([]types.KeyAlgorithm{types.KeyAlgorithmRsa1024, types.KeyAlgorithmRsa2048,
			types.KeyAlgorithmRsa3072, types.KeyAlgorithmRsa4096}, algorithm) {
			return algorithm, nil
		}
		return "", validation("The private key length %d is not supported for key algorithm RSA: use 1024, 2048, 3072 or "+
			"4096 bits.", key.N.BitLen())
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return types.KeyAlgorithmEcPrime256v1, nil
		case elliptic.P384():
			return types.KeyAlgorithmEcSecp384r1, nil
		case elliptic.P521():
			return types.KeyAlgorithmEcSecp521r1, nil
		}
		return "", validation("The curve %s is not supported for key algorithm EC: use P-256, P-384 or P-521.",
			key.Params().Name)
	}
	return "", validation("The key algorithm of the certificate is not supported: use RSA or ECDSA.")
}

func encodeCertificates(all []*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range all {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a buffer takes it
	}
	return b.Bytes()
}

func encodePrivateKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// describe gives a record what any certificate says.
func describe(c *record.Certificate, certificate *x509.Certificate) {
	c.NotBefore, c.NotAfter = certificate.NotBefore.UTC(), certificate.NotAfter.UTC()
	c.KeyUsages, c.ExtendedKeyUsages = usagesOf(certificate)
}

// namesOf returns the names of a certificate, its common name first.
func namesOf(c *x509.Certificate) (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(c.Subject.CommonName)
	for _, name := range c.DNSNames {
		add(name)
	}
	for _, ip := range c.IPAddresses {
		add(ip.String())
	}
	return names
}

var keyUsages = []struct {
	bit  x509.KeyUsage
	name types.KeyUsageName
}{
	{x509.KeyUsageDigitalSignature, types.KeyUsageNameDigitalSignature},
	{x509.KeyUsageContentCommitment, types.KeyUsageNameNonRepudation},
	{x509.KeyUsageKeyEncipherment, types.KeyUsageNameKeyEncipherment},
	{x509.KeyUsageDataEncipherment, types.KeyUsageNameDataEncipherment},
	{x509.KeyUsageKeyAgreement, types.KeyUsageNameKeyAgreement},
	{x509.KeyUsageCertSign, types.KeyUsageNameCertificateSigning},
	{x509.KeyUsageCRLSign, types.KeyUsageNameCrlSigning},
	{x509.KeyUsageEncipherOnly, types.KeyUsageNameEnchiperOnly},
	{x509.KeyUsageDecipherOnly, types.KeyUsageNameDecipherOnly},
}

// extendedKeyUsages are the usages with their object identifiers.
var extendedKeyUsages = map[x509.ExtKeyUsage]types.ExtendedKeyUsage{
	x509.ExtKeyUsageAny: {Name: types.ExtendedKeyUsageNameAny, OID: new("2.5.29.37.0")},
	x509.ExtKeyUsageServerAuth: {Name: types.ExtendedKeyUsageNameTlsWebServerAuthentication,
		OID: new("1.3.6.1.5.5.7.3.1")},
	x509.ExtKeyUsageClientAuth: {Name: types.ExtendedKeyUsageNameTlsWebClientAuthentication,
		OID: new("1.3.6.1.5.5.7.3.2")},
	x509.ExtKeyUsageCodeSigning: {Name: types.ExtendedKeyUsageNameCodeSigning, OID: new("1.3.6.1.5.5.7.3.3")},
	x509.ExtKeyUsageEmailProtection: {Name: types.ExtendedKeyUsageNameEmailProtection,
		OID: new("1.3.6.1.5.5.7.3.4")},
	x509.ExtKeyUsageIPSECEndSystem: {Name: types.ExtendedKeyUsageNameIpsecEndSystem, OID: new("1.3.6.1.5.5.7.3.5")},
	x509.ExtKeyUsageIPSECTunnel:    {Name: types.ExtendedKeyUsageNameIpsecTunnel, OID: new("1.3.6.1.5.5.7.3.6")},
	x509.ExtKeyUsageIPSECUser:      {Name: types.ExtendedKeyUsageNameIpsecUser, OID: new("1.3.6.1.5.5.7.3.7")},
	x509.ExtKeyUsageTimeStamping:   {Name: types.ExtendedKeyUsageNameTimeStamping, OID: new("1.3.6.1.5.5.7.3.8")},
	x509.ExtKeyUsageOCSPSigning:    {Name: types.ExtendedKeyUsageNameOcspSigning, OID: new("1.3.6.1.5.5.7.3.9")},
}

// extendedKeyUsagesOf returns the extended key usages of a certificate.
func extendedKeyUsagesOf(c *x509.Certificate) (all []types.ExtendedKeyUsage) {
	for _, usage := range c.ExtKeyUsage {
		if known, ok := extendedKeyUsages[usage]; ok {
			all = append(all, known)
		}
	}
	for _, oid := range c.UnknownExtKeyUsage {
		all = append(all, types.ExtendedKeyUsage{Name: types.ExtendedKeyUsageNameCustom, OID: new(oid.String())})
	}
	return all
}

// usagesOf returns the names of the usages of a certificate, each once.
func usagesOf(c *x509.Certificate) (usages []types.KeyUsageName, extended []types.ExtendedKeyUsageName) {
	for _, u := range keyUsages {
		if c.KeyUsage&u.bit != 0 {
			usages = append(usages, u.name)
		}
	}
	for _, u := range extendedKeyUsagesOf(c) {
		if !slices.Contains(extended, u.Name) {
			extended = append(extended, u.Name)
		}
	}
	return usages, extended
}
