package ec2_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"golang.org/x/crypto/ssh"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

// noDryRun stands for an operation whose requests have no DryRun.
const noDryRun = "-"

// dryRuns has a request that would succeed for every operation that is served, as its parameters: $NAME stands for a
// resource of createOneOfEach.
var dryRuns = map[string]string{
	"AllocateAddress":             "Domain=vpc",
	"AssignIpv6Addresses":         noDryRun,
	"AssignPrivateIpAddresses":    noDryRun,
	"AssociateAddress":            "AllocationId=$ADDRESS&NetworkInterfaceId=$ENI",
	"AssociateDhcpOptions":        "DhcpOptionsId=$OPTIONS&VpcId=$VPC",
	"AssociateIamInstanceProfile": noDryRun,
	"AssociateRouteTable":         "RouteTableId=$TABLE&SubnetId=$FREE_SUBNET",
	"AssociateSubnetCidrBlock":    noDryRun,
	"AssociateTrunkInterface":     "BranchInterfaceId=$ENI&TrunkInterfaceId=$TRUNK&VlanId=2",
	"AssociateVpcCidrBlock":       noDryRun,
	"AttachInternetGateway":       "InternetGatewayId=$FREE_GATEWAY&VpcId=$EMPTY_VPC",
	"AttachNetworkInterface":      "DeviceIndex=2&InstanceId=$INSTANCE&NetworkInterfaceId=$ENI",
	"AttachVolume":                "Device=/dev/sdg&InstanceId=$INSTANCE&VolumeId=$VOLUME",
	"AuthorizeSecurityGroupEgress": "GroupId=$GROUP&IpPermissions.1.IpProtocol=tcp&IpPermissions.1.FromPort=443" +
		"&IpPermissions.1.ToPort=443&IpPermissions.1.IpRanges.1.CidrIp=10.0.0.0/8",
	"AuthorizeSecurityGroupIngress": "GroupId=$GROUP&IpPermissions.1.IpProtocol=tcp&IpPermissions.1.FromPort=443" +
		"&IpPermissions.1.ToPort=443&IpPermissions.1.IpRanges.1.CidrIp=10.0.0.0/8",
	"CancelSpotInstanceRequests": "SpotInstanceRequestId.1=$SPOT",
	"CopySnapshot":               "SourceRegion=eu-west-1&SourceSnapshotId=$SNAPSHOT",
	"CopyVolumes":                "SourceVolumeId=$VOLUME",
	"CreateDefaultSubnet":        "AvailabilityZone=eu-west-1a",
	"CreateDefaultVpc":           "Region=eu-west-2",
	"CreateDhcpOptions": "DhcpConfiguration.1.Key=domain-name&DhcpConfiguration.1.Value.1=" +
		"example.com",
	"CreateEgressOnlyInternetGateway": "VpcId=$VPC",
	"CreateFleet": "Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1" +
		"&TargetCapacitySpecification.DefaultTargetCapacityType=on-demand" +
		"&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateId=$TEMPLATE" +
		"&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1" +
		"&LaunchTemplateConfigs.1.Overrides.1.SubnetId=$SUBNET",
	"CreateInternetGateway":       "",
	"CreateKeyPair":               "KeyName=other",
	"CreateLaunchTemplate":        "LaunchTemplateName=other&LaunchTemplateData.InstanceType=m5.large",
	"CreateLaunchTemplateVersion": "LaunchTemplateId=$TEMPLATE&LaunchTemplateData.InstanceType=m5.large",
	"CreateNatGateway":            "SubnetId=$SUBNET&AllocationId=$ADDRESS",
	"CreateNetworkAcl":            "VpcId=$VPC",
	"CreateNetworkAclEntry": "NetworkAclId=$ACL&RuleNumber=200&Protocol=-1&RuleAction=allow&Egress=true" +
		"&CidrBlock=10.0.0.0/8",
	"CreateNetworkInsightsPath": "Source=$GATEWAY&Destination=$INSTANCE&Protocol=tcp&DestinationPort=443" +
		"&ClientToken=token",
	"CreateNetworkInterface":          "SubnetId=$SUBNET",
	"CreatePlacementGroup":            "GroupName=other&Strategy=cluster",
	"CreateRoute":                     "RouteTableId=$TABLE&DestinationCidrBlock=0.0.0.0/0&GatewayId=$GATEWAY",
	"CreateRouteTable":                "VpcId=$VPC",
	"CreateSecurityGroup":             "GroupName=other&GroupDescription=other&VpcId=$VPC",
	"CreateSnapshot":                  "VolumeId=$VOLUME",
	"CreateSnapshots":                 "InstanceSpecification.InstanceId=$INSTANCE",
	"CreateSubnet":                    "VpcId=$VPC&CidrBlock=10.0.200.0/24",
	"CreateTags":                      "ResourceId.1=$VPC&Tag.1.Key=a&Tag.1.Value=b",
	"CreateVolume":                    "AvailabilityZone=eu-west-1a&Size=1",
	"CreateVpc":                       "CidrBlock=10.9.0.0/16",
	"CreateVpcEndpoint":               "VpcId=$VPC&ServiceName=com.amazonaws.eu-west-1.s3&RouteTableId.1=$FREE_TABLE",
	"DeleteDhcpOptions":               "DhcpOptionsId=$OPTIONS",
	"DeleteEgressOnlyInternetGateway": "EgressOnlyInternetGatewayId=$EGRESS_GATEWAY",
	"DeleteFleets":                    "FleetId.1=$FLEET&TerminateInstances=true",
	"DeleteInternetGateway":           "InternetGatewayId=$FREE_GATEWAY",
	"DeleteKeyPair":                   "KeyName=key",
	"DeleteLaunchTemplate":            "LaunchTemplateId=$TEMPLATE",
	"DeleteLaunchTemplateVersions":    "LaunchTemplateId=$TEMPLATE&LaunchTemplateVersion.1=2",
	"DeleteNatGateway":                "NatGatewayId=$NAT",
	"DeleteNetworkAcl":                "NetworkAclId=$FREE_ACL",
	"DeleteNetworkAclEntry":           "NetworkAclId=$ACL&RuleNumber=100&Egress=false",
	"DeleteNetworkInsightsAnalysis":   "NetworkInsightsAnalysisId=$ANALYSIS",
	"DeleteNetworkInsightsPath":       "NetworkInsightsPathId=$FREE_PATH",
	"DeleteNetworkInterface":          "NetworkInterfaceId=$ENI",
	"DeletePlacementGroup":            "GroupName=rack",
	"DeleteRoute":                     "RouteTableId=$TABLE&DestinationCidrBlock=192.168.0.0/16",
	"DeleteRouteTable":                "RouteTableId=$FREE_TABLE",
	"DeleteSecurityGroup":             "GroupId=$FREE_GROUP",
	"DeleteSnapshot":                  "SnapshotId=$SNAPSHOT",
	"DeleteSubnet":                    "SubnetId=$FREE_SUBNET",
	"DeleteTags":                      "ResourceId.1=$VPC&Tag.1.Key=a",
	"DeleteVolume":                    "VolumeId=$VOLUME",
	"DeleteVpc":                       "VpcId=$EMPTY_VPC",
	"DeleteVpcEndpoints":              "VpcEndpointId.1=$ENDPOINT",

	"DescribeAccountAttributes":              "",
	"DescribeAddresses":                      "",
	"DescribeAddressesAttribute":             "AllocationId.1=$ADDRESS&Attribute=domain-name",
	"DescribeAvailabilityZones":              "",
	"DescribeDhcpOptions":                    "",
	"DescribeEgressOnlyInternetGateways":     "",
	"DescribeFleetInstances":                 "FleetId=$FLEET",
	"DescribeFleets":                         "",
	"DescribeIamInstanceProfileAssociations": noDryRun,
	"DescribeImages":                         "ImageId.1=$IMAGE",
	"DescribeInstanceAttribute":              "InstanceId=$INSTANCE&Attribute=userData",
	"DescribeInstanceCreditSpecifications":   "",
	"DescribeInstanceStatus":                 "",
	"DescribeInstanceTypeOfferings":          "",
	"DescribeInstanceTypes":                  "",
	"DescribeInstances":                      "InstanceId.1=$INSTANCE",
	"DescribeInternetGateways":               "",
	"DescribeKeyPairs":                       "",
	"DescribeLaunchTemplateVersions":         "LaunchTemplateId=$TEMPLATE",
	"DescribeLaunchTemplates":                "",
	"DescribeManagedPrefixLists":             "",
	"DescribeNatGateways":                    "",
	"DescribeNetworkAcls":                    "",
	"DescribeNetworkInterfaceAttribute":      "NetworkInterfaceId=$ENI&Attribute=description",
	"DescribeNetworkInsightsAnalyses":        "NetworkInsightsPathId=$PATH",
	"DescribeNetworkInsightsPaths":           "",
	"DescribeNetworkInterfaces":              "",
	"DescribePlacementGroups":                "",
	"DescribePrefixLists":                    "",
	"DescribeRegions":                        "",
	"DescribeRouteTables":                    "",
	"DescribeSecurityGroupRules":             "",
	"DescribeSecurityGroups":                 "",
	"DescribeSnapshotAttribute":              "SnapshotId=$SNAPSHOT&Attribute=createVolumePermission",
	"DescribeSnapshots":                      "",
	"DescribeSpotInstanceRequests":           "",
	"DescribeSpotPriceHistory":               "",
	"DescribeSubnets":                        "",
	"DescribeTags":                           "",
	"DescribeVolumeAttribute":                "VolumeId=$VOLUME&Attribute=autoEnableIO",
	"DescribeTrunkInterfaceAssociations":     "",
	"DescribeVolumeStatus":                   "",
	"DescribeVolumes":                        "",
	"DescribeVolumesModifications":           "",
	"DescribeVpcAttribute":                   "VpcId=$VPC&Attribute=enableDnsSupport",
	"DescribeVpcEndpointServices":            "",
	"DescribeVpcEndpoints":                   "",
	"DescribeVpcs":                           "",

	"DetachInternetGateway":          "InternetGatewayId=$OTHER_GATEWAY&VpcId=$OTHER_VPC",
	"DetachNetworkInterface":         "AttachmentId=$ATTACHMENT",
	"DetachVolume":                   "VolumeId=$ATTACHED&InstanceId=$INSTANCE",
	"DisableEbsEncryptionByDefault":  "",
	"DisassociateAddress":            "AssociationId=$ADDRESS_ASSOCIATION",
	"DisassociateIamInstanceProfile": noDryRun,
	"DisassociateRouteTable":         "AssociationId=$TABLE_ASSOCIATION",
	"DisassociateSubnetCidrBlock":    noDryRun,
	"DisassociateTrunkInterface":     "AssociationId=$TRUNK_ASSOCIATION",
	"DisassociateVpcCidrBlock":       noDryRun,
	"EnableEbsEncryptionByDefault":   "",
	"GetConsoleOutput":               "InstanceId=$INSTANCE",
	"GetEbsDefaultKmsKeyId":          "",
	"GetEbsEncryptionByDefault":      "",
	"GetInstanceTypesFromInstanceRequirements": "ArchitectureType.1=x86_64&VirtualizationType.1=hvm" +
		"&InstanceRequirements.VCpuCount.Min=2&InstanceRequirements.MemoryMiB.Min=1024",
	"GetLaunchTemplateData":       "InstanceId=$INSTANCE",
	"GetManagedPrefixListEntries": "PrefixListId=$PREFIX_LIST",
	"GetSecurityGroupsForVpc":     "VpcId=$VPC",
	"ImportKeyPair":               "KeyName=other&PublicKeyMaterial=$PUBLIC_KEY",

	"ModifyAddressAttribute":           "AllocationId=$ADDRESS&DomainName=www.example.com.",
	"ModifyEbsDefaultKmsKeyId":         "KmsKeyId=$KEY",
	"ModifyInstanceAttribute":          "InstanceId=$INSTANCE&DisableApiTermination.Value=true",
	"ModifyInstanceMaintenanceOptions": "InstanceId=$INSTANCE&AutoRecovery=disabled",
	"ModifyInstanceMetadataOptions":    "InstanceId=$INSTANCE&HttpTokens=required",
	"ModifyLaunchTemplate":             "LaunchTemplateId=$TEMPLATE&SetDefaultVersion=2",
	"ModifyNetworkInterfaceAttribute":  "NetworkInterfaceId=$ENI&Description.Value=other",
	"ModifyPrivateDnsNameOptions":      "InstanceId=$STOPPED&EnableResourceNameDnsARecord=true",
	"ModifySecurityGroupRules": "GroupId=$GROUP&SecurityGroupRule.1.SecurityGroupRuleId=$INGRESS_RULE" +
		"&SecurityGroupRule.1.SecurityGroupRule.IpProtocol=tcp&SecurityGroupRule.1.SecurityGroupRule.FromPort=80" +
		"&SecurityGroupRule.1.SecurityGroupRule.ToPort=80&SecurityGroupRule.1.SecurityGroupRule.CidrIpv4=10.0.0.0/8",
	"ModifySnapshotAttribute": "SnapshotId=$SNAPSHOT&Attribute=createVolumePermission&OperationType=add" +
		"&UserId.1=444455556666",
	"ModifySubnetAttribute":                noDryRun,
	"ModifyVolume":                         "VolumeId=$VOLUME&Size=20",
	"ModifyVolumeAttribute":                "VolumeId=$VOLUME&AutoEnableIO.Value=true",
	"ModifyVpcAttribute":                   noDryRun,
	"ModifyVpcEndpoint":                    "VpcEndpointId=$ENDPOINT&ResetPolicy=true",
	"ModifyVpcTenancy":                     "VpcId=$VPC&InstanceTenancy=default",
	"MonitorInstances":                     "InstanceId.1=$INSTANCE",
	"RebootInstances":                      "InstanceId.1=$INSTANCE",
	"ReleaseAddress":                       "AllocationId=$ADDRESS",
	"ReplaceIamInstanceProfileAssociation": noDryRun,
	"ReplaceNetworkAclAssociation":         "AssociationId=$ACL_ASSOCIATION&NetworkAclId=$FREE_ACL",
	"ReplaceNetworkAclEntry": "NetworkAclId=$ACL&RuleNumber=100&Protocol=-1&RuleAction=deny&Egress=false" +
		"&CidrBlock=0.0.0.0/0",
	"ReplaceRoute":                 "RouteTableId=$TABLE&DestinationCidrBlock=192.168.0.0/16&GatewayId=$GATEWAY",
	"ReplaceRouteTableAssociation": "AssociationId=$TABLE_ASSOCIATION&RouteTableId=$FREE_TABLE",
	"RequestSpotInstances": "LaunchSpecification.ImageId=$IMAGE&LaunchSpecification.InstanceType=m5.large" +
		"&LaunchSpecification.SubnetId=$SUBNET",
	"ResetAddressAttribute":          "AllocationId=$ADDRESS&Attribute=domain-name",
	"ResetEbsDefaultKmsKeyId":        "",
	"ResetInstanceAttribute":         "InstanceId=$STOPPED&Attribute=sourceDestCheck",
	"ResetNetworkInterfaceAttribute": "NetworkInterfaceId=$ENI&SourceDestCheck=true",
	"ResetSnapshotAttribute":         "SnapshotId=$SNAPSHOT&Attribute=createVolumePermission",
	"RevokeSecurityGroupEgress": "GroupId=$GROUP&IpPermissions.1.IpProtocol=-1" +
		"&IpPermissions.1.IpRanges.1.CidrIp=0.0.0.0/0",
	"RevokeSecurityGroupIngress":   "GroupId=$GROUP&SecurityGroupRuleId.1=$INGRESS_RULE",
	"RunInstances":                 "ImageId=$IMAGE&InstanceType=m5.large&MinCount=1&MaxCount=1&SubnetId=$SUBNET",
	"StartInstances":               "InstanceId.1=$STOPPED",
	"StartNetworkInsightsAnalysis": "NetworkInsightsPathId=$PATH&ClientToken=token",
	"StopInstances":                "InstanceId.1=$INSTANCE",
	"TerminateInstances":           "InstanceId.1=$INSTANCE",
	"UnassignIpv6Addresses":        noDryRun,
	"UnassignPrivateIpAddresses":   noDryRun,
	"UnmonitorInstances":           "InstanceId.1=$INSTANCE",
	"UpdateSecurityGroupRuleDescriptionsEgress": "GroupId=$GROUP" +
		"&SecurityGroupRuleDescription.1.SecurityGroupRuleId=$EGRESS_RULE" +
		"&SecurityGroupRuleDescription.1.Description=other",
	"UpdateSecurityGroupRuleDescriptionsIngress": "GroupId=$GROUP" +
		"&SecurityGroupRuleDescription.1.SecurityGroupRuleId=$INGRESS_RULE" +
		"&SecurityGroupRuleDescription.1.Description=other",
}

