package eks_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	sdk "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/eks"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
)

const (
	admin = ekstest.PolicyPrefix + "AmazonEKSClusterAdminPolicy"
	view  = ekstest.PolicyPrefix + "AmazonEKSViewPolicy"
)

// lives are the lives of resources of all types, beside a cluster ironman.
func lives() map[string]resourcetest.Life {
	entry := `"ClusterName": "ironman", "PrincipalArn": "`
	return map[string]resourcetest.Life{
		"cluster": {
			Type: "AWS::EKS::Cluster", Taken: true, Ref: "lake-own-1a2b3c",
			Properties: `{"RoleArn": "` + ekstest.RoleARN + `", "Version": "1.34",
				"ResourcesVpcConfig": {"SubnetIds": ["subnet-a", "subnet-b"], "EndpointPrivateAccess": true},
				"Logging": {"ClusterLogging": {"EnabledTypes": [{"Type": "api"}, {"Type": "audit"}]}},
				"AccessConfig": {"AuthenticationMode": "API_AND_CONFIG_MAP"},
				"KubernetesNetworkConfig": {"ServiceIpv4Cidr": "172.20.0.0/16"},
				"Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"Logging": null, "DeletionProtection": true, "ZonalShiftConfig": {"Enabled": true}}`,
				`{"UpgradePolicy": {"SupportType": "STANDARD"}, "DeletionProtection": "false", "Tags": null,
				"ResourcesVpcConfig": {"SubnetIds": ["subnet-b", "subnet-c"], "EndpointPublicAccess": true,
				"PublicAccessCidrs": ["44.203.113.0/24"], "SecurityGroupIds": ["sg-1"]}}`,
				`{"ResourcesVpcConfig": {"SubnetIds": ["subnet-a", "subnet-b"], "EndpointPublicAccess": false,
				"EndpointPrivateAccess": true, "SecurityGroupIds": []}}`,
				`{"KubeApiServerConfig": {"EventTtl": "60m"}, "RemoteNetworkConfig": {"RemoteNodeNetworks":
				[{"Cidrs": ["10.200.0.0/16"]}]}, "ComputeConfig": {"Enabled": false},
				"StorageConfig": {"BlockStorage": {"Enabled": false}}, "ControlPlaneScalingConfig": {"Tier": "standard"}}`,
				`{"KubeApiServerConfig": {"EventTtl": "30m"}, "KubeControllerManagerConfig": {"PodGcControllerConfig":
				{"TerminatedPodGcThreshold": 100}}, "KubeSchedulerConfig": {"NodeResourcesFit": {"ScoringStrategy":
				{"Type": "MostAllocated", "Resources": [{"Name": "cpu", "Weight": 2}]}}}}`,
			},
			Kept: []string{
				"ComputeConfig", "StorageConfig", "KubernetesNetworkConfig", // which say that Auto Mode is off
				"KubeApiServerConfig", "KubeControllerManagerConfig", "KubeSchedulerConfig", // which have their defaults
			},
			Absent: []string{"CertificateAuthority.Active.Id", "CertificateAuthority.Active.ActivatedBy"},
			Attributes: map[string]string{
				"Arn": ekstest.ClusterARN + "lake-own-1a2b3c", "Endpoint": "https://127.0.0.1:34567",
				"CertificateAuthorityData": "UEVN", "ClusterSecurityGroupId": "sg-cluster",
				"OpenIdConnectIssuerUrl": "https://*", "KubernetesNetworkConfig.ServiceIpv6Cidr": "",
				"EncryptionConfigKeyArn": "",
			},
		},
		"cluster with a name of its own": {
			Type: "AWS::EKS::Cluster", Taken: true, Ref: "Own",
			Properties: strings.Replace(clusterProperties("Own"), "{", `{"BootstrapSelfManagedAddons": false,
				"EncryptionConfig": [{"Resources": ["secrets"], "Provider": {"KeyArn": "$key"}}], `, 1),
			Attributes: map[string]string{"EncryptionConfigKeyArn": "arn:aws:kms:*"},
			Hidden:     []string{"BootstrapSelfManagedAddons"},
			Absent:     []string{"CertificateAuthority.Active.Id", "CertificateAuthority.Active.ActivatedBy"},
		},
		"node group with a name of its own": {
			Type: "AWS::EKS::Nodegroup", Taken: true, Ref: "ironman/Own",
			Properties: `{"ClusterName": "ironman", "NodeRole": "` + ekstest.NodeRole + `", "NodegroupName": "Own",
				"Subnets": ["subnet-a", "subnet-b"], "AmiType": "AL2023_x86_64_STANDARD", "CapacityType": "ON_DEMAND",
				"DiskSize": 30, "WarmPoolConfig": {"Enabled": true, "MinSize": 1},
				"RemoteAccess": {"Ec2SshKey": "key", "SourceSecurityGroups": ["sg-1"]}}`,
			Updates: []string{`{"WarmPoolConfig": {"Enabled": true, "MinSize": 2}}`},
		},
		"node group": {
			Type: "AWS::EKS::Nodegroup", Taken: true, Ref: "ironman/lake-own-1a2b3c",
			Properties: `{"ClusterName": "ironman", "NodeRole": "` + ekstest.NodeRole + `", "Version": "1.33",
				"Subnets": ["subnet-a", "subnet-b"], "ScalingConfig": {"MinSize": "1", "MaxSize": 3, "DesiredSize": 2},
				"Labels": {"a": "b", "c": "d"}, "Tags": {"e": "f"}, "InstanceTypes": ["m5.large"],
				"Taints": [{"Key": "k", "Value": "v", "Effect": "NO_SCHEDULE"}]}`,
			Hidden: []string{"ForceUpdateEnabled"},
			Updates: []string{
				`{"ForceUpdateEnabled": true}`,
				`{"ScalingConfig": {"MinSize": 2, "MaxSize": 4, "DesiredSize": 3}, "Labels": {"a": "x", "y": "z"},
				"Taints": [{"Key": "k", "Value": "w", "Effect": "NO_SCHEDULE"}, {"Key": "l", "Effect": "NO_EXECUTE"}],
				"Tags": {"e": "g"}}`,
				`{"UpdateConfig": {"MaxUnavailablePercentage": 50}, "NodeRepairConfig": {"Enabled": true}}`,
				`{"UpdateConfig": null, "NodeRepairConfig": null, "Labels": null, "Taints": null, "Tags": null}`,
			},
			Attributes: map[string]string{
				"Arn": "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":nodegroup/ironman/lake-own-1a2b3c/*",
				"Id":  "ironman/lake-own-1a2b3c", "ClusterName": "ironman", "NodegroupName": "lake-own-1a2b3c",
			},
		},
		"Fargate profile with a name of its own": {
			Type: "AWS::EKS::FargateProfile", Taken: true, Ref: "ironman|Own",
			Properties: `{"ClusterName": "ironman", "FargateProfileName": "Own", "Subnets": ["subnet-b"],
				"PodExecutionRoleArn": "` + ekstest.FargateRole + `", "Selectors": [{"Namespace": "default"}, {
				"Namespace": "team-*", "Labels": [{"Key": "a", "Value": "b"}, {"Key": "c", "Value": "?"}]}]}`,
		},
		"Fargate profile": {
			Type: "AWS::EKS::FargateProfile", Taken: true, Ref: "ironman|lake-own-1a2b3c",
			Properties: `{"ClusterName": "ironman", "PodExecutionRoleArn": "` + ekstest.FargateRole + `",
				"Selectors": [{"Namespace": "default"}], "Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{`{"Tags": [{"Key": "c", "Value": "d"}]}`, `{"Tags": null}`},
			Attributes: map[string]string{
				"Arn": "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":fargateprofile/ironman/lake-own-1a2b3c/*",
			},
		},
		"access entry": {
			Type: "AWS::EKS::AccessEntry", Taken: true, Ref: ekstest.IRSARole + "|ironman",
			Properties: `{` + entry + ekstest.IRSARole + `", "AccessPolicies": [{"PolicyArn": "` + view + `",
				"AccessScope": {"Type": "namespace", "Namespaces": ["default"]}}], "KubernetesGroups": ["viewers"],
				"Tags": [{"Key": "a", "Value": "b"}], "Username": "viewer"}`,
			Updates: []string{
				`{"KubernetesGroups": ["admins"], "Username": "chief", "AccessPolicies": [{"PolicyArn": "` + admin + `",
				"AccessScope": {"Type": "cluster"}}, {"PolicyArn": "` + view + `", "AccessScope": {"Type": "cluster"}}]}`,
				`{"KubernetesGroups": null, "AccessPolicies": null, "Tags": null}`,
			},
			Attributes: map[string]string{
				"AccessEntryArn": "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":access-entry/ironman/role/" +
					ekstest.Account + "/irsa/*",
			},
		},
		"access entry of nodes": {
			Type: "AWS::EKS::AccessEntry", Properties: `{` + entry + ekstest.NodeRole + `", "Type": "EC2_LINUX"}`,
		},
		"pod identity association": {
			Type: "AWS::EKS::PodIdentityAssociation", Taken: true,
			Properties: `{"ClusterName": "ironman", "Namespace": "default", "ServiceAccount": "web",
				"RoleArn": "` + ekstest.PodRole + `", "Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"TargetRoleArn": "arn:aws:iam::444455556666:role/data", "DisableSessionTags": true, "Tags": null}`,
				`{"Policy": "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",` +
					`\"Action\":\"s3:GetObject\",\"Resource\":\"*\"}]}"}`,
				`{"Policy": null, "TargetRoleArn": null}`,
			},
			Attributes: map[string]string{
				"AssociationId": "a-*", "AssociationArn": "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account +
					":podidentityassociation/ironman/a-*",
			},
		},
		"identity provider": {
			Type: "AWS::EKS::IdentityProviderConfig", Ref: "lake-own-1a2b3c|ironman|oidc",
			Properties: `{"ClusterName": "ironman", "Type": "oidc", "Oidc": {"IssuerUrl": "https://login.example.com",
				"ClientId": "kubernetes", "UsernameClaim": "email", "GroupsClaim": "groups", "GroupsPrefix": "oidc:",
				"RequiredClaims": [{"Key": "team", "Value": "a"}]}, "Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{`{"Tags": [{"Key": "c", "Value": "d"}]}`, `{"Tags": null}`},
			Attributes: map[string]string{
				"IdentityProviderConfigArn": "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account +
					":identityproviderconfig/ironman/oidc/lake-own-1a2b3c/*",
			},
		},
		"identity provider with a name of its own": {
			Type: "AWS::EKS::IdentityProviderConfig", Ref: "Own|ironman|oidc",
			Properties: `{"ClusterName": "ironman", "Type": "oidc", "IdentityProviderConfigName": "Own",
				"Oidc": {"IssuerUrl": "https://login.example.com", "ClientId": "kubernetes"}}`,
		},
		"capability": {
			Type: "AWS::EKS::Capability", Taken: true,
			Properties: `{"ClusterName": "ironman", "CapabilityName": "graphs", "Type": "KRO",
				"DeletePropagationPolicy": "RETAIN", "RoleArn": "` + ekstest.CapabilityRole + `",
				"Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"RoleArn": "` + ekstest.OtherCapabilityRole + `", "Tags": null}`,
				`{"Tags": [{"Key": "c", "Value": "d"}]}`,
			},
			Attributes: map[string]string{
				"Arn":    "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":capability/ironman/kro/graphs/*",
				"Status": "ACTIVE", "Version": "v0.9.4", "CreatedAt": "2026-11-01T12:00:00Z",
				"ModifiedAt": "2026-11-01T12:00:00Z",
			},
			Absent: []string{"Configuration.ArgoCd.ServerUrl", "Configuration.ArgoCd.AwsIdc.IdcManagedApplicationArn"},
		},
		"add-on": {
			Type: "AWS::EKS::Addon", Taken: true, Ref: "ironman|acme_storage",
			Properties: `{"ClusterName": "ironman", "AddonName": "acme_storage", "ConfigurationValues": "{\"replicaCount\":3}",
				"PodIdentityAssociations": [{"ServiceAccount": "controller", "RoleArn": "` + ekstest.PodRole + `"}],
				"NamespaceConfig": {"Namespace": "storage"}}`,
			Hidden: []string{"ResolveConflicts", "PreserveOnDelete"},
			Updates: []string{
				`{"ServiceAccountRoleArn": "` + ekstest.IRSARole + `", "PodIdentityAssociations": null}`,
				`{"ResolveConflicts": "OVERWRITE", "ConfigurationValues": null, "PreserveOnDelete": true,
				"Tags": [{"Key": "a", "Value": "b"}]}`,
				`{"ServiceAccountRoleArn": null}`,
			},
			Attributes: map[string]string{
				"Arn": "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":addon/ironman/acme_storage/*",
			},
		},
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	resourcetest.CheckSchema(t, eks.Types, slices.Collect(maps.Values(lives())), map[string][]string{
		"AWS::EKS::Cluster": {
			"EncryptionConfig",        // nobody serves keys
			"Force",                   // a word to an upgrade
			"KubernetesNetworkConfig", // of which its member ElasticLoadBalancing changes in place
		},
		"AWS::EKS::Nodegroup": {"LaunchTemplate", "ReleaseVersion"}, // in tests of their own
		"AWS::EKS::Addon":     {"AddonVersion"},
		// Nobody runs the types that have a configuration, and there is one policy.
		"AWS::EKS::Capability": {"Configuration", "DeletePropagationPolicy"},
	})
}

func TestLives(t *testing.T) {
	t.Parallel()
	for name, life := range lives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			if _, err := w.eks.EC2.CreateKeyPair(t.Context(), &ec2.CreateKeyPairInput{KeyName: aws.String("key")}); err != nil {
				t.Fatal(err)
			}
			key, err := w.eks.KMS.CreateKey(t.Context(), &kms.CreateKeyInput{})
			if err != nil {
				t.Fatal(err)
			}
			life.Properties = strings.ReplaceAll(life.Properties, "$key", *key.KeyMetadata.Arn)
			w.cluster("ironman")
			w.Run(life)
		})
	}
}

// An update of a stack is a sequence of updates of EKS, each of which happens once, although every answer is lost.
func TestUpdatesOfEKSComeOneByOne(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.cluster("ironman")
	next := resourcetest.Properties(t, `{"Name": "ironman", "RoleArn": "`+ekstest.RoleARN+`", "Version": "1.35",
		"ResourcesVpcConfig": {"SubnetIds": ["subnet-a", "subnet-b"], "EndpointPrivateAccess": true},
		"AccessConfig": {"AuthenticationMode": "API"}, "DeletionProtection": true,
		"Logging": {"ClusterLogging": {"EnabledTypes": [{"Type": "scheduler"}]}},
		"UpgradePolicy": {"SupportType": "STANDARD"}}`)
	if _, err := w.Update("AWS::EKS::Cluster", r, next, "new"); err != nil {
		t.Fatal(err)
	}
	want := []types.UpdateType{
		types.UpdateTypeUpgradePolicyUpdate, types.UpdateTypeLoggingUpdate, types.UpdateTypeEndpointAccessUpdate,
		types.UpdateTypeDeletionProtectionUpdate, types.UpdateTypeVersionUpdate,
	}
	if diff := cmp.Diff(want, w.ended); diff != "" {
		t.Errorf("updates: -want +got:\n%s", diff)
	}
	c := w.eks.Describe("ironman")
	if aws.ToString(c.Version) != "1.35" || c.Tags["team"] != "new" || !aws.ToBool(c.DeletionProtection) {
		t.Errorf("got %s, %v, %v", aws.ToString(c.Version), c.Tags, aws.ToBool(c.DeletionProtection))
	}

	// Again, to what the cluster is already.
	r.Previous = nil
	w.ended = nil
	before := r.Properties
	r.Properties = resourcetest.Properties(t, clusterProperties("ironman"))
	if _, err := w.Update("AWS::EKS::Cluster", r, before, "new"); err != nil || len(w.ended) > 0 {
		t.Errorf("got updates %v, %v, want none", w.ended, err)
	}
}

// eksctl upgrades a node group by what it changes in the template of its stack.
func TestUpgradeOfNodegroup(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.cluster("ironman")
	properties := `{"ClusterName": "ironman", "NodeRole": "` + ekstest.NodeRole + `", "Subnets": ["subnet-a", "subnet-b"],
		"Version": "1.33"`
	r := w.Request("Group", properties+`}`)
	w.Create("AWS::EKS::Nodegroup", r)
	force := resourcetest.Properties(t, properties+`, "ForceUpdateEnabled": true}`)
	if _, err := w.Update("AWS::EKS::Nodegroup", r, force, "old"); err != nil || len(w.ended) > 0 {
		t.Errorf("ForceUpdateEnabled alone: got updates %v, %v, want none", w.ended, err)
	}
	version := resourcetest.Properties(t, strings.ReplaceAll(properties, "1.33", "1.34")+`, "ForceUpdateEnabled": true}`)
	if _, err := w.Update("AWS::EKS::Nodegroup", r, version, "old"); err != nil {
		t.Fatal(err)
	}
	if want := []types.UpdateType{types.UpdateTypeVersionUpdate}; !slices.Equal(w.ended, want) {
		t.Errorf("got updates %v, want %v", w.ended, want)
	}
	live, _, err := eks.Types["AWS::EKS::Nodegroup"].Read(t.Context(), r)
	if err != nil || live["Version"] != "1.34" {
		t.Errorf("got version %v, %v", live["Version"], err)
	}

	// The release that the nodes have already.
	w.ended = nil
	release := maps.Clone(r.Properties)
	release["ReleaseVersion"] = live["ReleaseVersion"]
	if _, err := w.Update("AWS::EKS::Nodegroup", r, release, "old"); err != nil || len(w.ended) > 0 {
		t.Errorf("the same release: got updates %v, %v, want none", w.ended, err)
	}
	wrong := maps.Clone(release)
	wrong["ReleaseVersion"] = "1.34.0-20200101"
	_, err = w.Update("AWS::EKS::Nodegroup", r, wrong, "old")
	awstest.WantCode(t, err, "InvalidParameterException")

	// "eksctl upgrade nodegroup" names a release of another version, and no version.
	other := w.Request("Other", properties+`}`)
	w.Create("AWS::EKS::Nodegroup", other)
	upgrade := maps.Clone(other.Properties)
	delete(upgrade, "Version")
	upgrade["ReleaseVersion"] = live["ReleaseVersion"]
	if _, err := w.Update("AWS::EKS::Nodegroup", other, upgrade, "old"); err != nil {
		t.Fatal(err)
	}
	live, _, err = eks.Types["AWS::EKS::Nodegroup"].Read(t.Context(), other)
	if err != nil || live["Version"] != "1.34" {
		t.Errorf("a release of 1.34: got version %v, %v", live["Version"], err)
	}
}

func TestUpgradeOfAddon(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.cluster("ironman")
	out := awstest.Must[*sdk.DescribeAddonVersionsOutput](t)(w.eks.Client.DescribeAddonVersions(t.Context(),
		&sdk.DescribeAddonVersionsInput{AddonName: aws.String("coredns"), KubernetesVersion: aws.String("1.34")}))
	versions := out.Addons[0].AddonVersions
	newest, oldest := *versions[0].AddonVersion, *versions[len(versions)-1].AddonVersion
	if newest == oldest {
		t.Fatalf("there is one version: %s", newest)
	}
	properties := `{"ClusterName": "ironman", "AddonName": "coredns", "AddonVersion": "`
	r := w.Request("Addon", properties+oldest+`"}`)
	w.Create("AWS::EKS::Addon", r)
	if _, err := w.Update("AWS::EKS::Addon", r, resourcetest.Properties(t, properties+newest+`"}`), "old"); err != nil {
		t.Fatal(err)
	}
	live, _, err := eks.Types["AWS::EKS::Addon"].Read(t.Context(), r)
	if err != nil || live["AddonVersion"] != newest {
		t.Errorf("got version %v, %v, want %s", live["AddonVersion"], err, newest)
	}
	if want := []types.UpdateType{types.UpdateTypeAddonUpdate}; !slices.Equal(w.ended, want) {
		t.Errorf("got updates %v, want %v", w.ended, want)
	}
}

// A node group follows its launch template from version to version.
func TestLaunchTemplateOfNodegroup(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, machines := t.Context(), w.eks.EC2
	vpc := awstest.Must[*ec2.CreateVpcOutput](t)(machines.CreateVpc(ctx,
		&ec2.CreateVpcInput{CidrBlock: aws.String("10.7.0.0/16")}))
	var subnets []string
	for zone, cidr := range map[string]string{"a": "10.7.0.0/24", "b": "10.7.1.0/24"} {
		out := awstest.Must[*ec2.CreateSubnetOutput](t)(machines.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: vpc.Vpc.VpcId, CidrBlock: &cidr, AvailabilityZone: aws.String(ekstest.Region + zone),
		}))
		subnets = append(subnets, `"`+*out.Subnet.SubnetId+`"`)
	}
	data := &ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeM5Large}
	template := awstest.Must[*ec2.CreateLaunchTemplateOutput](t)(machines.CreateLaunchTemplate(ctx,
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("nodes"), LaunchTemplateData: data}))
	id := template.LaunchTemplate.LaunchTemplateId
	awstest.Must[*ec2.CreateLaunchTemplateVersionOutput](t)(machines.CreateLaunchTemplateVersion(ctx,
		&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: id, LaunchTemplateData: data}))
	list := strings.Join(subnets, ", ")
	w.Create("AWS::EKS::Cluster", w.Request("Cluster",
		strings.ReplaceAll(clusterProperties("ironman"), `"subnet-a", "subnet-b"`, list)))

	properties := func(version string) string {
		return `{"ClusterName": "ironman", "NodeRole": "` + ekstest.NodeRole + `", "Subnets": [` + list + `],
			"LaunchTemplate": {"Id": "` + *id + `", "Version": "` + version + `"}}`
	}
	r := w.Request("Group", properties("1"))
	w.Create("AWS::EKS::Nodegroup", r)
	if _, err := w.Update("AWS::EKS::Nodegroup", r, resourcetest.Properties(t, properties("2")), "old"); err != nil {
		t.Fatal(err)
	}
	if want := []types.UpdateType{types.UpdateTypeVersionUpdate}; !slices.Equal(w.ended, want) {
		t.Errorf("got updates %v, want %v", w.ended, want)
	}
	live, _, err := eks.Types["AWS::EKS::Nodegroup"].Read(ctx, r)
	want := map[string]any{"Id": *id, "Version": "2"}
	if diff := cmp.Diff(want, live["LaunchTemplate"]); err != nil || diff != "" {
		t.Errorf("%v: -want +got:\n%s", err, diff)
	}
}

// The reason of a failure is that of EKS.
func TestFailuresHaveTheReasonOfEKS(t *testing.T) {
	t.Parallel()
	group := `{"ClusterName": "ironman", "NodeRole": "` + ekstest.NodeRole + `", "Subnets": ["subnet-a", "subnet-b"]}`
	for name, c := range map[string]struct{ kind, properties, reason string }{
		"cluster": {"AWS::EKS::Cluster", clusterProperties("other"), "the API server did not come up"},
		"node group": {
			"AWS::EKS::Nodegroup", group,
			"Nodegroup lake-own-1a2b3c is in status CREATE_FAILED: NodeCreationFailure: Instances failed to join [i-1]",
		},
		"Fargate profile": {
			"AWS::EKS::FargateProfile", `{"ClusterName": "ironman", "PodExecutionRoleArn": "` + ekstest.FargateRole +
				`", "Selectors": [{"Namespace": "default"}]}`,
			"Fargate profile lake-own-1a2b3c is in status CREATE_FAILED: AccessDenied: The role was not let in",
		},
		"add-on": {
			"AWS::EKS::Addon", `{"ClusterName": "ironman", "AddonName": "kube-proxy"}`,
			"Addon kube-proxy is in status CREATE_FAILED: ConfigurationConflict: Apply failed with 2 conflicts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.cluster("ironman")
			w.broken = true
			r := w.Request("Own", c.properties)
			var err error
			for result := (resource.Result{Pending: 1}); err == nil && result.Pending > 0; w.reconcile() {
				if result, err = eks.Types[c.kind].Create(t.Context(), r); err == nil {
					r.PhysicalID, r.Progress = result.PhysicalID, result.Progress
				}
			}
			if err == nil || resource.Classify(err) != resource.NotStabilized || !strings.Contains(err.Error(), c.reason) {
				t.Fatalf("got %v, want %q", err, c.reason)
			}
			w.broken = false
			w.Delete(c.kind, r)
		})
	}
}

// An update that fails on EKS fails with the errors of EKS.
func TestFailedUpdate(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.cluster("ironman")
	next := resourcetest.Properties(t, strings.ReplaceAll(clusterProperties("ironman"), "1.34", "1.35"))
	w.broken = true
	_, err := w.Update("AWS::EKS::Cluster", r, next, "old")
	const reason = "the API server did not come up"
	if resource.Classify(err) != resource.NotStabilized || !strings.Contains(err.Error(), reason) {
		t.Errorf("got %v", err)
	}
}

// A cluster waits with its deletion for node groups that are on their way out, and for no others.
func TestDeletionOfClusterWaitsForNodegroups(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.cluster("ironman")
	group := w.Request("Group", `{"ClusterName": "ironman", "NodeRole": "`+ekstest.NodeRole+`",
		"Subnets": ["subnet-a", "subnet-b"]}`)
	w.Create("AWS::EKS::Nodegroup", group)
	handler := eks.Types["AWS::EKS::Cluster"]
	_, err := handler.Delete(t.Context(), r)
	if awstest.WantCode(t, err, "ResourceInUseException"); !resource.Retryable(err) {
		t.Errorf("with a node group: %v is not to be tried again", err)
	}
	name := aws.String(group.Name)
	_, err = w.eks.Client.DeleteNodegroup(t.Context(), &sdk.DeleteNodegroupInput{
		ClusterName: &r.PhysicalID, NodegroupName: name,
	})
	if err != nil {
		t.Fatal(err)
	}
	if result, err := handler.Delete(t.Context(), r); err != nil || result.Pending <= 0 {
		t.Errorf("with a node group that is deleted: got %+v, %v", result, err)
	}
	w.reconcile()
	w.Delete("AWS::EKS::Cluster", r)
}

// The Fargate profiles of a stack come and go one by one, although nothing in the template says so.
func TestFargateProfilesOfAStack(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	cluster := w.cluster("ironman")
	properties := `{"ClusterName": "ironman", "PodExecutionRoleArn": "` + ekstest.FargateRole +
		`", "Selectors": [{"Namespace": "default"}]}`
	one, other := w.Request("One", properties), w.Request("Other", properties)
	handler := eks.Types["AWS::EKS::FargateProfile"]
	if _, err := handler.Create(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if _, err := handler.Create(t.Context(), other); !resource.Retryable(err) {
		t.Errorf("create at the same time: %v is not to be tried again", err)
	}
	w.reconcile()
	w.Create("AWS::EKS::FargateProfile", one)
	w.Create("AWS::EKS::FargateProfile", other)
	if _, err := eks.Types["AWS::EKS::Cluster"].Delete(t.Context(), cluster); !resource.Retryable(err) {
		t.Errorf("delete the cluster: got %v", err)
	}
	if _, err := handler.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if _, err := handler.Delete(t.Context(), other); !resource.Retryable(err) {
		t.Errorf("delete at the same time: %v is not to be tried again", err)
	}
	w.Delete("AWS::EKS::FargateProfile", one)
	if _, err := handler.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if result, err := eks.Types["AWS::EKS::Cluster"].Delete(t.Context(), cluster); err != nil || result.Pending <= 0 {
		t.Errorf("with a profile that is deleted: got %+v, %v", result, err)
	}
	w.Delete("AWS::EKS::FargateProfile", other)
	w.Delete("AWS::EKS::Cluster", cluster)
}

// Entries of a cluster that is being deleted go with it.
func TestDeletionOfEntryOfDeletedCluster(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.cluster("ironman")
	entry := w.Request("Entry", `{"ClusterName": "ironman", "PrincipalArn": "`+ekstest.IRSARole+`"}`)
	w.Create("AWS::EKS::AccessEntry", entry)
	if _, err := w.eks.Client.DeleteCluster(t.Context(), &sdk.DeleteClusterInput{Name: &r.PhysicalID}); err != nil {
		t.Fatal(err)
	}
	w.Delete("AWS::EKS::AccessEntry", entry)
	w.Delete("AWS::EKS::Cluster", r)
	w.Delete("AWS::EKS::AccessEntry", entry)
}
