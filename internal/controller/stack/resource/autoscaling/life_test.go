package autoscaling_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	autoscalingsdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/autoscaling"
	"github.com/coracle-eks/coracle/internal/eventually"
)

const group = "AWS::AutoScaling::AutoScalingGroup"

// small are the properties of a group as eksctl writes them: sizes and flags are text.
const small = `"MinSize": "0", "MaxSize": "3", "VPCZoneIdentifier": ["$subnet"],
	"LaunchTemplate": {"LaunchTemplateId": "$template", "Version": "1"}`

var lives = []struct {
	kind, properties, update string
	id                       string
	claimed                  bool // its name is claimed
	attributes               map[string]string
}{
	{
		kind: group,
		id:   "lake-Thing-1A2B3C",
		properties: `{` + small + `, "DesiredCapacity": "1", "Cooldown": "60", "HealthCheckGracePeriod": 30,
			"MetricsCollection": [{"Granularity": "1Minute", "Metrics": ["GroupMinSize"]}],
			"TargetGroupARNs": ["$targetgroup"], "LoadBalancerNames": ["classic"], "HealthCheckType": "ELB",
			"LifecycleHookSpecificationList": [{"LifecycleHookName": "drain", "DefaultResult": "CONTINUE",
				"HeartbeatTimeout": 300, "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING"}],
			"Tags": [{"Key": "Name", "Value": "thing", "PropagateAtLaunch": "true"}]}`,
		update: `{"MinSize": "1", "MaxSize": 4, "DesiredCapacity": "2", "VPCZoneIdentifier": ["$subnet", "$other"],
			"TrafficSources": [{"Identifier": "$secondgroup", "Type": "elbv2"}],
			"CapacityRebalance": true, "MixedInstancesPolicy": {
				"InstancesDistribution": {"OnDemandPercentageAboveBaseCapacity": 0},
				"LaunchTemplate": {"LaunchTemplateSpecification": {"LaunchTemplateId": "$template", "Version": "2"},
					"Overrides": [{"InstanceType": "m5.large"}, {"InstanceType": "m5.xlarge"}]}},
			"Tags": [{"Key": "Name", "Value": "other", "PropagateAtLaunch": false}]}`,
		attributes: map[string]string{"AutoScalingGroupARN": "arn:aws:autoscaling:"},
	},
	{
		kind: "AWS::AutoScaling::LifecycleHook",
		id:   "lake-Thing-1A2B3C",
		properties: `{"AutoScalingGroupName": "$group", "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
			"HeartbeatTimeout": 300}`,
		update: `{"AutoScalingGroupName": "$group", "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
			"HeartbeatTimeout": 60, "DefaultResult": "CONTINUE"}`,
	},
	{
		kind: "AWS::AutoScaling::ScalingPolicy",
		id:   "arn:aws:autoscaling:",
		properties: `{"AutoScalingGroupName": "$group", "AdjustmentType": "ChangeInCapacity", "ScalingAdjustment": 1,
			"Cooldown": "60"}`,
		update: `{"AutoScalingGroupName": "$group", "AdjustmentType": "ChangeInCapacity", "ScalingAdjustment": -1,
			"Cooldown": "30"}`,
		attributes: map[string]string{"Arn": "arn:aws:autoscaling:", "PolicyName": "lake-Thing-1A2B3C"},
	},
	{
		kind:       "AWS::AutoScaling::ScheduledAction",
		id:         "lake-Thing-1A2B3C",
		properties: `{"AutoScalingGroupName": "$group", "Recurrence": "0 8 * * *", "MinSize": 1, "DesiredCapacity": 1}`,
		update:     `{"AutoScalingGroupName": "$group", "Recurrence": "0 9 * * *", "MinSize": 2, "DesiredCapacity": 2}`,
		attributes: map[string]string{"ScheduledActionName": "lake-Thing-1A2B3C"},
	},
	{
		kind:       "AWS::AutoScaling::WarmPool",
		claimed:    true,
		id:         "lake-Group-1A2B3C",
		properties: `{"AutoScalingGroupName": "$group", "MinSize": 1, "PoolState": "Stopped"}`,
		update: `{"AutoScalingGroupName": "$group", "MinSize": 0, "PoolState": "Stopped",
			"InstanceReusePolicy": {"ReuseOnScaleIn": true}}`,
	},
}