// createOneOfEach creates the resources of dryRuns, and returns their IDs.
func createOneOfEach(w *ec2test.Fixture) map[string]string {
	w.T.Helper()
	ctx, s := w.Context(), aws.String
	startHardware(w)
	d := startDisks(w)
	v := map[string]string{"IMAGE": image(w.T, "x86_64")}
	vpc := *must(w, w.CreateVpc, &ec2.CreateVpcInput{CidrBlock: s("10.0.0.0/16"),
		AmazonProvidedIpv6CidrBlock: aws.Bool(true)}).Vpc.VpcId
	v["VPC"], v["OTHER_VPC"], v["EMPTY_VPC"] = vpc, w.VPC("10.1.0.0/16"), w.VPC("10.2.0.0/16")
	v["SUBNET"], v["FREE_SUBNET"] = w.Subnet(vpc, "10.0.0.0/24", "a"), w.Subnet(vpc, "10.0.1.0/24", "b")
	v["GROUP"], v["FREE_GROUP"] = w.SecurityGroup(vpc, "group"), w.SecurityGroup(vpc, "free")
	v["GATEWAY"], v["OTHER_GATEWAY"] = w.InternetGateway(vpc), w.InternetGateway(v["OTHER_VPC"])
	free := must(w, w.CreateInternetGateway, &ec2.CreateInternetGatewayInput{}).InternetGateway
	v["FREE_GATEWAY"] = *free.InternetGatewayId
	v["EGRESS_GATEWAY"] = *must(w, w.CreateEgressOnlyInternetGateway, &ec2.CreateEgressOnlyInternetGatewayInput{
		VpcId: &vpc}).EgressOnlyInternetGateway.EgressOnlyInternetGatewayId
	v["OPTIONS"] = *must(w, w.CreateDhcpOptions, &ec2.CreateDhcpOptionsInput{
		DhcpConfigurations: []types.NewDhcpConfiguration{{Key: s("domain-name"), Values: []string{"example.org"}}},
	}).DhcpOptions.DhcpOptionsId
	createRoutes(w, v)
	createAddresses(w, v)
	rules := must(w, w.AuthorizeSecurityGroupIngress, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: s(v["GROUP"]),
		IpProtocol: s("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22), CidrIp: s("10.0.0.0/8")})
	v["INGRESS_RULE"] = *rules.SecurityGroupRules[0].SecurityGroupRuleId
	for _, r := range must(w, w.DescribeSecurityGroupRules, &ec2.DescribeSecurityGroupRulesInput{
		Filters: []types.Filter{ec2test.Filter("group-id", v["GROUP"])}}).SecurityGroupRules {
		if *r.IsEgress {
			v["EGRESS_RULE"] = *r.SecurityGroupRuleId
		}
	}

	v["INSTANCE"] = *runInstance(w, ec2.RunInstancesInput{SubnetId: s(v["SUBNET"])}).InstanceId
	v["STOPPED"] = *runInstance(w, ec2.RunInstancesInput{SubnetId: s(v["SUBNET"])}).InstanceId
	waitForState(w, v["INSTANCE"], types.InstanceStateNameRunning)
	waitForState(w, v["STOPPED"], types.InstanceStateNameRunning)
	must(w, w.StopInstances, &ec2.StopInstancesInput{InstanceIds: []string{v["STOPPED"]}})
	waitForState(w, v["STOPPED"], types.InstanceStateNameStopped)
	v["ENI"] = *w.NetworkInterface(v["SUBNET"]).NetworkInterfaceId
	v["ATTACHMENT"] = *must(w, w.AttachNetworkInterface, &ec2.AttachNetworkInterfaceInput{InstanceId: s(v["INSTANCE"]),
		DeviceIndex: aws.Int32(1), NetworkInterfaceId: w.NetworkInterface(v["SUBNET"]).NetworkInterfaceId}).AttachmentId
	v["TRUNK"] = *must(w, w.CreateNetworkInterface, &ec2.CreateNetworkInterfaceInput{SubnetId: s(v["SUBNET"]),
		InterfaceType: types.NetworkInterfaceCreationTypeTrunk}).NetworkInterface.NetworkInterfaceId
	v["TRUNK_ASSOCIATION"] = *must(w, w.AssociateTrunkInterface, &ec2.AssociateTrunkInterfaceInput{
		BranchInterfaceId: w.NetworkInterface(v["SUBNET"]).NetworkInterfaceId, TrunkInterfaceId: s(v["TRUNK"]),
		VlanId: aws.Int32(1)}).InterfaceAssociation.AssociationId
	v["VOLUME"], v["ATTACHED"] = d.volume(ec2.CreateVolumeInput{}), d.volume(ec2.CreateVolumeInput{})
	v["SNAPSHOT"] = d.snapshot(v["VOLUME"])
	must(w, w.AttachVolume, &ec2.AttachVolumeInput{VolumeId: s(v["ATTACHED"]), InstanceId: s(v["INSTANCE"]),
		Device: s("/dev/sdf")})
	d.observe(v["ATTACHED"], 10, attachedTo(v["INSTANCE"], "/dev/sdf"))
	d.waitForVolume(v["ATTACHED"], types.VolumeStateInUse)

	data := types.RequestLaunchTemplateData{ImageId: s(v["IMAGE"]), InstanceType: "m5.large"}
	v["TEMPLATE"] = createLaunchTemplate(w, "template", data)
	must(w, w.CreateLaunchTemplateVersion, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: s(v["TEMPLATE"]),
		LaunchTemplateData: &data})
	v["FLEET"] = *must(w, w.CreateFleet, &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant, TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: "on-demand"},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateId: s(v["TEMPLATE"]), Version: s("1")},
			Overrides: []types.FleetLaunchTemplateOverridesRequest{{SubnetId: s(v["SUBNET"])}}}},
	}).FleetId
	spot := must(w, w.RequestSpotInstances, &ec2.RequestSpotInstancesInput{
		LaunchSpecification: &types.RequestSpotLaunchSpecification{ImageId: s(v["IMAGE"]), InstanceType: "m5.large",
			SubnetId: s(v["SUBNET"])}}).SpotInstanceRequests[0]
	v["SPOT"] = *spot.SpotInstanceRequestId
	for _, r := range must(w, w.DescribeInstances, &ec2.DescribeInstancesInput{}).Reservations {
		for _, i := range r.Instances {
			if *i.InstanceId != v["STOPPED"] {
				waitForState(w, *i.InstanceId, types.InstanceStateNameRunning)
			}
		}
	}
	must(w, w.CreatePlacementGroup, &ec2.CreatePlacementGroupInput{GroupName: s("rack"), Strategy: "cluster"})
	must(w, w.CreateKeyPair, &ec2.CreateKeyPairInput{KeyName: s("key")})
	v["PUBLIC_KEY"] = publicKey(w.T)
	key, err := w.KMS().CreateKey(ctx, &kms.CreateKeyInput{})
	if err != nil {
		w.T.Fatal(err)
	}
	v["KEY"] = *key.KeyMetadata.Arn
	v["PREFIX_LIST"] = *must(w, w.DescribeManagedPrefixLists,
		&ec2.DescribeManagedPrefixListsInput{}).PrefixLists[0].PrefixListId
	for _, name := range []string{"PATH", "FREE_PATH"} {
		v[name] = *must(w, w.CreateNetworkInsightsPath, &ec2.CreateNetworkInsightsPathInput{Protocol: types.ProtocolTcp,
			Source: s(v["GATEWAY"]), Destination: s(v["INSTANCE"])}).NetworkInsightsPath.NetworkInsightsPathId
	}
	v["ANALYSIS"] = *must(w, w.StartNetworkInsightsAnalysis, &ec2.StartNetworkInsightsAnalysisInput{
		NetworkInsightsPathId: s(v["PATH"])}).NetworkInsightsAnalysis.NetworkInsightsAnalysisId
	deleteDefaults(w)
	return v
}

