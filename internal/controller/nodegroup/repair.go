package nodegroup

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup/drain"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/record"
)

// The conditions of nodes that are repaired, and how long each is waited for: the kubelet's own, and those that the
// node monitoring agent gives. Pressure on disk, memory or process IDs is nothing that a new node would cure.
// https://docs.aws.amazon.com/eks/latest/userguide/node-health.html#node-auto-repair
var ailments = map[corev1.NodeConditionType]time.Duration{
	corev1.NodeReady:           30 * time.Minute,
	"ContainerRuntimeReady":    30 * time.Minute,
	"KernelReady":              30 * time.Minute,
	"NetworkingReady":          30 * time.Minute,
	"StorageReady":             30 * time.Minute,
	"AcceleratedHardwareReady": 10 * time.Minute,
}

// rebooted are the reasons for which a reboot is enough.
// https://docs.aws.amazon.com/eks/latest/userguide/node-health.html#node-health-nvidia
var rebooted = []string{
	"NvidiaXID13Error", "NvidiaXID31Error", "NvidiaXID48Error", "NvidiaXID63Error", "NvidiaXID64Error",
	"NvidiaXID94Error", "NvidiaXID95Error",
}

// nodeDeleted is the reason for which an instance in service without a node is unhealthy: the node was deleted.
const nodeDeleted = "NodeDeleted"

var crashReboot = crash.At("nodegroup/reboot-recorded")

// repairNodes reboots or replaces nodes that have been unhealthy for too long, if the group has node auto repair. While
// too many are unhealthy it begins nothing new: the cause is then hardly the nodes'. Nor does it during an update,
// which replaces them all. What it has begun it brings to an end.
func (g *group) repairNodes(ctx context.Context) (wait time.Duration, err error) {
	if g.asg == nil || g.kube == nil {
		return 0, nil
	}
	config := g.row.Repair
	enabled := config != nil && aws.ToBool(config.Enabled) && !g.row.Deleting
	if err := g.recordUnhealthy(ctx, enabled); err != nil {
		return 0, err
	}
	if enabled && g.state.RollingUpdate == nil && !isRepairHalted(config, len(g.state.Unhealthy), len(g.members)) {
		again, err := g.startRepairs(ctx, config)
		if err != nil {
			return 0, err
		}
		wait = earlierWait(wait, again)
	}
	for _, m := range g.members {
		l, draining := g.drainingOf(m)
		if !draining || l.Why != whyRepair || !isServing(m) {
			continue
		}
		if l.Terminated.IsZero() {
			e, err := g.continueDrain(ctx, m, false)
			if err != nil {
				return 0, err
			}
			if !e.done && !e.late {
				wait = earlierWait(wait, e.again)
				continue
			}
		}
		if err := g.terminate(ctx, m, false); err != nil {
			return 0, err
		}
	}
	return wait, nil
}

// recordUnhealthy writes down which nodes are unhealthy, and lets those take pods again that have recovered.
func (g *group) recordUnhealthy(ctx context.Context, enabled bool) error {
	now := g.c.now()
	was := g.state.Unhealthy
	g.state.Unhealthy = nil
	for _, m := range g.members {
		u, known := was[m.ID()]
		_, draining := g.drainingOf(m)
		condition, ill := record.NodegroupUnhealthy{}, false
		if enabled && m.Instance.LifecycleState == astypes.LifecycleStateInService {
			condition, ill = ailment(m.Node, g.row.Repair, now)
		}
		switch {
		case ill && known && u.Condition == condition.Condition && u.Reason == condition.Reason:
			condition.Since = u.Since
			if condition.Node == "" {
				condition.Node = u.Node
			}
			condition.Repaired, condition.Cordoned = u.Repaired, u.Cordoned
		case ill && known:
			condition.Repaired, condition.Cordoned = u.Repaired, u.Cordoned
		case !ill && u.Cordoned && !draining && m.Node != nil:
			if err := drain.Uncordon(ctx, g.kube, m.Node, agent); err != nil {
				return err
			}
		}
		if ill {
			if g.state.Unhealthy == nil {
				g.state.Unhealthy = map[string]record.NodegroupUnhealthy{}
			}
			g.state.Unhealthy[m.ID()] = condition
		}
	}
	return nil
}

// maxReason is the number of bytes of a condition's reason that are kept: it is a word, but nobody holds nodes to that.
const maxReason = 256

// ailment returns what a node suffers from: of several conditions the one that is acted on first.
func ailment(n *corev1.Node, config *ekstypes.NodeRepairConfig, now time.Time) (
	worst record.NodegroupUnhealthy, ill bool) {
	if n == nil {
		return record.NodegroupUnhealthy{Condition: string(corev1.NodeReady), Reason: nodeDeleted, Since: now}, true
	}
	var due time.Time
	for _, c := range n.Status.Conditions {
		if _, ours := ailments[c.Type]; !ours || c.Status == corev1.ConditionTrue ||
			c.Status == corev1.ConditionUnknown && c.Type != corev1.NodeReady {
			continue
		}
		u := record.NodegroupUnhealthy{Node: n.Name, Condition: string(c.Type),
			Reason: strings.ToValidUTF8(c.Reason[:min(len(c.Reason), maxReason)], ""), Since: c.LastTransitionTime.UTC()}
		if u.Since.IsZero() || u.Since.After(now) {
			u.Since = now
		}
		_, patience := repairAction(u, config)
		if at := u.Since.Add(patience); !ill || at.Before(due) {
			worst, due, ill = u, at, true
		}
	}
	return worst, ill
}

