package cluster_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Every kind of update has its type and parameters, and shows in DescribeCluster.
func TestUpdateClusterConfig(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	for _, step := range []struct {
		in     eks.UpdateClusterConfigInput
		kind   types.UpdateType
		params map[types.UpdateParamType]string
		shown  func(*types.Cluster) bool
	}{
		{
			eks.UpdateClusterConfigInput{ResourcesVpcConfig: &types.VpcConfigRequest{EndpointPrivateAccess: aws.Bool(
				true), PublicAccessCidrs: []string{"44.203.113.0/24"}}},
			types.UpdateTypeEndpointAccessUpdate,
			map[types.UpdateParamType]string{"EndpointPublicAccess": "true", "EndpointPrivateAccess": "true",
				"PublicAccessCidrs": `["44.203.113.0/24"]`},
			func(c *types.Cluster) bool {
				return c.ResourcesVpcConfig.EndpointPrivateAccess &&
					slices.Equal(c.ResourcesVpcConfig.PublicAccessCidrs, []string{"44.203.113.0/24"})
			},
		},
		{
			eks.UpdateClusterConfigInput{ResourcesVpcConfig: &types.VpcConfigRequest{EndpointPublicAccess: aws.Bool(
				false)}},
			types.UpdateTypeEndpointAccessUpdate,
			map[types.UpdateParamType]string{"EndpointPublicAccess": "false", "EndpointPrivateAccess": "true",
				"PublicAccessCidrs": `[]`},
			func(c *types.Cluster) bool {
				return !c.ResourcesVpcConfig.EndpointPublicAccess && len(c.ResourcesVpcConfig.PublicAccessCidrs) == 0
			},
		},
		{
			eks.UpdateClusterConfigInput{ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: []string{"subnet-b",
				"subnet-c"}, SecurityGroupIds: []string{"sg-1"}}},
			types.UpdateTypeVpcConfigUpdate,
			map[types.UpdateParamType]string{"Subnets": `["subnet-b","subnet-c"]`, "SecurityGroups": `["sg-1"]`},
			func(c *types.Cluster) bool {
				return slices.Equal(c.ResourcesVpcConfig.SubnetIds, []string{"subnet-b", "subnet-c"}) &&
					slices.Equal(c.ResourcesVpcConfig.SecurityGroupIds, []string{"sg-1"})
			},
		},
		{
			eks.UpdateClusterConfigInput{
				Logging: &types.Logging{ClusterLogging: []types.LogSetup{{Types: []types.LogType{"api", "audit"},
					Enabled: aws.Bool(true)}}}},
			types.UpdateTypeLoggingUpdate,
			map[types.UpdateParamType]string{
				"ClusterLogging": `{"clusterLogging":[{"types":["api","audit"],"enabled":true}]}`},
			func(c *types.Cluster) bool {
				return slices.Equal(c.Logging.ClusterLogging[0].Types, []types.LogType{"api", "audit"}) &&
					*c.Logging.ClusterLogging[0].Enabled
			},
		},
		{
			eks.UpdateClusterConfigInput{
				Logging: &types.Logging{ClusterLogging: []types.LogSetup{{Types: []types.LogType{"api"},
					Enabled: aws.Bool(false)}}}},
			types.UpdateTypeLoggingUpdate,
			map[types.UpdateParamType]string{
				"ClusterLogging": `{"clusterLogging":[{"types":["api"],"enabled":false}]}`},
			func(c *types.Cluster) bool {
				return slices.Equal(c.Logging.ClusterLogging[0].Types, []types.LogType{"audit"})
			},
		},
		{
			eks.UpdateClusterConfigInput{AccessConfig: &types.UpdateAccessConfigRequest{
				AuthenticationMode: types.AuthenticationModeApi}},
			types.UpdateTypeAccessConfigUpdate,
			map[types.UpdateParamType]string{"AuthenticationMode": "API"},
			func(c *types.Cluster) bool { return c.AccessConfig.AuthenticationMode == types.AuthenticationModeApi },
		},
		{
			eks.UpdateClusterConfigInput{UpgradePolicy: &types.UpgradePolicyRequest{
				SupportType: types.SupportTypeStandard}},
			types.UpdateTypeUpgradePolicyUpdate,
			map[types.UpdateParamType]string{"UpgradePolicy": `{"supportType":"STANDARD"}`},
			func(c *types.Cluster) bool { return c.UpgradePolicy.SupportType == types.SupportTypeStandard },
		},
		{
			eks.UpdateClusterConfigInput{DeletionProtection: aws.Bool(true)},
			types.UpdateTypeDeletionProtectionUpdate,
			map[types.UpdateParamType]string{"DeletionProtection": "true"},
			func(c *types.Cluster) bool { return *c.DeletionProtection },
		},
		{
			eks.UpdateClusterConfigInput{ZonalShiftConfig: &types.ZonalShiftConfigRequest{Enabled: aws.Bool(true)}},
			types.UpdateTypeZonalShiftConfigUpdate,
			map[types.UpdateParamType]string{"ZonalShiftConfig": `{"enabled":true}`},
			func(c *types.Cluster) bool { return *c.ZonalShiftConfig.Enabled },
		},
		{
			eks.UpdateClusterConfigInput{ComputeConfig: &types.ComputeConfigRequest{Enabled: aws.Bool(false)}},
			types.UpdateTypeAutoModeUpdate,
			map[types.UpdateParamType]string{"ComputeConfig": `{"enabled":false}`,
				"StorageConfig":           `{"blockStorage":{"enabled":false}}`,
				"KubernetesNetworkConfig": `{"elasticLoadBalancing":{"enabled":false}}`},
			func(c *types.Cluster) bool { return !*c.ComputeConfig.Enabled },
		},
		{
			eks.UpdateClusterConfigInput{RemoteNetworkConfig: &types.RemoteNetworkConfigRequest{
				RemoteNodeNetworks: []types.RemoteNodeNetwork{{Cidrs: []string{"10.1.0.0/16"}}},
				RemotePodNetworks:  []types.RemotePodNetwork{{Cidrs: []string{"10.2.0.0/16"}}},
			}},
			types.UpdateTypeRemoteNetworkConfigUpdate,
			map[types.UpdateParamType]string{
				"RemoteNetworkConfig": `{"remoteNodeNetworks":[{"cidrs":["10.1.0.0/16"]}],"remotePodNetworks":[{"cidrs":["10.2.0.0/16"]}]}`},
			func(c *types.Cluster) bool {
				return c.RemoteNetworkConfig.RemotePodNetworks[0].Cidrs[0] == "10.2.0.0/16"
			},
		},
		{
			eks.UpdateClusterConfigInput{RemoteNetworkConfig: &types.RemoteNetworkConfigRequest{
				RemoteNodeNetworks: []types.RemoteNodeNetwork{}, RemotePodNetworks: []types.RemotePodNetwork{}}},
			types.UpdateTypeRemoteNetworkConfigUpdate,
			map[types.UpdateParamType]string{"RemoteNetworkConfig": `{"remoteNodeNetworks":[],"remotePodNetworks":[]}`},
			func(c *types.Cluster) bool { return c.RemoteNetworkConfig == nil },
		},
		{
			eks.UpdateClusterConfigInput{KubeApiServerConfig: &types.KubeApiServerConfigRequest{
				EventTtl: aws.String("2h")}},
			types.UpdateTypeControlPlaneComponentConfigUpdate,
			map[types.UpdateParamType]string{"KubeApiServerConfig": `{"eventTtl":"2h"}`},
			func(c *types.Cluster) bool { return *c.KubeApiServerConfig.EventTtl == "2h" },
		},
		{
			eks.UpdateClusterConfigInput{
				KubeApiServerConfig: &types.KubeApiServerConfigRequest{
					ServiceNodePortRange: &types.ServiceNodePortRange{MinPort: 30000, MaxPort: 30100}},
				KubeControllerManagerConfig: &types.KubeControllerManagerConfigRequest{
					HorizontalPodAutoscalerControllerConfig: &types.HorizontalPodAutoscalerControllerConfigRequest{
						HorizontalPodAutoscalerSyncPeriod: aws.String("30s")}},
			},
			types.UpdateTypeControlPlaneComponentConfigUpdate,
			map[types.UpdateParamType]string{
				"KubeApiServerConfig":         `{"serviceNodePortRange":{"maxPort":30100,"minPort":30000}}`,
				"KubeControllerManagerConfig": `{"horizontalPodAutoscalerControllerConfig":{"horizontalPodAutoscalerSyncPeriod":"30s"}}`,
			},
			func(c *types.Cluster) bool {
				return *c.KubeApiServerConfig.EventTtl == "2h" &&
					c.KubeApiServerConfig.ServiceNodePortRange.MaxPort == 30100
			},
		},
	} {
		step.in.Name = aws.String("c")
		update := w.Config(&step.in)
		if update.Type != step.kind || update.Status != types.UpdateStatusInProgress ||
			!update.CreatedAt.Equal(ekstest.Today) {
			t.Errorf("%s: update of type %s in status %s", step.kind, update.Type, update.Status)
		}
		if d := cmp.Diff(step.params, ekstest.Params(update)); d != "" {
			t.Errorf("%s: params (-want +got):\n%s", step.kind, d)
		}
		if !step.shown(w.Describe("c")) {
			t.Errorf("%s %v: not shown by DescribeCluster", step.kind, step.params)
		}
		described, err := w.Client.DescribeUpdate(t.Context(), &eks.DescribeUpdateInput{Name: aws.String("c"),
			UpdateId: update.Id})
		if err != nil || described.Update.Status != types.UpdateStatusSuccessful || len(described.Update.Errors) != 0 {
			t.Errorf("%s: described when done as %+v, %v", step.kind, described, err)
		}
	}
}

