package kms

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const maxAliases = 50 // of a key

var aliasName = regexp.MustCompile(`^alias/[a-zA-Z0-9/_-]+$`)

func isAlias(name string) bool { return aliasName.MatchString(name) }

// checkAliasName refuses names that an alias cannot have.
func checkAliasName(name string) error {
	switch {
	case !strings.HasPrefix(name, "alias/"):
		return &types.InvalidAliasNameException{Message: new("Alias must start with the prefix \"alias/\". Please see " +
			"https://docs.aws.amazon.com/kms/latest/developerguide/kms-alias.html")}
	case !isAlias(name):
		return &types.InvalidAliasNameException{Message: new(name + " contains invalid characters for an alias")}
	case strings.HasPrefix(name, "alias/aws/"):
		return &types.InvalidAliasNameException{Message: new("Aliases that begin with alias/aws/ are reserved for AWS " +
			"managed keys: " + name)}
	}
	return nil
}

// aliasHandlers returns the handlers of this file's operations and how each is authorized: on the alias by IAM
// policies, and on each key that it names or will name.
// https://docs.aws.amazon.com/kms/latest/developerguide/alias-access.html
func (s *Service) aliasHandlers() []wire.Handler {
	return []wire.Handler{
		handle(s.CreateAlias, func(
			ctx context.Context, action string, in *kms.CreateAliasInput,
		) ([]wire.Target, error) {
			return s.onAlias(ctx, action, *in.AliasName, *in.TargetKeyId)
		}),
		handle(s.UpdateAlias, func(
			ctx context.Context, action string, in *kms.UpdateAliasInput,
		) ([]wire.Target, error) {
			return s.onNamed(ctx, action, *in.AliasName, *in.TargetKeyId)
		}),
		handle(s.DeleteAlias, func(
			ctx context.Context, action string, in *kms.DeleteAliasInput,
		) ([]wire.Target, error) {
			return s.onNamed(ctx, action, *in.AliasName)
		}),
		wire.Handle(s.ListAliases, wire.OnAll),
	}
}

// onAlias returns an alias and keys as the targets.
func (s *Service) onAlias(ctx context.Context, action, name string, keys ...string) ([]wire.Target, error) {
	at := placeOf(ctx)
	targets := []wire.Target{{Action: action, Resource: record.KMSAliasARN(at.account, at.region, name),
		Conditions: map[string][]string{"kms:CallerAccount": {at.account}}}}
	for _, id := range keys {
		if isAlias(id) {
			return nil, validation("Aliases must refer to keys. Not aliases")
		}
		more, err := s.onOwnKey(ctx, action, id)
		if err != nil {
			return nil, err
		}
		targets = append(targets, more...)
	}
	return targets, nil
}

// onNamed returns an alias, the key that it names now, and others, as the targets.
func (s *Service) onNamed(ctx context.Context, action, name string, keys ...string) ([]wire.Target, error) {
	at := placeOf(ctx)
	row, err := s.aliases.Get(ctx, record.KMSAliasKey(at.account, at.region, name))
	if err == nil {
		keys = append(keys, row.Value.KeyID)
	} else if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return s.onAlias(ctx, action, name, keys...)
}

// aliasTarget returns the key that an alias may name.
func (s *Service) aliasTarget(ctx context.Context, id string) (reference, error) {
	r, err := s.resolveForUpdate(ctx, id)
	if err != nil {
		return r, err
	}
	if err := requireKept(r.row.Value); err != nil {
		return r, err
	}
	others, err := s.aliasesOf.List(ctx, r.row.Key)
	if err == nil && len(others) >= maxAliases {
		err = limitExceeded("Key %s has %d aliases already, and may have no more.", r.arn(), len(others))
	}
	return r, err
}

