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
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
)

func (w *fixture) putPool(change ...func(*autoscaling.PutWarmPoolInput)) {
	w.t.Helper()
	in := &autoscaling.PutWarmPoolInput{AutoScalingGroupName: aws.String("nodes")}
	for _, c := range change {
		c(in)
	}
	awstest.Must[*autoscaling.PutWarmPoolOutput](w.t)(w.PutWarmPool(w.t.Context(), in))
}

// pool returns the warm pool of the group.
func (w *fixture) pool() *autoscaling.DescribeWarmPoolOutput {
	w.t.Helper()
	return awstest.Must[*autoscaling.DescribeWarmPoolOutput](w.t)(w.DescribeWarmPool(w.t.Context(),
		&autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: aws.String("nodes")}))
}

// warmed waits until the pool has exactly n instances, all of them in a state.
func (w *fixture) warmed(state types.LifecycleState, n int) []string {
	w.t.Helper()
	var ids []string
	w.eventually("the warm pool has instances in "+string(state), func() bool {
		ids = nil
		pool := w.pool().Instances
		for _, i := range pool {
			if i.LifecycleState == state {
				ids = append(ids, *i.InstanceId)
			}
		}
		slices.Sort(ids)
		return len(ids) == n && len(pool) == n
	})
	return ids
}

func (w *fixture) ec2State(id string) ec2types.InstanceStateName {
	w.t.Helper()
	return awstest.Must[*ec2.DescribeInstancesOutput](w.t)(w.ec2.DescribeInstances(w.t.Context(),
		&ec2.DescribeInstancesInput{InstanceIds: []string{id}})).Reservations[0].Instances[0].State.Name
}

func TestWarmPool(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("nodes", 0, 4, 1)
	first := w.serves("nodes", 1)
	w.putPool()
	pool := w.warmed(types.LifecycleStateWarmedStopped, 3) // 4 at most, less 1 desired
	for _, id := range pool {
		if state := w.ec2State(id); state != "stopped" {
			t.Errorf("%s in the pool is %s", id, state)
		}
	}
	g := w.group("nodes")
	if len(g.Instances) != 1 || *g.WarmPoolSize != 3 ||
		g.WarmPoolConfiguration.PoolState != types.WarmPoolStateStopped || *g.WarmPoolConfiguration.MinSize != 0 ||
		g.WarmPoolConfiguration.MaxGroupPreparedCapacity != nil {
		t.Errorf("the group has %d instances, a pool of %d, %+v", len(g.Instances), aws.ToInt32(g.WarmPoolSize),
			g.WarmPoolConfiguration)
	}
	if out := awstest.Must[*autoscaling.DescribeAutoScalingInstancesOutput](t)(w.DescribeAutoScalingInstances(t.Context(),
		&autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: pool[:1]})); len(out.AutoScalingInstances) != 1 ||
		*out.AutoScalingInstances[0].LifecycleState != "Warmed:Stopped" {
		t.Errorf("the instance is %+v", out.AutoScalingInstances)
	}
	_, err := w.TerminateInstanceInAutoScalingGroup(t.Context(),
		&autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &pool[0],
			ShouldDecrementDesiredCapacity: aws.Bool(false)})
	if got, message, _ := awstest.Failure(err); got != "ValidationError" || !strings.Contains(message,
		"is in the warm pool of Auto Scaling group nodes") {
		t.Errorf("terminating an instance of the pool: %v", err)
	}

	// The group grows out of the pool, which shrinks with it, and nothing is launched.
	w.set(func() { w.runs = nil })
	w.size(3)
	now := w.serves("nodes", 3)
	if len(w.warmed(types.LifecycleStateWarmedStopped, 1)) != 1 {
		t.Error("the pool is not what is left")
	}
	w.set(func() {
		if len(w.runs) != 0 {
			t.Errorf("%d launches although the pool had enough", len(w.runs))
		}
	})
	for _, id := range now {
		if !slices.Contains(pool, id) && !slices.Contains(first, id) {
			t.Errorf("%s was not in the pool", id)
		}
	}
	if a := w.activities("nodes")[0]; !strings.HasPrefix(*a.Description,
		"Launching a new EC2 instance from warm pool: i-") || !strings.Contains(*a.Cause,
		"increasing the capacity from ") {
		t.Errorf("the activity is %s: %s", *a.Description, *a.Cause)
	}

	// It never has less than its minimum, and no more than is prepared.
	w.putPool(func(in *autoscaling.PutWarmPoolInput) {
		in.MinSize, in.MaxGroupPreparedCapacity = aws.Int32(2), aws.Int32(3)
	})
	w.warmed(types.LifecycleStateWarmedStopped, 2)
	w.size(1)
	w.serves("nodes", 1)
	w.warmed(types.LifecycleStateWarmedStopped, 2)
	w.putPool(func(in *autoscaling.PutWarmPoolInput) {
		in.MinSize, in.MaxGroupPreparedCapacity = aws.Int32(0), aws.Int32(-1)
	})
	w.warmed(types.LifecycleStateWarmedStopped, 3)

	// One that is started, or terminated, behind the pool's back is replaced.
	waiting := w.warmed(types.LifecycleStateWarmedStopped, 3)
	awstest.Must[*ec2.StartInstancesOutput](t)(w.ec2.StartInstances(t.Context(),
		&ec2.StartInstancesInput{InstanceIds: waiting[:1]}))
	awstest.Must[*ec2.TerminateInstancesOutput](t)(w.ec2.TerminateInstances(t.Context(),
		&ec2.TerminateInstancesInput{InstanceIds: waiting[1:2]}))
	w.eventually("both are replaced", func() bool {
		now := w.warmed(types.LifecycleStateWarmedStopped, 3)
		return !slices.Contains(now, waiting[0]) && !slices.Contains(now, waiting[1]) && slices.Contains(now,
			waiting[2])
	})

	awstest.Must[*autoscaling.DeleteWarmPoolOutput](t)(w.DeleteWarmPool(t.Context(),
		&autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: aws.String("nodes")}))
	w.eventually("the pool is gone", func() bool {
		p := w.pool()
		return p.WarmPoolConfiguration == nil &&
			len(p.Instances) == 0
	})
	if alive := w.alive(); len(alive) != 1 {
		t.Errorf("%d instances are left", len(alive))
	}
}

