package eks

import (
	"context"

	"github.com/coracle-eks/coracle/internal/store"
)

// CountByStatus returns how many clusters and node groups of all accounts have each status, for metrics.
func CountByStatus(ctx context.Context, rows *store.Store) (clusters, nodegroups map[string]int, err error) {
	s := New(Options{Store: rows})
	if clusters, err = s.Clusters.CountByStatus(ctx); err != nil {
		return nil, nil, err
	}
	nodegroups, err = s.Nodegroups.CountByStatus(ctx)
	return clusters, nodegroups, err
}
