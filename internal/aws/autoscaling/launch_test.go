package autoscaling_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/autoscalinggroup"
	"github.com/coracle-eks/coracle/internal/record"
)

// failedWith waits for an activity that failed, with a message, and returns it.
func (w *fixture) failedWith(message string) types.Activity {
	w.t.Helper()
	var found types.Activity
	w.eventually("a launch fails with "+message, func() bool {
		for _, a := range w.activities("nodes") {
			if a.StatusCode == types.ScalingActivityStatusCodeFailed &&
				strings.Contains(aws.ToString(a.StatusMessage), message) {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

func TestAFullSubnetIsLeftForAnother(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	tiny := w.subnet("10.0.9.0/28", "a") // 11 addresses
	fill := w.launchTemplate("fill", ec2types.RequestLaunchTemplateData{ImageId: aws.String(image(t)),
		InstanceType: "m5.large"})
	awstest.Must[*ec2.RunInstancesOutput](t)(w.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{
		MinCount: aws.Int32(11), MaxCount: aws.Int32(11), SubnetId: &tiny,
		LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateId: &fill},
	}))
	w.create("nodes", 0, 4, 4, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.VPCZoneIdentifier = aws.String(tiny + "," + w.subnets[1])
	})
	a := w.failedWith("There are not enough free addresses in subnet '" + tiny +
		"' to satisfy the requested number of instances. Launching EC2 instance failed.")
	if !strings.HasPrefix(*a.Description,
		"Launching a new EC2 instance.  Status Reason: There are not enough free addresses") ||
		!strings.Contains(*a.Details, tiny) {
		t.Errorf("the activity is %s %s", *a.Description, *a.Details)
	}
	w.serves("nodes", 4)
	for _, i := range w.group("nodes").Instances {
		if *i.AvailabilityZone != region+"b" {
			t.Errorf("an instance is in %s", *i.AvailabilityZone)
		}
	}
}

func TestALaunchThatFailsIsTriedAgainLaterOrWhenTheGroupChanges(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.set(func() { w.broken = "no room on this host" })
	w.create("nodes", 0, 1, 1)
	w.failedWith(
		"Instance became unhealthy while waiting for instance to be in InService state. Termination Reason: " +
			"Server.InternalError: no room on this host")
	launched := func() int { return len(w.activities("nodes")) }
	n := launched()
	w.eventually("it is tried again after some time", func() bool {
		w.clock.Step(2 * time.Second)
		return launched() > n
	})
	w.set(func() { w.broken = "" })
	w.eventually("and succeeds", func() bool {
		w.clock.Step(10 * time.Second)
		return len(w.in("nodes", types.LifecycleStateInService)) == 1
	})

	// A template that is gone is told as EC2 tells it, and a change of the group has the launch tried again at once.
	w.size(0)
	w.eventually("the group is empty", func() bool { return len(w.group("nodes").Instances) == 0 })
	awstest.Must[*ec2.DeleteLaunchTemplateOutput](t)(w.ec2.DeleteLaunchTemplate(ctx,
		&ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &w.template}))
	w.size(1)
	w.failedWith("You must use a valid fully-formed launch template. ")
	w.template = w.launchTemplate("again", ec2types.RequestLaunchTemplateData{ImageId: aws.String(image(t)),
		InstanceType: "m5.xlarge"})
	awstest.Must[*autoscaling.UpdateAutoScalingGroupOutput](t)(w.UpdateAutoScalingGroup(ctx,
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes"),
			LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template}}))
	w.serves("nodes", 1)

	// A role that may not launch.
	w.set(func() {
		w.Deny = func(caller wire.Caller, target wire.Target) bool {
			return caller.PrincipalARN == roleARN && target.Action == "ec2:RunInstances"
		}
	})
	w.size(0)
	w.eventually("the group is empty", func() bool { return len(w.group("nodes").Instances) == 0 })
	w.size(1)
	w.failedWith("UnauthorizedOperation - ")
}

// interrupted is an EC2 whose answer to the first launch is lost.
type interrupted struct {
	autoscalinggroup.EC2
	lost *bool
}

func (i interrupted) RunInstances(ctx context.Context, in *ec2.RunInstancesInput, o ...func(*ec2.Options)) (
	*ec2.RunInstancesOutput, error) {
	out, err := i.EC2.RunInstances(ctx, in, o...)
	if err == nil && !*i.lost {
		*i.lost = true
		return nil, &smithy.GenericAPIError{Code: "InternalError", Message: "the connection broke"}
	}
	return out, err
}

func TestALaunchWhoseAnswerIsLostIsFoundAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.stopController()
	var lost bool
	w.set(func() { w.wrap = func(e autoscalinggroup.EC2) autoscalinggroup.EC2 { return interrupted{e, &lost} } })
	w.startController()
	w.create("nodes", 0, 5, 5)
	w.eventually("something is launched", func() bool { return len(w.alive()) > 0 })
	// The controller dies before it hears of it, and another takes its place.
	w.stopController()
	if n := rows(t, record.AutoScalingLaunches(w.store)); n != 1 {
		t.Fatalf("%d launches are written down", n)
	}
	w.startController()
	w.serves("nodes", 5)
	if alive := w.alive(); len(alive) != 5 {
		t.Errorf("%d instances are alive", len(alive))
	}
	if n := rows(t, record.AutoScalingLaunches(w.store)); n != 0 {
		t.Errorf("%d launches are still written down", n)
	}
}

