package nodegroup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup/drain"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/record"
)

// The reasons for draining a node, in record.NodegroupDraining.
const (
	whyUpdate = "update"
	// by scaling in, balancing zones, an instance refresh, or a user: the Auto Scaling group's affair
	whyScaleIn = "scale-in"
	whySpot    = "spot"
	whyRepair  = "repair"
	whyDelete  = "delete"
)

// trafficDrainTime is the maximum time to wait for the traffic of a drained node to end. EKS always waits that long.
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html#managed-node-update-upgrade
const trafficDrainTime = time.Minute

// maxNamed is the maximum number of pods that a message about a blocked drain names.
const maxNamed = 10

// deletionDrainTimeout is the maximum time to drain a node of a group that is being deleted: "a few minutes", as EKS
// documents.
// https://docs.aws.amazon.com/eks/latest/userguide/delete-managed-node-group.html
const deletionDrainTimeout = 5 * time.Minute

var (
	crashDraining   = crash.At("nodegroup/leaving-recorded")
	crashDrained    = crash.At("nodegroup/node-drained")
	crashTerminated = crash.At("nodegroup/termination-recorded")
)

// startDraining records that a member is being drained, before its node is cordoned.
func (g *group) startDraining(m member, why string) {
	if g.state.Draining == nil {
		g.state.Draining = map[string]record.NodegroupDraining{}
	}
	l := record.NodegroupDraining{Why: why, Since: g.c.now()}
	if m.Node != nil {
		l.Node, l.Cordoned = m.Node.Name, !m.Node.Spec.Unschedulable || g.state.RollingUpdate != nil &&
			slices.Contains(g.state.RollingUpdate.Cordoned, m.ID())
	}
	g.state.Draining[m.ID()] = l
}

// drainingOf returns the drain of a member, if its node is being drained.
func (g *group) drainingOf(m member) (record.NodegroupDraining, bool) {
	l, ok := g.state.Draining[m.ID()]
	return l, ok
}

// drainProgress is the progress of a drain.
type drainProgress struct {
	done  bool          // nothing is left, and neither endpoints nor load balancers lead to it
	late  bool          // it took the drain timeout
	left  []drain.Pod   // what is still there
	to    []string      // EndpointSlices that still send traffic to it
	again time.Duration // when to look again although nothing is heard
}

// continueDrain takes the next step of draining a member.
func (g *group) continueDrain(ctx context.Context, m member, force bool) (drainProgress, error) {
	l := g.state.Draining[m.ID()]
	limit := g.c.o.DrainTimeout
	if g.row.Deleting {
		limit = min(limit, deletionDrainTimeout)
	}
	rest := l.Since.Add(limit).Sub(g.c.now())
	e := drainProgress{late: rest <= 0, again: rest}
	if g.kube == nil {
		return e, nil // its API server is away, and says when it is back
	}
	if m.Node == nil {
		e.done = true // it never joined, or its node is gone with its pods
		return e, nil
	}
	if l.Node == "" { // it has joined meanwhile
		l.Node, l.Cordoned = m.Node.Name, !m.Node.Spec.Unschedulable
	}
	if err := drain.Cordon(ctx, g.kube, m.Node, agent); err != nil {
		return e, err
	}
	g.server.evictions.watchNode(m.Node.Name, g.row.Key())
	p, err := drain.Step(ctx, g.kube, m.Node, drain.Options{Force: force, Since: l.Since, Now: g.c.now})
	if err != nil {
		return e, err
	}
	l.Blocked = nil
	blocked := p.Blocked()
	for _, pod := range blocked[:min(len(blocked), maxNamed)] {
		l.Blocked = append(l.Blocked, pod.String())
	}
	e.done, e.left, e.to = p.Done(), p.Left, p.Serving
	// Budgets are met by pods elsewhere, and the last nodes of a cluster have no elsewhere.
	e.late = e.late || g.row.Deleting && len(p.Left) > 0 && len(blocked) == len(p.Left) && !g.hasEvictionTarget()
	e.again = earlierWait(earlierWait(rest, p.Again), attention/2) // who listens has to say so
	if p.Evicted() {
		if l.Drained.IsZero() {
			l.Drained = g.c.now()
		}
		rest = l.Drained.Add(trafficDrainTime).Sub(g.c.now())
		if e.done {
			known, err := g.balancerKnows(ctx, m)
			if err != nil {
				return e, err
			}
			e.done, e.again = known == 0, earlierWait(known, e.again)
		}
		e.done = e.done || rest <= 0
		e.again = earlierWait(rest, e.again)
	} else {
		l.Drained = time.Time{} // another came, that tolerates a cordoned node
	}
	g.state.Draining[m.ID()] = l
	if e.done {
		crashDrained.Here()
	}
	return e, nil
}

