package acm

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// DescribeCertificate describes a certificate.
func (s *Service) DescribeCertificate(ctx context.Context, in *acm.DescribeCertificateInput) (
	*acm.DescribeCertificateOutput, error) {
	row, err := s.find(ctx, in.CertificateArn)
	if err != nil {
		return nil, err
	}
	c := row.Value
	users, err := s.users(ctx, place{c.Account, c.Region})
	if err != nil {
		return nil, err
	}
	d := &types.CertificateDetail{
		CertificateArn: new(c.ARN()), DomainName: &c.DomainName, SubjectAlternativeNames: c.SubjectAlternativeNames,
		Type: c.Type, Status: s.statusOf(c), CreatedAt: &c.CreatedAt, KeyAlgorithm: c.KeyAlgorithm,
		InUseBy: append([]string{}, users[c.ARN()]...), RenewalEligibility: s.eligibility(c, len(users[c.ARN()]) > 0),
		CertificateKeyPairOrigin: originOf(c), Options: optionsOf(c), Subject: new("CN=" + c.DomainName),
	}
	if c.Type == types.CertificateTypeImported {
		d.ImportedAt = &c.ImportedAt
	} else {
		d.DomainValidationOptions = validationsOf(c)
		d.RenewalSummary = renewalOf(c)
		if !c.IssuedAt.IsZero() {
			d.IssuedAt = &c.IssuedAt
		}
	}
	if c.Status == types.CertificateStatusPendingValidation {
		return &acm.DescribeCertificateOutput{Certificate: d}, nil
	}
	d.NotBefore, d.NotAfter = &c.NotBefore, &c.NotAfter
	for _, u := range c.KeyUsages {
		d.KeyUsages = append(d.KeyUsages, types.KeyUsage{Name: u})
	}
	certificate, err := s.parsed(ctx, row.Key)
	if err != nil {
		return nil, err
	}
	d.ExtendedKeyUsages = extendedKeyUsagesOf(certificate)
	d.Subject, d.Issuer = new(certificate.Subject.String()), new(issuerOf(certificate))
	d.Serial = new(serialOf(certificate))
	d.SignatureAlgorithm = new(signatureOf(certificate))
	return &acm.DescribeCertificateOutput{Certificate: d}, nil
}

// material returns what a certificate is served with.
func (s *Service) material(ctx context.Context, key string) (record.CertificateMaterial, error) {
	row, err := s.materials.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) { // it was deleted in the meantime
		parts := store.Parts(key)
		return row.Value, notFound(record.CertificateARN(parts[0], parts[1], parts[2]))
	}
	return row.Value, err
}

// parsed returns the certificate of a row.
func (s *Service) parsed(ctx context.Context, key string) (*x509.Certificate, error) {
	m, err := s.material(ctx, key)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(m.Certificate)
	if block == nil {
		return nil, fmt.Errorf("the certificate of %s is not PEM", key)
	}
	return x509.ParseCertificate(block.Bytes)
}

// statusOf returns the status of a certificate, which its expiry is a part of.
func (s *Service) statusOf(c record.Certificate) types.CertificateStatus {
	if c.Status == types.CertificateStatusIssued && s.now().After(c.NotAfter) {
		return types.CertificateStatusExpired
	}
	return c.Status
}

// eligibility returns whether a certificate is renewed before it expires: one that nothing uses is not.
// https://docs.aws.amazon.com/acm/latest/userguide/managed-renewal.html
func (s *Service) eligibility(c record.Certificate, inUse bool) types.RenewalEligibility {
	if inUse && c.Type == types.CertificateTypeAmazonIssued && s.statusOf(c) == types.CertificateStatusIssued {
		return types.RenewalEligibilityEligible
	}
	return types.RenewalEligibilityIneligible
}

func originOf(c record.Certificate) types.CertificateKeyPairOrigin {
	if c.Type == types.CertificateTypeImported {
		return types.CertificateKeyPairOriginCustomerProvided
	}
	return types.CertificateKeyPairOriginAwsManaged
}

