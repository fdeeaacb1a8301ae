package ec2_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func TestLaunchFromATemplate(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx, s := w.Context(), aws.String
	vpc := w.VPC("10.0.0.0/16")
	subnet, group, other := w.Subnet(vpc, "10.0.0.0/24", "a"), w.SecurityGroup(vpc, "nodes"), w.SecurityGroup(vpc, "more")
	createInstanceProfile(w, "nodes", "node-role")
	userData := base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\n/etc/eks/bootstrap.sh ironman\n"))
	data := types.RequestLaunchTemplateData{
		ImageId: s(
			"resolve:ssm:/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id"),
		InstanceType: "m5.large", UserData: &userData,
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: s("nodes")},
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: "required",
			HttpPutResponseHopLimit: aws.Int32(2), InstanceMetadataTags: "enabled"},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: s("/dev/xvda"),
			Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{
				VolumeSize: aws.Int32(80), VolumeType: "gp3", Iops: aws.Int32(4000), Throughput: aws.Int32(250),
				DeleteOnTermination: aws.Bool(true), Encrypted: aws.Bool(true),
			}}},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: aws.Int32(0), SubnetId: &subnet, Groups: []string{group, other},
				AssociatePublicIpAddress: aws.Bool(false)}},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{
			{ResourceType: types.ResourceTypeInstance,
				Tags: []types.Tag{{Key: s("Name"), Value: s("from the template")}, {Key: s("team"), Value: s("a")}}},
			{ResourceType: types.ResourceTypeVolume, Tags: []types.Tag{{Key: s("disk"), Value: s("root")}}},
		},
		InstanceMarketOptions: &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: "spot",
			SpotOptions: &types.LaunchTemplateSpotMarketOptionsRequest{MaxPrice: s("1"), SpotInstanceType: "one-time"}},
		Monitoring:            &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(true)},
		DisableApiTermination: aws.Bool(true), EbsOptimized: aws.Bool(true),
		PrivateDnsNameOptions: &types.LaunchTemplatePrivateDnsNameOptionsRequest{HostnameType: "resource-name",
			EnableResourceNameDnsARecord: aws.Bool(true)},
	}
	created := awstest.Must[*ec2.CreateLaunchTemplateOutput](t)(w.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: s("eksctl-ironman-nodegroup-ng"), LaunchTemplateData: &data, VersionDescription: s("first"),
		ClientToken: s("once"),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate,
			Tags: []types.Tag{{Key: s("owner"), Value: s("eksctl")}}}},
	})).LaunchTemplate
	ec2test.WantID(t, created.LaunchTemplateId, "lt-")
	if *created.DefaultVersionNumber != 1 || *created.LatestVersionNumber != 1 || len(created.Tags) != 1 {
		t.Errorf("created %+v", created)
	}

	// Everything that was given is shown, in the form of the answer.
	version := awstest.Must[*ec2.DescribeLaunchTemplateVersionsOutput](t)(w.DescribeLaunchTemplateVersions(ctx,
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: s("eksctl-ironman-nodegroup-ng"),
			Versions: []string{"$Default"}})).LaunchTemplateVersions[0]
	shown := version.LaunchTemplateData
	if !*version.DefaultVersion || *version.VersionDescription != "first" || *shown.ImageId != *data.ImageId ||
		*shown.UserData != userData || *shown.IamInstanceProfile.Name != "nodes" ||
		*shown.BlockDeviceMappings[0].Ebs.Throughput != 250 || !slices.Equal(shown.NetworkInterfaces[0].Groups,
		[]string{group, other}) || *shown.NetworkInterfaces[0].AssociatePublicIpAddress ||
		*shown.TagSpecifications[1].Tags[0].Value != "root" ||
		*shown.InstanceMarketOptions.SpotOptions.MaxPrice != "1" ||
		shown.MetadataOptions.InstanceMetadataTags != "enabled" ||
		shown.PrivateDnsNameOptions.HostnameType != "resource-name" || !*shown.Monitoring.Enabled {
		t.Errorf("shown as %+v", shown)
	}
	resolved := awstest.Must[*ec2.DescribeLaunchTemplateVersionsOutput](t)(w.DescribeLaunchTemplateVersions(ctx,
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: created.LaunchTemplateId,
			ResolveAlias: aws.Bool(true)})).LaunchTemplateVersions[0]
	if _, ok := ami.Get(ec2test.Region, *resolved.LaunchTemplateData.ImageId); !ok {
		t.Errorf("resolved to %s", *resolved.LaunchTemplateData.ImageId)
	}

	// A launch takes what the template has and what the request has instead.
	v := runInstance(w, ec2.RunInstancesInput{
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: created.LaunchTemplateId},
		InstanceType:   "m5.xlarge",
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
			Tags: []types.Tag{{Key: s("Name"), Value: s("from the request")}}}},
	})
	tags := map[string]string{}
	for _, tag := range v.Tags {
		tags[*tag.Key] = *tag.Value
	}
	if v.InstanceType != "m5.xlarge" || *v.SubnetId != subnet || len(v.SecurityGroups) != 2 ||
		v.PublicIpAddress != nil || v.MetadataOptions.InstanceMetadataTags != "enabled" ||
		v.InstanceLifecycle != "spot" ||
		v.Monitoring.State != "enabled" || *v.PrivateDnsName != *v.InstanceId+".eu-west-1.compute.internal" ||
		*v.IamInstanceProfile.Arn != "arn:aws:iam::"+ec2test.Account+":instance-profile/nodes" || !*v.EbsOptimized {
		t.Errorf("launched %+v", v)
	}
	if tags["Name"] != "from the request" || tags["team"] != "a" ||
		tags["aws:ec2launchtemplate:id"] != *created.LaunchTemplateId || tags["aws:ec2launchtemplate:version"] != "1" {
		t.Errorf("tags %v", tags)
	}
	volume := awstest.Must[*ec2.DescribeVolumesOutput](t)(w.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{})).Volumes[0]
	if *volume.Size != 80 || *volume.Iops != 4000 || *volume.Throughput != 250 || !*volume.Encrypted ||
		len(volume.Tags) != 1 {
		t.Errorf("volume %+v", volume)
	}
	instanceKey := record.EC2Key(ec2test.Account, ec2test.Region, *v.InstanceId)
	if row, _ := record.Instances(w.Store).Get(ctx, instanceKey); !strings.Contains(
		string(row.Value.UserData), "bootstrap.sh ironman") ||
		row.Value.LaunchTemplateVersion != "1" {
		t.Errorf("row %+v", row.Value)
	}
	pass := w.Targets("iam:PassRole")
	if len(pass) != 1 || pass[0].Resource != "arn:aws:iam::"+ec2test.Account+":role/node-role" ||
		pass[0].Conditions["iam:PassedToService"][0] != "ec2.amazonaws.com" {
		t.Errorf("asked to pass %+v", pass)
	}

	// Versions.
	second := awstest.Must[*ec2.CreateLaunchTemplateVersionOutput](t)(w.CreateLaunchTemplateVersion(ctx,
		&ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateId: created.LaunchTemplateId, SourceVersion: s("1"),
			LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: "c5.large"}, ClientToken: s("second"),
		})).LaunchTemplateVersion
	again := awstest.Must[*ec2.CreateLaunchTemplateVersionOutput](t)(w.CreateLaunchTemplateVersion(ctx,
		&ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateId: created.LaunchTemplateId, SourceVersion: s("1"),
			LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: "c5.large"}, ClientToken: s("second"),
		})).LaunchTemplateVersion
	if *second.VersionNumber != 2 || *again.VersionNumber != 2 ||
		second.LaunchTemplateData.InstanceType != "c5.large" || *second.LaunchTemplateData.UserData != userData ||
		*second.DefaultVersion {
		t.Errorf("second version %+v, again %d", second.LaunchTemplateData, *again.VersionNumber)
	}
	awstest.Must[any](t)(w.CreateLaunchTemplateVersion(ctx,
		&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: created.LaunchTemplateId,
			LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: "r5.large"}}))
	awstest.Must[any](t)(w.ModifyLaunchTemplate(ctx,
		&ec2.ModifyLaunchTemplateInput{LaunchTemplateName: s("eksctl-ironman-nodegroup-ng"), DefaultVersion: s("2")}))
	deleted := awstest.Must[*ec2.DeleteLaunchTemplateVersionsOutput](t)(w.DeleteLaunchTemplateVersions(ctx,
		&ec2.DeleteLaunchTemplateVersionsInput{LaunchTemplateId: created.LaunchTemplateId,
			Versions: []string{"1", "2", "9"}}))
	failed := deleted.UnsuccessfullyDeletedLaunchTemplateVersions
	if len(deleted.SuccessfullyDeletedLaunchTemplateVersions) != 1 || len(failed) != 2 ||
		failed[1].ResponseError.Code != types.LaunchTemplateErrorCodeLaunchTemplateVersionDoesNotExist {
		t.Errorf("deleted %+v", deleted)
	}
	all := awstest.Must[*ec2.DescribeLaunchTemplateVersionsOutput](t)(w.DescribeLaunchTemplateVersions(ctx,
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: created.LaunchTemplateId})).LaunchTemplateVersions
	if len(all) != 2 || *all[0].VersionNumber != 3 || *all[1].VersionNumber != 2 || !*all[1].DefaultVersion {
		t.Errorf("versions %+v", all)
	}
	latest := awstest.Must[*ec2.DescribeLaunchTemplateVersionsOutput](t)(w.DescribeLaunchTemplateVersions(ctx,
		&ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"$Latest"},
			Filters: []types.Filter{ec2test.Filter("instance-type", "r5.*")}})).LaunchTemplateVersions
	if len(latest) != 1 || *latest[0].VersionNumber != 3 {
		t.Errorf("latest %+v", latest)
	}
	awstest.Must[any](t)(w.DeleteLaunchTemplate(ctx,
		&ec2.DeleteLaunchTemplateInput{LaunchTemplateId: created.LaunchTemplateId}))
	if rows, _ := record.LaunchTemplateVersions(w.Store).List(ctx, ""); len(rows) != 0 {
		t.Errorf("%d versions are left", len(rows))
	}
	if left := awstest.Must[*ec2.DescribeLaunchTemplatesOutput](t)(w.DescribeLaunchTemplates(ctx,
		&ec2.DescribeLaunchTemplatesInput{})).LaunchTemplates; len(left) != 0 {
		t.Errorf("templates %+v", left)
	}
	createLaunchTemplate(w, "eksctl-ironman-nodegroup-ng", data) // the name is free
}

