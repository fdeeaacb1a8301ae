package nodegroup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
)

// The lifecycle hooks by which EKS holds an instance until it is a Ready node, and a node that goes until it is
// drained.
const (
	launchHook      = "Launch-LC-Hook"
	terminateHook   = "Terminate-LC-Hook"
	hookHeartbeat   = 1800 // seconds
	hookDefault     = "CONTINUE"
	launching       = "autoscaling:EC2_INSTANCE_LAUNCHING"
	terminating     = "autoscaling:EC2_INSTANCE_TERMINATING"
	nodeTemplateTag = "k8s.io/cluster-autoscaler/node-template/"
)

// ensureScalingGroup makes the Auto Scaling group, or finds it.
func (g *group) ensureScalingGroup(ctx context.Context) error {
	name := g.scalingName()
	if g.asg == nil && g.state.AutoScalingGroup != "" {
		return &problem{ekstypes.Issue{
			Code: ekstypes.NodegroupIssueCodeAutoScalingGroupNotFound,
			Message: ptr(
				"We couldn't find the Auto Scaling group associated with the managed node group. You may be able to " +
					"recreate an Auto Scaling group with the same settings to recover."),
			ResourceIds: []string{name},
		}}
	}
	if g.asg == nil {
		_, err := g.scaling.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
			AutoScalingGroupName: &name, MinSize: g.row.Scaling.MinSize, MaxSize: g.row.Scaling.MaxSize,
			DesiredCapacity:   g.row.Scaling.DesiredSize,
			VPCZoneIdentifier: ptr(strings.Join(g.row.SubnetIDs, ",")), MixedInstancesPolicy: g.instancesPolicy(),
			CapacityRebalance: aws.Bool(true),
			HealthCheckType:   aws.String("EC2"), HealthCheckGracePeriod: aws.Int32(15),
			TerminationPolicies: []string{"AllocationStrategy", "OldestLaunchTemplate", "OldestInstance"},
			Tags:                g.scalingTags(),
			LifecycleHookSpecificationList: []astypes.LifecycleHookSpecification{
				{LifecycleHookName: aws.String(launchHook), LifecycleTransition: aws.String(launching),
					DefaultResult: aws.String(hookDefault), HeartbeatTimeout: aws.Int32(hookHeartbeat)},
				{LifecycleHookName: aws.String(terminateHook), LifecycleTransition: aws.String(terminating),
					DefaultResult: aws.String(hookDefault), HeartbeatTimeout: aws.Int32(hookHeartbeat)},
			},
		})
		if err != nil && apierror.Code(err) != "AlreadyExists" {
			return g.scalingRefused(ctx, err)
		}
		crashScalingGroup.Here()
		if err := g.describeScalingGroup(ctx); err != nil {
			return err
		}
	}
	if g.asg == nil {
		return &problem{ekstypes.Issue{
			Code: ekstypes.NodegroupIssueCodeAutoScalingGroupInvalidConfiguration,
			Message: ptr("There is an Auto Scaling group with the name of the managed node group's that Amazon EKS " +
				"hasn't created. Delete it."),
			ResourceIds: []string{name},
		}}
	}
	if g.state.AutoScalingGroup == "" {
		g.state.AutoScalingGroup, g.state.ScalingTemplate, g.state.ScalingChange = name, g.templateInUse(),
			g.row.ScalingChange
		g.state.Labels, g.state.Taints = maps.Clone(g.row.Labels), slices.Clone(g.row.Taints)
		return g.saveState(ctx)
	}
	return nil
}

// scalingRefused returns the reason why Auto Scaling refuses the group, in EKS's words.
func (g *group) scalingRefused(ctx context.Context, err error) error {
	text := apierror.Message(err)
	issue := ekstypes.Issue{Code: ekstypes.NodegroupIssueCodeAutoScalingGroupInvalidConfiguration, Message: &text,
		ResourceIds: []string{g.scalingName()}}
	switch {
	case apierror.Code(err) != "ValidationError":
		return fmt.Errorf("make Auto Scaling group %s: %w", g.scalingName(), err)
	case strings.Contains(text, "subnet ID") && strings.Contains(text, "does not exist"):
		issue.Code, issue.ResourceIds = ekstypes.NodegroupIssueCodeEc2SubnetNotFound, g.missingSubnets(ctx)
	case strings.Contains(text, "launch template"), strings.Contains(text, "LaunchTemplate"):
		issue.Code = ekstypes.NodegroupIssueCodeEc2LaunchTemplateInvalidConfiguration
	}
	return &problem{issue}
}

