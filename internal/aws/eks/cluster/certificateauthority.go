package cluster

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// certificateAuthorityHandlers returns the handlers of this file's operations and how each is authorized.
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
		wire.Handle(s.CreateCertificateAuthority, func(
			ctx context.Context, action string, in *eks.CreateCertificateAuthorityInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
		wire.Handle(s.ActivateCertificateAuthority, func(
			ctx context.Context, action string, in *eks.ActivateCertificateAuthorityInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
		wire.Handle(s.DeleteCertificateAuthority, func(
			ctx context.Context, action string, in *eks.DeleteCertificateAuthorityInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// certificateAuthorities returns the certificate authorities of a cluster, oldest first: those that it is to trust, and
// those that it still does. There is none before the initial one has been made.
func (s *Service) certificateAuthorities(ctx context.Context, name string) ([]types.CertificateAuthority, error) {
	row, err := s.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	cp, _, err := s.Observe(ctx, row.Value)
	if err != nil || len(cp.CertificateAuthority) == 0 {
		return nil, err
	}
	return authoritiesOf(row.Value, cp), nil
}

// authoritiesOf returns the certificate authorities of a cluster. Their statuses follow from what is wanted and what
// has been observed.
func authoritiesOf(c record.Cluster, cp record.ControlPlane) (all []types.CertificateAuthority) {
	wanted, signer := c.Authorities()
	trusted, signs := trustedAuthorities(c, cp)
	certificate := func(id string) []byte {
		for _, t := range trusted {
			if t.ID == id {
				return t.Certificate
			}
		}
		return nil
	}
	for _, w := range wanted {
		text := certificate(w.ID)
		a := types.CertificateAuthority{
			Id: new(w.ID), CreatedAt: new(w.CreatedAt), CreatedBy: w.CreatedBy, RollbackAvailable: new(false),
			DistributionStatus: types.CertificateAuthorityDistributionStatusInProgress,
			SigningStatus:      types.CertificateAuthoritySigningStatusNotUsed,
		}
		if text != nil {
			a.DistributionStatus = types.CertificateAuthorityDistributionStatusComplete
			a.Data, a.Validity = new(base64.StdEncoding.EncodeToString(text)), validityOf(text)
		}
		switch {
		case w.ID == signs:
			a.SigningStatus = types.CertificateAuthoritySigningStatusInUse
			a.RollbackAvailable = new(!w.ActivatedAt.IsZero() && len(wanted) > 1)
		case w.ID == signer:
			a.SigningStatus = types.CertificateAuthoritySigningStatusActivating
		}
		if !w.ActivatedAt.IsZero() {
			a.ActivatedAt, a.ActivatedBy = new(w.ActivatedAt), types.CertificateAuthorityActivatedByCustomer
		}
		all = append(all, a)
	}
	for _, t := range trusted {
		if slices.ContainsFunc(wanted, func(w record.CertificateAuthority) bool { return w.ID == t.ID }) {
			continue
		}
		all = append(all, types.CertificateAuthority{
			Id: new(t.ID), Data: new(base64.StdEncoding.EncodeToString(t.Certificate)), Validity: validityOf(t.Certificate),
			DistributionStatus: types.CertificateAuthorityDistributionStatusDeleting,
			SigningStatus:      types.CertificateAuthoritySigningStatusNotUsed, RollbackAvailable: new(false),
		})
	}
	return all
}

// trustedAuthorities returns the certificate authorities that a control plane trusts, and the ID of the one that signs.
func trustedAuthorities(c record.Cluster, cp record.ControlPlane) (trusted []record.TrustedAuthority, signs string) {
	if len(cp.Authorities) > 0 {
		return cp.Authorities, cp.SigningAuthorityID
	}
	initial := c.InitialAuthorityID()
	certificate := cp.CertificateAuthority
	if block, _ := pem.Decode(certificate); block != nil { // a successor may be behind it, which not all know yet
		certificate = pem.EncodeToMemory(block)
	}
	return []record.TrustedAuthority{{ID: initial, Certificate: certificate}}, initial
}

// validityOf returns the validity of a certificate, PEM.
func validityOf(text []byte) *types.CertificateAuthorityValidity {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return &types.CertificateAuthorityValidity{
		NotBefore: new(certificate.NotBefore.UTC()), NotAfter: new(certificate.NotAfter.UTC()),
	}
}

// authorityChange is a request to change the certificate authorities of a cluster.
type authorityChange struct {
	cluster string
	token   *string
	request any // the SDK's input structure
	// apply changes those that are wanted and the one that is to sign. id is that of the request, or of a successor.
	apply func(id string, c *record.Cluster, now []types.CertificateAuthority) error
}

// startAuthorityUpdate records a change of the certificate authorities of a cluster, and returns its update and the
// authority that it concerns. id is empty for a successor that is to be made.
func (s *Service) startAuthorityUpdate(
	ctx context.Context, id *string, ch authorityChange,
) (*types.CertificateAuthoritySummary, *types.Update, error) {
	update, err := s.startUpdate(ctx, change{
		cluster: ch.cluster, token: ch.token, request: ch.request, kind: types.UpdateTypeCertificateAuthorityUpdate,
		apply: func(c *record.Cluster, cp record.ControlPlane, u *record.Update) ([]store.Op, error) {
			of := aws.ToString(id)
			if id == nil {
				of = uuid.NewString()
			}
			c.CertificateAuthorities, c.SigningAuthorityID = c.Authorities()
			c.CertificateAuthorities = slices.Clone(c.CertificateAuthorities)
			if err := ch.apply(of, c, authoritiesOf(*c, cp)); err != nil {
				return nil, err
			}
			ids := []string{}
			for _, a := range c.CertificateAuthorities {
				ids = append(ids, a.ID)
			}
			u.Params = []types.UpdateParam{
				resource.UpdateParam(types.UpdateParamTypeCertificateAuthorityId, of),
				resource.UpdateParam(types.UpdateParamTypeActiveCertificateAuthority, c.SigningAuthorityID),
				resource.UpdateParam(types.UpdateParamTypeTrustedCertificateAuthorities, resource.JSON(ids)),
			}
			return nil, nil
		},
	})
	if err != nil {
		return nil, nil, err
	}
	all, err := s.certificateAuthorities(ctx, ch.cluster)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range all {
		if aws.ToString(a.Id) == aws.ToString(update.Params[0].Value) {
			return new(summaryOf(a)), update, nil
		}
	}
	// It is gone: the request was sent before, with the same token.
	return &types.CertificateAuthoritySummary{Id: update.Params[0].Value}, update, nil
}

// findAuthority returns the certificate authority with an ID.
func findAuthority(cluster, id string, all []types.CertificateAuthority) (types.CertificateAuthority, error) {
	i := slices.IndexFunc(all, func(a types.CertificateAuthority) bool { return aws.ToString(a.Id) == id })
	if i < 0 {
		return types.CertificateAuthority{}, exception.NotFound(cluster, "No certificate authority found for ID: %s", id)
	}
	return all[i], nil
}

// maxAuthorities is the number of certificate authorities that a cluster may have at a time.
const maxAuthorities = 2

// CreateCertificateAuthority appends a successor to the certificate authority of a cluster, which trusts both from then
// on. The successor signs nothing before it is activated.
func (s *Service) CreateCertificateAuthority(
	ctx context.Context, in *eks.CreateCertificateAuthorityInput,
) (*eks.CreateCertificateAuthorityOutput, error) {
	name := aws.ToString(in.ClusterName)
	authority, update, err := s.startAuthorityUpdate(ctx, nil, authorityChange{
		cluster: name, token: in.ClientRequestToken, request: in,
		apply: func(id string, c *record.Cluster, _ []types.CertificateAuthority) error {
			if n := len(c.CertificateAuthorities); n >= maxAuthorities {
				return exception.LimitExceeded(
					name, "Cluster %s already has %d certificate authorities. Delete the one that is not used first.", name, n,
				)
			}
			c.CertificateAuthorities = append(c.CertificateAuthorities, record.CertificateAuthority{
				ID: id, CreatedAt: s.Timestamp(), CreatedBy: types.CertificateAuthorityCreatedByCustomer,
			})
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.CreateCertificateAuthorityOutput{CertificateAuthority: authority, Update: update}, nil
}

// ActivateCertificateAuthority makes another certificate authority of a cluster the one that signs: the successor, or
// the outgoing one again.
func (s *Service) ActivateCertificateAuthority(
	ctx context.Context, in *eks.ActivateCertificateAuthorityInput,
) (*eks.ActivateCertificateAuthorityOutput, error) {
	name := aws.ToString(in.ClusterName)
	authority, update, err := s.startAuthorityUpdate(ctx, new(aws.ToString(in.CertificateAuthorityId)), authorityChange{
		cluster: name, token: in.ClientRequestToken, request: in,
		apply: func(id string, c *record.Cluster, now []types.CertificateAuthority) error {
			a, err := findAuthority(name, id, now)
			if err != nil {
				return err
			}
			if id == c.SigningAuthorityID {
				return exception.InvalidRequest(name, "Certificate authority %s is already in use", id)
			}
			if a.DistributionStatus != types.CertificateAuthorityDistributionStatusComplete {
				return exception.InvalidRequest(
					name, "Certificate authority %s cannot be activated: its distribution status is %s, and must be COMPLETE",
					id, a.DistributionStatus,
				)
			}
			c.SigningAuthorityID = id
			for i := range c.CertificateAuthorities {
				if c.CertificateAuthorities[i].ID == id {
					c.CertificateAuthorities[i].ActivatedAt = s.Timestamp()
				}
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.ActivateCertificateAuthorityOutput{CertificateAuthority: authority, Update: update}, nil
}

// DeleteCertificateAuthority makes a cluster forget a certificate authority that does not sign.
func (s *Service) DeleteCertificateAuthority(
	ctx context.Context, in *eks.DeleteCertificateAuthorityInput,
) (*eks.DeleteCertificateAuthorityOutput, error) {
	name := aws.ToString(in.ClusterName)
	authority, update, err := s.startAuthorityUpdate(ctx, new(aws.ToString(in.CertificateAuthorityId)), authorityChange{
		cluster: name, token: in.ClientRequestToken, request: in,
		apply: func(id string, c *record.Cluster, now []types.CertificateAuthority) error {
			if _, err := findAuthority(name, id, now); err != nil {
				return err
			}
			if id == c.SigningAuthorityID {
				return exception.InvalidRequest(
					name, "Certificate authority %s is in use and cannot be deleted. Activate another one first.", id,
				)
			}
			c.CertificateAuthorities = slices.DeleteFunc(c.CertificateAuthorities, func(a record.CertificateAuthority) bool {
				return a.ID == id
			})
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.DeleteCertificateAuthorityOutput{CertificateAuthority: authority, Update: update}, nil
}

// summaryOf returns what lists have of a certificate authority.
func summaryOf(a types.CertificateAuthority) types.CertificateAuthoritySummary {
	return types.CertificateAuthoritySummary{
		Id: a.Id, CreatedAt: a.CreatedAt, CreatedBy: a.CreatedBy, ActivatedAt: a.ActivatedAt, ActivatedBy: a.ActivatedBy,
		DistributionStatus: a.DistributionStatus, SigningStatus: a.SigningStatus,
	}
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
		summaries = append(summaries, summaryOf(a))
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
