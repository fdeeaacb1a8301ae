package record

import (
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// AccessKey is a long-term credential of a user or of an account's root user. Temporary credentials have no row.
//
// Writer: internal/aws/iam.
type AccessKey struct {
	ID        string // AKIA...
	Account   string
	User      string // name; empty for the root user
	UserID    string // AIDA..., or the account
	Secret    string
	Inactive  bool
	CreatedAt time.Time
	// ClientToken is of the service that created the key, if one did.
	ClientToken string `json:",omitempty"`
}

// AccessKeyKey returns the key of an access key.
func AccessKeyKey(id string) string { return store.Key(id) }

// AccessKeys returns the table of access keys, by AccessKeyKey.
func AccessKeys(s *store.Store) store.Table[AccessKey] {
	return store.NewTable[AccessKey](s, "accesskeys")
}

// AccessKeyUse records the last use of an access key.
//
// Writer: internal/aws/iam/identity, every few minutes while the key is in use.
type AccessKeyUse struct {
	At      time.Time
	Region  string
	Service string // "eks"
}

// AccessKeyUses returns the table of uses, by AccessKeyKey.
func AccessKeyUses(s *store.Store) store.Table[AccessKeyUse] {
	return store.NewTable[AccessKeyUse](s, "accesskeyuses")
}
