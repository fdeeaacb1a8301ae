// Package sts serves the AWS Security Token Service: who am I, and temporary credentials to be someone else.
//
// Nothing is written: what an assumed role may do is sealed in its session token (package identity). AssumeRole asks
// the role's trust policy and the caller's own policies; AssumeRoleWithWebIdentity, which nobody signs, asks the token
// in the request: its issuer must be an OpenID Connect provider of the role's account, and its signature must verify
// with that issuer's keys ([KeySource]).
//
// https://docs.aws.amazon.com/STS/latest/APIReference/
package sts

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Service serves STS. Its exported methods are operations.
type Service struct {
	identity  *identity.Identity
	providers store.Table[record.OIDCProvider]
	keys      KeySource
	now       func() time.Time
}

// New returns the service over a store. keys finds the keys of token issuers; now is time.Now unless set.
func New(s *store.Store, who *identity.Identity, keys KeySource, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	return &Service{identity: who, providers: record.OIDCProviders(s), keys: keys, now: now}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awssecuritytokenservice.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.assumeRoleHandlers(),
		s.decodeHandlers(),
		s.identityHandlers(),
		s.sessionHandlers(),
		s.webIdentityHandlers(),
	} {
		mux.Register(wire.STS, handlers...)
	}
}

// identityHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) identityHandlers() []wire.Handler {
	return []wire.Handler{
		wire.HandleUnrestricted(s.GetCallerIdentity),
		wire.Handle(s.GetAccessKeyInfo, wire.OnAll),
	}
}

// GetCallerIdentity returns the identity that signed the request.
func (s *Service) GetCallerIdentity(ctx context.Context, _ *sts.GetCallerIdentityInput) (
	*sts.GetCallerIdentityOutput, error) {
	caller := wire.CallerFrom(ctx)
	s.identity.Used(ctx, caller)
	return &sts.GetCallerIdentityOutput{Account: aws.String(caller.Account), Arn: aws.String(caller.ARN),
		UserId: aws.String(caller.UserID)}, nil
}

// GetAccessKeyInfo returns the account that an access key belongs to: its ID contains the account, whether or not the
// key exists.
func (s *Service) GetAccessKeyInfo(_ context.Context, in *sts.GetAccessKeyInfoInput) (
	*sts.GetAccessKeyInfoOutput, error) {
	account, ok := identity.AccountOf(*in.AccessKeyId)
	if !ok {
		return nil, wire.Errorf("ValidationError", "Invalid access key: %s", *in.AccessKeyId)
	}
	return &sts.GetAccessKeyInfoOutput{Account: aws.String(account)}, nil
}

// credentials seals a session and returns what its holder needs.
func (s *Service) credentials(ctx context.Context, session *identity.Session) (*types.Credentials, error) {
	token, err := s.identity.Seal(ctx, session)
	if err != nil {
		return nil, err
	}
	return &types.Credentials{
		AccessKeyId: aws.String(session.AccessKeyID), SecretAccessKey: aws.String(session.Secret),
		SessionToken: aws.String(token),
		Expiration:   aws.Time(session.Expires),
	}, nil
}
