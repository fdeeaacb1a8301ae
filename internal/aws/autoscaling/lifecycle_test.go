package autoscaling_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
)

func (w *fixture) hook(name, transition, result string, timeout int32) {
	w.t.Helper()
	awstest.Must[*autoscaling.PutLifecycleHookOutput](w.t)(
		w.PutLifecycleHook(w.t.Context(), &autoscaling.PutLifecycleHookInput{
			AutoScalingGroupName: aws.String("nodes"), LifecycleHookName: &name,
			LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_" + transition), DefaultResult: &result,
			HeartbeatTimeout: &timeout,
		}),
	)
}

func (w *fixture) complete(id, hook, result string) {
	w.t.Helper()
	awstest.Must[*autoscaling.CompleteLifecycleActionOutput](w.t)(w.CompleteLifecycleAction(w.t.Context(),
		&autoscaling.CompleteLifecycleActionInput{
			AutoScalingGroupName: aws.String("nodes"), LifecycleHookName: &hook, InstanceId: &id,
			LifecycleActionResult: &result,
		}))
}

func (w *fixture) size(n int32) {
	w.t.Helper()
	awstest.Must[*autoscaling.SetDesiredCapacityOutput](w.t)(w.SetDesiredCapacity(w.t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("nodes"), DesiredCapacity: &n}))
}

// waits waits until n instances are in a state, and returns them.
func (w *fixture) waits(state types.LifecycleState, n int) []string {
	w.t.Helper()
	w.eventually("instances are in "+string(state), func() bool { return len(w.in("nodes", state)) == n })
	return w.in("nodes", state)
}

func TestLifecycleHooks(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 0, 5, 0)
	w.hook("prepare", "LAUNCHING", "ABANDON", 60)
	w.hook("drain", "TERMINATING", "CONTINUE", 60)

	// An instance waits for its hook, and goes on when it is told.
	w.size(1)
	id := w.waits(types.LifecycleStatePendingWait, 1)[0]
	if a := w.activities("nodes")[0]; a.StatusCode != types.ScalingActivityStatusCodeMidLifecycleAction {
		t.Errorf("the activity is %s", a.StatusCode)
	}
	w.complete(id, "prepare", "CONTINUE")
	w.serves("nodes", 1)

	// A heartbeat gives it more time; without one the default result comes about.
	w.size(2)
	second := w.waits(types.LifecycleStatePendingWait, 1)[0]
	w.clock.Step(50 * time.Second)
	awstest.Must[*autoscaling.RecordLifecycleActionHeartbeatOutput](t)(w.RecordLifecycleActionHeartbeat(ctx,
		&autoscaling.RecordLifecycleActionHeartbeatInput{
			AutoScalingGroupName: aws.String("nodes"), LifecycleHookName: aws.String("prepare"), InstanceId: &second,
		}))
	w.clock.Step(50 * time.Second)
	if got := w.in("nodes", types.LifecycleStatePendingWait); !slices.Equal(got, []string{second}) {
		t.Errorf("after a heartbeat %v wait, want %s", got, second)
	}
	w.size(1) // so that no other is launched in its place
	w.eventually("the pending instance is taken out",
		func() bool { return len(w.in("nodes", types.LifecycleStateTerminatingWait)) == 1 })
	gone := w.in("nodes", types.LifecycleStateTerminatingWait)[0]
	if state := awstest.Must[*ec2.DescribeInstancesOutput](t)(w.ec2.DescribeInstances(ctx,
		&ec2.DescribeInstancesInput{InstanceIds: []string{
			gone}})).Reservations[0].Instances[0].State.Name; state != "running" {
		t.Errorf("%s is %s while it waits for its hook", gone, state)
	}
	w.complete(gone, "drain", "CONTINUE")
	w.eventually("it is gone", func() bool { return len(w.group("nodes").Instances) == 1 })

	// Nobody answers: the launch is abandoned, and its end goes on by itself.
	if left := w.in("nodes", types.LifecycleStatePendingWait); len(left) == 1 {
		w.complete(left[0], "prepare", "CONTINUE")
	}
	w.serves("nodes", 1)
	w.size(2)
	third := w.waits(types.LifecycleStatePendingWait, 1)[0]
	w.eventually("the launch is abandoned", func() bool {
		w.clock.Step(20 * time.Second)
		return slices.ContainsFunc(w.activities("nodes"), func(a types.Activity) bool {
			return a.StatusCode == types.ScalingActivityStatusCodeFailed && strings.HasSuffix(*a.Description, third) &&
				strings.Contains(*a.StatusMessage, "abandoned")
		})
	})
	w.eventually("it is gone, too", func() bool {
		w.clock.Step(20 * time.Second)
		return !slices.ContainsFunc(w.group("nodes").Instances,
			func(i types.Instance) bool { return *i.InstanceId == third })
	})

	// Without the hook nothing waits any more.
	awstest.Must[*autoscaling.DeleteLifecycleHookOutput](t)(w.DeleteLifecycleHook(ctx,
		&autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: aws.String("nodes"),
			LifecycleHookName: aws.String("prepare")}))
	awstest.Must[*autoscaling.DeleteLifecycleHookOutput](t)(w.DeleteLifecycleHook(ctx,
		&autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: aws.String("nodes"),
			LifecycleHookName: aws.String("drain")}))
	w.serves("nodes", 2)
	awstest.Must[*autoscaling.DeleteAutoScalingGroupOutput](t)(w.DeleteAutoScalingGroup(ctx,
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes"),
			ForceDelete: aws.Bool(true)}))
	w.eventually("the group is gone", func() bool { return w.group("nodes").AutoScalingGroupName == nil })
}