// repairAction returns what is done about a node, and how long after it fell ill.
func repairAction(u record.NodegroupUnhealthy, config *ekstypes.NodeRepairConfig) (
	ekstypes.RepairAction, time.Duration) {
	if config != nil {
		for _, o := range config.NodeRepairConfigOverrides {
			if aws.ToString(o.NodeMonitoringCondition) == u.Condition &&
				aws.ToString(o.NodeUnhealthyReason) == u.Reason {
				return o.RepairAction, time.Duration(aws.ToInt32(o.MinRepairWaitTimeMins)) * time.Minute
			}
		}
	}
	action := ekstypes.RepairActionReplace
	if slices.Contains(rebooted, u.Reason) {
		action = ekstypes.RepairActionReboot
	}
	return action, ailments[corev1.NodeConditionType(u.Condition)]
}

// isRepairHalted reports whether too many nodes are unhealthy: more than the configured threshold, or, in a group of
// more than five, more than a fifth.
func isRepairHalted(config *ekstypes.NodeRepairConfig, unhealthy, nodes int) bool {
	switch {
	case config.MaxUnhealthyNodeThresholdCount != nil:
		return unhealthy > int(*config.MaxUnhealthyNodeThresholdCount)
	case config.MaxUnhealthyNodeThresholdPercentage != nil:
		return unhealthy*100 > int(*config.MaxUnhealthyNodeThresholdPercentage)*nodes
	}
	return nodes > 5 && unhealthy*100 > 20*nodes
}

// parallelRepairs returns how many nodes are repaired at once: as many as are unhealthy, unless the group says how many
// or which percentage of them.
func parallelRepairs(config *ekstypes.NodeRepairConfig, unhealthy int) int {
	switch {
	case config.MaxParallelNodesRepairedCount != nil:
		return int(*config.MaxParallelNodesRepairedCount)
	case config.MaxParallelNodesRepairedPercentage != nil:
		return max(1, unhealthy*int(*config.MaxParallelNodesRepairedPercentage)/100)
	}
	return math.MaxInt
}

// startRepairs begins the repairs that are due, those first that have been ill longest. A node that a reboot did not
// cure is replaced.
func (g *group) startRepairs(ctx context.Context, config *ekstypes.NodeRepairConfig) (wait time.Duration, err error) {
	now := g.c.now()
	under := 0 // repair
	var due []member
	for _, m := range g.members {
		if l, draining := g.drainingOf(m); draining {
			if l.Why == whyRepair {
				under++
			}
			continue
		}
		u, ill := g.state.Unhealthy[m.ID()]
		if !ill {
			continue
		}
		action, patience := repairAction(u, config)
		if action == ekstypes.RepairActionNoAction {
			continue
		}
		since := u.Since
		if !u.Repaired.IsZero() {
			since = u.Repaired
			if now.Before(since.Add(patience)) {
				under++ // it boots
			}
		}
		if rest := since.Add(patience).Sub(now); rest > 0 {
			wait = earlierWait(wait, rest)
			continue
		}
		due = append(due, m)
	}
	slices.SortFunc(due, func(a, b member) int {
		x, y := g.state.Unhealthy[a.ID()], g.state.Unhealthy[b.ID()]
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(a.ID(), b.ID()))
	})
	var reboot []member
	began := false
	for _, m := range due {
		if under >= parallelRepairs(config, len(g.state.Unhealthy)) {
			break // the others are looked at when one of these is done
		}
		under++
		u := g.state.Unhealthy[m.ID()]
		action, patience := repairAction(u, config)
		g.c.log.Info("node auto repair", "cluster", g.row.Cluster, "nodegroup", g.row.Name, "instance", m.ID(), "node",
			u.Node, "condition", u.Condition, "reason", u.Reason, "action", action)
		began = true
		if action == ekstypes.RepairActionReboot && u.Repaired.IsZero() && m.Node != nil {
			u.Repaired, u.Cordoned = now, !m.Node.Spec.Unschedulable
			g.state.Unhealthy[m.ID()] = u
			reboot = append(reboot, m)
			wait = earlierWait(wait, patience)
			continue
		}
		g.startDraining(m, whyRepair)
	}
	if !began {
		return wait, nil
	}
	if err := g.saveState(ctx); err != nil {
		return 0, err
	}
	crashReboot.Here()
	for _, m := range reboot {
		if err := drain.Cordon(ctx, g.kube, m.Node, agent); err != nil {
			return 0, err
		}
		if _, err := g.ec2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{m.ID()}}); err != nil {
			return 0, fmt.Errorf("reboot instance %s: %w", m.ID(), err)
		}
	}
	return wait, nil
}
