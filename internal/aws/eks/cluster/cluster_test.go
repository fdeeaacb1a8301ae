package cluster_test

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// A new cluster has EKS's defaults, while it is being created and after.
func TestCreateCluster(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	in := ekstest.Request("ironman-2022")
	in.AccessConfig = nil
	created, err := w.Client.CreateCluster(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	want := &types.Cluster{
		Name:            aws.String("ironman-2022"),
		Arn:             aws.String(ekstest.ClusterARN + "ironman-2022"),
		CreatedAt:       aws.Time(ekstest.Today),
		Version:         aws.String("1.35"),
		PlatformVersion: aws.String("eks.9"),
		RoleArn:         aws.String(ekstest.RoleARN),
		Status:          types.ClusterStatusCreating,
		ResourcesVpcConfig: &types.VpcConfigResponse{
			VpcId: aws.String("vpc-1"), SubnetIds: []string{"subnet-a", "subnet-b"}, SecurityGroupIds: []string{},
			EndpointPublicAccess:   true,
			PublicAccessCidrs:      []string{"0.0.0.0/0"},
			ControlPlaneEgressMode: types.ControlPlaneEgressModeTypeAwsManaged,
		},
		KubernetesNetworkConfig: &types.KubernetesNetworkConfigResponse{IpFamily: types.IpFamilyIpv4,
			ServiceIpv4Cidr:      aws.String("172.20.0.0/16"),
			ElasticLoadBalancing: &types.ElasticLoadBalancing{Enabled: aws.Bool(false)}},
		Logging: &types.Logging{ClusterLogging: []types.LogSetup{{
			Types:   []types.LogType{"api", "audit", "authenticator", "controllerManager", "scheduler"},
			Enabled: aws.Bool(false),
		}}},
		CertificateAuthority: &types.Certificate{},
		AccessConfig: &types.AccessConfigResponse{
			AuthenticationMode:                      types.AuthenticationModeConfigMap,
			BootstrapClusterCreatorAdminPermissions: aws.Bool(true)},
		UpgradePolicy:             &types.UpgradePolicyResponse{SupportType: types.SupportTypeExtended},
		DeletionProtection:        aws.Bool(false),
		ZonalShiftConfig:          &types.ZonalShiftConfigResponse{Enabled: aws.Bool(false)},
		ControlPlaneScalingConfig: &types.ControlPlaneScalingConfig{Tier: types.ProvisionedControlPlaneTierStandard},
		Health:                    &types.ClusterHealth{Issues: []types.ClusterIssue{}},
		Tags:                      map[string]string{},
	}
	if d := cmp.Diff(want, created.Cluster, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("created (-want +got):\n%s", d)
	}
	want.AccessConfig.BootstrapClusterCreatorAdminPermissions = nil
	if d := cmp.Diff(want, w.Describe("ironman-2022"), ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("described while creating (-want +got):\n%s", d)
	}

	w.Ready("ironman-2022")
	id := w.Row("ironman-2022").ID
	if !regexp.MustCompile(`^[0-9A-F]{32}$`).MatchString(id) {
		t.Errorf("cluster id %q", id)
	}
	want.Status = types.ClusterStatusActive
	want.Endpoint = aws.String("https://127.0.0.1:34567")
	want.ResourcesVpcConfig.ClusterSecurityGroupId = aws.String("sg-cluster")
	want.CertificateAuthority.Data = aws.String(base64.StdEncoding.EncodeToString([]byte("PEM")))
	want.Identity = &types.Identity{Oidc: &types.OIDC{Issuer: aws.String("https://oidc.eks." + ekstest.Region +
		".amazonaws.com/id/" + id)}}
	if d := cmp.Diff(want, w.Describe("ironman-2022"), ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("described when active (-want +got):\n%s", d)
	}

	if got := w.Linked; len(got) != 1 || got[0] != ekstest.Account+"/eks.amazonaws.com" {
		t.Errorf("service-linked roles ensured: %v", got)
	}
	if got := w.Target("iam:PassRole"); got.Resource != ekstest.RoleARN ||
		got.Conditions["iam:PassedToService"][0] != "eks.amazonaws.com" {
		t.Errorf("PassRole was asked as %+v", got)
	}
	_, err = w.Client.ListAccessEntries(t.Context(),
		&eks.ListAccessEntriesInput{ClusterName: aws.String("ironman-2022")})
	if f := ekstest.FailureOf(t, err); f.Code != "InvalidRequestException" {
		t.Errorf("a cluster that did not ask for access entries lists them: %v", f)
	}
}

// With access entries the creator of a cluster has one.
func TestCreatorHasAnAccessEntry(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	entries, err := w.Client.ListAccessEntries(t.Context(),
		&eks.ListAccessEntriesInput{ClusterName: aws.String("c"),
			AssociatedPolicyArn: aws.String(accesspolicy.ClusterAdmin)})
	if err != nil || len(entries.AccessEntries) != 1 || entries.AccessEntries[0] != ekstest.RootARN {
		t.Errorf("the creator is let in: %v, %v", entries, err)
	}
}

// Everything that can be asked for is what is described.
func TestCreateClusterAsAsked(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	got := w.Create("full", func(in *eks.CreateClusterInput) {
		in.Version = aws.String("1.34")
		in.Tags = map[string]string{"team": "a"}
		in.ResourcesVpcConfig = &types.VpcConfigRequest{
			SubnetIds: []string{"subnet-a", "subnet-b", "subnet-a2"}, SecurityGroupIds: []string{"sg-1", "sg-2"},
			EndpointPrivateAccess: aws.Bool(true), PublicAccessCidrs: []string{"44.203.113.0/24", "44.198.51.7/32"},
		}
		in.KubernetesNetworkConfig = &types.KubernetesNetworkConfigRequest{ServiceIpv4Cidr: aws.String("10.200.0.0/20"),
			IpFamily: types.IpFamilyIpv4}
		in.Logging = &types.Logging{ClusterLogging: []types.LogSetup{{Types: []types.LogType{"scheduler", "audit"},
			Enabled: aws.Bool(true)}}}
		in.AccessConfig = &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApi,
			BootstrapClusterCreatorAdminPermissions: aws.Bool(false)}
		in.UpgradePolicy = &types.UpgradePolicyRequest{SupportType: types.SupportTypeStandard}
		in.DeletionProtection = aws.Bool(true)
		in.ZonalShiftConfig = &types.ZonalShiftConfigRequest{Enabled: aws.Bool(true)}
		in.BootstrapSelfManagedAddons = aws.Bool(false)
		in.ComputeConfig = &types.ComputeConfigRequest{Enabled: aws.Bool(false)}
		in.RemoteNetworkConfig = &types.RemoteNetworkConfigRequest{RemoteNodeNetworks: []types.RemoteNodeNetwork{
			{Cidrs: []string{"172.16.0.0/16"}}}}
		in.KubeApiServerConfig = &types.KubeApiServerConfigRequest{EventTtl: aws.String("30m"),
			ServiceNodePortRange: &types.ServiceNodePortRange{MinPort: 30000, MaxPort: 31000}}
		in.KubeControllerManagerConfig = &types.KubeControllerManagerConfigRequest{
			PodGcControllerConfig: &types.PodGcControllerConfigRequest{TerminatedPodGcThreshold: aws.Int32(100)}}
		in.KubeSchedulerConfig = &types.KubeSchedulerConfigRequest{NodeResourcesFit: &types.NodeResourcesFitConfig{
			ScoringStrategy: &types.ScoringStrategy{Type: types.ScoringStrategyTypeMostAllocated}}}
	})
	want := &types.Cluster{
		Version: aws.String("1.34"),
		Tags:    map[string]string{"team": "a"},
		ResourcesVpcConfig: &types.VpcConfigResponse{
			VpcId: aws.String("vpc-1"), SubnetIds: []string{"subnet-a", "subnet-b", "subnet-a2"},
			SecurityGroupIds: []string{"sg-1", "sg-2"}, EndpointPublicAccess: true, EndpointPrivateAccess: true,
			PublicAccessCidrs:      []string{"44.203.113.0/24", "44.198.51.7/32"},
			ControlPlaneEgressMode: types.ControlPlaneEgressModeTypeAwsManaged,
			ClusterSecurityGroupId: aws.String("sg-cluster"),
		},
		KubernetesNetworkConfig: &types.KubernetesNetworkConfigResponse{IpFamily: types.IpFamilyIpv4,
			ServiceIpv4Cidr:      aws.String("10.200.0.0/20"),
			ElasticLoadBalancing: &types.ElasticLoadBalancing{Enabled: aws.Bool(false)}},
		Logging: &types.Logging{ClusterLogging: []types.LogSetup{
			{Types: []types.LogType{"audit", "scheduler"}, Enabled: aws.Bool(true)},
			{Types: []types.LogType{"api", "authenticator", "controllerManager"}, Enabled: aws.Bool(false)},
		}},
		AccessConfig:       &types.AccessConfigResponse{AuthenticationMode: types.AuthenticationModeApi},
		UpgradePolicy:      &types.UpgradePolicyResponse{SupportType: types.SupportTypeStandard},
		DeletionProtection: aws.Bool(true),
		ZonalShiftConfig:   &types.ZonalShiftConfigResponse{Enabled: aws.Bool(true)},
		ComputeConfig:      &types.ComputeConfigResponse{Enabled: aws.Bool(false), NodePools: []string{}},
		StorageConfig: &types.StorageConfigResponse{BlockStorage: &types.BlockStorage{
			Enabled: aws.Bool(false)}},
		RemoteNetworkConfig: &types.RemoteNetworkConfigResponse{RemoteNodeNetworks: []types.RemoteNodeNetwork{
			{Cidrs: []string{"172.16.0.0/16"}}}},
		KubeApiServerConfig: &types.KubeApiServerConfigResponse{EventTtl: aws.String("30m"),
			ServiceNodePortRange: &types.ServiceNodePortRange{MinPort: 30000, MaxPort: 31000}},
		KubeControllerManagerConfig: &types.KubeControllerManagerConfigResponse{
			PodGcControllerConfig: &types.PodGcControllerConfigResponse{TerminatedPodGcThreshold: aws.Int32(100)}},
		KubeSchedulerConfig: &types.KubeSchedulerConfigResponse{NodeResourcesFit: &types.NodeResourcesFitConfig{
			ScoringStrategy: &types.ScoringStrategy{Type: types.ScoringStrategyTypeMostAllocated}}},
	}
	if d := cmp.Diff(want, got, ekstest.IgnoreUnexported(), cmpopts.IgnoreFields(types.Cluster{},
		"Name", "Arn", "CreatedAt", "PlatformVersion", "RoleArn", "Status", "CertificateAuthority", "Endpoint",
		"Health", "Identity", "ControlPlaneScalingConfig")); d != "" {
		t.Errorf("described (-want +got):\n%s", d)
	}
	if w.Row("full").BootstrapSelfManagedAddons {
		t.Error("bootstrapSelfManagedAddons was turned off and is on")
	}
	entries, err := w.Client.ListAccessEntries(t.Context(),
		&eks.ListAccessEntriesInput{ClusterName: aws.String("full")})
	if err != nil || len(entries.AccessEntries) != 0 {
		t.Errorf("nobody is let in: %v, %v", entries, err)
	}
}

