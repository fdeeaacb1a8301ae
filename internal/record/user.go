package record

import (
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// User is an IAM user.
//
// Writer: internal/aws/iam.
type User struct {
	Account   string
	Name      string
	Path      string // "/", "/division/"
	ID        string // AIDA...
	CreatedAt time.Time
	Tags      map[string]string
	Grants
	Boundary string   // ARN of the managed policy that is its permissions boundary
	Groups   []string // names, sorted
	// AccessKeyIDs are at most two; the rows are AccessKeys.
	AccessKeyIDs []string
}

// Grants are the policies of a user, group or role.
type Grants struct {
	Inline   map[string]string // documents by name
	Attached []string          // ARNs of managed policies, in the order of attachment
}

// ARN returns the user's Amazon Resource Name.
func (u User) ARN() string { return "arn:aws:iam::" + u.Account + ":user" + u.Path + u.Name }

// UserKey returns the key of a user. IAM names differ by more than their case.
func UserKey(account, name string) string { return store.Key(account, strings.ToLower(name)) }

// Users returns the table of users, by UserKey.
func Users(s *store.Store) store.Table[User] { return store.NewTable[User](s, "users") }
