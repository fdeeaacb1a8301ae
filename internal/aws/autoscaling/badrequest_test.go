package autoscaling_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// Requests that AWS refuses, with its code and message; afterwards nothing has changed.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	s, n := aws.String, aws.Int32
	w.create("nodes", 1, 2, 1)
	id := w.serves("nodes", 1)[0]
	w.hook("hook", "LAUNCHING", "ABANDON", 60)
	awstest.Must[*autoscaling.PutScalingPolicyOutput](t)(w.PutScalingPolicy(ctx,
		&autoscaling.PutScalingPolicyInput{AutoScalingGroupName: s("nodes"), PolicyName: s("step"),
			PolicyType:     s("StepScaling"),
			AdjustmentType: s("ChangeInCapacity"),
			StepAdjustments: []types.StepAdjustment{{MetricIntervalLowerBound: aws.Float64(0),
				ScalingAdjustment: n(1)}}}))
	noImage := w.launchTemplate("no-image", ec2types.RequestLaunchTemplateData{InstanceType: "m5.large"})
	badImage := w.launchTemplate("bad-image", ec2types.RequestLaunchTemplateData{InstanceType: "m5.large",
		ImageId: s("ami-0123456789abcdef0")})
	before := fmt.Sprintf("%+v", w.group("nodes"))
	admin := record.Role{Account: account, Path: "/", Name: "admin", ID: "AROAADMIN"}
	if _, err := record.Roles(w.store).Create(ctx, record.RoleKey(account, admin.Name), admin); err != nil {
		t.Fatal(err)
	}

	create := func(change func(*autoscaling.CreateAutoScalingGroupInput)) func() error {
		return func() error {
			in := &autoscaling.CreateAutoScalingGroupInput{
				AutoScalingGroupName: s("new"), MinSize: n(0), MaxSize: n(1), VPCZoneIdentifier: &w.subnets[0],
				LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template},
			}
			change(in)
			_, err := w.CreateAutoScalingGroup(ctx, in)
			return err
		}
	}
	mixed := func(change func(*types.MixedInstancesPolicy)) func() error {
		return create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.MixedInstancesPolicy, in.LaunchTemplate = &types.MixedInstancesPolicy{
				LaunchTemplate: &types.LaunchTemplate{LaunchTemplateSpecification: in.LaunchTemplate}}, nil
			change(in.MixedInstancesPolicy)
		})
	}
	update := func(in autoscaling.UpdateAutoScalingGroupInput) func() error {
		return func() error {
			if in.AutoScalingGroupName == nil {
				in.AutoScalingGroupName = s("nodes")
			}
			_, err := w.UpdateAutoScalingGroup(ctx, &in)
			return err
		}
	}
	desire := func(group string, size int32, honor bool) func() error {
		return func() error {
			_, err := w.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &group,
				DesiredCapacity: &size, HonorCooldown: &honor})
			return err
		}
	}
	hook := func(in autoscaling.PutLifecycleHookInput) func() error {
		return func() error {
			in.AutoScalingGroupName = s("nodes")
			if in.LifecycleHookName == nil {
				in.LifecycleHookName = s("other")
			}
			_, err := w.PutLifecycleHook(ctx, &in)
			return err
		}
	}
	tag := func(tags ...types.Tag) func() error {
		return func() error {
			_, err := w.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: tags})
			return err
		}
	}
	policy := func(in autoscaling.PutScalingPolicyInput) func() error {
		return func() error {
			in.AutoScalingGroupName, in.PolicyName = s("nodes"), s("other")
			_, err := w.PutScalingPolicy(ctx, &in)
			return err
		}
	}
	schedule := func(in autoscaling.PutScheduledUpdateGroupActionInput) func() error {
		return func() error {
			in.AutoScalingGroupName, in.ScheduledActionName = s("nodes"), s("other")
			_, err := w.PutScheduledUpdateGroupAction(ctx, &in)
			return err
		}
	}
	refresh := func(in autoscaling.StartInstanceRefreshInput) func() error {
		return func() error {
			in.AutoScalingGroupName = s("nodes")
			_, err := w.StartInstanceRefresh(ctx, &in)
			return err
		}
	}
	pool := func(in autoscaling.PutWarmPoolInput) func() error {
		return func() error {
			if in.AutoScalingGroupName == nil {
				in.AutoScalingGroupName = s("nodes")
			}
			_, err := w.PutWarmPool(ctx, &in)
			return err
		}
	}
	const gone, notFound = "i-0123456789abcdef0", "AutoScalingGroup name not found - AutoScalingGroup 'gone' not found"
	yes := aws.Bool(true)

	for _, c := range []struct {
		name          string
		call          func() error
		code, message string
	}{
		{"create twice", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.AutoScalingGroupName = s(
				"nodes")
		}), "AlreadyExists",
			"AutoScalingGroup by this name already exists - A group with the name nodes already exists"},
		{"too many tags", func() error {
			_, err := w.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: slices.Repeat([]types.Tag{{
				Key: s("k"), ResourceId: s("nodes"), ResourceType: s("auto-scaling-group")}}, 501)})
			return err
		}, "ValidationError", "501 tags; the maximum is 500"},
		{"create with a colon", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.AutoScalingGroupName = s(
				"a:b")
		}), "ValidationError", "a:b"},
		{"create without sizes", func() error {
			_, err := w.CreateAutoScalingGroup(ctx,
				&autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: s("new"), MinSize: n(1), MaxSize: n(0),
					VPCZoneIdentifier: &w.subnets[0],
					LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template}})
			return err
		}, "ValidationError", "Max bound, 0, must be greater than or equal to min bound, 1"},
		{"create of negative size", create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.MinSize = n(-1) }),
			"ValidationError", "'minSize'"},
		{"create beyond its maximum", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.DesiredCapacity = n(
				5)
		}), "ValidationError", "Desired capacity:5 must be between the specified min size:0 and max size:1"},
		{"create nowhere", create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.VPCZoneIdentifier = nil }),
			"ValidationError", "At least one Availability Zone or VPC Subnet is required."},
		{"create in no subnet", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.VPCZoneIdentifier = s("subnet-0123456789abcdef0")
		}), "ValidationError", "The subnet ID 'subnet-0123456789abcdef0' does not exist"},
		{"create in a zone without a subnet",
			create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.AvailabilityZones = []string{region + "c"} }),
			"ValidationError", "do not match"},
		{"create in no zone", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.VPCZoneIdentifier, in.AvailabilityZones = nil, []string{"eu-west-1z"}
		}), "ValidationError", "eu-west-1z"},
		{"create of nothing", create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate = nil }),
			"ValidationError",
			"Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or " +
				"MixedInstancesPolicy parameter."},
		{"create of a configuration", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate, in.LaunchConfigurationName = nil, s("lc")
		}), "ValidationError", "Launch configuration name not found - Launch configuration lc not found"},
		{"create of an instance", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate,
				in.InstanceId = nil, &id
		}), "ValidationError", "The Launch Configuration creation operation is not available in your account"},
		{"create of no template", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateId: s("lt-0123456789abcdef0")}
		}), "ValidationError",
			"You must use a valid fully-formed launch template. The specified launch template, with template ID " +
				"lt-0123456789abcdef0, does not exist."},
		{"create of a template by no name", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateName: s("gone")}
		}), "ValidationError", "with template name gone, does not exist."},
		{"create of a template by nothing", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{Version: s("1")}
		}), "ValidationError", "Valid requests must contain either launchTemplateId or LaunchTemplateName"},
		{"create of no version", create(
			func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate.Version = s("7") }),
			"ValidationError", "Could not find launch template version 7."},
		{"create of a strange version", create(
			func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate.Version = s("newest") }),
			"ValidationError",
			"Invalid launch template version: either '$Default', '$Latest', or a numeric version are allowed."},
		{"create of a template without an image",
			create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate.LaunchTemplateId = &noImage }),
			"ValidationError", "You must use a valid fully-formed launch template."},
		{"create of a template with no image",
			create(func(in *autoscaling.CreateAutoScalingGroupInput) {
				in.LaunchTemplate.LaunchTemplateId = &badImage
			}), "ValidationError", "ami-0123456789abcdef0"},
		{"create with a target group", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.TargetGroupARNs = []string{"arn:aws:elasticloadbalancing:x"}
		}), "ValidationError", "Provided Target Groups may not be valid. Please ensure they exist and try again."},
		{"create with a strange health check",
			create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.HealthCheckType = s("pulse") }),
			"ValidationError", "pulse"},
		{"create with a health check of volumes",
			create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.HealthCheckType = s("EC2,EBS") }),
			"ValidationError", "not supported by coracle"},
		{"create with a strange policy",
			create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.TerminationPolicies = []string{"Fairest"} }),
			"ValidationError", "Termination policy Fairest is invalid"},
		{"create with too short lives", create(
			func(in *autoscaling.CreateAutoScalingGroupInput) { in.MaxInstanceLifetime = n(60) }), "ValidationError",
			"MaxInstanceLifetime"},
		{"create with a role that is not there",
			create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.ServiceLinkedRoleARN = s(roleARN + "_x") }),
			"ValidationError", "ARN specified for Service-Linked Role does not exist"},
		{"create with a role of another service, under a name of Auto Scaling's",
			create(func(in *autoscaling.CreateAutoScalingGroupInput) {
				in.ServiceLinkedRoleARN = s(strings.TrimSuffix(roleARN, "AWSServiceRoleForAutoScaling") + admin.Name)
			}), "ValidationError", "ARN specified for Service-Linked Role does not exist"},
		{"create with a reserved tag", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.Tags = []types.Tag{{Key: s("aws:x"), Value: s("y")}}
		}), "ValidationError", "reserved"},
		{"mixed without a template", mixed(func(p *types.MixedInstancesPolicy) { p.LaunchTemplate = nil }),
			"ValidationError", "LaunchTemplate"},
		{"mixed with an unknown type", mixed(func(p *types.MixedInstancesPolicy) {
			p.LaunchTemplate.Overrides = []types.LaunchTemplateOverrides{{InstanceType: s("m5.huge")}}
		}), "ValidationError", "m5.huge"},
		{"mixed with some weights", mixed(func(p *types.MixedInstancesPolicy) {
			p.LaunchTemplate.Overrides = []types.LaunchTemplateOverrides{{InstanceType: s("m5.large"),
				WeightedCapacity: s("1")}, {InstanceType: s("m5.xlarge")}}
		}), "ValidationError", "Weights must be specified for all instance types or for none"},
		{"mixed with more than can be tried", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.VPCZoneIdentifier = s(strings.Join(w.subnets, ","))
			every := types.LaunchTemplateOverrides{InstanceRequirements: &types.InstanceRequirements{
				VCpuCount: &types.VCpuCountRequest{Min: n(0)}, MemoryMiB: &types.MemoryMiBRequest{Min: n(0)},
				SpotMaxPricePercentageOverLowestPrice:     n(999_999),
				OnDemandMaxPricePercentageOverLowestPrice: n(999_999)}}
			in.MixedInstancesPolicy, in.LaunchTemplate = &types.MixedInstancesPolicy{
				InstancesDistribution: &types.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: n(50)},
				LaunchTemplate: &types.LaunchTemplate{LaunchTemplateSpecification: in.LaunchTemplate,
					Overrides: slices.Repeat([]types.LaunchTemplateOverrides{every}, 60)}}, nil
		}), "ValidationError", "more than 3000 combinations"},
		{"mixed with a type and requirements", mixed(func(p *types.MixedInstancesPolicy) {
			p.LaunchTemplate.Overrides = []types.LaunchTemplateOverrides{{InstanceType: s("m5.large"),
				InstanceRequirements: &types.InstanceRequirements{VCpuCount: &types.VCpuCountRequest{Min: n(1)},
					MemoryMiB: &types.MemoryMiBRequest{Min: n(1)}}}}
		}), "ValidationError", "either InstanceType or InstanceRequirements"},
		{"mixed with a strange strategy", mixed(func(p *types.MixedInstancesPolicy) {
			p.InstancesDistribution = &types.InstancesDistribution{SpotAllocationStrategy: s("random")}
		}), "ValidationError", "SpotAllocationStrategy random is invalid"},
		{"mixed with pools and another strategy", mixed(func(p *types.MixedInstancesPolicy) {
			p.InstancesDistribution = &types.InstancesDistribution{SpotAllocationStrategy: s("capacity-optimized"),
				SpotInstancePools: n(2)}
		}), "ValidationError", "SpotInstancePools option is only available with the lowest-price allocation strategy"},
		{"mixed with 120 percent", mixed(func(p *types.MixedInstancesPolicy) {
			p.InstancesDistribution = &types.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: n(120)}
		}), "ValidationError", "between 0 and 100"},

		{"update what is not there", update(autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: s("gone")}),
			"ValidationError", notFound},
		{"update to contradicting sizes", update(autoscaling.UpdateAutoScalingGroupInput{MinSize: n(3)}),
			"ValidationError", "Max bound, 2, must be greater than or equal to min bound, 3"},
		{"update beyond its sizes", update(autoscaling.UpdateAutoScalingGroupInput{DesiredCapacity: n(9)}),
			"ValidationError", "Desired capacity:9"},
		{"desire in what is not there", desire("gone", 1, false), "ValidationError", notFound},
		{"desire too much", desire("nodes", 3, false), "ValidationError",
			"New SetDesiredCapacity value 3 is above max value 2 for the AutoScalingGroup."},
		{"desire too little", desire("nodes", 0, false), "ValidationError",
			"New SetDesiredCapacity value 0 is below min value 1 for the AutoScalingGroup."},
		{"desire within the cooldown", desire("nodes", 2, true), "ScalingActivityInProgress",
			"cooldown of 300 seconds"},
		{"delete what is not there", func() error {
			_, err := w.DeleteAutoScalingGroup(ctx,
				&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: s("gone")})
			return err
		}, "ValidationError", notFound},
		{"delete with instances", func() error {
			_, err := w.DeleteAutoScalingGroup(ctx,
				&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: s("nodes")})
			return err
		}, "ResourceInUse",
			"You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) " +
				"still in the group."},
		{"terminate what is in no group", func() error {
			_, err := w.TerminateInstanceInAutoScalingGroup(ctx,
				&autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: s(gone),
					ShouldDecrementDesiredCapacity: yes})
			return err
		}, "ValidationError", "Instance Id not found - No managed instance found for instance ID: " + gone},
		{"terminate below the minimum", func() error {
			_, err := w.TerminateInstanceInAutoScalingGroup(ctx,
				&autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id,
					ShouldDecrementDesiredCapacity: yes})
			return err
		}, "ValidationError",
			"Currently, desiredSize equals minSize (1). Terminating instance without replacement will violate " +
				"group's min size constraint."},
		{"detach what is not there", func() error {
			_, err := w.DetachInstances(ctx, &autoscaling.DetachInstancesInput{AutoScalingGroupName: s("nodes"),
				InstanceIds: []string{gone}, ShouldDecrementDesiredCapacity: yes})
			return err
		}, "ValidationError", "The instance " + gone + " is not part of Auto Scaling group nodes."},
		{"standby below the minimum", func() error {
			_, err := w.EnterStandby(ctx, &autoscaling.EnterStandbyInput{AutoScalingGroupName: s("nodes"),
				InstanceIds: []string{id}, ShouldDecrementDesiredCapacity: yes})
			return err
		}, "ValidationError", "AutoScalingGroup nodes has min-size=1, max-size=2, and desired-size=1."},
		{"exit standby from service", func() error {
			_, err := w.ExitStandby(ctx, &autoscaling.ExitStandbyInput{AutoScalingGroupName: s("nodes"),
				InstanceIds: []string{id}})
			return err
		}, "ValidationError", "The instance " + id + " is not in Standby."},
		{"attach what is not there", func() error {
			_, err := w.AttachInstances(ctx, &autoscaling.AttachInstancesInput{AutoScalingGroupName: s("nodes"),
				InstanceIds: []string{gone}})
			return err
		}, "ValidationError", "Invalid Instance ID(s): [" + gone + "] specified"},
		{"attach what is attached", func() error {
			_, err := w.AttachInstances(ctx, &autoscaling.AttachInstancesInput{AutoScalingGroupName: s("nodes"),
				InstanceIds: []string{id}})
			return err
		}, "ValidationError", "is already part of Auto Scaling group: nodes"},
		{"health of what is in no group", func() error {
			_, err := w.SetInstanceHealth(ctx, &autoscaling.SetInstanceHealthInput{InstanceId: s(gone),
				HealthStatus: s("Healthy")})
			return err
		}, "ValidationError", gone},
		{"strange health", func() error {
			_, err := w.SetInstanceHealth(ctx, &autoscaling.SetInstanceHealthInput{InstanceId: &id,
				HealthStatus: s("Poorly")})
			return err
		}, "ValidationError", "Poorly"},
		{"protect what is not there", func() error {
			_, err := w.SetInstanceProtection(ctx,
				&autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: s("nodes"), InstanceIds: []string{gone},
					ProtectedFromScaleIn: yes})
			return err
		}, "ValidationError", "is not part of Auto Scaling group nodes."},
		{"suspend a strange process", func() error {
			_, err := w.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: s("nodes"),
				ScalingProcesses: []string{"Lunch"}})
			return err
		}, "ValidationError", "Lunch"},
		{"hook without a transition", hook(autoscaling.PutLifecycleHookInput{}), "ValidationError",
			"LifecycleTransition is required"},
		{"hook of a strange transition",
			hook(autoscaling.PutLifecycleHookInput{LifecycleTransition: s("autoscaling:EC2_INSTANCE_LUNCHING")}),
			"ValidationError", "LUNCHING"},
		{"hook of a strange result", hook(autoscaling.PutLifecycleHookInput{
			LifecycleTransition: s("autoscaling:EC2_INSTANCE_LAUNCHING"), DefaultResult: s("MAYBE")}),
			"ValidationError", "MAYBE"},
		{"hook too short", hook(autoscaling.PutLifecycleHookInput{
			LifecycleTransition: s("autoscaling:EC2_INSTANCE_LAUNCHING"), HeartbeatTimeout: n(10)}), "ValidationError",
			"between 30 and 7200"},
		{"hook that notifies", hook(autoscaling.PutLifecycleHookInput{
			LifecycleTransition:   s("autoscaling:EC2_INSTANCE_LAUNCHING"),
			NotificationTargetARN: s("arn:aws:sns:eu-west-1:111122223333:topic")}), "ValidationError",
			"Unable to publish test message to notification target"},
		{"describe no hook", func() error {
			_, err := w.DescribeLifecycleHooks(ctx,
				&autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: s("nodes"),
					LifecycleHookNames: []string{"gone"}})
			return err
		}, "ValidationError", "Lifecycle Hook gone not found."},
		{"delete no hook", func() error {
			_, err := w.DeleteLifecycleHook(ctx, &autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: s("nodes"),
				LifecycleHookName: s("gone")})
			return err
		}, "ValidationError", "Lifecycle Hook gone not found."},
		{"complete no action", func() error {
			_, err := w.CompleteLifecycleAction(ctx,
				&autoscaling.CompleteLifecycleActionInput{AutoScalingGroupName: s("nodes"),
					LifecycleHookName: s("hook"), InstanceId: &id, LifecycleActionResult: s("CONTINUE")})
			return err
		}, "ValidationError", "No active Lifecycle Action found with instance ID: " + id},
		{"complete strangely", func() error {
			_, err := w.CompleteLifecycleAction(ctx,
				&autoscaling.CompleteLifecycleActionInput{AutoScalingGroupName: s("nodes"),
					LifecycleHookName: s("hook"), InstanceId: &id, LifecycleActionResult: s("PERHAPS")})
			return err
		}, "ValidationError", "PERHAPS"},
		{"tag what is not there", tag(types.Tag{ResourceId: s("gone"), ResourceType: s("auto-scaling-group"),
			Key: s("a"), Value: s("b")}), "ValidationError", notFound},
		{"tag nothing", tag(types.Tag{Key: s("a"), Value: s("b")}), "ValidationError", "ResourceId"},
		{"tag an instance", tag(types.Tag{ResourceId: s("nodes"), ResourceType: s("instance"), Key: s("a"),
			Value: s("b")}), "ValidationError", "Invalid resource type instance"},
		{"tag twice", tag(types.Tag{ResourceId: s("nodes"), Key: s("a"), Value: s("b")},
			types.Tag{ResourceId: s("nodes"), Key: s("a"), Value: s("c")}), "ValidationError", "Duplicate tag key 'a'"},
		{"tags by a strange filter", func() error {
			_, err := w.DescribeTags(ctx,
				&autoscaling.DescribeTagsInput{Filters: []types.Filter{{Name: s("color"), Values: []string{"a"}}}})
			return err
		}, "ValidationError", "color"},
		{"groups by a strange filter", func() error {
			_, err := w.DescribeAutoScalingGroups(ctx,
				&autoscaling.DescribeAutoScalingGroupsInput{Filters: []types.Filter{{Name: s("color"),
					Values: []string{"a"}}}})
			return err
		}, "ValidationError", "color"},
		{"groups by a strange token", func() error {
			_, err := w.DescribeAutoScalingGroups(ctx,
				&autoscaling.DescribeAutoScalingGroupsInput{NextToken: s("tomorrow")})
			return err
		}, "InvalidNextToken", "tomorrow"},
		{"groups by large pages", func() error {
			_, err := w.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: n(101)})
			return err
		}, "ValidationError", "101"},
		{"activities of what is not there", func() error {
			_, err := w.DescribeScalingActivities(ctx,
				&autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: s("gone")})
			return err
		}, "ValidationError", notFound},
		{"a policy that nothing carries out",
			policy(autoscaling.PutScalingPolicyInput{PolicyType: s("TargetTrackingScaling")}), "ValidationError",
			"would never act"},
		{"a policy without a type of adjustment", policy(autoscaling.PutScalingPolicyInput{ScalingAdjustment: n(1)}),
			"ValidationError", "AdjustmentType is required"},
		{"a policy without an adjustment",
			policy(autoscaling.PutScalingPolicyInput{AdjustmentType: s("ChangeInCapacity")}), "ValidationError",
			"ScalingAdjustment is required"},
		{"a policy without steps", policy(autoscaling.PutScalingPolicyInput{PolicyType: s("StepScaling"),
			AdjustmentType: s("ChangeInCapacity")}), "ValidationError", "StepAdjustment"},
		{"a policy with a gap", policy(autoscaling.PutScalingPolicyInput{PolicyType: s("StepScaling"),
			AdjustmentType: s("ChangeInCapacity"), StepAdjustments: []types.StepAdjustment{
				{MetricIntervalLowerBound: aws.Float64(0), MetricIntervalUpperBound: aws.Float64(5),
					ScalingAdjustment: n(1)}, {MetricIntervalLowerBound: aws.Float64(6), ScalingAdjustment: n(2)}}}),
			"ValidationError", "gaps"},
		{"execute no policy", func() error {
			_, err := w.ExecutePolicy(ctx, &autoscaling.ExecutePolicyInput{AutoScalingGroupName: s("nodes"),
				PolicyName: s("gone")})
			return err
		}, "ValidationError", "No policy found with name: gone"},
		{"execute steps without a metric", func() error {
			_, err := w.ExecutePolicy(ctx, &autoscaling.ExecutePolicyInput{AutoScalingGroupName: s("nodes"),
				PolicyName: s("step")})
			return err
		}, "ValidationError", "MetricValue and BreachThreshold are required"},
		{"schedule nothing", schedule(autoscaling.PutScheduledUpdateGroupActionInput{Recurrence: s("0 8 * * *")}),
			"ValidationError", "At least one of MinSize, MaxSize and DesiredCapacity"},
		{"schedule never", schedule(autoscaling.PutScheduledUpdateGroupActionInput{MinSize: n(1)}), "ValidationError",
			"Either StartTime or Recurrence"},
		{"schedule yesterday", schedule(autoscaling.PutScheduledUpdateGroupActionInput{MinSize: n(1),
			StartTime: aws.Time(w.clock.Now().Add(-24 * time.Hour))}), "ValidationError", "in the past"},
		{"schedule strangely", schedule(autoscaling.PutScheduledUpdateGroupActionInput{MinSize: n(1),
			Recurrence: s("0 25 * * *")}), "ValidationError", "0 25 * * *"},
		{"schedule on the moon", schedule(autoscaling.PutScheduledUpdateGroupActionInput{MinSize: n(1),
			Recurrence: s("0 8 * * *"), TimeZone: s("Moon/Tycho")}), "ValidationError", "Moon/Tycho"},
		{"refresh too much", refresh(autoscaling.StartInstanceRefreshInput{Preferences: &types.RefreshPreferences{
			MinHealthyPercentage: n(101)}}), "ValidationError", "minHealthyPercentage"},
		{"refresh with rollback of nothing",
			refresh(autoscaling.StartInstanceRefreshInput{Preferences: &types.RefreshPreferences{AutoRollback: yes}}),
			"ValidationError", "no desired configuration"},
		{"refresh with alarms", refresh(autoscaling.StartInstanceRefreshInput{Preferences: &types.RefreshPreferences{
			AlarmSpecification: &types.AlarmSpecification{Alarms: []string{"a"}}}}), "ValidationError",
			"no CloudWatch alarms"},
		{"refresh to no template", refresh(autoscaling.StartInstanceRefreshInput{
			DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: &types.LaunchTemplateSpecification{
				LaunchTemplateName: s("gone")}}}), "ValidationError", "gone"},
		{"cancel no refresh", func() error {
			_, err := w.CancelInstanceRefresh(ctx,
				&autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: s("nodes")})
			return err
		}, "ActiveInstanceRefreshNotFound",
			"No in progress or pending Instance Refresh found for Auto Scaling group nodes"},
		{"a launch configuration", func() error {
			_, err := w.CreateLaunchConfiguration(ctx,
				&autoscaling.CreateLaunchConfigurationInput{LaunchConfigurationName: s("lc")})
			return err
		}, "ValidationError", "Use launch templates"},
		{"notifications", func() error {
			_, err := w.PutNotificationConfiguration(ctx,
				&autoscaling.PutNotificationConfigurationInput{AutoScalingGroupName: s("nodes"),
					TopicARN:          s("arn:aws:sns:eu-west-1:111122223333:t"),
					NotificationTypes: []string{"autoscaling:TEST_NOTIFICATION"}})
			return err
		}, "ValidationError", "Amazon SNS"},
		{"a warm pool of what is not there", pool(autoscaling.PutWarmPoolInput{AutoScalingGroupName: s("gone")}),
			"ValidationError", notFound},
		{"a warm pool that hibernates", pool(autoscaling.PutWarmPoolInput{PoolState: types.WarmPoolStateHibernated}),
			"ValidationError", "PoolState Hibernated is not supported by coracle"},
		{"a warm pool in a strange state", pool(autoscaling.PutWarmPoolInput{PoolState: "Tepid"}), "ValidationError",
			"Value 'Tepid' at 'poolState'"},
		{"a warm pool of negative size", pool(autoscaling.PutWarmPoolInput{MinSize: n(-1)}), "ValidationError",
			"'minSize'"},
		{"a warm pool of negative capacity", pool(autoscaling.PutWarmPoolInput{MaxGroupPreparedCapacity: n(-2)}),
			"ValidationError", "'maxGroupPreparedCapacity'"},
		{"describe the warm pool of what is not there", func() error {
			_, err := w.DescribeWarmPool(ctx, &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: s("gone")})
			return err
		}, "ValidationError", notFound},
		{"describe a large page of a warm pool", func() error {
			_, err := w.DescribeWarmPool(ctx, &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: s("nodes"),
				MaxRecords: n(51)})
			return err
		}, "ValidationError", "51"},
		{"delete no warm pool", func() error {
			_, err := w.DeleteWarmPool(ctx, &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: s("nodes")})
			return err
		}, "ValidationError", "No warm pool found for Auto Scaling group nodes"},
		{"strange metrics", func() error {
			_, err := w.EnableMetricsCollection(ctx,
				&autoscaling.EnableMetricsCollectionInput{AutoScalingGroupName: s("nodes"), Granularity: s("1Minute"),
					Metrics: []string{"GroupMood"}})
			return err
		}, "ValidationError", "GroupMood"},
	} {
		got, message, _ := awstest.Failure(c.call())
		if got != c.code || !strings.Contains(message, c.message) {
			t.Errorf("%s: %s: %s; want %s: …%s…", c.name, got, message, c.code, c.message)
		}
	}
	if after := fmt.Sprintf("%+v", w.group("nodes")); len(after) != len(before) ||
		w.group("new").AutoScalingGroupName != nil {
		t.Errorf("the group was %s\nand is     %s", before, after)
	}
}
