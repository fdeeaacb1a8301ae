package nodegroup_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

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
