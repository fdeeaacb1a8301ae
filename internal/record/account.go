package record

import (
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// Account is an AWS account.
//
// Writer: internal/aws/iam.
type Account struct {
	ID        string // twelve digits
	CreatedAt time.Time
	Alias     string // at most one; unique among all accounts (AccountAlias)
	// RootAccessKeyIDs are the access keys of the root user; the rows are AccessKeys.
	RootAccessKeyIDs []string
}

// ARN returns the root user's Amazon Resource Name.
func (a Account) ARN() string { return "arn:aws:iam::" + a.ID + ":root" }

// AccountKey returns the key of an account.
func AccountKey(id string) string { return store.Key(id) }

// Accounts returns the table of accounts, by AccountKey.
func Accounts(s *store.Store) store.Table[Account] { return store.NewTable[Account](s, "accounts") }

// AccountAlias is the owner of an alias.
//
// Writer: internal/aws/iam, in the transaction that writes Account.Alias.
type AccountAlias struct{ Account string }

// AccountAliases returns the table of aliases, by Key(alias).
func AccountAliases(s *store.Store) store.Table[AccountAlias] {
	return store.NewTable[AccountAlias](s, "accountaliases")
}

// SessionKey seals the session tokens of temporary credentials. Tokens say which key sealed them.
//
// Writer: internal/aws/iam/identity, once, at first start.
type SessionKey struct {
	Secret    []byte // 32 bytes
	CreatedAt time.Time
}

// SessionKeys returns the table of sealing keys, by Key(id).
func SessionKeys(s *store.Store) store.Table[SessionKey] {
	return store.NewTable[SessionKey](s, "sessionkeys")
}
