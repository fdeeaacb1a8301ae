package balancing

import (
	"context"
	"errors"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Pool returns the targets of a TargetHealth, by its key, and the load balancer that checks them; nil without one.
func (r *Reader) Pool(ctx context.Context, key string) (pool Pool, user *record.LoadBalancer, err error) {
	parts := store.Parts(key)
	if len(parts) == 4 && parts[2] == "group" {
		row, err := r.groups.Get(ctx, record.TargetGroupKey(parts[0], parts[1], parts[3]))
		if err != nil {
			return pool, nil, err
		}
		g := row.Value
		if g.LoadBalancer == "" || g.HealthCheck.Disabled {
			return Pool{Key: key, Owner: g.ID}, nil, nil // its targets, which may be many, are not looked for
		}
		if pool, err = r.Group(ctx, g); err != nil {
			return pool, nil, err
		}
		b, err := r.balancers.Get(ctx, record.LoadBalancerKey(g.Account, g.Region, record.NetworkLoadBalancer,
			g.LoadBalancer))
		if errors.Is(err, store.ErrNotFound) {
			return pool, nil, nil
		}
		return pool, &b.Value, err
	}
	row, err := r.balancers.Get(ctx, key)
	if err != nil {
		return pool, nil, err
	}
	if row.Value.Classic == nil {
		return pool, nil, store.ErrNotFound
	}
	pool, err = r.Instances(ctx, row.Value, 1)
	return pool, &row.Value, err
}

// PoolsOfBalancer returns the keys of the TargetHealths that a change of a load balancer concerns, by its key: those of
// its target groups, and of the target groups that it is a target of.
func (r *Reader) PoolsOfBalancer(key string) []string {
	keys := []string{key}
	row, err := r.balancers.Get(context.Background(), key)
	if err != nil {
		return keys
	}
	for _, name := range row.Value.TargetGroups() {
		keys = append(keys, PoolsOfGroup(record.TargetGroupKey(row.Value.Account, row.Value.Region, name))...)
	}
	groups, err := r.leading.List(context.Background(), row.Value.ARN())
	if err != nil {
		return keys
	}
	for _, g := range groups {
		keys = append(keys, g.Value.TargetHealthKey())
	}
	return keys
}

// PoolsOfGroup returns the key of the TargetHealth of a target group, by its key.
func PoolsOfGroup(key string) []string {
	parts := store.Parts(key)
	return []string{record.TargetGroup{Account: parts[0], Region: parts[1], Name: parts[2]}.TargetHealthKey()}
}
