package kms

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// retireHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) retireHandlers() []wire.Handler {
	return []wire.Handler{
		handle(s.RetireGrant, s.retireTargets).CheckingDryRun(),
		wire.Handle(s.ListRetirableGrants, wire.OnAll),
	}
}

// retireTargets returns the key of a grant that is to be retired, as the target. It is the grant that says who may do
// that: the principal that retires it, its grantee if it allows RetireGrant, the account of the key, and whom that lets
// by its IAM policies. The key policy has no say.
// https://docs.aws.amazon.com/kms/latest/developerguide/grant-delete.html
func (s *Service) retireTargets(ctx context.Context, action string, in *kms.RetireGrantInput) ([]wire.Target, error) {
	key, err := s.retiredGrant(ctx, in)
	if err != nil {
		return nil, err
	}
	parts := store.Parts(key)
	caller := wire.CallerFrom(ctx)
	t := wire.Target{Action: action, Owner: parts[0], Resource: record.KMSKeyARN(parts[0], parts[1], parts[2]),
		Conditions: map[string][]string{"kms:CallerAccount": {caller.Account}}}
	row, err := s.grants.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return []wire.Target{t}, nil
	}
	if err != nil {
		return nil, err
	}
	g := row.Value
	for arn, name := range callerNames(caller) {
		retires := isPrincipal(caller, arn, g.RetirerID) && arn == g.Retirer
		uses := isPrincipal(caller, arn, g.GranteeID) && arn == g.Grantee &&
			slices.Contains(g.Operations, types.GrantOperationRetireGrant)
		if retires || uses {
			t.Grantees = append(t.Grantees, name)
		}
	}
	return []wire.Target{t}, nil
}

// retiredGrant returns the key of the record of the grant that a request names.
func (s *Service) retiredGrant(ctx context.Context, in *kms.RetireGrantInput) (string, error) {
	switch {
	case in.GrantToken != nil && (in.GrantId != nil || in.KeyId != nil):
		return "", validation("Either a grant token, or a key ARN and a grant ID are required, and not both")
	case in.GrantToken != nil:
		key, err := parseGrantToken(*in.GrantToken)
		if err == nil && store.Parts(key)[1] != wire.RegionFrom(ctx) {
			err = &types.InvalidGrantTokenException{Message: new("Invalid grant token")}
		}
		return key, err
	case in.GrantId == nil || in.KeyId == nil:
		return "", validation("Either a grant token, or a key ARN and a grant ID are required")
	}
	r, err := s.resolveKey(ctx, *in.KeyId)
	return record.KMSGrantKey(r.account, r.region, r.keyID, *in.GrantId), err
}

// RetireGrant deletes a grant, as somebody whom it concerns does.
func (s *Service) RetireGrant(ctx context.Context, in *kms.RetireGrantInput) (*kms.RetireGrantOutput, error) {
	key, err := s.retiredGrant(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := s.deleteGrant(ctx, key, aws.ToBool(in.DryRun)); err != nil {
		return nil, err
	}
	return &kms.RetireGrantOutput{}, nil
}

// ListRetirableGrants lists the grants that a principal of the caller's account may retire.
func (s *Service) ListRetirableGrants(ctx context.Context, in *kms.ListRetirableGrantsInput) (
	*kms.ListRetirableGrantsOutput, error) {
	limit, err := pageSize(in.Limit, 50, 100)
	if err != nil {
		return nil, err
	}
	if in.RetiringServicePrincipal != nil {
		return &kms.ListRetirableGrantsOutput{Grants: []types.GrantListEntry{}}, nil // there are none
	}
	arn := aws.ToString(in.RetiringPrincipal)
	account, ok := identity.PrincipalAccount(arn)
	if !ok {
		return nil, invalidARN("ARN does not refer to a valid principal: %s", arn)
	}
	if account != wire.CallerFrom(ctx).Account {
		return nil, invalidARN("The retiring principal must be of the account of the caller: %s", arn)
	}
	rows, err := s.retirables.List(ctx, store.Key(wire.RegionFrom(ctx), arn))
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, rows, limit, in.Marker, rowKey[record.KMSGrant])
	if err != nil {
		return nil, err
	}
	return &kms.ListRetirableGrantsOutput{Grants: grantEntries(page), NextMarker: next, Truncated: next != nil}, nil
}
