package nodegroup

import (
	"context"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/store"
)

// The instructions at which a test kills the daemon, in their order.
var (
	crashEntry               = crash.At("nodegroup/access-entry-created")
	crashMapped              = crash.At("nodegroup/role-mapped")
	crashProfile             = crash.At("nodegroup/instance-profile-created")
	crashRemoteAccess        = crash.At("nodegroup/remote-access-created")
	crashTemplate            = crash.At("nodegroup/launch-template-created")
	crashVersion             = crash.At("nodegroup/launch-template-version-created")
	crashScalingGroup        = crash.At("nodegroup/scaling-group-created")
	crashTemplateUsed        = crash.At("nodegroup/launch-template-used")
	crashResized             = crash.At("nodegroup/resized")
	crashMarked              = crash.At("nodegroup/nodes-marked")
	crashEmptied             = crash.At("nodegroup/scaling-group-emptied")
	crashScalingGroupDeleted = crash.At("nodegroup/scaling-group-deleted")
	crashRemoved             = crash.At("nodegroup/something-removed")
	crashRecordsLeft         = crash.At("nodegroup/rows-left")
)

// reconcile reconciles a node group. Each step creates what is missing, and finds what an earlier pass created. What
// the owner of the group has to fix is reported as a health issue, and the steps that depend on it wait.
func (g *group) reconcile(ctx context.Context) (time.Duration, error) {
	if err := g.describeScalingGroup(ctx); err != nil {
		return 0, err
	}
	if g.row.Deleting {
		return g.deleteGroup(ctx)
	}
	if plane, err := g.c.planes.Get(ctx, g.cluster.Key()); err != nil || !plane.Value.Ready {
		return 0, store.IgnoreNotFound(err) // its row changes when it is
	}
	if err := g.checkHealth(ctx); err != nil {
		return 0, err
	}
	if err := g.ensureResources(ctx); err != nil {
		return 0, err
	}
	after := g.soon
	if g.asg != nil {
		wait, err := g.reconcileInstances(ctx)
		if err != nil {
			return 0, err
		}
		after = earlierWait(after, wait)
	}
	if err := g.finishConfigUpdate(ctx); err != nil {
		return 0, err
	}
	g.recordHealth()
	return earlierWait(after, g.soon), nil
}

// ensureResources grants access to the node role, and creates the instance profile, the launch template and the Auto
// Scaling group once their dependencies exist.
func (g *group) ensureResources(ctx context.Context) error {
	blocked := g.blocked
	if err := g.recordIssue(g.grantAccess(ctx)); err != nil {
		return err
	}
	g.blocked = blocked // nodes may have another way in
	if g.state.Failed && g.asg == nil {
		return nil // for good
	}
	for _, step := range []func(context.Context) error{g.checkPublicAddresses, g.ensureInstanceProfile,
		g.ensureRemoteAccess, g.ensureTemplate, g.ensureScalingGroup} {
		if g.blocked {
			return nil
		}
		if err := g.recordIssue(step(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// ensureTemplate creates the desired version of the launch template.
func (g *group) ensureTemplate(ctx context.Context) error {
	return g.ensureTemplateVersion(ctx, g.row.Wanted(g.last))
}

// reconcileInstances reconciles an existing Auto Scaling group and its nodes.
func (g *group) reconcileInstances(ctx context.Context) (after time.Duration, err error) {
	if !g.blocked {
		for _, step := range []func(context.Context) error{
			g.reconcileTemplateInUse, g.applyScaling, g.reconcileWarmPool, g.reconcileLabels,
		} {
			if err := g.recordIssue(step(ctx)); err != nil {
				return 0, err
			}
		}
	}
	for _, step := range []func(context.Context) (time.Duration, error){
		g.waitForNodes, g.reconcileUpdate, g.drainTerminating, g.repairNodes,
	} {
		wait, err := step(ctx)
		if err != nil {
			return 0, err
		}
		after = earlierWait(after, wait)
	}
	return after, g.checkLaunches(ctx)
}

// finishConfigUpdate ends a configuration update that has been applied.
func (g *group) finishConfigUpdate(ctx context.Context) error {
	if !g.updating() || g.last.Type != ekstypes.UpdateTypeConfigUpdate {
		return nil
	}
	if len(g.issues) > 0 {
		var errs []ekstypes.ErrorDetail
		for _, i := range g.issues {
			errs = append(errs, ekstypes.ErrorDetail{ErrorCode: ekstypes.ErrorCode(i.Code), ErrorMessage: i.Message,
				ResourceIds: i.ResourceIds})
		}
		if g.blocked {
			return g.finishUpdate(ctx, ekstypes.UpdateStatusFailed, errs...)
		}
	}
	if g.asg == nil || g.kube == nil || g.state.ScalingChange != g.row.ScalingChange ||
		g.state.ScalingTemplate != g.state.LaunchTemplateVersion {
		return nil
	}
	if err := g.saveState(ctx); err != nil {
		return err
	}
	return g.finishUpdate(ctx, ekstypes.UpdateStatusSuccessful)
}
