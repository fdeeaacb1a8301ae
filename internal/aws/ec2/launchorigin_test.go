package ec2_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

// TestWhatOverridesALaunchTemplateIsNotItsOwn overrides each member of a launch template in turn: policies that demand
// ec2:IsLaunchTemplateResource must not take what a request says for what the template says.
func TestWhatOverridesALaunchTemplateIsNotItsOwn(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	d := startDisks(w)
	s, zero, one := aws.String, aws.Int32(0), aws.Int32(1)
	vpc := w.VPC("10.0.0.0/16")
	subnet, otherSubnet := w.Subnet(vpc, "10.0.0.0/24", "a"), w.Subnet(vpc, "10.0.1.0/24", "a")
	group, otherGroup := w.SecurityGroup(vpc, "theirs"), w.SecurityGroup(vpc, "other")
	eni, otherENI := *w.NetworkInterface(subnet).NetworkInterfaceId, *w.NetworkInterface(subnet).NetworkInterfaceId
	volume := d.volume(ec2.CreateVolumeInput{})
	snapshot, otherSnapshot := d.snapshot(volume), d.snapshot(volume)
	for _, name := range []string{"theirs", "other"} {
		awstest.Must[any](t)(w.CreateKeyPair(w.Context(), &ec2.CreateKeyPairInput{KeyName: s(name)}))
		awstest.Must[any](t)(w.CreatePlacementGroup(w.Context(), &ec2.CreatePlacementGroupInput{GroupName: s(name),
			Strategy: types.PlacementStrategyCluster}))
	}
	x86 := image(t, "x86_64")
	images := ami.All(ec2test.Region)
	otherImage := images[slices.IndexFunc(images, func(i ami.Image) bool {
		return i.ID != x86 && i.Family == ami.AL2023 && i.Architecture == "x86_64"
	})].ID
	vpcs := awstest.Must[*ec2.DescribeVpcsOutput](t)(w.DescribeVpcs(w.Context(), &ec2.DescribeVpcsInput{
		Filters: []types.Filter{{Name: s("is-default"), Values: []string{"true"}}}}))
	byID, named := w.SecurityGroup(*vpcs.Vpcs[0].VpcId, "by ID"), w.SecurityGroup(*vpcs.Vpcs[0].VpcId, "named")
	subnets := awstest.Must[*ec2.DescribeSubnetsOutput](t)(w.DescribeSubnets(w.Context(), &ec2.DescribeSubnetsInput{
		Filters: []types.Filter{{Name: s("vpc-id"), Values: []string{*vpcs.Vpcs[0].VpcId}}}}))
	inDefault := *subnets.Subnets[0].SubnetId

	ebs := func(id string) *types.EbsBlockDevice { return &types.EbsBlockDevice{SnapshotId: &id} }
	createLaunchTemplate(w, "full", types.RequestLaunchTemplateData{
		ImageId: &x86, InstanceType: "m5.large", KeyName: s("theirs"),
		Placement: &types.LaunchTemplatePlacementRequest{GroupName: s("theirs")},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: zero, SubnetId: &subnet, Groups: []string{group}}, {DeviceIndex: one, NetworkInterfaceId: &eni}},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: s("/dev/sdf"),
			Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{SnapshotId: &snapshot}}},
	})
	createLaunchTemplate(w, "groups", types.RequestLaunchTemplateData{ImageId: &x86, InstanceType: "m5.large",
		SecurityGroupIds: []string{byID}})
	createLaunchTemplate(w, "names", types.RequestLaunchTemplateData{ImageId: &x86, InstanceType: "m5.large",
		SecurityGroups: []string{"named"}})
	for _, test := range []struct {
		name     string
		template string // "full" when empty
		service  bool
		request  ec2.RunInstancesInput
		want     map[string]bool // by the end of the ARN, or by its type where there is one
	}{
		{name: "nothing", want: map[string]bool{"image/" + x86: true, "key-pair/": true, "placement-group/": true,
			"subnet/" + subnet: true, "security-group/" + group: true, "network-interface/" + eni: true,
			"snapshot/" + snapshot: true, "instance/*": true, "volume/*": true, "network-interface/*": true,
			"launch-template/": true}},
		{name: "the image", request: ec2.RunInstancesInput{ImageId: &otherImage},
			want: map[string]bool{"image/" + otherImage: false, "snapshot/" + snapshot: true, "instance/*": true,
				"launch-template/": true}},
		{name: "the image, by the same", request: ec2.RunInstancesInput{ImageId: &x86},
			want: map[string]bool{"image/" + x86: false}},
		{name: "the key", request: ec2.RunInstancesInput{KeyName: s("other")},
			want: map[string]bool{"key-pair/": false, "image/": true}},
		{name: "the placement group", request: ec2.RunInstancesInput{Placement: &types.Placement{GroupName: s("other")}},
			want: map[string]bool{"placement-group/": false}},
		{name: "the zone of the placement", request: ec2.RunInstancesInput{Placement: &types.Placement{
			AvailabilityZone: s(ec2test.Region + "a")}}, want: map[string]bool{"placement-group/": true, "instance/*": false}},
		{name: "the subnet", request: ec2.RunInstancesInput{
			NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{
				{DeviceIndex: zero, SubnetId: &otherSubnet}}}, want: map[string]bool{"subnet/" + otherSubnet: false,
			"security-group/" + group: true, "network-interface/" + eni: true, "network-interface/*": false,
			"instance/*": true, "volume/*": true}},
		{name: "the subnet, by one beside the interfaces", service: true,
			request: ec2.RunInstancesInput{SubnetId: &otherSubnet}, want: map[string]bool{"subnet/" + otherSubnet: false,
				"security-group/" + group: true, "network-interface/*": false}},
		{name: "the groups", request: ec2.RunInstancesInput{NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{
			{DeviceIndex: zero, Groups: []string{otherGroup}}}}, want: map[string]bool{"subnet/" + subnet: true,
			"security-group/" + otherGroup: false}},
		{name: "an interface", request: ec2.RunInstancesInput{
			NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{
				{DeviceIndex: one, NetworkInterfaceId: &otherENI}}}, want: map[string]bool{"subnet/" + subnet: true,
			"network-interface/" + otherENI: false}},
		{name: "a snapshot", request: ec2.RunInstancesInput{BlockDeviceMappings: []types.BlockDeviceMapping{
			{DeviceName: s("/dev/sdf"), Ebs: ebs(otherSnapshot)}}}, want: map[string]bool{"snapshot/" + otherSnapshot: false}},
		{name: "no snapshot, but one more", request: ec2.RunInstancesInput{BlockDeviceMappings: []types.BlockDeviceMapping{
			{DeviceName: s("/dev/sdg"), Ebs: ebs(otherSnapshot)}}}, want: map[string]bool{"snapshot/" + otherSnapshot: false,
			"snapshot/" + snapshot: true}},
		{name: "the size of a volume", request: ec2.RunInstancesInput{BlockDeviceMappings: []types.BlockDeviceMapping{
			{DeviceName: s("/dev/sdf"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(20)}}}},
			want: map[string]bool{"snapshot/" + snapshot: true, "instance/*": true}},
		{name: "nothing, with groups alone", template: "groups", want: map[string]bool{"security-group/" + byID: true,
			"subnet/": false, "network-interface/*": true, "volume/*": true, "instance/*": true}},
		{name: "the address", template: "groups", request: ec2.RunInstancesInput{EnablePrimaryIpv6: aws.Bool(false)},
			want: map[string]bool{"network-interface/*": false, "instance/*": true}},
		{name: "the device of a volume that is not made", template: "groups", request: ec2.RunInstancesInput{
			BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: s("/dev/sdb"), VirtualName: s("ephemeral0")}}},
			want: map[string]bool{"volume/*": true, "instance/*": false}},
		{name: "the size of the root volume", template: "groups", request: ec2.RunInstancesInput{
			BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: s("/dev/xvda"),
				Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(30)}}}},
			want: map[string]bool{"volume/*": false, "instance/*": true}},
		{name: "the type", template: "groups", request: ec2.RunInstancesInput{InstanceType: "m5.large"},
			want: map[string]bool{"instance/*": false, "volume/*": true, "network-interface/*": true}},
		{name: "the user data", template: "groups", request: ec2.RunInstancesInput{UserData: s("eA==")},
			want: map[string]bool{"instance/*": false}},
		{name: "the metadata options", template: "groups", request: ec2.RunInstancesInput{
			MetadataOptions: &types.InstanceMetadataOptionsRequest{HttpTokens: "optional"}},
			want: map[string]bool{"instance/*": false}},
		{name: "the market", template: "groups", request: ec2.RunInstancesInput{
			InstanceMarketOptions: &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot}},
			want: map[string]bool{"spot-instances-request/*": false, "instance/*": true}},
		{name: "the tags", template: "groups", request: ec2.RunInstancesInput{TagSpecifications: []types.TagSpecification{
			{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: s("a"), Value: s("b")}}}}},
			want: map[string]bool{"instance/*": true}},
		{name: "groups by ID", template: "groups", request: ec2.RunInstancesInput{SecurityGroupIds: []string{named}},
			want: map[string]bool{"security-group/" + named: false, "network-interface/*": false}},
		{name: "groups by more of them", template: "groups",
			request: ec2.RunInstancesInput{SecurityGroups: []string{"named"}},
			want:    map[string]bool{"security-group/" + named: false, "security-group/" + byID: true}},
		{name: "the subnet that is not in the template", template: "groups", request: ec2.RunInstancesInput{
			SubnetId: &inDefault}, want: map[string]bool{"subnet/" + inDefault: false, "security-group/" + byID: true}},
		{name: "nothing, with names of groups", template: "names", want: map[string]bool{"security-group/" + named: true}},
		{name: "names of groups", template: "names", request: ec2.RunInstancesInput{SecurityGroups: []string{"by ID"}},
			want: map[string]bool{"security-group/" + byID: false}},
	} {
		caller := awstest.Root()
		if test.service {
			caller.PrincipalARN = "arn:aws:iam::" + ec2test.Account +
				":role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
		}
		w.As(caller)
		w.Mu.Lock()
		w.Asked = nil
		w.Mu.Unlock()
		if test.template == "" {
			test.template = "full"
		}
		in := test.request
		in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateName: &test.template}
		in.MinCount, in.MaxCount, in.DryRun = one, one, aws.Bool(true)
		_, err := w.RunInstances(w.Context(), &in)
		if code := awstest.Code(err); code != "DryRunOperation" {
			t.Errorf("override %s: %v", test.name, err)
			continue
		}
		for what, want := range test.want {
			seen := false
			for _, target := range w.Targets("ec2:RunInstances") {
				if !strings.HasSuffix(target.Resource, what) && (!strings.HasSuffix(what, "/") ||
					!strings.Contains(target.Resource, ":"+what)) {
					continue
				}
				seen = true
				if got := target.Conditions["ec2:IsLaunchTemplateResource"]; len(got) != 1 || (got[0] == "true") != want {
					t.Errorf("override %s: of %s it is %v, want %t", test.name, target.Resource, got, want)
				}
			}
			if !seen {
				t.Errorf("override %s: nobody is asked about %s", test.name, what)
			}
		}
	}
}
