package record

import (
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// Role is an IAM role.
//
// Writer: internal/aws/iam.
type Role struct {
	Account     string
	Name        string
	Path        string
	ID          string // AROA...; sessions hold it, so that those of a role that was created again are void
	CreatedAt   time.Time
	Description string
	Trust       string // the AssumeRolePolicyDocument
	// TrustIDs are the unique ids of the users and roles that Trust names, by ARN. A principal that was created again
	// under its old name is another one, and not trusted.
	TrustIDs   map[string]string
	MaxSession time.Duration
	Tags       map[string]string
	Grants
	Boundary string
	// LinkedService is the service of a service-linked role, "eks.amazonaws.com".
	LinkedService string
	// ClientToken is of the service that created a service-linked role, if one did.
	ClientToken string `json:",omitempty"`
}

// ARN returns the role's Amazon Resource Name.
func (r Role) ARN() string { return "arn:aws:iam::" + r.Account + ":role" + r.Path + r.Name }

// RoleKey returns the key of a role.
func RoleKey(account, name string) string { return store.Key(account, strings.ToLower(name)) }

// Roles returns the table of roles, by RoleKey.
func Roles(s *store.Store) store.Table[Role] { return store.NewTable[Role](s, "roles") }

// RoleUse records the last use of a role.
//
// Writer: internal/aws/iam/identity, every few minutes while the role is in use.
type RoleUse struct {
	RoleID string
	At     time.Time
	Region string
}

// RoleUses returns the table of uses, by Key(role id).
func RoleUses(s *store.Store) store.Table[RoleUse] { return store.NewTable[RoleUse](s, "roleuses") }

// RoleDeletion is the outcome of a DeleteServiceLinkedRole.
//
// Writer: internal/aws/iam.
type RoleDeletion struct {
	RoleARN string
	At      time.Time
	// InUse are the ARNs of what still needs the role; the deletion failed because of them.
	InUse  []string
	Region string // of InUse
}

// RoleDeletions returns the table of deletions, by Key(account, task id).
func RoleDeletions(s *store.Store) store.Table[RoleDeletion] {
	return store.NewTable[RoleDeletion](s, "roledeletions")
}
