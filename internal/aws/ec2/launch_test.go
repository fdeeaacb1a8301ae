package ec2_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"testing"

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
	row := awstest.Must[store.Row[record.LaunchTemplate]](t)(
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
	awstest.Must[any](t)(
		w.TerminateInstances(w.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{*v.InstanceId}}),
	)
	if got := w.Targets("ec2:TerminateInstances"); len(got) != 1 || got[0].Resource != arn+"instance/"+*v.InstanceId ||
		got[0].Conditions["ec2:ResourceTag/team"][0] != "a" || got[0].Conditions["ec2:InstanceType"][0] != "m5.large" {
		t.Errorf("to terminate it is about %+v", got)
	}
}