// A launch template that changes between the authorization of a launch and the launch gives nothing that the caller
// may not do.
func TestLaunchIsAuthorizedAsItIsCarriedOut(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	w.VPC("10.0.0.0/16")
	id := createLaunchTemplate(w, "nodes", types.RequestLaunchTemplateData{ImageId: aws.String(image(t, "x86_64")),
		InstanceType: "m5.large"})
	awstest.Must[any](t)(w.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: &id,
		SourceVersion: aws.String("1"), LaunchTemplateData: &types.RequestLaunchTemplateData{
			TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeInstance,
				Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("admins")}}}},
		}}))
	templates := record.LaunchTemplates(w.Store)
	row := awstest.Must[store.Row[record.LaunchTemplate]](
		t,
	)(
		templates.Get(ctx, record.EC2Key(ec2test.Account, ec2test.Region, id)),
	)
	var once sync.Once
	w.Deny = func(_ wire.Caller, asked wire.Target) bool {
		once.Do(func() {
			row.Value.DefaultVersion = 2
			if _, err := templates.Update(ctx, row); err != nil {
				t.Error(err)
			}
		})
		return asked.Action == "ec2:CreateTags"
	}
	_, err := w.RunInstances(ctx, &ec2.RunInstancesInput{LaunchTemplate: &types.LaunchTemplateSpecification{
		LaunchTemplateId: &id}, MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})
	awstest.WantCode(t, err, "UnauthorizedOperation")
	if launched, err := record.Instances(w.Store).List(ctx, ""); err != nil || len(launched) != 0 {
		t.Errorf("launched %+v, %v", launched, err)
	}
}

