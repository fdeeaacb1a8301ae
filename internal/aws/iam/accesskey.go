package iam

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// holder is the owner of access keys: a user, or the root user of the account.
type holder struct {
	name *string // nil for the root user
	id   string
	keys []string
	save func(keys []string) store.Op
}

func (s *Service) keyHolder(ctx context.Context, name *string) (holder, error) {
	if isRootUser(ctx, name) {
		row, err := s.accounts.Get(ctx, record.AccountKey(account(ctx)))
		return holder{id: row.Value.ID, keys: row.Value.RootAccessKeyIDs, save: func(keys []string) store.Op {
			row.Value.RootAccessKeyIDs = keys
			return s.accounts.UpdateOp(row)
		}}, err
	}
	name, err := s.userName(ctx, name)
	if err != nil {
		return holder{}, err
	}
	row, err := s.users.findEntity(ctx, name)
	return holder{name: name, id: row.Value.ID, keys: row.Value.AccessKeyIDs, save: func(keys []string) store.Op {
		row.Value.AccessKeyIDs = keys
		return s.users.UpdateOp(row)
	}}, err
}

func keyStatus(k record.AccessKey) types.StatusType {
	if k.Inactive {
		return types.StatusTypeInactive
	}
	return types.StatusTypeActive
}

// accessKeyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) accessKeyHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateAccessKey, func(
			ctx context.Context, action string, in *iam.CreateAccessKeyInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.ListAccessKeys, func(
			ctx context.Context, action string, in *iam.ListAccessKeysInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.UpdateAccessKey, func(
			ctx context.Context, action string, in *iam.UpdateAccessKeyInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.DeleteAccessKey, func(
			ctx context.Context, action string, in *iam.DeleteAccessKeyInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.GetAccessKeyLastUsed, func(
			ctx context.Context, action string, in *iam.GetAccessKeyLastUsedInput,
		) ([]wire.Target, error) {
			return s.onKeyOwner(ctx, action, in.AccessKeyId)
		}),
	}
}

// CreateAccessKey makes a key; its secret is shown in this answer and never again, but to a service that repeats its
// request.
func (s *Service) CreateAccessKey(ctx context.Context, in *iam.CreateAccessKeyInput) (
	*iam.CreateAccessKeyOutput, error) {
	var k record.AccessKey
	var who holder
	token := wire.ClientTokenFrom(ctx)
	err := s.retryWrite(ctx, func() (ops []store.Op, err error) {
		if who, err = s.keyHolder(ctx, in.UserName); err != nil {
			return nil, err
		}
		if token != "" {
			for _, id := range who.keys {
				row, err := s.keys.Get(ctx, record.AccessKeyKey(id))
				if err != nil {
					return nil, err
				}
				if k = row.Value; k.ClientToken == token {
					return nil, nil
				}
			}
		}
		if len(who.keys) >= maxAccessKeys {
			return nil, limitExceeded("Cannot exceed quota for AccessKeysPerUser: %d", maxAccessKeys)
		}
		k = record.AccessKey{Account: account(ctx), User: aws.ToString(who.name), UserID: who.id,
			CreatedAt: s.now().UTC(), ClientToken: token}
		k.ID, k.Secret = identity.NewAccessKey(identity.LongTermKey, k.Account)
		return []store.Op{who.save(append(slices.Clone(who.keys), k.ID)), s.keys.CreateOp(record.AccessKeyKey(k.ID),
			k)}, nil
	})
	if err != nil {
		return nil, err
	}
	return &iam.CreateAccessKeyOutput{AccessKey: &types.AccessKey{
		AccessKeyId: aws.String(k.ID), SecretAccessKey: aws.String(k.Secret), Status: keyStatus(k),
		UserName: aws.String(k.User), CreateDate: aws.Time(k.CreatedAt),
	}}, nil
}