// createRoutes creates route tables, network ACLs and an endpoint.
func createRoutes(w *ec2test.Fixture, v map[string]string) {
	w.T.Helper()
	s, vpc := aws.String, v["VPC"]
	table := func() string {
		return *must(w, w.CreateRouteTable, &ec2.CreateRouteTableInput{VpcId: &vpc}).RouteTable.RouteTableId
	}
	v["TABLE"], v["FREE_TABLE"] = table(), table()
	v["TABLE_ASSOCIATION"] = *must(w, w.AssociateRouteTable, &ec2.AssociateRouteTableInput{RouteTableId: s(v["TABLE"]),
		SubnetId: s(v["SUBNET"])}).AssociationId
	must(w, w.CreateRoute, &ec2.CreateRouteInput{RouteTableId: s(v["TABLE"]), GatewayId: s(v["GATEWAY"]),
		DestinationCidrBlock: s("192.168.0.0/16")})
	acl := must(w, w.DescribeNetworkAcls, &ec2.DescribeNetworkAclsInput{
		Filters: []types.Filter{ec2test.Filter("vpc-id", vpc)}}).NetworkAcls[0]
	v["ACL"], v["ACL_ASSOCIATION"] = *acl.NetworkAclId, *acl.Associations[0].NetworkAclAssociationId
	v["FREE_ACL"] = *must(w, w.CreateNetworkAcl, &ec2.CreateNetworkAclInput{VpcId: &vpc}).NetworkAcl.NetworkAclId
	v["ENDPOINT"] = *must(w, w.CreateVpcEndpoint, &ec2.CreateVpcEndpointInput{VpcId: &vpc,
		ServiceName: s("com.amazonaws.eu-west-1.s3"), RouteTableIds: []string{v["TABLE"]}}).VpcEndpoint.VpcEndpointId
}

