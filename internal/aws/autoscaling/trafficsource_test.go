package autoscaling_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// classic and balancing return clients of Elastic Load Balancing inside the process.
func (w *fixture) classic(accessKey string) *classic.Client {
	return classic.New(classic.Options{
		Region: region, BaseEndpoint: aws.String("http://coracle.internal"), RetryMaxAttempts: 1,
		HTTPClient:  &http.Client{Transport: w.mux.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, "secret", ""),
	})
}

func (w *fixture) balancing(accessKey string) *v2.Client {
	return v2.New(v2.Options{
		Region: region, BaseEndpoint: aws.String("http://coracle.internal"), RetryMaxAttempts: 1,
		HTTPClient:  &http.Client{Transport: w.mux.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, "secret", ""),
	})
}

// targetGroup makes a target group with a deregistration delay, behind a Network Load Balancer.
func (w *fixture) targetGroup(name, delay string) string {
	w.t.Helper()
	ctx, c := w.t.Context(), w.balancing("AKIAROOT")
	arn := awstest.Must[*v2.CreateTargetGroupOutput](w.t)(c.CreateTargetGroup(ctx, &v2.CreateTargetGroupInput{Name: &name,
		Protocol: "TCP", Port: aws.Int32(80), VpcId: &w.vpc})).TargetGroups[0].TargetGroupArn
	awstest.Must[*v2.ModifyTargetGroupAttributesOutput](w.t)(c.ModifyTargetGroupAttributes(ctx,
		&v2.ModifyTargetGroupAttributesInput{TargetGroupArn: arn, Attributes: []v2types.TargetGroupAttribute{{
			Key: aws.String("deregistration_delay.timeout_seconds"), Value: &delay}}}))
	balancer := awstest.Must[*v2.CreateLoadBalancerOutput](w.t)(c.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{
		Name: &name, Type: "network", Scheme: "internal", Subnets: w.subnets[:1]})).LoadBalancers[0].LoadBalancerArn
	awstest.Must[*v2.CreateListenerOutput](w.t)(c.CreateListener(ctx, &v2.CreateListenerInput{LoadBalancerArn: balancer,
		Protocol: "TCP", Port: aws.Int32(80), DefaultActions: []v2types.Action{{Type: "forward",
			TargetGroupArn: arn}}}))
	return *arn
}

// classicBalancer makes a Classic Load Balancer whose connections drain for a minute.
func (w *fixture) classicBalancer(name string) {
	w.t.Helper()
	ctx, c := w.t.Context(), w.classic("AKIAROOT")
	awstest.Must[*classic.CreateLoadBalancerOutput](w.t)(c.CreateLoadBalancer(ctx, &classic.CreateLoadBalancerInput{
		LoadBalancerName: &name, Subnets: w.subnets[:1], Scheme: aws.String("internal"),
		Listeners: []classictypes.Listener{{Protocol: aws.String("TCP"), LoadBalancerPort: 80,
			InstancePort: aws.Int32(80)}}}))
	awstest.Must[*classic.ModifyLoadBalancerAttributesOutput](w.t)(c.ModifyLoadBalancerAttributes(ctx,
		&classic.ModifyLoadBalancerAttributesInput{LoadBalancerName: &name,
			LoadBalancerAttributes: &classictypes.LoadBalancerAttributes{ConnectionDraining: &classictypes.ConnectionDraining{
				Enabled: true, Timeout: aws.Int32(60)}}}))
}