// A caller who is an AWS service, as Auto Scaling is, may give a subnet beside the interfaces of a template.
func TestServicePlacesTheTemplatesInterface(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc := w.VPC("10.0.0.0/16")
	subnet, group := w.Subnet(vpc, "10.0.0.0/24", "b"), w.SecurityGroup(vpc, "nodes")
	template := createLaunchTemplate(w, "nodes", types.RequestLaunchTemplateData{ImageId: aws.String(image(t, "x86_64")),
		InstanceType: "m5.large", NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: aws.Int32(0), Groups: []string{group}},
		}})
	w.As(wire.Caller{
		Account: ec2test.Account, UserID: "AROASCALING:AutoScaling", ARN: "arn:aws:sts::" + ec2test.Account +
			":assumed-role/AWSServiceRoleForAutoScaling/AutoScaling",
		PrincipalARN: "arn:aws:iam::" + ec2test.Account +
			":role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
	})
	out := awstest.Must[*ec2.RunInstancesOutput](t)(w.RunInstances(w.Context(), &ec2.RunInstancesInput{
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &template,
			Version: aws.String("$Default")}, SubnetId: &subnet, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
			Tags: []types.Tag{{Key: aws.String("aws:autoscaling:groupName"), Value: aws.String("ng")}}}},
	}))
	v := out.Instances[0]
	if *v.SubnetId != subnet || *v.SecurityGroups[0].GroupId != group ||
		*out.RequesterId != "AROASCALING:AutoScaling" || len(v.Tags) != 3 {
		t.Errorf("launched %+v by %s", v, aws.ToString(out.RequesterId))
	}
}

func TestLaunchOfMany(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	large, small := w.Subnet(vpc, "10.0.16.0/20", "a"), w.Subnet(vpc, "10.0.0.0/28", "a")
	in := ec2.RunInstancesInput{SubnetId: &large, MinCount: aws.Int32(250), ClientToken: aws.String("many")}
	completeRequest(w, &in)
	out := awstest.Must[*ec2.RunInstancesOutput](t)(w.RunInstances(ctx, &in))
	ips := map[string]bool{}
	for i, v := range out.Instances {
		ips[*v.PrivateIpAddress] = true
		if int(*v.AmiLaunchIndex) != i {
			t.Fatalf("instance %d has the index %d", i, *v.AmiLaunchIndex)
		}
	}
	if len(out.Instances) != 250 || len(ips) != 250 {
		t.Fatalf("%d instances with %d addresses", len(out.Instances), len(ips))
	}
	again := awstest.Must[*ec2.RunInstancesOutput](t)(w.RunInstances(ctx, &in))
	if *again.ReservationId != *out.ReservationId || len(again.Instances) != 250 {
		t.Errorf("the same request again: %s with %d instances", *again.ReservationId, len(again.Instances))
	}
	// As many as there is room for, if that is enough.
	few := awstest.Must[*ec2.RunInstancesOutput](t)(w.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: in.ImageId,
		InstanceType: "m5.large", SubnetId: &small, MinCount: aws.Int32(3), MaxCount: aws.Int32(40)}))
	if len(few.Instances) != 11 {
		t.Errorf("%d instances in a subnet of eleven addresses", len(few.Instances))
	}
	if pages := pagesOfInstances(w, 100); pages != 3 {
		t.Errorf("261 instances on %d pages of 100", pages)
	}
}

func pagesOfInstances(w *ec2test.Fixture, size int32) (pages int) {
	seen := map[string]bool{}
	for p := ec2.NewDescribeInstancesPaginator(w.Client,
		&ec2.DescribeInstancesInput{MaxResults: &size}); p.HasMorePages(); pages++ {
		for _, r := range awstest.Must[*ec2.DescribeInstancesOutput](w.T)(p.NextPage(w.Context())).Reservations {
			for _, v := range r.Instances {
				if seen[*v.InstanceId] {
					w.T.Errorf("%s is on two pages", *v.InstanceId)
				}
				seen[*v.InstanceId] = true
			}
		}
	}
	return pages
}

func TestOneLaunchUnderOneToken(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	in := ec2.RunInstancesInput{ClientToken: aws.String("once"), MinCount: aws.Int32(2)}
	completeRequest(w, &in)
	if got := callAtOnce(w, 6, func(c *ec2.Client, _ int) error {
		_, err := c.RunInstances(w.Context(),
			&in)
		return err
	}); got[""] != 6 {
		t.Errorf("six launches with one token ended as %v", got)
	}
	if rows, _ := record.Instances(w.Store).List(w.Context(), ""); len(rows) != 2 {
		t.Errorf("%d instances from one token, want 2", len(rows))
	}
}

