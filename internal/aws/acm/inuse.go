package acm

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// users returns the ARNs of the load balancers of a place that use certificates, by the ARN of the certificate.
func (s *Service) users(ctx context.Context, at place) (map[string][]string, error) {
	rows, err := s.balancers.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	for _, row := range rows {
		for _, l := range row.Value.Listeners {
			for _, arn := range l.Certificates {
				if user := row.Value.ARN(); !slices.Contains(users[arn], user) {
					users[arn] = append(users[arn], user)
				}
			}
		}
	}
	return users, nil
}

// unchangedUse returns the operation that demands that no listener has got a certificate since, and deletes the row
// that says so.
func (s *Service) unchangedUse(ctx context.Context, key string) (store.Op, error) {
	use, err := s.uses.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return s.uses.AbsentOp(key), nil
	}
	return s.uses.DeleteOp(use), err
}

// DeleteCertificate deletes a certificate that no load balancer uses, with its private key.
func (s *Service) DeleteCertificate(ctx context.Context, in *acm.DeleteCertificateInput) (
	*acm.DeleteCertificateOutput, error) {
	for {
		row, err := s.find(ctx, in.CertificateArn)
		if err != nil {
			return nil, err
		}
		c := row.Value
		// A listener that gets the certificate from here on writes this row.
		unchanged, err := s.unchangedUse(ctx, row.Key)
		if err != nil {
			return nil, err
		}
		users, err := s.users(ctx, place{c.Account, c.Region})
		if err != nil {
			return nil, err
		}
		if by := users[c.ARN()]; len(by) > 0 {
			return nil, &types.ResourceInUseException{Message: new("Certificate " + c.ARN() + " in account " + c.Account +
				" is in use: take it off the listeners of " + by[0] + " first.")}
		}
		// One that gets it later finds no certificate.
		err = s.store.Txn(ctx, s.certificates.DeleteOp(row), s.materials.RemoveOp(row.Key), unchanged)
		if (errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists)) && ctx.Err() == nil {
			continue
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		return &acm.DeleteCertificateOutput{}, nil
	}
}
