package escalation

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// group returns a request for a group of no instances from a version of the launch template.
func (w *fixture) group(version string) *autoscaling.CreateAutoScalingGroupInput {
	return &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: p("group"), MinSize: aws.Int32(0), MaxSize: aws.Int32(1), VPCZoneIdentifier: &w.subnetA,
		LaunchTemplate: &asgtypes.LaunchTemplateSpecification{LaunchTemplateId: &w.template, Version: &version},
	}
}

// groups creates a network and Auto Scaling's service-linked role.
func groups(w *fixture) {
	w.network()
	w.linked("autoscaling.amazonaws.com")
}

// aGroup creates a network with a group from the first version of the launch template.
func aGroup(w *fixture) {
	groups(w)
	w.do(w.root.asg.CreateAutoScalingGroup(w.t.Context(), w.group("1")))
}

const groupARN = "arn:aws:autoscaling:" + region + ":" + account + ":autoScalingGroup:*:autoScalingGroupName/group"

// aPolicy creates a group with a scaling policy; w.id is its ARN.
func aPolicy(w *fixture) {
	aGroup(w)
	out, err := w.root.asg.PutScalingPolicy(w.t.Context(), &autoscaling.PutScalingPolicyInput{
		AutoScalingGroupName: p(
			"group",
		), PolicyName: p("grow"), PolicyType: p("SimpleScaling"), AdjustmentType: p("ChangeInCapacity"),
		ScalingAdjustment: aws.Int32(0),
	})
	w.do(nil, err)
	w.id = *out.PolicyARN
}

// member puts an instance into the group, as its controller does; w.id is its ID.
func (w *fixture) member() {
	w.id = "i-0123456789abcdef0"
	w.do(
		record.AutoScalingInstances(w.Store).
			Put(w.t.Context(), record.EC2Key(account, region, w.id), record.AutoScalingInstance{
				ID: w.id, GroupName: "group", InstanceType: "m5.large", State: asgtypes.LifecycleStateInService,
				Weight: 1,
			}),
	)
}

// creates creates a group, as mallory.
func creates(version string, edit func(*fixture, *autoscaling.CreateAutoScalingGroupInput)) func(*fixture) error {
	return func(w *fixture) error {
		in := w.group(version)
		edit(w, in)
		return failed(w.me.asg.CreateAutoScalingGroup(w.t.Context(), in))
	}
}

// updates changes the launch template of the group, as mallory.
func updates(edit func(*fixture, *autoscaling.UpdateAutoScalingGroupInput)) func(*fixture) error {
	return func(w *fixture) error {
		in := &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: p("group")}
		edit(w, in)
		return failed(w.me.asg.UpdateAutoScalingGroup(w.t.Context(), in))
	}
}

func (w *fixture) version(version string) *asgtypes.LaunchTemplateSpecification {
	return &asgtypes.LaunchTemplateSpecification{LaunchTemplateId: &w.template, Version: &version}
}

// mixed returns a policy of mixed instances.
func (w *fixture) mixed(version string, overrides ...asgtypes.LaunchTemplateOverrides) *asgtypes.MixedInstancesPolicy {
	return &asgtypes.MixedInstancesPolicy{LaunchTemplate: &asgtypes.LaunchTemplate{
		LaunchTemplateSpecification: &asgtypes.LaunchTemplateSpecification{
			LaunchTemplateId: &w.template,
			Version:          &version,
		}, Overrides: overrides,
	}}
}

// requirements returns requirements that an m5.large meets.
func requirements() *asgtypes.InstanceRequirements {
	return &asgtypes.InstanceRequirements{
		VCpuCount: &asgtypes.VCpuCountRequest{Min: aws.Int32(2), Max: aws.Int32(2)},
		MemoryMiB: &asgtypes.MemoryMiBRequest{Min: aws.Int32(8192), Max: aws.Int32(8192)},
	}
}

func unchanged(*fixture, *autoscaling.CreateAutoScalingGroupInput) {}

// onlyType allows launches of one instance type.
func onlyType(name string) []statement {
	return []statement{
		allow("autoscaling:*"), allow("ec2:Describe*", "ec2:GetInstanceTypesFromInstanceRequirements"),
		allow("ec2:RunInstances").except(ec2ARN("instance/*")),
		allow("ec2:RunInstances").on(ec2ARN("instance/*")).when("StringEquals", "ec2:InstanceType", name),
	}
}

