package autoscaling

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// groupMembers are the members of groups that have other names than properties.
var groupMembers = resource.Members{"Cooldown": "DefaultCooldown", "MetricsCollection": resource.Left,
	"Tags": resource.Left, "VPCZoneIdentifier": resource.Left}

// groupDefaults are what a group has without a property: an update that removes the property sets it.
var groupDefaults = map[string]any{
	"CapacityRebalance": false, "Cooldown": "300", "DefaultInstanceWarmup": json.Number("-1"),
	"HealthCheckGracePeriod": json.Number("0"), "HealthCheckType": "EC2", "MaxInstanceLifetime": json.Number("0"),
	"NewInstancesProtectedFromScaleIn": false, "TerminationPolicies": []any{"Default"},
	"DeletionProtection":           "none",
	"AvailabilityZoneDistribution": map[string]any{"CapacityDistributionStrategy": "balanced-best-effort"},
	"InstanceMaintenancePolicy":    map[string]any{"MinHealthyPercentage": "-1", "MaxHealthyPercentage": "-1"},
}

// groupSettings are the properties that UpdateAutoScalingGroup sets.
var groupSettings = []string{"AvailabilityZoneDistribution", "AvailabilityZoneIds", "AvailabilityZones",
	"CapacityRebalance", "Context", "Cooldown", "DefaultInstanceWarmup", "DeletionProtection", "DesiredCapacity",
	"DesiredCapacityType", "HealthCheckGracePeriod", "HealthCheckType", "InstanceMaintenancePolicy", "LaunchTemplate",
	"MaxInstanceLifetime", "MaxSize", "MinSize", "MixedInstancesPolicy", "NewInstancesProtectedFromScaleIn",
	"PlacementGroup", "ServiceLinkedRoleARN", "TerminationPolicies", "VPCZoneIdentifier"}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-autoscaling-autoscalinggroup.html
var autoScalingGroup = resource.Type{
	Tagged:    true,
	NameLimit: 255,
	Names:     []string{"AutoScalingGroupName"},
	Refused: []string{"AvailabilityZoneImpairmentPolicy", "CapacityReservationSpecification", "InstanceId",
		"InstanceLifecyclePolicy", "LaunchConfigurationName", "NotificationConfiguration", "NotificationConfigurations",
		"SkipZonalShiftValidation"},
	Handler: resource.Handle(resource.Table[*autoscaling.Client, types.AutoScalingGroup]{
		Client: client,
		Create: createGroup,
		Find: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
			g, err := describeGroup(ctx, c, nameOr(r, "AutoScalingGroupName"))
			if err != nil {
				return "", err
			}
			tags := tagsOf(g)
			if tags[resource.TagStackID] != r.StackID || tags[resource.TagLogicalID] != r.LogicalID {
				return "", resource.ErrNotFound
			}
			return aws.ToString(g.AutoScalingGroupName), nil
		},
		Describe: func(ctx context.Context, c *autoscaling.Client, r *resource.Request) (*types.AutoScalingGroup, error) {
			return describeGroup(ctx, c, r.PhysicalID)
		},
		State: func(g *types.AutoScalingGroup) (resource.State, error) {
			if g.Status != nil { // set while a group is being deleted only
				return resource.Deleting, nil
			}
			return resource.Ready, nil
		},
		Configure: []resource.Step[*autoscaling.Client]{
			{Properties: groupSettings, Update: true, Run: updateGroup},
			{Properties: trafficProperties, Update: true, Run: updateTraffic},
			{Properties: []string{"MetricsCollection"}, Run: collectMetrics},
			{Properties: []string{"LifecycleHookSpecificationList"}, Update: true, Run: putHooks},
			{Properties: []string{"Tags"}, Tags: true, Run: retagGroup},
		},
		Delete: deleteGroup,
		Slow:   true,
		Attributes: func(_ *resource.Request, g *types.AutoScalingGroup) map[string]any {
			return map[string]any{"AutoScalingGroupARN": aws.ToString(g.AutoScalingGroupARN)}
		},
		Properties: describeGroupProperties,
	}),
}

func createGroup(ctx context.Context, c *autoscaling.Client, r *resource.Request) (string, error) {
	name := nameOr(r, "AutoScalingGroupName")
	_, err := resource.Call(ctx, c, r, (*autoscaling.Client).CreateAutoScalingGroup, groupMembers,
		func(r *resource.Request, in *autoscaling.CreateAutoScalingGroupInput) error {
			in.AutoScalingGroupName, in.Tags = &name, groupTags(r, name)
			if subnets := r.Texts("VPCZoneIdentifier"); len(subnets) > 0 {
				in.VPCZoneIdentifier = new(strings.Join(subnets, ","))
			}
			return nil
		})
	if err != nil {
		return "", err
	}
	return name, nil
}

