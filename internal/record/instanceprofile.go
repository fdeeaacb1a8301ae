package record

import (
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// InstanceProfile hands a role to EC2 instances.
//
// Writer: internal/aws/iam.
type InstanceProfile struct {
	Account   string
	Name      string
	Path      string
	ID        string // AIPA...
	CreatedAt time.Time
	Role      string // name; empty when it holds none
	Tags      map[string]string
}

// ARN returns the profile's Amazon Resource Name.
func (p InstanceProfile) ARN() string {
	return "arn:aws:iam::" + p.Account + ":instance-profile" + p.Path + p.Name
}

// InstanceProfileKey returns the key of an instance profile.
func InstanceProfileKey(account, name string) string {
	return store.Key(account, strings.ToLower(name))
}

// InstanceProfiles returns the table of instance profiles, by InstanceProfileKey.
func InstanceProfiles(s *store.Store) store.Table[InstanceProfile] {
	return store.NewTable[InstanceProfile](s, "instanceprofiles")
}
