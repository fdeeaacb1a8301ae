package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// AccessEntry lets an IAM principal into a cluster.
//
// Writer: internal/aws/eks (for the creator's entry and the entries of node groups and
// Fargate profiles too: their controllers call the API). The control-plane controller removes the
// rows of a deleted cluster before the Cluster row; a row whose ClusterID is not that of the
// cluster under its name does not count.
type AccessEntry struct {
	ClusterID    string
	PrincipalARN string
	// unique id that the principal had when the entry was made; empty for those of other accounts
	PrincipalID string `json:",omitempty"`
	ID          string // a UUID, the last part of the ARN
	Type        string // STANDARD, EC2_LINUX, EC2_WINDOWS, FARGATE_LINUX, EC2, HYBRID_LINUX, HYPERPOD_LINUX
	Username    string
	Groups      []string
	Tags        map[string]string
	CreatedAt   time.Time
	ModifiedAt  time.Time
	// Policies are the associated access policies, by policy ARN.
	Policies []AccessPolicyAssociation
	// ClientRequestToken and RequestHash are of the request that created the entry.
	ClientRequestToken string
	RequestHash        string
}

// AccessPolicyAssociation gives an entry the permissions of an access policy in a scope.
type AccessPolicyAssociation struct {
	PolicyARN    string
	Scope        ekstypes.AccessScopeType // cluster or namespace
	Namespaces   []string                 // may end in *
	AssociatedAt time.Time
	ModifiedAt   time.Time
}

// AccessEntryKey returns the key of an access entry.
func AccessEntryKey(account, region, cluster, principalARN string) string {
	return store.Key(account, region, cluster, principalARN)
}

// AccessEntries returns the table of access entries, by AccessEntryKey.
func AccessEntries(s *store.Store) store.Table[AccessEntry] {
	return store.NewTable[AccessEntry](s, "accessentries")
}