// Two updates at once: one starts, the other is told that it is in progress.
func TestUpdateTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	errs := make(chan error)
	for _, in := range []*eks.UpdateClusterConfigInput{
		{DeletionProtection: aws.Bool(true)},
		{ZonalShiftConfig: &types.ZonalShiftConfigRequest{Enabled: aws.Bool(true)}},
		{AccessConfig: &types.UpdateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApi}},
	} {
		in.Name = aws.String("c")
		go func() {
			_, err := w.Client.UpdateClusterConfig(t.Context(), in)
			errs <- err
		}()
	}
	go func() {
		_, err := w.Client.UpdateClusterVersion(t.Context(), &eks.UpdateClusterVersionInput{Name: aws.String("c"),
			Version: aws.String("1.36")})
		errs <- err
	}()
	started := 0
	for range 4 {
		err := <-errs
		if err == nil {
			started++
			continue
		}
		if f := ekstest.FailureOf(t, err); f.Code != "ResourceInUseException" || f.Status != 409 ||
			!strings.Contains(f.Message, "because cluster c currently has update ") {
			t.Errorf("refused with %v", f)
		}
	}
	if started != 1 {
		t.Errorf("%d updates started", started)
	}
	if got := w.Describe("c").Status; got != types.ClusterStatusUpdating {
		t.Errorf("status %s", got)
	}
	ids, err := w.Client.ListUpdates(t.Context(), &eks.ListUpdatesInput{Name: aws.String("c")})
	if err != nil || len(ids.UpdateIds) != 1 {
		t.Errorf("updates: %v, %v", ids, err)
	}
}

