package nodegroup

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup/drain"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/record"
)

var (
	crashScaledUp = crash.At("nodegroup/scaled-up")
	crashCordoned = crash.At("nodegroup/cordons-recorded")
)

// scaleUp runs the second phase: the Auto Scaling group grows, until a new node is Ready in every zone in which there
// is an old one, and no new one is not, and load balancers know them. The old ones are cordoned then.
func (g *group) scaleUp(ctx context.Context) (time.Duration, error) {
	r := g.state.RollingUpdate
	largest, desired := *r.Before.MaxSize+r.Added, *r.Before.DesiredSize+r.Added
	if err := g.setSizes(ctx, max(largest, aws.ToInt32(g.asg.MaxSize)),
		max(desired, aws.ToInt32(g.asg.DesiredCapacity))); err != nil {
		return 0, err
	}
	crashScaledUp.Here()
	missing := map[string]bool{} // zones
	for _, m := range g.members {
		if m.Old && isServing(m) {
			missing[m.zone()] = true
		}
	}
	fresh, unready := 0, false
	for _, m := range g.members {
		switch {
		case m.Old || !isServing(m):
		case g.isAvailable(m) && g.labeled(m):
			delete(missing, m.zone())
			fresh++
		default:
			unready = true
		}
	}
	// A group that has all that it is to have launches no more: zones that old nodes were crowded in get theirs when
	// those go.
	if unready || fresh == 0 || len(missing) > 0 && g.unlaunched() > 0 {
		if rest := g.waitForReady(); rest > 0 {
			return rest, nil
		}
		return 0, g.failJoin(ctx)
	}
	if again, err := g.awaitBalanced(ctx); err != nil || again > 0 {
		return again, err
	}
	if err := g.cordonOld(ctx); err != nil {
		return 0, err
	}
	return 0, g.startPhase(ctx, record.NodegroupUpgrade)
}

// labeled reports whether a node has the labels by which EKS identifies its own nodes. Nodes of users' own images have
// the labels of their user data.
func (g *group) labeled(m member) bool {
	return g.isCustomAMI() || m.Node.Labels[groupLabel] == g.row.Name &&
		m.Node.Labels["eks.amazonaws.com/nodegroup-image"] != ""
}

// cordonOld makes the old nodes unschedulable and takes them out of load balancers, and remembers those that it did so
// to.
func (g *group) cordonOld(ctx context.Context) error {
	r := g.state.RollingUpdate
	var cordon []member
	for _, m := range g.members {
		if !m.Old || m.Node == nil || !isServing(m) {
			continue
		}
		if !m.Node.Spec.Unschedulable && !slices.Contains(r.Cordoned, m.ID()) {
			r.Cordoned = append(r.Cordoned, m.ID())
		}
		if slices.Contains(r.Cordoned, m.ID()) && !drain.Cordoned(m.Node) {
			cordon = append(cordon, m)
		}
	}
	if len(cordon) == 0 {
		return nil
	}
	if err := g.saveState(ctx); err != nil {
		return err
	}
	crashCordoned.Here()
	for _, m := range cordon {
		if err := drain.Cordon(ctx, g.kube, m.Node, agent); err != nil {
			return err
		}
	}
	return nil
}
