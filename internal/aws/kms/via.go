package kms

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// KeyARN returns the ARN of the key that an ID, an alias of the account or an ARN names, and whether there is such a
// key. It is for condition keys of other services, and authorizes nothing.
func (s *Service) KeyARN(ctx context.Context, id string) (arn string, exists bool) {
	asked, err := parseReference(placeOf(ctx), id)
	if err != nil || asked.alias != "" && asked.account != wire.CallerFrom(ctx).Account {
		return "", false // which key an alias of another account stands for is not the caller's to learn
	}
	r, err := s.resolve(ctx, id)
	if err != nil || r.err != nil {
		return "", false
	}
	return r.arn(), true
}

// UseVia authorizes actions of the caller on a key through an AWS service, such as "ec2", which does them for content
// with an encryption context. It returns the ARN of the key, which must be Enabled.
//
// kms:CreateGrant is asked for the grant that the service makes for its own use of the key while the content is in use:
// here that use is part of the service, and no grant is left.
func (s *Service) UseVia(ctx context.Context, service, key string, content map[string]string, actions ...string) (
	string, error) {
	ctx = viaService(ctx, service)
	r, err := s.resolve(ctx, key)
	if err != nil {
		return "", err
	}
	targets := make([]wire.Target, 0, len(actions))
	for _, action := range actions {
		u := cryptoUse(content)
		switch action {
		case "kms:CreateGrant":
			u = serviceGrantUse(r, content)
		case "kms:DescribeKey":
			u = use{}
		}
		t, err := s.target(ctx, action, r, u)
		if err != nil {
			return "", err
		}
		targets = append(targets, t)
	}
	if err := wire.Authorize(ctx, targets...); err != nil {
		return "", err
	}
	k, err := r.key()
	if err != nil {
		return "", err
	}
	return r.arn(), requireEnabled(k)
}

// serviceGrantUse returns what policies may ask about a grant that a service makes for a resource of the caller's.
func serviceGrantUse(r reference, content map[string]string) use {
	u := grantUse(record.KMSGrant{
		Account: r.account, Region: r.region, KeyID: r.keyID,
		Operations: []types.GrantOperation{types.GrantOperationDecrypt}, ContextSubset: content,
	})
	u.keys["kms:GrantIsForAWSResource"] = boolCondition(true)
	delete(u.keys, "kms:GranteePrincipal")
	return u
}
