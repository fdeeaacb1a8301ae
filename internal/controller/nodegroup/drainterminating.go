package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup/drain"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// reserve is the part of the two minutes' notice of a spot instance that is reserved for draining: the drain begins
// then, whether a replacement is Ready or not.
const reserve = time.Minute

var crashDeparted = crash.At("nodegroup/departure-drained")

// drainTerminating lets instances into service once their nodes are Ready, and drains those that leave for another
// reason than an update: because the Auto Scaling group scales in, balances its zones or is asked to by a user, because
// EC2 takes a spot instance back, or because the node group is deleted. All of them are cordoned before the first is
// drained. PodDisruptionBudgets are honored for the drain timeout and not longer.
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
func (g *group) drainTerminating(ctx context.Context) (wait time.Duration, err error) {
	if g.asg == nil {
		g.state.Draining = nil
		return 0, nil
	}
	g.forgetTerminated()
	if err := g.cancelReturned(ctx); err != nil {
		return 0, err
	}
	again, err := g.completeLaunches(ctx)
	if err != nil {
		return 0, err
	}
	wait = earlierWait(wait, again)

	var draining []member
	began := false
	for _, m := range g.members {
		l, known := g.drainingOf(m)
		why := ""
		switch m.Instance.LifecycleState {
		case astypes.LifecycleStateTerminatingWait:
			if why = whyScaleIn; g.row.Deleting {
				why = whyDelete
			}
		case astypes.LifecycleStateInService:
			if known && l.Why == whyUpdate && g.state.RollingUpdate == nil { // the update is over
				if err := g.cancelDraining(ctx, m); err != nil {
					return 0, err
				}
				continue
			}
			if known && l.Why != whySpot {
				continue // an update or a repair drains it
			}
			interrupted, err := g.interrupted(ctx, m)
			if err != nil {
				return 0, err
			}
			if interrupted.IsZero() {
				continue
			}
			why = whySpot
		default:
			continue
		}
		if !known {
			g.startDraining(m, why)
			began = true
		}
		draining = append(draining, m)
	}
	if began {
		if err := g.saveState(ctx); err != nil {
			return 0, err
		}
		crashDraining.Here()
	}
	for _, m := range draining {
		if g.kube != nil && m.Node != nil {
			if err := drain.Cordon(ctx, g.kube, m.Node, agent); err != nil {
				return 0, err
			}
		}
	}
	var errs []error
	for _, m := range draining {
		again, err := g.drainMember(ctx, m)
		wait, errs = earlierWait(wait, again), append(errs, err)
	}
	return wait, errors.Join(errs...)
}

// drainMember drains one member that leaves, and lets the Auto Scaling group have it then.
func (g *group) drainMember(ctx context.Context, m member) (time.Duration, error) {
	if m.Instance.LifecycleState == astypes.LifecycleStateInService {
		at, err := g.interrupted(ctx, m)
		if err != nil {
			return 0, err
		}
		if rest := at.Add(-reserve).Sub(g.c.now()); rest > 0 && !g.replaced() {
			return rest, nil
		}
		e, err := g.continueDrain(ctx, m, false)
		if e.done || e.late {
			e.again = 0 // EC2 takes it, and the group sees that it is gone
		}
		return e.again, err
	}
	if l := g.state.Draining[m.ID()]; l.Terminated.IsZero() {
		e, err := g.continueDrain(ctx, m, false)
		if err != nil || !e.done && !e.late {
			return e.again, err
		}
		if !e.done {
			g.c.log.Warn("a node goes with pods that do not end", "cluster", g.row.Cluster, "nodegroup", g.row.Name,
				"node", l.Node, "pods", e.left[:min(len(e.left), maxNamed)], "endpoints",
				e.to[:min(len(e.to), maxNamed)], "after", g.c.now().Sub(l.Since).Round(time.Second))
		}
		crashDeparted.Here()
	}
	return 0, g.completeHook(ctx, m.ID(), terminateHook)
}

// interrupted returns when EC2 takes a spot instance that it gave notice; zero when it gave none.
func (g *group) interrupted(ctx context.Context, m member) (time.Time, error) {
	row, err := g.c.instances.Get(ctx, record.EC2Key(g.row.Account, g.row.Region, m.ID()))
	if store.IgnoreNotFound(err) != nil {
		return time.Time{}, err
	}
	return row.Value.SpotInterruption, nil
}

// replaced reports whether there are as many Ready nodes as are desired without those that leave.
func (g *group) replaced() bool {
	var n int32
	for _, m := range g.members {
		if g.isAvailable(m) {
			n++
		}
	}
	return n >= aws.ToInt32(g.asg.DesiredCapacity)
}

