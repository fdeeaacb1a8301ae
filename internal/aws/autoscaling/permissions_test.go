package autoscaling_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// A group must not launch what its owner may not.
func TestOwnersNeedThePermissionsThatTheirGroupsUse(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	s, n := aws.String, aws.Int32
	for action, message := range map[string]string{
		"ec2:RunInstances":            "You are not authorized to use launch template: nodes",
		"iam:CreateServiceLinkedRole": "could not be created",
	} {
		w.set(func() {
			w.Deny = func(caller wire.Caller, target wire.Target) bool {
				return caller.PrincipalARN == rootARN && target.Action == action
			}
		})
		_, err := w.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
			AutoScalingGroupName: s("nodes"), MinSize: n(0), MaxSize: n(1), VPCZoneIdentifier: &w.subnets[0],
			LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template},
		})
		if _, got, _ := awstest.Failure(err); !strings.Contains(got, message) {
			t.Errorf("without %s: %v", action, err)
		}
	}
	// Nor where they may not: in a placement group of somebody else's.
	if _, err := w.ec2.CreatePlacementGroup(t.Context(), &ec2.CreatePlacementGroupInput{GroupName: s("theirs"),
		Strategy: ec2types.PlacementStrategySpread}); err != nil {
		t.Fatal(err)
	}
	w.set(func() {
		w.Deny = func(caller wire.Caller, target wire.Target) bool {
			return caller.PrincipalARN == rootARN && strings.HasSuffix(target.Resource, ":placement-group/theirs")
		}
	})
	_, err := w.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: s("nodes"), MinSize: n(0), MaxSize: n(1), VPCZoneIdentifier: &w.subnets[0],
		PlacementGroup: s("theirs"),
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template},
	})
	if _, got, _ := awstest.Failure(err); !strings.Contains(got, "You are not authorized to use launch template: nodes") {
		t.Errorf("without permission for the placement group: %v", err)
	}
	// Nor a type in a subnet, or in a market, where they may not.
	for name, forbidden := range map[string]func(map[string][]string) bool{
		"a pair": func(is map[string][]string) bool {
			return slices.Equal(is["ec2:InstanceType"], []string{"m5.xlarge"}) &&
				slices.Equal(is["ec2:AvailabilityZone"], []string{"eu-west-1b"})
		},
		"Spot": func(is map[string][]string) bool {
			return slices.Equal(is["ec2:InstanceMarketType"], []string{"spot"})
		},
	} {
		w.set(func() {
			w.Deny = func(caller wire.Caller, target wire.Target) bool {
				return caller.PrincipalARN == rootARN && forbidden(target.Conditions)
			}
		})
		_, err := w.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
			AutoScalingGroupName: s("nodes"), MinSize: n(0), MaxSize: n(1),
			VPCZoneIdentifier: s(strings.Join(w.subnets, ",")),
			MixedInstancesPolicy: &types.MixedInstancesPolicy{
				LaunchTemplate: &types.LaunchTemplate{
					LaunchTemplateSpecification: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template},
					Overrides: []types.LaunchTemplateOverrides{
						{InstanceType: s("m5.large")}, {InstanceType: s("m5.xlarge")},
					},
				},
				InstancesDistribution: &types.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: n(50)},
			},
		})
		if _, got, _ := awstest.Failure(err); !strings.Contains(got, "You are not authorized to use launch template: nodes") {
			t.Errorf("without permission for %s: %v", name, err)
		}
	}
	// Nor in the default subnet of a zone where they may not.
	w.set(func() {
		w.Deny = func(caller wire.Caller, target wire.Target) bool {
			return caller.PrincipalARN == rootARN && slices.Equal(target.Conditions["ec2:AvailabilityZone"],
				[]string{"eu-west-1b"})
		}
	})
	_, err = w.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: s("zones"), MinSize: n(0), MaxSize: n(1), AvailabilityZones: []string{"eu-west-1b"},
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template},
	})
	if _, got, _ := awstest.Failure(err); !strings.Contains(got, "You are not authorized to use launch template: nodes") {
		t.Errorf("without permission for the zone: %v", err)
	}
	if _, err := w.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: s("zones"), MinSize: n(0), MaxSize: n(1), AvailabilityZones: []string{"eu-west-1a"},
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template},
	}); err != nil {
		t.Fatal(err)
	}
	_, err = w.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: s("zones"), AvailabilityZones: []string{"eu-west-1b"}})
	if _, got, _ := awstest.Failure(err); !strings.Contains(got, "You are not authorized to use launch template: nodes") {
		t.Errorf("moved without permission for the zone: %v", err)
	}
	// Nor what an instance refresh launches, or would launch again.
	w.version("m5.xlarge")
	w.version("m5.4xlarge")
	if _, err := w.SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{AutoScalingGroupName: s("zones"),
		ScalingProcesses: []string{"InstanceRefresh"}}); err != nil {
		t.Fatal(err)
	}
	version := func(number string) *types.LaunchTemplateSpecification {
		return &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template, Version: &number}
	}
	update := func(version *types.LaunchTemplateSpecification, zone string) error {
		_, err := w.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
			AutoScalingGroupName: s("zones"), LaunchTemplate: version, AvailabilityZones: []string{zone}})
		return err
	}
	if err := update(version("2"), "eu-west-1a"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.StartInstanceRefresh(t.Context(), &autoscaling.StartInstanceRefreshInput{
		AutoScalingGroupName: s("zones"),
		DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: version("3")}}); err != nil {
		t.Fatal(err)
	}
	forbidden := ""
	w.set(func() {
		w.Deny = func(caller wire.Caller, target wire.Target) bool {
			return caller.PrincipalARN == rootARN && forbidden != "" &&
				slices.Equal(target.Conditions["ec2:InstanceType"], []string{forbidden})
		}
	})
	for kind, template := range map[string]*types.LaunchTemplateSpecification{"m5.4xlarge": nil,
		"m5.xlarge": version("1")} {
		w.set(func() { forbidden = kind })
		_, got, _ := awstest.Failure(update(template, "eu-west-1b"))
		if !strings.Contains(got, "You are not authorized to use launch template: nodes") {
			t.Errorf("moved during an instance refresh without permission for %s: %s", kind, got)
		}
	}
	w.set(func() { forbidden = "" })
	if err := update(nil, "eu-west-1b"); err != nil {
		t.Errorf("moved during an instance refresh: %v", err)
	}
	w.set(func() { w.Deny, w.Asked = nil, nil })
	w.create("nodes", 0, 1, 0, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.Tags = []types.Tag{{Key: s("team"), Value: s("a")}}
	})
	w.set(func() {
		ofUser := func(t wire.Target) bool { return strings.HasPrefix(t.Action, "autoscaling:") } // not the controller's
		first := w.Asked[slices.IndexFunc(w.Asked, ofUser)]
		if first.Action != "autoscaling:CreateAutoScalingGroup" ||
			first.Resource != "arn:aws:autoscaling:eu-west-1:111122223333:autoScalingGroup:*:autoScalingGroupName/nodes" ||
			first.Conditions["aws:RequestTag/team"][0] != "a" || first.Conditions["autoscaling:MaxSize"][0] != "1" {
			t.Errorf("asked %+v", first)
		}
	})
}

// A policy about subnets is about those that a group gets, however a request lists them.
func TestSubnetsAreNamedToPoliciesAsTheyAreRead(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.set(func() {
		w.Deny = func(_ wire.Caller, target wire.Target) bool {
			return slices.Contains(target.Conditions["autoscaling:VPCZoneIdentifiers"], w.subnets[1])
		}
	})
	for _, list := range []string{w.subnets[1], " " + w.subnets[1], w.subnets[0] + ", " + w.subnets[1] + " ",
		w.subnets[0] + ",,\t" + w.subnets[1]} {
		_, err := w.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
			AutoScalingGroupName: aws.String("nodes"), MinSize: aws.Int32(0), MaxSize: aws.Int32(1),
			VPCZoneIdentifier: &list,
			LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template},
		})
		if code, _, _ := awstest.Failure(err); code != "AccessDenied" {
			t.Errorf("%q: got %q, want AccessDenied", list, code)
		}
	}
}
