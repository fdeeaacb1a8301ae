package nodegroup

import (
	"context"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/crash"
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
	crashRowsLeft            = crash.At("nodegroup/rows-left")
)

// bring is the story of a node group. Each step makes what is missing, and finds what was made before; what its owner has to do something about is
// shown as an issue, and the steps that build on it wait.
func (g *group) bring(ctx context.Context) (time.Duration, error) {
	if err := g.describe(ctx); err != nil {
		return 0, err
	}
	if g.row.Deleting {
		return g.remove(ctx)
	}
	if plane, err := g.c.planes.Get(ctx, g.cluster.Key()); err != nil || !plane.Value.Ready {
		return 0, missing(err) // its row changes when it is
	}
	if err := g.health(ctx); err != nil {
		return 0, err
	}
	if err := g.make(ctx); err != nil {
		return 0, err
	}
	after := g.soon
	if g.asg != nil {
		wait, err := g.keep(ctx)
		if err != nil {
			return 0, err
		}
		after = sooner(after, wait)
	}
	if err := g.configured(ctx); err != nil {
		return 0, err
	}
	g.conclude()
	return sooner(after, g.soon), nil
}

// make lets the role in and makes the instance profile, the launch template and the Auto Scaling group, once everything that they depend on is there.
func (g *group) make(ctx context.Context) error {
	blocked := g.blocked
	if err := g.blame(g.letIn(ctx)); err != nil {
		return err
	}
	g.blocked = blocked // nodes may have another way in
	if g.state.Failed && g.asg == nil {
		return nil // for good
	}
	for _, step := range []func(context.Context) error{g.publicAddresses, g.profile, g.remoteAccess, g.template, g.scalingGroup} {
		if g.blocked {
			return nil
		}
		if err := g.blame(step(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// template makes the launch template as it is wanted now.
func (g *group) template(ctx context.Context) error { return g.makeTemplate(ctx, g.row.Wanted(g.last)) }

// keep is about what goes on in an Auto Scaling group that there is.
func (g *group) keep(ctx context.Context) (after time.Duration, err error) {
	if !g.blocked {
		for _, step := range []func(context.Context) error{g.keepTemplate, g.scale, g.warmPool, g.mark} {
			if err := g.blame(step(ctx)); err != nil {
				return 0, err
			}
		}
	}
	for _, step := range []func(context.Context) (time.Duration, error){g.join, g.roll, g.depart, g.repair} {
		wait, err := step(ctx)
		if err != nil {
			return 0, err
		}
		after = sooner(after, wait)
	}
	return after, g.launches(ctx)
}

// configured ends an update of the configuration that was carried out.
func (g *group) configured(ctx context.Context) error {
	if !g.updating() || g.last.Type != ekstypes.UpdateTypeConfigUpdate {
		return nil
	}
	if len(g.issues) > 0 {
		var errs []ekstypes.ErrorDetail
		for _, i := range g.issues {
			errs = append(errs, ekstypes.ErrorDetail{ErrorCode: ekstypes.ErrorCode(i.Code), ErrorMessage: i.Message, ResourceIds: i.ResourceIds})
		}
		if g.blocked {
			return g.finish(ctx, ekstypes.UpdateStatusFailed, errs...)
		}
	}
	if g.asg == nil || g.kube == nil || g.state.ScalingChange != g.row.ScalingChange || g.state.ScalingTemplate != g.state.LaunchTemplateVersion {
		return nil
	}
	if err := g.save(ctx); err != nil {
		return err
	}
	return g.finish(ctx, ekstypes.UpdateStatusSuccessful)
}