func TestStandbyAttachAndDetach(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 1, 3, 2)
	ids := w.serves("nodes", 2)
	out := awstest.Must[*autoscaling.EnterStandbyOutput](t)(w.EnterStandby(ctx,
		&autoscaling.EnterStandbyInput{AutoScalingGroupName: aws.String("nodes"), InstanceIds: ids[:1],
			ShouldDecrementDesiredCapacity: aws.Bool(true)}))
	if want := "Moving EC2 instance to Standby: " + ids[0]; *out.Activities[0].Description != want ||
		!strings.Contains(*out.Activities[0].Cause,
			"was moved to standby in response to a user request, shrinking the capacity from 2 to 1.") {
		t.Errorf("the activity is %s: %s", *out.Activities[0].Description, *out.Activities[0].Cause)
	}
	w.waits(types.LifecycleStateStandby, 1)
	// It may be stopped without being replaced.
	awstest.Must[*ec2.StopInstancesOutput](t)(w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids[:1]}))
	w.eventually("it has stopped", func() bool {
		return awstest.Must[*ec2.DescribeInstancesOutput](t)(w.ec2.DescribeInstances(ctx,
			&ec2.DescribeInstancesInput{InstanceIds: ids[:1]})).Reservations[0].Instances[0].State.Name == "stopped"
	})
	awstest.Must[*ec2.StartInstancesOutput](t)(w.ec2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids[:1]}))
	awstest.Must[*autoscaling.ExitStandbyOutput](t)(w.ExitStandby(ctx,
		&autoscaling.ExitStandbyInput{AutoScalingGroupName: aws.String("nodes"), InstanceIds: ids[:1]}))
	if now := w.serves("nodes", 2); !slices.Equal(now, ids) {
		t.Errorf("now there are %v, want %v", now, ids)
	}

	awstest.Must[*autoscaling.DetachInstancesOutput](t)(w.DetachInstances(ctx,
		&autoscaling.DetachInstancesInput{AutoScalingGroupName: aws.String("nodes"), InstanceIds: ids[:1],
			ShouldDecrementDesiredCapacity: aws.Bool(true)}))
	w.eventually("it is detached", func() bool { return len(w.group("nodes").Instances) == 1 })
	if tags := w.tags(ids[0]); tags["aws:autoscaling:groupName"] != "" {
		t.Errorf("the tags of a detached instance are %v", tags)
	}
	if len(w.alive()) != 2 {
		t.Errorf("%d instances are alive", len(w.alive()))
	}
	awstest.Must[*autoscaling.AttachInstancesOutput](t)(w.AttachInstances(ctx,
		&autoscaling.AttachInstancesInput{AutoScalingGroupName: aws.String("nodes"), InstanceIds: ids[:1]}))
	if now := w.serves("nodes", 2); !slices.Equal(now, ids) || *w.group("nodes").DesiredCapacity != 2 {
		t.Errorf("now there are %v, want %v", now, ids)
	}
	if tags := w.tags(ids[0]); tags["aws:autoscaling:groupName"] != "nodes" {
		t.Errorf("the tags of an attached instance are %v", tags)
	}
	if a := w.activities("nodes")[0]; *a.Description != "Attaching an existing EC2 instance: "+ids[0] {
		t.Errorf("the activity is %s", *a.Description)
	}
	// Without the decrement another takes the place.
	awstest.Must[*autoscaling.DetachInstancesOutput](t)(w.DetachInstances(ctx,
		&autoscaling.DetachInstancesInput{AutoScalingGroupName: aws.String("nodes"), InstanceIds: ids[1:],
			ShouldDecrementDesiredCapacity: aws.Bool(false)}))
	w.eventually("another takes its place", func() bool {
		now := w.in("nodes", types.LifecycleStateInService)
		return len(now) == 2 && !slices.Contains(now, ids[1])
	})
}