// targetsIn returns the targets of a target group, sorted: those that are draining, or the others.
func (w *fixture) targetsIn(group string, draining bool) (ids []string) {
	w.t.Helper()
	for _, d := range awstest.Must[*v2.DescribeTargetHealthOutput](w.t)(w.balancing("AKIAROOT").DescribeTargetHealth(
		w.t.Context(), &v2.DescribeTargetHealthInput{TargetGroupArn: &group})).TargetHealthDescriptions {
		if (d.TargetHealth.State == v2types.TargetHealthStateEnumDraining) == draining {
			ids = append(ids, *d.Target.Id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (w *fixture) targets(group string) []string { return w.targetsIn(group, false) }

// observe records that a target of a target group is in a state.
func (w *fixture) observe(group, id, state string) {
	w.t.Helper()
	ctx := w.t.Context()
	name, _ := record.TargetGroupName(group)
	row, err := record.TargetGroups(w.store).Get(ctx, record.TargetGroupKey(account, region, name))
	if err != nil {
		w.t.Fatal(err)
	}
	g := row.Value
	all := map[string]record.TargetState{}
	if before, err := record.TargetHealths(w.store).Get(ctx, g.TargetHealthKey()); err == nil {
		for name, state := range before.Value.Targets {
			all[name] = state
		}
	}
	for _, t := range g.Targets {
		if t.ID == id {
			all[id+":80"] = record.TargetState{RegisteredAt: t.RegisteredAt, State: state}
		}
	}
	if _, err := record.TargetHealths(w.store).Put(ctx, g.TargetHealthKey(), record.TargetHealth{Owner: g.ID,
		Targets: all}); err != nil {
		w.t.Fatal(err)
	}
}

// traffic returns the states of the traffic sources of a group, by what identifies them.
func (w *fixture) traffic(name string) map[string]string {
	w.t.Helper()
	states := map[string]string{}
	for _, s := range awstest.Must[*autoscaling.DescribeTrafficSourcesOutput](w.t)(w.DescribeTrafficSources(w.t.Context(),
		&autoscaling.DescribeTrafficSourcesInput{AutoScalingGroupName: &name})).TrafficSources {
		states[*s.Identifier] = *s.State
	}
	return states
}

// hasActivity reports whether a group has an activity with that status and those texts.
func (w *fixture) hasActivity(name string, code types.ScalingActivityStatusCode, texts ...string) bool {
	return slices.ContainsFunc(w.activities(name), func(a types.Activity) bool {
		all := *a.Description + "\n" + *a.Cause + "\n" + aws.ToString(a.StatusMessage)
		return a.StatusCode == code && !slices.ContainsFunc(texts, func(t string) bool { return !strings.Contains(all, t) })
	})
}

func withTargets(group string) func(*autoscaling.CreateAutoScalingGroupInput) {
	return func(in *autoscaling.CreateAutoScalingGroupInput) { in.TargetGroupARNs = []string{group} }
}

// TestInstancesAreRegisteredWhileTheyServe takes instances into a target group and out of it again: their connections
// drain first, then hooks have their turn, and then they are terminated.
func TestInstancesAreRegisteredWhileTheyServe(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	group := w.targetGroup("web", "120")
	w.create("nodes", 0, 3, 2, withTargets(group), func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.LifecycleHookSpecificationList = []types.LifecycleHookSpecification{{LifecycleHookName: aws.String("bye"),
			LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_TERMINATING")}}
	})
	ids := w.serves("nodes", 2)
	if got := w.targets(group); !slices.Equal(got, ids) {
		t.Errorf("in service are %v, and registered are %v", ids, got)
	}
	w.eventually("the target group is added", func() bool { return w.traffic("nodes")[group] == "Added" })
	g := w.group("nodes")
	if !slices.Equal(g.TargetGroupARNs, []string{group}) || len(g.TrafficSources) != 1 || len(g.LoadBalancerNames) > 0 {
		t.Errorf("the group is %+v", g)
	}
	if !w.hasActivity("nodes", "Successful", "Updating load balancers/target groups: Successful. Status Reason: Added: "+
		group+" (Target Group).") {
		t.Error("no activity tells that the target group was added")
	}

	w.size(1)
	w.eventually("an instance drains", func() bool { return len(w.in("nodes", "Terminating")) == 1 })
	leaving := w.in("nodes", "Terminating")
	w.eventually("it is deregistered", func() bool { return slices.Equal(w.targetsIn(group, true), leaving) })
	if !w.hasActivity("nodes", "WaitingForELBConnectionDraining", "Terminating EC2 instance: "+leaving[0]) {
		t.Error("no activity waits for the connections")
	}
	if len(w.alive()) != 2 {
		t.Error("it was terminated before its connections had drained")
	}
	w.clock.Step(121 * time.Second)
	w.eventually("its hook has its turn",
		func() bool { return slices.Equal(w.in("nodes", "Terminating:Wait"), leaving) })
	awstest.Must[*autoscaling.CompleteLifecycleActionOutput](t)(w.CompleteLifecycleAction(t.Context(),
		&autoscaling.CompleteLifecycleActionInput{AutoScalingGroupName: aws.String("nodes"),
			LifecycleHookName: aws.String("bye"), InstanceId: &leaving[0], LifecycleActionResult: aws.String("CONTINUE")}))
	if left := w.serves("nodes", 1); !slices.Equal(w.targets(group), left) {
		t.Errorf("in service are %v, and registered are %v", left, w.targets(group))
	}
}

// TestTrafficSourcesComeAndGo attaches a Classic Load Balancer and a target group to a group that serves, and detaches
// them.
func TestTrafficSourcesComeAndGo(t *testing.T) {
	t.Parallel()
	w, ctx, name := newFixture(t), t.Context(), aws.String("nodes")
	group := w.targetGroup("web", "120")
	w.classicBalancer("old")
	w.create("nodes", 0, 3, 1)
	ids := w.serves("nodes", 1)
	sources := []types.TrafficSourceIdentifier{{Identifier: aws.String("old"), Type: aws.String("elb")},
		{Identifier: &group}}
	registered := func() bool {
		d := awstest.Must[*classic.DescribeLoadBalancersOutput](t)(w.classic("AKIAROOT").DescribeLoadBalancers(ctx,
			&classic.DescribeLoadBalancersInput{})).LoadBalancerDescriptions[0]
		return len(d.Instances) == 1 && *d.Instances[0].InstanceId == ids[0] && slices.Equal(w.targets(group), ids)
	}
	for range 2 { // once more is no error
		awstest.Must[*autoscaling.AttachTrafficSourcesOutput](t)(w.AttachTrafficSources(ctx,
			&autoscaling.AttachTrafficSourcesInput{AutoScalingGroupName: name, TrafficSources: sources}))
	}
	w.eventually("both are added", func() bool {
		got := w.traffic("nodes")
		return got["old"] == "Added" && got[group] == "Added"
	})
	if !registered() {
		t.Error("the instance is not registered")
	}
	if out := awstest.Must[*autoscaling.DescribeLoadBalancersOutput](t)(w.DescribeLoadBalancers(ctx,
		&autoscaling.DescribeLoadBalancersInput{AutoScalingGroupName: name})); len(out.LoadBalancers) != 0 {
		t.Errorf("traffic sources are shown as load balancers: %+v", out.LoadBalancers)
	}
	awstest.Must[*autoscaling.DetachTrafficSourcesOutput](t)(w.DetachTrafficSources(ctx,
		&autoscaling.DetachTrafficSourcesInput{AutoScalingGroupName: name, TrafficSources: sources}))
	w.eventually("both drain", func() bool { return !registered() && len(w.targetsIn(group, true)) == 1 })
	if got := w.traffic("nodes"); got["old"] != "Removing" || got[group] != "Removing" {
		t.Errorf("the states are %v", got)
	}
	// Attached again while they drain, the instance is registered again.
	awstest.Must[*autoscaling.AttachLoadBalancersOutput](t)(w.AttachLoadBalancers(ctx,
		&autoscaling.AttachLoadBalancersInput{AutoScalingGroupName: name, LoadBalancerNames: []string{"old"}}))
	awstest.Must[*autoscaling.AttachLoadBalancerTargetGroupsOutput](t)(w.AttachLoadBalancerTargetGroups(ctx,
		&autoscaling.AttachLoadBalancerTargetGroupsInput{AutoScalingGroupName: name, TargetGroupARNs: []string{group}}))
	w.eventually("both are added again", func() bool {
		balancers := awstest.Must[*autoscaling.DescribeLoadBalancersOutput](t)(w.DescribeLoadBalancers(ctx,
			&autoscaling.DescribeLoadBalancersInput{AutoScalingGroupName: name})).LoadBalancers
		groups := awstest.Must[*autoscaling.DescribeLoadBalancerTargetGroupsOutput](t)(w.DescribeLoadBalancerTargetGroups(
			ctx, &autoscaling.DescribeLoadBalancerTargetGroupsInput{AutoScalingGroupName: name})).LoadBalancerTargetGroups
		return len(balancers) == 1 && *balancers[0].State == "Added" && len(groups) == 1 && *groups[0].State == "Added" &&
			registered()
	})
	awstest.Must[*autoscaling.DetachLoadBalancersOutput](t)(w.DetachLoadBalancers(ctx,
		&autoscaling.DetachLoadBalancersInput{AutoScalingGroupName: name, LoadBalancerNames: []string{"old"}}))
	awstest.Must[*autoscaling.DetachLoadBalancerTargetGroupsOutput](t)(w.DetachLoadBalancerTargetGroups(ctx,
		&autoscaling.DetachLoadBalancerTargetGroupsInput{AutoScalingGroupName: name, TargetGroupARNs: []string{group}}))
	w.eventually("both drain again", func() bool { return len(w.targetsIn(group, true)) == 1 })
	w.clock.Step(121 * time.Second)
	w.eventually("both are gone", func() bool { return len(w.traffic("nodes")) == 0 })
	if got := w.serves("nodes", 1); !slices.Equal(got, ids) {
		t.Errorf("the instance was replaced: %v, %v", ids, got)
	}
}

// TestLoadBalancersFindInstancesIll replaces an instance that a load balancer finds unhealthy, once one of the group
// has been healthy and the grace period is over.
func TestLoadBalancersFindInstancesIll(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	group := w.targetGroup("web", "0")
	w.create("nodes", 0, 3, 2, withTargets(group), func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.HealthCheckType, in.HealthCheckGracePeriod = aws.String("ELB"), aws.Int32(60)
	})
	ids := w.serves("nodes", 2)
	w.eventually("the target group is added", func() bool { return w.traffic("nodes")[group] == "Added" })
	w.clock.Step(61 * time.Second)
	for _, id := range ids { // as long as none has been healthy, it does not count
		w.observe(group, id, record.TargetUnhealthy)
	}
	for _, id := range ids {
		w.observe(group, id, record.TargetInitial)
	}
	w.observe(group, ids[0], record.TargetHealthy)
	w.observe(group, ids[1], record.TargetHealthy)
	w.eventually("the target group is in service", func() bool { return w.traffic("nodes")[group] == "InService" })
	if got := w.serves("nodes", 2); !slices.Equal(got, ids) {
		t.Fatalf("%v became %v", ids, got)
	}
	w.observe(group, ids[0], record.TargetUnhealthy)
	w.eventually("the instance is replaced", func() bool {
		now := w.in("nodes", "InService")
		return len(now) == 2 && !slices.Contains(now, ids[0]) && slices.Contains(now, ids[1])
	})
	w.eventually("an activity has the cause", func() bool {
		return w.hasActivity("nodes", "Successful", "Terminating EC2 instance: "+ids[0],
			"an instance was taken out of service in response to an ELB system health check failure.")
	})
	// The new one is in its grace period.
	for _, id := range w.serves("nodes", 2) {
		if id != ids[1] {
			w.observe(group, id, record.TargetUnhealthy)
			w.clock.Step(59 * time.Second)
			if got := w.serves("nodes", 2); !slices.Contains(got, id) {
				t.Errorf("%s was replaced within its grace period", id)
			}
			w.clock.Step(2 * time.Second)
			w.eventually("it is replaced after it", func() bool {
				now := w.in("nodes", "InService")
				return len(now) == 2 && !slices.Contains(now, id)
			})
		}
	}
}

// TestInstancesLeaveTheirLoadBalancersWhenTheyLeaveService moves instances into standby and out of the group.
func TestInstancesLeaveTheirLoadBalancersWhenTheyLeaveService(t *testing.T) {
	t.Parallel()
	w, ctx, name := newFixture(t), t.Context(), aws.String("nodes")
	group := w.targetGroup("web", "120")
	w.create("nodes", 0, 3, 2, withTargets(group))
	ids := w.serves("nodes", 2)
	awstest.Must[*autoscaling.EnterStandbyOutput](t)(w.EnterStandby(ctx, &autoscaling.EnterStandbyInput{
		AutoScalingGroupName: name, InstanceIds: ids[:1], ShouldDecrementDesiredCapacity: aws.Bool(true)}))
	awstest.Must[*autoscaling.DetachInstancesOutput](t)(w.DetachInstances(ctx, &autoscaling.DetachInstancesInput{
		AutoScalingGroupName: name, InstanceIds: ids[1:], ShouldDecrementDesiredCapacity: aws.Bool(true)}))
	w.eventually("both drain", func() bool {
		return len(w.targetsIn(group, true)) == 2 && len(w.in("nodes", "EnteringStandby")) == 1 &&
			len(w.in("nodes", "Detaching")) == 1
	})
	w.clock.Step(121 * time.Second)
	w.eventually("one is in standby, and one has left", func() bool {
		return slices.Equal(w.in("nodes", "Standby"), ids[:1]) && len(w.group("nodes").Instances) == 1
	})
	if len(w.alive()) != 2 {
		t.Error("an instance was terminated")
	}
	awstest.Must[*autoscaling.ExitStandbyOutput](t)(w.ExitStandby(ctx, &autoscaling.ExitStandbyInput{
		AutoScalingGroupName: name, InstanceIds: ids[:1]}))
	w.eventually("it is registered again", func() bool { return slices.Equal(w.targets(group), ids[:1]) })
	// One that is attached is registered, too.
	awstest.Must[*autoscaling.AttachInstancesOutput](t)(w.AttachInstances(ctx, &autoscaling.AttachInstancesInput{
		AutoScalingGroupName: name, InstanceIds: ids[1:]}))
	w.eventually("both are registered", func() bool { return slices.Equal(w.targets(group), ids) })
	// Deleted by force, the group waits for nothing.
	awstest.Must[*autoscaling.DeleteAutoScalingGroupOutput](t)(w.DeleteAutoScalingGroup(ctx,
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: name, ForceDelete: aws.Bool(true)}))
	w.eventually("the group is gone", func() bool { return w.group("nodes").AutoScalingGroupName == nil })
	if got := w.targets(group); len(got) != 0 {
		t.Errorf("still registered are %v", got)
	}
}

// TestInstancesAreNotAddedWhileThatIsSuspended leaves instances that come while AddToLoadBalancer is suspended alone.
func TestInstancesAreNotAddedWhileThatIsSuspended(t *testing.T) {
	t.Parallel()
	w, ctx, name := newFixture(t), t.Context(), aws.String("nodes")
	group := w.targetGroup("web", "0")
	w.create("nodes", 0, 3, 0, withTargets(group))
	awstest.Must[*autoscaling.SuspendProcessesOutput](t)(w.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: name, ScalingProcesses: []string{"AddToLoadBalancer"}}))
	w.size(1)
	first := w.serves("nodes", 1)
	awstest.Must[*autoscaling.ResumeProcessesOutput](t)(w.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{
		AutoScalingGroupName: name, ScalingProcesses: []string{"AddToLoadBalancer"}}))
	w.size(2)
	all := w.serves("nodes", 2)
	later := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == first[0] })
	if got := w.targets(group); !slices.Equal(got, later) {
		t.Errorf("registered are %v, want %v alone", got, later)
	}
}

