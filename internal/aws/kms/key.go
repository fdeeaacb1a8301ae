package kms

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxKeys is the quota of keys of an account in a region. AWS's is 100,000; the store would be full before.
// https://docs.aws.amazon.com/kms/latest/developerguide/resource-limits.html
const maxKeys = 10_000

// keyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) keyHandlers() []wire.Handler {
	return []wire.Handler{
		handle(s.CreateKey, createTargets),
		handle(s.DescribeKey, func(
			ctx context.Context, action string, in *kms.DescribeKeyInput,
		) ([]wire.Target, error) {
			r, err := s.resolve(ctx, *in.KeyId)
			if err != nil {
				return nil, err
			}
			t, err := s.target(ctx, action, r, use{})
			return []wire.Target{t}, err
		}),
		wire.Handle(s.ListKeys, wire.OnAll),
		handle(s.EnableKey, func(
			ctx context.Context, action string, in *kms.EnableKeyInput,
		) ([]wire.Target, error) {
			return s.onOwnKey(ctx, action, *in.KeyId)
		}),
		handle(s.DisableKey, func(
			ctx context.Context, action string, in *kms.DisableKeyInput,
		) ([]wire.Target, error) {
			return s.onOwnKey(ctx, action, *in.KeyId)
		}),
		handle(s.UpdateKeyDescription, func(
			ctx context.Context, action string, in *kms.UpdateKeyDescriptionInput,
		) ([]wire.Target, error) {
			return s.onOwnKey(ctx, action, *in.KeyId)
		}),
	}
}

// onOwnKey does what onKey does for operations that no other account can be allowed.
func (s *Service) onOwnKey(ctx context.Context, action, id string) ([]wire.Target, error) {
	targets, err := s.keyTargets(ctx, action, id)
	for i := range targets {
		refuseOthers(ctx, &targets[i])
	}
	return targets, err
}

// refuseOthers takes from a target what might let principals of another account.
func refuseOthers(ctx context.Context, t *wire.Target) {
	if t.Owner != wire.CallerFrom(ctx).Account {
		t.Policy, t.Grantees = "", nil
	}
}

func createTargets(ctx context.Context, action string, in *kms.CreateKeyInput) ([]wire.Target, error) {
	t := wire.Target{Action: action, Resource: "*", Conditions: specConditions()}
	t.Conditions["kms:CallerAccount"] = []string{wire.CallerFrom(ctx).Account}
	t.Conditions["kms:BypassPolicyLockoutSafetyCheck"] = boolCondition(in.BypassPolicyLockoutSafetyCheck)
	tags := tagMap(in.Tags)
	addRequestTags(t, tags)
	targets := []wire.Target{t}
	if len(tags) > 0 {
		tagging := t
		tagging.Action = "kms:TagResource"
		targets = append(targets, tagging)
	}
	return targets, nil
}

// CreateKey creates a symmetric key for encryption.
func (s *Service) CreateKey(ctx context.Context, in *kms.CreateKeyInput) (*kms.CreateKeyOutput, error) {
	if err := checkSpec(in); err != nil {
		return nil, err
	}
	at := placeOf(ctx)
	tags := tagMap(in.Tags)
	if err := checkTags(ctx, in.Tags, nil); err != nil {
		return nil, err
	}
	material := s.newMaterial()
	k := record.KMSKey{
		Account: at.account, Region: at.region, ID: uuid.NewString(), Description: aws.ToString(in.Description),
		CreatedAt: s.timestamp(), State: types.KeyStateEnabled, Tags: tags, Material: 1, MaterialID: material.ID,
		Policy: aws.ToString(in.Policy),
	}
	if k.Policy == "" {
		k.Policy = defaultPolicy(at.account)
	}
	var err error
	if k.PolicyIDs, err = s.checkPolicy(ctx, k, k.Policy, in.BypassPolicyLockoutSafetyCheck); err != nil {
		return nil, err
	}
	if s.keys.Count(store.Prefix(at.account, at.region)) >= maxKeys {
		return nil, limitExceeded("The request was rejected because the quota of %d KMS keys was exceeded: delete some.",
			maxKeys)
	}
	err = s.store.Txn(ctx, s.keys.CreateOp(k.Key(), k),
		s.materials.CreateOp(record.KMSKeyMaterialKey(k.Account, k.Region, k.ID, 1), material))
	if err != nil {
		return nil, err
	}
	return &kms.CreateKeyOutput{KeyMetadata: s.metadata(k)}, nil
}

// checkSpec refuses keys of other kinds than those that are served.
func checkSpec(in *kms.CreateKeyInput) error {
	spec := in.KeySpec
	if spec == "" {
		spec = types.KeySpec(in.CustomerMasterKeySpec)
	}
	switch {
	case in.KeySpec != "" && in.CustomerMasterKeySpec != "":
		return validation("You cannot specify KeySpec and CustomerMasterKeySpec in the same request. " +
			"CustomerMasterKeySpec is deprecated.")
	case spec != "" && spec != types.KeySpecSymmetricDefault:
		return unsupported("KeySpec %s is not implemented by coracle: use SYMMETRIC_DEFAULT.", spec)
	case in.KeyUsage != "" && in.KeyUsage != types.KeyUsageTypeEncryptDecrypt:
		return validation("KeyUsage %s is not compatible with KeySpec SYMMETRIC_DEFAULT", in.KeyUsage)
	case in.Origin != "" && in.Origin != types.OriginTypeAwsKms:
		return unsupported("Origin %s is not implemented by coracle: use AWS_KMS.", in.Origin)
	case in.CustomKeyStoreId != nil || in.XksKeyId != nil:
		return unsupported("Custom key stores are not implemented by coracle.")
	case aws.ToBool(in.MultiRegion):
		return unsupported("Multi-Region keys are not implemented by coracle.")
	}
	return nil
}

