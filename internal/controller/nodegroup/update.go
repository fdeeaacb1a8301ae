package nodegroup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup/drain"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/record"
)

// maxParallel is the maximum number of nodes that a version update replaces at once.
const maxParallel = 100

var (
	crashRollBegun  = crash.At("nodegroup/update-begun")
	crashRollPhase  = crash.At("nodegroup/update-phase-begun")
	crashSuspended  = crash.At("nodegroup/suspension-recorded")
	crashRollFailed = crash.At("nodegroup/update-failing")
	crashRollEnded  = crash.At("nodegroup/update-ended")
)

// reconcileUpdate carries on the version update under way, in the four phases that EKS has. How far it has come is in
// state.RollingUpdate; each phase reads the current state and does what is missing, so that it does not matter how
// often it is interrupted.
//
//   - set-up (setup.go): the Auto Scaling group has the new version of the launch template; its sizes are remembered.
//   - scale-up (scaleup.go): it grows, until there are new nodes wherever there are old ones.
//   - upgrade (upgrade.go): old nodes are drained and terminated, never more at once than may be unavailable.
//   - scale-down (scaledown.go): it shrinks to what it was.
//
// An update that fails goes back first: old nodes take pods again, and what is too much goes, as in the last phase.
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
func (g *group) reconcileUpdate(ctx context.Context) (time.Duration, error) {
	r := g.state.RollingUpdate
	switch {
	case r != nil && (r.UpdateID != g.last.ID || g.last.Status == ekstypes.UpdateStatusSuccessful):
		g.state.RollingUpdate = nil // the update was ended, and a restart came between
		return 0, g.saveState(ctx)
	case r == nil && (!g.updating() || g.last.Type != ekstypes.UpdateTypeVersionUpdate):
		return 0, nil
	case g.row.Deleting:
		return 0, g.endUpdate(ctx, ekstypes.UpdateStatusCancelled)
	case g.asg == nil || g.kube == nil:
		return 0, nil // whoever makes the one or connects to the other says when it is there
	case r == nil && g.blocked: // what nodes are to be made from is not there, or may not be used
		var why []ekstypes.ErrorDetail
		for _, i := range g.issues {
			why = append(why, ekstypes.ErrorDetail{ErrorCode: ekstypes.ErrorCode(i.Code), ErrorMessage: i.Message,
				ResourceIds: i.ResourceIds})
		}
		return 0, g.endUpdate(ctx, ekstypes.UpdateStatusFailed, why...)
	case r == nil:
		return g.prepareUpdate(ctx)
	case r.Failing != nil || !g.updating():
		return g.rollBack(ctx)
	}
	var wait time.Duration
	var err error
	for phase := record.NodegroupPhase(""); err == nil && g.state.RollingUpdate != nil &&
		g.state.RollingUpdate.Phase != phase && g.state.RollingUpdate.Failing == nil; {
		phase = g.state.RollingUpdate.Phase
		switch phase {
		case record.NodegroupSetUp:
			wait, err = g.prepareUpdate(ctx)
		case record.NodegroupScaleUp:
			wait, err = g.scaleUp(ctx)
		case record.NodegroupUpgrade:
			wait, err = g.upgrade(ctx)
		case record.NodegroupScaleDown:
			wait, err = g.scaleDown(ctx)
		}
	}
	if err == nil && g.state.RollingUpdate != nil && g.state.RollingUpdate.Failing != nil {
		return g.rollBack(ctx)
	}
	return wait, err
}

// startPhase begins the next phase.
func (g *group) startPhase(ctx context.Context, next record.NodegroupPhase) error {
	g.state.RollingUpdate.Phase, g.state.RollingUpdate.Since, g.state.RollingUpdate.Waiting = next, g.c.now(), time.Time{}
	g.c.log.Info("node group update: "+string(next), "cluster", g.row.Cluster, "nodegroup", g.row.Name, "update",
		g.last.ID)
	err := g.saveState(ctx)
	crashRollPhase.Here()
	return err
}

