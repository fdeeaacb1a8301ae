package nodegroup_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// fixture is the EKS API behind an HTTP server, with what the tests of this part do with it.
type fixture struct{ *ekstest.Fixture }

func newFixture(t testing.TB) fixture { return fixture{ekstest.New(t)} }

// group is a CreateNodegroup that succeeds.
func group(cluster, name string) *eks.CreateNodegroupInput {
	return &eks.CreateNodegroupInput{ClusterName: &cluster, NodegroupName: &name,
		NodeRole: aws.String(ekstest.NodeRole), Subnets: []string{"subnet-a", "subnet-b"}}
}

// createGroup creates a node group that comes up.
func (w fixture) createGroup(cluster, name string, edit ...func(*eks.CreateNodegroupInput)) *types.Nodegroup {
	w.T.Helper()
	in := group(cluster, name)
	for _, e := range edit {
		e(in)
	}
	if _, err := w.Client.CreateNodegroup(w.T.Context(), in); err != nil {
		w.T.Fatalf("create node group %s: %v", name, err)
	}
	w.keepGroup(cluster, name, func(*record.NodegroupState) {})
	return w.describeGroup(cluster, name)
}

func (w fixture) describeGroup(cluster, name string) *types.Nodegroup {
	w.T.Helper()
	out, err := w.Client.DescribeNodegroup(w.T.Context(), &eks.DescribeNodegroupInput{ClusterName: &cluster,
		NodegroupName: &name})
	if err != nil {
		w.T.Fatalf("describe node group %s: %v", name, err)
	}
	return out.Nodegroup
}

func (w fixture) groupRow(cluster, name string) record.Nodegroup {
	w.T.Helper()
	row, err := record.Nodegroups(w.Store).Get(w.T.Context(), record.NodegroupKey(ekstest.Account, ekstest.Region,
		cluster, name))
	if err != nil {
		w.T.Fatal(err)
	}
	return row.Value
}

// keepGroup is the controller carrying out what is wanted of a node group, and writing what it saw. It may see
// something else.
func (w fixture) keepGroup(cluster, name string, saw func(*record.NodegroupState)) {
	w.T.Helper()
	n := w.groupRow(cluster, name)
	state := record.NodegroupState{
		NodegroupID: n.ID, Created: true, Scaling: n.Scaling, ScalingChange: n.ScalingChange, Template: n.Template,
		TemplateHash:     "hash",
		AutoScalingGroup: "eks-" + name + "-" + n.ID,
	}
	saw(&state)
	ekstest.Put(w.T, record.NodegroupStates(w.Store), n.Key(), state)
}

// endGroupUpdate is the controller ending the update of a node group.
func (w fixture) endGroupUpdate(cluster, name string, status types.UpdateStatus) {
	w.T.Helper()
	w.Finish(cluster, w.groupRow(cluster, name).LastUpdateID, status)
}

func (w fixture) configureGroup(in *eks.UpdateNodegroupConfigInput) *types.Update {
	w.T.Helper()
	out, err := w.Client.UpdateNodegroupConfig(w.T.Context(), in)
	if err != nil {
		w.T.Fatalf("update node group config: %v", err)
	}
	w.endGroupUpdate(*in.ClusterName, *in.NodegroupName, types.UpdateStatusSuccessful)
	w.keepGroup(*in.ClusterName, *in.NodegroupName, func(*record.NodegroupState) {})
	return out.Update
}

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

var unexported = cmpopts.IgnoreUnexported(types.Nodegroup{}, types.NodegroupScalingConfig{},
	types.NodegroupUpdateConfig{}, types.NodeRepairConfig{}, types.NodegroupHealth{},
	types.NodegroupResources{}, types.Issue{}, types.AutoScalingGroup{}, types.Taint{}, types.RemoteAccessConfig{},
	types.WarmPoolConfig{}, types.NodeRepairConfigOverrides{},
	types.LaunchTemplateSpecification{})

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

