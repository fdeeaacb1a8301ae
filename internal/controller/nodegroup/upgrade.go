package nodegroup

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup/drain"
	"github.com/coracle-eks/coracle/internal/record"
)

// upgrade runs the third phase: old nodes are picked at random, drained, and terminated through the Auto Scaling group,
// until there are none. At no time are more being drained than may be unavailable, and no node that serves is picked
// while too many are missing for another reason: a node that was terminated counts until another has come for it.
func (g *group) upgrade(ctx context.Context) (time.Duration, error) {
	if err := g.suspendBalancing(ctx); err != nil {
		return 0, err
	}
	nodes := g.targetSize()
	if g.row.UpdateConfig.UpdateStrategy != ekstypes.NodegroupUpdateStrategiesMinimal {
		if err := g.cordonOld(ctx); err != nil {
			return 0, err
		}
	}
	candidates, err := g.pickNodes(ctx, unavailable(g.row.UpdateConfig, nodes), nodes)
	if err != nil {
		return 0, err
	}
	var again time.Duration
	var stuck []string
	var left []drain.Pod
	old, draining := 0, 0
	for _, m := range g.members {
		if !m.Old {
			continue
		}
		old++
		l, isDraining := g.drainingOf(m)
		if !isDraining || l.Why != whyUpdate || !isServing(m) {
			continue
		}
		if l.Terminated.IsZero() {
			e, err := g.continueDrain(ctx, m, g.last.Force)
			if err != nil {
				return 0, err
			}
			if !e.done && e.late && !g.last.Force {
				stuck, left = append(stuck, l.Node), append(left, e.left...)
			}
			if !e.done && !(e.late && g.last.Force) {
				draining++
				again = earlierWait(again, e.again)
				continue
			}
		}
		if err := g.terminate(ctx, m, g.surplus(nodes)); err != nil {
			return 0, err
		}
	}
	switch {
	case len(stuck) > 0:
		return 0, g.failEviction(ctx, stuck, left)
	case old == 0:
		return 0, g.startPhase(ctx, record.NodegroupScaleDown)
	case draining > 0 || candidates == 0: // the last ones go: their rows tell
		g.state.RollingUpdate.Waiting = time.Time{}
		return again, nil
	}
	if rest := g.waitForReady(); rest > 0 {
		return rest, nil
	}
	return 0, g.failJoin(ctx)
}

// pickNodes starts to drain old nodes: as many as may be unavailable beside those that are, nodes that are not Ready
// first, the others in a random order. It returns the number of nodes that are left to pick.
func (g *group) pickNodes(ctx context.Context, most, nodes int32) (left int, err error) {
	var old []member
	var draining, available int32
	for _, m := range shuffled(g.members) {
		l, isDraining := g.drainingOf(m)
		if g.isAvailable(m) {
			available++
		}
		if isDraining && l.Why == whyUpdate && g.isStaying(m) {
			draining++
		}
		if m.Old && g.isStaying(m) && (!isDraining || l.Why == whyRepair) {
			old = append(old, m)
		}
	}
	slices.SortStableFunc(old, func(a, b member) int {
		return boolToInt(isNodeReady(a.Node)) - boolToInt(
			isNodeReady(b.Node))
	})
	left = len(old)
	for _, m := range old {
		if draining >= most || isNodeReady(m.Node) && available-1 < nodes-most {
			break
		}
		if g.isAvailable(m) {
			available--
		}
		g.startDraining(m, whyUpdate)
		draining++
		left--
	}
	if left == len(old) {
		return left, nil
	}
	err = g.saveState(ctx)
	crashDraining.Here()
	return left, err
}

// surplus reports whether the next old node need not be replaced: there are as many new ones, or will be, as are
// wanted.
func (g *group) surplus(nodes int32) bool {
	fresh := g.unlaunched()
	for _, m := range g.members {
		if !m.Old && g.isStaying(m) {
			fresh++
		}
	}
	return fresh >= nodes && aws.ToInt32(g.asg.DesiredCapacity) > nodes
}

func boolToInt(last bool) int {
	if last {
		return 1
	}
	return 0
}
