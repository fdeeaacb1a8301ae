package ec2_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// createInstanceProfile puts an instance profile with a role into the store, as IAM does.
func createInstanceProfile(w *ec2test.Fixture, name, role string) {
	w.T.Helper()
	if role != "" {
		awstest.Must[any](w.T)(record.Roles(w.Store).Create(w.Context(), record.RoleKey(ec2test.Account, role),
			record.Role{Account: ec2test.Account, Name: role, Path: "/", ID: "AROA" + role}))
	}
	awstest.Must[any](
		w.T,
	)(
		record.InstanceProfiles(w.Store).Create(w.Context(), record.InstanceProfileKey(ec2test.Account, name),
			record.InstanceProfile{Account: ec2test.Account, Name: name, Path: "/", ID: "AIPA" + name, Role: role}),
	)
}

// createLaunchTemplate makes a launch template and is its ID.
func createLaunchTemplate(w *ec2test.Fixture, name string, data types.RequestLaunchTemplateData) string {
	w.T.Helper()
	return *awstest.Must[*ec2.CreateLaunchTemplateOutput](w.T)(w.CreateLaunchTemplate(w.Context(),
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name,
			LaunchTemplateData: &data})).LaunchTemplate.LaunchTemplateId
}

// TestRefusedLaunches sends requests about instances that AWS refuses, and checks code, message and that nothing
// changed.
func TestRefusedLaunches(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	h := startHardware(w)
	ctx := w.Context()
	vpc, other := w.VPC("10.0.0.0/16"), w.VPC("10.1.0.0/16")
	subnet, second, foreign := w.Subnet(vpc, "10.0.0.0/24", "a"), w.Subnet(vpc, "10.0.2.0/24", "b"), w.Subnet(other,
		"10.1.0.0/24", "a")
	tiny := w.Subnet(vpc, "10.0.1.0/28", "a")
	group, foreignGroup := w.SecurityGroup(vpc, "nodes"), w.SecurityGroup(other, "nodes")
	createInstanceProfile(w, "nodes", "node-role")
	createInstanceProfile(w, "empty", "")
	x86, arm := image(t, "x86_64"), image(t, "arm64")
	const gone = "0123456789abcdef0"
	s := aws.String
	template := createLaunchTemplate(w, "nodes", types.RequestLaunchTemplateData{ImageId: &x86, InstanceType: "m5.large"})
	ported := createLaunchTemplate(w, "ported", types.RequestLaunchTemplateData{ImageId: &x86, InstanceType: "m5.large",
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: aws.Int32(0), Groups: []string{group}},
		}})
	anyType := createLaunchTemplate(w, "any-type", types.RequestLaunchTemplateData{ImageId: &x86,
		InstanceRequirements: &types.InstanceRequirementsRequest{
			VCpuCount: &types.VCpuCountRangeRequest{Min: aws.Int32(2)},
			MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(4096)},
		}})
	awstest.Must[*ec2.CreatePlacementGroupOutput](t)(w.CreatePlacementGroup(ctx,
		&ec2.CreatePlacementGroupInput{GroupName: s("rack"), Strategy: types.PlacementStrategySpread}))

	id := *runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet}).InstanceId
	guarded := *runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet, DisableApiTermination: aws.Bool(true),
		DisableApiStop: aws.Bool(true)}).InstanceId
	spot := runInstance(
		w,
		ec2.RunInstancesInput{SubnetId: &subnet, InstanceMarketOptions: &types.InstanceMarketOptionsRequest{
			MarketType: types.MarketTypeSpot}},
	)
	ended := *runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet}).InstanceId
	placed := runInstance(
		w,
		ec2.RunInstancesInput{SubnetId: &subnet, IamInstanceProfile: &types.IamInstanceProfileSpecification{
			Name: s("nodes")}, Placement: &types.Placement{GroupName: s("rack")}, ClientToken: s("seen")},
	)
	for _, i := range []string{id, guarded, *spot.InstanceId, ended, *placed.InstanceId} {
		waitForState(w, i, types.InstanceStateNameRunning)
	}
	awstest.Must[any](t)(w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{ended}}))
	waitForState(w, ended, types.InstanceStateNameTerminated)
	eventually.True(t, "the terminated instance holds nothing", func() bool {
		row, _ := record.Instances(w.Store).Get(ctx, record.EC2Key(ec2test.Account, ec2test.Region, ended))
		return len(row.Value.BlockDevices) == 0
	})
	_ = h
	primary := describeInstance(w, id).NetworkInterfaces[0]
	loose, far := w.NetworkInterface(subnet), w.NetworkInterface(second)
	volume := *describeInstance(w, id).BlockDeviceMappings[0].Ebs.VolumeId
	association := awstest.Must[*ec2.DescribeIamInstanceProfileAssociationsOutput](t)(
		w.DescribeIamInstanceProfileAssociations(
			ctx, &ec2.DescribeIamInstanceProfileAssociationsInput{})).IamInstanceProfileAssociations[0].AssociationId
	// An interface of an instance with as many addresses as m5.large has: ten.
	full := *awstest.Must[*ec2.CreateNetworkInterfaceOutput](t)(w.CreateNetworkInterface(ctx,
		&ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			SecondaryPrivateIpAddressCount: aws.Int32(10)})).NetworkInterface.NetworkInterfaceId

	run := func(change func(*ec2.RunInstancesInput)) func() error {
		return func() error {
			in := ec2.RunInstancesInput{ImageId: &x86, InstanceType: "m5.large", MinCount: aws.Int32(1),
				MaxCount: aws.Int32(1), SubnetId: &subnet}
			change(&in)
			_, err := w.RunInstances(ctx, &in)
			return err
		}
	}
	ports := func(specs ...types.InstanceNetworkInterfaceSpecification) func() error {
		return run(func(in *ec2.RunInstancesInput) { in.SubnetId, in.NetworkInterfaces = nil, specs })
	}
	port := func(index int32, change func(
		*types.InstanceNetworkInterfaceSpecification)) types.InstanceNetworkInterfaceSpecification {
		spec := types.InstanceNetworkInterfaceSpecification{DeviceIndex: aws.Int32(index), SubnetId: &subnet}
		if change != nil {
			change(&spec)
		}
		return spec
	}
	disk := func(name string, e types.EbsBlockDevice) func() error {
		return run(func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: &name, Ebs: &e}}
		})
	}
	from := func(spec types.LaunchTemplateSpecification) func() error {
		return run(func(in *ec2.RunInstancesInput) { in.LaunchTemplate = &spec })
	}
	describe := func(in ec2.DescribeInstancesInput) func() error {
		return func() error { _, err := w.DescribeInstances(ctx, &in); return err }
	}
	modify := func(in ec2.ModifyInstanceAttributeInput) func() error {
		return func() error { _, err := w.ModifyInstanceAttribute(ctx, &in); return err }
	}
	attach := func(instance, ni string, index int32) func() error {
		return func() error {
			_, err := w.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{InstanceId: &instance,
				NetworkInterfaceId: &ni, DeviceIndex: &index})
			return err
		}
	}
	newTemplate := func(name string, data *types.RequestLaunchTemplateData) func() error {
		return func() error {
			_, err := w.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name,
				LaunchTemplateData: data})
			return err
		}
	}
	fleet := func(change func(*ec2.CreateFleetInput)) func() error {
		return func() error {
			in := ec2.CreateFleetInput{Type: types.FleetTypeInstant,
				TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(
					1)},
				LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{
					{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
						LaunchTemplateId: &template, Version: s("$Latest")}}}}
			change(&in)
			_, err := w.CreateFleet(ctx, &in)
			return err
		}
	}
	requirements := func(change func(*types.InstanceRequirementsRequest)) func() error {
		return func() error {
			q := types.InstanceRequirementsRequest{VCpuCount: &types.VCpuCountRangeRequest{Min: aws.Int32(2),
				Max: aws.Int32(4)}, MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(4096)}}
			change(&q)
			_, err := w.GetInstanceTypesFromInstanceRequirements(ctx,
				&ec2.GetInstanceTypesFromInstanceRequirementsInput{
					ArchitectureTypes:   []types.ArchitectureType{"x86_64"},
					VirtualizationTypes: []types.VirtualizationType{"hvm"}, InstanceRequirements: &q,
				})
			return err
		}
	}
	large := base64.StdEncoding.EncodeToString(make([]byte, 16385))
	checkRefusals(w, t, []refused{
		{"dry run", run(func(in *ec2.RunInstancesInput) { in.DryRun = aws.Bool(true) }), "DryRunOperation",
			"Request would have succeeded, but DryRun flag is set."},
		{"dry run of a bad request", run(func(in *ec2.RunInstancesInput) {
			in.DryRun, in.SubnetId = aws.Bool(true),
				s("subnet-"+gone)
		}), "InvalidSubnetID.NotFound", gone},
		{"no image", run(func(in *ec2.RunInstancesInput) { in.ImageId = nil }), "MissingParameter",
			"The request must contain the parameter ImageId"},
		{"image id malformed", run(func(in *ec2.RunInstancesInput) { in.ImageId = s("debian") }),
			"InvalidAMIID.Malformed", `Invalid id: "debian" (expecting "ami-...")`},
		{"image unknown", run(func(in *ec2.RunInstancesInput) { in.ImageId = s("ami-" + gone) }),
			"InvalidAMIID.NotFound", "The image id '[ami-0123456789abcdef0]' does not exist"},
		{"image by an unknown parameter", run(func(in *ec2.RunInstancesInput) { in.ImageId = s("resolve:ssm:/mine") }),
			"InvalidParameterValue", "/mine"},
		{"no type", run(func(in *ec2.RunInstancesInput) { in.InstanceType = "" }), "MissingParameter", "InstanceType"},
		{"type unknown", run(func(in *ec2.RunInstancesInput) { in.InstanceType = "m5.enormous" }),
			"InvalidParameterValue", "Invalid value 'm5.enormous' for InstanceType."},
		{"type of another architecture", run(func(in *ec2.RunInstancesInput) { in.ImageId = &arm }),
			"InvalidParameterValue",
			"The architecture 'x86_64' of the specified instance type does not match the architecture 'arm64' of the " +
				"specified AMI."},
		{"no instances", run(func(in *ec2.RunInstancesInput) { in.MinCount = aws.Int32(0) }), "InvalidParameterValue",
			"minCount"},
		{"fewer than the least", run(func(in *ec2.RunInstancesInput) { in.MinCount = aws.Int32(2) }),
			"InvalidParameterValue", "minCount"},
		{"more than one call may", run(func(in *ec2.RunInstancesInput) { in.MaxCount = aws.Int32(1001) }),
			"InstanceLimitExceeded", "1001"},
		{"client token with another request", run(func(in *ec2.RunInstancesInput) { in.ClientToken = s("seen") }),
			"IdempotentParameterMismatch", ""},
		{"user data is not base64", run(func(in *ec2.RunInstancesInput) { in.UserData = s("#!/bin/sh") }),
			"InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."},
		{"user data too large", run(func(in *ec2.RunInstancesInput) { in.UserData = &large }), "InvalidParameterValue",
			"User data is limited to 16384 bytes"},
		{"subnet malformed", run(func(in *ec2.RunInstancesInput) { in.SubnetId = s("lan") }),
			"InvalidSubnetID.Malformed", "lan"},
		{"subnet unknown", run(func(in *ec2.RunInstancesInput) { in.SubnetId = s("subnet-" + gone) }),
			"InvalidSubnetID.NotFound", "The subnet ID 'subnet-0123456789abcdef0' does not exist"},
		{"subnet in another zone", run(func(in *ec2.RunInstancesInput) {
			in.Placement = &types.Placement{
				AvailabilityZone: s("eu-west-1b")}
		}), "InvalidParameterValue", "Subnet '" + subnet + "' is in the availability zone eu-west-1a"},
		{"zone of no default subnet", run(func(in *ec2.RunInstancesInput) {
			in.SubnetId, in.Placement = nil, &types.Placement{AvailabilityZone: s("us-east-1a")}
		}), "InvalidParameterValue", "us-east-1a"},
		{"subnet with too few addresses", run(func(in *ec2.RunInstancesInput) {
			in.SubnetId, in.MinCount, in.MaxCount = &tiny, aws.Int32(12), aws.Int32(12)
		}), "InsufficientFreeAddressesInSubnet",
			"The specified subnet does not have enough free addresses to satisfy the request."},
		{"group malformed", run(func(in *ec2.RunInstancesInput) { in.SecurityGroupIds = []string{"web"} }),
			"InvalidGroupId.Malformed", "web"},
		{"group unknown", run(func(in *ec2.RunInstancesInput) { in.SecurityGroupIds = []string{"sg-" + gone} }),
			"InvalidGroup.NotFound", "The security group 'sg-0123456789abcdef0' does not exist"},
		{"group of another VPC", run(func(in *ec2.RunInstancesInput) { in.SecurityGroupIds = []string{foreignGroup} }),
			"InvalidParameter", "You have specified two resources that belong to different networks."},
		{"group by name beside a subnet",
			run(func(in *ec2.RunInstancesInput) { in.SecurityGroups = []string{"nodes"} }),
			"InvalidParameterCombination", "The parameter groupName cannot be used with the parameter subnet"},
		{"group by a name that is none", run(func(in *ec2.RunInstancesInput) {
			in.SubnetId, in.SecurityGroups = nil,
				[]string{"web"}
		}), "InvalidGroup.NotFound", "The security group 'web' does not exist in VPC"},
		{"key unknown", run(func(in *ec2.RunInstancesInput) { in.KeyName = s("mine") }), "InvalidKeyPair.NotFound",
			"The key pair 'mine' does not exist"},
		{"profile name unknown", run(func(in *ec2.RunInstancesInput) {
			in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: s("none")}
		}), "InvalidParameterValue",
			"Value (none) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"},
		{"profile ARN unknown", run(func(in *ec2.RunInstancesInput) {
			in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Arn: s("arn:aws:iam::" + ec2test.Account +
				":instance-profile/x/nodes")}
		}), "InvalidParameterValue", "Invalid IAM Instance Profile ARN"},
		{"profile twice", run(func(in *ec2.RunInstancesInput) {
			in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: s("nodes"),
				Arn: s("arn:aws:iam::" + ec2test.Account + ":instance-profile/nodes")}
		}), "InvalidParameterCombination", "may not be used in combination"},
		{"profile without a role", run(func(in *ec2.RunInstancesInput) {
			in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: s("empty")}
		}), "InvalidParameterValue", "has no associated IAM Roles"},
		{"metadata tokens", run(func(in *ec2.RunInstancesInput) {
			in.MetadataOptions = &types.InstanceMetadataOptionsRequest{HttpTokens: "maybe"}
		}), "InvalidParameterValue", "Value (maybe) for parameter HttpTokens is invalid."},
		{"metadata hops", run(func(in *ec2.RunInstancesInput) {
			in.MetadataOptions = &types.InstanceMetadataOptionsRequest{HttpPutResponseHopLimit: aws.Int32(65)}
		}), "InvalidParameterValue", "Value (65) for parameter HttpPutResponseHopLimit is invalid."},
		{"shutdown behavior", run(func(in *ec2.RunInstancesInput) { in.InstanceInitiatedShutdownBehavior = "sleep" }),
			"InvalidParameterValue", "Value (sleep) for parameter instanceInitiatedShutdownBehavior is invalid."},
		{"tenancy", run(func(in *ec2.RunInstancesInput) { in.Placement = &types.Placement{Tenancy: "sublet"} }),
			"InvalidParameterValue", "tenancy"},
		{"dedicated host", run(func(in *ec2.RunInstancesInput) {
			in.Placement = &types.Placement{HostId: s("h-" +
				gone)}
		}), "UnsupportedOperation", "HostId"},
		{"placement group unknown", run(func(in *ec2.RunInstancesInput) {
			in.Placement = &types.Placement{
				GroupName: s("shelf")}
		}), "InvalidPlacementGroup.Unknown", "The Placement Group 'shelf' is unknown."},
		{"partition of a spread group", run(func(in *ec2.RunInstancesInput) {
			in.Placement = &types.Placement{GroupName: s("rack"), PartitionNumber: aws.Int32(1)}
		}), "InvalidParameterValue", "partitionNumber"},
		{"hibernation", run(func(in *ec2.RunInstancesInput) {
			in.HibernationOptions = &types.HibernationOptionsRequest{Configured: aws.Bool(true)}
		}), "UnsupportedOperation", "Hibernation"},
		{"enclave", run(func(in *ec2.RunInstancesInput) {
			in.EnclaveOptions = &types.EnclaveOptionsRequest{Enabled: aws.Bool(true)}
		}), "UnsupportedOperation", "Enclave"},
		{"other CPU options", run(func(in *ec2.RunInstancesInput) {
			in.CpuOptions = &types.CpuOptionsRequest{ThreadsPerCore: aws.Int32(1)}
		}), "UnsupportedOperation", "CpuOptions"},
		{"credits of a type without", run(func(in *ec2.RunInstancesInput) {
			in.CreditSpecification = &types.CreditSpecificationRequest{CpuCredits: s("standard")}
		}), "InvalidParameterCombination", "m5.large does not support credit specifications"},
		{"strange credits", run(func(in *ec2.RunInstancesInput) {
			in.InstanceType, in.CreditSpecification = "t3.large", &types.CreditSpecificationRequest{
				CpuCredits: s("free")}
		}), "InvalidParameterValue", "cpuCredits"},
		{"tags of a subnet", run(func(in *ec2.RunInstancesInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeSubnet,
				Tags: []types.Tag{{Key: s("a"), Value: s("b")}}}}
		}), "InvalidParameterValue", "'subnet' is not a valid taggable resource type for this operation."},
		{"tags of AWS", run(func(in *ec2.RunInstancesInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
				Tags: []types.Tag{{Key: s("aws:a"), Value: s("b")}}}}
		}), "InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use"},
		{"capacity block", run(func(in *ec2.RunInstancesInput) {
			in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: "capacity-block"}
		}), "UnsupportedOperation", "capacity-block"},
		{"market unknown", run(func(in *ec2.RunInstancesInput) {
			in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: "flea"}
		}), "InvalidParameterValue", "marketType"},
		{"spot price too low", run(func(in *ec2.RunInstancesInput) {
			in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: "spot",
				SpotOptions: &types.SpotMarketOptions{MaxPrice: s("0.001")}}
		}), "SpotMaxPriceTooLow",
			"Your Spot request price of 0.001 is lower than the minimum required Spot request fulfillment price of"},
		{"spot price is no number", run(func(in *ec2.RunInstancesInput) {
			in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: "spot",
				SpotOptions: &types.SpotMarketOptions{MaxPrice: s("cheap")}}
		}), "InvalidParameterValue", "cheap"},

		{"no device index", ports(types.InstanceNetworkInterfaceSpecification{SubnetId: &subnet}), "MissingParameter",
			"deviceIndex"},
		{"no primary interface", ports(port(1, nil)), "InvalidParameterCombination", "device index 0"},
		{"two primary interfaces", ports(port(0, nil), port(0, nil)), "InvalidParameterValue",
			"Each network interface requires a unique device index."},
		{"more interfaces than the type has", ports(port(0, nil), port(1, nil), port(2, nil), port(3, nil)),
			"AttachmentLimitExceeded", "Interface count 4 exceeds the limit for m5.large"},
		{"more addresses than the type has",
			ports(port(0,
				func(p *types.InstanceNetworkInterfaceSpecification) {
					p.SecondaryPrivateIpAddressCount = aws.Int32(
						10)
				})), "PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit."},
		{"more prefixes than the type has",
			ports(port(0, func(p *types.InstanceNetworkInterfaceSpecification) { p.Ipv4PrefixCount = aws.Int32(10) })),
			"PrivateIpAddressLimitExceeded", ""},
		{"interfaces of two VPCs", ports(port(0, nil),
			port(1, func(p *types.InstanceNetworkInterfaceSpecification) { p.SubnetId = &foreign })),
			"InvalidParameterCombination", "same VPC"},
		{"interfaces of two zones", ports(port(0, nil),
			port(1, func(p *types.InstanceNetworkInterfaceSpecification) { p.SubnetId = &second })),
			"InvalidParameterCombination", "same availability zone"},
		{"public address for two interfaces",
			ports(port(0, func(p *types.InstanceNetworkInterfaceSpecification) {
				p.AssociatePublicIpAddress = aws.Bool(
					true)
			}), port(1, nil)), "InvalidParameterCombination",
			"The associatePublicIPAddress parameter cannot be specified when launching with multiple network " +
				"interfaces."},
		{"interfaces and a subnet", run(func(in *ec2.RunInstancesInput) {
			in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{port(0, nil)}
		}), "InvalidParameterCombination",
			"Network interfaces and an instance-level subnet ID may not be specified on the same request"},
		{"interfaces and groups", run(func(in *ec2.RunInstancesInput) {
			in.SubnetId, in.SecurityGroupIds, in.NetworkInterfaces = nil, []string{group},
				[]types.InstanceNetworkInterfaceSpecification{port(0, nil)}
		}), "InvalidParameterCombination",
			"Network interfaces and an instance-level security groups may not be specified on the same request"},
		{"interface in use", ports(types.InstanceNetworkInterfaceSpecification{DeviceIndex: aws.Int32(0),
			NetworkInterfaceId: primary.NetworkInterfaceId}), "InvalidNetworkInterface.InUse", "Interface: [" +
			*primary.NetworkInterfaceId + "] in use."},
		{"interface unknown", ports(types.InstanceNetworkInterfaceSpecification{DeviceIndex: aws.Int32(0),
			NetworkInterfaceId: s("eni-" + gone)}), "InvalidNetworkInterfaceID.NotFound", gone},
		{"one interface for two", run(func(in *ec2.RunInstancesInput) {
			in.SubnetId, in.MaxCount = nil, aws.Int32(2)
			in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0),
				NetworkInterfaceId: loose.NetworkInterfaceId}}
		}), "InvalidParameterCombination", "one instance only"},
		{"private address taken",
			run(func(in *ec2.RunInstancesInput) { in.PrivateIpAddress = primary.PrivateIpAddress }),
			"InvalidIPAddress.InUse", "Address " + *primary.PrivateIpAddress + " is in use."},
		{"private address elsewhere", run(func(in *ec2.RunInstancesInput) { in.PrivateIpAddress = s("10.9.0.1") }),
			"InvalidParameterValue", "Address does not fall within the subnet's address range"},
		{"one private address for two", run(func(in *ec2.RunInstancesInput) {
			in.PrivateIpAddress,
				in.MaxCount = s("10.0.0.99"), aws.Int32(2)
		}), "InvalidParameterCombination", "more than one instance"},

		{"volume smaller than its snapshot", disk("/dev/xvda", types.EbsBlockDevice{VolumeSize: aws.Int32(8)}),
			"InvalidBlockDeviceMapping", "Volume of size 8GB is smaller than snapshot"},
		{"volume without a size", disk("/dev/xvdb", types.EbsBlockDevice{Encrypted: aws.Bool(true)}),
			"MissingParameter", "volumeSize"},
		{"volume too large", disk("/dev/xvdb", types.EbsBlockDevice{VolumeSize: aws.Int32(70000), VolumeType: "gp3"}),
			"InvalidParameterValue", "Volume of 70000GiB is invalid for volume type gp3"},
		{"volume type unknown", disk("/dev/xvdb", types.EbsBlockDevice{VolumeSize: aws.Int32(8), VolumeType: "gp9"}),
			"UnknownVolumeType", "Unsupported volume type 'gp9' for volume creation."},
		{"volume without iops", disk("/dev/xvdb", types.EbsBlockDevice{VolumeSize: aws.Int32(8), VolumeType: "io1"}),
			"MissingParameter", "The parameter iops must be specified for io1 volumes."},
		{"volume with iops", disk("/dev/xvdb", types.EbsBlockDevice{VolumeSize: aws.Int32(8), VolumeType: "gp2",
			Iops: aws.Int32(100)}), "InvalidParameterCombination",
			"The parameter iops is not supported for gp2 volumes."},
		{"snapshot unknown", disk("/dev/xvdb", types.EbsBlockDevice{SnapshotId: s("snap-" + gone)}),
			"InvalidSnapshot.NotFound", gone},
		{"root device left out", run(func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: s("/dev/xvda"), NoDevice: s("")}}
		}), "InvalidBlockDeviceMapping", "/dev/xvda"},
		{"launch with too many devices", run(func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = slices.Repeat(
				[]types.BlockDeviceMapping{{DeviceName: s("/dev/xvdb"), NoDevice: s("")}}, 201)
		}), "InvalidBlockDeviceMapping", "201 block device mappings"},
		{"device twice", run(func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: s("/dev/xvdb"),
				Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(1)}},
				{DeviceName: s("/dev/xvdb"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(1)}}}
		}), "InvalidBlockDeviceMapping", "/dev/xvdb"},

		{"template unknown", from(types.LaunchTemplateSpecification{LaunchTemplateId: s("lt-" + gone)}),
			"InvalidLaunchTemplateId.NotFound",
			"The specified launch template, with template ID lt-0123456789abcdef0, does not exist."},
		{"template malformed", from(types.LaunchTemplateSpecification{LaunchTemplateId: s("nodes")}),
			"InvalidLaunchTemplateId.Malformed", "nodes"},
		{"template name unknown", from(types.LaunchTemplateSpecification{LaunchTemplateName: s("none")}),
			"InvalidLaunchTemplateName.NotFoundException",
			"The specified launch template, with template name none, does not exist."},
		{"template named twice", from(types.LaunchTemplateSpecification{LaunchTemplateName: s("nodes"),
			LaunchTemplateId: &template}), "InvalidParameterCombination", ""},
		{"template not named", from(types.LaunchTemplateSpecification{Version: s("1")}), "MissingParameter", ""},
		{"template version unknown", from(types.LaunchTemplateSpecification{LaunchTemplateId: &template,
			Version: s("9")}), "InvalidLaunchTemplateId.VersionNotFound",
			"Could not find the specified version 9 for the launch template with ID " + template + "."},
		{"template with interfaces and a subnet", from(types.LaunchTemplateSpecification{LaunchTemplateId: &ported}),
			"InvalidParameterCombination", "instance-level subnet ID"},
		{"template that asks for any type", run(func(in *ec2.RunInstancesInput) {
			in.InstanceType, in.LaunchTemplate = "", &types.LaunchTemplateSpecification{LaunchTemplateId: &anyType}
		}), "InvalidParameterCombination", "InstanceRequirements"},

		{"instance unknown", describe(ec2.DescribeInstancesInput{InstanceIds: []string{"i-" + gone}}),
			"InvalidInstanceID.NotFound", "The instance ID 'i-0123456789abcdef0' does not exist"},
		{"two instances unknown", describe(ec2.DescribeInstancesInput{InstanceIds: []string{"i-" + gone, "i-00000000",
			id}}), "InvalidInstanceID.NotFound", "The instance IDs 'i-00000000, i-0123456789abcdef0' do not exist"},
		{"instance id malformed", describe(ec2.DescribeInstancesInput{InstanceIds: []string{"web"}}),
			"InvalidInstanceID.Malformed", `Invalid id: "web" (expecting "i-...")`},
		{"instance filter unknown", describe(ec2.DescribeInstancesInput{Filters: []types.Filter{ec2test.Filter("color",
			"blue")}}), "InvalidParameterValue", "The filter 'color' is invalid"},
		{"page of named instances", describe(ec2.DescribeInstancesInput{InstanceIds: []string{id},
			MaxResults: aws.Int32(5)}), "InvalidParameterCombination", "instancesSet"},
		{"page too small", describe(ec2.DescribeInstancesInput{MaxResults: aws.Int32(1)}), "InvalidParameterValue",
			"maxResults"},
		{"terminate none", func() error {
			_, err := w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{}})
			return err
		}, "MissingParameter", "InstanceId"},
		{"terminate an unknown one and another", func() error {
			_, err := w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id, "i-" + gone}})
			return err
		}, "InvalidInstanceID.NotFound", gone},
		{"terminate a protected one and another", func() error {
			_, err := w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id, guarded}})
			return err
		}, "OperationNotPermitted", "The instance '" + guarded +
			"' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again."},
		{"stop a protected one", func() error {
			_, err := w.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{guarded}})
			return err
		}, "OperationNotPermitted", "'disableApiStop'"},
		{"stop a spot instance", func() error {
			_, err := w.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{*spot.InstanceId}})
			return err
		}, "UnsupportedOperation", "You can't stop the Spot Instance '" + *spot.InstanceId + "'"},
		{"hibernate", func() error {
			_, err := w.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id},
				Hibernate: aws.Bool(true)})
			return err
		}, "UnsupportedHibernationConfiguration", ""},
		{"stop a terminated one", func() error {
			_, err := w.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{ended}})
			return err
		}, "IncorrectInstanceState", "The instance '" + ended + "' is not in a state from which it can be stopped."},
		{"start a terminated one", func() error {
			_, err := w.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{ended}})
			return err
		}, "IncorrectInstanceState", "The instance '" + ended + "' is not in a state from which it can be started."},
		{"reboot a terminated one", func() error {
			_, err := w.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{ended}})
			return err
		}, "IncorrectInstanceState", ended},
		{"modify a terminated one", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &ended,
			DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(true)}}), "IncorrectInstanceState",
			ended},
		{"console of an unknown one", func() error {
			_, err := w.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: s("i-" + gone)})
			return err
		}, "InvalidInstanceID.NotFound", gone},

		{"no attribute", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id}), "MissingParameter", "attribute"},
		{"two attributes", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id, Groups: []string{group},
			EbsOptimized: &types.AttributeBooleanValue{Value: aws.Bool(true)}}), "InvalidParameterCombination", ""},
		{"type of a running instance", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id,
			InstanceType: &types.AttributeValue{Value: s("m5.xlarge")}}), "IncorrectInstanceState", "The instance '" +
			id + "' is not in the 'stopped' state."},
		{"user data of a running instance",
			modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id,
				UserData: &types.SecureBlobAttributeValue{Value: []byte("x")}}), "IncorrectInstanceState", ""},
		{"attribute by an unknown name", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id, Attribute: "color",
			Value: s("blue")}), "InvalidParameterValue", "color"},
		{"groups of another VPC", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id,
			Groups: []string{foreignGroup}}), "InvalidParameter", "different networks"},
		{"device unknown", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id,
			BlockDeviceMappings: []types.InstanceBlockDeviceMappingSpecification{{DeviceName: s("/dev/xvdz")}}}),
			"InvalidInstanceAttributeValue", "No device is currently mapped at /dev/xvdz"},
		{"attribute shown that is none", func() error {
			_, err := w.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: &id,
				Attribute: "color"})
			return err
		}, "InvalidParameterValue", "color"},
		{"hops", func() error {
			_, err := w.ModifyInstanceMetadataOptions(ctx, &ec2.ModifyInstanceMetadataOptionsInput{InstanceId: &id,
				HttpPutResponseHopLimit: aws.Int32(0)})
			return err
		}, "InvalidParameterValue", "HttpPutResponseHopLimit"},
		{"hostname of a running instance", func() error {
			_, err := w.ModifyPrivateDnsNameOptions(ctx, &ec2.ModifyPrivateDnsNameOptionsInput{InstanceId: &id,
				PrivateDnsHostnameType: types.HostnameTypeResourceName})
			return err
		}, "IncorrectInstanceState", ""},
		{"profile of an instance that has one", func() error {
			_, err := w.AssociateIamInstanceProfile(ctx,
				&ec2.AssociateIamInstanceProfileInput{InstanceId: placed.InstanceId,
					IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: s("nodes")}})
			return err
		}, "IncorrectState", "There is an existing association for instance " + *placed.InstanceId},
		{"profile association unknown", func() error {
			_, err := w.DisassociateIamInstanceProfile(ctx,
				&ec2.DisassociateIamInstanceProfileInput{AssociationId: s("iip-assoc-" + gone)})
			return err
		}, "InvalidAssociationID.NotFound", gone},
		{"profile replaced by none", func() error {
			_, err := w.ReplaceIamInstanceProfileAssociation(ctx,
				&ec2.ReplaceIamInstanceProfileAssociationInput{AssociationId: association,
					IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: s("none")}})
			return err
		}, "InvalidParameterValue", "Invalid IAM Instance Profile name"},
		{"credits of an instance without", func() error {
			_, err := w.DescribeInstanceCreditSpecifications(ctx,
				&ec2.DescribeInstanceCreditSpecificationsInput{InstanceIds: []string{id}})
			return err
		}, "InvalidParameterCombination", "credit"},

		{"attach to an unknown instance", attach("i-"+gone, *loose.NetworkInterfaceId, 1), "InvalidInstanceID.NotFound",
			gone},
		{"attach to a terminated instance", attach(ended, *loose.NetworkInterfaceId, 1), "IncorrectInstanceState",
			ended},
		{"attach what is attached", attach(id, *primary.NetworkInterfaceId, 1), "InvalidNetworkInterface.InUse", ""},
		{"attach in another zone", attach(id, *far.NetworkInterfaceId, 1), "InvalidParameterCombination",
			"You may not attach a network interface to an instance if they are not in the same availability zone"},
		{"attach where something is", attach(id, *loose.NetworkInterfaceId, 0), "InvalidParameterValue", "Instance '" +
			id + "' already has an interface attached at device index '0'."},
		{"attach with too many addresses", attach(id, full, 1), "PrivateIpAddressLimitExceeded",
			"Number of private addresses will exceed limit."},
		{"more addresses than the type has, later", func() error {
			_, err := w.AssignPrivateIpAddresses(ctx,
				&ec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: primary.NetworkInterfaceId,
					SecondaryPrivateIpAddressCount: aws.Int32(10)})
			return err
		}, "PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit."},
		{"detach the primary interface", func() error {
			_, err := w.DetachNetworkInterface(ctx,
				&ec2.DetachNetworkInterfaceInput{AttachmentId: primary.Attachment.AttachmentId})
			return err
		}, "OperationNotPermitted",
			"The network interface at device index 0 and networkCard index 0 cannot be detached."},
		{"delete an interface in use", func() error {
			_, err := w.DeleteNetworkInterface(ctx,
				&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: primary.NetworkInterfaceId})
			return err
		}, "InvalidParameterValue", "is currently in use."},
		{"volume unknown", func() error {
			_, err := w.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{"vol-" + gone}})
			return err
		}, "InvalidVolume.NotFound", "The volume 'vol-0123456789abcdef0' does not exist."},
		{"delete a volume in use", func() error {
			_,
				err := w.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &volume})
			return err
		}, "VolumeInUse", "is currently attached to " + id},

		{"template with a strange name", newTemplate("my nodes!", &types.RequestLaunchTemplateData{ImageId: &x86}),
			"InvalidLaunchTemplateName.MalformedException", "between 3 and 128 characters"},
		{"template of a name that is taken", newTemplate("nodes", &types.RequestLaunchTemplateData{ImageId: &x86}),
			"InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use."},
		{"template with bad user data", newTemplate("data", &types.RequestLaunchTemplateData{UserData: s("#!/bin/sh")}),
			"InvalidUserData.Malformed", ""},
		{"template with strange tags", newTemplate("data",
			&types.RequestLaunchTemplateData{TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{
				{ResourceType: types.ResourceTypeVpc}}}), "InvalidParameterValue",
			"'vpc' is not a valid taggable resource type"},
		{"template with a type and requirements",
			newTemplate("data", &types.RequestLaunchTemplateData{InstanceType: "m5.large",
				InstanceRequirements: &types.InstanceRequirementsRequest{
					VCpuCount: &types.VCpuCountRangeRequest{Min: aws.Int32(2)},
					MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(4096)},
				}}), "InvalidParameterCombination", ""},
		{"templates of unknown names", func() error {
			_, err := w.DescribeLaunchTemplates(ctx,
				&ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"none"}})
			return err
		}, "InvalidLaunchTemplateName.NotFoundException",
			"At least one of the launch templates specified in the request does not exist."},
		{"version of an unknown source", func() error {
			_, err := w.CreateLaunchTemplateVersion(ctx,
				&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: &template, SourceVersion: s("7"),
					LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: &x86}})
			return err
		}, "InvalidLaunchTemplateId.VersionNotFound", ""},
		{"default version unknown", func() error {
			_, err := w.ModifyLaunchTemplate(ctx, &ec2.ModifyLaunchTemplateInput{LaunchTemplateId: &template,
				DefaultVersion: s("7")})
			return err
		}, "InvalidLaunchTemplateId.VersionNotFound", ""},
		{"versions of no template", func() error {
			_, err := w.DescribeLaunchTemplateVersions(ctx,
				&ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"1"}})
			return err
		}, "MissingParameter", ""},
		{"delete an unknown template", func() error {
			_, err := w.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: s("none")})
			return err
		}, "InvalidLaunchTemplateName.NotFoundException", "none"},

		{"fleet that is maintained", fleet(func(in *ec2.CreateFleetInput) { in.Type = "" }), "UnsupportedOperation",
			"Auto Scaling group"},
		{"fleet of nothing",
			fleet(func(in *ec2.CreateFleetInput) { in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(0) }),
			"InvalidTargetCapacitySpecification", ""},
		{"fleet with more parts than the whole",
			fleet(func(in *ec2.CreateFleetInput) { in.TargetCapacitySpecification.SpotTargetCapacity = aws.Int32(2) }),
			"InvalidTargetCapacitySpecification", ""},
		{"fleet of an unknown template", fleet(func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateId = s("lt-" + gone)
		}), "InvalidLaunchTemplateId.NotFound", ""},
		{"fleet of too many subnets", fleet(func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].Overrides = []types.FleetLaunchTemplateOverridesRequest{{
				InstanceType: types.InstanceTypeM5Large, SubnetId: s(strings.Repeat(",", 10_000))}}
		}), "InvalidParameterValue", "more than 10000 combinations of an instance type and a subnet"},
		{"fleet that tags a subnet", fleet(func(in *ec2.CreateFleetInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeSubnet}}
		}), "InvalidParameterValue", "'subnet' is not a valid taggable resource type"},
		{"fleet unknown", func() error {
			_, err := w.DescribeFleets(ctx,
				&ec2.DescribeFleetsInput{FleetIds: []string{"fleet-01234567-89ab-cdef-0123-456789abcdef"}})
			return err
		}, "InvalidFleetId.NotFound", "fleet-01234567-89ab-cdef-0123-456789abcdef"},
		{"spot request unknown", func() error {
			_, err := w.CancelSpotInstanceRequests(ctx,
				&ec2.CancelSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{"sir-01234567"}})
			return err
		}, "InvalidSpotInstanceRequestID.NotFound", "sir-01234567"},
		{"spot request of yesterday", func() error {
			_, err := w.RequestSpotInstances(ctx,
				&ec2.RequestSpotInstancesInput{LaunchSpecification: &types.RequestSpotLaunchSpecification{ImageId: &x86,
					InstanceType: "m5.large"}, InstanceCount: aws.Int32(0)})
			return err
		}, "InvalidParameterValue", "instanceCount"},
		{"placement group exists", func() error {
			_, err := w.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: s("rack"),
				Strategy: "spread"})
			return err
		}, "InvalidPlacementGroup.Duplicate", "The Placement Group 'rack' already exists."},
		{"placement group in use", func() error {
			_, err := w.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{GroupName: s("rack")})
			return err
		}, "InvalidPlacementGroup.InUse", "rack"},
		{"too many partitions", func() error {
			_, err := w.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: s("p"),
				Strategy: "partition", PartitionCount: aws.Int32(8)})
			return err
		}, "InvalidParameterValue", "partitionCount"},
		{"instance types unknown", func() error {
			_, err := w.DescribeInstanceTypes(ctx,
				&ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m5.large", "m5.enormous"}})
			return err
		}, "InvalidInstanceType", "The following supplied instance types do not exist: [m5.enormous]"},
		{"images unknown", func() error {
			_, err := w.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{"ami-" + gone}})
			return err
		}, "InvalidAMIID.NotFound", gone},
		{"requirements the wrong way round",
			requirements(func(q *types.InstanceRequirementsRequest) { q.VCpuCount.Min = aws.Int32(8) }),
			"InvalidParameterValue", "VCpuCount"},
		{"requirements that allow and exclude", requirements(func(q *types.InstanceRequirementsRequest) {
			q.AllowedInstanceTypes, q.ExcludedInstanceTypes = []string{"m*"}, []string{"c*"}
		}), "InvalidParameterCombination", ""},
	})
}