func (w fixture) groups(cluster string) []string {
	w.T.Helper()
	var names []string
	pages := eks.NewListNodegroupsPaginator(w.Client, &eks.ListNodegroupsInput{ClusterName: &cluster,
		MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		names = append(names, page.Nodegroups...)
	}
	return names
}

func (w fixture) key(name string) {
	w.T.Helper()
	if _, err := w.EC2.CreateKeyPair(w.T.Context(), &ec2.CreateKeyPairInput{KeyName: &name}); err != nil {
		w.T.Fatal(err)
	}
}

// What a group's user asked for shows until the Auto Scaling group has it; then what the Auto Scaling group has,
// whoever changed it.
func TestNodegroupShowsWhatIsThere(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	made := w.createGroup("c", "ng")
	if made.Status != types.NodegroupStatusActive || len(made.Resources.AutoScalingGroups) != 1 ||
		*made.Resources.AutoScalingGroups[0].Name != "eks-ng-"+w.groupRow("c", "ng").ID {
		t.Errorf("made: %s with %+v", made.Status, made.Resources)
	}
	w.keepGroup("c", "ng", func(s *record.NodegroupState) {
		// by a cluster autoscaler
		s.Scaling = types.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(7),
			DesiredSize: aws.Int32(5)}
		s.RemoteAccessGroup = "sg-remote"
		s.Issues = []types.Issue{{Code: types.NodegroupIssueCodeInsufficientFreeAddresses, Message: aws.String("full"),
			ResourceIds: []string{"subnet-a"}}}
	})
	got := w.describeGroup("c", "ng")
	if *got.ScalingConfig.DesiredSize != 5 || *got.Resources.RemoteAccessSecurityGroup != "sg-remote" ||
		got.Status != types.NodegroupStatusDegraded || got.Health.Issues[0].ResourceIds[0] != "subnet-a" {
		t.Errorf("observed: %+v", got)
	}
	// A change of one number keeps what the Auto Scaling group has of the others.
	out, err := w.Client.UpdateNodegroupConfig(t.Context(),
		&eks.UpdateNodegroupConfigInput{ClusterName: aws.String("c"), NodegroupName: aws.String("ng"),
			ScalingConfig: &types.NodegroupScalingConfig{MinSize: aws.Int32(2)}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[types.UpdateParamType]string{"MinSize": "2"}, ekstest.Params(out.Update)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	got = w.describeGroup("c", "ng")
	if s := got.ScalingConfig; *s.MinSize != 2 || *s.MaxSize != 7 || *s.DesiredSize != 5 ||
		got.Status != types.NodegroupStatusUpdating {
		t.Errorf("asked for: %d of %d to %d, %s", *s.DesiredSize, *s.MinSize, *s.MaxSize, got.Status)
	}
	// What was seen of an earlier group of the name says nothing.
	w.keepGroup("c", "ng", func(s *record.NodegroupState) { s.NodegroupID = "earlier" })
	if got := w.describeGroup("c", "ng"); got.Status != types.NodegroupStatusCreating ||
		len(got.Resources.AutoScalingGroups) != 0 {
		t.Errorf("of an earlier group: %s with %+v", got.Status, got.Resources)
	}
}

func TestUpdateNodegroupConfig(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createGroup("c", "ng", func(in *eks.CreateNodegroupInput) {
		in.Labels = map[string]string{"old": "1", "kept": "1"}
		in.Taints = []types.Taint{{Key: aws.String("old"), Effect: types.TaintEffectNoSchedule}}
	})
	taint := func(key, value string, effect types.TaintEffect) types.Taint {
		return types.Taint{Key: &key, Value: &value, Effect: effect}
	}
	for _, step := range []struct {
		name   string
		in     eks.UpdateNodegroupConfigInput
		params map[types.UpdateParamType]string
		shown  func(*types.Nodegroup) bool
	}{
		{"scaling", eks.UpdateNodegroupConfigInput{ScalingConfig: &types.NodegroupScalingConfig{MinSize: aws.Int32(0),
			MaxSize: aws.Int32(6), DesiredSize: aws.Int32(3)}},
			map[types.UpdateParamType]string{"MinSize": "0", "MaxSize": "6", "DesiredSize": "3"},
			func(n *types.Nodegroup) bool { return *n.ScalingConfig.DesiredSize == 3 }},
		{"labels", eks.UpdateNodegroupConfigInput{Labels: &types.UpdateLabelsPayload{
			AddOrUpdateLabels: map[string]string{"new": "1", "kept": "2"}, RemoveLabels: []string{"old", "unknown"}}},
			map[types.UpdateParamType]string{"LabelsToAdd": `{"kept":"2","new":"1"}`,
				"LabelsToRemove": `["old","unknown"]`},
			func(n *types.Nodegroup) bool { return cmp.Equal(n.Labels, map[string]string{"new": "1", "kept": "2"}) }},
		{"taints", eks.UpdateNodegroupConfigInput{Taints: &types.UpdateTaintsPayload{
			AddOrUpdateTaints: []types.Taint{taint("new", "v", types.TaintEffectNoExecute)},
			RemoveTaints:      []types.Taint{{Key: aws.String("old"), Effect: types.TaintEffectNoSchedule}}}},
			map[types.UpdateParamType]string{"TaintsToAdd": `[{"effect":"NO_EXECUTE","key":"new","value":"v"}]`,
				"TaintsToRemove": `[{"effect":"NO_SCHEDULE","key":"old"}]`},
			func(n *types.Nodegroup) bool { return len(n.Taints) == 1 && *n.Taints[0].Key == "new" }},
		{"another value of a taint", eks.UpdateNodegroupConfigInput{Taints: &types.UpdateTaintsPayload{
			AddOrUpdateTaints: []types.Taint{taint("new", "w", types.TaintEffectNoExecute)}}},
			map[types.UpdateParamType]string{"TaintsToAdd": `[{"effect":"NO_EXECUTE","key":"new","value":"w"}]`},
			func(n *types.Nodegroup) bool { return len(n.Taints) == 1 && *n.Taints[0].Value == "w" }},
		{"update config", eks.UpdateNodegroupConfigInput{UpdateConfig: &types.NodegroupUpdateConfig{
			MaxUnavailablePercentage: aws.Int32(50), UpdateStrategy: types.NodegroupUpdateStrategiesMinimal}},
			map[types.UpdateParamType]string{"MaxUnavailablePercentage": "50", "UpdateStrategy": "MINIMAL"},
			func(n *types.Nodegroup) bool { return n.UpdateConfig.MaxUnavailable == nil }},
		{"update config and scaling", eks.UpdateNodegroupConfigInput{UpdateConfig: &types.NodegroupUpdateConfig{
			MaxUnavailable: aws.Int32(8)}, ScalingConfig: &types.NodegroupScalingConfig{MaxSize: aws.Int32(8)}},
			map[types.UpdateParamType]string{"MaxUnavailable": "8", "MaxSize": "8"},
			func(n *types.Nodegroup) bool {
				return *n.UpdateConfig.MaxUnavailable == 8 &&
					n.UpdateConfig.UpdateStrategy == types.NodegroupUpdateStrategiesMinimal
			}},
		{"node auto repair", eks.UpdateNodegroupConfigInput{NodeRepairConfig: &types.NodeRepairConfig{
			Enabled: aws.Bool(true), MaxUnhealthyNodeThresholdPercentage: aws.Int32(40)}},
			map[types.UpdateParamType]string{"NodeRepairEnabled": "true",
				"NodeRepairConfig": `{"maxUnhealthyNodeThresholdPercentage":40}`},
			func(n *types.Nodegroup) bool { return *n.NodeRepairConfig.Enabled }},
		{"warm pool", eks.UpdateNodegroupConfigInput{WarmPoolConfig: &types.WarmPoolConfig{Enabled: aws.Bool(true),
			MinSize: aws.Int32(1), PoolState: types.WarmPoolStateRunning, ReuseOnScaleIn: aws.Bool(true)}},
			map[types.UpdateParamType]string{"WarmPoolEnabled": "true", "WarmPoolMinSize": "1",
				"WarmPoolState": "RUNNING", "WarmPoolReuseOnScaleIn": "true"},
			func(n *types.Nodegroup) bool { return n.WarmPoolConfig.PoolState == types.WarmPoolStateRunning }},
		{"no warm pool", eks.UpdateNodegroupConfigInput{WarmPoolConfig: &types.WarmPoolConfig{
			Enabled: aws.Bool(false)}},
			map[types.UpdateParamType]string{"WarmPoolEnabled": "false"},
			func(n *types.Nodegroup) bool { return !*n.WarmPoolConfig.Enabled && *n.WarmPoolConfig.MinSize == 1 }},
	} {
		step.in.ClusterName, step.in.NodegroupName = aws.String("c"), aws.String("ng")
		update := w.configureGroup(&step.in)
		if update.Type != types.UpdateTypeConfigUpdate || update.Status != types.UpdateStatusInProgress {
			t.Errorf("%s: update of type %s in status %s", step.name, update.Type, update.Status)
		}
		if d := cmp.Diff(step.params, ekstest.Params(update)); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, d)
		}
		if got := w.describeGroup("c", "ng"); !step.shown(got) || got.Status != types.NodegroupStatusActive {
			t.Errorf("%s: described as %+v", step.name, got)
		}
	}
	if n := w.groupRow("c", "ng").ScalingChange; n != 3 {
		t.Errorf("%d changes of the size", n)
	}
}

