package autoscaling_test

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
)

// version makes a new version of the launch template.
func (w *fixture) version(kind ec2types.InstanceType) {
	w.t.Helper()
	awstest.Must[*ec2.CreateLaunchTemplateVersionOutput](w.t)(w.ec2.CreateLaunchTemplateVersion(w.t.Context(),
		&ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateId: &w.template, SourceVersion: aws.String("1"),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: kind},
		}))
}

func (w *fixture) refresh(in *autoscaling.StartInstanceRefreshInput) string {
	w.t.Helper()
	in.AutoScalingGroupName = aws.String("nodes")
	return *awstest.Must[*autoscaling.StartInstanceRefreshOutput](w.t)(w.StartInstanceRefresh(w.t.Context(),
		in)).InstanceRefreshId
}

// refreshes lets time pass, some at a time, until the newest instance refresh has a status.
func (w *fixture) refreshes(status types.InstanceRefreshStatus, some time.Duration) types.InstanceRefresh {
	w.t.Helper()
	var r types.InstanceRefresh
	w.eventually("the refresh is "+string(status), func() bool {
		w.clock.Step(some)
		r = awstest.Must[*autoscaling.DescribeInstanceRefreshesOutput](w.t)(w.DescribeInstanceRefreshes(w.t.Context(),
			&autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: aws.String(
				"nodes")})).InstanceRefreshes[0]
		return r.Status == status
	})
	return r
}

// versions returns the launch template versions of the instances, sorted.
func (w *fixture) versions() []string {
	var all []string
	for _, i := range w.group("nodes").Instances {
		all = append(all, *i.LaunchTemplate.Version)
	}
	slices.Sort(all)
	return all
}

func TestInstanceRefresh(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 0, 6, 4,
		func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate.Version = aws.String("1") })
	w.serves("nodes", 4)
	w.version("m5.xlarge")
	w.clock.Step(time.Minute)

	// To another version, which the group has afterwards; never fewer than half of the instances are in service.
	id := w.refresh(&autoscaling.StartInstanceRefreshInput{
		DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: &types.LaunchTemplateSpecification{
			LaunchTemplateId: &w.template, Version: aws.String("2")}},
		Preferences: &types.RefreshPreferences{MinHealthyPercentage: aws.Int32(50),
			InstanceWarmup: aws.Int32(10), SkipMatching: aws.Bool(true)},
	})
	_, err := w.StartInstanceRefresh(ctx,
		&autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: aws.String("nodes")})
	if got := awstest.Code(err); got != "InstanceRefreshInProgress" {
		t.Errorf("a second one at the same time: %v", err)
	}
	done := w.refreshes(types.InstanceRefreshStatusSuccessful, 5*time.Second)
	if *done.InstanceRefreshId != id || *done.PercentageComplete != 100 || *done.InstancesToUpdate != 0 ||
		done.EndTime == nil {
		t.Errorf("the refresh is %+v", done)
	}
	w.serves("nodes", 4)
	if v := w.versions(); !slices.Equal(v, []string{"2", "2", "2", "2"}) {
		t.Errorf("the versions are %v", v)
	}
	if v := *w.group("nodes").LaunchTemplate.Version; v != "2" {
		t.Errorf("the group launches version %s", v)
	}

	// Nothing to do: what matches is skipped.
	before := w.serves("nodes", 4)
	w.clock.Step(time.Minute)
	w.refresh(&autoscaling.StartInstanceRefreshInput{Preferences: &types.RefreshPreferences{
		SkipMatching: aws.Bool(true)}})
	w.refreshes(types.InstanceRefreshStatusSuccessful, 5*time.Second)
	if now := w.serves("nodes", 4); !slices.Equal(now, before) {
		t.Errorf("%v became %v", before, now)
	}

	// New ones first, when there may be more than are desired.
	w.clock.Step(time.Minute)
	w.refresh(&autoscaling.StartInstanceRefreshInput{Preferences: &types.RefreshPreferences{
		MinHealthyPercentage: aws.Int32(100), MaxHealthyPercentage: aws.Int32(150)}})
	w.refreshes(types.InstanceRefreshStatusSuccessful, 5*time.Second)
	now := w.serves("nodes", 4)
	if slices.ContainsFunc(now, func(id string) bool { return slices.Contains(before, id) }) {
		t.Errorf("%v became %v", before, now)
	}
}