func TestWarmPoolWithHooksAndReuse(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("nodes", 0, 2, 0)
	w.hook("prepare", "LAUNCHING", "ABANDON", 60)
	w.hook("drain", "TERMINATING", "CONTINUE", 60)
	w.putPool(func(in *autoscaling.PutWarmPoolInput) {
		in.PoolState, in.MaxGroupPreparedCapacity = types.WarmPoolStateRunning, aws.Int32(1)
		in.InstanceReusePolicy = &types.InstanceReusePolicy{ReuseOnScaleIn: aws.Bool(true)}
	})
	// On its way into the pool it waits, and on its way out of it again.
	id := w.warmed(types.LifecycleStateWarmedPendingWait, 1)[0]
	w.complete(id, "prepare", "CONTINUE")
	w.warmed(types.LifecycleStateWarmedRunning, 1)
	if state := w.ec2State(id); state != "running" {
		t.Errorf("it is %s", state)
	}
	w.size(1)
	if waiting := w.waits(types.LifecycleStatePendingWait, 1); waiting[0] != id {
		t.Errorf("%v wait, want %s", waiting, id)
	}
	w.complete(id, "prepare", "CONTINUE")
	w.serves("nodes", 1)
	// Scaled in it waits to be drained, and returns.
	w.size(0)
	w.waits(types.LifecycleStateTerminatingWait, 1)
	w.complete(id, "drain", "CONTINUE")
	if back := w.warmed(types.LifecycleStateWarmedRunning, 1); back[0] != id {
		t.Errorf("%v is in the pool, want %s", back, id)
	}
	if c := w.pool().WarmPoolConfiguration; !*c.InstanceReusePolicy.ReuseOnScaleIn || *c.MaxGroupPreparedCapacity != 1 {
		t.Errorf("the pool is %+v", c)
	}
	// A pool that is deleted waits for hooks as well, unless it is forced.
	awstest.Must[*autoscaling.DeleteWarmPoolOutput](t)(w.DeleteWarmPool(t.Context(),
		&autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: aws.String("nodes")}))
	w.warmed(types.LifecycleStateWarmedTerminatingWait, 1)
	if s := w.pool().WarmPoolConfiguration.Status; s != types.WarmPoolStatusPendingDelete {
		t.Errorf("the status is %s", s)
	}
	awstest.Must[*autoscaling.DeleteWarmPoolOutput](t)(w.DeleteWarmPool(t.Context(),
		&autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: aws.String("nodes"), ForceDelete: aws.Bool(true)}))
	w.eventually("the pool is gone", func() bool { return w.pool().WarmPoolConfiguration == nil })
	if alive := w.alive(); len(alive) != 0 {
		t.Errorf("%d instances are left", len(alive))
	}
}

