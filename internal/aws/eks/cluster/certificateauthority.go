package cluster

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// certificateAuthorityHandlers returns the handlers of this file's operations and how each is authorized. Those that
// rotate the certificate authority of a cluster are not served: it is the same for the life of the cluster.
func (s *Service) certificateAuthorityHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.ListCertificateAuthorities, func(
			ctx context.Context, action string, in *eks.ListCertificateAuthoritiesInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
		wire.Handle(s.DescribeCertificateAuthority, func(
			ctx context.Context, action string, in *eks.DescribeCertificateAuthorityInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// certificateAuthorities returns the certificate authorities of a cluster: the one that it was created with, and none
// before that has been made.
func (s *Service) certificateAuthorities(ctx context.Context, name string) ([]types.CertificateAuthority, error) {
	row, err := s.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	cp, _, err := s.Observe(ctx, row.Value)
	if err != nil || len(cp.CertificateAuthority) == 0 {
		return nil, err
	}
	return []types.CertificateAuthority{initialAuthority(row.Value, cp)}, nil
}

// initialAuthority returns the certificate authority with which EKS has created a cluster.
func initialAuthority(c record.Cluster, cp record.ControlPlane) types.CertificateAuthority {
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(c.ARN()+"/"+c.ID+"/certificate-authority"))
	out := types.CertificateAuthority{
		Id:                 new(id.String()),
		CreatedAt:          new(c.CreatedAt),
		CreatedBy:          types.CertificateAuthorityCreatedByEks,
		Data:               new(base64.StdEncoding.EncodeToString(cp.CertificateAuthority)),
		DistributionStatus: types.CertificateAuthorityDistributionStatusComplete,
		SigningStatus:      types.CertificateAuthoritySigningStatusInUse,
		RollbackAvailable:  new(false),
	}
	if block, _ := pem.Decode(cp.CertificateAuthority); block != nil {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			out.Validity = &types.CertificateAuthorityValidity{
				NotBefore: new(certificate.NotBefore.UTC()), NotAfter: new(certificate.NotAfter.UTC()),
			}
		}
	}
	return out
}

// ListCertificateAuthorities lists the certificate authorities of a cluster.
func (s *Service) ListCertificateAuthorities(
	ctx context.Context, in *eks.ListCertificateAuthoritiesInput,
) (*eks.ListCertificateAuthoritiesOutput, error) {
	if err := resource.CheckMaxResults(in.MaxResults); err != nil {
		return nil, err
	}
	all, err := s.certificateAuthorities(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	summaries := []types.CertificateAuthoritySummary{}
	for _, a := range all {
		summaries = append(summaries, types.CertificateAuthoritySummary{
			Id: a.Id, CreatedAt: a.CreatedAt, CreatedBy: a.CreatedBy, DistributionStatus: a.DistributionStatus,
			SigningStatus: a.SigningStatus,
		})
	}
	page, next, err := wire.Page(ctx, summaries, in.MaxResults, in.NextToken,
		func(a types.CertificateAuthoritySummary) string { return aws.ToString(a.Id) })
	if err != nil {
		return nil, err
	}
	return &eks.ListCertificateAuthoritiesOutput{CertificateAuthorities: page, NextToken: next}, nil
}

// DescribeCertificateAuthority describes a certificate authority of a cluster.
func (s *Service) DescribeCertificateAuthority(
	ctx context.Context, in *eks.DescribeCertificateAuthorityInput,
) (*eks.DescribeCertificateAuthorityOutput, error) {
	name, id := aws.ToString(in.ClusterName), aws.ToString(in.CertificateAuthorityId)
	all, err := s.certificateAuthorities(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if aws.ToString(a.Id) == id {
			return &eks.DescribeCertificateAuthorityOutput{CertificateAuthority: &a}, nil
		}
	}
	return nil, exception.NotFound(name, "No certificate authority found for ID: %s", id)
}