// Of interfaces that are attached at the same time, as many as the type has places get one.
func TestInterfacesOfAnInstanceAtOnce(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	v := runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet})
	var interfaces []*string
	for range 6 {
		interfaces = append(interfaces, w.NetworkInterface(subnet).NetworkInterfaceId)
	}
	got := callAtOnce(w, 6, func(c *ec2.Client, i int) error {
		_, err := c.AttachNetworkInterface(w.Context(), &ec2.AttachNetworkInterfaceInput{InstanceId: v.InstanceId,
			NetworkInterfaceId: interfaces[i], DeviceIndex: aws.Int32(int32(i + 1))})
		return err
	})
	if got[""] != 2 || got["AttachmentLimitExceeded"] != 4 {
		t.Errorf("six interfaces for the two places that m5.large has left: %v", got)
	}
	now := describeInstance(w, *v.InstanceId)
	last := now.NetworkInterfaces[2]
	awstest.Must[any](t)(w.DetachNetworkInterface(w.Context(),
		&ec2.DetachNetworkInterfaceInput{AttachmentId: last.Attachment.AttachmentId}))
	awstest.Must[any](t)(w.DeleteNetworkInterface(w.Context(),
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: last.NetworkInterfaceId}))
	if now := describeInstance(w, *v.InstanceId); len(now.NetworkInterfaces) != 2 {
		t.Errorf("%d interfaces after one was detached", len(now.NetworkInterfaces))
	}
}