func TestResourcesLiveAndDie(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, l := range lives {
		tested[l.kind] = true
		t.Run(strings.TrimPrefix(l.kind, "AWS::AutoScaling::"), func(t *testing.T) {
			t.Parallel()
			w, handler := newFixture(t), autoscaling.Types[l.kind]
			if l.kind != group {
				w.names["group"] = w.drive("create", w.request("Group", `{`+small+`}`), autoscaling.Types[group].Create).PhysicalID
			}
			before := w.keys()
			settled := func(what string) {
				t.Helper()
				eventually.Nil(t, what, func() error {
					if diff := cmp.Diff(before, w.keys()); diff != "" {
						return errors.New(diff)
					}
					return nil
				})
			}

			lost := w.request("Lost", l.properties)
			w.drive("create", lost, handler.Create)
			forget := func(r *resource.Request) {
				r.PhysicalID, r.Progress, r.Retried = "", nil, true
				if l.claimed {
					r.PhysicalID, r.Progress = r.Text("AutoScalingGroupName"), map[string]string{"claimed": "true"}
				}
			}
			forget(lost)
			w.drive("delete", lost, handler.Delete)
			settled("a lost resource is deleted")

			r := w.request("Thing", l.properties)
			result := w.drive("create", r, handler.Create)
			if !strings.HasPrefix(result.PhysicalID, l.id) {
				t.Errorf("physical ID %s, want %s", result.PhysicalID, l.id)
			}
			for name, want := range l.attributes {
				if got := resource.Text(result.Attributes[name]); !strings.HasPrefix(got, want) {
					t.Errorf("attribute %s is %s, want %s", name, got, want)
				}
			}
			again := w.request("Thing", l.properties)
			forget(again)
			if repeated := w.drive("create", again, handler.Create); repeated.PhysicalID != result.PhysicalID {
				t.Errorf("a repeated creation gives %s, want %s", repeated.PhysicalID, result.PhysicalID)
			}
			w.wantProperties(l.kind, r)

			change := func(properties, team string) {
				r.Previous, r.PreviousTags = r.Properties, r.Tags
				r.Properties, r.Tags = w.expand(properties), maps.Clone(r.Tags)
				r.Tags["team"] = team
				r.Token, r.Retried = "Thing-"+team, false
				for range 2 {
					w.drive("update", r, handler.Update)
					r.Retried = true
				}
				w.wantProperties(l.kind, r)
				r.Previous, r.PreviousTags = nil, nil
			}
			change(l.update, "new")
			change(l.properties, "back")

			id := r.PhysicalID
			for range 2 {
				w.drive("delete", r, handler.Delete)
				r.PhysicalID = id
			}
			if _, _, err := handler.Read(t.Context(), r); !errors.Is(err, resource.ErrNotFound) {
				t.Errorf("a deleted resource is read: %v", err)
			}
			settled("the resource is deleted")
		})
	}
	for _, kind := range slices.Sorted(maps.Keys(autoscaling.Types)) {
		if !tested[kind] {
			t.Errorf("%s is not tested", kind)
		}
	}
}