// completeLaunches lets instances into service whose nodes are Ready, and those that have had the time to be: the Auto
// Scaling group, which takes old instances away only when new ones are in service, waits for nodes and not just for
// machines.
func (g *group) completeLaunches(ctx context.Context) (wait time.Duration, err error) {
	now := g.c.now()
	for _, m := range g.members {
		if m.Instance.LifecycleState != astypes.LifecycleStatePendingWait {
			continue
		}
		if !isNodeReady(m.Node) {
			row, err := g.c.members.Get(ctx, record.EC2Key(g.row.Account, g.row.Region, m.ID()))
			if store.IgnoreNotFound(err) != nil {
				return 0, err
			}
			if rest := waiting(row.Value).Add(g.c.o.JoinTimeout).Sub(now); err == nil && rest > 0 && !g.row.Deleting {
				wait = earlierWait(wait, rest)
				continue
			}
		} else if _, draining := g.drainingOf(m); g.kube != nil && !draining && g.state.RollingUpdate == nil &&
			drain.Cordoned(m.Node) {
			// It left for the warm pool, and is back.
			if err := drain.Uncordon(ctx, g.kube, m.Node, agent); err != nil {
				return 0, err
			}
		}
		if err := g.completeHook(ctx, m.ID(), launchHook); err != nil {
			return 0, err
		}
	}
	if g.asg.WarmPoolConfiguration == nil {
		return wait, nil
	}
	again, err := g.completeWarmPool(ctx)
	return earlierWait(wait, again), err
}

// cancelReturned takes back that nodes leave that left for the warm pool and were back before anybody saw them there.
func (g *group) cancelReturned(ctx context.Context) error {
	for _, m := range g.members {
		if l, draining := g.drainingOf(m); draining && l.Why == whyScaleIn && isServing(m) {
			if err := g.cancelDraining(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// waiting returns since when an instance waits for the launch hook: one that comes from the warm pool was launched long
// before.
func waiting(i record.AutoScalingInstance) time.Time {
	for _, a := range i.Actions {
		if a.Hook == launchHook {
			return a.StartedAt
		}
	}
	return i.LaunchedAt
}

// bootPause is the interval between two checks of an instance that boots for the warm pool.
const bootPause = time.Second

// completeWarmPool lets instances into the warm pool once they have booted and run their user data, and out of it when
// it shrinks: they have no pods. Their kubelets do not start before they leave the pool for the group
// (internal/guest/warmpool).
// https://docs.aws.amazon.com/eks/latest/userguide/warm-pools-managed-node-groups.html
func (g *group) completeWarmPool(ctx context.Context) (wait time.Duration, err error) {
	out, err := g.scaling.DescribeWarmPool(ctx,
		&autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: g.asg.AutoScalingGroupName})
	if err != nil {
		return 0, fmt.Errorf("describe the warm pool of Auto Scaling group %s: %w",
			aws.ToString(g.asg.AutoScalingGroupName), err)
	}
	for _, i := range out.Instances {
		id, hook := aws.ToString(i.InstanceId), terminateHook
		switch i.LifecycleState {
		case astypes.LifecycleStateWarmedPendingWait:
			hook = launchHook
			booted, err := g.hasBooted(ctx, id)
			if err != nil {
				return 0, err
			}
			if !booted {
				wait = earlierWait(wait, bootPause)
				continue
			}
		case astypes.LifecycleStateWarmedTerminatingWait:
		default:
			continue
		}
		if err := g.completeHook(ctx, id, hook); err != nil {
			return 0, err
		}
	}
	return wait, nil
}

// hasBooted reports whether an instance has booted and run its user data, or has had as much time as a node for it.
func (g *group) hasBooted(ctx context.Context, id string) (bool, error) {
	key := record.EC2Key(g.row.Account, g.row.Region, id)
	row, err := g.c.members.Get(ctx, key)
	if store.IgnoreNotFound(err) != nil {
		return false, err
	}
	if err == nil && g.c.now().After(waiting(row.Value).Add(g.c.o.JoinTimeout)) {
		return true, nil
	}
	machine, err := g.c.machines.Get(ctx, key)
	return err == nil && machine.Value.InstanceStatus == ec2types.SummaryStatusOk &&
		machine.Value.UserData != "running", store.IgnoreNotFound(err)
}

// completeHook lets an instance that waits for a hook go on. One that does not wait any more is no error.
func (g *group) completeHook(ctx context.Context, instance, hook string) error {
	_, err := g.scaling.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: g.asg.AutoScalingGroupName, LifecycleHookName: &hook, InstanceId: &instance,
		LifecycleActionResult: aws.String("CONTINUE"),
	})
	var api smithy.APIError
	if err == nil || errors.As(err, &api) && api.ErrorCode() == "ValidationError" { // another's hook holds it
		return nil
	}
	return fmt.Errorf("complete %s of instance %s: %w", hook, instance, err)
}