func optionsOf(c record.Certificate) *types.CertificateOptions {
	if c.Request == nil {
		return &types.CertificateOptions{
			CertificateTransparencyLoggingPreference: types.CertificateTransparencyLoggingPreferenceDisabled,
		}
	}
	return &types.CertificateOptions{CertificateTransparencyLoggingPreference: c.Request.TransparencyLogging,
		Export: types.CertificateExportDisabled}
}

// mailboxes are those to which validation emails would go.
var mailboxes = []string{"administrator", "hostmaster", "postmaster", "webmaster", "admin"}

// validationsOf returns how the owner of a certificate would have its names validated.
func validationsOf(c record.Certificate) (all []types.DomainValidation) {
	status := types.DomainStatusSuccess
	if c.Status == types.CertificateStatusPendingValidation {
		status = types.DomainStatusPendingValidation
	}
	for _, name := range c.SubjectAlternativeNames {
		v := types.DomainValidation{DomainName: &name, ValidationMethod: c.Request.ValidationMethod,
			ValidationStatus: status}
		domain, ok := c.Request.ValidationDomains[name]
		if !ok {
			domain = name
		}
		v.ValidationDomain = &domain
		if v.ValidationMethod == types.ValidationMethodDns {
			v.ResourceRecord = resourceRecord(c.Account, strings.TrimPrefix(name, "*."))
		} else {
			for _, box := range mailboxes {
				v.ValidationEmails = append(v.ValidationEmails, box+"@"+strings.TrimPrefix(domain, "*."))
			}
		}
		all = append(all, v)
	}
	return all
}

// resourceRecord returns the DNS record by which an account would show that a domain is its own: the same for all of
// its certificates.
// https://docs.aws.amazon.com/acm/latest/userguide/dns-validation.html
func resourceRecord(account, domain string) *types.ResourceRecord {
	digest := sha256.Sum256([]byte(account + " " + domain))
	zone := []byte("aaaaaaaaaa")
	for i := range zone {
		zone[i] += digest[i] % 26
	}
	return &types.ResourceRecord{
		Name: new("_" + hex.EncodeToString(digest[:16]) + "." + domain + "."), Type: types.RecordTypeCname,
		Value: new("_" + hex.EncodeToString(digest[16:]) + "." + string(zone) + ".acm-validations.aws."),
	}
}

// renewalOf returns the last renewal of a certificate, or the one that is going to be.
func renewalOf(c record.Certificate) *types.RenewalSummary {
	switch {
	case !c.Request.RenewAt.IsZero():
		return &types.RenewalSummary{RenewalStatus: types.RenewalStatusPendingAutoRenewal,
			DomainValidationOptions: validationsOf(c), UpdatedAt: &c.Request.RenewAt}
	case !c.RenewedAt.IsZero():
		return &types.RenewalSummary{RenewalStatus: types.RenewalStatusSuccess,
			DomainValidationOptions: validationsOf(c), UpdatedAt: &c.RenewedAt}
	}
	return nil
}

// issuerOf returns the name of the authority that has issued a certificate.
func issuerOf(c *x509.Certificate) string {
	if len(c.Issuer.Organization) > 0 {
		return c.Issuer.Organization[0]
	}
	return c.Issuer.CommonName
}

// serialOf returns the serial number of a certificate, in hexadecimal digits with colons.
func serialOf(c *x509.Certificate) string {
	var pairs []string
	for _, b := range c.SerialNumber.Bytes() {
		pairs = append(pairs, fmt.Sprintf("%02x", b))
	}
	return strings.Join(pairs, ":")
}

// signatureOf returns the name of the algorithm by which a certificate is signed, as ACM has it: SHA256WITHRSA.
func signatureOf(c *x509.Certificate) string {
	hash, algorithm, ok := strings.Cut(c.SignatureAlgorithm.String(), "-")
	switch {
	case !ok:
		return c.SignatureAlgorithm.String()
	case hash == "ECDSA":
		hash, algorithm = algorithm, hash
	}
	return strings.ToUpper(hash + "WITH" + algorithm)
}
