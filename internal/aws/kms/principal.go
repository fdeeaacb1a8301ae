package kms

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

var (
	accountID    = regexp.MustCompile(`^\d{12}$`)
	principalARN = regexp.MustCompile(
		`^arn:aws:(iam|sts)::(\d{12}):(root|user/.+|role/.+|assumed-role/[^/]+/.+|federated-user/.+)$`)
)

func accountARN(account string) string { return "arn:aws:iam::" + account + ":root" }

// principalID returns the unique ID of the user or role that an ARN names, or whose session it names. It is empty for
// an account, a federated user, and everybody of an account that is not here. exists is false for what cannot be.
func (s *Service) principalID(ctx context.Context, arn string) (id string, exists bool, err error) {
	m := principalARN.FindStringSubmatch(arn)
	if m == nil {
		return "", false, nil
	}
	account := m[2]
	if _, err := s.accounts.Get(ctx, record.AccountKey(account)); err != nil {
		// an account of someone else's, which we cannot see
		return "", true, ignoreMissing(err)
	}
	kind, path, _ := strings.Cut(m[3], "/")
	switch kind {
	case "user":
		row, err := s.users.Get(ctx, record.UserKey(account, path[strings.LastIndexByte(path, '/')+1:]))
		return row.Value.ID, err == nil && row.Value.ARN() == arn, ignoreMissing(err)
	case "role":
		row, err := s.roles.Get(ctx, record.RoleKey(account, path[strings.LastIndexByte(path, '/')+1:]))
		return row.Value.ID, err == nil && row.Value.ARN() == arn, ignoreMissing(err)
	case "assumed-role":
		name, _, _ := strings.Cut(path, "/")
		row, err := s.roles.Get(ctx, record.RoleKey(account, name))
		return row.Value.ID, err == nil && row.Value.Name == name, ignoreMissing(err)
	}
	return "", true, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
