package kms

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// maxPolicy is the quota of a key policy, in bytes.
const maxPolicy = 32 << 10

// policyName is the one name that key policies have.
const policyName = "default"

// defaultPolicy returns the policy of a key that is created without one: it enables the IAM policies of the account.
// https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
func defaultPolicy(account string) string {
	return `{
  "Version" : "2012-10-17",
  "Id" : "key-default-1",
  "Statement" : [ {
    "Sid" : "Enable IAM User Permissions",
    "Effect" : "Allow",
    "Principal" : {
      "AWS" : "` + accountARN(account) + `"
    },
    "Action" : "kms:*",
    "Resource" : "*"
  } ]
}`
}

// policyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) policyHandlers() []wire.Handler {
	return []wire.Handler{
		handle(s.PutKeyPolicy, func(
			ctx context.Context, action string, in *kms.PutKeyPolicyInput,
		) ([]wire.Target, error) {
			targets, err := s.onOwnKey(ctx, action, *in.KeyId)
			for _, t := range targets {
				t.Conditions["kms:BypassPolicyLockoutSafetyCheck"] = boolCondition(in.BypassPolicyLockoutSafetyCheck)
			}
			return targets, err
		}),
		handle(s.GetKeyPolicy, func(
			ctx context.Context, action string, in *kms.GetKeyPolicyInput,
		) ([]wire.Target, error) {
			return s.onOwnKey(ctx, action, *in.KeyId)
		}),
		handle(s.ListKeyPolicies, func(
			ctx context.Context, action string, in *kms.ListKeyPoliciesInput,
		) ([]wire.Target, error) {
			return s.onOwnKey(ctx, action, *in.KeyId)
		}),
	}
}

// checkPolicy refuses a policy for a key that is not one, names who does not exist, or would keep the caller from
// changing it again. It returns the unique IDs of the users and roles that the policy names.
func (s *Service) checkPolicy(ctx context.Context, k record.KMSKey, text string, bypass bool) (
	map[string]string, error) {
	if len(text) > maxPolicy {
		return nil, limitExceeded("The key policy has %d bytes, and may have %d.", len(text), maxPolicy)
	}
	d, err := policy.Parse(policy.Resource, text)
	if err != nil {
		return nil, malformedPolicy("%v", err)
	}
	ids, nobody, err := s.named.IDs(ctx, d)
	if err != nil {
		return nil, err
	}
	if nobody != "" {
		return nil, malformedPolicy("Policy contains a statement with one or more invalid principals.")
	}
	if bypass {
		return ids, nil
	}
	k.Policy, k.PolicyIDs = text, ids
	r := reference{place: place{k.Account, k.Region}, keyID: k.ID}
	r.row.Key, r.row.Value = k.Key(), k
	t, err := s.target(ctx, "kms:PutKeyPolicy", r, use{})
	if err != nil {
		return nil, err
	}
	t.Conditions["kms:BypassPolicyLockoutSafetyCheck"] = boolCondition(false)
	var denied *wire.Denied
	if err := wire.Authorize(ctx, t); errors.As(err, &denied) {
		return nil, malformedPolicy("The new key policy will not allow you to update the key policy in the future.")
	} else if err != nil {
		return nil, err
	}
	return ids, nil
}

// PutKeyPolicy replaces the policy of a key.
func (s *Service) PutKeyPolicy(ctx context.Context, in *kms.PutKeyPolicyInput) (*kms.PutKeyPolicyOutput, error) {
	r, err := s.resolveForUpdate(ctx, *in.KeyId)
	if err != nil {
		return nil, err
	}
	if err := checkPolicyName(in.PolicyName); err != nil {
		return nil, err
	}
	ids, err := s.checkPolicy(ctx, r.row.Value, *in.Policy, in.BypassPolicyLockoutSafetyCheck)
	if err != nil {
		return nil, err
	}
	_, err = s.modify(ctx, *in.KeyId, func(k *record.KMSKey) error {
		k.Policy, k.PolicyIDs = *in.Policy, ids
		return requireKept(*k)
	})
	if err != nil {
		return nil, err
	}
	return &kms.PutKeyPolicyOutput{}, nil
}

func checkPolicyName(name *string) error {
	if name != nil && *name != policyName {
		return notFound("No such policy exists")
	}
	return nil
}

// GetKeyPolicy returns the policy of a key.
func (s *Service) GetKeyPolicy(ctx context.Context, in *kms.GetKeyPolicyInput) (*kms.GetKeyPolicyOutput, error) {
	r, err := s.resolveForUpdate(ctx, *in.KeyId)
	if err != nil {
		return nil, err
	}
	if err := checkPolicyName(in.PolicyName); err != nil {
		return nil, err
	}
	return &kms.GetKeyPolicyOutput{Policy: aws.String(r.row.Value.Policy), PolicyName: aws.String(policyName)}, nil
}

// ListKeyPolicies lists the one name of a key's policy.
func (s *Service) ListKeyPolicies(ctx context.Context, in *kms.ListKeyPoliciesInput) (
	*kms.ListKeyPoliciesOutput, error) {
	if _, err := s.resolveForUpdate(ctx, *in.KeyId); err != nil {
		return nil, err
	}
	return &kms.ListKeyPoliciesOutput{PolicyNames: []string{policyName}}, nil
}
