package kms

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// https://docs.aws.amazon.com/kms/latest/developerguide/rotate-keys.html
const (
	defaultPeriod = 365 // days
	minPeriod     = 90
	maxPeriod     = 2560
	maxOnDemand   = 25 // rotations of a key
)

// rotationHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) rotationHandlers() []wire.Handler {
	return []wire.Handler{
		handle(s.EnableKeyRotation, func(
			ctx context.Context, action string, in *kms.EnableKeyRotationInput,
		) ([]wire.Target, error) {
			targets, err := s.onOwnKey(ctx, action, *in.KeyId)
			for _, t := range targets {
				t.Conditions["kms:RotationPeriodInDays"] = []string{fmt.Sprint(period(in))}
			}
			return targets, err
		}),
		handle(s.DisableKeyRotation, func(
			ctx context.Context, action string, in *kms.DisableKeyRotationInput,
		) ([]wire.Target, error) {
			return s.onOwnKey(ctx, action, *in.KeyId)
		}),
		handle(s.GetKeyRotationStatus, func(
			ctx context.Context, action string, in *kms.GetKeyRotationStatusInput,
		) ([]wire.Target, error) {
			return s.keyTargets(ctx, action, *in.KeyId)
		}),
		handle(s.ListKeyRotations, func(
			ctx context.Context, action string, in *kms.ListKeyRotationsInput,
		) ([]wire.Target, error) {
			return s.onOwnKey(ctx, action, *in.KeyId)
		}),
		handle(s.RotateKeyOnDemand, func(
			ctx context.Context, action string, in *kms.RotateKeyOnDemandInput,
		) ([]wire.Target, error) {
			return s.onOwnKey(ctx, action, *in.KeyId)
		}),
	}
}

func period(in *kms.EnableKeyRotationInput) int32 {
	if in.RotationPeriodInDays == nil {
		return defaultPeriod
	}
	return *in.RotationPeriodInDays
}