func TestInstanceRefreshIsRolledBackOrCancelled(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 0, 6, 2,
		func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate.Version = aws.String("1") })
	w.serves("nodes", 2)
	w.version("m5.xlarge")
	w.clock.Step(time.Minute)
	to := &types.DesiredConfiguration{LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template,
		Version: aws.String("2")}}
	slow := &types.RefreshPreferences{MinHealthyPercentage: aws.Int32(50), InstanceWarmup: aws.Int32(100_000)}
	w.refresh(&autoscaling.StartInstanceRefreshInput{DesiredConfiguration: to, Preferences: slow})
	w.eventually("one is replaced", func() bool {
		return slices.Contains(w.versions(), "2") && len(w.in("nodes", types.LifecycleStateInService)) == 2
	})
	w.clock.Step(time.Minute)
	awstest.Must[*autoscaling.RollbackInstanceRefreshOutput](t)(w.RollbackInstanceRefresh(ctx,
		&autoscaling.RollbackInstanceRefreshInput{AutoScalingGroupName: aws.String("nodes")}))
	r := w.refreshes(types.InstanceRefreshStatusRollbackSuccessful, 50_000*time.Second)
	w.eventually("the one of the other version has terminated", func() bool {
		return slices.Equal(w.versions(), []string{"1", "1"})
	})
	if r.RollbackDetails == nil || *r.RollbackDetails.RollbackReason == "" {
		t.Errorf("the refresh is %+v", r)
	}
	if v := *w.group("nodes").LaunchTemplate.Version; v != "1" {
		t.Errorf("the group launches version %s", v)
	}

	w.refresh(&autoscaling.StartInstanceRefreshInput{DesiredConfiguration: to, Preferences: slow})
	w.eventually("one is replaced", func() bool {
		return slices.Contains(w.versions(), "2") && len(w.in("nodes", types.LifecycleStateInService)) == 2
	})
	awstest.Must[*autoscaling.CancelInstanceRefreshOutput](t)(w.CancelInstanceRefresh(ctx,
		&autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: aws.String("nodes")}))
	w.refreshes(types.InstanceRefreshStatusCancelled, time.Second)
	w.eventually("the one that was replaced has terminated, and no other", func() bool {
		return slices.Equal(w.versions(), []string{"1", "2"})
	})
}

func TestScheduledActions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 0, 5, 0)
	start := w.clock.Now().Add(time.Hour)
	awstest.Must[*autoscaling.PutScheduledUpdateGroupActionOutput](t)(w.PutScheduledUpdateGroupAction(ctx,
		&autoscaling.PutScheduledUpdateGroupActionInput{
			AutoScalingGroupName: aws.String("nodes"), ScheduledActionName: aws.String("morning"), StartTime: &start,
			DesiredCapacity: aws.Int32(2),
		}))
	awstest.Must[*autoscaling.PutScheduledUpdateGroupActionOutput](t)(w.PutScheduledUpdateGroupAction(ctx,
		&autoscaling.PutScheduledUpdateGroupActionInput{
			AutoScalingGroupName: aws.String("nodes"), ScheduledActionName: aws.String("weekly"),
			Recurrence: aws.String("0 8 * * MON"), TimeZone: aws.String("Europe/Berlin"), MaxSize: aws.Int32(5),
		}))
	actions := awstest.Must[*autoscaling.DescribeScheduledActionsOutput](t)(w.DescribeScheduledActions(ctx,
		&autoscaling.DescribeScheduledActionsInput{AutoScalingGroupName: aws.String(
			"nodes")})).ScheduledUpdateGroupActions
	if len(actions) != 2 || actions[1].StartTime.Weekday() != time.Monday || !actions[0].StartTime.Equal(start) {
		t.Errorf("the actions are %+v", actions)
	}
	w.clock.Step(61 * time.Minute)
	w.serves("nodes", 2)
	actions = awstest.Must[*autoscaling.DescribeScheduledActionsOutput](t)(w.DescribeScheduledActions(ctx,
		&autoscaling.DescribeScheduledActionsInput{AutoScalingGroupName: aws.String(
			"nodes")})).ScheduledUpdateGroupActions
	if len(actions) != 1 || *actions[0].ScheduledActionName != "weekly" {
		t.Errorf("then the actions are %+v", actions)
	}
}

func TestScalingPolicies(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("nodes", 0, 10, 4)
	w.serves("nodes", 4)
	execute := func(policy string, metric *float64) {
		t.Helper()
		in := &autoscaling.ExecutePolicyInput{AutoScalingGroupName: aws.String("nodes"), PolicyName: &policy}
		if metric != nil {
			in.MetricValue, in.BreachThreshold = metric, aws.Float64(50)
		}
		awstest.Must[*autoscaling.ExecutePolicyOutput](t)(w.ExecutePolicy(ctx, in))
	}
	put := func(in autoscaling.PutScalingPolicyInput) {
		t.Helper()
		in.AutoScalingGroupName = aws.String("nodes")
		awstest.Must[*autoscaling.PutScalingPolicyOutput](t)(w.PutScalingPolicy(ctx, &in))
	}
	put(autoscaling.PutScalingPolicyInput{PolicyName: aws.String("half"),
		AdjustmentType: aws.String("PercentChangeInCapacity"), ScalingAdjustment: aws.Int32(-50)})
	put(autoscaling.PutScalingPolicyInput{PolicyName: aws.String("steps"), PolicyType: aws.String("StepScaling"),
		AdjustmentType: aws.String("ChangeInCapacity"), StepAdjustments: []types.StepAdjustment{
			{MetricIntervalLowerBound: aws.Float64(0), MetricIntervalUpperBound: aws.Float64(20),
				ScalingAdjustment: aws.Int32(1)},
			{MetricIntervalLowerBound: aws.Float64(20), ScalingAdjustment: aws.Int32(3)},
		}})
	execute("half", nil)
	w.serves("nodes", 2)
	execute("steps", aws.Float64(60))
	w.serves("nodes", 3)
	execute("steps", aws.Float64(90))
	w.serves("nodes", 6)
	if p := awstest.Must[*autoscaling.DescribePoliciesOutput](t)(w.DescribePolicies(ctx,
		&autoscaling.DescribePoliciesInput{AutoScalingGroupName: aws.String("nodes"),
			PolicyTypes: []string{"StepScaling"}})).ScalingPolicies; len(p) != 1 || len(p[0].StepAdjustments) != 2 {
		t.Errorf("the policies are %+v", p)
	}
}