var groupPaths = []path{
	{
		name:  "autoscaling: TerminateInstanceInAutoScalingGroup of another group's instance, in the name of one's own",
		given: func(w *fixture) { aGroup(w); w.member() },
		needs: []statement{allow("autoscaling:*").except(groupARN)},
		stops: []statement{allow("autoscaling:TerminateInstanceInAutoScalingGroup").on(groupARN)},
		try: func(w *fixture) error {
			err := failed(
				w.me.asg.TerminateInstanceInAutoScalingGroup(
					w.t.Context(),
					&autoscaling.TerminateInstanceInAutoScalingGroupInput{
						AutoScalingGroupName: p("own"), InstanceId: &w.id, ShouldDecrementDesiredCapacity: aws.Bool(false),
					},
				),
			)
			if errorCode(err) == "ValidationError" &&
				strings.Contains(err.Error(), "is not part of Auto Scaling group own") {
				return nil // with the permission it is refused for what it is
			}
			return err
		},
	},
	{
		name: "autoscaling: DeletePolicy of another group's policy by its ARN", given: aPolicy,
		needs: []statement{
			allow("autoscaling:*").except(groupARN),
		}, stops: []statement{allow("autoscaling:DeletePolicy").on(groupARN)},
		try: func(w *fixture) error {
			return failed(w.me.asg.DeletePolicy(w.t.Context(), &autoscaling.DeletePolicyInput{PolicyName: &w.id}))
		},
	}, {
		name: "autoscaling: ExecutePolicy of a denied group's policy by its ARN", given: aPolicy,
		needs: []statement{allow("autoscaling:*")}, hinders: []statement{deny("autoscaling:*").on(groupARN)},
		try: func(w *fixture) error {
			return failed(w.me.asg.ExecutePolicy(w.t.Context(), &autoscaling.ExecutePolicyInput{PolicyName: &w.id}))
		},
	}, {
		name:  "autoscaling: DeletePolicy of another group's policy by its ARN, in the name of one's own",
		given: aPolicy,
		needs: []statement{
			allow("autoscaling:*").except(groupARN),
		}, stops: []statement{allow("autoscaling:DeletePolicy").on(groupARN)},
		try: func(w *fixture) error {
			err := failed(
				w.me.asg.DeletePolicy(
					w.t.Context(),
					&autoscaling.DeletePolicyInput{AutoScalingGroupName: p("own"), PolicyName: &w.id},
				),
			)
			if errorCode(err) == "ValidationError" &&
				strings.Contains(err.Error(), "does not belong to the group own") {
				return nil // with the permission it is refused for what it is
			}
			return err
		},
	},
	{
		name: "autoscaling: CreateAutoScalingGroup with a profile, without PassRole", given: groups,
		needs: []statement{
			allow("autoscaling:*", "ec2:*"),
		}, stops: []statement{passAdmin()}, try: creates("2", unchanged),
	},
	{
		name: "autoscaling: CreateAutoScalingGroup without RunInstances", given: groups,
		needs: []statement{
			allow("autoscaling:*", "ec2:Describe*"),
		}, stops: []statement{allow("ec2:RunInstances")}, try: creates("1", unchanged),
	},
	{
		name: "autoscaling: CreateAutoScalingGroup with RunInstances alone", given: groups,
		needs: []statement{allow("ec2:*", "iam:PassRole")},
		stops: []statement{allow("autoscaling:CreateAutoScalingGroup")}, try: creates("2", unchanged),
	},
	{
		name: "autoscaling: CreateAutoScalingGroup in a subnet of others beside one's own", given: groups,
		needs: []statement{
			allow("autoscaling:*", "ec2:Describe*"),
			allow("ec2:RunInstances").except(ec2ARN("subnet/*")),
			allow("ec2:RunInstances").on(ec2ARN("subnet/*")).when("StringEquals", "ec2:AvailabilityZone", region+"a"),
		},
		stops: []statement{allow("ec2:RunInstances").on(ec2ARN("subnet/*"))},
		try: creates("1", func(w *fixture, in *autoscaling.CreateAutoScalingGroupInput) {
			in.VPCZoneIdentifier = p(w.subnetA + "," + w.subnetB)
		}),
	},
	{
		name:  "autoscaling: CreateAutoScalingGroup of a type that may not be launched, beside one that may",
		given: groups,
		needs: onlyType("t3.micro"), stops: onlyType("m5.large"),
		try: creates("1", func(w *fixture, in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate, in.MixedInstancesPolicy = nil, w.mixed(
				"1",
				asgtypes.LaunchTemplateOverrides{
					InstanceType: p("t3.micro"),
				},
				asgtypes.LaunchTemplateOverrides{InstanceType: p("m5.large")},
			)
		}),
	},
	{
		name:  "autoscaling: CreateAutoScalingGroup by instance requirements, of a type that may not be launched",
		given: groups,
		needs: onlyType("m5.large"), stops: []statement{allow("ec2:RunInstances").on(ec2ARN("instance/*"))},
		try: creates("1", func(w *fixture, in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate, in.MixedInstancesPolicy = nil, w.mixed(
				"1",
				asgtypes.LaunchTemplateOverrides{InstanceRequirements: requirements()},
			)
		}),
	},
	{
		name:  "autoscaling: CreateAutoScalingGroup by instance requirements with a launch template of an override",
		given: groups,
		needs: []statement{allow("autoscaling:*", "ec2:*")}, stops: []statement{passAdmin()},
		try: creates("1", func(w *fixture, in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate, in.MixedInstancesPolicy = nil, w.mixed("1", asgtypes.LaunchTemplateOverrides{
				InstanceRequirements: requirements(), LaunchTemplateSpecification: w.version("2"),
			})
		}),
	},
	{
		name: "autoscaling: UpdateAutoScalingGroup to a version with a profile", given: aGroup,
		needs: []statement{allow("autoscaling:*", "ec2:*")}, stops: []statement{passAdmin()},
		try: updates(
			func(w *fixture, in *autoscaling.UpdateAutoScalingGroupInput) { in.LaunchTemplate = w.version("2") },
		),
	},
	{
		name: "autoscaling: UpdateAutoScalingGroup by instance requirements", given: aGroup,
		needs: []statement{allow("autoscaling:*", "ec2:*")}, stops: []statement{passAdmin()},
		try: updates(func(w *fixture, in *autoscaling.UpdateAutoScalingGroupInput) {
			in.MixedInstancesPolicy = w.mixed(
				"2",
				asgtypes.LaunchTemplateOverrides{InstanceRequirements: requirements()},
			)
		}),
	},
	{
		name: "autoscaling: UpdateAutoScalingGroup into a subnet of others", given: aGroup,
		needs: []statement{
			allow("autoscaling:*", "ec2:Describe*"),
			allow("ec2:RunInstances").except(ec2ARN("subnet/*")),
			allow("ec2:RunInstances").on(ec2ARN("subnet/*")).when("StringEquals", "ec2:AvailabilityZone", region+"a"),
		},
		stops: []statement{allow("ec2:RunInstances").on(ec2ARN("subnet/*"))},
		try: updates(
			func(w *fixture, in *autoscaling.UpdateAutoScalingGroupInput) { in.VPCZoneIdentifier = &w.subnetB },
		),
	},
	{
		name: "autoscaling: UpdateAutoScalingGroup of mixed instances into a subnet of others",
		given: func(w *fixture) {
			groups(w)
			in := w.group("1")
			in.LaunchTemplate, in.MixedInstancesPolicy = nil, w.mixed(
				"1",
				asgtypes.LaunchTemplateOverrides{
					InstanceType:                p("m5.large"),
					LaunchTemplateSpecification: w.version("1"),
				},
			)
			w.do(w.root.asg.CreateAutoScalingGroup(w.t.Context(), in))
		},
		needs: []statement{
			allow("autoscaling:*", "ec2:Describe*"),
			allow("ec2:RunInstances").except(ec2ARN("subnet/*")),
			allow("ec2:RunInstances").on(ec2ARN("subnet/*")).when("StringEquals", "ec2:AvailabilityZone", region+"a"),
		},
		stops: []statement{allow("ec2:RunInstances").on(ec2ARN("subnet/*"))},
		try: updates(
			func(w *fixture, in *autoscaling.UpdateAutoScalingGroupInput) { in.VPCZoneIdentifier = &w.subnetB },
		),
	},
	{
		name: "autoscaling: UpdateAutoScalingGroup of a group of others", given: aGroup,
		needs: []statement{onlyMine("autoscaling:UpdateAutoScalingGroup"), allow("ec2:*", "iam:PassRole")},
		stops: []statement{allow("autoscaling:UpdateAutoScalingGroup")},
		try: updates(
			func(w *fixture, in *autoscaling.UpdateAutoScalingGroupInput) { in.LaunchTemplate = w.version("2") },
		),
	},
	{
		name: "autoscaling: StartInstanceRefresh to a version with a profile", given: aGroup,
		needs: []statement{allow("autoscaling:*", "ec2:*")}, stops: []statement{passAdmin()},
		try: func(w *fixture) error {
			return failed(w.me.asg.StartInstanceRefresh(w.t.Context(), &autoscaling.StartInstanceRefreshInput{
				AutoScalingGroupName: p(
					"group",
				), DesiredConfiguration: &asgtypes.DesiredConfiguration{LaunchTemplate: w.version("2")},
			}))
		},
	},
	{
		name: "autoscaling: SetDesiredCapacity of a group of others", given: aGroup,
		needs: []statement{onlyMine("autoscaling:SetDesiredCapacity")},
		stops: []statement{allow("autoscaling:SetDesiredCapacity")},
		try: func(w *fixture) error {
			return failed(w.me.asg.SetDesiredCapacity(w.t.Context(), &autoscaling.SetDesiredCapacityInput{
				AutoScalingGroupName: p("group"), DesiredCapacity: aws.Int32(1),
			}))
		},
	},
	{
		name: "autoscaling: CreateOrUpdateTags of a group of others, then what the tag allows", given: aGroup,
		needs: []statement{
			onlyMine("autoscaling:SetDesiredCapacity"),
		}, stops: []statement{allow("autoscaling:CreateOrUpdateTags")},
		try: func(w *fixture) error {
			if _, err := w.me.asg.CreateOrUpdateTags(w.t.Context(),
				&autoscaling.CreateOrUpdateTagsInput{Tags: []asgtypes.Tag{{
					ResourceId: p("group"), ResourceType: p("auto-scaling-group"), Key: p("team"), Value: p("crew"),
					PropagateAtLaunch: aws.Bool(false),
				}}}); err != nil {
				return err
			}
			return failed(w.me.asg.SetDesiredCapacity(w.t.Context(), &autoscaling.SetDesiredCapacityInput{
				AutoScalingGroupName: p("group"), DesiredCapacity: aws.Int32(1),
			}))
		},
	},
}
