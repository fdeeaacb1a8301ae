package eks_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// bad returns a bad CreateCluster: a good one with an edit.
func bad(edit func(*eks.CreateClusterInput)) func(context.Context, *eks.Client) error {
	return func(ctx context.Context, c *eks.Client) error {
		in := ekstest.Request("new")
		edit(in)
		_, err := c.CreateCluster(ctx, in)
		return err
	}
}

func badVPC(v *types.VpcConfigRequest) func(context.Context, *eks.Client) error {
	return bad(func(in *eks.CreateClusterInput) {
		if v.SubnetIds == nil {
			v.SubnetIds = in.ResourcesVpcConfig.SubnetIds
		}
		in.ResourcesVpcConfig = v
	})
}

func badServices(cidr string) func(context.Context, *eks.Client) error {
	return bad(func(in *eks.CreateClusterInput) {
		in.KubernetesNetworkConfig = &types.KubernetesNetworkConfigRequest{ServiceIpv4Cidr: &cidr}
	})
}

func badTags(tags map[string]string) func(context.Context, *eks.Client) error {
	return bad(func(in *eks.CreateClusterInput) { in.Tags = tags })
}

func badKey(arn string, resources ...string) func(context.Context, *eks.Client) error {
	return bad(func(in *eks.CreateClusterInput) {
		in.EncryptionConfig = []types.EncryptionConfig{{Provider: &types.Provider{KeyArn: &arn}, Resources: resources}}
	})
}

func badScoring(resources ...types.ResourceWeight) func(context.Context, *eks.Client) error {
	return bad(func(in *eks.CreateClusterInput) {
		in.KubeSchedulerConfig = &types.KubeSchedulerConfigRequest{NodeResourcesFit: &types.NodeResourcesFitConfig{
			ScoringStrategy: &types.ScoringStrategy{Type: types.ScoringStrategyTypeLeastAllocated,
				Resources: resources}}}
	})
}

func config(cluster string, in eks.UpdateClusterConfigInput) func(context.Context, *eks.Client) error {
	return func(ctx context.Context, c *eks.Client) error {
		in.Name = &cluster
		_, err := c.UpdateClusterConfig(ctx, &in)
		return err
	}
}

func tag(arn string, tags map[string]string) func(context.Context, *eks.Client) error {
	return func(ctx context.Context, c *eks.Client) error {
		_, err := c.TagResource(ctx, &eks.TagResourceInput{ResourceArn: &arn, Tags: tags})
		return err
	}
}

// The codes of refusals.
const (
	parameter = "InvalidParameterException"
	invalid   = "InvalidRequestException"
	used      = "ResourceInUseException"
	missing   = "ResourceNotFoundException"
	badReq    = "BadRequestException"
)

// refusal is a bad request, and what EKS says to it: see [ekstest.Fixture.Refuses].
type refusal struct {
	name          string
	do            ekstest.Call
	code, message string
}