func TestFleet(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx, s := w.Context(), aws.String
	startHardware(w)
	vpc := w.VPC("10.0.0.0/16")
	a, tiny := w.Subnet(vpc, "10.0.16.0/20", "a"), w.Subnet(vpc, "10.0.0.0/28", "b")
	template := createLaunchTemplate(w, "karpenter", types.RequestLaunchTemplateData{ImageId: s(image(t, "x86_64")),
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: aws.Int32(0), Groups: []string{w.SecurityGroup(vpc, "nodes")}},
		}})
	override := func(kind, subnet string) types.FleetLaunchTemplateOverridesRequest {
		return types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(kind), SubnetId: &subnet}
	}
	request := func(target int32, overrides ...types.FleetLaunchTemplateOverridesRequest) *ec2.CreateFleetInput {
		return &ec2.CreateFleetInput{
			Type: types.FleetTypeInstant, TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
				TotalTargetCapacity: &target, DefaultTargetCapacityType: "on-demand"},
			LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{
				{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
					LaunchTemplateName: s("karpenter"), Version: s("$Latest")}, Overrides: overrides}},
			OnDemandOptions: &types.OnDemandOptionsRequest{AllocationStrategy: "lowest-price"},
			TagSpecifications: []types.TagSpecification{
				{ResourceType: types.ResourceTypeInstance,
					Tags: []types.Tag{{Key: s("karpenter.sh/nodepool"), Value: s("default")}}},
				{ResourceType: types.ResourceTypeFleet,
					Tags: []types.Tag{{Key: s("karpenter.sh/nodepool"), Value: s("default")}}},
			},
		}
	}
	// The cheapest that works; what does not is said.
	one := request(1, override("m5.xlarge", a), override("m6g.medium", a), override("t3.large", a),
		override("m5.enormous", a))
	one.ClientToken = s("karpenter-1")
	out := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, one))
	if len(out.Instances) != 1 || out.Instances[0].InstanceType != "t3.large" ||
		len(out.Instances[0].InstanceIds) != 1 || out.Instances[0].Lifecycle != "on-demand" ||
		*out.Instances[0].LaunchTemplateAndOverrides.Overrides.SubnetId != a ||
		*out.Instances[0].LaunchTemplateAndOverrides.LaunchTemplateSpecification.LaunchTemplateId != template {
		t.Fatalf("launched %+v", out.Instances)
	}
	codes := map[string]string{}
	for _, e := range out.Errors {
		codes[string(e.LaunchTemplateAndOverrides.Overrides.InstanceType)] = *e.ErrorCode + ": " + *e.ErrorMessage
	}
	if len(codes) != 2 || !strings.Contains(codes["m6g.medium"], "architecture") ||
		!strings.HasPrefix(codes["m5.enormous"], "InvalidParameterValue: Invalid value 'm5.enormous'") {
		t.Errorf("errors %v", codes)
	}
	id := out.Instances[0].InstanceIds[0]
	v := waitForState(w, id, types.InstanceStateNameRunning)
	if tags := listTags(w, id); tags["aws:ec2:fleet-id"] != *out.FleetId || tags["karpenter.sh/nodepool"] != "default" ||
		tags["aws:ec2launchtemplate:version"] != "1" || *v.SubnetId != a {
		t.Errorf("tags %v", tags)
	}
	again := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, one))
	if *again.FleetId != *out.FleetId || again.Instances[0].InstanceIds[0] != id {
		t.Errorf("the same request again: %+v", again)
	}

	// What does not fit into one subnet goes into another.
	many := request(14, override("m5.large", tiny), override("m5.large", a))
	spread := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, many))
	if len(spread.Instances) != 2 || len(spread.Instances[0].InstanceIds) != 11 ||
		len(spread.Instances[1].InstanceIds) != 3 {
		t.Errorf("14 instances were launched as %+v with errors %+v", spread.Instances, spread.Errors)
	}
	full := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, request(1, override("m5.large", tiny))))
	if len(full.Instances) != 0 || len(full.Errors) != 1 ||
		*full.Errors[0].ErrorCode != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("in a full subnet: %+v, %+v", full.Instances, full.Errors)
	}

	// Spot, weights and requirements.
	weighted := request(10, types.FleetLaunchTemplateOverridesRequest{SubnetId: &a, WeightedCapacity: aws.Float64(4),
		InstanceRequirements: &types.InstanceRequirementsRequest{
			VCpuCount:            &types.VCpuCountRangeRequest{Min: aws.Int32(4), Max: aws.Int32(4)},
			MemoryMiB:            &types.MemoryMiBRequest{Min: aws.Int32(16384), Max: aws.Int32(16384)},
			AllowedInstanceTypes: []string{"m5*"},
		}})
	weighted.TargetCapacitySpecification.DefaultTargetCapacityType = "spot"
	weighted.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: "price-capacity-optimized"}
	heavy := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, weighted))
	if len(heavy.Instances) != 1 || len(heavy.Instances[0].InstanceIds) != 3 ||
		!strings.HasSuffix(string(heavy.Instances[0].InstanceType), ".xlarge") ||
		heavy.Instances[0].Lifecycle != "spot" {
		t.Errorf("ten of weight four: %+v, %+v", heavy.Instances, heavy.Errors)
	}
	requests := awstest.Must[*ec2.DescribeSpotInstanceRequestsOutput](t)(w.DescribeSpotInstanceRequests(ctx,
		&ec2.DescribeSpotInstanceRequestsInput{Filters: []types.Filter{ec2test.Filter("state",
			"active")}})).SpotInstanceRequests
	if len(requests) != 3 || *requests[0].Status.Code != "fulfilled" {
		t.Errorf("spot requests %+v", requests)
	}

	// Policies about launches are about those of fleets.
	w.Mu.Lock()
	w.Deny = func(_ wire.Caller, t wire.Target) bool {
		return t.Action == "ec2:RunInstances" && strings.HasSuffix(t.Resource, ":instance/*")
	}
	w.Mu.Unlock()
	denied := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, request(1, override("m5.large", a))))
	if len(denied.Instances) != 0 || len(denied.Errors) != 1 || *denied.Errors[0].ErrorCode != "UnauthorizedOperation" {
		t.Errorf("without permission: %+v, %+v", denied.Instances, denied.Errors)
	}
	w.Mu.Lock()
	w.Deny = nil
	w.Mu.Unlock()

	data := awstest.Must[*ec2.DescribeFleetsOutput](t)(w.DescribeFleets(ctx,
		&ec2.DescribeFleetsInput{FleetIds: []string{*spread.FleetId}})).Fleets[0]
	active := awstest.Must[*ec2.DescribeFleetInstancesOutput](t)(w.DescribeFleetInstances(ctx,
		&ec2.DescribeFleetInstancesInput{FleetId: spread.FleetId})).ActiveInstances
	if *data.FulfilledCapacity != 14 || data.FleetState != "active" || len(data.Instances) != 2 || len(active) != 14 {
		t.Errorf("fleet %+v with %d instances", data, len(active))
	}
	if shown := awstest.Must[*ec2.DescribeFleetsOutput](t)(w.DescribeFleets(ctx, &ec2.DescribeFleetsInput{})).Fleets; len(
		shown) != 0 {
		t.Errorf("instant fleets are shown unasked: %+v", shown)
	}
	deleted := awstest.Must[*ec2.DeleteFleetsOutput](t)(w.DeleteFleets(ctx,
		&ec2.DeleteFleetsInput{FleetIds: []string{*spread.FleetId, "fleet-01234567-89ab-cdef-0123-456789abcdef"},
			TerminateInstances: aws.Bool(true)}))
	if len(deleted.SuccessfulFleetDeletions) != 1 ||
		deleted.UnsuccessfulFleetDeletions[0].Error.Code != types.DeleteFleetErrorCodeFleetIdDoesNotExist {
		t.Errorf("deleted %+v", deleted)
	}
	waitForState(w, spread.Instances[0].InstanceIds[0], types.InstanceStateNameTerminated)
}

func listTags(w *ec2test.Fixture, id string) map[string]string {
	tags := map[string]string{}
	for _, d := range awstest.Must[*ec2.DescribeTagsOutput](w.T)(w.DescribeTags(w.Context(),
		&ec2.DescribeTagsInput{Filters: []types.Filter{ec2test.Filter("resource-id", id)}})).Tags {
		tags[*d.Key] = *d.Value
	}
	return tags
}