func TestSuspendedProcesses(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 0, 3, 1)
	id := w.serves("nodes", 1)[0]
	awstest.Must[*autoscaling.SuspendProcessesOutput](t)(w.SuspendProcesses(ctx,
		&autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String("nodes"),
			ScalingProcesses: []string{"Launch", "ReplaceUnhealthy"}}))
	if p := w.group("nodes").SuspendedProcesses; len(p) != 2 || *p[0].ProcessName != "Launch" ||
		!strings.HasPrefix(*p[0].SuspensionReason, "User suspended at ") {
		t.Errorf("suspended are %+v", p)
	}
	awstest.Must[*ec2.TerminateInstancesOutput](t)(w.ec2.TerminateInstances(ctx,
		&ec2.TerminateInstancesInput{InstanceIds: []string{id}}))
	w.eventually("it is unhealthy", func() bool {
		i := w.group("nodes").Instances
		return len(i) == 1 && *i[0].HealthStatus == "Unhealthy"
	})
	awstest.Must[*autoscaling.ResumeProcessesOutput](t)(w.ResumeProcesses(ctx,
		&autoscaling.ResumeProcessesInput{AutoScalingGroupName: aws.String("nodes"),
			ScalingProcesses: []string{"ReplaceUnhealthy"}}))
	w.eventually("it is gone and nothing is launched", func() bool { return len(w.group("nodes").Instances) == 0 })
	awstest.Must[*autoscaling.ResumeProcessesOutput](t)(w.ResumeProcesses(ctx,
		&autoscaling.ResumeProcessesInput{AutoScalingGroupName: aws.String("nodes")}))
	w.serves("nodes", 1)
}

func TestProtectedInstancesStay(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 0, 3, 3, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.NewInstancesProtectedFromScaleIn = aws.Bool(true)
	})
	ids := w.serves("nodes", 3)
	w.size(0)
	awstest.Must[*autoscaling.SetInstanceProtectionOutput](t)(w.SetInstanceProtection(ctx,
		&autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: aws.String("nodes"), InstanceIds: ids[1:2],
			ProtectedFromScaleIn: aws.Bool(false)}))
	if left := w.serves("nodes", 2); slices.Contains(left, ids[1]) {
		t.Errorf("%v are left", left)
	}
}

func TestTheGracePeriodIsRespected(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("nodes", 1, 1, 1,
		func(in *autoscaling.CreateAutoScalingGroupInput) { in.HealthCheckGracePeriod = aws.Int32(300) })
	id := w.serves("nodes", 1)[0]
	awstest.Must[*autoscaling.SetInstanceHealthOutput](t)(w.SetInstanceHealth(t.Context(),
		&autoscaling.SetInstanceHealthInput{InstanceId: &id, HealthStatus: aws.String("Unhealthy")}))
	w.clock.Step(200 * time.Second)
	if now := w.in("nodes", types.LifecycleStateInService); !slices.Equal(now, []string{id}) {
		t.Errorf("within the grace period there are %v", now)
	}
	w.eventually("it is replaced once that is over", func() bool {
		w.clock.Step(50 * time.Second)
		now := w.in("nodes", types.LifecycleStateInService)
		return len(now) == 1 && now[0] != id
	})
}

func TestInstancesDoNotOutliveTheirTime(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("nodes", 2, 2, 2, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MaxInstanceLifetime = aws.Int32(
			86400)
	})
	before := w.serves("nodes", 2)
	w.clock.Step(25 * time.Hour)
	w.eventually("both are replaced", func() bool {
		now := w.in("nodes", types.LifecycleStateInService)
		return len(now) == 2 && !slices.Contains(now, before[0]) && !slices.Contains(now, before[1])
	})
}