func TestZonesAreBalanced(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 0, 10, 4,
		func(in *autoscaling.CreateAutoScalingGroupInput) { in.VPCZoneIdentifier = &w.subnets[0] })
	w.serves("nodes", 4)
	zones := func() map[string]int {
		n := make(map[string]int)
		for _, i := range w.group("nodes").Instances {
			n[(*i.AvailabilityZone)[len(region):]]++
		}
		return n
	}
	awstest.Must[*autoscaling.UpdateAutoScalingGroupOutput](t)(w.UpdateAutoScalingGroup(ctx,
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes"),
			VPCZoneIdentifier: aws.String(w.subnets[0] + "," + w.subnets[1])}))
	w.eventually("they are balanced", func() bool { z := zones(); return z["a"] == 2 && z["b"] == 2 })
	if !slices.ContainsFunc(w.activities("nodes"), func(a types.Activity) bool {
		return strings.Contains(*a.Cause, "an instance was launched to balance instances in zones")
	}) {
		t.Error("no activity says so")
	}
	awstest.Must[*autoscaling.UpdateAutoScalingGroupOutput](t)(w.UpdateAutoScalingGroup(ctx,
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes"),
			VPCZoneIdentifier: aws.String(w.subnets[1] + "," + w.subnets[2])}))
	w.eventually("they leave a zone that is not the group's", func() bool {
		z := zones()
		return z["a"] == 0 &&
			z["b"] == 2 && z["c"] == 2
	})
}

func TestTerminationPolicies(t *testing.T) {
	t.Parallel()
	for policy, first := range map[string]int{"OldestInstance": 0, "NewestInstance": 2, "OldestLaunchTemplate": 0,
		"Default": 0} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.create("nodes", 0, 3, 1, func(in *autoscaling.CreateAutoScalingGroupInput) {
				in.VPCZoneIdentifier, in.TerminationPolicies = &w.subnets[0], []string{policy}
			})
			order := w.serves("nodes", 1)
			for n := range 2 {
				w.clock.Step(time.Minute)
				awstest.Must[*ec2.CreateLaunchTemplateVersionOutput](t)(w.ec2.CreateLaunchTemplateVersion(t.Context(),
					&ec2.CreateLaunchTemplateVersionInput{
						LaunchTemplateId: &w.template, SourceVersion: aws.String("1"),
						LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "m5.xlarge"},
					}))
				w.size(int32(n + 2))
				for _, id := range w.serves("nodes", n+2) {
					if !slices.Contains(order, id) {
						order = append(order, id)
					}
				}
			}
			w.size(2)
			if left := w.serves("nodes", 2); slices.Contains(left, order[first]) {
				t.Errorf("%v are left of %v: want the one at %d gone", left, order, first)
			}
		})
	}
}

func TestMixedInstances(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("nodes", 0, 20, 6, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MixedInstancesPolicy = &types.MixedInstancesPolicy{
			LaunchTemplate: &types.LaunchTemplate{
				LaunchTemplateSpecification: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes"),
					Version: aws.String("$Latest")},
				Overrides: []types.LaunchTemplateOverrides{{InstanceType: aws.String("c5.large")},
					{InstanceType: aws.String("m5.large")}},
			},
			InstancesDistribution: &types.InstancesDistribution{
				OnDemandBaseCapacity: aws.Int32(2), OnDemandPercentageAboveBaseCapacity: aws.Int32(50),
				SpotAllocationStrategy: aws.String("price-capacity-optimized"),
			},
		}
		in.LaunchTemplate = nil
	})
	w.serves("nodes", 6)
	spot := 0
	for _, i := range w.alive() {
		if i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot {
			spot++
		}
		if i.InstanceType != "c5.large" {
			t.Errorf("an instance is a %s", i.InstanceType)
		}
	}
	if spot != 2 {
		t.Errorf("%d of 6 are spot instances, want 2: 2 on demand, then half", spot)
	}
	policy := w.group("nodes").MixedInstancesPolicy
	if d := policy.InstancesDistribution; *d.OnDemandAllocationStrategy != "prioritized" ||
		*d.OnDemandBaseCapacity != 2 || d.SpotInstancePools != nil {
		t.Errorf("the distribution is %+v", d)
	}
	if s := policy.LaunchTemplate.LaunchTemplateSpecification; *s.LaunchTemplateId != w.template ||
		*s.LaunchTemplateName != "nodes" {
		t.Errorf("the template is %+v", s)
	}

	// Weights count as capacity.
	w.create("weighted", 0, 20, 8, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MixedInstancesPolicy = &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
			LaunchTemplateSpecification: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template},
			Overrides: []types.LaunchTemplateOverrides{{InstanceType: aws.String("m5.xlarge"),
				WeightedCapacity: aws.String("4")}},
		}}
		in.LaunchTemplate = nil
	})
	w.serves("weighted", 2)
	if i := w.group("weighted").Instances[0]; *i.WeightedCapacity != "4" || *i.InstanceType != "m5.xlarge" {
		t.Errorf("an instance is %+v", i)
	}

	// Types by what they have.
	w.create("required", 0, 2, 1, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MixedInstancesPolicy = &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
			LaunchTemplateSpecification: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template},
			Overrides: []types.LaunchTemplateOverrides{{InstanceRequirements: &types.InstanceRequirements{
				VCpuCount: &types.VCpuCountRequest{Min: aws.Int32(4), Max: aws.Int32(4)},
				MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(16384), Max: aws.Int32(16384)},
			}}},
		}}
		in.LaunchTemplate = nil
	})
	w.serves("required", 1)
}
