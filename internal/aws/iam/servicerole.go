package iam

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// EnsureServiceRole makes a role in the account of an AWS service, as which the service is known to others, unless it
// is there. Its trust policy names the service alone, and it has no permissions. The account is no account of
// [Accounts]: it has no root user.
func EnsureServiceRole(ctx context.Context, s *store.Store, account, name, service string) error {
	roles, key := record.Roles(s), record.RoleKey(account, name)
	_, err := roles.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		_, err = roles.Create(ctx, key, record.Role{
			Account: account, Name: name, Path: "/", ID: identity.NewID(identity.RoleID), CreatedAt: time.Now().UTC(),
			Trust: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service +
				`"},"Action":"sts:AssumeRole"}]}`,
			MaxSession: defaultMaxSession * time.Second,
		})
	}
	if err != nil && !errors.Is(err, store.ErrExists) { // another daemon was faster
		return fmt.Errorf("make the role %s of account %s: %w", name, account, err)
	}
	return nil
}
