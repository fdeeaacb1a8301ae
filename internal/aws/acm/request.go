package acm

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// tokenLife is how long an IdempotencyToken stands for one request.
const tokenLife = time.Hour

// requestAlgorithms are the key algorithms of certificates that are issued.
var requestAlgorithms = []types.KeyAlgorithm{types.KeyAlgorithmRsa2048, types.KeyAlgorithmEcPrime256v1,
	types.KeyAlgorithmEcSecp384r1}

// requestTargets returns what RequestCertificate needs permission for.
func requestTargets(ctx context.Context, action string, in *acm.RequestCertificateInput) ([]wire.Target, error) {
	names := []string{strings.ToLower(aws.ToString(in.DomainName))}
	for _, name := range in.SubjectAlternativeNames {
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(names)
	request := requestOf(in)
	conditions := map[string][]string{
		"acm:DomainNames":                    slices.Compact(names),
		"acm:ValidationMethod":               {string(request.ValidationMethod)},
		"acm:KeyAlgorithm":                   {string(keyAlgorithmOf(in))},
		"acm:CertificateTransparencyLogging": {string(request.TransparencyLogging)},
		"acm:Export":                         {string(exportOf(in))},
	}
	if in.CertificateAuthorityArn != nil {
		conditions["acm:CertificateAuthority"] = []string{*in.CertificateAuthorityArn}
	}
	return creationTargets(ctx, action, conditions, in.Tags), nil
}

// requestOf returns what a request asks for, with the defaults of what it leaves out.
func requestOf(in *acm.RequestCertificateInput) *record.CertificateRequest {
	r := &record.CertificateRequest{
		ValidationMethod:    cmp.Or(in.ValidationMethod, types.ValidationMethodEmail),
		TransparencyLogging: types.CertificateTransparencyLoggingPreferenceEnabled,
		Token:               aws.ToString(in.IdempotencyToken),
		Fingerprint:         wire.Fingerprint(in),
	}
	if in.Options != nil {
		r.TransparencyLogging = cmp.Or(in.Options.CertificateTransparencyLoggingPreference, r.TransparencyLogging)
	}
	return r
}

func keyAlgorithmOf(in *acm.RequestCertificateInput) types.KeyAlgorithm {
	return cmp.Or(in.KeyAlgorithm, types.KeyAlgorithmRsa2048)
}

func exportOf(in *acm.RequestCertificateInput) types.CertificateExport {
	if in.Options == nil {
		return types.CertificateExportDisabled
	}
	return cmp.Or(in.Options.Export, types.CertificateExportDisabled)
}

// RequestCertificate records that a certificate is to be issued.
func (s *Service) RequestCertificate(ctx context.Context, in *acm.RequestCertificateInput) (
	*acm.RequestCertificateOutput, error) {
	if err := checkServed(in); err != nil {
		return nil, err
	}
	names, err := s.checkNames(in)
	if err != nil {
		return nil, err
	}
	request := requestOf(in)
	if request.ValidationDomains, err = validationDomains(in, names); err != nil {
		return nil, err
	}
	tags, err := addTags(ctx, nil, in.Tags)
	if err != nil {
		return nil, err
	}
	at := placeOf(ctx)
	defer s.hold(at)()
	repeated, err := s.findRequest(ctx, at, request)
	if err != nil {
		return nil, err
	}
	if repeated != "" {
		return &acm.RequestCertificateOutput{CertificateArn: &repeated}, nil
	}
	if err := s.checkQuota(ctx, at, types.CertificateTypeAmazonIssued, maxIssued); err != nil {
		return nil, err
	}
	c := record.Certificate{Account: at.account, Region: at.region, ID: uuid.NewString(), CreatedAt: s.timestamp(),
		Type: types.CertificateTypeAmazonIssued, Status: types.CertificateStatusPendingValidation, Tags: tags,
		DomainName: names[0], SubjectAlternativeNames: names, KeyAlgorithm: keyAlgorithmOf(in), Request: request}
	if _, err := s.certificates.Create(ctx, c.Key(), c); err != nil {
		return nil, err
	}
	return &acm.RequestCertificateOutput{CertificateArn: new(c.ARN())}, nil
}

// checkServed refuses requests for other certificates than coracle issues.
func checkServed(in *acm.RequestCertificateInput) error {
	switch {
	case in.CertificateAuthorityArn != nil:
		return invalidParameter("Private certificate authorities are not implemented by coracle: leave out "+
			"CertificateAuthorityArn (%s).", *in.CertificateAuthorityArn)
	case in.ManagedBy != "":
		return validation("ManagedBy %s is not implemented by coracle: leave it out.", in.ManagedBy)
	case in.ValidationMethod == types.ValidationMethodHttp:
		return validation("HTTP validation is for certificates that CloudFront manages: use DNS.")
	case exportOf(in) == types.CertificateExportEnabled:
		return validation("Certificates that can be exported are not implemented by coracle: leave out the option Export.")
	case !slices.Contains(requestAlgorithms, keyAlgorithmOf(in)):
		return validation("The key algorithm %s is for imported certificates only: use one of %v.", in.KeyAlgorithm,
			requestAlgorithms)
	}
	return nil
}

// validationDomains returns the domains that validation emails of the names go to, where they are not the name itself.
func validationDomains(in *acm.RequestCertificateInput, names []string) (map[string]string, error) {
	domains := map[string]string{}
	for _, o := range in.DomainValidationOptions {
		name, domain := strings.ToLower(*o.DomainName), strings.ToLower(*o.ValidationDomain)
		if !slices.Contains(names, name) {
			return nil, invalidDomainValidation("DomainValidationOptions names %s, which is none of the domain names of the "+
				"certificate.", name)
		}
		base := strings.TrimPrefix(name, "*.")
		switch _, twice := domains[name]; {
		case twice:
			return nil, invalidDomainValidation("DomainValidationOptions names %s more than once.", name)
		case !isDomainName(domain), !isWithin(base, domain):
			return nil, invalidDomainValidation("The validation domain %s is not the domain %s or a superdomain of it.",
				domain, base)
		}
		domains[name] = domain
	}
	return domains, nil
}

// findRequest returns the ARN of the certificate of an earlier attempt of a request, or "".
func (s *Service) findRequest(ctx context.Context, at place, request *record.CertificateRequest) (string, error) {
	if request.Token == "" {
		return "", nil
	}
	rows, err := s.requested.List(ctx, requestIndex(at, request.Token))
	if err != nil {
		return "", err
	}
	for _, row := range rows {
		c := row.Value
		if s.now().Sub(c.CreatedAt) >= tokenLife {
			continue
		}
		repeated, err := wire.Repeated(ctx, &request.Token, request.Fingerprint, c.Request.Token, c.Request.Fingerprint)
		if err != nil || repeated {
			return c.ARN(), err
		}
	}
	return "", nil
}

// checkQuota refuses one more certificate of a type than a place may have.
func (s *Service) checkQuota(ctx context.Context, at place, kind types.CertificateType, most int) error {
	prefix := store.Prefix(at.account, at.region)
	if s.certificates.Count(prefix) < most {
		return nil
	}
	rows, err := s.certificates.List(ctx, prefix)
	if err != nil {
		return err
	}
	n := 0
	for _, row := range rows {
		if row.Value.Type == kind {
			n++
		}
	}
	if n >= most {
		return limitExceeded("The account has reached its limit of %d certificates of type %s in %s: delete those that are "+
			"not in use.", most, kind, at.region)
	}
	return nil
}
