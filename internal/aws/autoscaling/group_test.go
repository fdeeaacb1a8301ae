package autoscaling_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestAGroupsLife(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 1, 6, 3, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.Tags = []types.Tag{
			{Key: aws.String("kubernetes.io/cluster/demo"), Value: aws.String("owned"),
				PropagateAtLaunch: aws.Bool(true)},
			{Key: aws.String("mine"), Value: aws.String("alone"), PropagateAtLaunch: aws.Bool(false)},
		}
	})
	ids := w.serves("nodes", 3)
	g := w.group("nodes")
	if !strings.HasPrefix(*g.AutoScalingGroupARN, "arn:aws:autoscaling:eu-west-1:111122223333:autoScalingGroup:") ||
		!strings.HasSuffix(*g.AutoScalingGroupARN, ":autoScalingGroupName/nodes") ||
		*g.ServiceLinkedRoleARN != roleARN || *g.HealthCheckType != "EC2" || *g.DefaultCooldown != 300 ||
		*g.LaunchTemplate.LaunchTemplateName != "nodes" {
		t.Errorf("the group is %+v", g)
	}
	zones := map[string]int{}
	for _, i := range g.Instances {
		zones[*i.AvailabilityZone]++
		if *i.HealthStatus != "Healthy" || *i.InstanceType != "m5.large" || *i.LaunchTemplate.Version != "1" ||
			*i.ProtectedFromScaleIn {
			t.Errorf("an instance is %+v", i)
		}
	}
	if len(zones) != 3 {
		t.Errorf("the zones are %v", zones)
	}
	tags := w.tags(ids[0])
	if tags["aws:autoscaling:groupName"] != "nodes" || tags["aws:ec2launchtemplate:id"] != w.template ||
		tags["aws:ec2launchtemplate:version"] != "1" ||
		tags["kubernetes.io/cluster/demo"] != "owned" || tags["mine"] != "" {
		t.Errorf("the tags are %v", tags)
	}
	a := w.activities("nodes")
	if len(a) != 3 {
		t.Fatalf("%d activities", len(a))
	}
	first := a[len(a)-1]
	if first.StatusCode != types.ScalingActivityStatusCodeSuccessful || *first.Progress != 100 ||
		first.EndTime == nil || !strings.HasPrefix(*first.Description, "Launching a new EC2 instance: i-") ||
		!strings.Contains(*first.Cause,
			"Z a user request created an AutoScalingGroup changing the desired capacity from 0 to 3.  At ") ||
		!strings.Contains(*first.Cause,
			"an instance was started in response to a difference between desired and actual capacity, increasing the "+
				"capacity from 0 to 3.") ||
		!strings.Contains(*first.Details, `"Subnet ID":"subnet-`) {
		t.Errorf("the first activity is %s %s: %s %s", first.StatusCode, *first.Description, *first.Cause,
			*first.Details)
	}
	if what := w.runs[0].ClientToken; what == nil || *what == "" {
		t.Error("a launch has no client token")
	}

	// Larger and smaller.
	awstest.Must[*autoscaling.SetDesiredCapacityOutput](t)(w.SetDesiredCapacity(ctx,
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("nodes"), DesiredCapacity: aws.Int32(6)}))
	w.serves("nodes", 6)
	awstest.Must[*autoscaling.UpdateAutoScalingGroupOutput](t)(w.UpdateAutoScalingGroup(ctx,
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes"), MaxSize: aws.Int32(2)}))
	w.serves("nodes", 2)
	w.eventually("EC2 has two", func() bool { return len(w.alive()) == 2 })
	a = w.activities("nodes")
	if last := a[0]; !strings.HasPrefix(*last.Description, "Terminating EC2 instance: i-") ||
		!strings.Contains(*last.Cause,
			"Z a user request update of AutoScalingGroup constraints to min: 1, max: 2, desired: 2 changing the "+
				"desired capacity from 6 to 2.  At ") ||
		!strings.Contains(*last.Cause,
			"an instance was taken out of service in response to a difference between desired and actual capacity, "+
				"shrinking the capacity from 6 to 2.") ||
		strings.Count(*last.Cause, "was selected for termination.") != 4 {
		t.Errorf("the last activity is %s: %s", *last.Description, *last.Cause)
	}

	// An instance that a user terminates goes with the capacity, or is replaced.
	left := w.in("nodes", types.LifecycleStateInService)
	out := awstest.Must[*autoscaling.TerminateInstanceInAutoScalingGroupOutput](t)(
		w.TerminateInstanceInAutoScalingGroup(ctx,
			&autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &left[0],
				ShouldDecrementDesiredCapacity: aws.Bool(true)}),
	)
	if *out.Activity.Description != "Terminating EC2 instance: "+left[0] || !strings.Contains(*out.Activity.Cause,
		"instance "+left[0]+
			" was taken out of service in response to a user request, shrinking the capacity from 2 to 1.") {
		t.Errorf("the activity is %s: %s", *out.Activity.Description, *out.Activity.Cause)
	}
	if now := w.serves("nodes", 1); now[0] != left[1] {
		t.Errorf("%s is left, want %s", now[0], left[1])
	}
	if a := w.activities("nodes")[0]; *a.ActivityId != *out.Activity.ActivityId {
		t.Errorf("the activity that was answered is not the one that there is: %s", *a.Cause)
	}
	awstest.Must[*autoscaling.TerminateInstanceInAutoScalingGroupOutput](t)(w.TerminateInstanceInAutoScalingGroup(ctx,
		&autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &left[1],
			ShouldDecrementDesiredCapacity: aws.Bool(false)}))
	w.eventually("another takes its place", func() bool {
		now := w.in("nodes", types.LifecycleStateInService)
		return len(now) == 1 && now[0] != left[1]
	})

	// The end.
	_, err := w.DeleteAutoScalingGroup(ctx,
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes")})
	if got, message, _ := awstest.Failure(err); got != "ResourceInUse" && got != "ScalingActivityInProgress" ||
		!strings.Contains(message, "You cannot delete an AutoScalingGroup while there are") {
		t.Errorf("delete a group with instances: %v", err)
	}
	awstest.Must[*autoscaling.DeleteAutoScalingGroupOutput](t)(w.DeleteAutoScalingGroup(ctx,
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes"),
			ForceDelete: aws.Bool(true)}))
	w.eventually("the group is gone", func() bool { return w.group("nodes").AutoScalingGroupName == nil })
	if alive := w.alive(); len(alive) != 0 {
		t.Errorf("%d instances live on", len(alive))
	}
	for what, n := range map[string]int{
		"members": rows(t, record.AutoScalingInstances(w.store)), "orders": rows(t, record.AutoScalingOrders(w.store)),
		"activities": rows(t, record.AutoScalingActivities(w.store)),
		"launches":   rows(t, record.AutoScalingLaunches(w.store)),
		"statuses":   rows(t, record.AutoScalingGroupStatuses(w.store)),
	} {
		if n != 0 {
			t.Errorf("%d rows of %s are left", n, what)
		}
	}
}