// TestGroupsTellWhyInstancesCannotBeRegistered has a target group go, and one be in another VPC.
func TestGroupsTellWhyInstancesCannotBeRegistered(t *testing.T) {
	t.Parallel()
	w, ctx, name := newFixture(t), t.Context(), aws.String("nodes")
	c := w.balancing("AKIAROOT")
	gone := awstest.Must[*v2.CreateTargetGroupOutput](t)(c.CreateTargetGroup(ctx, &v2.CreateTargetGroupInput{
		Name: aws.String("gone"), Protocol: "TCP", Port: aws.Int32(80), VpcId: &w.vpc})).TargetGroups[0].TargetGroupArn
	w.create("nodes", 0, 3, 0, withTargets(*gone))
	awstest.Must[*v2.DeleteTargetGroupOutput](t)(c.DeleteTargetGroup(ctx, &v2.DeleteTargetGroupInput{
		TargetGroupArn: gone}))
	w.size(1)
	w.eventually("the launch fails", func() bool {
		return w.hasActivity("nodes", "Failed", "Launching a new EC2 instance.  Status Reason: One or more target groups "+
			"not found. Validating load balancer configuration failed.")
	})
	awstest.Must[*autoscaling.DetachLoadBalancerTargetGroupsOutput](t)(w.DetachLoadBalancerTargetGroups(ctx,
		&autoscaling.DetachLoadBalancerTargetGroupsInput{AutoScalingGroupName: name, TargetGroupARNs: []string{*gone}}))
	w.serves("nodes", 1)

	vpc := awstest.Must[*ec2.CreateVpcOutput](t)(w.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{
		CidrBlock: aws.String("10.9.0.0/16")})).Vpc.VpcId
	far := awstest.Must[*v2.CreateTargetGroupOutput](t)(c.CreateTargetGroup(ctx, &v2.CreateTargetGroupInput{
		Name: aws.String("far"), Protocol: "TCP", Port: aws.Int32(80), VpcId: vpc})).TargetGroups[0].TargetGroupArn
	awstest.Must[*autoscaling.AttachLoadBalancerTargetGroupsOutput](t)(w.AttachLoadBalancerTargetGroups(ctx,
		&autoscaling.AttachLoadBalancerTargetGroupsInput{AutoScalingGroupName: name, TargetGroupARNs: []string{*far}}))
	w.eventually("the instance cannot be registered", func() bool {
		return w.hasActivity("nodes", "Failed", "Updating load balancers/target groups: Failed. Status Reason: The "+
			"following targets are not in the target group VPC", "Updating load balancer configuration failed.")
	})
	if got := w.traffic("nodes")[*far]; got != "Adding" {
		t.Errorf("the target group is %s", got)
	}
	w.size(2)
	w.eventually("nor can another be launched into it", func() bool {
		return w.hasActivity("nodes", "Failed", "Launching a new EC2 instance: ", "The following targets are not in the "+
			"target group VPC", "Updating load balancer configuration failed.")
	})
}

