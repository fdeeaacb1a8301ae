package acm

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// renewBefore is how long before a certificate expires its successor is issued.
// https://docs.aws.amazon.com/acm/latest/userguide/managed-renewal.html
const renewBefore = 45 * 24 * time.Hour

// Authority signs certificates. It is not believed about names that nobody may have a certificate for.
type Authority interface {
	// Sign returns a certificate, PEM, for servers that have those names and a key, valid from now, and the certificate of
	// the authority itself.
	Sign(key crypto.PublicKey, names []string, now time.Time) (certificate, chain []byte, err error)
}

// Lifecycle issues the certificates that were requested, and renews them.
type Lifecycle struct {
	s         *Service
	authority Authority
}

// NewLifecycle returns the lifecycle of the certificates in the store of o, which an authority signs.
func NewLifecycle(o Options, authority Authority) *Lifecycle { return &Lifecycle{New(o), authority} }

// Reconcile does what is due for the certificate in a row. again is the delay until the next time-driven step, 0 when
// there is none; gone reports whether there is no certificate.
func (l *Lifecycle) Reconcile(ctx context.Context, key string) (again time.Duration, gone bool, err error) {
	s := l.s
	row, err := s.certificates.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	c, now := row.Value, s.now()
	switch {
	case c.Type != types.CertificateTypeAmazonIssued:
		return 0, false, nil
	case c.Status == types.CertificateStatusPendingValidation, !c.Request.RenewAt.IsZero():
		return 0, false, l.issue(ctx, row) // the row changes, and is looked at again
	case now.Before(c.NotAfter.Add(-renewBefore)):
		return c.NotAfter.Add(-renewBefore).Sub(now), false, nil
	case now.After(c.NotAfter):
		return 0, false, nil
	}
	users, err := s.users(ctx, place{c.Account, c.Region})
	if err != nil {
		return 0, false, err
	}
	if len(users[c.ARN()]) == 0 { // it is renewed once something uses it
		return time.Hour, false, nil
	}
	return 0, false, l.issue(ctx, row)
}

// issue has a certificate signed for a new key.
// https://docs.aws.amazon.com/acm/latest/userguide/acm-bestpractices.html#best-practices-pinning
func (l *Lifecycle) issue(ctx context.Context, row store.Row[record.Certificate]) error {
	c := row.Value
	key, err := generateKey(c.KeyAlgorithm)
	if err != nil {
		return fmt.Errorf("generate the key of certificate %s: %w", c.ARN(), err)
	}
	now := l.s.timestamp()
	var m record.CertificateMaterial
	if m.Certificate, m.Chain, err = l.authority.Sign(key.Public(), c.SubjectAlternativeNames, now); err != nil {
		return fmt.Errorf("issue certificate %s: %w", c.ARN(), err)
	}
	if m.PrivateKey, err = encodePrivateKey(key); err != nil {
		return err
	}
	block, _ := pem.Decode(m.Certificate)
	if block == nil {
		return fmt.Errorf("issue certificate %s: the authority returned no PEM", c.ARN())
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("issue certificate %s: %w", c.ARN(), err)
	}
	describe(&c, certificate)
	request := *c.Request
	request.RenewAt = time.Time{}
	c.Request, c.Status = &request, types.CertificateStatusIssued
	if c.IssuedAt.IsZero() {
		c.IssuedAt = now
	} else {
		c.RenewedAt = now
	}
	row.Value = c
	return l.s.store.Txn(ctx, l.s.certificates.UpdateOp(row), l.s.materials.PutOp(row.Key, m))
}

// generateKey makes a private key.
func generateKey(algorithm types.KeyAlgorithm) (crypto.Signer, error) {
	switch algorithm {
	case types.KeyAlgorithmRsa2048:
		return rsa.GenerateKey(rand.Reader, 2048)
	case types.KeyAlgorithmEcPrime256v1:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case types.KeyAlgorithmEcSecp384r1:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	}
	return nil, fmt.Errorf("keys of type %s are not generated", algorithm)
}
