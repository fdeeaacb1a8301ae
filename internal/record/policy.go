package record

import (
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// Policy is a customer managed policy. Those of AWS are part of the program (internal/aws/iam/managed). Who has it
// attached stands in Grants.Attached.
//
// Writer: internal/aws/iam.
type Policy struct {
	Account     string
	Name        string
	Path        string
	ID          string // ANPA...
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Description string
	Versions    []PolicyVersion // oldest first, at most five
	Default     string          // id of the version in force
	NextVersion int             // number of the next version; numbers are never used twice
	Tags        map[string]string
}

// PolicyVersion is one version of a managed policy.
type PolicyVersion struct {
	ID        string // v1, v2, ...
	Document  string
	CreatedAt time.Time
}

// ARN returns the policy's Amazon Resource Name.
func (p Policy) ARN() string { return "arn:aws:iam::" + p.Account + ":policy" + p.Path + p.Name }

// Version returns the version with that id; false when there is none.
func (p Policy) Version(id string) (PolicyVersion, bool) {
	for _, v := range p.Versions {
		if v.ID == id {
			return v, true
		}
	}
	return PolicyVersion{}, false
}

// PolicyKey returns the key of a policy.
func PolicyKey(account, name string) string { return store.Key(account, strings.ToLower(name)) }

// Policies returns the table of policies, by PolicyKey.
func Policies(s *store.Store) store.Table[Policy] { return store.NewTable[Policy](s, "policies") }