// A bad request is answered with EKS's error, and changes nothing. A message that begins with "…" is only looked for.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	iam := "arn:aws:iam::" + ekstest.Account + ":"
	w.Create("c", func(in *eks.CreateClusterInput) { in.Version = aws.String("1.33") })
	w.Create("busy")
	busy, err := w.Client.UpdateClusterConfig(t.Context(), &eks.UpdateClusterConfigInput{Name: aws.String("busy"),
		ZonalShiftConfig: &types.ZonalShiftConfigRequest{Enabled: aws.Bool(true)}})
	if err != nil {
		t.Fatal(err)
	}
	w.Create("map", func(in *eks.CreateClusterInput) {
		in.AccessConfig = &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeConfigMap}
	})
	w.Create("api", func(in *eks.CreateClusterInput) {
		in.AccessConfig = &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApi}
		in.DeletionProtection = aws.Bool(true)
		in.Version = aws.String("1.36")
	})
	w.Create("noded")
	ekstest.Put(w.T, record.Nodegroups(w.Store), record.NodegroupKey(ekstest.Account, ekstest.Region, "noded", "ng"),
		record.Nodegroup{ClusterID: w.Row("noded").ID, Name: "ng"})
	w.Create("fargated")
	ekstest.Put(w.T, record.FargateProfiles(w.Store), record.FargateProfileKey(ekstest.Account, ekstest.Region,
		"fargated", "fp"), record.FargateProfile{ClusterID: w.Row("fargated").ID, Cluster: "fargated", Name: "fp"})
	if _, err := w.Client.CreateCluster(t.Context(), ekstest.Request("creating")); err != nil {
		t.Fatal(err)
	}
	w.Create("leaving")
	if err := ekstest.DeleteCluster("leaving")(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}
	for arn, kind := range map[string]string{iam + "role/node": "EC2_LINUX"} {
		if _, err := w.Client.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: aws.String("c"),
			PrincipalArn: &arn, Type: &kind}); err != nil {
			t.Fatal(err)
		}
	}
	fifty := func(n int) map[string]string {
		tags := map[string]string{}
		for i := range n {
			tags[fmt.Sprint("k", i)] = "v"
		}
		return tags
	}
	if err := tag(ekstest.ClusterARN+"busy", fifty(50))(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}
	on := func(b bool) *bool { return &b }
	kms := "arn:aws:kms:" + ekstest.Region + ":" + ekstest.Account + ":key/1234abcd-12ab-34cd-56ef-1234567890ab"

	clusterRefusals := []refusal{
		// Names and versions.
		{"name begins with a hyphen", bad(func(in *eks.CreateClusterInput) { in.Name = aws.String("-x") }), parameter,
			"…name"},
		{"name has a dot", bad(func(in *eks.CreateClusterInput) { in.Name = aws.String("a.b") }), parameter,
			"…Value 'a.b' at 'name' failed to satisfy constraint: Member must satisfy regular expression pattern"},
		{"name of 101 characters", bad(func(in *eks.CreateClusterInput) {
			in.Name = aws.String(strings.Repeat("x",
				101))
		}), parameter, "…100"},
		{"name is taken", bad(func(in *eks.CreateClusterInput) { in.Name = aws.String("c") }), used,
			"Cluster already exists with name: c"},
		{"name is taken by a cluster on its way out",
			bad(func(in *eks.CreateClusterInput) { in.Name = aws.String("leaving") }), used,
			"Cluster already exists with name: leaving"},
		{"version of the past", bad(func(in *eks.CreateClusterInput) { in.Version = aws.String("1.21") }), parameter,
			"unsupported Kubernetes version"},
		{"version with a patch", bad(func(in *eks.CreateClusterInput) { in.Version = aws.String("1.35.4") }), parameter,
			"unsupported Kubernetes version"},
		{"standard support of a version in extended support", bad(func(in *eks.CreateClusterInput) {
			in.Version, in.UpgradePolicy = aws.String("1.33"),
				&types.UpgradePolicyRequest{SupportType: types.SupportTypeStandard}
		}), parameter, "…extended support"},
		{"unknown support type", bad(func(in *eks.CreateClusterInput) {
			in.UpgradePolicy = &types.UpgradePolicyRequest{SupportType: "FOREVER"}
		}), parameter, "…supportType"},

		// Subnets and security groups.
		{"no VPC config", bad(func(in *eks.CreateClusterInput) { in.ResourcesVpcConfig = &types.VpcConfigRequest{} }),
			parameter, "Subnets specified must be in at least two different AZs"},
		{"one subnet", badVPC(&types.VpcConfigRequest{SubnetIds: []string{"subnet-a"}}), parameter,
			"Subnets specified must be in at least two different AZs"},
		{"two subnets in one zone", badVPC(&types.VpcConfigRequest{SubnetIds: []string{"subnet-a", "subnet-a2"}}),
			parameter, "Subnets specified must be in at least two different AZs"},
		{"a subnet that does not exist", badVPC(&types.VpcConfigRequest{SubnetIds: []string{"subnet-a", "subnet-x"}}),
			parameter, "…The subnet ID 'subnet-x' does not exist (Service: Ec2, Status Code: 400, Request ID: "},
		{"subnets of two VPCs", badVPC(&types.VpcConfigRequest{SubnetIds: []string{"subnet-a", "subnet-2b"}}),
			parameter, "…same VPC"},
		{"a subnet twice", badVPC(&types.VpcConfigRequest{SubnetIds: []string{"subnet-a", "subnet-a", "subnet-b"}}),
			parameter, "…more than once"},
		{"a security group that does not exist", badVPC(&types.VpcConfigRequest{SecurityGroupIds: []string{"sg-x"}}),
			parameter, "…The security group 'sg-x' does not exist (Service: Ec2"},
		{"a security group of another VPC",
			badVPC(&types.VpcConfigRequest{SecurityGroupIds: []string{"sg-1", "sg-other"}}), parameter,
			"…Security Group(s) [sg-other] are not in the same VPC as the subnets."},
		{"six security groups", badVPC(&types.VpcConfigRequest{SecurityGroupIds: []string{"sg-0", "sg-1", "sg-2",
			"sg-3", "sg-4", "sg-5"}}), parameter, "…up to 5 security groups"},

		// Endpoints.
		{"no endpoint", badVPC(&types.VpcConfigRequest{EndpointPublicAccess: on(false)}), parameter,
			"Private and public endpoint access cannot be false"},
		{"public access CIDR is no CIDR",
			badVPC(&types.VpcConfigRequest{PublicAccessCidrs: []string{"44.203.113.0/24", "everyone"}}), parameter,
			"The following CIDRs are invalid in publicAccessCidrs: [everyone]"},
		{"public access CIDR has host bits",
			badVPC(&types.VpcConfigRequest{PublicAccessCidrs: []string{"44.203.113.7/24"}}), parameter,
			"The following CIDRs are invalid in publicAccessCidrs: [44.203.113.7/24]"},
		{"public access CIDR is private",
			badVPC(&types.VpcConfigRequest{PublicAccessCidrs: []string{"10.0.0.0/8", "44.203.113.0/24"}}), parameter,
			"The following CIDRs are not allowed in publicAccessCidrs: [10.0.0.0/8]"},
		{"public access from blocks of documentation",
			badVPC(&types.VpcConfigRequest{PublicAccessCidrs: []string{"192.0.2.0/24", "203.0.113.7/32", "203.0.0.0/16"}}),
			parameter, "The following CIDRs are not allowed in publicAccessCidrs: [192.0.2.0/24, 203.0.113.7/32]"},
		{"public access CIDR is IPv6", badVPC(&types.VpcConfigRequest{PublicAccessCidrs: []string{"2001:db8::/32"}}),
			parameter, "…IPv6"},
		{"41 public access CIDRs", badVPC(&types.VpcConfigRequest{PublicAccessCidrs: func() (l []string) {
			for i := range 41 {
				l = append(l, fmt.Sprintf("44.203.113.%d/32", i))
			}
			return l
		}()}), parameter, "…up to 40"},
		{"egress through the VPC", badVPC(
			&types.VpcConfigRequest{ControlPlaneEgressMode: types.ControlPlaneEgressModeTypeCustomerRouted}), parameter,
			"…not implemented by Coracle"},

		// Service addresses.
		{"service CIDR is public", badServices("11.0.0.0/16"), parameter,
			"…10.0.0.0/8, 172.16.0.0/12, or 192.168.0.0/16"},
		{"service CIDR is too small", badServices("10.200.0.0/25"), parameter, "…between /24 and /12"},
		{"service CIDR is too big", badServices("10.0.0.0/8"), parameter, "…between /24 and /12"},
		{"service CIDR overlaps with the VPC", badServices("10.0.128.0/20"), parameter,
			"…overlaps with the CIDR block 10.0.0.0/16 of VPC vpc-1"},
		{"service CIDR has host bits", badServices("10.200.0.1/16"), parameter, "…10.200.0.0/16"},
		{"service CIDR is no CIDR", badServices("10.200"), parameter, "…not a valid IPv4 CIDR"},
		{"IPv6 in a VPC without", bad(func(in *eks.CreateClusterInput) {
			in.KubernetesNetworkConfig = &types.KubernetesNetworkConfigRequest{IpFamily: types.IpFamilyIpv6}
		}), parameter, "…IPv6 CIDR block"},
		{"IPv6 in a subnet without", bad(func(in *eks.CreateClusterInput) {
			in.ResourcesVpcConfig.SubnetIds = []string{"subnet-2a", "subnet-2c"}
			in.KubernetesNetworkConfig = &types.KubernetesNetworkConfigRequest{IpFamily: types.IpFamilyIpv6}
		}), parameter, "…subnet-2c"},
		{"IPv6 with an IPv4 CIDR", bad(func(in *eks.CreateClusterInput) {
			in.KubernetesNetworkConfig = &types.KubernetesNetworkConfigRequest{IpFamily: types.IpFamilyIpv6,
				ServiceIpv4Cidr: aws.String("10.200.0.0/16")}
		}), parameter, "…serviceIpv4Cidr"},
		{"remote nodes where the VPC is", bad(func(in *eks.CreateClusterInput) {
			in.RemoteNetworkConfig = &types.RemoteNetworkConfigRequest{RemoteNodeNetworks: []types.RemoteNodeNetwork{
				{Cidrs: []string{"10.0.7.0/24"}}}}
		}), parameter, "…overlaps"},
		{"remote pods without nodes", bad(func(in *eks.CreateClusterInput) {
			in.RemoteNetworkConfig = &types.RemoteNetworkConfigRequest{RemotePodNetworks: []types.RemotePodNetwork{
				{Cidrs: []string{"10.1.0.0/24"}}}}
		}), parameter, "…remoteNodeNetworks"},

		// Roles.
		{"role is no ARN", bad(func(in *eks.CreateClusterInput) { in.RoleArn = aws.String("eks-service") }), parameter,
			"…eks-service"},
		{"role is a user", bad(func(in *eks.CreateClusterInput) { in.RoleArn = aws.String(iam + "user/alice") }),
			parameter, "…not the ARN of an IAM role"},
		{"role does not exist", bad(func(in *eks.CreateClusterInput) { in.RoleArn = aws.String(iam + "role/nobody") }),
			parameter, "Role with arn: " + iam +
				"role/nobody, could not be assumed because it does not exist or the trusted entity is not correct"},
		{"role at another path", bad(func(in *eks.CreateClusterInput) {
			in.RoleArn = aws.String(iam +
				"role/a/eks-service")
		}), parameter, "…does not exist"},
		{"role trusts somebody else", bad(func(in *eks.CreateClusterInput) {
			in.RoleArn = aws.String(iam +
				"role/node")
		}), parameter,
			"Following required service principals [eks.amazonaws.com] were not found in the trust relationships of " +
				"clusterRole " + iam + "role/node"},
		{"role denies EKS", bad(func(in *eks.CreateClusterInput) { in.RoleArn = aws.String(iam + "role/denies") }),
			parameter, "…trust relationships"},
		{"role of another account", bad(
			func(in *eks.CreateClusterInput) { in.RoleArn = aws.String("arn:aws:iam::444455556666:role/r") }),
			"AccessDeniedException", "Cross-account pass role is not allowed."},

		// The rest of CreateCluster.
		{"CONFIG_MAP without the creator", bad(func(in *eks.CreateClusterInput) {
			in.AccessConfig = &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeConfigMap,
				BootstrapClusterCreatorAdminPermissions: on(false)}
		}), parameter,
			"bootstrapClusterCreatorAdminPermissions must be true if cluster authentication mode is set to CONFIG_MAP"},
		{"unknown authentication mode", bad(func(in *eks.CreateClusterInput) {
			in.AccessConfig = &types.CreateAccessConfigRequest{AuthenticationMode: "NONE"}
		}), parameter, "…CONFIG_MAP"},
		{"unknown log type", bad(func(in *eks.CreateClusterInput) {
			in.Logging = &types.Logging{ClusterLogging: []types.LogSetup{{Types: []types.LogType{"kubelet"},
				Enabled: on(true)}}}
		}), parameter, "…controllerManager"},
		{"log type on and off", bad(func(in *eks.CreateClusterInput) {
			in.Logging = &types.Logging{ClusterLogging: []types.LogSetup{{Types: []types.LogType{"api"},
				Enabled: on(true)}, {Types: []types.LogType{"api"}, Enabled: on(false)}}}
		}), parameter, "…both enabled and disabled"},
		{"half of Auto Mode", bad(func(in *eks.CreateClusterInput) {
			in.ComputeConfig = &types.ComputeConfigRequest{
				Enabled: on(true)}
		}), parameter,
			"For EKS Auto Mode, please ensure that all required configs, including computeConfig, " +
				"kubernetesNetworkConfig, and blockStorage are all either fully enabled or fully disabled."},
		{"Auto Mode", bad(func(in *eks.CreateClusterInput) {
			in.ComputeConfig = &types.ComputeConfigRequest{Enabled: on(true)}
			in.StorageConfig = &types.StorageConfigRequest{BlockStorage: &types.BlockStorage{Enabled: on(true)}}
			in.KubernetesNetworkConfig = &types.KubernetesNetworkConfigRequest{
				ElasticLoadBalancing: &types.ElasticLoadBalancing{Enabled: on(true)}}
		}), parameter, "…EKS Auto Mode is not implemented by Coracle"},
		{"node pools without Auto Mode", bad(func(in *eks.CreateClusterInput) {
			in.ComputeConfig = &types.ComputeConfigRequest{Enabled: on(false), NodePools: []string{"system"}}
		}), parameter, "…nodePools"},
		{"a provisioned control plane", bad(func(in *eks.CreateClusterInput) {
			in.ControlPlaneScalingConfig = &types.ControlPlaneScalingConfig{
				Tier: types.ProvisionedControlPlaneTierTierXl}
		}), parameter, "…not implemented by Coracle"},
		{"an Outpost", bad(func(in *eks.CreateClusterInput) {
			in.OutpostConfig = &types.OutpostConfigRequest{ControlPlaneInstanceType: aws.String("m5.large"),
				OutpostArns: []string{"arn:aws:outposts:::outpost/op-1"}}
		}), parameter, "…not implemented by Coracle"},
		{"event TTL of two units", bad(func(in *eks.CreateClusterInput) {
			in.KubeApiServerConfig = &types.KubeApiServerConfigRequest{EventTtl: aws.String("1h30m")}
		}), parameter, "…single-unit duration"},
		{"event TTL too long", bad(func(in *eks.CreateClusterInput) {
			in.KubeApiServerConfig = &types.KubeApiServerConfigRequest{EventTtl: aws.String("48h")}
		}), parameter, "…between 10m and 24h"},
		{"node ports the wrong way round", bad(func(in *eks.CreateClusterInput) {
			in.KubeApiServerConfig = &types.KubeApiServerConfigRequest{
				ServiceNodePortRange: &types.ServiceNodePortRange{MinPort: 31000, MaxPort: 30000}}
		}), parameter, "…serviceNodePortRange"},
		{"unknown scoring strategy", bad(func(in *eks.CreateClusterInput) {
			in.KubeSchedulerConfig = &types.KubeSchedulerConfigRequest{NodeResourcesFit: &types.NodeResourcesFitConfig{
				ScoringStrategy: &types.ScoringStrategy{Type: "Random"}}}
		}), parameter, "…MostAllocated"},
		{"autoscaler sync period too short", bad(func(in *eks.CreateClusterInput) {
			in.KubeControllerManagerConfig = &types.KubeControllerManagerConfigRequest{
				HorizontalPodAutoscalerControllerConfig: &types.HorizontalPodAutoscalerControllerConfigRequest{
					HorizontalPodAutoscalerSyncPeriod: aws.String("1s")}}
		}), parameter, "…between 5s and 5m"},
		{"pod garbage collection never", bad(func(in *eks.CreateClusterInput) {
			in.KubeControllerManagerConfig = &types.KubeControllerManagerConfigRequest{
				PodGcControllerConfig: &types.PodGcControllerConfigRequest{TerminatedPodGcThreshold: aws.Int32(0)}}
		}), parameter, "…terminatedPodGcThreshold 0"},
		{"scoring resource without a name", badScoring(types.ResourceWeight{Weight: aws.Int32(1)}), parameter,
			"…no name"},
		{"scoring resource twice", badScoring(types.ResourceWeight{Name: aws.String("cpu")},
			types.ResourceWeight{Name: aws.String("cpu")}), parameter, "…more than once"},
		{"scoring resource too heavy", badScoring(types.ResourceWeight{Name: aws.String("cpu"),
			Weight: aws.Int32(101)}), parameter, "…between 1 and 100"},
		{"remote nodes on the internet", bad(func(in *eks.CreateClusterInput) {
			in.RemoteNetworkConfig = &types.RemoteNetworkConfigRequest{RemoteNodeNetworks: []types.RemoteNodeNetwork{
				{Cidrs: []string{"44.203.113.0/24"}}}}
		}), parameter, "…must be within"},
		{"remote nodes nowhere", bad(func(in *eks.CreateClusterInput) {
			in.RemoteNetworkConfig = &types.RemoteNetworkConfigRequest{RemoteNodeNetworks: []types.RemoteNodeNetwork{
				{Cidrs: []string{"there"}}}}
		}), parameter, "…not a valid IPv4 CIDR"},
		{"remote pods among remote nodes", bad(func(in *eks.CreateClusterInput) {
			in.RemoteNetworkConfig = &types.RemoteNetworkConfigRequest{
				RemoteNodeNetworks: []types.RemoteNodeNetwork{{Cidrs: []string{"10.1.0.0/16"}}},
				RemotePodNetworks:  []types.RemotePodNetwork{{Cidrs: []string{"10.1.2.0/24"}}},
			}
		}), parameter, "…overlaps"},
		{"remote nodes under CONFIG_MAP", bad(func(in *eks.CreateClusterInput) {
			in.AccessConfig = &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeConfigMap}
			in.RemoteNetworkConfig = &types.RemoteNetworkConfigRequest{RemoteNodeNetworks: []types.RemoteNodeNetwork{
				{Cidrs: []string{"10.1.0.0/16"}}}}
		}), parameter, "…authentication mode"},
		{"key is no ARN", badKey("my-key", "secrets"), parameter, "…not the ARN of a KMS key"},
		{"key of another region", badKey("arn:aws:kms:us-east-1:"+ekstest.Account+":key/1", "secrets"), parameter,
			"…in the region of the cluster"},
		{"encryption of something else", badKey(kms, "configmaps"), parameter, "…the only supported value is secrets"},
		{"encryption of nothing", badKey(kms), parameter, "…the only supported value is secrets"},
		{"a key that no KMS holds", badKey(kms, "secrets"), parameter, "…does not exist"},
		{"encryption without a key", bad(func(in *eks.CreateClusterInput) {
			in.EncryptionConfig = []types.EncryptionConfig{{Resources: []string{"secrets"}}}
		}), parameter, "…keyArn"},
		{"51 tags", badTags(fifty(51)), parameter, "…50"},
		{"tag key of 129 characters", badTags(map[string]string{strings.Repeat("k", 129): ""}), parameter, "…128"},
		{"tag value of 257 characters", badTags(map[string]string{"k": strings.Repeat("v", 257)}), parameter, "…256"},
		{"reserved tag", badTags(map[string]string{"aws:eks:x": ""}), parameter, "…reserved"},

		// Updates.
		{"update of no cluster", config("nobody", eks.UpdateClusterConfigInput{DeletionProtection: on(true)}), missing,
			"No cluster found for name: nobody."},
		{"update of nothing", config("c", eks.UpdateClusterConfigInput{}), parameter,
			"The type for cluster update was not provided."},
		{"update of two things", config("c", eks.UpdateClusterConfigInput{
			DeletionProtection: on(true), ResourcesVpcConfig: &types.VpcConfigRequest{EndpointPrivateAccess: on(true)},
		}), parameter, "Only one type of update can be allowed."},
		{"update of subnets and endpoints", config("c", eks.UpdateClusterConfigInput{
			ResourcesVpcConfig: &types.VpcConfigRequest{EndpointPrivateAccess: on(true), SubnetIds: []string{"subnet-a",
				"subnet-c"}},
		}), parameter, "Only one type of update can be allowed."},
		{"update during an update", config("busy", eks.UpdateClusterConfigInput{DeletionProtection: on(true)}), used,
			"Cannot DeletionProtectionUpdate because cluster busy currently has update " + *busy.Update.Id +
				" in progress"},
		{"upgrade during an update", ekstest.UpdateVersion("busy", "1.36"), used,
			"Cannot VersionUpdate because cluster busy currently has update " + *busy.Update.Id + " in progress"},
		{"update during creation", config("creating", eks.UpdateClusterConfigInput{DeletionProtection: on(true)}), used,
			"…CREATING"},
		{"update during deletion", config("leaving", eks.UpdateClusterConfigInput{DeletionProtection: on(true)}), used,
			"…DELETING"},
		{"endpoints as they are", config("c",
			eks.UpdateClusterConfigInput{ResourcesVpcConfig: &types.VpcConfigRequest{EndpointPublicAccess: on(true)}}),
			parameter,
			"Cluster is already at the desired configuration with endpointPrivateAccess: false , " +
				"endpointPublicAccess: true, and Public Endpoint Restrictions: [0.0.0.0/0]"},
		{"both endpoints off", config("c",
			eks.UpdateClusterConfigInput{ResourcesVpcConfig: &types.VpcConfigRequest{EndpointPublicAccess: on(false)}}),
			parameter, "Private and public endpoint access cannot be false"},
		{"subnets as they are", config("c",
			eks.UpdateClusterConfigInput{ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: []string{"subnet-b",
				"subnet-a"}}}), parameter, "…already at the desired configuration"},
		{"subnets of another VPC", config("c",
			eks.UpdateClusterConfigInput{ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: []string{"subnet-2a",
				"subnet-2b"}}}), parameter, "Specified subnets must belong to cluster's vpc vpc-1"},
		{"security group of another VPC",
			config("c", eks.UpdateClusterConfigInput{ResourcesVpcConfig: &types.VpcConfigRequest{
				SecurityGroupIds: []string{"sg-other"}}}), parameter, "…not in the same VPC"},
		{"logging as it is", config("c", eks.UpdateClusterConfigInput{
			Logging: &types.Logging{ClusterLogging: []types.LogSetup{{Types: []types.LogType{"api"},
				Enabled: on(false)}}},
		}), parameter, "No changes needed for the logging config provided"},
		{"authentication mode as it is",
			config("api", eks.UpdateClusterConfigInput{AccessConfig: &types.UpdateAccessConfigRequest{
				AuthenticationMode: types.AuthenticationModeApi}}), parameter, "…already at the desired configuration"},
		{"authentication mode backwards",
			config("api", eks.UpdateClusterConfigInput{AccessConfig: &types.UpdateAccessConfigRequest{
				AuthenticationMode: types.AuthenticationModeApiAndConfigMap}}), parameter,
			"Unsupported authentication mode update from API to API_AND_CONFIG_MAP"},
		{"authentication mode two steps",
			config("map", eks.UpdateClusterConfigInput{AccessConfig: &types.UpdateAccessConfigRequest{
				AuthenticationMode: types.AuthenticationModeApi}}), parameter,
			"Unsupported authentication mode update from CONFIG_MAP to API"},
		{"standard support for a version in extended support",
			config("c", eks.UpdateClusterConfigInput{UpgradePolicy: &types.UpgradePolicyRequest{
				SupportType: types.SupportTypeStandard}}), parameter, "…extended support"},
		{"deletion protection as it is", config("c", eks.UpdateClusterConfigInput{DeletionProtection: on(false)}),
			parameter, "…already at the desired configuration"},
		{"event TTL too short", config("c",
			eks.UpdateClusterConfigInput{KubeApiServerConfig: &types.KubeApiServerConfigRequest{
				EventTtl: aws.String("5m")}}), parameter, "…between 10m and 24h"},
		{"egress as it is", config("c", eks.UpdateClusterConfigInput{ResourcesVpcConfig: &types.VpcConfigRequest{
			ControlPlaneEgressMode: types.ControlPlaneEgressModeTypeAwsManaged}}), parameter,
			"…already at the desired configuration"},
		{"egress through the VPC later",
			config("c", eks.UpdateClusterConfigInput{ResourcesVpcConfig: &types.VpcConfigRequest{
				ControlPlaneEgressMode: types.ControlPlaneEgressModeTypeCustomerIsolated}}), parameter,
			"…not implemented by Coracle"},
		{"control plane tier as it is", config("c",
			eks.UpdateClusterConfigInput{ControlPlaneScalingConfig: &types.ControlPlaneScalingConfig{
				Tier: types.ProvisionedControlPlaneTierStandard}}), parameter, "…already at the desired configuration"},
		{"remote networks as they are", config("c",
			eks.UpdateClusterConfigInput{RemoteNetworkConfig: &types.RemoteNetworkConfigRequest{}}), parameter,
			"…already at the desired configuration"},
		{"zonal shift as it is", config("c",
			eks.UpdateClusterConfigInput{ZonalShiftConfig: &types.ZonalShiftConfigRequest{Enabled: on(false)}}),
			parameter, "…already at the desired configuration"},
		{"another service CIDR", config("c",
			eks.UpdateClusterConfigInput{KubernetesNetworkConfig: &types.KubernetesNetworkConfigRequest{
				ServiceIpv4Cidr: aws.String("10.200.0.0/16")}}), parameter, "…can't be changed"},
		{"Auto Mode later", config("c", eks.UpdateClusterConfigInput{
			ComputeConfig: &types.ComputeConfigRequest{Enabled: on(true)},
			StorageConfig: &types.StorageConfigRequest{BlockStorage: &types.BlockStorage{Enabled: on(true)}},
			KubernetesNetworkConfig: &types.KubernetesNetworkConfigRequest{
				ElasticLoadBalancing: &types.ElasticLoadBalancing{Enabled: on(true)}},
		}), parameter, "…EKS Auto Mode is not implemented by Coracle"},

		// Upgrades.
		{"upgrade to the same version", ekstest.UpdateVersion("c", "1.33"), parameter,
			"Unsupported Kubernetes minor version update from 1.33 to 1.33"},
		{"upgrade that skips", ekstest.UpdateVersion("c", "1.35"), parameter,
			"Unsupported Kubernetes minor version update from 1.33 to 1.35"},
		{"downgrade", ekstest.UpdateVersion("api", "1.35"), parameter,
			"Unsupported Kubernetes minor version update from 1.36 to 1.35"},
		{"upgrade to the unknown", ekstest.UpdateVersion("api", "1.37"), parameter, "unsupported Kubernetes version"},
		{"upgrade of no cluster", ekstest.UpdateVersion("nobody", "1.36"), missing,
			"No cluster found for name: nobody."},
		{"cancel an update", func(ctx context.Context, c *eks.Client) error {
			_, err := c.CancelUpdate(ctx, &eks.CancelUpdateInput{Name: aws.String("busy"), UpdateId: busy.Update.Id})
			return err
		}, invalid, "…can't be cancelled"},
		{"describe no update", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: aws.String("c"), UpdateId: busy.Update.Id})
			return err
		}, missing, "No update found for ID: " + *busy.Update.Id},
		{"describe a cluster's update as a node group's", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: aws.String("busy"), UpdateId: busy.Update.Id,
				NodegroupName: aws.String("ng")})
			return err
		}, missing, "No node group found for name: ng."},

		// Deletion.
		{"delete no cluster", ekstest.DeleteCluster("nobody"), missing, "No cluster found for name: nobody."},
		{"delete a protected cluster", ekstest.DeleteCluster("api"), invalid, "…deletion protection is enabled"},
		{"delete during an update", ekstest.DeleteCluster("busy"), used,
			"Cannot delete because cluster busy currently has an update in progress"},
		{"delete with a node group", ekstest.DeleteCluster("noded"), used, "Cluster has nodegroups attached"},
		{"delete with a Fargate profile", ekstest.DeleteCluster("fargated"), used,
			"Cluster has fargate profiles attached"},

		// Tags, keys, pages, versions.
		{"tag something else", tag("arn:aws:ec2:"+ekstest.Region+":"+ekstest.Account+":vpc/vpc-1",
			map[string]string{"a": "b"}), badReq, "…Invalid ARN"},
		{"tag no cluster", tag(ekstest.ClusterARN+"nobody", map[string]string{"a": "b"}), "NotFoundException",
			"…could not be found"},
		{"tag a cluster elsewhere", tag(strings.Replace(ekstest.ClusterARN, ekstest.Region, "us-east-1", 1)+"c",
			map[string]string{"a": "b"}), "NotFoundException", "…could not be found"},
		{"tag beyond the limit", tag(ekstest.ClusterARN+"busy", map[string]string{"one-more": ""}), badReq, "…50"},
		{"tag with a reserved key", tag(ekstest.ClusterARN+"c", map[string]string{"aws:x": ""}), badReq, "…reserved"},
		{"versions of something else", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeClusterVersions(ctx,
				&eks.DescribeClusterVersionsInput{ClusterType: aws.String("eks-local-outposts")})
			return err
		}, parameter, "…eks-local-outposts"},
		{"an unknown version described", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeClusterVersions(ctx,
				&eks.DescribeClusterVersionsInput{ClusterVersions: []string{"1.2"}})
			return err
		}, parameter, "unsupported Kubernetes version"},
		{"a page token of nobody", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListClusters(ctx, &eks.ListClustersInput{NextToken: aws.String("bogus")})
			return err
		}, parameter, "…token"},
		{"a page of 101", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListClusters(ctx, &eks.ListClustersInput{MaxResults: aws.Int32(101)})
			return err
		}, parameter, "…100"},
	}
	for _, r := range slices.Concat(clusterRefusals, accessRefusals()) {
		w.Refuses(r.name, r.do, r.code, r.message)
	}
}