// metadata returns a key as the API describes it.
func (s *Service) metadata(k record.KMSKey) *types.KeyMetadata {
	m := &types.KeyMetadata{
		AWSAccountId: &k.Account, KeyId: &k.ID, Arn: new(k.ARN()), CreationDate: &k.CreatedAt,
		Description: &k.Description, Enabled: k.State == types.KeyStateEnabled, KeyState: k.State,
		KeyUsage: types.KeyUsageTypeEncryptDecrypt, Origin: types.OriginTypeAwsKms,
		KeyManager: types.KeyManagerTypeCustomer, KeySpec: types.KeySpecSymmetricDefault,
		CustomerMasterKeySpec: types.CustomerMasterKeySpecSymmetricDefault, MultiRegion: new(false),
		EncryptionAlgorithms: []types.EncryptionAlgorithmSpec{types.EncryptionAlgorithmSpecSymmetricDefault},
		CurrentKeyMaterialId: &k.MaterialID,
	}
	if k.ManagedBy != "" {
		m.KeyManager = types.KeyManagerTypeAws
	}
	if k.State == types.KeyStatePendingDeletion {
		m.DeletionDate = &k.DeleteAt
		m.CurrentKeyMaterialId = nil
	}
	return m
}

// DescribeKey describes a key.
func (s *Service) DescribeKey(ctx context.Context, in *kms.DescribeKeyInput) (*kms.DescribeKeyOutput, error) {
	if err := checkGrantTokens(in.GrantTokens); err != nil {
		return nil, err
	}
	r, err := s.resolveAgain(ctx, "kms:DescribeKey", *in.KeyId, use{})
	if err != nil {
		return nil, err
	}
	return &kms.DescribeKeyOutput{KeyMetadata: s.metadata(r.row.Value)}, nil
}

// resolveAgain finds the key of a request once its target has been authorized. What an alias stands for may have
// changed since: then the caller must be allowed to use that key.
func (s *Service) resolveAgain(ctx context.Context, action, id string, u use) (reference, error) {
	r, err := s.resolve(ctx, id)
	if err == nil {
		err = r.err
	}
	if err != nil || r.alias == "" {
		return r, err
	}
	t, err := s.target(ctx, action, r, u)
	if err != nil {
		return r, err
	}
	return r, wire.Authorize(ctx, t)
}

// ListKeys lists the keys of the account in the region.
func (s *Service) ListKeys(ctx context.Context, in *kms.ListKeysInput) (*kms.ListKeysOutput, error) {
	at := placeOf(ctx)
	limit, err := pageSize(in.Limit, 100, 1000)
	if err != nil {
		return nil, err
	}
	rows, err := s.keys.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, rows, limit, in.Marker, rowKey[record.KMSKey])
	if err != nil {
		return nil, err
	}
	out := &kms.ListKeysOutput{Keys: []types.KeyListEntry{}, NextMarker: next, Truncated: next != nil}
	for _, row := range page {
		out.Keys = append(out.Keys, types.KeyListEntry{KeyId: new(row.Value.ID), KeyArn: new(row.Value.ARN())})
	}
	return out, nil
}

func rowKey[T any](r store.Row[T]) string { return r.Key }

// pageSize returns the number of items of a page: what is asked for within limits, or usual.
func pageSize(asked *int32, usual, most int32) (*int32, error) {
	if asked == nil {
		return &usual, nil
	}
	if *asked > most {
		return nil, validation("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: "+
			"Member must have value less than or equal to %d", *asked, most)
	}
	return asked, nil
}

// EnableKey lets a disabled key be used again.
func (s *Service) EnableKey(ctx context.Context, in *kms.EnableKeyInput) (*kms.EnableKeyOutput, error) {
	if err := s.setState(ctx, *in.KeyId, types.KeyStateEnabled); err != nil {
		return nil, err
	}
	return &kms.EnableKeyOutput{}, nil
}

// DisableKey keeps a key from being used.
func (s *Service) DisableKey(ctx context.Context, in *kms.DisableKeyInput) (*kms.DisableKeyOutput, error) {
	if err := s.setState(ctx, *in.KeyId, types.KeyStateDisabled); err != nil {
		return nil, err
	}
	return &kms.DisableKeyOutput{}, nil
}

var errUnchanged = errors.New("nothing changes")

func (s *Service) setState(ctx context.Context, id string, state types.KeyState) error {
	_, err := s.modify(ctx, id, func(k *record.KMSKey) error {
		if err := requireKept(*k); err != nil {
			return err
		}
		if k.State == state {
			return errUnchanged
		}
		k.State = state
		return nil
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// UpdateKeyDescription changes the description of a key.
func (s *Service) UpdateKeyDescription(ctx context.Context, in *kms.UpdateKeyDescriptionInput) (
	*kms.UpdateKeyDescriptionOutput, error) {
	_, err := s.modify(ctx, *in.KeyId, func(k *record.KMSKey) error {
		k.Description = *in.Description
		return requireKept(*k)
	})
	if err != nil {
		return nil, err
	}
	return &kms.UpdateKeyDescriptionOutput{}, nil
}
