package identity

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

var namedARN = regexp.MustCompile(
	`^arn:aws:(?:iam|sts)::(\d{12}):(root|user/.+|role/.+|assumed-role/[^/]+/.+|federated-user/.+)$`)

// Named finds whom the policies of resources name.
type Named struct {
	accounts store.Table[record.Account]
	users    store.Table[record.User]
	roles    store.Table[record.Role]
}

// NewNamed returns a Named over the principals in s.
func NewNamed(s *store.Store) *Named {
	return &Named{accounts: record.Accounts(s), users: record.Users(s), roles: record.Roles(s)}
}

// PrincipalAccount returns the account of the principal that an ARN names; ok is false when it names none.
func PrincipalAccount(arn string) (account string, ok bool) {
	m := namedARN.FindStringSubmatch(arn)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// ID returns the unique ID of the user or role that an ARN names, or whose session it names. It is empty for an
// account, a federated user, and everybody of an account that is not here. exists is false for what cannot be.
func (n *Named) ID(ctx context.Context, arn string) (id string, exists bool, err error) {
	m := namedARN.FindStringSubmatch(arn)
	if m == nil {
		return "", false, nil
	}
	account := m[1]
	if _, err := n.accounts.Get(ctx, record.AccountKey(account)); err != nil {
		// an account of someone else's, which we cannot see
		return "", true, ignoreMissing(err)
	}
	kind, path, _ := strings.Cut(m[2], "/")
	switch kind {
	case "user":
		row, err := n.users.Get(ctx, record.UserKey(account, path[strings.LastIndexByte(path, '/')+1:]))
		return row.Value.ID, err == nil && row.Value.ARN() == arn, ignoreMissing(err)
	case "role":
		row, err := n.roles.Get(ctx, record.RoleKey(account, path[strings.LastIndexByte(path, '/')+1:]))
		return row.Value.ID, err == nil && row.Value.ARN() == arn, ignoreMissing(err)
	case "assumed-role":
		name, _, _ := strings.Cut(path, "/")
		row, err := n.roles.Get(ctx, record.RoleKey(account, name))
		return row.Value.ID, err == nil && row.Value.Name == name, ignoreMissing(err)
	}
	return "", true, nil
}

// IDs returns the unique IDs, by ARN, of the users and roles that a policy names: what [wire.Target] has as PolicyIDs.
// It also returns an ARN of the policy that names nobody; empty when there is none.
func (n *Named) IDs(ctx context.Context, d *policy.Document) (ids map[string]string, nobody string, err error) {
	ids = map[string]string{}
	for _, statement := range d.Statements {
		for _, arn := range statement.PrincipalNames("AWS") {
			if !namedARN.MatchString(arn) {
				continue // an account, or the unique ID of one who is gone
			}
			id, exists, err := n.ID(ctx, arn)
			if err != nil {
				return nil, "", err
			}
			if !exists {
				return nil, arn, nil
			}
			if id != "" {
				ids[arn] = id
			}
		}
	}
	return ids, "", nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