// instancesPolicy returns how instances are chosen: on demand by the order of the types, of spot instances where there
// is most room.
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types
func (g *group) instancesPolicy() *astypes.MixedInstancesPolicy {
	policy := &astypes.MixedInstancesPolicy{
		LaunchTemplate: &astypes.LaunchTemplate{LaunchTemplateSpecification: g.templateSpecification()},
		InstancesDistribution: &astypes.InstancesDistribution{
			OnDemandAllocationStrategy: aws.String("prioritized"), OnDemandBaseCapacity: aws.Int32(0),
			OnDemandPercentageAboveBaseCapacity: aws.Int32(100),
			SpotAllocationStrategy:              aws.String("price-capacity-optimized"),
		},
	}
	if g.isSpotCapacity() {
		policy.InstancesDistribution.OnDemandPercentageAboveBaseCapacity = aws.Int32(0)
	}
	for _, t := range g.row.InstanceTypes {
		policy.LaunchTemplate.Overrides = append(policy.LaunchTemplate.Overrides,
			astypes.LaunchTemplateOverrides{InstanceType: aws.String(t)})
	}
	return policy
}

func (g *group) templateSpecification() *astypes.LaunchTemplateSpecification {
	return &astypes.LaunchTemplateSpecification{LaunchTemplateId: ptr(g.state.LaunchTemplateID),
		Version: ptr(g.state.LaunchTemplateVersion)}
}

// launchFromTemplate makes the Auto Scaling group launch from the version that was made last.
func (g *group) launchFromTemplate(ctx context.Context) error {
	if g.asg == nil || g.state.ScalingTemplate == g.state.LaunchTemplateVersion &&
		g.templateInUse() == g.state.LaunchTemplateVersion {
		return nil
	}
	_, err := g.scaling.UpdateAutoScalingGroup(ctx,
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: ptr(g.scalingName()),
			MixedInstancesPolicy: g.instancesPolicy()})
	if err != nil {
		return g.scalingRefused(ctx, err)
	}
	crashTemplateUsed.Here()
	g.state.ScalingTemplate = g.state.LaunchTemplateVersion
	if err := g.saveState(ctx); err != nil {
		return err
	}
	return g.describeScalingGroup(ctx)
}

// templateInUse returns the version that the Auto Scaling group launches from, "" when it is of another template.
func (g *group) templateInUse() string {
	spec := g.asg.LaunchTemplate
	if p := g.asg.MixedInstancesPolicy; p != nil && p.LaunchTemplate != nil {
		spec = p.LaunchTemplate.LaunchTemplateSpecification
	}
	if spec == nil || aws.ToString(spec.LaunchTemplateId) != g.state.LaunchTemplateID {
		return ""
	}
	return aws.ToString(spec.Version)
}

// reconcileTemplateInUse makes the Auto Scaling group launch from the newest version of the launch template. It returns
// a problem when a user made the group launch from another version: only the user can take that back.
func (g *group) reconcileTemplateInUse(ctx context.Context) error {
	if used := g.templateInUse(); used != g.state.LaunchTemplateVersion && used != g.state.ScalingTemplate {
		return &problem{ekstypes.Issue{
			Code: ekstypes.NodegroupIssueCodeEc2LaunchTemplateVersionMismatch,
			Message: ptr(
				"The EC2 launch template version for your managed node group does not match the version that Amazon " +
					"EKS created. You may be able to revert to the version that Amazon EKS created to recover."),
			ResourceIds: []string{g.state.LaunchTemplateID},
		}}
	}
	return g.launchFromTemplate(ctx)
}