func TestSpotRequests(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	out := awstest.Must[*ec2.RequestSpotInstancesOutput](t)(w.RequestSpotInstances(ctx, &ec2.RequestSpotInstancesInput{
		InstanceCount: aws.Int32(2), LaunchSpecification: &types.RequestSpotLaunchSpecification{
			ImageId: aws.String(image(t, "arm64")), InstanceType: "m6g.large"},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSpotInstancesRequest,
			Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}},
	})).SpotInstanceRequests
	if len(out) != 2 || out[0].State != "active" || *out[0].Status.Code != "fulfilled" ||
		!strings.HasPrefix(*out[0].SpotInstanceRequestId, "sir-") || len(out[0].Tags) != 1 ||
		out[0].LaunchSpecification.InstanceType != "m6g.large" {
		t.Fatalf("requests %+v", out)
	}
	waitForState(w, *out[0].InstanceId, types.InstanceStateNameRunning)
	awstest.Must[any](t)(w.CancelSpotInstanceRequests(ctx,
		&ec2.CancelSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{*out[0].SpotInstanceRequestId}}))
	awstest.Must[any](
		t,
	)(
		w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*out[1].InstanceId}}),
	)
	states := map[string]string{}
	for _, r := range awstest.Must[*ec2.DescribeSpotInstanceRequestsOutput](t)(w.DescribeSpotInstanceRequests(ctx,
		&ec2.DescribeSpotInstanceRequestsInput{})).SpotInstanceRequests {
		states[*r.SpotInstanceRequestId] = string(r.State) + " " + *r.Status.Code
	}
	if states[*out[0].SpotInstanceRequestId] != "cancelled request-canceled-and-instance-running" ||
		states[*out[1].SpotInstanceRequestId] != "closed instance-terminated-by-user" {
		t.Errorf("states %v", states)
	}
	prices := awstest.Must[*ec2.DescribeSpotPriceHistoryOutput](t)(w.DescribeSpotPriceHistory(ctx,
		&ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{"m5.large"},
			ProductDescriptions: []string{"Linux/UNIX"}, StartTime: aws.Time(time.Now())})).SpotPriceHistory
	if len(prices) != 3 || *prices[0].SpotPrice != "0.033600" {
		t.Errorf("prices %+v", prices)
	}
}

func TestInstanceTypesAndImages(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	info := awstest.Must[*ec2.DescribeInstanceTypesOutput](t)(w.DescribeInstanceTypes(ctx,
		&ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m5.large"}})).InstanceTypes[0]
	if *info.VCpuInfo.DefaultVCpus != 2 || *info.MemoryInfo.SizeInMiB != 8192 ||
		*info.NetworkInfo.MaximumNetworkInterfaces != 3 || *info.NetworkInfo.Ipv4AddressesPerInterface != 10 ||
		info.Hypervisor != "nitro" ||
		*info.NetworkInfo.NetworkCards[0].MaximumNetworkInterfaces != 3 ||
		info.ProcessorInfo.SupportedArchitectures[0] != "x86_64" {
		t.Errorf("m5.large is %+v", info)
	}
	arm := awstest.Must[*ec2.DescribeInstanceTypesOutput](t)(w.DescribeInstanceTypes(ctx,
		&ec2.DescribeInstanceTypesInput{Filters: []types.Filter{
			ec2test.Filter("processor-info.supported-architecture", "arm64"), ec2test.Filter("vcpu-info.default-vcpus", "2"),
			ec2test.Filter(
				"instance-type",
				"m*.large",
			), ec2test.Filter("bare-metal", "false"), ec2test.Filter("supported-virtualization-type",
				"hvm"), ec2test.Filter("hypervisor", "nitro"),
		}})).InstanceTypes
	if len(arm) == 0 || slices.ContainsFunc(arm,
		func(i types.InstanceTypeInfo) bool { return *i.VCpuInfo.DefaultVCpus != 2 }) {
		t.Errorf("%d types", len(arm))
	}
	offered := awstest.Must[*ec2.DescribeInstanceTypeOfferingsOutput](t)(w.DescribeInstanceTypeOfferings(ctx,
		&ec2.DescribeInstanceTypeOfferingsInput{LocationType: "availability-zone",
			Filters: []types.Filter{ec2test.Filter("instance-type", "m5.large")}})).InstanceTypeOfferings
	if len(offered) != 3 || *offered[0].Location != "eu-west-1a" {
		t.Errorf("offerings %+v", offered)
	}
	pages := 0
	for p := ec2.NewDescribeInstanceTypesPaginator(w.Client,
		&ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(100)}); p.HasMorePages(); pages++ {
		awstest.Must[any](t)(p.NextPage(ctx))
	}
	if pages < 2 {
		t.Errorf("all types on %d pages", pages)
	}
	found := awstest.Must[*ec2.GetInstanceTypesFromInstanceRequirementsOutput](
		t,
	)(
		w.GetInstanceTypesFromInstanceRequirements(
			ctx, &ec2.GetInstanceTypesFromInstanceRequirementsInput{
				ArchitectureTypes:   []types.ArchitectureType{"x86_64"},
				VirtualizationTypes: []types.VirtualizationType{"hvm"},
				InstanceRequirements: &types.InstanceRequirementsRequest{VCpuCount: &types.VCpuCountRangeRequest{
					Min: aws.Int32(2), Max: aws.Int32(2)}, MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(8192),
					Max: aws.Int32(8192)}, ExcludedInstanceTypes: []string{"m5a*"}},
			}),
	).InstanceTypes
	names := func(list []types.InstanceTypeInfoFromInstanceRequirements) (all []string) {
		for _, i := range list {
			all = append(all, *i.InstanceType)
		}
		return all
	}(found)
	if !slices.Contains(names, "m5.large") || slices.Contains(names, "m5a.large") || slices.Contains(names,
		"t3.large") || slices.Contains(names, "m5.xlarge") {
		t.Errorf("types that meet the requirements: %v", names)
	}

	images := awstest.Must[*ec2.DescribeImagesOutput](t)(w.DescribeImages(ctx,
		&ec2.DescribeImagesInput{Owners: []string{"602401143452"}, Filters: []types.Filter{
			ec2test.Filter("name", "amazon-eks-node-al2023-x86_64-standard-1.35-v*"), ec2test.Filter("architecture", "x86_64"),
			ec2test.Filter("virtualization-type", "hvm"), ec2test.Filter("state", "available"),
		}})).Images
	if len(images) == 0 || *images[0].OwnerId != "602401143452" || *images[0].RootDeviceName != "/dev/xvda" ||
		*images[0].BlockDeviceMappings[0].Ebs.VolumeSize != 20 || images[0].ImdsSupport != "v2.0" {
		t.Errorf("images %+v", images)
	}
	if mine := awstest.Must[*ec2.DescribeImagesOutput](t)(w.DescribeImages(ctx,
		&ec2.DescribeImagesInput{Owners: []string{"self"}})).Images; len(mine) != 0 {
		t.Errorf("images of one's own: %+v", mine)
	}
}

