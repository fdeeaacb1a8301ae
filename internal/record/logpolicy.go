package record

import (
	"cmp"
	"time"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// LogResourcePolicy lets AWS services write to log groups. It is one of an account, or attached to a log group, with
// which it is deleted.
//
// Writer: internal/aws/logs.
type LogResourcePolicy struct {
	Account   string
	Region    string
	Name      string `json:",omitempty"` // one of a log group need not have one
	Group     string `json:",omitempty"` // the name of the log group that it is attached to
	Document  string
	Revision  string `json:",omitempty"` // of one that is attached to a log group: each change makes another
	UpdatedAt time.Time
}

// LogResourcePolicyKey returns the key of a policy of an account by its name, or of a log group by the group's name.
func LogResourcePolicyKey(account, region string, scope logstypes.PolicyScope, name string) string {
	return store.Key(account, region, string(scope), name)
}

// LogResourcePolicyPrefix returns what the keys of all policies of a scope begin with.
func LogResourcePolicyPrefix(account, region string, scope logstypes.PolicyScope) string {
	return store.Prefix(account, region, string(scope))
}

// Scope tells whether the policy is one of the account or of a log group.
func (p LogResourcePolicy) Scope() logstypes.PolicyScope {
	if p.Group != "" {
		return logstypes.PolicyScopeResource
	}
	return logstypes.PolicyScopeAccount
}

// Key returns the key of the policy.
func (p LogResourcePolicy) Key() string {
	return LogResourcePolicyKey(p.Account, p.Region, p.Scope(), cmp.Or(p.Group, p.Name))
}

// LogResourcePolicies returns the table of resource policies, by LogResourcePolicyKey.
func LogResourcePolicies(s *store.Store) store.Table[LogResourcePolicy] {
	return store.NewTable[LogResourcePolicy](s, "log-resource-policies")
}