// updateGroup sets what an update changes. The desired capacity is left to whoever scales the group, unless the
// template changes it.
func updateGroup(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
	called := *r
	called.Properties = map[string]any{}
	for _, name := range groupSettings {
		if !r.Changed(name) && name != "MinSize" && name != "MaxSize" {
			continue
		}
		value, ok := r.Properties[name]
		if !ok {
			if value, ok = groupDefaults[name]; !ok {
				continue
			}
		}
		called.Properties[name] = value
	}
	_, err := resource.Call(ctx, c, &called, (*autoscaling.Client).UpdateAutoScalingGroup, groupMembers,
		func(called *resource.Request, in *autoscaling.UpdateAutoScalingGroupInput) error {
			in.AutoScalingGroupName = &r.PhysicalID
			if subnets := called.Texts("VPCZoneIdentifier"); len(subnets) > 0 {
				in.VPCZoneIdentifier = new(strings.Join(subnets, ","))
			}
			if r.Changed("PlacementGroup") && in.PlacementGroup == nil {
				in.PlacementGroup = new("")
			}
			// What a policy leaves out stays as it is: overrides that the template has no more are removed by an empty list.
			if p := in.MixedInstancesPolicy; p != nil && p.LaunchTemplate != nil && p.LaunchTemplate.Overrides == nil {
				p.LaunchTemplate.Overrides = []types.LaunchTemplateOverrides{}
			}
			return nil
		})
	return err
}

// collectMetrics enables the metrics of the property, and disables all others.
func collectMetrics(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
	if r.Previous["MetricsCollection"] != nil {
		if _, err := c.DisableMetricsCollection(ctx,
			&autoscaling.DisableMetricsCollectionInput{AutoScalingGroupName: &r.PhysicalID}); err != nil {
			return err
		}
	}
	for _, collection := range r.Objects("MetricsCollection") {
		if _, err := c.EnableMetricsCollection(ctx, &autoscaling.EnableMetricsCollectionInput{
			AutoScalingGroupName: &r.PhysicalID, Granularity: new(resource.Text(collection["Granularity"])),
			Metrics: resource.Texts(collection["Metrics"])}); err != nil {
			return err
		}
	}
	return nil
}

// putHooks makes the lifecycle hooks in the list of a group those of the property.
func putHooks(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
	const list = "LifecycleHookSpecificationList"
	wanted := map[string]bool{}
	for _, hook := range r.Objects(list) {
		called := *r
		called.Properties = hook
		if _, err := resource.Call(ctx, c, &called, (*autoscaling.Client).PutLifecycleHook, nil,
			func(_ *resource.Request, in *autoscaling.PutLifecycleHookInput) error {
				in.AutoScalingGroupName = &r.PhysicalID
				return nil
			}); err != nil {
			return err
		}
		wanted[resource.Text(hook["LifecycleHookName"])] = true
	}
	live, err := c.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{
		AutoScalingGroupName: &r.PhysicalID})
	if err != nil {
		return err
	}
	for _, hook := range resource.Objects(r.Previous[list]) {
		name := resource.Text(hook["LifecycleHookName"])
		if wanted[name] || !slices.ContainsFunc(live.LifecycleHooks,
			func(h types.LifecycleHook) bool { return aws.ToString(h.LifecycleHookName) == name }) {
			continue
		}
		if _, err := c.DeleteLifecycleHook(ctx, &autoscaling.DeleteLifecycleHookInput{
			AutoScalingGroupName: &r.PhysicalID, LifecycleHookName: &name}); err != nil {
			return err
		}
	}
	return nil
}

const resourceType = "auto-scaling-group"

// groupTags returns the tags of a group: those of the stack, which instances get as well, below its own.
func groupTags(r *resource.Request, name string) []types.Tag {
	return tagList(name, wantedTags(r.Tags, r.Properties))
}

// groupTag is the value of a tag, and whether instances get it.
type groupTag struct {
	value     string
	propagate bool
}

