package kms

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// managedPolicy returns the policy of an AWS managed key: the principals of the account may use it through the service,
// whatever IAM says of the key, and nobody may change it.
// https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#aws-managed-cmk
func managedPolicy(at place, service string) string {
	via, grants := service, ""
	switch service {
	case "ebs": // whose API is EC2's, and for whose volumes EC2 makes grants
		via, grants = "ec2", `"kms:CreateGrant", `
	case "elasticfilesystem": // which makes grants for its file systems
		grants = `"kms:CreateGrant", `
	}
	return fmt.Sprintf(`{
  "Version" : "2012-10-17",
  "Id" : "auto-%[1]s-1",
  "Statement" : [ {
    "Sid" : "Allow access through %[1]s for all principals in the account that are authorized to use it",
    "Effect" : "Allow",
    "Principal" : {
      "AWS" : "*"
    },
    "Action" : [ "kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", %[6]s"kms:DescribeKey" ],
    "Resource" : "*",
    "Condition" : {
      "StringEquals" : {
        "kms:CallerAccount" : "%[2]s",
        "kms:ViaService" : "%[5]s.%[3]s.amazonaws.com"
      }
    }
  }, {
    "Sid" : "Allow direct access to key metadata to the account",
    "Effect" : "Allow",
    "Principal" : {
      "AWS" : "%[4]s"
    },
    "Action" : [ "kms:Describe*", "kms:Get*", "kms:List*" ],
    "Resource" : "*"
  } ]
}`, service, at.account, at.region, accountARN(at.account), via, grants)
}

// ManagedKey returns the alias of the AWS managed key of a service, such as alias/aws/ssm, in the account and region of
// the request. The first request creates the key.
func (s *Service) ManagedKey(ctx context.Context, service string) (string, error) {
	at, name := placeOf(ctx), "alias/aws/"+service
	_, err := s.aliases.Get(ctx, record.KMSAliasKey(at.account, at.region, name))
	if !errors.Is(err, store.ErrNotFound) {
		return name, err
	}
	now, material := s.timestamp(), s.newMaterial()
	k := record.KMSKey{
		Account: at.account, Region: at.region, ID: uuid.NewString(), CreatedAt: now, State: types.KeyStateEnabled,
		Description: "Default key that protects the data of " + service + " when no other key is defined",
		Policy:      managedPolicy(at, service), Material: 1, MaterialID: material.ID, ManagedBy: service,
		RotationPeriod: defaultPeriod, RotateAt: now.Add(defaultPeriod * day),
	}
	err = s.store.Txn(ctx, s.keys.CreateOp(k.Key(), k),
		s.materials.CreateOp(record.KMSKeyMaterialKey(k.Account, k.Region, k.ID, 1), material),
		s.aliases.CreateOp(record.KMSAliasKey(at.account, at.region, name), record.KMSAlias{Account: at.account,
			Region: at.region, Name: name, KeyID: k.ID, CreatedAt: now, UpdatedAt: now}))
	if errors.Is(err, store.ErrExists) {
		err = nil // another request was faster
	}
	return name, err
}

// EncryptVia does what Encrypt does for an AWS service, such as "ssm", that encrypts for its caller, who must be
// allowed to.
func (s *Service) EncryptVia(ctx context.Context, service string, in *kms.EncryptInput) (*kms.EncryptOutput, error) {
	ctx = viaService(ctx, service)
	targets, err := s.useTargets(ctx, "kms:Encrypt", *in.KeyId, cryptoUse(in.EncryptionContext))
	if err != nil {
		return nil, err
	}
	if err := wire.Authorize(ctx, targets...); err != nil {
		return nil, err
	}
	return s.Encrypt(ctx, in)
}

// GenerateDataKeyVia does what GenerateDataKey does for an AWS service that encrypts for its caller.
func (s *Service) GenerateDataKeyVia(ctx context.Context, service string, in *kms.GenerateDataKeyInput) (
	*kms.GenerateDataKeyOutput, error) {
	ctx = viaService(ctx, service)
	targets, err := s.useTargets(ctx, "kms:GenerateDataKey", *in.KeyId, cryptoUse(in.EncryptionContext))
	if err != nil {
		return nil, err
	}
	if err := wire.Authorize(ctx, targets...); err != nil {
		return nil, err
	}
	return s.GenerateDataKey(ctx, in)
}

// DecryptVia does what Decrypt does for an AWS service that decrypts for its caller.
func (s *Service) DecryptVia(ctx context.Context, service string, in *kms.DecryptInput) (*kms.DecryptOutput, error) {
	ctx = viaService(ctx, service)
	t, err := s.onCiphertext(ctx, "kms:Decrypt", in.CiphertextBlob, in.KeyId, cryptoUse(in.EncryptionContext))
	if err != nil {
		return nil, err
	}
	if err := wire.Authorize(ctx, t); err != nil {
		return nil, err
	}
	return s.Decrypt(ctx, in)
}