func TestServiceAddresses(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	if got := w.Create("in10"); aws.ToString(got.KubernetesNetworkConfig.ServiceIpv4Cidr) != "172.20.0.0/16" {
		t.Errorf("services beside a VPC in 10.0.0.0/16: %s", *got.KubernetesNetworkConfig.ServiceIpv4Cidr)
	}
	elsewhere := func(in *eks.CreateClusterInput) {
		in.ResourcesVpcConfig.SubnetIds = []string{"subnet-2a",
			"subnet-2b"}
	}
	if got := w.Create("in192", elsewhere); aws.ToString(
		got.KubernetesNetworkConfig.ServiceIpv4Cidr) != "10.100.0.0/16" {
		t.Errorf("services beside a VPC in 192.168.0.0/16: %s", *got.KubernetesNetworkConfig.ServiceIpv4Cidr)
	}
	six := w.Create("six", elsewhere, func(in *eks.CreateClusterInput) {
		in.KubernetesNetworkConfig = &types.KubernetesNetworkConfigRequest{IpFamily: types.IpFamilyIpv6}
	})
	if n := six.KubernetesNetworkConfig; n.ServiceIpv4Cidr != nil ||
		!regexp.MustCompile(`^fd[0-9a-f:]+::/108$`).MatchString(aws.ToString(n.ServiceIpv6Cidr)) {
		t.Errorf("services of an IPv6 cluster: %s", aws.ToString(n.ServiceIpv6Cidr))
	}
	if d := cmp.Diff([]string{"0.0.0.0/0", "::/0"}, six.ResourcesVpcConfig.PublicAccessCidrs); d != "" {
		t.Errorf("who may reach an IPv6 cluster (-want +got):\n%s", d)
	}
}

