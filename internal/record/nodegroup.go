package record

import (
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// Nodegroup is a managed node group as its owner wants it.
//
// Writer: internal/aws/eks. A cluster that has one cannot be deleted.
type Nodegroup struct {
	ClusterID string
	Name      string
	CreatedAt time.Time
}

// NodegroupKey is the key of a node group.
func NodegroupKey(account, region, cluster, name string) string {
	return store.Key(account, region, cluster, name)
}

// Nodegroups is the table of node groups, by NodegroupKey.
func Nodegroups(s *store.Store) store.Table[Nodegroup] {
	return store.NewTable[Nodegroup](s, "nodegroups")
}