// endUpdate ends the update.
func (g *group) endUpdate(ctx context.Context, status ekstypes.UpdateStatus, errs ...ekstypes.ErrorDetail) error {
	if err := g.resumeBalancing(ctx); err != nil {
		return err
	}
	if err := g.finishUpdate(ctx, status, errs...); err != nil {
		return err
	}
	crashRollEnded.Here()
	g.state.RollingUpdate = nil
	return g.saveState(ctx)
}

// failUpdate records why the update will fail, once the group is as it was before.
func (g *group) failUpdate(ctx context.Context, code ekstypes.ErrorCode, message string, resources ...string) error {
	message = record.Reason(message)
	g.c.log.Warn("node group update fails", "cluster", g.row.Cluster, "nodegroup", g.row.Name, "update", g.last.ID,
		"code", code, "reason", message)
	g.state.RollingUpdate.Failing = &ekstypes.ErrorDetail{ErrorCode: code, ErrorMessage: &message, ResourceIds: resources}
	err := g.saveState(ctx)
	crashRollFailed.Here()
	return err
}

// failJoin fails the update because new nodes do not come.
func (g *group) failJoin(ctx context.Context) error {
	var missing []string
	for _, m := range g.members {
		if !m.Old && !g.isAvailable(m) {
			missing = append(missing, m.ID())
		}
	}
	return g.failUpdate(ctx, ekstypes.ErrorCodeNodeCreationFailure,
		"Couldn't proceed with upgrade process as new nodes are not joining node group "+g.row.Name, missing...)
}

// failEviction fails the update because nodes cannot be drained, with what is left on them.
func (g *group) failEviction(ctx context.Context, nodes []string, left []drain.Pod) error {
	var why []string
	for i, pod := range left {
		switch {
		case i == maxNamed:
			why = append(why, fmt.Sprintf("and %d more", len(left)-maxNamed))
		case i > maxNamed:
		case pod.Refused != "":
			why = append(why, pod.String()+": "+pod.Refused)
		case pod.Deadline.IsZero():
			why = append(why, pod.String()+": it was evicted a moment ago")
		default:
			why = append(why, pod.String()+": it is still terminating, with a grace period until "+
				pod.Deadline.UTC().Format(time.RFC3339))
		}
	}
	message := "Reached max retries while trying to evict pods from nodes in node group " + g.row.Name
	if len(why) > 0 {
		message += " (" + strings.Join(why, "; ") + ")"
	}
	return g.failUpdate(ctx, ekstypes.ErrorCodePodEvictionFailure, message, nodes...)
}

// waitForReady records that the update waits for nodes to become Ready, and returns the time that is left for that,
// never more than the join timeout.
func (g *group) waitForReady() time.Duration {
	if g.state.RollingUpdate.Waiting.IsZero() {
		g.state.RollingUpdate.Waiting = g.c.now()
	}
	return g.state.RollingUpdate.Waiting.Add(g.c.o.JoinTimeout).Sub(g.c.now())
}

// unavailable returns how many of the group's nodes may be unavailable at once: a number, or a percentage of those that
// there were, rounded down, and at least one.
func unavailable(c ekstypes.NodegroupUpdateConfig, nodes int32) int32 {
	n := aws.ToInt32(c.MaxUnavailable)
	if p := aws.ToInt32(c.MaxUnavailablePercentage); p > 0 {
		n = nodes * p / 100
	}
	return min(max(n, 1), maxParallel)
}

// setSizes changes the sizes of the Auto Scaling group, where they are not as they should be. The minimum is its
// owner's.
func (g *group) setSizes(ctx context.Context, largest, desired int32) error {
	if aws.ToInt32(g.asg.MaxSize) == largest && aws.ToInt32(g.asg.DesiredCapacity) == desired {
		return nil
	}
	_, err := g.scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: g.asg.AutoScalingGroupName, MaxSize: &largest, DesiredCapacity: &desired,
	})
	if err != nil {
		return fmt.Errorf("resize Auto Scaling group %s: %w", aws.ToString(g.asg.AutoScalingGroupName), err)
	}
	g.asg.MaxSize, g.asg.DesiredCapacity = &largest, &desired
	return nil
}

