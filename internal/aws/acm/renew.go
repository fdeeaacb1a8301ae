package acm

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// RenewCertificate has a certificate issued again. On AWS, only exported certificates can be renewed before they are
// due.
func (s *Service) RenewCertificate(ctx context.Context, in *acm.RenewCertificateInput) (
	*acm.RenewCertificateOutput, error) {
	err := s.modify(ctx, in.CertificateArn, func(c *record.Certificate) error {
		switch {
		case c.Type != types.CertificateTypeAmazonIssued:
			return validation("The certificate %s was imported and is not eligible for renewal: import its successor with "+
				"its ARN.", c.ARN())
		case c.Status == types.CertificateStatusPendingValidation:
			return &types.RequestInProgressException{Message: new("The certificate " + c.ARN() +
				" is pending validation: it has not been issued yet.")}
		}
		if c.Request.RenewAt.IsZero() {
			c.Request.RenewAt = s.timestamp()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &acm.RenewCertificateOutput{}, nil
}

// ResendValidationEmail sends nothing: no certificate waits for an email.
func (s *Service) ResendValidationEmail(ctx context.Context, in *acm.ResendValidationEmailInput) (
	*acm.ResendValidationEmailOutput, error) {
	row, err := s.find(ctx, in.CertificateArn)
	if err != nil {
		return nil, err
	}
	c := row.Value
	name, domain := strings.ToLower(*in.Domain), strings.ToLower(*in.ValidationDomain)
	switch {
	case c.Request == nil || c.Request.ValidationMethod != types.ValidationMethodEmail:
		return nil, invalidState("The certificate %s is not validated by email.", c.ARN())
	case !slices.Contains(c.SubjectAlternativeNames, name):
		return nil, invalidDomainValidation("%s is none of the domain names of the certificate %s.", name, c.ARN())
	case !isWithin(strings.TrimPrefix(name, "*."), domain):
		return nil, invalidDomainValidation("The validation domain %s is not the domain %s or a superdomain of it.", domain,
			name)
	}
	return nil, invalidState("The certificate %s needs no validation: coracle sends no email, and issues certificates "+
		"without an answer.", c.ARN())
}

// UpdateCertificateOptions changes the options of a certificate that was requested.
func (s *Service) UpdateCertificateOptions(ctx context.Context, in *acm.UpdateCertificateOptionsInput) (
	*acm.UpdateCertificateOptionsOutput, error) {
	o := in.Options
	err := s.modify(ctx, in.CertificateArn, func(c *record.Certificate) error {
		switch {
		case c.Request == nil:
			return invalidState("The certificate %s was imported and has no options.", c.ARN())
		case o.Export == types.CertificateExportEnabled:
			return validation("Certificates that can be exported are not implemented by coracle: the option Export of %s "+
				"stays DISABLED.", c.ARN())
		case o.ValidationMethod == types.ValidationMethodHttp,
			o.ValidationMethod == types.ValidationMethodEmail && c.Request.ValidationMethod != types.ValidationMethodEmail:
			return validation("The validation method of a certificate can change from EMAIL to DNS only, and that of %s is %s.",
				c.ARN(), c.Request.ValidationMethod)
		case o.ValidationMethod == "" && o.Export == "" && o.CertificateTransparencyLoggingPreference == "":
			return validation("Options is empty: set CertificateTransparencyLoggingPreference or ValidationMethod.")
		}
		if o.ValidationMethod != "" {
			c.Request.ValidationMethod = o.ValidationMethod
		}
		if o.CertificateTransparencyLoggingPreference != "" {
			c.Request.TransparencyLogging = o.CertificateTransparencyLoggingPreference
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &acm.UpdateCertificateOptionsOutput{}, nil
}