// The same request sent again, as a client does that missed the answer, is answered again.
func TestCreateClusterAgain(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	in := ekstest.Request("twice")
	in.ClientRequestToken = aws.String("token-1")
	first, err := w.Client.CreateCluster(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.Client.CreateCluster(t.Context(), in)
	if err != nil {
		t.Fatalf("the same request: %v", err)
	}
	if d := cmp.Diff(first.Cluster, second.Cluster, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("answered otherwise (-first +second):\n%s", d)
	}
	in.Version = aws.String("1.34")
	if _, err := w.Client.CreateCluster(t.Context(), in); ekstest.FailureOf(t,
		err).Code != "InvalidParameterException" {
		t.Errorf("another request with the same token: %v", err)
	}
	in.ClientRequestToken = aws.String("token-2")
	_, err = w.Client.CreateCluster(t.Context(), in)
	if got, want := ekstest.FailureOf(t, err), (ekstest.Failure{Code: "ResourceInUseException", Status: 409,
		Message: "Cluster already exists with name: twice"}); got != want {
		t.Errorf("another token: got %v, want %v", got, want)
	}
}

// Two clients create the same cluster at once: one of them wins, and the cluster is the winner's.
func TestCreateClusterTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	versions := []string{"1.33", "1.34", "1.35", "1.36"}
	type result struct {
		version string
		err     error
	}
	results := make(chan result)
	for _, v := range versions {
		go func() {
			in := ekstest.Request("contended")
			in.Version = aws.String(v)
			_, err := w.Client.CreateCluster(t.Context(), in)
			results <- result{v, err}
		}()
	}
	var winner string
	for range versions {
		r := <-results
		switch {
		case r.err == nil && winner != "":
			t.Errorf("both %s and %s were created", winner, r.version)
		case r.err == nil:
			winner = r.version
		case ekstest.FailureOf(t, r.err).Code != "ResourceInUseException":
			t.Errorf("the loser is told %v", r.err)
		}
	}
	if got := aws.ToString(w.Describe("contended").Version); got != winner {
		t.Errorf("the winner asked for %s, the cluster has %s", winner, got)
	}
}

