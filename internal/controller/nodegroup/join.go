package nodegroup

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// waitForNodes waits until instances become Ready nodes, and reports those that are late. A group is created once as
// many nodes are Ready as are desired.
func (g *group) waitForNodes(ctx context.Context) (after time.Duration, err error) {
	now := g.c.now()
	joining := map[string]time.Time{}
	readyNodes := int32(0)
	var silent, ill []string // that are late: no node at all, and nodes that are not Ready
	for _, m := range g.members {
		if !isServing(m) {
			continue
		}
		if isNodeReady(m.Node) {
			readyNodes++
			continue
		}
		since, known := g.state.Joining[m.ID()]
		if !known && g.state.Created && m.Instance.LifecycleState == astypes.LifecycleStateInService {
			continue // it was Ready before: that is for node auto repair
		}
		if !known {
			since = now
		}
		joining[m.ID()] = since
		if rest := since.Add(g.c.o.JoinTimeout).Sub(now); rest > 0 {
			after = earlierWait(after, rest)
		} else if m.Node == nil {
			silent = append(silent, m.ID())
		} else {
			ill = append(ill, m.ID())
		}
	}
	if len(joining) == 0 {
		joining = nil
	}
	if !maps.Equal(joining, g.state.Joining) {
		g.state.Joining = joining
	}
	failing, why, err := g.findFailing(ctx, slices.Sorted(maps.Keys(joining)))
	if err != nil {
		return 0, err
	}
	late := func(message string, ids []string) {
		if len(ids) > 0 {
			slices.Sort(ids)
			g.issues.add(ekstypes.Issue{Code: ekstypes.NodegroupIssueCodeNodeCreationFailure, Message: &message,
				ResourceIds: ids})
		}
	}
	overdue := len(silent)+len(ill) > 0
	if len(failing) > 0 { // known before the time for joining is over
		late("Instances failed to join the kubernetes cluster: "+why, failing)
		isFailing := func(id string) bool { return slices.Contains(failing, id) }
		silent, ill = slices.DeleteFunc(silent, isFailing), slices.DeleteFunc(ill, isFailing)
	}
	late("Instances failed to join the kubernetes cluster", silent)
	late("Unhealthy nodes in the kubernetes cluster", ill)
	switch {
	case g.state.Created || g.state.Failed || g.asg == nil:
	case overdue:
		g.failCreation()
	case readyNodes >= aws.ToInt32(g.asg.DesiredCapacity) && g.server != nil && !g.blocked:
		g.state.Created = true
		g.c.log.Info("node group is active", "cluster", g.row.Cluster, "nodegroup", g.row.Name, "nodes", readyNodes,
			"after", now.Sub(g.row.CreatedAt).Round(time.Millisecond))
	}
	return after, nil
}

// findFailing returns those of the instances that cannot become nodes now, because a unit fails again and again, and
// why the first of them cannot.
func (g *group) findFailing(ctx context.Context, ids []string) (failing []string, why string, err error) {
	for _, id := range ids {
		row, err := g.c.machines.Get(ctx, record.EC2Key(g.row.Account, g.row.Region, id))
		if store.IgnoreNotFound(err) != nil {
			return nil, "", err
		}
		if row.Value.Failing == "" {
			continue
		}
		failing, why = append(failing, id), cmp.Or(why, "on "+id+", "+row.Value.Failing)
	}
	return failing, why, nil
}

// failCreation ends the creation.
func (g *group) failCreation() {
	if !g.state.Created && !g.state.Failed {
		g.state.Failed = true
		g.c.log.Warn("node group could not be created", "cluster", g.row.Cluster, "nodegroup", g.row.Name, "issues",
			len(g.issues))
	}
}
