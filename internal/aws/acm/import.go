package acm

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// importTargets returns what ImportCertificate needs permission for: another certificate, or the one that it replaces.
func (s *Service) importTargets(ctx context.Context, action string, in *acm.ImportCertificateInput) (
	[]wire.Target, error) {
	if in.CertificateArn == nil {
		return creationTargets(ctx, action, map[string][]string{}, in.Tags), nil
	}
	t, err := s.target(ctx, action, in.CertificateArn)
	addRequestTags(t, in.Tags)
	return []wire.Target{t}, err
}

// ImportCertificate keeps a certificate, or puts it in the place of one that was imported before.
// https://docs.aws.amazon.com/acm/latest/userguide/import-certificate-prerequisites.html
func (s *Service) ImportCertificate(ctx context.Context, in *acm.ImportCertificateInput) (
	*acm.ImportCertificateOutput, error) {
	given, err := parseImport(in, s.now())
	if err != nil {
		return nil, err
	}
	if in.CertificateArn != nil {
		return s.replaceImport(ctx, in, given)
	}
	tags, err := addTags(ctx, nil, in.Tags)
	if err != nil {
		return nil, err
	}
	at := placeOf(ctx)
	defer s.hold(at)()
	if err := s.checkQuota(ctx, at, types.CertificateTypeImported, maxImported); err != nil {
		return nil, err
	}
	now := s.timestamp()
	c := record.Certificate{Account: at.account, Region: at.region, ID: uuid.NewString(), CreatedAt: now,
		Type: types.CertificateTypeImported, Status: types.CertificateStatusIssued, Tags: tags, ImportedAt: now}
	given.describe(&c)
	err = s.store.Txn(ctx, s.certificates.CreateOp(c.Key(), c), s.materials.CreateOp(c.Key(), given.material))
	if err != nil {
		return nil, err
	}
	return &acm.ImportCertificateOutput{CertificateArn: new(c.ARN())}, nil
}

// replaceImport puts a certificate in the place of one that was imported before: its ARN and the load balancers that
// use it stay.
// https://docs.aws.amazon.com/acm/latest/userguide/import-reimport.html
func (s *Service) replaceImport(ctx context.Context, in *acm.ImportCertificateInput, given *imported) (
	*acm.ImportCertificateOutput, error) {
	if len(in.Tags) > 0 {
		return nil, invalidParameter("Tagging is not permitted on re-import: use AddTagsToCertificate.")
	}
	for {
		row, err := s.find(ctx, in.CertificateArn)
		if err != nil {
			return nil, err
		}
		c := row.Value
		if err := given.checkReplaces(c); err != nil {
			return nil, err
		}
		given.describe(&c)
		c.ImportedAt = s.timestamp()
		row.Value = c
		err = s.store.Txn(ctx, s.certificates.UpdateOp(row), s.materials.PutOp(row.Key, given.material))
		if errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
			continue
		}
		if errors.Is(err, store.ErrNotFound) {
			return nil, notFound(*in.CertificateArn)
		}
		if err != nil {
			return nil, err
		}
		return &acm.ImportCertificateOutput{CertificateArn: new(c.ARN())}, nil
	}
}

// checkReplaces refuses to put a certificate in the place of another that was issued here, or has another kind of key,
// or more usages.
func (i *imported) checkReplaces(c record.Certificate) error {
	switch {
	case c.Type != types.CertificateTypeImported:
		return validation("The certificate %s was issued by ACM: only an imported certificate can be imported again.",
			c.ARN())
	case i.algorithm != c.KeyAlgorithm:
		return validation("The certificate %s has a key of type %s, and the new one of type %s. Neither the type nor the "+
			"size can change: import the certificate as another.", c.ARN(), c.KeyAlgorithm, i.algorithm)
	}
	for _, usage := range c.KeyUsages {
		if !slices.Contains(i.keyUsages, usage) {
			return validation("The key usage %s of certificate %s cannot be removed.", usage, c.ARN())
		}
	}
	for _, usage := range c.ExtendedKeyUsages {
		if !slices.Contains(i.extendedKeyUsages, usage) {
			return validation("The extended key usage %s of certificate %s cannot be removed.", usage, c.ARN())
		}
	}
	return nil
}

// describe gives a record what the certificate says.
func (i *imported) describe(c *record.Certificate) {
	describe(c, i.certificate)
	c.SubjectAlternativeNames = namesOf(i.certificate)
	c.DomainName = c.SubjectAlternativeNames[0]
	c.KeyAlgorithm = i.algorithm
}
