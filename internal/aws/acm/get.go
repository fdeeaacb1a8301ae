package acm

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"
)

// GetCertificate returns a certificate and those of its issuers.
func (s *Service) GetCertificate(ctx context.Context, in *acm.GetCertificateInput) (*acm.GetCertificateOutput, error) {
	row, err := s.find(ctx, in.CertificateArn)
	if err != nil {
		return nil, err
	}
	if row.Value.Status == types.CertificateStatusPendingValidation {
		return nil, &types.RequestInProgressException{Message: new("The certificate " + row.Value.ARN() +
			" is pending validation: it has not been issued yet.")}
	}
	m, err := s.material(ctx, row.Key)
	if err != nil {
		return nil, err
	}
	out := &acm.GetCertificateOutput{Certificate: new(string(m.Certificate))}
	if len(m.Chain) > 0 {
		out.CertificateChain = new(string(m.Chain))
	}
	return out, nil
}

// ExportCertificate returns no private key: no certificate can be exported.
func (s *Service) ExportCertificate(ctx context.Context, in *acm.ExportCertificateInput) (
	*acm.ExportCertificateOutput, error) {
	row, err := s.find(ctx, in.CertificateArn)
	if err != nil {
		return nil, err
	}
	return nil, validation("Certificate ARN: %s is not a private certificate, and was not requested with the option to "+
		"export it: it serves load balancers only.", row.Value.ARN())
}