func TestGroupsWithAWarmPoolGoWithIt(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("nodes", 0, 2, 0)
	w.putPool()
	w.warmed(types.LifecycleStateWarmedStopped, 2)
	_, err := w.DeleteAutoScalingGroup(t.Context(),
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes")})
	if got := awstest.Code(err); got != "ResourceInUse" {
		t.Errorf("deleting a group with a pool: %v", err)
	}
	awstest.Must[*autoscaling.DeleteAutoScalingGroupOutput](t)(w.DeleteAutoScalingGroup(t.Context(),
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes"),
			ForceDelete: aws.Bool(true)}))
	w.eventually("the group is gone", func() bool { return w.group("nodes").AutoScalingGroupName == nil })
	w.create("spot", 0, 1, 0, func(in *autoscaling.CreateAutoScalingGroupInput) { spotOnly(w, in) })
	_, err = w.PutWarmPool(t.Context(), &autoscaling.PutWarmPoolInput{AutoScalingGroupName: aws.String("spot")})
	if got, message, _ := awstest.Failure(err); got != "ValidationError" ||
		!strings.Contains(message, "requests Spot Instances") {
		t.Errorf("a pool of spot instances: %v", err)
	}
	for _, i := range w.alive() {
		t.Errorf("%s is left", *i.InstanceId)
	}
}

// spotOnly changes a group to launch spot instances.
func spotOnly(w *fixture, in *autoscaling.CreateAutoScalingGroupInput) {
	in.LaunchTemplate = nil
	in.MixedInstancesPolicy = &types.MixedInstancesPolicy{
		LaunchTemplate: &types.LaunchTemplate{LaunchTemplateSpecification: &types.LaunchTemplateSpecification{
			LaunchTemplateId: &w.template}},
		InstancesDistribution: &types.InstancesDistribution{
			OnDemandPercentageAboveBaseCapacity: aws.Int32(0), SpotAllocationStrategy: aws.String("capacity-optimized"),
		},
	}
}

// interrupts marks a spot instance as EC2 does that is about to take it away.
func (w *fixture) interrupts(id string) {
	w.t.Helper()
	if _, err := record.Instances(w.store).Modify(w.t.Context(), record.EC2Key(account, region, id),
		func(i *record.Instance) error {
			i.SpotInterruption = time.Now().Add(time.Hour)
			return nil
		}); err != nil {
		w.t.Fatal(err)
	}
}

func TestCapacityRebalancing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("nodes", 2, 2, 2, func(in *autoscaling.CreateAutoScalingGroupInput) {
		spotOnly(w, in)
		in.CapacityRebalance = aws.Bool(true)
	})
	before := w.serves("nodes", 2)
	w.hook("drain", "TERMINATING", "CONTINUE", 60)
	w.set(func() { w.slow = true })
	w.interrupts(before[0])
	// The replacement comes first, although the group is at its maximum.
	w.waits(types.LifecycleStatePending, 1)
	if now := w.in("nodes", types.LifecycleStateInService); !slices.Equal(now, before) {
		t.Errorf("before the replacement serves there are %v, want %v", now, before)
	}
	w.set(func() { w.slow = false })
	if going := w.waits(types.LifecycleStateTerminatingWait, 1); going[0] != before[0] {
		t.Errorf("%v goes, want %s", going, before[0])
	}
	if n := len(w.in("nodes", types.LifecycleStateInService)); n != 2 {
		t.Errorf("%d serve", n)
	}
	w.complete(before[0], "drain", "CONTINUE")
	if now := w.serves("nodes", 2); slices.Contains(now, before[0]) || !slices.Contains(now, before[1]) {
		t.Errorf("there are %v, and were %v", now, before)
	}
	causes := ""
	for _, a := range w.activities("nodes") {
		causes += *a.Cause
	}
	for _, want := range []string{"an instance was launched in response to an EC2 instance rebalance recommendation.",
		"an instance was taken out of service in response to an EC2 instance rebalance recommendation."} {
		if !strings.Contains(causes, want) {
			t.Errorf("no activity says %q", want)
		}
	}
}

// A group of on-demand instances has such in its warm pool, too, when it serves with none.
func TestWarmPoolOfMixedGroupIsOnDemand(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("nodes", 0, 1, 0, func(in *autoscaling.CreateAutoScalingGroupInput) {
		spotOnly(w, in)
		in.MixedInstancesPolicy.InstancesDistribution.OnDemandPercentageAboveBaseCapacity = aws.Int32(100)
	})
	w.putPool()
	ids := w.warmed(types.LifecycleStateWarmedStopped, 1)
	i := awstest.Must[*ec2.DescribeInstancesOutput](t)(w.ec2.DescribeInstances(t.Context(),
		&ec2.DescribeInstancesInput{InstanceIds: ids})).Reservations[0].Instances[0]
	if i.InstanceLifecycle != "" {
		t.Errorf("the instance in the pool is a %s instance", i.InstanceLifecycle)
	}
}