func TestUpdateNodegroupVersion(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c", func(in *eks.CreateClusterInput) { in.Version = aws.String("1.36") })
	w.createGroup("c", "ng", func(in *eks.CreateNodegroupInput) {
		in.Version, in.ReleaseVersion = aws.String("1.34"), aws.String(w.release("1.34", "20261022"))
	})
	update := func(in eks.UpdateNodegroupVersionInput) *types.Update {
		t.Helper()
		in.ClusterName, in.NodegroupName = aws.String("c"), aws.String("ng")
		out, err := w.Client.UpdateNodegroupVersion(t.Context(), &in)
		if err != nil {
			t.Fatal(err)
		}
		return out.Update
	}
	shows := func(what, version, release string, status types.NodegroupStatus) {
		t.Helper()
		if got := w.describeGroup("c", "ng"); *got.Version != version || *got.ReleaseVersion != w.release(version,
			release) || got.Status != status {
			t.Errorf("%s: version %s, release %s, %s", what, *got.Version, *got.ReleaseVersion, got.Status)
		}
	}
	shows("created", "1.34", "20261022", types.NodegroupStatusActive)

	// A release is one of the group's version.
	got := update(eks.UpdateNodegroupVersionInput{ReleaseVersion: aws.String(w.release("1.34", "20261105"))})
	if d := cmp.Diff(map[types.UpdateParamType]string{"Version": "1.34", "ReleaseVersion": w.release("1.34",
		"20261105")}, ekstest.Params(got)); d != "" || got.Type != types.UpdateTypeVersionUpdate {
		t.Errorf("%s (-want +got):\n%s", got.Type, d)
	}
	shows("while the update is on its way", "1.34", "20261022", types.NodegroupStatusUpdating)
	w.endGroupUpdate("c", "ng", types.UpdateStatusFailed)
	shows("after it failed", "1.34", "20261022", types.NodegroupStatusActive)

	// The next update goes on from what counts, not from what failed.
	w.configureGroup(&eks.UpdateNodegroupConfigInput{ClusterName: aws.String("c"), NodegroupName: aws.String("ng"),
		Labels: &types.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"a": "b"}}})
	shows("after another update", "1.34", "20261022", types.NodegroupStatusActive)

	update(eks.UpdateNodegroupVersionInput{Version: aws.String("1.35"), Force: true})
	row, err := record.Updates(w.Store).Get(t.Context(), record.UpdateKey(ekstest.Account, ekstest.Region, "c",
		w.groupRow("c", "ng").LastUpdateID))
	if err != nil {
		t.Fatal(err)
	}
	if u := row.Value; !u.Force || u.PreviousTemplate == nil || u.PreviousTemplate.Version != "1.34" ||
		u.NodegroupName != "ng" {
		t.Errorf("recorded %+v", u)
	}
	w.endGroupUpdate("c", "ng", types.UpdateStatusSuccessful)
	w.keepGroup("c", "ng", func(*record.NodegroupState) {})
	shows("upgraded", "1.35", "20261105", types.NodegroupStatusActive)

	// Without a word it follows the cluster.
	update(eks.UpdateNodegroupVersionInput{})
	w.endGroupUpdate("c", "ng", types.UpdateStatusSuccessful)
	w.keepGroup("c", "ng", func(*record.NodegroupState) {})
	shows("followed", "1.36", "20261105", types.NodegroupStatusActive)

	// To be made anew from what there is already is fine.
	update(eks.UpdateNodegroupVersionInput{Force: true})
}