// hasEvictionTarget reports whether the cluster has a node outside of the group that takes pods.
func (g *group) hasEvictionTarget() bool {
	return slices.ContainsFunc(g.server.nodes.List(), func(o any) bool {
		n := o.(*corev1.Node)
		return isNodeReady(n) && !n.Spec.Unschedulable && !slices.ContainsFunc(g.members,
			func(m member) bool { return m.ID() == instanceOf(n) })
	})
}

// cancelDraining uncordons a member that is to stay.
func (g *group) cancelDraining(ctx context.Context, m member) error {
	if m.Node != nil && g.state.Draining[m.ID()].Cordoned {
		if err := drain.Uncordon(ctx, g.kube, m.Node, agent); err != nil {
			return err
		}
	}
	delete(g.state.Draining, m.ID())
	return nil
}

// terminate asks the Auto Scaling group to terminate a drained member, and to decrement the desired capacity or launch
// another in its place. It may be repeated: an instance is terminated once.
func (g *group) terminate(ctx context.Context, m member, decrement bool) error {
	l := g.state.Draining[m.ID()]
	if l.Terminated.IsZero() {
		l.Terminated = g.c.now()
		g.state.Draining[m.ID()] = l
		if err := g.saveState(ctx); err != nil {
			return err
		}
		crashTerminated.Here()
		g.c.log.Info("node is drained", "cluster", g.row.Cluster, "nodegroup", g.row.Name, "node", l.Node, "instance",
			m.ID(), "why", l.Why, "after", l.Terminated.Sub(l.Since).Round(time.Millisecond))
	}
	_, err := g.scaling.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: m.Instance.InstanceId, ShouldDecrementDesiredCapacity: &decrement,
	})
	if err != nil {
		return fmt.Errorf("terminate instance %s: %w", m.ID(), err)
	}
	return g.describeScalingGroup(ctx)
}

// isServing reports whether a member is in service or about to be.
func isServing(m member) bool {
	return slices.Contains([]astypes.LifecycleState{
		astypes.LifecycleStatePending, astypes.LifecycleStatePendingWait, astypes.LifecycleStatePendingProceed,
		astypes.LifecycleStateInService, astypes.LifecycleStateEnteringStandby, astypes.LifecycleStateStandby,
	}, m.Instance.LifecycleState)
}

// isStaying reports whether a member serves and was not asked to terminate: the Auto Scaling group may take a moment to
// act on that.
func (g *group) isStaying(m member) bool {
	l, _ := g.drainingOf(m)
	return isServing(m) && l.Terminated.IsZero()
}

// isAvailable reports whether a member serves, with a Ready node, and is to stay.
func (g *group) isAvailable(m member) bool {
	_, draining := g.drainingOf(m)
	return !draining && isServing(m) && isNodeReady(m.Node)
}

// forgetTerminated forgets nodes that were terminated.
func (g *group) forgetTerminated() {
	for id := range g.state.Draining {
		if !slices.ContainsFunc(g.members, func(m member) bool { return m.ID() == id }) {
			delete(g.state.Draining, id)
		}
	}
}
