package nodegroup

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup/drain"
	"github.com/coracle-eks/coracle/internal/crash"
)

var crashScaledDown = crash.At("nodegroup/scaled-down")

// scaleDown runs the last phase: the Auto Scaling group shrinks, node by node, to the sizes that it had. The update has
// succeeded once every node is new and Ready.
func (g *group) scaleDown(ctx context.Context) (time.Duration, error) {
	r := g.state.RollingUpdate
	if r.Desired > 0 && aws.ToInt32(g.asg.DesiredCapacity) > r.Desired {
		// The Cluster Autoscaler scales up: EKS leaves the group to it.
		for _, m := range g.members {
			if l, draining := g.drainingOf(m); draining && l.Why == whyUpdate && l.Terminated.IsZero() {
				if err := g.cancelDraining(ctx, m); err != nil {
					return 0, err
				}
			}
		}
		desired := aws.ToInt32(g.asg.DesiredCapacity)
		if err := g.setSizes(ctx, max(*r.Before.MaxSize, desired), desired); err != nil {
			return 0, err
		}
		return 0, g.endUpdate(ctx, ekstypes.UpdateStatusSuccessful)
	}
	wait, done, err := g.terminateSurplus(ctx)
	if err != nil || !done {
		return wait, err
	}
	var serving, staying int32
	for _, m := range g.members {
		if g.isAvailable(m) {
			serving++
		}
		if g.isStaying(m) {
			staying++
		}
	}
	if staying > aws.ToInt32(g.asg.DesiredCapacity) {
		return 0, nil // the Auto Scaling group takes away what it launched too much
	}
	if serving < aws.ToInt32(g.asg.DesiredCapacity) {
		if rest := g.waitForReady(); rest > 0 {
			return rest, nil
		}
		return 0, g.failJoin(ctx)
	}
	return 0, g.endUpdate(ctx, ekstypes.UpdateStatusSuccessful)
}

// terminateSurplus takes away the nodes that the Auto Scaling group has more than before the update, as many at once as
// may be unavailable, and gives it back its sizes. done says that it has them, and that the nodes are gone.
func (g *group) terminateSurplus(ctx context.Context) (wait time.Duration, done bool, err error) {
	r := g.state.RollingUpdate
	nodes := g.targetSize()
	defer func() { r.Desired = aws.ToInt32(g.asg.DesiredCapacity) }()
	if free := min(g.unlaunched(), aws.ToInt32(g.asg.DesiredCapacity)-nodes); free > 0 {
		// nothing has to be terminated for what was not launched
		if err := g.setSizes(ctx, aws.ToInt32(g.asg.MaxSize), aws.ToInt32(g.asg.DesiredCapacity)-free); err != nil {
			return 0, false, err
		}
	}
	if err := g.pickSurplus(ctx, unavailable(g.row.UpdateConfig, nodes), nodes); err != nil {
		return 0, false, err
	}
	draining := 0
	for _, m := range g.members {
		l, ok := g.drainingOf(m)
		if !ok || l.Why != whyUpdate {
			continue
		}
		draining++
		if !isServing(m) {
			continue // it goes
		}
		if l.Terminated.IsZero() {
			if aws.ToInt32(g.asg.DesiredCapacity) <= nodes { // somebody else has scaled in
				if err := g.cancelDraining(ctx, m); err != nil {
					return 0, false, err
				}
				continue
			}
			e, err := g.continueDrain(ctx, m, false)
			if err != nil {
				return 0, false, err
			}
			if !e.done && !e.late { // scaling in takes that long, and not longer
				wait = earlierWait(wait, e.again)
				continue
			}
		}
		if err := g.terminate(ctx, m, true); err != nil {
			return 0, false, err
		}
	}
	desired := aws.ToInt32(g.asg.DesiredCapacity) // perhaps fewer than before: somebody else has seen to that
	if draining > 0 || desired > nodes {
		return wait, false, nil
	}
	err = g.setSizes(ctx, max(*r.Before.MaxSize, desired), desired)
	crashScaledDown.Here()
	return 0, true, err
}

// pickSurplus lets nodes leave that are too many.
func (g *group) pickSurplus(ctx context.Context, most, nodes int32) error {
	var going int32
	for _, m := range g.members {
		if l, ok := g.drainingOf(m); ok && l.Why == whyUpdate && g.isStaying(m) {
			going++
		}
	}
	began := false
	for ; going < most && aws.ToInt32(g.asg.DesiredCapacity)-going > nodes; going++ {
		m, err := g.leastMissed(ctx)
		if errors.Is(err, errNobody) {
			break // they come, or go by themselves
		}
		if err != nil {
			return err
		}
		g.startDraining(m, whyUpdate)
		began = true
	}
	if !began {
		return nil
	}
	err := g.saveState(ctx)
	crashDraining.Here()
	return err
}

// unlaunched returns how much of its desired capacity the Auto Scaling group does not have.
func (g *group) unlaunched() int32 {
	n := aws.ToInt32(g.asg.DesiredCapacity)
	for _, m := range g.members {
		if g.isStaying(m) {
			n--
		}
	}
	return max(n, 0)
}

var errNobody = errors.New("no node is to go")

// leastMissed returns the node to go next of those that are too many: one that serves nobody, before one in the zone
// that has most, before one with few pods. In an update that fails new ones go before old ones; in one that succeeds
// there are no others.
func (g *group) leastMissed(ctx context.Context) (member, error) {
	zones := map[string]int{}
	var stay []member
	for _, m := range g.members {
		if _, draining := g.drainingOf(m); !draining && isServing(m) {
			zones[m.zone()]++
			stay = append(stay, m)
		}
	}
	var best member
	var least []int
	for _, m := range shuffled(stay) {
		pods := 0
		if m.Node != nil {
			var err error
			if pods, err = drain.Load(ctx, g.kube, m.Node.Name); err != nil {
				return member{}, err
			}
		}
		if missed := []int{boolToInt(m.Old), boolToInt(isNodeReady(m.Node)), -zones[m.zone()], pods}; least == nil ||
			slices.Compare(missed, least) < 0 {
			best, least = m, missed
		}
	}
	if least == nil {
		return member{}, errNobody
	}
	return best, nil
}
