package nodegroup

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// A node that is drained is excluded from external load balancers by its label. The cloud controller manager and the
// AWS Load Balancer Controller see that and deregister its instance; EKS itself does not. It waits for a minute after
// the last pod has gone, so that they can, and so that connections end which lead through the node to pods on others.
// Here the wait is over as soon as no load balancer knows the instance any more. In an update the old nodes are
// excluded together: before that, the new ones are to be healthy behind the load balancers that the old ones are
// behind, for which EKS takes minutes anyway.
//
// What is registered by the Auto Scaling group does not count: that deregisters it, and waits for its connections, when
// the node is terminated.
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html

// balancerPause is the time between two looks at load balancers that others are to tell of nodes.
const balancerPause = 500 * time.Millisecond

// nodeBalancer is a target group or Classic Load Balancer that others than the Auto Scaling group register nodes with.
type nodeBalancer struct {
	group   *record.TargetGroup  // nil of a Classic Load Balancer
	classic *record.LoadBalancer // nil of a target group
}

// nodeBalancers returns those of the account and region that instances are registered with.
func (g *group) nodeBalancers(ctx context.Context) (all []nodeBalancer, err error) {
	at := store.Prefix(g.row.Account, g.row.Region)
	groups, err := g.c.targets.List(ctx, at)
	if err != nil {
		return nil, err
	}
	for _, row := range groups {
		if t := row.Value; t.TargetType == "instance" && t.LoadBalancer != "" && len(t.Targets) > 0 &&
			!slices.Contains(g.asg.TargetGroupARNs, t.ARN()) {
			all = append(all, nodeBalancer{group: &t})
		}
	}
	balancers, err := g.c.balancers.List(ctx, at)
	if err != nil {
		return nil, err
	}
	for _, row := range balancers {
		if b := row.Value; b.Kind == record.ClassicLoadBalancer && len(b.Classic.Instances) > 0 &&
			!slices.Contains(g.asg.LoadBalancerNames, b.Name) {
			all = append(all, nodeBalancer{classic: &b})
		}
	}
	return all, nil
}

// isRegistered reports whether an instance is registered, and not to go.
func (b nodeBalancer) isRegistered(id string) bool {
	if b.group != nil {
		return slices.ContainsFunc(b.group.Targets,
			func(t record.Target) bool { return t.ID == id && t.DeregisteredAt.IsZero() })
	}
	return slices.ContainsFunc(b.classic.Classic.Instances,
		func(i record.RegisteredInstance) bool { return i.ID == id && i.DeregisteredAt.IsZero() })
}

// drained returns when the connections of a deregistered instance have drained.
func (b nodeBalancer) drained(id string) time.Time {
	if b.group != nil {
		return balancing.TargetDrained(*b.group, id)
	}
	return balancing.InstanceDrained(*b.classic, id)
}

// isHealthy returns a function that reports whether an instance is healthy.
func (g *group) isHealthy(ctx context.Context, b nodeBalancer) (func(id string) bool, error) {
	key := ""
	if b.group != nil {
		key = b.group.TargetHealthKey()
	} else {
		key = b.classic.Key()
	}
	row, err := g.c.healths.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return func(id string) bool {
		if b.group != nil {
			return balancing.TargetState(*b.group, row.Value, id) == record.TargetHealthy
		}
		return balancing.InstanceState(*b.classic, row.Value, id) == record.TargetHealthy
	}, nil
}

// balancerKnows returns when to look again at whether a load balancer knows a member: 0 when none does. One whose
// registration drains is known until that is over.
func (g *group) balancerKnows(ctx context.Context, m member) (again time.Duration, err error) {
	all, err := g.nodeBalancers(ctx)
	if err != nil {
		return 0, err
	}
	for _, b := range all {
		if b.isRegistered(m.ID()) {
			again = max(again, balancerPause)
		}
		again = max(again, b.drained(m.ID()).Sub(g.c.now()))
	}
	return again, nil
}

// awaitBalanced returns when to look again at whether new nodes are healthy behind the load balancers behind which old
// ones are: 0 when they are, or have had as long as a node's traffic has to end. Behind some they cannot be as long as
// pods are on the old ones: where external traffic stays on the node that it comes to.
func (g *group) awaitBalanced(ctx context.Context) (again time.Duration, err error) {
	all, err := g.nodeBalancers(ctx)
	if err != nil {
		return 0, err
	}
	waits := false
	for _, b := range all {
		healthy, err := g.isHealthy(ctx, b)
		if err != nil {
			return 0, err
		}
		old, fresh := false, true
		for _, m := range g.members {
			switch {
			case m.Old:
				old = old || healthy(m.ID())
			case isServing(m):
				fresh = fresh && healthy(m.ID())
			}
		}
		waits = waits || old && !fresh
	}
	if !waits {
		return 0, nil
	}
	r := g.state.RollingUpdate
	if r.Balancing.IsZero() {
		r.Balancing = g.c.now()
		if err := g.saveState(ctx); err != nil {
			return 0, err
		}
	}
	return min(max(r.Balancing.Add(trafficDrainTime).Sub(g.c.now()), 0), balancerPause), nil
}