// EnableKeyRotation lets a key be rotated once in a period.
func (s *Service) EnableKeyRotation(ctx context.Context, in *kms.EnableKeyRotationInput) (
	*kms.EnableKeyRotationOutput, error) {
	days := period(in)
	if days < minPeriod || days > maxPeriod {
		return nil, validation("1 validation error detected: Value '%d' at 'rotationPeriodInDays' failed to satisfy "+
			"constraint: Member must have value between %d and %d, inclusive", days, minPeriod, maxPeriod)
	}
	_, err := s.modify(ctx, *in.KeyId, func(k *record.KMSKey) error {
		if err := requireEnabled(*k); err != nil {
			return err
		}
		if k.RotationPeriod == days {
			return errUnchanged
		}
		k.RotationPeriod, k.RotateAt = days, s.timestamp().Add(time.Duration(days)*day)
		return nil
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return nil, err
	}
	return &kms.EnableKeyRotationOutput{}, nil
}

// DisableKeyRotation ends the automatic rotation of a key.
func (s *Service) DisableKeyRotation(ctx context.Context, in *kms.DisableKeyRotationInput) (
	*kms.DisableKeyRotationOutput, error) {
	_, err := s.modify(ctx, *in.KeyId, func(k *record.KMSKey) error {
		k.RotationPeriod, k.RotateAt = 0, time.Time{}
		return requireEnabled(*k)
	})
	if err != nil {
		return nil, err
	}
	return &kms.DisableKeyRotationOutput{}, nil
}

// GetKeyRotationStatus tells whether and when a key is rotated.
func (s *Service) GetKeyRotationStatus(ctx context.Context, in *kms.GetKeyRotationStatusInput) (
	*kms.GetKeyRotationStatusOutput, error) {
	r, err := s.resolveForUpdate(ctx, *in.KeyId)
	if err != nil {
		return nil, err
	}
	k := r.row.Value
	if err := requireKept(k); err != nil {
		return nil, err
	}
	out := &kms.GetKeyRotationStatusOutput{KeyId: new(k.ARN()), KeyRotationEnabled: k.RotationPeriod > 0}
	if k.RotationPeriod > 0 {
		out.RotationPeriodInDays, out.NextRotationDate = &k.RotationPeriod, &k.RotateAt
	}
	return out, nil
}

// RotateKeyOnDemand gives a key new material at once.
func (s *Service) RotateKeyOnDemand(ctx context.Context, in *kms.RotateKeyOnDemandInput) (
	*kms.RotateKeyOnDemandOutput, error) {
	r, err := s.resolveForUpdate(ctx, *in.KeyId)
	if err != nil {
		return nil, err
	}
	err = s.rotate(ctx, r.row.Key, types.RotationTypeOnDemand, func(k record.KMSKey) error {
		if err := requireEnabled(k); err != nil {
			return err
		}
		if k.OnDemand >= maxOnDemand {
			return limitExceeded("The number of on-demand rotations of key %s has reached the maximum of %d.", k.ARN(),
				maxOnDemand)
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = notFound("Key '%s' does not exist", r.arn())
	}
	if err != nil {
		return nil, err
	}
	return &kms.RotateKeyOnDemandOutput{KeyId: new(r.arn())}, nil
}

// rotate gives a key new material, unless check refuses it. errUnchanged is no error.
func (s *Service) rotate(
	ctx context.Context, key string, why types.RotationType, check func(record.KMSKey) error,
) error {
	for {
		row, err := s.keys.Copy(ctx, key)
		if err != nil {
			return err
		}
		k := &row.Value
		if err := check(*k); errors.Is(err, errUnchanged) {
			return nil
		} else if err != nil {
			return err
		}
		material := s.newMaterial()
		material.Rotation = why
		k.Material, k.MaterialID = k.Material+1, material.ID
		if why == types.RotationTypeOnDemand {
			k.OnDemand++
		} else {
			k.RotateAt = s.timestamp().Add(time.Duration(k.RotationPeriod) * day)
		}
		err = s.store.Txn(ctx, s.keys.UpdateOp(row),
			s.materials.CreateOp(record.KMSKeyMaterialKey(k.Account, k.Region, k.ID, k.Material), material))
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
}

// ListKeyRotations lists the rotations of a key that are over, and with IncludeKeyMaterial all its material.
func (s *Service) ListKeyRotations(ctx context.Context, in *kms.ListKeyRotationsInput) (
	*kms.ListKeyRotationsOutput, error) {
	r, err := s.resolveForUpdate(ctx, *in.KeyId)
	if err != nil {
		return nil, err
	}
	limit, err := pageSize(in.Limit, 100, 1000)
	if err != nil {
		return nil, err
	}
	k := r.row.Value
	rows, err := s.materials.List(ctx, store.Prefix(k.Account, k.Region, k.ID))
	if err != nil {
		return nil, err
	}
	all := in.IncludeKeyMaterial == types.IncludeKeyMaterialAllKeyMaterial
	if !all && len(rows) > 0 {
		rows = rows[1:]
	}
	page, next, err := wire.Page(ctx, rows, limit, in.Marker, rowKey[record.KMSKeyMaterial])
	if err != nil {
		return nil, err
	}
	out := &kms.ListKeyRotationsOutput{Rotations: []types.RotationsListEntry{}, NextMarker: next,
		Truncated: next != nil}
	for _, row := range page {
		m := row.Value
		e := types.RotationsListEntry{KeyId: new(k.ARN()), KeyMaterialId: aws.String(m.ID), RotationType: m.Rotation,
			KeyMaterialState: types.KeyMaterialStateNonCurrent}
		if m.ID == k.MaterialID {
			e.KeyMaterialState = types.KeyMaterialStateCurrent
		}
		if m.Rotation != "" {
			e.RotationDate = &m.CreatedAt
		}
		out.Rotations = append(out.Rotations, e)
	}
	return out, nil
}