// The first cluster of an account needs the permission to make EKS's service-linked role; the next does not.
func TestServiceLinkedRoleDenied(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "iam:CreateServiceLinkedRole" }
	_, err := w.Client.CreateCluster(t.Context(), ekstest.Request("c"))
	want := ekstest.Failure{Code: "InvalidRequestException", Status: 400,
		Message: "Failed to create service linked role: AWSServiceRoleForAmazonEKS due to missing permissions for " +
			"'iam:CreateServiceLinkedRole'"}
	if got := ekstest.FailureOf(t, err); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if n := len(w.Contents()); n != 0 || len(w.Linked) != 0 {
		t.Errorf("%d rows, service-linked roles %v", n, w.Linked)
	}
	role := record.Role{Account: ekstest.Account, Path: "/aws-service-role/eks.amazonaws.com/",
		Name: "AWSServiceRoleForAmazonEKS", LinkedService: "eks.amazonaws.com"}
	ekstest.Put(w.T, record.Roles(w.Store), record.RoleKey(ekstest.Account, role.Name), role)
	w.Create("c")
}

// Whoever may create clusters but not pass the role makes none, nor a service-linked role.
func TestPassRoleDenied(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "iam:PassRole" }
	_, err := w.Client.CreateCluster(t.Context(), ekstest.Request("c"))
	f := ekstest.FailureOf(t, err)
	if f.Code != "AccessDeniedException" || f.Status != 403 || !strings.Contains(f.Message,
		"is not authorized to perform: iam:PassRole on resource: "+ekstest.RoleARN) {
		t.Errorf("%v", f)
	}
	if n := len(w.Contents()); n != 0 || len(w.Linked) != 0 {
		t.Errorf("%d rows, service-linked roles %v", n, w.Linked)
	}
}