func TestUpdateAgain(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	in := &eks.UpdateClusterConfigInput{Name: aws.String("c"), DeletionProtection: aws.Bool(true),
		ClientRequestToken: aws.String("t")}
	first, err := w.Client.UpdateClusterConfig(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []types.UpdateStatus{types.UpdateStatusInProgress, types.UpdateStatusSuccessful} {
		w.Finish("c", *first.Update.Id, status)
		again, err := w.Client.UpdateClusterConfig(t.Context(), in)
		if err != nil || *again.Update.Id != *first.Update.Id || again.Update.Status != status {
			t.Errorf("the same request, while %s: %+v, %v", status, again, err)
		}
	}
	in.DeletionProtection = aws.Bool(false)
	if _, err := w.Client.UpdateClusterConfig(t.Context(), in); ekstest.FailureOf(t,
		err).Code != "InvalidParameterException" {
		t.Errorf("the same token for another request: %v", err)
	}
}

func TestUpdateClusterVersion(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	start := func() *types.Update {
		out, err := w.Client.UpdateClusterVersion(t.Context(), &eks.UpdateClusterVersionInput{Name: aws.String("c"),
			Version: aws.String("1.36")})
		if err != nil {
			t.Fatal(err)
		}
		return out.Update
	}
	shows := func(when string, status types.ClusterStatus, version, platform string) {
		t.Helper()
		if c := w.Describe("c"); c.Status != status || *c.Version != version || *c.PlatformVersion != platform {
			t.Errorf("%s: %s %s %s, want %s %s %s", when, c.Status, *c.Version, *c.PlatformVersion, status, version,
				platform)
		}
	}
	u := start()
	if d := cmp.Diff(map[types.UpdateParamType]string{"Version": "1.36", "PlatformVersion": "eks.13"},
		ekstest.Params(u)); d != "" || u.Type != types.UpdateTypeVersionUpdate {
		t.Errorf("%s params (-want +got):\n%s", u.Type, d)
	}
	shows("on its way", types.ClusterStatusUpdating, "1.35", "eks.9")

	w.Finish("c", *u.Id, types.UpdateStatusFailed)
	shows("after it failed", types.ClusterStatusActive, "1.35", "eks.9")
	described, err := w.Client.DescribeUpdate(t.Context(), &eks.DescribeUpdateInput{Name: aws.String("c"),
		UpdateId: u.Id})
	if err != nil || described.Update.Status != types.UpdateStatusFailed || len(described.Update.Errors) != 1 {
		t.Errorf("the failed update: %+v, %v", described, err)
	}
	if got := w.Row("c").WantedVersion(record.Update{ID: *u.Id, Type: u.Type, Status: types.UpdateStatusFailed,
		PreviousVersion: "1.35"}); got != "1.35" {
		t.Errorf("wanted after the failure: %s", got)
	}
	// What comes after a failed upgrade doesn't bring it back.
	w.Config(&eks.UpdateClusterConfigInput{Name: aws.String("c"), DeletionProtection: aws.Bool(true)})
	shows("after another update", types.ClusterStatusActive, "1.35", "eks.9")
	if got := w.Row("c").Version; got != "1.35" {
		t.Errorf("wanted after another update: %s", got)
	}

	u = start()
	w.Finish("c", *u.Id, types.UpdateStatusSuccessful)
	shows("done", types.ClusterStatusActive, "1.36", "eks.13")
}

// A cluster for which an insight has found an error is not upgraded, unless by force.
func TestUpgradeInsight(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	w.Ready("c")
	list := func(f *types.InsightsFilter) []types.InsightSummary {
		out, err := w.Client.ListInsights(t.Context(), &eks.ListInsightsInput{ClusterName: aws.String("c"), Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		return out.Insights
	}
	if got := list(nil); len(got) != 0 {
		t.Fatalf("before the first check: %+v", got)
	}
	row := w.Row("c")
	at, since := ekstest.Today, ekstest.Today.Add(-time.Hour)
	check := func(status types.InsightStatusValue, reason string) {
		deprecated := record.InsightCheck{
			Name: "Deprecated APIs removed in Kubernetes v1.36", Version: "1.36", Status: status, Reason: reason,
			ChangedAt: since,
		}
		if status == types.InsightStatusValueError {
			deprecated.Resources = []types.InsightResourceDetail{{KubernetesResourceUri: aws.String("/apis/x/v1/y"),
				InsightStatus: &types.InsightStatus{Status: status}}}
			deprecated.APIs = []types.DeprecationDetail{{Usage: aws.String("/apis/x/v1/y"),
				ClientStats: []types.ClientStat{{UserAgent: aws.String("kubectl"), NumberOfRequestsLast30Days: 3}}}}
		}
		if _, err := record.InsightsOf(w.Store).Put(t.Context(), row.Key(), record.Insights{
			ClusterID: row.ID, CheckedAt: at, Checks: []record.InsightCheck{
				{Name: "Kubelet version skew", Version: "1.36", Status: types.InsightStatusValuePassing,
					Reason: "Node kubelet versions match the cluster control plane version.", ChangedAt: since},
				deprecated,
				{Name: "Cluster health issues", Version: "1.35", Status: types.InsightStatusValueError},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	check(types.InsightStatusValuePassing, "No deprecated API usage detected within the last 30 days.")
	got := list(nil)
	if len(got) != 2 { // the third was about an earlier upgrade
		t.Fatalf("a healthy cluster: %+v", got)
	}
	for _, i := range got {
		if i.InsightStatus.Status != types.InsightStatusValuePassing || *i.KubernetesVersion != "1.36" ||
			!i.LastTransitionTime.Equal(since) || !i.LastRefreshTime.Equal(at) || *i.Description == "" {
			t.Errorf("a healthy cluster: %+v", i)
		}
	}
	if n := len(list(&types.InsightsFilter{Statuses: []types.InsightStatusValue{
		types.InsightStatusValueError}})); n != 0 {
		t.Errorf("%d insights with errors", n)
	}
	check(types.InsightStatusValueError, "Deprecated API usage detected.")
	failed := list(&types.InsightsFilter{Statuses: []types.InsightStatusValue{types.InsightStatusValueError}})
	if len(failed) != 1 {
		t.Fatalf("insights with errors: %+v", failed)
	}
	described, err := w.Client.DescribeInsight(t.Context(), &eks.DescribeInsightInput{ClusterName: aws.String("c"),
		Id: failed[0].Id})
	if err != nil || *described.Insight.Resources[0].KubernetesResourceUri != "/apis/x/v1/y" ||
		described.Insight.CategorySpecificSummary.DeprecationDetails[0].ClientStats[0].NumberOfRequestsLast30Days != 3 ||
		!strings.Contains(described.Insight.AdditionalInfo["Kubernetes v1.36 deprecation guide"], "#v1-36") {
		t.Errorf("a client of a deprecated API: %+v, %v", described, err)
	}
	in := &eks.UpdateClusterVersionInput{Name: aws.String("c"), Version: aws.String("1.36")}
	_, err = w.Client.UpdateClusterVersion(t.Context(), in)
	if f := ekstest.FailureOf(t, err); f.Code != "InvalidStateException" || !strings.Contains(f.Message, *failed[0].Id) {
		t.Errorf("upgraded: %v", f)
	}
	in.Force = true
	if _, err := w.Client.UpdateClusterVersion(t.Context(), in); err != nil {
		t.Errorf("upgraded by force: %v", err)
	}
	_, err = w.Client.DescribeInsight(t.Context(), &eks.DescribeInsightInput{ClusterName: aws.String("c"),
		Id: aws.String("nope")})
	if f := ekstest.FailureOf(t, err); f.Code != "ResourceNotFoundException" {
		t.Errorf("an unknown insight: %v", f)
	}
}

// With the step away from CONFIG_MAP the creator, who was let in by other means, gets an access entry.
func TestLeaveConfigMap(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c", func(in *eks.CreateClusterInput) {
		in.AccessConfig = &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeConfigMap}
	})
	w.Config(&eks.UpdateClusterConfigInput{Name: aws.String("c"),
		AccessConfig: &types.UpdateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApiAndConfigMap}})
	out, err := w.Client.ListAssociatedAccessPolicies(t.Context(),
		&eks.ListAssociatedAccessPoliciesInput{ClusterName: aws.String("c"), PrincipalArn: aws.String(ekstest.RootARN)})
	if err != nil || len(out.AssociatedAccessPolicies) != 1 ||
		*out.AssociatedAccessPolicies[0].PolicyArn != accesspolicy.ClusterAdmin {
		t.Errorf("the creator's entry: %+v, %v", out, err)
	}
}

// A role that was created anew under the creator's name is not let in as the creator.
func TestLeaveConfigMapWithAnotherCreator(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	admin := "arn:aws:iam::" + ekstest.Account + ":role/teams/tooling/Admin"
	w.Caller = wire.Caller{Account: ekstest.Account, ARN: "arn:aws:sts::" + ekstest.Account + ":assumed-role/Admin/me",
		PrincipalARN: admin}
	w.Create("c", func(in *eks.CreateClusterInput) {
		in.AccessConfig = &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeConfigMap}
	})
	if got := w.Row("c").CreatorARN; got != admin {
		t.Errorf("the creator is %s", got)
	}
	_, err := record.Roles(w.Store).Modify(t.Context(), record.RoleKey(ekstest.Account, "Admin"),
		func(r *record.Role) error {
			r.CreatedAt = ekstest.Today.Add(time.Hour)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	w.Config(&eks.UpdateClusterConfigInput{Name: aws.String("c"),
		AccessConfig: &types.UpdateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApiAndConfigMap}})
	out, err := w.Client.ListAccessEntries(t.Context(), &eks.ListAccessEntriesInput{ClusterName: aws.String("c")})
	if err != nil || len(out.AccessEntries) != 0 {
		t.Errorf("let in: %v, %v", out, err)
	}
}

func TestUpdatesAreListedByPage(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	var want []string
	for i := range 5 {
		want = append(want, *w.Config(&eks.UpdateClusterConfigInput{Name: aws.String("c"),
			DeletionProtection: aws.Bool(i%2 == 0)}).Id)
	}
	ekstest.Put(w.T, record.Updates(w.Store), record.UpdateKey(ekstest.Account, ekstest.Region, "c", "of-a-nodegroup"),
		record.Update{ID: "of-a-nodegroup", ClusterID: w.Row("c").ID, NodegroupName: "ng", NodegroupID: "1"})
	ekstest.Put(w.T, record.Updates(w.Store), record.UpdateKey(ekstest.Account, ekstest.Region, "c",
		"of-an-earlier-nodegroup"), record.Update{ID: "of-an-earlier-nodegroup", ClusterID: w.Row("c").ID,
		NodegroupName: "ng", NodegroupID: "0"})
	ekstest.Put(w.T, record.Nodegroups(w.Store), record.NodegroupKey(ekstest.Account, ekstest.Region, "c", "ng"),
		record.Nodegroup{ClusterID: w.Row("c").ID, Name: "ng", ID: "1"})
	ekstest.Put(w.T, record.Updates(w.Store), record.UpdateKey(ekstest.Account, ekstest.Region, "c",
		"of-an-earlier-cluster"), record.Update{ID: "of-an-earlier-cluster", ClusterID: "OLD"})
	slices.Sort(want)
	var got []string
	pages := eks.NewListUpdatesPaginator(w.Client, &eks.ListUpdatesInput{Name: aws.String("c"),
		MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.UpdateIds...)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	ng, err := w.Client.ListUpdates(t.Context(), &eks.ListUpdatesInput{Name: aws.String("c"),
		NodegroupName: aws.String("ng")})
	if err != nil || !slices.Equal(ng.UpdateIds, []string{"of-a-nodegroup"}) {
		t.Errorf("updates of a node group: %v, %v", ng, err)
	}
}

func TestDescribeClusterVersions(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	for _, c := range []struct {
		in   eks.DescribeClusterVersionsInput
		want string
	}{
		{eks.DescribeClusterVersionsInput{}, "1.36 1.35 1.34 1.33"},
		{eks.DescribeClusterVersionsInput{DefaultOnly: aws.Bool(true)}, "1.35"},
		{eks.DescribeClusterVersionsInput{IncludeAll: aws.Bool(true), ClusterType: aws.String("eks")},
			"1.36 1.35 1.34 1.33"},
		{eks.DescribeClusterVersionsInput{ClusterVersions: []string{"1.33", "1.36"}}, "1.36 1.33"},
		{eks.DescribeClusterVersionsInput{VersionStatus: types.VersionStatusExtendedSupport}, "1.33"},
		{eks.DescribeClusterVersionsInput{Status: types.ClusterVersionStatusStandardSupport}, "1.36 1.35 1.34"},
		{eks.DescribeClusterVersionsInput{VersionStatus: types.VersionStatusUnsupported}, ""},
		{eks.DescribeClusterVersionsInput{MaxResults: aws.Int32(3)}, "1.36 1.35 1.34 1.33"},
	} {
		var got []string
		pages := eks.NewDescribeClusterVersionsPaginator(w.Client, &c.in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatalf("%+v: %v", c.in, err)
			}
			for _, v := range page.ClusterVersions {
				got = append(got, *v.ClusterVersion)
				if (*v.ClusterVersion == "1.35") != v.DefaultVersion || v.KubernetesPatchVersion == nil ||
					v.EndOfExtendedSupportDate == nil {
					t.Errorf("%+v", v)
				}
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%+v: %s, want %s", c.in, s, c.want)
		}
	}
}
