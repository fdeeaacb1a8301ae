package eks

import (
	"context"

	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/store"
)

// CountByStatus returns how many clusters and node groups of all accounts have each status, for metrics.
func CountByStatus(ctx context.Context, rows *store.Store) (clusters, nodegroups map[string]int, err error) {
	s := New(Options{Store: rows})
	all, err := s.Clusters.List(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	clusters, nodegroups = map[string]int{}, map[string]int{}
	for _, row := range all {
		cp, last, err := s.Observe(ctx, row.Value)
		if err != nil {
			return nil, nil, err
		}
		clusters[string(resource.ClusterStatus(row.Value, cp, last))]++
	}
	groups, err := s.Nodegroups.List(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	for _, row := range groups {
		state, last, err := s.observedGroup(ctx, row.Value)
		if err != nil {
			return nil, nil, err
		}
		nodegroups[string(nodegroupStatus(row.Value, state, last))]++
	}
	return clusters, nodegroups, nil
}