func wantedTags(stack map[string]string, properties map[string]any) map[string]groupTag {
	tags := make(map[string]groupTag, len(stack))
	for key, value := range stack {
		tags[key] = groupTag{value, true}
	}
	for _, tag := range resource.Objects(properties["Tags"]) {
		key := resource.Text(tag["Key"])
		if _, system := stack[key]; system && strings.HasPrefix(key, "aws:") {
			continue
		}
		tags[key] = groupTag{resource.Text(tag["Value"]), resource.Text(tag["PropagateAtLaunch"]) == "true"}
	}
	return tags
}

func tagList(group string, tags map[string]groupTag) []types.Tag {
	var list []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		tag := tags[key]
		list = append(list, types.Tag{Key: &key, Value: &tag.value, PropagateAtLaunch: &tag.propagate,
			ResourceId: &group, ResourceType: new(resourceType)})
	}
	return list
}

// retagGroup changes the tags of a group as an update does.
func retagGroup(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
	wanted, had := wantedTags(r.Tags, r.Properties), wantedTags(r.PreviousTags, r.Previous)
	removed := maps.Clone(had)
	maps.DeleteFunc(removed, func(key string, _ groupTag) bool { _, stays := wanted[key]; return stays })
	if len(removed) > 0 {
		if _, err := c.DeleteTags(ctx, &autoscaling.DeleteTagsInput{Tags: tagList(r.PhysicalID, removed)}); err != nil {
			return err
		}
	}
	maps.DeleteFunc(wanted, func(key string, tag groupTag) bool { old, ok := had[key]; return ok && old == tag })
	if len(wanted) == 0 {
		return nil
	}
	_, err := c.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: tagList(r.PhysicalID, wanted)})
	return err
}

func tagsOf(g *types.AutoScalingGroup) map[string]string {
	tags := map[string]string{}
	for _, tag := range g.Tags {
		tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	return tags
}

// deleteGroup deletes a group with its instances. One that must not be deleted by force is emptied first.
func deleteGroup(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
	g, err := describeGroup(ctx, c, r.PhysicalID)
	if err != nil {
		return err
	}
	force := g.DeletionProtection != types.DeletionProtectionPreventForceDeletion
	if !force && aws.ToInt32(g.DesiredCapacity) > 0 {
		if _, err := c.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
			AutoScalingGroupName: &r.PhysicalID, MinSize: new(int32(0)), MaxSize: new(int32(0)),
			DesiredCapacity: new(int32(0))}); err != nil {
			return err
		}
	}
	_, err = c.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: &r.PhysicalID,
		ForceDelete: &force})
	return err
}

func describeGroupProperties(ctx context.Context, c *autoscaling.Client, r *resource.Request,
	g *types.AutoScalingGroup) (map[string]any, error) {
	properties := resource.Encode(g, groupMembers)
	for _, name := range []string{"AutoScalingGroupARN", "CreatedTime", "EnabledMetrics", "Instances", "Status",
		"SuspendedProcesses", "Tags"} {
		delete(properties, name)
	}
	if subnets := aws.ToString(g.VPCZoneIdentifier); subnets != "" {
		list := []any{}
		for subnet := range strings.SplitSeq(subnets, ",") {
			list = append(list, subnet)
		}
		properties["VPCZoneIdentifier"] = list
	}
	putTraffic(r, g, properties)
	var tags []any
	for _, tag := range g.Tags {
		if !strings.HasPrefix(aws.ToString(tag.Key), "aws:") {
			tags = append(tags, map[string]any{"Key": aws.ToString(tag.Key), "Value": aws.ToString(tag.Value),
				"PropagateAtLaunch": aws.ToBool(tag.PropagateAtLaunch)})
		}
	}
	if len(tags) > 0 {
		properties["Tags"] = tags
	}
	if len(g.EnabledMetrics) > 0 {
		metrics := []any{}
		for _, metric := range g.EnabledMetrics {
			metrics = append(metrics, aws.ToString(metric.Metric))
		}
		properties["MetricsCollection"] = []any{map[string]any{
			"Granularity": aws.ToString(g.EnabledMetrics[0].Granularity), "Metrics": metrics}}
	}
	hooks, err := c.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{
		AutoScalingGroupName: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	var list []any
	for _, hook := range hooks.LifecycleHooks {
		encoded := resource.Encode(hook, nil)
		delete(encoded, "AutoScalingGroupName")
		delete(encoded, "GlobalTimeout")
		list = append(list, encoded)
	}
	if len(list) > 0 {
		properties["LifecycleHookSpecificationList"] = list
	}
	return properties, nil
}
