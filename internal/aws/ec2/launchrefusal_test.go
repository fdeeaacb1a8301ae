package ec2_test

import (
	"encoding/base64"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

// launchRefusals returns the requests to launch instances that AWS refuses.
func launchRefusals(f *instanceFixture) []refused {
	w := f.Fixture
	ctx := f.Context()
	s := aws.String
	subnet, second, foreign, tiny, group := f.subnet, f.second, f.foreign, f.tiny, f.group
	foreignGroup, x86, arm, template, ported := f.foreignGroup, f.x86, f.arm, f.template, f.ported
	anyType, primary, loose := f.anyType, f.primary, f.loose
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
	large := base64.StdEncoding.EncodeToString(make([]byte, 16385))
	return []refused{
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
		}), "InvalidGroup.NotFound", "The security group 'web' does not exist in default VPC"},
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
			"InvalidParameterValue", "Volume of 70000GiB is too large for volume type gp3"},
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
		{"many security groups", run(func(in *ec2.RunInstancesInput) {
			in.SecurityGroupIds = slices.Repeat([]string{"sg-" + gone}, 1000)
		}), "SecurityGroupsPerInterfaceLimitExceeded", "1000 security groups"},
		{"many security groups of an interface", run(func(in *ec2.RunInstancesInput) {
			in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0),
				Groups: slices.Repeat([]string{"sg-" + gone}, 1000)}}
		}), "SecurityGroupsPerInterfaceLimitExceeded", "1000 security groups"},
		{"many interfaces", run(func(in *ec2.RunInstancesInput) {
			in.NetworkInterfaces = slices.Repeat([]types.InstanceNetworkInterfaceSpecification{{
				DeviceIndex: aws.Int32(0)}}, 129)
		}), "AttachmentLimitExceeded", "129 network interfaces"},
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
	}
}