// ListAccessKeys lists the keys of a user without their secrets; with a client token, what was created with it.
func (s *Service) ListAccessKeys(ctx context.Context, in *iam.ListAccessKeysInput) (*iam.ListAccessKeysOutput, error) {
	who, err := s.keyHolder(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	var all []types.AccessKeyMetadata
	for _, id := range slices.Sorted(slices.Values(who.keys)) {
		row, err := s.keys.Get(ctx, record.AccessKeyKey(id))
		if err != nil {
			return nil, err
		}
		k := row.Value
		if token := wire.ClientTokenFrom(ctx); token != "" && k.ClientToken != token {
			continue
		}
		all = append(all, types.AccessKeyMetadata{AccessKeyId: aws.String(k.ID), CreateDate: aws.Time(k.CreatedAt),
			Status: keyStatus(k), UserName: optional(k.User)})
	}
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker,
		func(k types.AccessKeyMetadata) string { return *k.AccessKeyId })
	return &iam.ListAccessKeysOutput{AccessKeyMetadata: some, Marker: marker, IsTruncated: truncated}, err
}

func noSuchKey(id string) error {
	return noSuchEntity("The Access Key with id %s cannot be found.", id)
}

// UpdateAccessKey makes a key active or inactive.
func (s *Service) UpdateAccessKey(ctx context.Context, in *iam.UpdateAccessKeyInput) (
	*iam.UpdateAccessKeyOutput, error) {
	who, err := s.keyHolder(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(who.keys, *in.AccessKeyId) {
		return nil, noSuchKey(*in.AccessKeyId)
	}
	if in.Status == types.StatusTypeExpired {
		return nil, validation("The status of an access key can be set to Active or Inactive, got %s.", in.Status)
	}
	_, err = s.keys.Modify(ctx, record.AccessKeyKey(*in.AccessKeyId), func(k *record.AccessKey) error {
		k.Inactive = in.Status == types.StatusTypeInactive
		return nil
	})
	return &iam.UpdateAccessKeyOutput{}, err
}

// DeleteAccessKey deletes a key of a user. The last key of a root user can go too: coracle makes another at the next
// start.
func (s *Service) DeleteAccessKey(ctx context.Context, in *iam.DeleteAccessKeyInput) (
	*iam.DeleteAccessKeyOutput, error) {
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		who, err := s.keyHolder(ctx, in.UserName)
		if err != nil {
			return nil, err
		}
		i := slices.Index(who.keys, *in.AccessKeyId)
		if i < 0 {
			return nil, noSuchKey(*in.AccessKeyId)
		}
		key := record.AccessKeyKey(*in.AccessKeyId)
		return []store.Op{who.save(slices.Delete(slices.Clone(who.keys), i, i+1)), s.keys.RemoveOp(key),
			s.keyUses.RemoveOp(key)}, nil
	})
	return &iam.DeleteAccessKeyOutput{}, err
}

// GetAccessKeyLastUsed returns the owner of a key and when, where and for what it was last used.
func (s *Service) GetAccessKeyLastUsed(ctx context.Context, in *iam.GetAccessKeyLastUsedInput) (
	*iam.GetAccessKeyLastUsedOutput, error) {
	key, err := s.keys.Get(ctx, record.AccessKeyKey(*in.AccessKeyId))
	if errors.Is(err, store.ErrNotFound) || err == nil && key.Value.Account != account(ctx) {
		return nil, noSuchKey(*in.AccessKeyId)
	}
	if err != nil {
		return nil, err
	}
	out := &iam.GetAccessKeyLastUsedOutput{
		UserName:          optional(key.Value.User),
		AccessKeyLastUsed: &types.AccessKeyLastUsed{Region: aws.String("N/A"), ServiceName: aws.String("N/A")},
	}
	use, err := s.keyUses.Get(ctx, record.AccessKeyKey(*in.AccessKeyId))
	if errors.Is(err, store.ErrNotFound) {
		return out, nil
	}
	out.AccessKeyLastUsed = &types.AccessKeyLastUsed{
		LastUsedDate: aws.Time(use.Value.At), Region: aws.String(use.Value.Region),
		ServiceName: aws.String(use.Value.Service),
	}
	return out, err
}
