package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/store"
)

// afterwards is the time after which a deletion that something blocks is tried again.
const afterwards = 2 * time.Second

// deleteGroup takes a group away: its nodes, drained; what EKS made for it; the role's way in; and, last, its rows.
// Each step passes over what is gone already, so that a group of which half was made, or half is gone, is deleted like
// any other.
func (g *group) deleteGroup(ctx context.Context) (time.Duration, error) {
	if g.updating() {
		if err := g.finishUpdate(ctx, ekstypes.UpdateStatusCancelled); err != nil {
			return 0, err
		}
	}
	g.state.RollingUpdate, g.state.Joining = nil, nil
	wait, gone, err := g.removeScalingGroup(ctx)
	if err != nil || !gone {
		return wait, g.recordDeleteIssue(err)
	}
	for _, step := range []func(context.Context) error{g.removeTemplate, g.removeRemoteAccess, g.removeProfile,
		g.revokeAccess} {
		if err := step(ctx); err != nil {
			if errors.Is(err, errRefused) {
				return afterwards, g.recordDeleteIssue(nil)
			}
			if errors.Is(err, errUnreachable) {
				if err := g.checkHealth(ctx); err != nil {
					return 0, err
				}
				return earlierWait(g.soon, afterwards), g.recordDeleteIssue(nil)
			}
			return issueRecheck, g.recordDeleteIssue(err)
		}
		crashRemoved.Here()
	}
	return 0, g.deleteRecords(ctx)
}

// recordDeleteIssue writes down what keeps a group from being deleted.
func (g *group) recordDeleteIssue(err error) error {
	err = g.recordIssue(err)
	g.state.DeleteFailed = len(g.issues) > 0
	g.recordHealth()
	return err
}

// removeScalingGroup takes the Auto Scaling group away, once its nodes are drained and terminated.
func (g *group) removeScalingGroup(ctx context.Context) (wait time.Duration, gone bool, err error) {
	if g.asg == nil {
		return 0, true, nil
	}
	name := g.scalingName()
	if aws.ToInt32(g.asg.MaxSize) > 0 {
		zero := aws.Int32(0)
		_, err := g.scaling.UpdateAutoScalingGroup(ctx,
			&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &name, MinSize: zero, MaxSize: zero,
				DesiredCapacity: zero})
		if err != nil && apierror.Code(err) != "ScalingActivityInProgress" {
			return 0, false, fmt.Errorf("empty Auto Scaling group %s: %w", name, err)
		}
		crashEmptied.Here()
	}
	if pool := g.asg.WarmPoolConfiguration; pool != nil && pool.Status != astypes.WarmPoolStatusPendingDelete {
		if _, err := g.scaling.DeleteWarmPool(ctx, &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: &name,
			ForceDelete: aws.Bool(true)}); err != nil {
			return 0, false, fmt.Errorf("delete the warm pool of %s: %w", name, err)
		}
	}
	if wait, err = g.drainTerminating(ctx); err != nil {
		return 0, false, err
	}
	if len(g.members) > 0 || g.asg.WarmPoolConfiguration != nil {
		return wait, false, nil // their rows change when they go
	}
	if g.asg.Status == nil { // not on its way already
		_, err = g.scaling.DeleteAutoScalingGroup(ctx,
			&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: &name})
		switch apierror.Code(err) {
		case "ResourceInUse", "ScalingActivityInProgress":
			return earlierWait(wait, afterwards), false, nil
		}
		if err != nil {
			return 0, false, fmt.Errorf("delete Auto Scaling group %s: %w", name, err)
		}
		crashScalingGroupDeleted.Here()
	}
	if err := g.describeScalingGroup(ctx); err != nil {
		return 0, false, err
	}
	return afterwards, g.asg == nil, nil
}

func (g *group) removeTemplate(ctx context.Context) error {
	found, err := g.findTemplate(ctx)
	if err != nil || found == nil {
		return err
	}
	_, err = g.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: found.LaunchTemplateId})
	if err != nil && apierror.Code(err) != "InvalidLaunchTemplateId.NotFound" {
		return &problem{ekstypes.Issue{
			Code: ekstypes.NodegroupIssueCodeEc2LaunchTemplateDeletionFailure,
			Message: ptr("We could not delete the EC2 launch template for your managed node group. " +
				apierror.Message(err)),
			ResourceIds: []string{aws.ToString(found.LaunchTemplateId)},
		}}
	}
	return nil
}

// deleteRecords removes the group from the store: its updates, and then itself with what was observed of it.
func (g *group) deleteRecords(ctx context.Context) error {
	s := g.c.o.Store
	updates, err := g.c.updates.List(ctx, g.siblings())
	if err != nil {
		return err
	}
	for _, u := range updates {
		if u.Value.NodegroupName == g.row.Name && u.Value.ClusterID == g.row.ClusterID {
			if err := s.Txn(ctx, g.c.updates.RemoveOp(u.Key)); err != nil {
				return err
			}
		}
	}
	crashRecordsLeft.Here()
	key := g.row.Key()
	row, err := g.c.groups.Get(ctx, key)
	if err != nil {
		return store.IgnoreNotFound(err)
	}
	if row.Value.ID != g.row.ID {
		return errGone
	}
	if err := s.Txn(ctx, g.c.groups.DeleteOp(row), g.c.states.RemoveOp(key)); err != nil &&
		!errors.Is(err, store.ErrNotFound) {
		return err
	}
	g.c.log.Info("node group is deleted", "cluster", g.row.Cluster, "nodegroup", g.row.Name)
	return errGone
}