func TestListClusters(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	for _, n := range []string{"c", "a", "b-2", "b_1", "B"} {
		w.Create(n)
	}
	ekstest.Put(w.T, record.Clusters(w.Store), record.ClusterKey("444455556666", ekstest.Region, "x"),
		record.Cluster{Account: "444455556666", Region: ekstest.Region, Name: "x"})
	ekstest.Put(w.T, record.Clusters(w.Store), record.ClusterKey(ekstest.Account, "us-east-1", "y"),
		record.Cluster{Account: ekstest.Account, Region: "us-east-1", Name: "y"})
	var got []string
	pages := eks.NewListClustersPaginator(w.Client, &eks.ListClustersInput{MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.Clusters...)
	}
	if d := cmp.Diff("B a b-2 b_1 c", strings.Join(got, " ")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	issue := types.ClusterIssue{Code: types.ClusterIssueCodeEc2SubnetNotFound, Message: aws.String("subnet-a is gone"),
		ResourceIds: []string{"subnet-a"}}
	for name, c := range map[string]struct {
		cp       *record.ControlPlane
		update   types.UpdateStatus
		deleting bool
		want     types.ClusterStatus
		issues   int
	}{
		"nobody looked yet": {nil, "", false, types.ClusterStatusCreating, 0},
		"seen, not ready":   {&record.ControlPlane{}, "", false, types.ClusterStatusCreating, 0},
		"creation was given up": {&record.ControlPlane{Failed: "no bundle"}, "", false,
			types.ClusterStatusFailed, 1},
		"ready": {&record.ControlPlane{Ready: true}, "", false,
			types.ClusterStatusActive, 0},
		"ready, unwell": {&record.ControlPlane{Ready: true,
			Health: []types.ClusterIssue{issue}}, "", false, types.ClusterStatusActive, 1},
		"ready, update in progress": {&record.ControlPlane{Ready: true}, types.UpdateStatusInProgress,
			false, types.ClusterStatusUpdating, 0},
		"ready, update successful": {&record.ControlPlane{Ready: true}, types.UpdateStatusSuccessful,
			false, types.ClusterStatusActive, 0},
		"ready, update failed": {&record.ControlPlane{Ready: true}, types.UpdateStatusFailed, false,
			types.ClusterStatusActive, 0},
		"being deleted": {&record.ControlPlane{Ready: true}, "", true,
			types.ClusterStatusDeleting, 0},
		"being deleted before anybody looked": {nil, "", true, types.ClusterStatusDeleting, 0},
		"being deleted with an update on its way": {&record.ControlPlane{Ready: true}, types.UpdateStatusInProgress,
			true, types.ClusterStatusDeleting, 0},
		"deletion does not get on": {&record.ControlPlane{Ready: true, DeleteFailed: "eni in use"}, "",
			true, types.ClusterStatusFailed, 1},
		"of an earlier cluster": {&record.ControlPlane{Ready: true, ClusterID: "OTHER"}, "", false,
			types.ClusterStatusCreating, 0},
	} {
		cluster := record.Cluster{Account: ekstest.Account, Region: ekstest.Region,
			Name: strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", ""), ID: "ID", Version: "1.35",
			Deleting: c.deleting}
		if c.update != "" {
			cluster.LastUpdateID = "u"
			ekstest.Put(w.T, record.Updates(w.Store), record.UpdateKey(ekstest.Account, ekstest.Region, cluster.Name,
				"u"), record.Update{ID: "u", ClusterID: "ID", Type: types.UpdateTypeLoggingUpdate, Status: c.update})
		}
		ekstest.Put(w.T, record.Clusters(w.Store), cluster.Key(), cluster)
		if c.cp != nil {
			if c.cp.ClusterID == "" {
				c.cp.ClusterID = "ID"
			}
			ekstest.Put(w.T, record.ControlPlanes(w.Store), cluster.Key(), *c.cp)
		}
		got := w.Describe(cluster.Name)
		if got.Status != c.want || len(got.Health.Issues) != c.issues {
			t.Errorf("%s: status %s with %d issues, want %s with %d", name, got.Status, len(got.Health.Issues), c.want,
				c.issues)
		}
	}
}

// Deletion protection is for clusters that have been active.
func TestDeleteProtectedCluster(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	in := ekstest.Request("protected")
	in.DeletionProtection = aws.Bool(true)
	if _, err := w.Client.CreateCluster(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	w.Ready("protected")
	_, err := w.Client.DeleteCluster(t.Context(), &eks.DeleteClusterInput{Name: in.Name})
	if f := ekstest.FailureOf(t, err); f.Code != "InvalidRequestException" {
		t.Errorf("deleted when active: %v", f)
	}
	w.Observe("protected", record.ControlPlane{Failed: "the API server did not come up"})
	if _, err = w.Client.DeleteCluster(t.Context(), &eks.DeleteClusterInput{Name: in.Name}); err != nil {
		t.Errorf("deleted when failed: %v", err)
	}
}

func TestDeleteCluster(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("gone")
	for range 2 { // the second time tells the same: a client may have missed the first answer
		out, err := w.Client.DeleteCluster(t.Context(), &eks.DeleteClusterInput{Name: aws.String("gone")})
		if err != nil {
			t.Fatal(err)
		}
		if out.Cluster.Status != types.ClusterStatusDeleting || aws.ToString(out.Cluster.Arn) != ekstest.ClusterARN+
			"gone" {
			t.Errorf("deleted: %s %s", aws.ToString(out.Cluster.Arn), out.Cluster.Status)
		}
	}
	// The controller has taken everything down; the rows of what belonged to the cluster may go after it.
	old := w.Row("gone")
	row, err := record.Clusters(w.Store).Get(t.Context(), old.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Clusters(w.Store).Delete(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	_, err = w.Client.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String("gone")})
	if got, want := ekstest.FailureOf(t, err), (ekstest.Failure{Code: "ResourceNotFoundException", Status: 404,
		Message: "No cluster found for name: gone."}); got != want {
		t.Errorf("described after: %v, want %v", got, want)
	}
	if w.Create("gone"); w.Row("gone").ID == old.ID {
		t.Error("a cluster of the same name has the same id")
	}
}
