package nodegroup_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// badGroup returns a bad CreateNodegroup: a good one with an edit.
func badGroup(edits ...func(*eks.CreateNodegroupInput)) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		in := group("c", "new")
		for _, edit := range edits {
			edit(in)
		}
		_, err := c.CreateNodegroup(ctx, in)
		return err
	}
}

func configGroup(name string, in eks.UpdateNodegroupConfigInput) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		in.ClusterName, in.NodegroupName = aws.String("c"), &name
		_, err := c.UpdateNodegroupConfig(ctx, &in)
		return err
	}
}

func versionGroup(name string, in eks.UpdateNodegroupVersionInput) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		if in.ClusterName == nil {
			in.ClusterName = aws.String("c")
		}
		in.NodegroupName = &name
		_, err := c.UpdateNodegroupVersion(ctx, &in)
		return err
	}
}

func badLabels(labels map[string]string) ekstest.Call {
	return badGroup(func(in *eks.CreateNodegroupInput) { in.Labels = labels })
}

func badTaints(taints ...types.Taint) ekstest.Call {
	return badGroup(func(in *eks.CreateNodegroupInput) { in.Taints = taints })
}

func badSize(least, most, desired int32) ekstest.Call {
	return badGroup(func(in *eks.CreateNodegroupInput) {
		in.ScalingConfig = &types.NodegroupScalingConfig{MinSize: &least, MaxSize: &most, DesiredSize: &desired}
	})
}

func badTypes(kind types.AMITypes, names ...string) ekstest.Call {
	return badGroup(func(in *eks.CreateNodegroupInput) { in.AmiType, in.InstanceTypes = kind, names })
}

func badRepair(config types.NodeRepairConfig) ekstest.Call {
	return badGroup(func(in *eks.CreateNodegroupInput) { in.NodeRepairConfig = &config })
}

func badPool(config types.WarmPoolConfig, edits ...func(*eks.CreateNodegroupInput)) ekstest.Call {
	return badGroup(append(edits, func(in *eks.CreateNodegroupInput) { in.WarmPoolConfig = &config })...)
}

func badUpdateConfig(config types.NodegroupUpdateConfig) ekstest.Call {
	return badGroup(func(in *eks.CreateNodegroupInput) { in.UpdateConfig = &config })
}

// refusal is a bad request, and what EKS says to it: see [ekstest.Fixture.Refuses].
type refusal struct {
	name          string
	do            ekstest.Call
	code, message string
}

