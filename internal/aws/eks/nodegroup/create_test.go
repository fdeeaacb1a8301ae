package nodegroup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestCreateNodegroupWithDefaults(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	out, err := w.Client.CreateNodegroup(t.Context(), group("c", "ng"))
	if err != nil {
		t.Fatal(err)
	}
	id := w.groupRow("c", "ng").ID
	want := &types.Nodegroup{
		NodegroupName: aws.String("ng"), ClusterName: aws.String("c"), NodegroupArn: aws.String("arn:aws:eks:" +
			ekstest.Region + ":" + ekstest.Account + ":nodegroup/c/ng/" + id),
		Version: aws.String("1.35"), ReleaseVersion: out.Nodegroup.ReleaseVersion, CreatedAt: &ekstest.Today,
		ModifiedAt: &ekstest.Today, Status: types.NodegroupStatusCreating,
		AmiType: types.AMITypesAl2023X8664Standard, CapacityType: types.CapacityTypesOnDemand,
		InstanceTypes: []string{"t3.medium"}, DiskSize: aws.Int32(20),
		ScalingConfig: &types.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(2),
			DesiredSize: aws.Int32(2)},
		UpdateConfig: &types.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(1),
			UpdateStrategy: types.NodegroupUpdateStrategiesDefault},
		NodeRole: aws.String(ekstest.NodeRole), Subnets: []string{"subnet-a", "subnet-b"},
		NodeRepairConfig: &types.NodeRepairConfig{Enabled: aws.Bool(false)},
		Health:           &types.NodegroupHealth{Issues: []types.Issue{}}, Resources: &types.NodegroupResources{},
		Tags: map[string]string{},
	}
	if d := cmp.Diff(want, out.Nodegroup, unexported); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if release := *out.Nodegroup.ReleaseVersion; !strings.HasPrefix(release, "1.35.") || !strings.HasSuffix(release,
		"-20261105") {
		t.Errorf("release %s", release)
	}
	if !slices.Contains(w.Linked, ekstest.Account+"/eks-nodegroup.amazonaws.com") {
		t.Errorf("service-linked roles %v", w.Linked)
	}
	if pass := w.Target("iam:PassRole"); pass.Resource != ekstest.NodeRole ||
		!slices.Equal(pass.Conditions["iam:PassedToService"], []string{"eks.amazonaws.com"}) {
		t.Errorf("passes %+v", pass)
	}
}