func TestInstanceFilters(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx, s := w.Context(), aws.String
	startHardware(w)
	createInstanceProfile(w, "nodes", "node-role")
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	launch := func(name string) types.Instance {
		return runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet,
			IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: s("nodes")},
			TagSpecifications: []types.TagSpecification{
				{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: s("Name"), Value: &name},
					{Key: s("kubernetes.io/cluster/ironman"), Value: s("owned")}, {Key: s("empty"), Value: s("")}}},
			}})
	}
	a, b := launch("a"), launch("b")
	waitForState(w, *a.InstanceId, "running")
	waitForState(w, *b.InstanceId, "running")
	runInstance(w, ec2.RunInstancesInput{})
	row, _ := record.Instances(w.Store).Get(ctx, record.EC2Key(ec2test.Account, ec2test.Region, *a.InstanceId))
	ni := a.NetworkInterfaces[0]
	for _, test := range []struct {
		name   string
		values []string
		want   string // a, b, ab or neither
	}{
		{"instance-id", []string{*a.InstanceId}, "a"},
		{"private-dns-name", []string{*b.PrivateDnsName}, "b"},
		{"private-dns-name", []string{*a.PrivateDnsName, *b.PrivateDnsName, "ip-10-0-0-1.eu-west-1.compute.internal"},
			"ab"},
		{"private-dns-name", []string{"ip-10-0-0-*"}, "ab"},
		{"private-ip-address", []string{*a.PrivateIpAddress}, "a"},
		{"network-interface.private-dns-name", []string{*a.PrivateDnsName}, ""}, // the VPC has no DNS hostnames
		{"network-interface.network-interface-id", []string{*ni.NetworkInterfaceId}, "a"},
		{"network-interface.addresses.private-ip-address", []string{*ni.PrivateIpAddress}, "a"},
		{"network-interface.attachment.instance-id", []string{*b.InstanceId}, "b"},
		{"tag:Name", []string{"a"}, "a"},
		{"tag:Name", []string{"*"}, "ab"},
		{"tag:empty", []string{""}, "ab"},
		{"tag:kubernetes.io/cluster/ironman", []string{"owned", "shared"}, "ab"},
		{"tag:kubernetes.io/cluster/thor", []string{"*"}, ""},
		{"tag-key", []string{"kubernetes.io/cluster/ironman"}, "ab"},
		{"instance-state-name", []string{"running", "pending"}, "ab"},
		{"instance-state-name", []string{"stopped"}, ""},
		{"instance-state-code", []string{"16"}, "ab"},
		{"reservation-id", []string{row.Value.ReservationID}, "a"},
		{"iam-instance-profile.name", []string{"nodes"}, "ab"},
		{"iam-instance-profile.arn", []string{"arn:aws:iam::" + ec2test.Account + ":instance-profile/nodes"}, "ab"},
		{"block-device-mapping.volume-id", []string{*a.BlockDeviceMappings[0].Ebs.VolumeId}, "a"},
		{"instance.group-name", []string{"default"}, "ab"},
		{"subnet-id", []string{subnet}, "ab"},
		{"vpc-id", []string{*a.VpcId}, "ab"},
		{"owner-id", []string{ec2test.Account}, "ab"},
		{"availability-zone", []string{"eu-west-1a"}, "ab"},
		{"architecture", []string{"arm64"}, ""},
		{"instance-lifecycle", []string{"spot"}, ""},
		{"launch-time", []string{a.LaunchTime.UTC().Format("2006-01-02") + "*"}, "ab"},
		{"metadata-options.http-tokens", []string{"required"}, "ab"},
		{"ip-address", []string{"*"}, ""},
		{"key-name", []string{"*"}, ""},
	} {
		out := awstest.Must[*ec2.DescribeInstancesOutput](t)(w.DescribeInstances(ctx,
			&ec2.DescribeInstancesInput{Filters: []types.Filter{ec2test.Filter(test.name, test.values...),
				ec2test.Filter("vpc-id", *a.VpcId)}}))
		var got []string
		for _, r := range out.Reservations {
			for _, v := range r.Instances {
				got = append(got, map[string]string{*a.InstanceId: "a", *b.InstanceId: "b"}[*v.InstanceId])
			}
		}
		slices.Sort(got)
		if strings.Join(got, "") != test.want {
			t.Errorf("%s=%v finds %v, want %q", test.name, test.values, got, test.want)
		}
	}
	checks := awstest.Must[*ec2.DescribeInstanceStatusOutput](t)(w.DescribeInstanceStatus(ctx,
		&ec2.DescribeInstanceStatusInput{InstanceIds: []string{*a.InstanceId}})).InstanceStatuses
	if len(checks) != 1 || checks[0].InstanceStatus.Status != "ok" ||
		checks[0].SystemStatus.Details[0].Status != "passed" || checks[0].InstanceState.Name != "running" {
		t.Errorf("status %+v", checks)
	}
	awstest.Must[any](
		t,
	)(
		record.MachineConsoles(w.Store).Put(ctx, record.EC2Key(ec2test.Account, ec2test.Region, *a.InstanceId),
			record.MachineConsole{Output: []byte("Linux version"), UpdatedAt: time.Now()}),
	)
	console := awstest.Must[*ec2.GetConsoleOutputOutput](t)(w.GetConsoleOutput(ctx,
		&ec2.GetConsoleOutputInput{InstanceId: a.InstanceId}))
	if text, _ := base64.StdEncoding.DecodeString(*console.Output); string(text) != "Linux version" {
		t.Errorf("console %s", text)
	}
}

