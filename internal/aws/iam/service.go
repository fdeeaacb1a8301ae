// Package iam serves the AWS Identity and Access Management API: users, groups, roles, policies, access keys, instance
// profiles and OpenID Connect providers, and the policy simulator.
//
// The package writes rows and decides nothing: what the rows allow is decided by package identity, with package policy.
// [Bootstrap] makes an account with its root access key; several accounts live in one store, and none sees another.
//
// The files go by subject. What users, groups and roles have in common, their policies, is grants.go.
//
// https://docs.aws.amazon.com/IAM/latest/APIReference/
package iam

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Service serves IAM. Its exported methods are operations.
type Service struct {
	store     *store.Store
	accounts  store.Table[record.Account]
	aliases   store.Table[record.AccountAlias]
	users     kind[record.User]
	groups    kind[record.Group]
	roles     kind[record.Role]
	policies  store.Table[record.Policy]
	keys      store.Table[record.AccessKey]
	keyUses   store.Table[record.AccessKeyUse]
	roleUses  store.Table[record.RoleUse]
	profiles  store.Table[record.InstanceProfile]
	providers store.Table[record.OIDCProvider]
	deletions store.Table[record.RoleDeletion]
	identity  *identity.Identity
	now       func() time.Time
}

// New returns the service over a store. now is time.Now unless set.
func New(s *store.Store, who *identity.Identity, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	return &Service{
		store: s, accounts: record.Accounts(s), aliases: record.AccountAliases(s), users: userKind(s),
		groups: groupKind(s), roles: roleKind(s),
		policies: record.Policies(s), keys: record.AccessKeys(s), keyUses: record.AccessKeyUses(s),
		roleUses: record.RoleUses(s),
		profiles: record.InstanceProfiles(s), providers: record.OIDCProviders(s), deletions: record.RoleDeletions(s),
		identity: who, now: now,
	}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.accessKeyHandlers(),
		s.accountHandlers(),
		s.groupHandlers(),
		s.instanceProfileHandlers(),
		s.oidcProviderHandlers(),
		s.policyHandlers(),
		s.roleHandlers(),
		s.serviceLinkedRoleHandlers(),
		s.simulateHandlers(),
		s.userHandlers(),
	} {
		mux.Register(wire.IAM, handlers...)
	}
}

// account returns the account of the request: the caller's own.
func account(ctx context.Context) string { return wire.CallerFrom(ctx).Account }

// maxAttempts ends a write that always loses against others.
const maxAttempts = 50

// retryWrite carries out what attempt asks for, again as long as other writers come between what it read and its write.
// attempt checks everything that it relies on each time, and returns ops that hold those rows.
func (s *Service) retryWrite(ctx context.Context, attempt func() ([]store.Op, error)) error {
	for range maxAttempts {
		ops, err := attempt()
		if err != nil || len(ops) == 0 {
			return err
		}
		err = s.store.Txn(ctx, ops...)
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) &&
			!errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return wire.Errorf("ConcurrentModification",
		"The request was rejected because multiple requests to change this object were submitted simultaneously. "+
			"Wait a few minutes and submit your request again.")
}

// paginate calls wire.Page, and returns its result in the form of IAM's lists.
func paginate[T any](ctx context.Context, items []T, max *int32, marker *string, key func(T) string) (
	[]T, *string, bool, error) {
	got, next, err := wire.Page(ctx, items, max, marker, key)
	return got, next, next != nil, err
}

// isInPath reports whether a path, or an ARN's path, is below a prefix.
func isInPath(path string, prefix *string) bool {
	return prefix == nil || strings.HasPrefix(path, *prefix)
}

// pathOrDefault returns the path of a new entity, "/" unless the request names one.
func pathOrDefault(path *string) string {
	if path == nil || *path == "" {
		return "/"
	}
	return *path
}