// release is the release of Amazon Linux 2023 of a day, for a version of Kubernetes.
func (w fixture) release(version, day string) string {
	w.T.Helper()
	out, err := w.EC2.DescribeImages(w.T.Context(), &ec2.DescribeImagesInput{Owners: []string{"amazon"},
		Filters: []ec2types.Filter{
			{Name: aws.String("name"), Values: []string{"amazon-eks-node-al2023-x86_64-standard-" + version + "-v" +
				day}},
		}})
	if err != nil || len(out.Images) != 1 {
		w.T.Fatalf("image of %s, %s: %v", version, day, err)
	}
	_, patch, _ := strings.Cut(*out.Images[0].Description, "k8s: ")
	patch, _, _ = strings.Cut(patch, ",")
	return patch + "-" + day
}

// template makes a launch template, or another version of it, and answers with its ID.
func (w fixture) template(name string, data *ec2types.RequestLaunchTemplateData) string {
	w.T.Helper()
	out, err := w.EC2.CreateLaunchTemplate(w.T.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name,
		LaunchTemplateData: data})
	if err == nil {
		return *out.LaunchTemplate.LaunchTemplateId
	}
	next, err := w.EC2.CreateLaunchTemplateVersion(w.T.Context(),
		&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateName: &name, LaunchTemplateData: data})
	if err != nil {
		w.T.Fatal(err)
	}
	return *next.LaunchTemplateVersion.LaunchTemplateId
}

// image is the ID of an image of EKS's, in a user's launch template an image like any other.
func (w fixture) image() string {
	w.T.Helper()
	out, err := w.EC2.DescribeImages(w.T.Context(),
		&ec2.DescribeImagesInput{Filters: []ec2types.Filter{{Name: aws.String("name"),
			Values: []string{"amazon-eks-node-al2023-x86_64-standard-1.35-v20261105"}}}})
	if err != nil {
		w.T.Fatal(err)
	}
	return *out.Images[0].ImageId
}