// createAddresses creates elastic addresses and a NAT gateway.
func createAddresses(w *ec2test.Fixture, v map[string]string) {
	w.T.Helper()
	v["ADDRESS"] = *w.Address().AllocationId
	v["ADDRESS_ASSOCIATION"] = *must(w, w.AssociateAddress, &ec2.AssociateAddressInput{
		AllocationId: w.Address().AllocationId, NetworkInterfaceId: w.NetworkInterface(v["SUBNET"]).NetworkInterfaceId,
	}).AssociationId
	v["NAT"] = *must(w, w.CreateNatGateway, &ec2.CreateNatGatewayInput{SubnetId: aws.String(v["SUBNET"]),
		AllocationId: w.Address().AllocationId}).NatGateway.NatGatewayId
}

// deleteDefaults deletes the default VPC of eu-west-2, and a default subnet of eu-west-1.
func deleteDefaults(w *ec2test.Fixture) {
	w.T.Helper()
	ctx := w.Context()
	for _, region := range []string{"eu-west-1", "eu-west-2"} {
		c := w.NewClient(w.URL, region)
		isDefault := []types.Filter{ec2test.Filter("default-for-az", "true")}
		subnets := awstest.Must[*ec2.DescribeSubnetsOutput](w.T)(c.DescribeSubnets(ctx,
			&ec2.DescribeSubnetsInput{Filters: isDefault})).Subnets
		vpc := subnets[0].VpcId
		for _, subnet := range subnets {
			if region == "eu-west-2" || *subnet.AvailabilityZone == "eu-west-1a" {
				awstest.Must[any](w.T)(c.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: subnet.SubnetId}))
			}
		}
		if region == "eu-west-1" {
			continue
		}
		gateway := awstest.Must[*ec2.DescribeInternetGatewaysOutput](w.T)(c.DescribeInternetGateways(ctx,
			&ec2.DescribeInternetGatewaysInput{Filters: []types.Filter{ec2test.Filter("attachment.vpc-id", *vpc)}},
		)).InternetGateways[0].InternetGatewayId
		awstest.Must[any](w.T)(c.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: gateway,
			VpcId: vpc}))
		awstest.Must[any](w.T)(c.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: vpc}))
	}
}

// publicKey returns the content of a public key file, as a request has it.
func publicKey(t testing.TB) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(ssh.MarshalAuthorizedKey(key))
}

// must returns the answer of a call that must succeed.
func must[In, Out any](w *ec2test.Fixture, call func(context.Context, *In, ...func(*ec2.Options)) (*Out, error),
	in *In) *Out {
	w.T.Helper()
	return awstest.Must[*Out](w.T)(call(w.Context(), in))
}