// CreateAlias gives a key a name.
func (s *Service) CreateAlias(ctx context.Context, in *kms.CreateAliasInput) (*kms.CreateAliasOutput, error) {
	if err := checkAliasName(*in.AliasName); err != nil {
		return nil, err
	}
	at := placeOf(ctx)
	r, err := s.aliasTarget(ctx, *in.TargetKeyId)
	if err != nil {
		return nil, err
	}
	now := s.timestamp()
	a := record.KMSAlias{Account: at.account, Region: at.region, Name: *in.AliasName, KeyID: r.keyID, CreatedAt: now,
		UpdatedAt: now}
	err = s.store.Txn(ctx, s.aliases.CreateOp(record.KMSAliasKey(a.Account, a.Region, a.Name), a),
		s.keys.CheckOp(r.row))
	switch {
	case errors.Is(err, store.ErrExists):
		return nil, &types.AlreadyExistsException{Message: new("An alias with the name " + a.ARN() +
			" already exists")}
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
		return s.CreateAlias(ctx, in) // the key has changed
	case err != nil:
		return nil, err
	}
	return &kms.CreateAliasOutput{}, nil
}

// UpdateAlias lets an alias name another key.
func (s *Service) UpdateAlias(ctx context.Context, in *kms.UpdateAliasInput) (*kms.UpdateAliasOutput, error) {
	if err := checkAliasName(*in.AliasName); err != nil {
		return nil, err
	}
	for {
		row, err := s.alias(ctx, *in.AliasName)
		if err != nil {
			return nil, err
		}
		r, err := s.resolveForUpdate(ctx, *in.TargetKeyId)
		if err != nil {
			return nil, err
		}
		if row.Value.KeyID != r.keyID {
			if r, err = s.aliasTarget(ctx, *in.TargetKeyId); err != nil {
				return nil, err
			}
		}
		row.Value.KeyID, row.Value.UpdatedAt = r.keyID, s.timestamp()
		err = s.store.Txn(ctx, s.aliases.UpdateOp(row), s.keys.CheckOp(r.row))
		if err == nil {
			return &kms.UpdateAliasOutput{}, nil
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
}

// alias returns an alias of the caller's account for a change.
func (s *Service) alias(ctx context.Context, name string) (store.Row[record.KMSAlias], error) {
	at := placeOf(ctx)
	row, err := s.aliases.Copy(ctx, record.KMSAliasKey(at.account, at.region, name))
	if errors.Is(err, store.ErrNotFound) {
		err = notFound("Alias %s is not found.", record.KMSAliasARN(at.account, at.region, name))
	}
	return row, err
}

// DeleteAlias takes a name from a key.
func (s *Service) DeleteAlias(ctx context.Context, in *kms.DeleteAliasInput) (*kms.DeleteAliasOutput, error) {
	if err := checkAliasName(*in.AliasName); err != nil {
		return nil, err
	}
	for {
		row, err := s.alias(ctx, *in.AliasName)
		if err != nil {
			return nil, err
		}
		err = s.aliases.Delete(ctx, row)
		if err == nil {
			return &kms.DeleteAliasOutput{}, nil
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
}

// ListAliases lists the aliases of the account in the region, or those of one key.
func (s *Service) ListAliases(ctx context.Context, in *kms.ListAliasesInput) (*kms.ListAliasesOutput, error) {
	at := placeOf(ctx)
	limit, err := pageSize(in.Limit, 50, 100)
	if err != nil {
		return nil, err
	}
	rows, err := s.aliases.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, err
	}
	if in.KeyId != nil {
		r, err := s.resolveKey(ctx, *in.KeyId)
		if err == nil && r.account != at.account {
			err = notFound("Key '%s' does not exist", r.arn()) // to those who are not its owners
		}
		if err = cmp.Or(err, r.err); err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(row store.Row[record.KMSAlias]) bool { return row.Value.KeyID != r.keyID })
	}
	page, next, err := wire.Page(ctx, rows, limit, in.Marker, rowKey[record.KMSAlias])
	if err != nil {
		return nil, err
	}
	out := &kms.ListAliasesOutput{Aliases: []types.AliasListEntry{}, NextMarker: next, Truncated: next != nil}
	for _, row := range page {
		a := row.Value
		out.Aliases = append(out.Aliases, types.AliasListEntry{AliasName: &a.Name, AliasArn: new(a.ARN()),
			TargetKeyId: aws.String(a.KeyID), CreationDate: &a.CreatedAt, LastUpdatedDate: &a.UpdatedAt})
	}
	return out, nil
}