// network makes a VPC as its user would, with subnets in which EC2 could launch. It answers with what makes a cluster,
// and a node group, in it.
func (w fixture) network() (cluster func(*eks.CreateClusterInput), nodes func(*eks.CreateNodegroupInput)) {
	w.T.Helper()
	vpc, err := w.EC2.CreateVpc(w.T.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.7.0.0/16")})
	if err != nil {
		w.T.Fatal(err)
	}
	var ids []string
	for i, zone := range []string{"a", "b"} {
		subnet, err := w.EC2.CreateSubnet(w.T.Context(), &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId,
			CidrBlock: aws.String(fmt.Sprintf("10.7.%d.0/24", i)), AvailabilityZone: aws.String(ekstest.Region + zone)})
		if err != nil {
			w.T.Fatal(err)
		}
		ids = append(ids, *subnet.Subnet.SubnetId)
	}
	return func(in *eks.CreateClusterInput) { in.ResourcesVpcConfig.SubnetIds = ids },
		func(in *eks.CreateNodegroupInput) { in.Subnets = ids }
}

func using(id, version string) func(*eks.CreateNodegroupInput) {
	return func(in *eks.CreateNodegroupInput) {
		in.LaunchTemplate = &types.LaunchTemplateSpecification{Id: &id}
		if version != "" {
			in.LaunchTemplate.Version = &version
		}
	}
}