// TestTrafficSourcesAreNamedToPolicies has policies decide about load balancers and target groups.
func TestTrafficSourcesAreNamedToPolicies(t *testing.T) {
	t.Parallel()
	w, ctx, name := newFixture(t), t.Context(), aws.String("nodes")
	group := w.targetGroup("web", "0")
	w.classicBalancer("old")
	w.create("nodes", 0, 3, 0)
	sources := []types.TrafficSourceIdentifier{{Identifier: &group, Type: aws.String("elbv2")}}
	forbidden := ""
	w.set(func() {
		w.Deny = func(_ wire.Caller, target wire.Target) bool {
			return strings.HasPrefix(target.Action, "autoscaling:") && (slices.Contains(
				target.Conditions["autoscaling:TargetGroupARNs"], forbidden) || slices.Contains(
				target.Conditions["autoscaling:LoadBalancerNames"], forbidden) || slices.Contains(
				target.Conditions["autoscaling:TrafficSourceIdentifiers"], forbidden))
		}
	})
	create := func(edit func(*autoscaling.CreateAutoScalingGroupInput)) func() error {
		return func() error {
			in := &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: aws.String("other"), MinSize: aws.Int32(0),
				MaxSize: aws.Int32(1), VPCZoneIdentifier: &w.subnets[0],
				LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template}}
			edit(in)
			_, err := w.CreateAutoScalingGroup(ctx, in)
			return err
		}
	}
	for what, row := range map[string]struct {
		of string
		do func() error
	}{
		"create with target groups": {group, create(withTargets(group))},
		"create with load balancers": {"old", create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.LoadBalancerNames = []string{"old"}
		})},
		"create with traffic sources": {group, create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.TrafficSources = sources
		})},
		"attach target groups": {group, func() error {
			_, err := w.AttachLoadBalancerTargetGroups(ctx, &autoscaling.AttachLoadBalancerTargetGroupsInput{
				AutoScalingGroupName: name, TargetGroupARNs: []string{group}})
			return err
		}},
		"detach target groups": {group, func() error {
			_, err := w.DetachLoadBalancerTargetGroups(ctx, &autoscaling.DetachLoadBalancerTargetGroupsInput{
				AutoScalingGroupName: name, TargetGroupARNs: []string{group}})
			return err
		}},
		"attach load balancers": {"old", func() error {
			_, err := w.AttachLoadBalancers(ctx, &autoscaling.AttachLoadBalancersInput{AutoScalingGroupName: name,
				LoadBalancerNames: []string{"old"}})
			return err
		}},
		"detach load balancers": {"old", func() error {
			_, err := w.DetachLoadBalancers(ctx, &autoscaling.DetachLoadBalancersInput{AutoScalingGroupName: name,
				LoadBalancerNames: []string{"old"}})
			return err
		}},
		"attach traffic sources": {group, func() error {
			_, err := w.AttachTrafficSources(ctx, &autoscaling.AttachTrafficSourcesInput{AutoScalingGroupName: name,
				TrafficSources: sources})
			return err
		}},
		"detach traffic sources": {group, func() error {
			_, err := w.DetachTrafficSources(ctx, &autoscaling.DetachTrafficSourcesInput{AutoScalingGroupName: name,
				TrafficSources: sources})
			return err
		}},
	} {
		w.set(func() { forbidden = row.of })
		if code, message, _ := awstest.Failure(row.do()); code != "AccessDenied" {
			t.Errorf("%s: got %s: %s, want AccessDenied", what, code, message)
		}
	}
}