func TestTagsOfStacksReachInstances(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.request("Group", `{`+small+`, "Tags": [{"Key": "own", "Value": "1", "PropagateAtLaunch": false}]}`)
	name := w.drive("create", r, autoscaling.Types[group].Create).PhysicalID
	tags := func() map[string]bool {
		out := awstest.Must[*autoscalingsdk.DescribeAutoScalingGroupsOutput](t)(w.client.DescribeAutoScalingGroups(
			t.Context(), &autoscalingsdk.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}}))
		got := map[string]bool{}
		for _, tag := range out.AutoScalingGroups[0].Tags {
			got[aws.ToString(tag.Key)+"="+aws.ToString(tag.Value)] = aws.ToBool(tag.PropagateAtLaunch)
		}
		return got
	}
	want := map[string]bool{resource.TagStackID + "=" + stackID: true, resource.TagStackName + "=lake": true,
		resource.TagLogicalID + "=Group": true, "team=old": true, "own=1": false}
	if diff := cmp.Diff(want, tags()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r.Previous, r.PreviousTags = r.Properties, r.Tags
	r.Properties, r.Tags = maps.Clone(r.Properties), maps.Clone(r.Tags)
	delete(r.Properties, "Tags")
	r.Tags["team"] = "new"
	w.drive("update", r, autoscaling.Types[group].Update)
	delete(want, "team=old")
	delete(want, "own=1")
	want["team=new"] = true
	if diff := cmp.Diff(want, tags()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnUpdateLeavesWhatAutoscalersSet(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.request("Group", `{`+small+`, "DesiredCapacity": "1"}`)
	name := w.drive("create", r, autoscaling.Types[group].Create).PhysicalID
	awstest.Must[*autoscalingsdk.SetDesiredCapacityOutput](t)(w.client.SetDesiredCapacity(t.Context(),
		&autoscalingsdk.SetDesiredCapacityInput{AutoScalingGroupName: &name, DesiredCapacity: new(int32(2))}))
	r.Previous, r.PreviousTags = r.Properties, r.Tags
	r.Properties = maps.Clone(r.Properties)
	r.Properties["MaxSize"] = "5"
	w.drive("update", r, autoscaling.Types[group].Update)
	properties, _, err := autoscaling.Types[group].Read(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got := resource.Text(properties["DesiredCapacity"]); got != "2" || resource.Text(properties["MaxSize"]) != "5" {
		t.Errorf("got %v", properties)
	}
}

func TestAGroupOfSomebodyElseIsNotTakenOver(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	properties := `{"AutoScalingGroupName": "taken", ` + small + `}`
	w.drive("create", w.request("Theirs", properties), autoscaling.Types[group].Create)
	for _, retried := range []bool{false, true} {
		r := w.request("Ours", properties)
		r.Retried = retried
		if _, err := autoscaling.Types[group].Create(t.Context(), r); resource.Classify(err) != resource.AlreadyExists {
			t.Errorf("retried %t: got %v", retried, err)
		}
	}
}

func TestAWarmPoolOfSomebodyElseIsNotTakenOver(t *testing.T) {
	t.Parallel()
	w, pool := newFixture(t), autoscaling.Types["AWS::AutoScaling::WarmPool"]
	w.names["group"] = w.drive("create", w.request("Group", `{`+small+`}`), autoscaling.Types[group].Create).PhysicalID
	const ours = `{"AutoScalingGroupName": "$group", "MinSize": 1}`
	later := w.request("Ours", ours)
	claim, err := pool.Create(t.Context(), later)
	if err != nil {
		t.Fatal(err)
	}
	theirs := w.request("Theirs", `{"AutoScalingGroupName": "$group", "MinSize": 2}`)
	w.drive("create", theirs, pool.Create)
	for _, retried := range []bool{false, true} {
		r := w.request("Ours", ours)
		r.Retried = retried
		if _, err := pool.Create(t.Context(), r); resource.Classify(err) != resource.AlreadyExists {
			t.Errorf("retried %t: got %v", retried, err)
		}
		if _, err := pool.Delete(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	later.PhysicalID, later.Progress, later.Retried = claim.PhysicalID, claim.Progress, true
	result, err := pool.Create(t.Context(), later)
	if !errors.Is(err, resource.ErrNothingMade) || result.PhysicalID != "" {
		t.Errorf("theirs after the claim: got %+v, %v", result, err)
	}
	if _, _, err := pool.Read(t.Context(), theirs); err != nil {
		t.Error(err)
	}
}

func TestAHookOfSomebodyElseIsNotTakenOver(t *testing.T) {
	t.Parallel()
	w, hook := newFixture(t), autoscaling.Types["AWS::AutoScaling::LifecycleHook"]
	w.names["group"] = w.drive("create", w.request("Group", `{`+small+`}`), autoscaling.Types[group].Create).PhysicalID
	properties := `{"AutoScalingGroupName": "$group", "LifecycleHookName": "taken",
		"LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING"}`
	theirs := w.request("Theirs", properties)
	w.drive("create", theirs, hook.Create)
	for _, retried := range []bool{false, true} {
		r := w.request("Ours", properties)
		r.Retried = retried
		if _, err := hook.Create(t.Context(), r); resource.Classify(err) != resource.AlreadyExists {
			t.Errorf("retried %t: got %v", retried, err)
		}
		if _, err := hook.Delete(t.Context(), r); err != nil {
			t.Error(err)
		}
		if _, _, err := hook.Read(t.Context(), theirs); err != nil {
			t.Fatalf("retried %t: the hook of somebody else: %v", retried, err)
		}
	}
}

func TestAProtectedGroupIsEmptiedFirst(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.request("Group", `{`+small+`, "DesiredCapacity": "1", "DeletionProtection": "prevent-force-deletion"}`)
	w.drive("create", r, autoscaling.Types[group].Create)
	eventually.Nil(t, "delete", func() error {
		result, err := autoscaling.Types[group].Delete(t.Context(), r)
		if err == nil && result.Pending > 0 {
			r.Progress = result.Progress
			return errors.New("pending")
		}
		if err != nil && !resource.Retryable(err) {
			return eventually.Never(err)
		}
		return err
	})
}