func TestNodegroupOfLaunchTemplate(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	there, here := w.network()
	w.Create("c", there, func(in *eks.CreateClusterInput) { in.Version = aws.String("1.36") })
	mime := base64.StdEncoding.EncodeToString(
		[]byte("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: " +
			"text/x-shellscript\n\necho\n--X--\n"))
	id := w.template("nodes", &ec2types.RequestLaunchTemplateData{UserData: &mime})
	w.template("nodes", &ec2types.RequestLaunchTemplateData{UserData: &mime, EbsOptimized: aws.Bool(true)})
	made := w.createGroup("c", "ng", here, using(id, "$Latest"), func(in *eks.CreateNodegroupInput) {
		in.InstanceTypes, in.Version = []string{"m5.large", "m5a.large"}, aws.String("1.35")
	})
	if lt := made.LaunchTemplate; *lt.Id != id || *lt.Name != "nodes" || *lt.Version != "2" || made.DiskSize != nil ||
		len(made.InstanceTypes) != 2 || made.AmiType != types.AMITypesAl2023X8664Standard {
		t.Errorf("made %+v of %+v", made, lt)
	}
	w.template("nodes", &ec2types.RequestLaunchTemplateData{EbsOptimized: aws.Bool(false)})
	out, err := w.Client.UpdateNodegroupVersion(t.Context(),
		&eks.UpdateNodegroupVersionInput{ClusterName: aws.String("c"), NodegroupName: aws.String("ng"),
			LaunchTemplate: &types.LaunchTemplateSpecification{Name: aws.String("nodes"), Version: aws.String("3")}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[types.UpdateParamType]string{"Version": "1.36", "ReleaseVersion": w.release("1.36", "20261105"),
		"LaunchTemplateName": "nodes", "LaunchTemplateVersion": "3"}
	if d := cmp.Diff(want, ekstest.Params(out.Update)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := w.describeGroup("c", "ng").LaunchTemplate; *got.Version != "2" {
		t.Errorf("template version %s while the update is on its way", *got.Version)
	}
	w.endGroupUpdate("c", "ng", types.UpdateStatusSuccessful)
	w.keepGroup("c", "ng", func(*record.NodegroupState) {})
	if got := w.describeGroup("c", "ng").LaunchTemplate; *got.Version != "3" {
		t.Errorf("template version %s after the update", *got.Version)
	}

	// An update of the image alone keeps the template's version.
	if _, err := w.Client.UpdateNodegroupVersion(t.Context(),
		&eks.UpdateNodegroupVersionInput{ClusterName: aws.String("c"), NodegroupName: aws.String("ng")}); err != nil {
		t.Fatal(err)
	}
	if got := w.groupRow("c", "ng").Template.LaunchTemplate; *got.Version != "3" {
		t.Errorf("template version %s after another update", *got.Version)
	}
}

func TestNodegroupOfCustomImage(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	there, here := w.network()
	w.Create("c", there)
	image := w.image()
	// Its user data is the user's own, in whatever form.
	data := &ec2types.RequestLaunchTemplateData{ImageId: &image, InstanceType: ec2types.InstanceTypeM5Large,
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n")))}
	id := w.template("nodes", data)
	for _, kind := range []types.AMITypes{"", types.AMITypesCustom} {
		made := w.createGroup("c", "ng"+string(kind), here, using(id, ""),
			func(in *eks.CreateNodegroupInput) { in.AmiType = kind })
		if made.AmiType != types.AMITypesCustom || *made.ReleaseVersion != image || made.Version != nil ||
			made.InstanceTypes != nil || *made.LaunchTemplate.Version != "1" {
			t.Errorf("made %+v", made)
		}
	}
	w.template("nodes", data)
	out, err := w.Client.UpdateNodegroupVersion(t.Context(),
		&eks.UpdateNodegroupVersionInput{ClusterName: aws.String("c"), NodegroupName: aws.String("ng"),
			LaunchTemplate: &types.LaunchTemplateSpecification{Id: &id, Version: aws.String("2")}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[types.UpdateParamType]string{"LaunchTemplateName": "nodes", "LaunchTemplateVersion": "2"},
		ekstest.Params(out.Update)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Nobody launches through a node group what they may not launch themselves.
func TestNodegroupOfLaunchTemplateDenied(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	there, here := w.network()
	w.Create("c", there)
	id := w.template("nodes", &ec2types.RequestLaunchTemplateData{EbsOptimized: aws.Bool(false)})
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "ec2:RunInstances" }
	in := group("c", "ng")
	here(in)
	using(id, "")(in)
	_, err := w.Client.CreateNodegroup(t.Context(), in)
	if f := ekstest.FailureOf(t, err); f.Code != "AccessDeniedException" || f.Status != 403 ||
		!strings.Contains(f.Message,
			"You are not authorized to launch instances with this launch template: not authorized to perform: "+
				"ec2:RunInstances on resource: ") {
		t.Errorf("%v", f)
	}
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "iam:PassRole" }
	in.LaunchTemplate = nil
	if _, err := w.Client.CreateNodegroup(t.Context(), in); ekstest.FailureOf(t, err).Code != "AccessDeniedException" {
		t.Errorf("passed the role: %v", err)
	}
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "iam:CreateServiceLinkedRole" }
	_, err = w.Client.CreateNodegroup(t.Context(), in)
	if got, want := ekstest.FailureOf(t, err), (ekstest.Failure{Code: "InvalidRequestException", Status: 400,
		Message: "Failed to create service linked role: AWSServiceRoleForAmazonEKSNodegroup due to missing " +
			"permissions for 'iam:CreateServiceLinkedRole'"}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := w.groups("c"); len(got) != 0 {
		t.Errorf("made %v", got)
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

func TestNodegroupUpdatesAreTheGroups(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.Config(&eks.UpdateClusterConfigInput{Name: aws.String("c"), DeletionProtection: aws.Bool(true)})
	w.createGroup("c", "a")
	w.createGroup("c", "b")
	label := func(group string) string {
		return *w.configureGroup(&eks.UpdateNodegroupConfigInput{ClusterName: aws.String("c"), NodegroupName: &group,
			Labels: &types.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"x": "y"}}}).Id
	}
	want := []string{label("a"), label("a")}
	ofB := label("b")
	slices.Sort(want)
	out, err := w.Client.ListUpdates(t.Context(), &eks.ListUpdatesInput{Name: aws.String("c"),
		NodegroupName: aws.String("a")})
	if err != nil || !slices.Equal(out.UpdateIds, want) {
		t.Errorf("%v, %v; want %v", out, err, want)
	}
	described, err := w.Client.DescribeUpdate(t.Context(), &eks.DescribeUpdateInput{Name: aws.String("c"),
		NodegroupName: aws.String("b"), UpdateId: &ofB})
	if err != nil || described.Update.Status != types.UpdateStatusSuccessful {
		t.Errorf("%v, %v", described, err)
	}
	for _, group := range []*string{nil, aws.String("a")} {
		_, err := w.Client.DescribeUpdate(t.Context(), &eks.DescribeUpdateInput{Name: aws.String("c"),
			NodegroupName: group, UpdateId: &ofB})
		if got, want := ekstest.FailureOf(t, err), (ekstest.Failure{Code: "ResourceNotFoundException", Status: 404,
			Message: "No update found for ID: " + ofB}); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	// A group that has the name later has none of them.
	ekstest.Put(w.T, record.Nodegroups(w.Store), record.NodegroupKey(ekstest.Account, ekstest.Region, "c", "a"),
		record.Nodegroup{ClusterID: w.Row("c").ID, Name: "a", ID: "another"})
	if out, err := w.Client.ListUpdates(t.Context(), &eks.ListUpdatesInput{Name: aws.String("c"),
		NodegroupName: aws.String("a")}); err != nil || len(out.UpdateIds) != 0 {
		t.Errorf("of another group: %v, %v", out, err)
	}
}

func TestNodegroupTags(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	arn := w.createGroup("c", "ng", func(in *eks.CreateNodegroupInput) {
		in.Tags = map[string]string{
			"a": "1"}
	}).NodegroupArn
	if _, err := w.Client.TagResource(t.Context(), &eks.TagResourceInput{ResourceArn: arn,
		Tags: map[string]string{"b": "2", "c": "3"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.UntagResource(t.Context(), &eks.UntagResourceInput{ResourceArn: arn,
		TagKeys: []string{"a", "c"}}); err != nil {
		t.Fatal(err)
	}
	out, err := w.Client.ListTagsForResource(t.Context(), &eks.ListTagsForResourceInput{ResourceArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"b": "2"}, out.Tags); d != "" || !cmp.Equal(out.Tags,
		w.describeGroup("c", "ng").Tags) {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := w.Target("eks:UntagResource"); got.Resource != *arn || !slices.Equal(got.Conditions["aws:ResourceTag/b"],
		[]string{"2"}) {
		t.Errorf("judged %+v", got)
	}
	_, err = w.Client.TagResource(t.Context(),
		&eks.TagResourceInput{ResourceArn: aws.String(strings.Replace(*arn, "/ng/", "/other/", 1)),
			Tags: map[string]string{"x": "y"}})
	if ekstest.FailureOf(t, err).Code != "NotFoundException" {
		t.Errorf("another ARN: %v", err)
	}
}

func TestNodegroupTargets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c", func(in *eks.CreateClusterInput) { in.Tags = map[string]string{"env": "test"} })
	made := w.createGroup("c", "ng", func(in *eks.CreateNodegroupInput) { in.Tags = map[string]string{"team": "a"} })
	if got := w.Target("eks:CreateNodegroup"); got.Resource != ekstest.ClusterARN+"c" ||
		!slices.Equal(got.Conditions["aws:RequestTag/team"], []string{"a"}) ||
		!slices.Equal(got.Conditions["aws:ResourceTag/env"], []string{"test"}) {
		t.Errorf("create: %+v", got)
	}
	if got := w.Target("eks:DescribeNodegroup"); got.Resource != *made.NodegroupArn ||
		!slices.Equal(got.Conditions["aws:ResourceTag/team"], []string{"a"}) {
		t.Errorf("describe: %+v", got)
	}
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "eks:DeleteNodegroup" }
	_, err := w.Client.DeleteNodegroup(t.Context(), &eks.DeleteNodegroupInput{ClusterName: aws.String("c"),
		NodegroupName: aws.String("nobody")})
	if ekstest.FailureOf(t, err).Code != "AccessDeniedException" ||
		w.Target("eks:DeleteNodegroup").Resource != "arn:aws:eks:"+ekstest.Region+":"+ekstest.Account+
			":nodegroup/c/nobody/*" {
		t.Errorf("delete: %v of %+v", err, w.Target("eks:DeleteNodegroup"))
	}
	if _, err := w.Client.ListUpdates(t.Context(), &eks.ListUpdatesInput{Name: aws.String("c"),
		NodegroupName: aws.String("ng")}); err != nil || w.Target("eks:ListUpdates").Resource != *made.NodegroupArn {
		t.Errorf("updates: %v of %+v", err, w.Target("eks:ListUpdates"))
	}
}

// A cluster is deleted or gets a node group, never both.
func TestNodegroupOrNoCluster(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for i := range 10 {
		name := fmt.Sprint("c", i)
		w.Create(name)
		var deleted, created error
		var both sync.WaitGroup
		both.Go(func() { deleted = ekstest.DeleteCluster(name)(t.Context(), w.Client) })
		both.Go(func() { _, created = w.Client.CreateNodegroup(t.Context(), group(name, "ng")) })
		both.Wait()
		if (deleted == nil) == (created == nil) {
			t.Errorf("deleted: %v; created: %v", deleted, created)
		}
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

func TestDeleteNodegroup(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createGroup("c", "ng")
	for range 2 { // the second time changes nothing
		out, err := w.Client.DeleteNodegroup(t.Context(), &eks.DeleteNodegroupInput{ClusterName: aws.String("c"),
			NodegroupName: aws.String("ng")})
		if err != nil || out.Nodegroup.Status != types.NodegroupStatusDeleting {
			t.Fatalf("%v, %v", out, err)
		}
	}
	if err := ekstest.DeleteCluster("c")(t.Context(), w.Client); ekstest.FailureOf(t,
		err).Message != "Cluster has nodegroups attached" {
		t.Errorf("deleted the cluster: %v", err)
	}
	w.keepGroup("c", "ng", func(s *record.NodegroupState) {
		s.DeleteFailed = true
		s.Issues = []types.Issue{{Code: types.NodegroupIssueCodeEc2SecurityGroupDeletionFailure}}
	})
	if got := w.describeGroup("c", "ng"); got.Status != types.NodegroupStatusDeleteFailed ||
		len(got.Health.Issues) != 1 {
		t.Errorf("%s with %+v", got.Status, got.Health)
	}
	w.forget("c", "ng")
	_, err := w.Client.DescribeNodegroup(t.Context(), &eks.DescribeNodegroupInput{ClusterName: aws.String("c"),
		NodegroupName: aws.String("ng")})
	if got, want := ekstest.FailureOf(t, err), (ekstest.Failure{Code: "ResourceNotFoundException", Status: 404,
		Message: "No node group found for name: ng."}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if err := ekstest.DeleteCluster("c")(t.Context(), w.Client); err != nil {
		t.Error(err)
	}
}

// forget is the controller removing the row of a group that is gone.
func (w fixture) forget(cluster, name string) {
	w.T.Helper()
	err := w.Store.Txn(w.T.Context(), record.Nodegroups(w.Store).RemoveOp(record.NodegroupKey(ekstest.Account,
		ekstest.Region, cluster, name)), record.NodegroupStates(w.Store).RemoveOp(record.NodegroupKey(ekstest.Account,
		ekstest.Region, cluster, name)))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.T.Fatal(err)
	}
}

// A cluster does not leave its nodes more than three minor versions behind.
func TestClusterWaitsForItsNodegroups(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c", func(in *eks.CreateClusterInput) { in.Version = aws.String("1.35") })
	w.createGroup("c", "old")
	w.createGroup("c", "young")
	w.keepGroup("c", "old", func(s *record.NodegroupState) { s.Template.Version = "1.32" })
	_, err := w.Client.UpdateClusterVersion(t.Context(), &eks.UpdateClusterVersionInput{Name: aws.String("c"),
		Version: aws.String("1.36"), Force: true})
	if got, want := ekstest.FailureOf(t, err), (ekstest.Failure{Code: "InvalidParameterException", Status: 400,
		Message: "Nodegroups old must be updated to match cluster version 1.35 before updating cluster version"}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	w.keepGroup("c", "old", func(s *record.NodegroupState) { s.Template.Version = "1.33" })
	if err := ekstest.UpdateVersion("c", "1.36")(t.Context(), w.Client); err != nil {
		t.Error(err)
	}
}

// The unmodified aws CLI creates a node group, waits for it, changes it, and waits until it is gone.
func TestNodegroupCLI(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	cli := awsclient.NewCLI(t, w.URL, ekstest.Region, "eks")
	on := func(command string, args ...string) []string {
		return append([]string{command, "--cluster-name", "c", "--nodegroup-name", "ng"}, args...)
	}
	// The controller works while the CLI waits: it makes and unmakes what it finds.
	controller := func(act func(record.Nodegroup) bool) (done func()) {
		var g sync.WaitGroup
		g.Go(func() {
			eventually.True(t, "the node group is as the controller likes it", func() bool {
				row, err := record.Nodegroups(w.Store).Get(t.Context(), record.NodegroupKey(ekstest.Account,
					ekstest.Region, "c", "ng"))
				return err == nil && act(row.Value)
			})
		})
		return g.Wait
	}
	var created struct {
		Nodegroup struct {
			Status         string
			ReleaseVersion string
		}
	}
	cli.Run(&created, on("create-nodegroup", "--node-role", ekstest.NodeRole, "--subnets", "subnet-a", "subnet-b",
		"--scaling-config", "minSize=1,maxSize=3,desiredSize=1",
		"--labels", "team=a", "--taints", "key=dedicated,value=gpu,effect=NO_SCHEDULE", "--update-config",
		"maxUnavailable=2")...)
	if created.Nodegroup.Status != "CREATING" || created.Nodegroup.ReleaseVersion == "" {
		t.Errorf("created %+v", created)
	}
	began := time.Now()
	done := controller(func(record.Nodegroup) bool {
		w.keepGroup("c", "ng", func(*record.NodegroupState) {})
		return true
	})
	cli.Run(nil, "wait", "nodegroup-active", "--cluster-name", "c", "--nodegroup-name", "ng")
	done()
	var update struct {
		Update struct{ ID, Status string }
	}
	cli.Run(&update, on("update-nodegroup-config", "--scaling-config", "desiredSize=2")...)
	cli.Refused("ResourceInUseException", "Cannot VersionUpdate because nodegroup ng currently has update "+
		update.Update.ID+" in progress", on("update-nodegroup-version")...)
	w.endGroupUpdate("c", "ng", types.UpdateStatusSuccessful)
	w.keepGroup("c", "ng", func(*record.NodegroupState) {})
	cli.Run(&update, "describe-update", "--name", "c", "--nodegroup-name", "ng", "--update-id", update.Update.ID)
	if update.Update.Status != "Successful" {
		t.Errorf("update %+v", update)
	}
	var listed struct{ Nodegroups []string }
	if cli.Run(&listed, "list-nodegroups", "--cluster-name", "c"); !slices.Equal(listed.Nodegroups, []string{"ng"}) {
		t.Errorf("listed %v", listed)
	}
	cli.Run(nil, on("delete-nodegroup")...)
	done = controller(func(n record.Nodegroup) bool {
		if n.Deleting {
			w.forget("c", "ng")
		}
		return n.Deleting
	})
	cli.Run(nil, "wait", "nodegroup-deleted", "--cluster-name", "c", "--nodegroup-name", "ng")
	done()
	t.Logf("the waiters waited %s", time.Since(began).Round(time.Millisecond))
	cli.Refused("ResourceNotFoundException", "No node group found for name: ng.", on("describe-nodegroup")...)
}