// zone returns the availability zone of a member.
func (m member) zone() string { return aws.ToString(m.Instance.AvailabilityZone) }

// azRebalance is the process of an Auto Scaling group that evens out its zones: it would take nodes away whose turn has
// not come.
const azRebalance = "AZRebalance"

func (g *group) balances() bool {
	return !slices.ContainsFunc(g.asg.SuspendedProcesses,
		func(p astypes.SuspendedProcess) bool { return aws.ToString(p.ProcessName) == azRebalance })
}

// suspendBalancing lets nobody but the update take nodes away to even out zones, until it ends.
func (g *group) suspendBalancing(ctx context.Context) error {
	if !g.balances() {
		return nil
	}
	if !g.state.RollingUpdate.Suspended {
		g.state.RollingUpdate.Suspended = true
		if err := g.saveState(ctx); err != nil {
			return err
		}
		crashSuspended.Here()
	}
	_, err := g.scaling.SuspendProcesses(ctx,
		&autoscaling.SuspendProcessesInput{AutoScalingGroupName: g.asg.AutoScalingGroupName,
			ScalingProcesses: []string{azRebalance}})
	if err != nil {
		return fmt.Errorf("suspend %s of Auto Scaling group %s: %w", azRebalance,
			aws.ToString(g.asg.AutoScalingGroupName), err)
	}
	return nil
}

// resumeBalancing takes that back, unless a user suspended it.
func (g *group) resumeBalancing(ctx context.Context) error {
	if g.asg == nil || g.state.RollingUpdate == nil || !g.state.RollingUpdate.Suspended {
		return nil
	}
	_, err := g.scaling.ResumeProcesses(ctx,
		&autoscaling.ResumeProcessesInput{AutoScalingGroupName: g.asg.AutoScalingGroupName,
			ScalingProcesses: []string{azRebalance}})
	if err != nil {
		return fmt.Errorf("resume %s of Auto Scaling group %s: %w", azRebalance,
			aws.ToString(g.asg.AutoScalingGroupName), err)
	}
	return nil
}

// targetSize returns how many nodes there are to be in the end: as many as before, unless a user has raised the minimum
// meanwhile.
func (g *group) targetSize() int32 {
	return max(*g.state.RollingUpdate.Before.DesiredSize, aws.ToInt32(g.asg.MinSize))
}

// shuffled returns members in a random order.
func shuffled(members []member) []member {
	members = slices.Clone(members)
	rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return members
}

// rollBack returns the group to the nodes that serve, and fails the update then: old nodes take pods again, and surplus
// nodes are terminated, new ones first. Nodes that were replaced already stay as they are.
func (g *group) rollBack(ctx context.Context) (time.Duration, error) {
	r := g.state.RollingUpdate
	if r.Phase != record.NodegroupScaleDown {
		for _, m := range g.members {
			if l, ok := g.drainingOf(m); ok && l.Why == whyUpdate && l.Terminated.IsZero() {
				if err := g.cancelDraining(ctx, m); err != nil {
					return 0, err
				}
			}
			if _, ok := g.drainingOf(m); ok || m.Node == nil || !slices.Contains(r.Cordoned, m.ID()) {
				continue
			}
			if err := drain.Uncordon(ctx, g.kube, m.Node, agent); err != nil {
				return 0, err
			}
		}
		if err := g.startPhase(ctx, record.NodegroupScaleDown); err != nil {
			return 0, err
		}
	}
	wait, done, err := g.terminateSurplus(ctx)
	if err != nil || !done {
		return wait, err
	}
	var why []ekstypes.ErrorDetail
	if r.Failing != nil {
		why = append(why, *r.Failing)
	}
	return 0, g.endUpdate(ctx, ekstypes.UpdateStatusFailed, why...)
}

// current reports whether the Auto Scaling group launches from the wanted version of the launch template.
func (g *group) current() bool {
	return reflect.DeepEqual(g.state.Template, g.row.Wanted(g.last)) &&
		g.templateInUse() == g.state.LaunchTemplateVersion
}
