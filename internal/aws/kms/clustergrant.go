package kms

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// GrantForSecrets returns the grant that lets EKS, under its service-linked role, encrypt the Secrets of a cluster with
// a key, and what makes it. EKS asks as its caller, who needs kms:DescribeKey and kms:CreateGrant on the key. The key
// must be Enabled.
// https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html
func (s *Service) GrantForSecrets(ctx context.Context, key, role string, cluster record.Cluster) (
	record.KMSGrant, []store.Op, error) {
	none := record.KMSGrant{}
	ctx = viaService(ctx, "eks")
	r, err := s.resolve(ctx, key)
	if err != nil {
		return none, nil, err
	}
	in := &kms.CreateGrantInput{
		KeyId: new(r.arn()), GranteePrincipal: &role, RetiringPrincipal: &role, Name: new("eks-" + cluster.ID),
		Operations: []types.GrantOperation{types.GrantOperationDecrypt, types.GrantOperationDescribeKey,
			types.GrantOperationEncrypt},
		Constraints: &types.GrantConstraints{EncryptionContextEquals: cluster.EncryptionContext()},
	}
	describe, err := s.target(ctx, "kms:DescribeKey", r, use{})
	if err != nil {
		return none, nil, err
	}
	create, err := s.target(ctx, "kms:CreateGrant", r, grantUse(newGrant(r, in)))
	if err != nil {
		return none, nil, err
	}
	if err := wire.Authorize(ctx, describe, create); err != nil {
		return none, nil, err
	}
	if _, err := r.key(); err != nil {
		return none, nil, err
	}
	if err := requireEnabled(r.row.Value); err != nil {
		return none, nil, err
	}
	return s.createGrantOps(ctx, in)
}