func TestIllInstancesAreReplaced(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 2, 2, 2)
	ids := w.serves("nodes", 2)
	replaced := func(id, why string) {
		t.Helper()
		w.eventually(id+" is replaced", func() bool {
			now := w.in("nodes", types.LifecycleStateInService)
			return len(now) == 2 && !slices.Contains(now, id) && len(w.group("nodes").Instances) == 2
		})
		if !slices.ContainsFunc(w.activities("nodes"), func(a types.Activity) bool {
			return *a.Description == "Terminating EC2 instance: "+id && strings.Contains(*a.Cause,
				"an instance was taken out of service in response to "+why+".")
		}) {
			t.Errorf("no activity says of %s %q", id, why)
		}
	}
	awstest.Must[*ec2.TerminateInstancesOutput](t)(w.ec2.TerminateInstances(ctx,
		&ec2.TerminateInstancesInput{InstanceIds: ids[:1]}))
	replaced(ids[0], "an EC2 health check indicating it has been terminated or stopped")
	if !slices.ContainsFunc(w.activities("nodes"), func(a types.Activity) bool {
		return strings.Contains(*a.Cause,
			"an instance was launched in response to an unhealthy instance needing to be replaced.")
	}) {
		t.Error("no activity says that an unhealthy instance was replaced")
	}
	awstest.Must[*ec2.StopInstancesOutput](t)(w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids[1:]}))
	replaced(ids[1], "an EC2 health check indicating it has been terminated or stopped")

	ids = w.serves("nodes", 2)
	w.machine(ids[0], func(m *record.Machine) { m.InstanceStatus = "impaired" })
	replaced(ids[0], "an EC2 instance status checks failure")
	awstest.Must[*autoscaling.SetInstanceHealthOutput](t)(w.SetInstanceHealth(ctx,
		&autoscaling.SetInstanceHealthInput{InstanceId: &ids[1], HealthStatus: aws.String("Unhealthy")}))
	replaced(ids[1], "a user health-check")
}

// A group that has the name now says nothing of the one that is created.
func TestCreationIsAuthorizedByTheRequestAlone(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("g", 0, 1, 0, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.Tags = []types.Tag{{Key: aws.String("team"), Value: aws.String("crew")}}
	})
	w.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), MinSize: aws.Int32(0), MaxSize: aws.Int32(1),
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	var last wire.Target
	for _, asked := range w.Asked {
		if asked.Action == "autoscaling:CreateAutoScalingGroup" {
			last = asked
		}
	}
	if last.Conditions["aws:ResourceTag/team"] != nil || !strings.Contains(last.Resource, ":autoScalingGroup:*:") {
		t.Errorf("the second creation was authorized on %+v", last)
	}
}