func TestTargetsOfALaunch(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	s := aws.String
	vpc := w.VPC("10.0.0.0/16")
	subnet, group := w.Subnet(vpc, "10.0.0.0/24", "a"), w.SecurityGroup(vpc, "nodes")
	awstest.Must[any](t)(w.CreateTags(w.Context(), &ec2.CreateTagsInput{Resources: []string{subnet},
		Tags: []types.Tag{{Key: s("team"), Value: s("a")}}}))
	x86 := image(t, "x86_64")
	template := createLaunchTemplate(w, "nodes", types.RequestLaunchTemplateData{ImageId: &x86, InstanceType: "m5.large"})
	v := runInstance(w, ec2.RunInstancesInput{
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateName: s("nodes")}, SubnetId: &subnet,
		SecurityGroupIds: []string{group},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
			Tags: []types.Tag{{Key: s("team"), Value: s("a")}}}},
	})
	arn := "arn:aws:ec2:" + ec2test.Region + ":" + ec2test.Account + ":"
	conditions := map[string]map[string][]string{}
	for _, target := range append(w.Targets("ec2:RunInstances"), w.Targets("ec2:CreateTags")...) {
		conditions[target.Action+" "+target.Resource] = target.Conditions
	}
	for resource, want := range map[string]map[string]string{
		"ec2:RunInstances arn:aws:ec2:" + ec2test.Region + "::image/" + x86: {"ec2:Owner": "amazon",
			"ec2:IsLaunchTemplateResource": "true"},
		"ec2:RunInstances " + arn + "instance/*": {"ec2:InstanceType": "m5.large",
			"aws:RequestTag/team": "a", "ec2:InstanceMarketType": "on-demand", "ec2:MetadataHttpTokens": "required",
			"ec2:LaunchTemplate": arn + "launch-template/" + template},
		"ec2:RunInstances " + arn + "launch-template/" + template: {"ec2:Region": ec2test.Region},
		"ec2:RunInstances " + arn + "network-interface/*": {"ec2:Subnet": arn + "subnet/" + subnet,
			"ec2:Vpc": arn + "vpc/" + vpc, "ec2:AssociatePublicIpAddress": "false"},
		"ec2:RunInstances " + arn + "security-group/" + group: {"ec2:Vpc": arn + "vpc/" + vpc},
		"ec2:RunInstances " + arn + "subnet/" + subnet: {"aws:ResourceTag/team": "a",
			"ec2:AvailabilityZone": "eu-west-1a"},
		"ec2:RunInstances " + arn + "volume/*": {"ec2:VolumeSize": "20", "ec2:VolumeType": "gp3"},
		"ec2:CreateTags " + arn + "instance/*": {"ec2:CreateAction": "RunInstances",
			"aws:RequestTag/team": "a"},
	} {
		for key, value := range want {
			if got := conditions[resource][key]; !slices.Contains(got, value) {
				t.Errorf("%s: %s is %v, want %s", resource, key, got, value)
			}
		}
	}
	awstest.Must[any](
		t,
	)(
		w.TerminateInstances(w.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{*v.InstanceId}}),
	)
	if got := w.Targets("ec2:TerminateInstances"); len(got) != 1 || got[0].Resource != arn+"instance/"+*v.InstanceId ||
		got[0].Conditions["ec2:ResourceTag/team"][0] != "a" || got[0].Conditions["ec2:InstanceType"][0] != "m5.large" {
		t.Errorf("to terminate it is about %+v", got)
	}
}

// BenchmarkDescribeInstances asks for one of 2,000 instances, and for all, as tools do.
func BenchmarkDescribeInstances(b *testing.B) {
	w := ec2test.New(b)
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.16.0/20", "a")
	var last types.Instance
	for range 4 {
		in := ec2.RunInstancesInput{SubnetId: &subnet, MinCount: aws.Int32(500),
			TagSpecifications: []types.TagSpecification{
				{ResourceType: types.ResourceTypeInstance,
					Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("node")},
						{Key: aws.String("eks:cluster-name"), Value: aws.String("ironman")}}},
			}}
		completeRequest(w, &in)
		last = awstest.Must[*ec2.RunInstancesOutput](b)(w.RunInstances(w.Context(), &in)).Instances[499]
	}
	for name, in := range map[string]ec2.DescribeInstancesInput{
		"by ID": {InstanceIds: []string{*last.InstanceId}},
		"by private DNS name": {Filters: []types.Filter{ec2test.Filter("private-dns-name", *last.PrivateDnsName),
			ec2test.Filter("instance-state-name", "running", "pending")}},
		"by tag": {Filters: []types.Filter{ec2test.Filter("tag:eks:cluster-name", "thor")}},
		"by IP":  {Filters: []types.Filter{ec2test.Filter("private-ip-address", *last.PrivateIpAddress)}},
		"all":    {},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				awstest.Must[any](b)(w.DescribeInstances(w.Context(), &in))
			}
		})
	}
}