func TestCreateNodegroupWithEverything(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c", func(in *eks.CreateClusterInput) { in.Version = aws.String("1.36") })
	w.key("ops")
	in := group("c", "ng")
	in.AmiType, in.CapacityType, in.InstanceTypes, in.DiskSize = types.AMITypesBottlerocketArm64,
		types.CapacityTypesOnDemand, []string{"m6g.large", "m7g.large"}, aws.Int32(50)
	in.Version, in.Labels, in.Tags = aws.String("1.35"), map[string]string{"team": "a",
		"node.kubernetes.io/tier": "web"}, map[string]string{"cost": "x"}
	in.Taints = []types.Taint{{Key: aws.String("dedicated"), Value: aws.String("gpu"),
		Effect: types.TaintEffectNoSchedule}, {Key: aws.String("dedicated"), Effect: types.TaintEffectNoExecute}}
	in.RemoteAccess = &types.RemoteAccessConfig{Ec2SshKey: aws.String("ops"), SourceSecurityGroups: []string{"sg-1"}}
	in.ScalingConfig = &types.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(9),
		DesiredSize: aws.Int32(0)}
	in.UpdateConfig = &types.NodegroupUpdateConfig{MaxUnavailablePercentage: aws.Int32(33),
		UpdateStrategy: types.NodegroupUpdateStrategiesMinimal}
	in.NodeRepairConfig = &types.NodeRepairConfig{Enabled: aws.Bool(true), MaxParallelNodesRepairedCount: aws.Int32(1),
		NodeRepairConfigOverrides: []types.NodeRepairConfigOverrides{
			{NodeMonitoringCondition: aws.String("AcceleratedHardwareReady"),
				NodeUnhealthyReason: aws.String("NvidiaXID64Error"), MinRepairWaitTimeMins: aws.Int32(5),
				RepairAction: types.RepairActionReboot},
		}}
	in.WarmPoolConfig = &types.WarmPoolConfig{Enabled: aws.Bool(true), MaxGroupPreparedCapacity: aws.Int32(4)}
	out, err := w.Client.CreateNodegroup(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	got := out.Nodegroup
	want := &types.Nodegroup{
		AmiType: in.AmiType, CapacityType: in.CapacityType, InstanceTypes: in.InstanceTypes, DiskSize: in.DiskSize,
		Version: in.Version, Labels: in.Labels, Taints: in.Taints, Tags: in.Tags,
		RemoteAccess: in.RemoteAccess, ScalingConfig: in.ScalingConfig, UpdateConfig: in.UpdateConfig,
		NodeRepairConfig: in.NodeRepairConfig,
		WarmPoolConfig: &types.WarmPoolConfig{Enabled: aws.Bool(true), MaxGroupPreparedCapacity: aws.Int32(4),
			MinSize: aws.Int32(0), PoolState: types.WarmPoolStateStopped, ReuseOnScaleIn: aws.Bool(false)},
	}
	shown := cmpopts.IgnoreFields(types.Nodegroup{}, "NodegroupName", "ClusterName", "NodegroupArn", "ReleaseVersion",
		"CreatedAt", "ModifiedAt", "Status", "NodeRole", "Subnets", "Health", "Resources")
	if d := cmp.Diff(want, got, unexported, shown); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !strings.HasPrefix(*got.ReleaseVersion, "1.63.0-") {
		t.Errorf("release %s of Bottlerocket", *got.ReleaseVersion)
	}
	if all := w.groups("c"); !slices.Equal(all, []string{"ng"}) {
		t.Errorf("node groups %v", all)
	}
}

// The same request sent again gets the same answer; its token with another request is refused.
func TestNodegroupRequestsAreRepeatable(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	in := group("c", "ng")
	in.ClientRequestToken = aws.String("token-1")
	first, err := w.Client.CreateNodegroup(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.Client.CreateNodegroup(t.Context(), in)
	if err != nil || *again.Nodegroup.NodegroupArn != *first.Nodegroup.NodegroupArn {
		t.Errorf("again: %v, %v", again, err)
	}
	other := group("c", "ng")
	other.ClientRequestToken, other.DiskSize = in.ClientRequestToken, aws.Int32(30)
	if _, err := w.Client.CreateNodegroup(t.Context(), other); ekstest.FailureOf(t, err).Status != 400 {
		t.Errorf("another request: %v", err)
	}
	w.keepGroup("c", "ng", func(*record.NodegroupState) {})
	scale := &eks.UpdateNodegroupConfigInput{ClusterName: aws.String("c"), NodegroupName: aws.String("ng"),
		ClientRequestToken: aws.String("token-2"),
		ScalingConfig:      &types.NodegroupScalingConfig{DesiredSize: aws.Int32(1)}}
	update, err := w.Client.UpdateNodegroupConfig(t.Context(), scale)
	if err != nil {
		t.Fatal(err)
	}
	repeated, err := w.Client.UpdateNodegroupConfig(t.Context(), scale)
	if err != nil || *repeated.Update.Id != *update.Update.Id {
		t.Errorf("update again: %v, %v", repeated, err)
	}
	if n := w.groupRow("c", "ng").ScalingChange; n != 2 {
		t.Errorf("%d changes of the size", n)
	}
}

func TestNodegroupQuota(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	for i := range 30 {
		w.createGroup("c", fmt.Sprintf("ng-%02d", i))
	}
	_, err := w.Client.CreateNodegroup(t.Context(), group("c", "one-more"))
	if f := ekstest.FailureOf(t, err); f.Code != "ResourceLimitExceededException" || f.Status != 400 ||
		!strings.Contains(f.Message, "CORACLE_NODEGROUPS_PER_CLUSTER") {
		t.Errorf("%v", f)
	}
	if n := len(w.groups("c")); n != 30 {
		t.Errorf("%d node groups", n)
	}
}
