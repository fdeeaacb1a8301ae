package kms

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The waiting period before a key is deleted, in days.
const (
	minWindow = 7
	maxWindow = 30
)

const day = 24 * time.Hour

// deletionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) deletionHandlers() []wire.Handler {
	return []wire.Handler{
		handle(s.ScheduleKeyDeletion, func(
			ctx context.Context, action string, in *kms.ScheduleKeyDeletionInput,
		) ([]wire.Target, error) {
			targets, err := s.onOwnKey(ctx, action, *in.KeyId)
			for _, t := range targets {
				t.Conditions["kms:ScheduleKeyDeletionPendingWindowInDays"] = []string{fmt.Sprint(window(in))}
			}
			return targets, err
		}),
		handle(s.CancelKeyDeletion, func(
			ctx context.Context, action string, in *kms.CancelKeyDeletionInput,
		) ([]wire.Target, error) {
			return s.onOwnKey(ctx, action, *in.KeyId)
		}),
	}
}

func window(in *kms.ScheduleKeyDeletionInput) int32 {
	if in.PendingWindowInDays == nil {
		return maxWindow
	}
	return *in.PendingWindowInDays
}

// ScheduleKeyDeletion makes a key unusable, and lets it be deleted after the waiting period.
func (s *Service) ScheduleKeyDeletion(ctx context.Context, in *kms.ScheduleKeyDeletionInput) (
	*kms.ScheduleKeyDeletionOutput, error) {
	days := window(in)
	for _, limit := range []struct {
		broken bool
		must   string
	}{{days < minWindow, "greater than or equal to 7"}, {days > maxWindow, "less than or equal to 30"}} {
		if limit.broken {
			return nil, validation("1 validation error detected: Value '%d' at 'pendingWindowInDays' failed to satisfy "+
				"constraint: Member must have value %s", days, limit.must)
		}
	}
	k, err := s.modify(ctx, *in.KeyId, func(k *record.KMSKey) error {
		if err := requireKept(*k); err != nil {
			return err
		}
		k.State, k.DeleteAt = types.KeyStatePendingDeletion, s.timestamp().Add(time.Duration(days)*day)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &kms.ScheduleKeyDeletionOutput{KeyId: new(k.ARN()), KeyState: k.State, DeletionDate: &k.DeleteAt,
		PendingWindowInDays: &days}, nil
}

// CancelKeyDeletion keeps a key from being deleted. It is disabled then.
func (s *Service) CancelKeyDeletion(ctx context.Context, in *kms.CancelKeyDeletionInput) (
	*kms.CancelKeyDeletionOutput, error) {
	k, err := s.modify(ctx, *in.KeyId, func(k *record.KMSKey) error {
		if k.State != types.KeyStatePendingDeletion {
			return &types.KMSInvalidStateException{Message: new(k.ARN() + " is not pending deletion.")}
		}
		if !k.DeleteAt.After(s.timestamp()) { // parts of it may be gone
			return &types.KMSInvalidStateException{Message: new(k.ARN() + " is being deleted.")}
		}
		k.State, k.DeleteAt = types.KeyStateDisabled, time.Time{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &kms.CancelKeyDeletionOutput{KeyId: new(k.ARN())}, nil
}

// Lifecycle carries out what is due for keys: automatic rotation, and deletion.
type Lifecycle struct{ s *Service }

// NewLifecycle returns the lifecycle of the keys in the store of o.
func NewLifecycle(o Options) *Lifecycle { return &Lifecycle{New(o)} }

// Reconcile does what is due for the key in a row. again is the delay until the next time-driven step, 0 when there is
// none; gone reports whether nothing is left of the key.
func (l *Lifecycle) Reconcile(ctx context.Context, key string) (again time.Duration, gone bool, err error) {
	s := l.s
	row, err := s.keys.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	k, now := row.Value, s.now()
	switch {
	case k.State == types.KeyStatePendingDeletion && now.Before(k.DeleteAt):
		return k.DeleteAt.Sub(now), false, nil
	case k.State == types.KeyStatePendingDeletion:
		return 0, true, s.deleteKey(ctx, row)
	case k.RotationPeriod == 0 || k.State != types.KeyStateEnabled:
		return 0, false, nil
	case now.Before(k.RotateAt):
		return k.RotateAt.Sub(now), false, nil
	}
	return time.Duration(k.RotationPeriod) * day, false, s.rotate(ctx, row.Key, types.RotationTypeAutomatic,
		func(k record.KMSKey) error {
			if k.State != types.KeyStateEnabled || k.RotationPeriod == 0 || now.Before(k.RotateAt) {
				return errUnchanged
			}
			return nil
		})
}

// deleteBatch is how many records are read and deleted at a time.
const deleteBatch = 50

// deleteKey deletes a key with all that belongs to it, its own record last.
func (s *Service) deleteKey(ctx context.Context, row store.Row[record.KMSKey]) error {
	prefix := store.Prefix(row.Value.Account, row.Value.Region, row.Value.ID)
	for _, next := range []func() ([]store.Op, error){
		func() ([]store.Op, error) {
			aliases, _, err := s.aliasesOf.Page(ctx, row.Key, "", deleteBatch)
			ops := make([]store.Op, 0, len(aliases))
			for _, a := range aliases { // unless one is given to another key
				ops = append(ops, s.aliases.DeleteOp(a))
			}
			return ops, err
		},
		func() ([]store.Op, error) { // there may be many, with long encryption contexts
			grants, _, err := s.grants.Page(ctx, prefix, "", deleteBatch)
			return removals(s.grants, grants), err
		},
		func() ([]store.Op, error) {
			materials, _, err := s.materials.Page(ctx, prefix, "", deleteBatch)
			return removals(s.materials, materials), err
		},
	} {
		for {
			ops, err := next()
			if err != nil {
				return err
			}
			if len(ops) == 0 {
				break
			}
			// Each transaction holds the key as it was judged: nobody cancels the deletion of what is half deleted.
			if err := s.store.Txn(ctx, append(ops, s.keys.CheckOp(row))...); err != nil {
				return err
			}
		}
	}
	return s.store.Txn(ctx, s.keys.DeleteOp(row))
}

// removals returns the operations that remove rows.
func removals[T any](table store.Table[T], rows []store.Row[T]) (ops []store.Op) {
	for _, row := range rows {
		ops = append(ops, table.RemoveOp(row.Key))
	}
	return ops
}