// applyScaling carries out, once, what a request said of the sizes. In between they are whoever's who changes them.
func (g *group) applyScaling(ctx context.Context) error {
	if g.state.ScalingChange != g.row.ScalingChange {
		_, err := g.scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
			AutoScalingGroupName: ptr(g.scalingName()), MinSize: g.row.Scaling.MinSize, MaxSize: g.row.Scaling.MaxSize,
			DesiredCapacity: g.row.Scaling.DesiredSize,
		})
		if err != nil {
			return g.scalingRefused(ctx, err)
		}
		crashResized.Here()
		g.state.ScalingChange = g.row.ScalingChange
		if err := g.describeScalingGroup(ctx); err != nil {
			return err
		}
	}
	if g.state.RollingUpdate == nil { // which has a size of its own in mind
		g.state.Scaling = ekstypes.NodegroupScalingConfig{MinSize: g.asg.MinSize, MaxSize: g.asg.MaxSize,
			DesiredSize: g.asg.DesiredCapacity}
	}
	return nil
}

// scalingTags returns the tags of the Auto Scaling group: those by which it is known, those by which Cluster Autoscaler
// finds it, and those that tell it what a node would be like while there is none.
func (g *group) scalingTags() []astypes.Tag {
	all := [][2]string{
		{clusterTag, g.row.Cluster}, {groupTag, g.row.Name}, {ownedTagPrefix + g.row.Cluster, "owned"},
		{autoscalerTag, "true"}, {autoscalerOwned + g.row.Cluster, "owned"},
	}
	var tags []astypes.Tag
	add := func(key, value string, propagate bool) {
		if len(key) <= 128 && len(tags) < 50 {
			tags = append(tags, astypes.Tag{
				ResourceId: ptr(g.scalingName()), ResourceType: aws.String("auto-scaling-group"), Key: &key,
				Value: &value, PropagateAtLaunch: &propagate,
			})
		}
	}
	for _, t := range all {
		add(t[0], t[1], true)
	}
	for _, key := range sortedKeys(g.row.Labels) {
		add(nodeTemplateTag+"label/"+key, g.row.Labels[key], false)
	}
	for _, t := range g.row.Taints {
		add(nodeTemplateTag+"taint/"+*t.Key, stringValue(t.Value)+":"+taintEffect(t.Effect), false)
	}
	return tags
}

// reconcileTags gives the Auto Scaling group the tags that labels and taints want now, and takes away those that they
// wanted before.
func (g *group) reconcileTags(ctx context.Context) error {
	want := g.scalingTags()
	has := func(tags []astypes.TagDescription, t astypes.Tag) bool {
		return slices.ContainsFunc(tags, func(d astypes.TagDescription) bool {
			return *d.Key == *t.Key &&
				aws.ToString(d.Value) == *t.Value
		})
	}
	var give, take []astypes.Tag
	for _, t := range want {
		if strings.HasPrefix(*t.Key, nodeTemplateTag) && !has(g.asg.Tags, t) {
			give = append(give, t)
		}
	}
	before := *g
	before.row.Labels, before.row.Taints = g.state.Labels, g.state.Taints
	for _, t := range before.scalingTags() {
		if strings.HasPrefix(*t.Key, nodeTemplateTag) && has(g.asg.Tags, t) && !slices.ContainsFunc(want,
			func(w astypes.Tag) bool { return *w.Key == *t.Key }) {
			take = append(take, t)
		}
	}
	if len(give) > 0 {
		give = append(give, want[0]) // EKS may touch what bears its tags
		if _, err := g.scaling.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: give}); err != nil {
			return fmt.Errorf("tag Auto Scaling group %s: %w", g.scalingName(), err)
		}
	}
	if len(take) > 0 {
		if _, err := g.scaling.DeleteTags(ctx, &autoscaling.DeleteTagsInput{Tags: take}); err != nil {
			return fmt.Errorf("take tags from Auto Scaling group %s: %w", g.scalingName(), err)
		}
	}
	return nil
}