// TestBadTrafficSources refuses what instances cannot be registered with, and changes nothing.
func TestBadTrafficSources(t *testing.T) {
	t.Parallel()
	w, ctx, name := newFixture(t), t.Context(), aws.String("nodes")
	group := w.targetGroup("web", "0")
	w.classicBalancer("old")
	byAddress := *awstest.Must[*v2.CreateTargetGroupOutput](t)(w.balancing("AKIAROOT").CreateTargetGroup(ctx,
		&v2.CreateTargetGroupInput{Name: aws.String("addresses"), Protocol: "TCP", Port: aws.Int32(80), VpcId: &w.vpc,
			TargetType: "ip"})).TargetGroups[0].TargetGroupArn
	w.create("nodes", 0, 3, 0)
	many := make([]string, 11)
	for i := range many {
		many[i] = fmt.Sprint("b", i)
	}
	groups := func(arns ...string) error {
		_, err := w.AttachLoadBalancerTargetGroups(ctx, &autoscaling.AttachLoadBalancerTargetGroupsInput{
			AutoScalingGroupName: name, TargetGroupARNs: arns})
		return err
	}
	balancers := func(names ...string) error {
		_, err := w.AttachLoadBalancers(ctx, &autoscaling.AttachLoadBalancersInput{AutoScalingGroupName: name,
			LoadBalancerNames: names})
		return err
	}
	source := func(identifier, kind string) error {
		s := types.TrafficSourceIdentifier{Identifier: &identifier}
		if kind != "" {
			s.Type = &kind
		}
		_, err := w.AttachTrafficSources(ctx, &autoscaling.AttachTrafficSourcesInput{AutoScalingGroupName: name,
			TrafficSources: []types.TrafficSourceIdentifier{s}})
		return err
	}
	create := func(edit func(*autoscaling.CreateAutoScalingGroupInput)) error {
		in := &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: aws.String("other"), MinSize: aws.Int32(0),
			MaxSize: aws.Int32(1), VPCZoneIdentifier: &w.subnets[0],
			LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template}}
		edit(in)
		_, err := w.CreateAutoScalingGroup(ctx, in)
		return err
	}
	const (
		badGroup    = "Provided Target Groups may not be valid. Please ensure they exist and try again."
		badBalancer = "Provided Load Balancers may not be valid. Please ensure they exist and try again."
		tooMany     = "Trying to update too many Load Balancers/Target Groups at once. The limit is 10"
	)
	for i, row := range []struct {
		err  error
		want string
	}{
		{groups("arn:x"), badGroup},
		{groups(strings.Replace(group, "/web/", "/gone/", 1)), badGroup},
		{groups(group + "0"), badGroup},
		{groups(strings.Replace(group, region, "us-east-1", 1)), badGroup},
		{groups(strings.Replace(group, account, "444455556666", 1)), badGroup},
		{groups(byAddress), "Its target type must be 'instance', and is 'ip'"},
		{groups(group, "arn:x"), badGroup},
		{groups(many...), tooMany},
		{groups([]string{}...), "At least one"},
		{balancers("gone"), badBalancer},
		{balancers("web"), badBalancer}, // a Network Load Balancer
		{balancers(many...), tooMany},
		{source("old", ""), "The type of the traffic source old is required"},
		{source("old", "alb"), "Traffic source type alb is invalid"},
		{source("arn:aws:vpc-lattice:eu-west-1:111122223333:targetgroup/tg-1", "vpc-lattice"), "no VPC Lattice"},
		{source("arn:aws:vpc-lattice:eu-west-1:111122223333:targetgroup/tg-1", ""), "no VPC Lattice"},
		{source("gone", "elb"), badBalancer},
		{source("old", "elbv2"), badGroup},
		{create(withTargets("arn:x")), badGroup},
		{create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.LoadBalancerNames = []string{"gone"} }), badBalancer},
		{create(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.TrafficSources = []types.TrafficSourceIdentifier{{Identifier: aws.String("old")}}
		}), "is required"},
		{create(func(in *autoscaling.CreateAutoScalingGroupInput) { in.HealthCheckType = aws.String("VPC_LATTICE") }),
			"not supported by coracle"},
		{failure(w.DetachLoadBalancerTargetGroups(ctx, &autoscaling.DetachLoadBalancerTargetGroupsInput{
			AutoScalingGroupName: name, TargetGroupARNs: []string{group}})),
			"Trying to remove Target Groups that are not part of the group: " + group},
		{failure(w.DetachLoadBalancers(ctx, &autoscaling.DetachLoadBalancersInput{AutoScalingGroupName: name,
			LoadBalancerNames: []string{"old"}})), "Trying to remove Load Balancers that are not part of the group: old"},
		{failure(w.DetachTrafficSources(ctx, &autoscaling.DetachTrafficSourcesInput{AutoScalingGroupName: name,
			TrafficSources: []types.TrafficSourceIdentifier{{Identifier: &group}}})), "Trying to remove Traffic Sources"},
		{failure(w.DescribeTrafficSources(ctx, &autoscaling.DescribeTrafficSourcesInput{AutoScalingGroupName: name,
			TrafficSourceType: aws.String("alb")})), "Traffic source type alb is invalid"},
		{failure(w.DescribeTrafficSources(ctx, &autoscaling.DescribeTrafficSourcesInput{AutoScalingGroupName: name,
			MaxRecords: aws.Int32(51)})), "51"},
		{failure(w.DescribeLoadBalancerTargetGroups(ctx, &autoscaling.DescribeLoadBalancerTargetGroupsInput{
			AutoScalingGroupName: aws.String("gone")})), "AutoScalingGroup 'gone' not found"},
	} {
		if code, message, _ := awstest.Failure(row.err); code != "ValidationError" || !strings.Contains(message, row.want) {
			t.Errorf("%d: got %s: %s, want %s", i, code, message, row.want)
		}
	}
	if got := w.traffic("nodes"); len(got) != 0 || w.group("other").AutoScalingGroupName != nil {
		t.Errorf("something has changed: %v", got)
	}
}

func failure[T any](_ T, err error) error { return err }