// A bad request about node groups is answered with EKS's error, and changes nothing.
func TestNodegroupRefusals(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	iam := "arn:aws:iam::" + ekstest.Account + ":"
	there, here := w.network()
	w.Create("c", there)
	w.Create("elsewhere")
	w.Create("busy")
	if _, err := w.Client.UpdateClusterConfig(t.Context(), &eks.UpdateClusterConfigInput{Name: aws.String("busy"),
		ZonalShiftConfig: &types.ZonalShiftConfigRequest{Enabled: aws.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
	w.key("ops")
	role := record.Role{Account: ekstest.Account, Path: "/aws-service-role/eks.amazonaws.com/",
		Name: "AWSServiceRoleForAmazonEKS", LinkedService: "eks.amazonaws.com"}
	ekstest.Put(w.T, record.Roles(w.Store), record.RoleKey(ekstest.Account, role.Name), role)

	encoded := func(text string) *string { return aws.String(base64.StdEncoding.EncodeToString([]byte(text))) }
	image := w.image()
	lt := func(data ec2types.RequestLaunchTemplateData) func(*eks.CreateNodegroupInput) {
		return func(in *eks.CreateNodegroupInput) {
			here(in)
			using(w.template(fmt.Sprintf("lt-%p", &data), &data), "")(in)
		}
	}
	plain := lt(ec2types.RequestLaunchTemplateData{EbsOptimized: aws.Bool(false)})
	own := lt(ec2types.RequestLaunchTemplateData{ImageId: &image, InstanceType: ec2types.InstanceTypeM5Large})
	typed := lt(ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeM5Large})

	w.createGroup("c", "ng", here, func(in *eks.CreateNodegroupInput) {
		in.UpdateConfig = &types.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(2)}
	})
	w.createGroup("c", "spot", here, func(in *eks.CreateNodegroupInput) { in.CapacityType = types.CapacityTypesSpot })
	w.createGroup("c", "templated", plain)
	w.createGroup("c", "typed", typed)
	w.createGroup("c", "custom", own)
	w.createGroup("c", "updating", here)
	if err := configGroup("updating", eks.UpdateNodegroupConfigInput{ScalingConfig: &types.NodegroupScalingConfig{
		DesiredSize: aws.Int32(1)}})(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}
	updating := w.groupRow("c", "updating").LastUpdateID
	creating := group("c", "creating")
	here(creating)
	if _, err := w.Client.CreateNodegroup(t.Context(), creating); err != nil {
		t.Fatal(err)
	}
	w.createGroup("c", "leaving", here)
	if _, err := w.Client.DeleteNodegroup(t.Context(), &eks.DeleteNodegroupInput{ClusterName: aws.String("c"),
		NodegroupName: aws.String("leaving")}); err != nil {
		t.Fatal(err)
	}
	foreign := w.template("foreign", &ec2types.RequestLaunchTemplateData{EbsOptimized: aws.Bool(false)})
	templated := *w.describeGroup("c", "templated").LaunchTemplate.Id
	w.template(*w.describeGroup("c", "templated").LaunchTemplate.Name,
		&ec2types.RequestLaunchTemplateData{ImageId: &image})
	w.template(*w.describeGroup("c", "templated").LaunchTemplate.Name,
		&ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeM5Large})
	typedID, customID := *w.describeGroup("c", "typed").LaunchTemplate.Id, *w.describeGroup("c",
		"custom").LaunchTemplate.Id
	w.template(*w.describeGroup("c", "typed").LaunchTemplate.Name,
		&ec2types.RequestLaunchTemplateData{EbsOptimized: aws.Bool(false)})
	w.template(*w.describeGroup("c", "typed").LaunchTemplate.Name,
		&ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeM6gLarge})
	w.template(*w.describeGroup("c", "custom").LaunchTemplate.Name,
		&ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeM5Large})

	const (
		parameter = "InvalidParameterException"
		invalid   = "InvalidRequestException"
		used      = "ResourceInUseException"
		missing   = "ResourceNotFoundException"
		denied    = "AccessDeniedException"
		syntax    = " : field must consist of alphanumeric characters, '-', '_' or '.', and must start and end with " +
			"an alphanumeric character"
	)
	many := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint("k", i)] = "v"
		}
		return out
	}
	taint := func(key, value string, effect types.TaintEffect) types.Taint {
		return types.Taint{Key: &key, Value: &value, Effect: effect}
	}
	subnets := func(ids ...string) ekstest.Call {
		return badGroup(func(in *eks.CreateNodegroupInput) { in.Subnets = ids })
	}
	roles := func(arn string) ekstest.Call {
		return badGroup(here, func(in *eks.CreateNodegroupInput) { in.NodeRole = &arn })
	}
	spec := func(id, version string) eks.UpdateNodegroupVersionInput {
		return eks.UpdateNodegroupVersionInput{LaunchTemplate: &types.LaunchTemplateSpecification{Id: &id,
			Version: &version}}
	}
	override := func(wait int32, action types.RepairAction) types.NodeRepairConfigOverrides {
		return types.NodeRepairConfigOverrides{NodeMonitoringCondition: aws.String("NetworkingReady"),
			NodeUnhealthyReason: aws.String("IPAMDNotRunning"), MinRepairWaitTimeMins: &wait, RepairAction: action}
	}

	for _, r := range []refusal{
		// Names, clusters, tags.
		{"no cluster", badGroup(func(in *eks.CreateNodegroupInput) { in.ClusterName = aws.String("nobody") }), missing,
			"No cluster found for name: nobody."},
		{"a cluster in an update", badGroup(func(in *eks.CreateNodegroupInput) { in.ClusterName = aws.String("busy") }),
			invalid, "Cluster 'busy' is not in ACTIVE status"},
		{"name is taken", badGroup(func(in *eks.CreateNodegroupInput) { in.NodegroupName = aws.String("ng") }), used,
			"NodeGroup already exists with name ng and cluster name c"},
		{"name is taken by a group on its way out",
			badGroup(func(in *eks.CreateNodegroupInput) { in.NodegroupName = aws.String("leaving") }), used,
			"NodeGroup already exists with name leaving and cluster name c"},
		{"name of 64 characters", badGroup(func(in *eks.CreateNodegroupInput) {
			in.NodegroupName = aws.String(
				strings.Repeat("x", 64))
		}), parameter, "…63"},
		{"name begins with a hyphen", badGroup(func(in *eks.CreateNodegroupInput) {
			in.NodegroupName = aws.String(
				"-x")
		}), parameter, "…The nodegroup name parameter contains invalid characters"},
		{"name has a dot", badGroup(func(in *eks.CreateNodegroupInput) { in.NodegroupName = aws.String("a.b") }),
			parameter, "…hyphens and underscores"},
		{"reserved tag", badGroup(func(in *eks.CreateNodegroupInput) { in.Tags = map[string]string{"aws:x": ""} }),
			parameter, "…reserved"},

		// Sizes.
		{"minimum above the desired size", badSize(2, 3, 1), parameter, "Minimum capacity 2 can't be greater than desired size 1"},
		{"desired size above the maximum", badSize(1, 3, 4), parameter, "desired capacity 4 can't be greater than max size 3"},
		{"minimum above the maximum", badSize(5, 3, 5), parameter, "Minimum capacity 5 can't be greater than maximum capacity 3"},
		{"maximum of zero", badSize(0, 0, 0), parameter, "…greater than or equal to 1"},
		{"negative minimum", badSize(-1, 3, 1), parameter, "…greater than or equal to 0"},
		{"scaling up beyond the maximum",
			configGroup("ng", eks.UpdateNodegroupConfigInput{ScalingConfig: &types.NodegroupScalingConfig{
				DesiredSize: aws.Int32(3)}}), parameter, "desired capacity 3 can't be greater than max size 2"},
		{"raising the minimum alone", configGroup("ng",
			eks.UpdateNodegroupConfigInput{ScalingConfig: &types.NodegroupScalingConfig{MinSize: aws.Int32(3),
				MaxSize: aws.Int32(4)}}), parameter, "Minimum capacity 3 can't be greater than desired size 2"},
		{"lowering the maximum alone", configGroup("ng",
			eks.UpdateNodegroupConfigInput{ScalingConfig: &types.NodegroupScalingConfig{MinSize: aws.Int32(5)}}),
			parameter, "Minimum capacity 5 can't be greater than maximum capacity 2"},

		// Update config.
		{"more unavailable than there are", badUpdateConfig(types.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(3)}),
			parameter, "max-unavailable must be within the range 1 and max size of the node group"},
		{"101 unavailable", badUpdateConfig(types.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(101)}), parameter,
			"…100"},
		{"none unavailable", badUpdateConfig(types.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(0)}), parameter,
			"…greater than or equal to 1"},
		{"101 percent unavailable", badUpdateConfig(types.NodegroupUpdateConfig{MaxUnavailablePercentage: aws.Int32(
			101)}), parameter, "…less than or equal to 100"},
		{"a number and a percentage", badUpdateConfig(types.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(1),
			MaxUnavailablePercentage: aws.Int32(10)}), parameter, "…can't be specified together"},
		{"an empty update config", badUpdateConfig(types.NodegroupUpdateConfig{}), parameter, "…must have one of"},
		{"unknown update strategy", badUpdateConfig(types.NodegroupUpdateConfig{UpdateStrategy: "YOLO"}), parameter,
			"…enum value set: [DEFAULT, MINIMAL]"},
		{"a maximum below what may be unavailable",
			configGroup("ng", eks.UpdateNodegroupConfigInput{ScalingConfig: &types.NodegroupScalingConfig{
				MaxSize: aws.Int32(1), DesiredSize: aws.Int32(1)}}), parameter,
			"max-unavailable must be within the range 1 and max size of the node group"},

		// Labels.
		{"label of EKS", badLabels(map[string]string{"eks.amazonaws.com/nodegroup": "x"}), parameter,
			"Label cannot contain reserved prefixes [kubernetes.io/, k8s.io/, eks.amazonaws.com/]"},
		{"label of Kubernetes", badLabels(map[string]string{"node-role.kubernetes.io/worker": "x"}), parameter,
			"Label cannot contain reserved prefixes [kubernetes.io/, k8s.io/, eks.amazonaws.com/]"},
		{"empty label value", badLabels(map[string]string{"a": ""}), parameter, "…Invalid value: " + syntax},
		{"label value with a blank", badLabels(map[string]string{"a": "b c"}), parameter, "…Invalid value: b c" +
			syntax},
		{"label value of 64 characters", badLabels(map[string]string{"a": strings.Repeat("x", 64)}), parameter,
			"…Invalid value: xxx"},
		{"label key of two slashes", badLabels(map[string]string{"a/b/c": "d"}), parameter, "…Invalid value: a/b/c" +
			syntax},
		{"51 labels", badLabels(many(51)), parameter, "…limit of 50"},
		{"label added and removed", configGroup("ng",
			eks.UpdateNodegroupConfigInput{Labels: &types.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{
				"a": "b"}, RemoveLabels: []string{"a"}}}), parameter, "Label a can't be both added and removed"},

		// Taints.
		{"effect of Kubernetes", badTaints(taint("a", "b", "NoSchedule")), parameter,
			"…Value 'NoSchedule' at 'taints.1.member.effect' failed to satisfy constraint: Member must satisfy enum " +
				"value set: [NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE]"},
		{"no effect", badTaints(taint("a", "b", "")), parameter,
			"Invalid taint effect: , must be one of these [NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE]"},
		{"no key", badTaints(types.Taint{Effect: types.TaintEffectNoSchedule}), parameter, "Taint key can't be empty"},
		{"taint key with a colon", badTaints(taint("a:b", "c", types.TaintEffectNoSchedule)), parameter,
			"…Invalid value: a:b" + syntax},
		{"taint key of 64 characters", badTaints(taint(strings.Repeat("x", 64), "c", types.TaintEffectNoSchedule)),
			parameter, "…63"},
		{"taint value with a comma", badTaints(taint("a", "b,c", types.TaintEffectNoSchedule)), parameter,
			"…Invalid value: b,c" + syntax},
		{"taint twice", badTaints(taint("a", "b", types.TaintEffectNoSchedule),
			taint("a", "c", types.TaintEffectNoSchedule)), parameter,
			"Taint with key a and effect NO_SCHEDULE is specified more than once"},
		{"51 taints", badGroup(func(in *eks.CreateNodegroupInput) {
			for i := range 51 {
				in.Taints = append(in.Taints, taint(fmt.Sprint("k", i), "v", types.TaintEffectNoSchedule))
			}
		}), parameter, "…limit of 50"},
		{"taint added and removed", configGroup("ng", eks.UpdateNodegroupConfigInput{Taints: &types.UpdateTaintsPayload{
			AddOrUpdateTaints: []types.Taint{taint("a", "b", types.TaintEffectNoSchedule)},
			RemoveTaints:      []types.Taint{taint("a", "c", types.TaintEffectNoSchedule)}}}), parameter,
			"…both added and removed"},

		// Node auto repair.
		{"two thresholds", badRepair(types.NodeRepairConfig{Enabled: aws.Bool(true),
			MaxUnhealthyNodeThresholdCount: aws.Int32(1), MaxUnhealthyNodeThresholdPercentage: aws.Int32(1)}),
			parameter,
			"maxUnhealthyNodeThresholdCount and maxUnhealthyNodeThresholdPercentage can't be specified together: use " +
				"one of them"},
		{"two parallel repairs", badRepair(types.NodeRepairConfig{Enabled: aws.Bool(true),
			MaxParallelNodesRepairedCount: aws.Int32(1), MaxParallelNodesRepairedPercentage: aws.Int32(1)}), parameter,
			"…maxParallelNodesRepairedCount and maxParallelNodesRepairedPercentage"},
		{"no parallel repair", badRepair(types.NodeRepairConfig{Enabled: aws.Bool(true),
			MaxParallelNodesRepairedCount: aws.Int32(0)}), parameter, "…at least 1"},
		{"threshold of 200 percent", badRepair(types.NodeRepairConfig{Enabled: aws.Bool(true),
			MaxUnhealthyNodeThresholdPercentage: aws.Int32(200)}), parameter, "…between 1 and 100"},
		{"half an override", badRepair(types.NodeRepairConfig{Enabled: aws.Bool(true),
			NodeRepairConfigOverrides: []types.NodeRepairConfigOverrides{{RepairAction: types.RepairActionReboot}}}),
			parameter, "…must have all of"},
		{"override without a wait", badRepair(types.NodeRepairConfig{Enabled: aws.Bool(true),
			NodeRepairConfigOverrides: []types.NodeRepairConfigOverrides{override(0, types.RepairActionReboot)}}),
			parameter, "minRepairWaitTimeMins 0 is invalid: it must be at least 1"},
		{"unknown repair", badRepair(types.NodeRepairConfig{Enabled: aws.Bool(true),
			NodeRepairConfigOverrides: []types.NodeRepairConfigOverrides{override(5, "Pray")}}), parameter,
			"…enum value set: [Replace, Reboot, NoAction]"},
		{"override twice", badRepair(types.NodeRepairConfig{Enabled: aws.Bool(true),
			NodeRepairConfigOverrides: []types.NodeRepairConfigOverrides{override(5, "Reboot"),
				override(6, "Replace")}}), parameter, "…more than one member"},
		{"details of no repair", badRepair(types.NodeRepairConfig{MaxParallelNodesRepairedCount: aws.Int32(1)}),
			parameter, "…set enabled to true"},

		// Warm pools.
		{"warm spot instances", badPool(types.WarmPoolConfig{Enabled: aws.Bool(true)},
			func(in *eks.CreateNodegroupInput) { in.CapacityType = types.CapacityTypesSpot }), parameter,
			"A warm pool can't be enabled for a nodegroup with capacityType SPOT"},
		{"warm spot instances later", configGroup("spot",
			eks.UpdateNodegroupConfigInput{WarmPoolConfig: &types.WarmPoolConfig{Enabled: aws.Bool(true)}}), parameter,
			"…capacityType SPOT"},
		{"hibernated instances", badPool(types.WarmPoolConfig{Enabled: aws.Bool(true),
			PoolState: types.WarmPoolStateHibernated}), parameter, "…not implemented by Coracle"},
		{"unknown pool state", badPool(types.WarmPoolConfig{Enabled: aws.Bool(true), PoolState: "FROZEN"}), parameter,
			"…enum value set: [STOPPED, RUNNING, HIBERNATED]"},
		{"reused Bottlerocket", badPool(types.WarmPoolConfig{Enabled: aws.Bool(true), ReuseOnScaleIn: aws.Bool(true)},
			func(in *eks.CreateNodegroupInput) { in.AmiType = types.AMITypesBottlerocketX8664 }), parameter,
			"reuseOnScaleIn is not supported for amiType BOTTLEROCKET_x86_64"},
		{"pool smaller than nothing", badPool(types.WarmPoolConfig{Enabled: aws.Bool(true), MinSize: aws.Int32(-1)}),
			parameter, "…must not be negative, but is -1"},
		{"prepared capacity below the minimum",
			badPool(types.WarmPoolConfig{Enabled: aws.Bool(true), MaxGroupPreparedCapacity: aws.Int32(0)}), parameter,
			"maxGroupPreparedCapacity 0 can't be less than the minSize of the nodegroup, which is 1"},
		{"prepared capacity below the pool",
			badPool(types.WarmPoolConfig{Enabled: aws.Bool(true), MaxGroupPreparedCapacity: aws.Int32(2),
				MinSize: aws.Int32(3)}), parameter,
			"maxGroupPreparedCapacity 2 can't be less than the minSize of the warm pool, which is 3"},

		// Images and instance types.
		{"Arm instances on the default image", badTypes("", "t4g.medium"), parameter,
			"[t4g.medium] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD"},
		{"x86 instances on an Arm image", badTypes(types.AMITypesAl2023Arm64Standard, "m6g.large", "m5.large"), parameter,
			"[m5.large] is not a valid instance type for requested amiType AL2023_ARM_64_STANDARD"},
		{"no GPU for a GPU image", badTypes(types.AMITypesAl2023X8664Nvidia, "m5.large"), parameter,
			"[m5.large] is not a valid instance type for requested amiType AL2023_x86_64_NVIDIA"},
		{"the default type for a GPU image", badTypes(types.AMITypesBottlerocketX8664Nvidia), parameter,
			"[t3.medium] is not a valid instance type for requested amiType BOTTLEROCKET_x86_64_NVIDIA"},
		{"Amazon Linux 2", badTypes(types.AMITypesAl2X8664), parameter,
			"AMI Type AL2_x86_64 is only supported for kubernetes versions 1.32 or earlier"},
		{"Amazon Linux 2 for Arm", badTypes(types.AMITypesAl2Arm64, "m5.large"), parameter,
			"AMI Type AL2_ARM_64 is only supported for kubernetes versions 1.32 or earlier"},
		{"unknown instance types", badTypes("", "m5.large", "x9.huge", "y9.huge"), parameter,
			"The following supplied instance types do not exist: [x9.huge, y9.huge]"},
		{"instance type twice", badTypes("", "m5.large", "m5.large"), parameter,
			"Instance type m5.large is specified more than once"},
		{"21 instance types", badTypes("", strings.Split(strings.Repeat("m5.large,", 20)+"m5.large", ",")...),
			parameter, "…up to 20"},
		{"architectures mixed on a custom image", badGroup(lt(ec2types.RequestLaunchTemplateData{ImageId: &image}),
			func(in *eks.CreateNodegroupInput) { in.InstanceTypes = []string{"m5.large", "m6g.large"} }), parameter,
			"…m5.large is of x86_64, and m6g.large is of arm64"},
		{"Windows", badTypes(types.AMITypesWindowsCore2022X8664), parameter,
			"…amiType WINDOWS_CORE_2022_x86_64 is not implemented by Coracle"},
		{"Neuron", badTypes(types.AMITypesAl2023X8664Neuron), parameter,
			"…amiType AL2023_x86_64_NEURON is not implemented by Coracle"},
		{"FIPS", badTypes(types.AMITypesBottlerocketX8664Fips), parameter, "…without FIPS"},
		{"unknown image", badTypes("AL1_x86_64"), parameter, "…Value 'AL1_x86_64' at 'amiType' failed"},
		{"custom image without a template", badTypes(types.AMITypesCustom), parameter,
			"Launch template details can't be null for Custom ami type node group"},
		{"capacity block",
			badGroup(func(in *eks.CreateNodegroupInput) { in.CapacityType = types.CapacityTypesCapacityBlock }),
			parameter, "…not implemented by Coracle"},
		{"unknown capacity type", badGroup(func(in *eks.CreateNodegroupInput) { in.CapacityType = "FREE" }), parameter,
			"…Value 'FREE' at 'capacityType' failed"},
		{"disk of nothing", badGroup(func(in *eks.CreateNodegroupInput) { in.DiskSize = aws.Int32(0) }), parameter,
			"diskSize 0 is invalid: it must be between 1 and 16384 GiB"},

		// Versions.
		{"newer than the cluster", badGroup(func(in *eks.CreateNodegroupInput) { in.Version = aws.String("1.36") }),
			parameter, "…can't be newer than that of its cluster: 1.36 was requested, and the cluster has 1.35"},
		{"unknown version", badGroup(func(in *eks.CreateNodegroupInput) { in.Version = aws.String("1.20") }), parameter,
			"unsupported Kubernetes version"},
		{"unknown release", badGroup(func(in *eks.CreateNodegroupInput) {
			in.ReleaseVersion = aws.String(
				"1.35.0-20200101")
		}), parameter, "…Requested release version 1.35.0-20200101 is not valid for kubernetes version 1.35."},
		{"release of another version", badGroup(func(in *eks.CreateNodegroupInput) {
			in.ReleaseVersion = aws.String(
				w.release("1.34", "20261105"))
		}), parameter, "…is not valid for kubernetes version 1.35."},
		{"upgrade beyond the cluster", versionGroup("ng", eks.UpdateNodegroupVersionInput{Version: aws.String("1.36")}),
			parameter, "…can't be newer than that of its cluster"},
		{"downgrade", versionGroup("ng", eks.UpdateNodegroupVersionInput{Version: aws.String("1.34")}), parameter,
			"Nodegroup ng can't be rolled back to an earlier Kubernetes version: 1.34 was requested, and it has 1.35"},
		{"older release", versionGroup("ng",
			eks.UpdateNodegroupVersionInput{ReleaseVersion: aws.String(w.release("1.35", "20261022"))}), parameter,
			"…can't be rolled back to an earlier release version"},
		{"upgrade to an unknown release",
			versionGroup("ng", eks.UpdateNodegroupVersionInput{Version: aws.String("1.35"),
				ReleaseVersion: aws.String("x")}), parameter,
			"…Requested release version x is not valid for kubernetes version 1.35."},

		// Launch templates.
		{"template without a name", badGroup(func(in *eks.CreateNodegroupInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{Version: aws.String("1")}
		}), parameter, "Either provide launch template ID or launch template name in the request."},
		{"template by ID and name", badGroup(func(in *eks.CreateNodegroupInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{Id: &foreign, Name: aws.String("foreign")}
		}), parameter, "Either provide launch template ID or launch template name in the request."},
		{"no such template", badGroup(using("lt-0123456789abcdef0", "")), parameter,
			"…The specified launch template, with template ID lt-0123456789abcdef0, does not exist. (Service: Ec2"},
		{"no template of that name", badGroup(func(in *eks.CreateNodegroupInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{Name: aws.String("nobody")}
		}), parameter, "…with template name nobody, does not exist."},
		{"no such version of the template", badGroup(using(foreign, "7")), parameter,
			"…Could not find the specified version 7 for the launch template with ID " + foreign},
		{"strange version of the template", badGroup(using(foreign, "newest")), parameter,
			"…Invalid launch template version: newest."},
		{"disk size beside a template", badGroup(plain,
			func(in *eks.CreateNodegroupInput) { in.DiskSize = aws.Int32(30) }), parameter,
			"Disk size must be specified within the launch template."},
		{"remote access beside a template", badGroup(plain, func(in *eks.CreateNodegroupInput) {
			in.RemoteAccess = &types.RemoteAccessConfig{Ec2SshKey: aws.String("ops")}
		}), parameter, "Remote access configuration cannot be specified with a launch template."},
		{"instance types twice", badGroup(typed,
			func(in *eks.CreateNodegroupInput) { in.InstanceTypes = []string{"m5.large"} }), invalid,
			"Cannot specify instance types in launch template and API request"},
		{"instance type of the template does not fit",
			badGroup(lt(ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeM6gLarge})), parameter,
			"[m6g.large] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD"},
		{"instance profile in the template",
			badGroup(lt(ec2types.RequestLaunchTemplateData{
				IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{
					Name: aws.String("p")}})), parameter,
			"…IAM instance profile is not supported with the launch template."},
		{"subnet in the template", badGroup(
			lt(ec2types.RequestLaunchTemplateData{
				NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
					{DeviceIndex: aws.Int32(0), SubnetId: &creating.Subnets[0]}}})), parameter,
			"…Subnets are not supported in network interfaces of the launch template."},
		{"spot in the template", badGroup(
			lt(ec2types.RequestLaunchTemplateData{
				InstanceMarketOptions: &ec2types.LaunchTemplateInstanceMarketOptionsRequest{
					MarketType: ec2types.MarketTypeSpot}})), parameter,
			"Instance market options are not supported with the launch template."},
		{"shutdown behavior in the template",
			badGroup(lt(ec2types.RequestLaunchTemplateData{
				InstanceInitiatedShutdownBehavior: ec2types.ShutdownBehaviorTerminate})), parameter,
			"Instance initiated shutdown behavior is not supported with the launch template."},
		{"hibernation in the template", badGroup(
			lt(ec2types.RequestLaunchTemplateData{HibernationOptions: &ec2types.LaunchTemplateHibernationOptionsRequest{
				Configured: aws.Bool(true)}})), parameter,
			"Hibernation options are not supported with the launch template."},
		{"instance requirements in the template",
			badGroup(lt(ec2types.RequestLaunchTemplateData{InstanceRequirements: &ec2types.InstanceRequirementsRequest{
				MemoryMiB: &ec2types.MemoryMiBRequest{Min: aws.Int32(1)},
				VCpuCount: &ec2types.VCpuCountRangeRequest{Min: aws.Int32(1)}}})), parameter,
			"…Instance requirements are not supported with the launch template."},
		{"user data that is no MIME", badGroup(
			lt(ec2types.RequestLaunchTemplateData{UserData: encoded("#!/bin/sh\necho\n")})), parameter,
			"User data was not in the MIME multipart format."},
		{"user data of another MIME type",
			badGroup(lt(ec2types.RequestLaunchTemplateData{UserData: encoded("Content-Type: text/plain\n\nx\n")})),
			parameter, "User data was not in the MIME multipart format."},
		{"security group in the template that does not exist",
			badGroup(lt(ec2types.RequestLaunchTemplateData{SecurityGroupIds: []string{"sg-0123456789abcdef0"}})),
			parameter, "…sg-0123456789abcdef0"},
		{"AMI type beside an image", badGroup(own,
			func(in *eks.CreateNodegroupInput) { in.AmiType = types.AMITypesAl2023X8664Standard }), parameter,
			"You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch template."},
		{"version beside an image", badGroup(own,
			func(in *eks.CreateNodegroupInput) { in.Version = aws.String("1.35") }), parameter,
			"You cannot specify a kubernetes version to use when specifying an image id to use within the launch " +
				"template."},
		{"release version beside an image",
			badGroup(own, func(in *eks.CreateNodegroupInput) { in.ReleaseVersion = aws.String("1.35.0-20261105") }),
			parameter,
			"You cannot specify a release version to use when specifying an image id to use within the launch template."},
		{"custom without an image", badGroup(plain,
			func(in *eks.CreateNodegroupInput) { in.AmiType = types.AMITypesCustom }), parameter,
			"You must specify an image id within the launch template when the AMI Type is CUSTOM."},
		{"a template for a group without", versionGroup("ng", spec(foreign, "1")), parameter,
			"…created without a launch template"},
		{"another template", versionGroup("templated", spec(foreign, "1")), parameter,
			"…You cannot specify a different launch template"},
		{"an image for a group of EKS's images", versionGroup("templated", spec(templated, "2")), parameter,
			"You cannot specify an image id within the launch template, since your nodegroup is configured to use an " +
				"EKS optimized AMI."},
		{"an instance type for a group that has some", versionGroup("templated", spec(templated, "3")), invalid,
			"Cannot specify instance types in launch template and API request"},
		{"no instance type for a group without", versionGroup("typed", spec(typedID, "2")), parameter,
			"…You must specify an instance type within the launch template"},
		{"an instance type of another architecture", versionGroup("typed", spec(typedID, "3")), parameter,
			"[m6g.large] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD"},
		{"no image for a group of its own", versionGroup("custom", spec(customID, "2")), parameter,
			"You must specify an image id within the launch template, since your nodegroup is configured to use a " +
				"custom AMI."},
		{"a version for a custom image",
			versionGroup("custom", eks.UpdateNodegroupVersionInput{LaunchTemplate: spec(customID, "1").LaunchTemplate,
				Version: aws.String("1.35")}), parameter,
			"You cannot specify a kubernetes version to use when specifying an image id to use within the launch " +
				"template."},
		{"a custom image without its template", versionGroup("custom", eks.UpdateNodegroupVersionInput{}), parameter,
			"Launch template details can't be null for Custom ami type node group"},

		// Roles, subnets, remote access.
		{"role is no ARN", roles("node"), parameter, "nodeRole node is not the ARN of an IAM role"},
		{"role is a user", roles(iam + "user/alice"), parameter, "…is not the ARN of an IAM role"},
		{"role does not exist", roles(iam + "role/nobody"), parameter,
			"…The role with name nobody cannot be found. (Service: Iam, Status Code: 404, Request ID: "},
		{"role trusts EKS alone", roles(ekstest.RoleARN), parameter,
			"Following required service principals [ec2.amazonaws.com] were not found in the trust relationships of " +
				"nodeRole " + ekstest.RoleARN},
		{"role of another account", roles("arn:aws:iam::444455556666:role/r"), denied,
			"Cross-account pass role is not allowed."},
		{"role is service-linked", roles(iam + "role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS"),
			parameter, "…service-linked role"},
		{"no subnet", subnets([]string{}...), parameter, "…subnet"},
		{"a subnet that does not exist", subnets("subnet-x"), parameter,
			"…The subnet ID 'subnet-x' does not exist (Service: Ec2, Status Code: 400, Request ID: "},
		{"a subnet of another VPC", subnets(creating.Subnets[0], "subnet-2a"), parameter,
			"…Subnet(s) [subnet-2a] are not in the VPC of the cluster, vpc-"},
		{"a subnet twice", subnets(creating.Subnets[0], creating.Subnets[0]), parameter, "…more than once"},
		{"no such key", badGroup(here, func(in *eks.CreateNodegroupInput) {
			in.RemoteAccess = &types.RemoteAccessConfig{Ec2SshKey: aws.String("ops.pem")}
		}), parameter, "KeyPair ops.pem not found"},
		{"sources without a key", badGroup(here, func(in *eks.CreateNodegroupInput) {
			in.RemoteAccess = &types.RemoteAccessConfig{SourceSecurityGroups: []string{"sg-1"}}
		}), parameter, "…ec2SshKey can't be empty"},
		{"no such source", badGroup(here, func(in *eks.CreateNodegroupInput) {
			in.RemoteAccess = &types.RemoteAccessConfig{Ec2SshKey: aws.String("ops"),
				SourceSecurityGroups: []string{"sg-x"}}
		}), parameter, "…The security group 'sg-x' does not exist (Service: Ec2"},
		{"a source of another VPC", badGroup(here, func(in *eks.CreateNodegroupInput) {
			in.RemoteAccess = &types.RemoteAccessConfig{Ec2SshKey: aws.String("ops"),
				SourceSecurityGroups: []string{"sg-other"}}
		}), parameter, "…Security group sg-other is not in the VPC of the cluster"},

		// The wrong moment, the wrong group.
		{"an empty update", configGroup("ng", eks.UpdateNodegroupConfigInput{}), parameter,
			"…Nothing to update was provided"},
		{"an update of nothing", configGroup("ng",
			eks.UpdateNodegroupConfigInput{ScalingConfig: &types.NodegroupScalingConfig{},
				Labels: &types.UpdateLabelsPayload{}}), parameter, "…Nothing to update was provided"},
		{"update of no group", configGroup("nobody", eks.UpdateNodegroupConfigInput{}), missing,
			"No node group found for name: nobody."},
		{"update during an update", configGroup("updating",
			eks.UpdateNodegroupConfigInput{Labels: &types.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{
				"a": "b"}}}), used, "Cannot ConfigUpdate because nodegroup updating currently has update " + updating +
			" in progress"},
		{"upgrade during an update", versionGroup("updating", eks.UpdateNodegroupVersionInput{}), used,
			"Cannot VersionUpdate because nodegroup updating currently has update " + updating + " in progress"},
		{"upgrade during creation", versionGroup("creating", eks.UpdateNodegroupVersionInput{}), used,
			"Cannot VersionUpdate because nodegroup creating is in status CREATING: it must be ACTIVE or DEGRADED"},
		{"update on the way out", configGroup("leaving",
			eks.UpdateNodegroupConfigInput{ScalingConfig: &types.NodegroupScalingConfig{DesiredSize: aws.Int32(1)}}),
			used, "…is in status DELETING"},
		{"delete during an update", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: aws.String("c"),
				NodegroupName: aws.String("updating")})
			return err
		}, used, "Cannot delete because nodegroup updating currently has update " + updating + " in progress"},
		{"delete no group", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: aws.String("c"),
				NodegroupName: aws.String("nobody")})
			return err
		}, missing, "No node group found for name: nobody."},
		{"describe a group of another cluster", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String("elsewhere"),
				NodegroupName: aws.String("ng")})
			return err
		}, missing, "No node group found for name: ng."},
		{"list the groups of no cluster", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: aws.String("nobody")})
			return err
		}, missing, "No cluster found for name: nobody."},
		{"list the updates of no group", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListUpdates(ctx, &eks.ListUpdatesInput{Name: aws.String("c"),
				NodegroupName: aws.String("nobody")})
			return err
		}, missing, "No node group found for name: nobody."},
	} {
		w.Refuses(r.name, r.do, r.code, r.message)
	}
}
