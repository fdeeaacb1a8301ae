package record

import (
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// Group is an IAM group. Who is in it stands in User.Groups.
//
// Writer: internal/aws/iam.
type Group struct {
	Account   string
	Name      string
	Path      string
	ID        string // AGPA...
	CreatedAt time.Time
	Grants
}

// ARN returns the group's Amazon Resource Name.
func (g Group) ARN() string { return "arn:aws:iam::" + g.Account + ":group" + g.Path + g.Name }

// GroupKey returns the key of a group.
func GroupKey(account, name string) string { return store.Key(account, strings.ToLower(name)) }

// Groups returns the table of groups, by GroupKey.
func Groups(s *store.Store) store.Table[Group] { return store.NewTable[Group](s, "groups") }
