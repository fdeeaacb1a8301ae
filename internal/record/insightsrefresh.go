package record

import (
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// InsightsRefresh is the newest refresh of the insights into a cluster that its owner asked for.
//
// Writer: internal/aws/eks/cluster starts it, in the place of an earlier one that has ended.
// internal/controller/clusterinsight, which makes the insights, ends it; internal/controller/controlplane deletes the
// record with that of the cluster.
type InsightsRefresh struct {
	ClusterID string
	StartedAt time.Time
	EndedAt   time.Time `json:",omitzero"`
	// Failure is why the insights are not of the cluster as it was; empty when they are.
	Failure string `json:",omitempty"`
}

// InsightsRefreshes returns the table of refreshes, by ClusterKey.
func InsightsRefreshes(s *store.Store) store.Table[InsightsRefresh] {
	return store.NewTable[InsightsRefresh](s, "insights-refreshes")
}
