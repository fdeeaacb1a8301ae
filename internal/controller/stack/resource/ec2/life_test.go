package ec2_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/ec2"
)

const thingTags = `"Tags": [{"Key": "Name", "Value": "thing"}]`
const otherTags = `"Tags": [{"Key": "Name", "Value": "other"}]`

// lives are the lives of the types. A test compares them with the table of types.
var lives = []life{
	{
		kind:       "AWS::EC2::VPC",
		id:         "vpc-",
		properties: `{"CidrBlock": "10.1.0.0/16", "EnableDnsSupport": true, "EnableDnsHostnames": "true", ` + thingTags + `}`,
		update:     `{"CidrBlock": "10.1.0.0/16", "EnableDnsSupport": false, "EnableDnsHostnames": false, ` + otherTags + `}`,
		attributes: map[string]string{"VpcId": "*", "CidrBlock": "10.1.0.0/16", "CidrBlockAssociations": "*",
			"Ipv6CidrBlocks": "[]", "DefaultNetworkAcl": "*", "DefaultSecurityGroup": "*"},
	},
	{
		kind:       "AWS::EC2::VPCCidrBlock",
		id:         "vpc-cidr-assoc-",
		properties: `{"VpcId": "$vpc", "AmazonProvidedIpv6CidrBlock": true}`,
		attributes: map[string]string{"Id": "*", "IpSource": "amazon", "Ipv6AddressAttribute": "public"},
	},
	{
		kind: "AWS::EC2::Subnet",
		id:   "subnet-",
		properties: `{"VpcId": "$vpc", "CidrBlock": "10.0.8.0/24", "AvailabilityZone": "eu-west-1b",
			"MapPublicIpOnLaunch": true, ` + thingTags + `}`,
		update: `{"VpcId": "$vpc", "CidrBlock": "10.0.8.0/24", "AvailabilityZone": "eu-west-1b",
			"MapPublicIpOnLaunch": "false", "EnableDns64": false, "PrivateDnsNameOptionsOnLaunch":
			{"HostnameType": "resource-name", "EnableResourceNameDnsARecord": true}, ` + otherTags + `}`,
		attributes: map[string]string{"SubnetId": "*", "VpcId": "$vpc", "AvailabilityZone": "eu-west-1b",
			"AvailabilityZoneId": "*", "CidrBlock": "10.0.8.0/24", "Ipv6CidrBlocks": "[]", "NetworkAclAssociationId": "*",
			"OutpostArn": ""},
	},
	{
		kind:       "AWS::EC2::SubnetCidrBlock",
		setup:      func(w *fixture) { w.addIPv6() },
		id:         "subnet-cidr-assoc-",
		properties: `{"SubnetId": "$subnet", "Ipv6CidrBlock": "$six"}`,
		attributes: map[string]string{"Id": "*", "IpSource": "amazon", "Ipv6AddressAttribute": "public"},
	},
	{
		kind:       "AWS::EC2::RouteTable",
		id:         "rtb-",
		properties: `{"VpcId": "$vpc", ` + thingTags + `}`,
		update:     `{"VpcId": "$vpc", ` + otherTags + `}`,
		attributes: map[string]string{"RouteTableId": "*"},
	},
	{
		kind: "AWS::EC2::Route",
		setup: func(w *fixture) {
			attachGateway(w)
			w.make("nic", "AWS::EC2::NetworkInterface", `{"SubnetId": "$subnet"}`)
		},
		id:         "$table|0.0.0.0/0",
		properties: `{"RouteTableId": "$table", "DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "$igw"}`,
		update:     `{"RouteTableId": "$table", "DestinationCidrBlock": "0.0.0.0/0", "NetworkInterfaceId": "$nic"}`,
		attributes: map[string]string{"CidrBlock": "0.0.0.0/0"},
	},
	{
		kind:       "AWS::EC2::SubnetRouteTableAssociation",
		id:         "rtbassoc-",
		properties: `{"RouteTableId": "$table", "SubnetId": "$subnet"}`,
		attributes: map[string]string{"Id": "*"},
	},
	{
		kind:       "AWS::EC2::InternetGateway",
		id:         "igw-",
		properties: `{` + thingTags + `}`,
		update:     `{` + otherTags + `}`,
		attributes: map[string]string{"InternetGatewayId": "*"},
	},
	{
		kind:       "AWS::EC2::EgressOnlyInternetGateway",
		id:         "eigw-",
		properties: `{"VpcId": "$vpc", ` + thingTags + `}`,
		update:     `{"VpcId": "$vpc", ` + otherTags + `}`,
		attributes: map[string]string{"Id": "*"},
	},
	{
		kind:       "AWS::EC2::VPCGatewayAttachment",
		setup:      func(w *fixture) { w.make("second", "AWS::EC2::InternetGateway", `{}`) },
		id:         "IGW|$vpc",
		properties: `{"VpcId": "$vpc", "InternetGatewayId": "$igw"}`,
		update:     `{"VpcId": "$vpc", "InternetGatewayId": "$second"}`,
		attributes: map[string]string{"AttachmentType": "IGW"},
	},
	{
		kind: "AWS::EC2::NatGateway",
		setup: func(w *fixture) {
			attachGateway(w)
			w.make("ip", "AWS::EC2::EIP", `{"Domain": "vpc"}`)
		},
		id:         "nat-",
		properties: `{"SubnetId": "$subnet", "AllocationId": "$ip.AllocationId", ` + thingTags + `}`,
		update:     `{"SubnetId": "$subnet", "AllocationId": "$ip.AllocationId", ` + otherTags + `}`,
		attributes: map[string]string{"NatGatewayId": "*", "EniId": "*"},
	},
	{
		kind:       "AWS::EC2::EIP",
		id:         "198.18.",
		properties: `{"Domain": "vpc", ` + thingTags + `}`,
		update:     `{"Domain": "vpc", ` + otherTags + `}`,
		attributes: map[string]string{"AllocationId": "*", "PublicIp": "*"},
	},
	{
		kind: "AWS::EC2::EIPAssociation",
		setup: func(w *fixture) {
			attachGateway(w)
			w.make("ip", "AWS::EC2::EIP", `{"Domain": "vpc"}`)
			w.make("nic", "AWS::EC2::NetworkInterface", `{"SubnetId": "$subnet"}`)
		},
		id:         "eipassoc-",
		properties: `{"EIP": "$ip", "NetworkInterfaceId": "$nic"}`,
		attributes: map[string]string{"Id": "*"},
	},
	{
		kind: "AWS::EC2::SecurityGroup",
		id:   "sg-",
		properties: `{"VpcId": "$vpc", "GroupDescription": "for things", "SecurityGroupIngress": [
			{"IpProtocol": "tcp", "FromPort": "22", "ToPort": 22, "CidrIp": "10.0.0.0/8"},
			{"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "CidrIp": "0.0.0.0/0", "Description": "web"}], ` +
			thingTags + `}`,
		update: `{"VpcId": "$vpc", "GroupDescription": "for things", "SecurityGroupIngress": [
			{"IpProtocol": "6", "FromPort": 80, "ToPort": 80, "CidrIp": "0.0.0.0/0", "Description": "the web"}],
			"SecurityGroupEgress": [{"IpProtocol": "-1", "CidrIpv6": "::/0"}], ` + otherTags + `}`,
		unread:     []string{"SecurityGroupIngress", "SecurityGroupEgress"}, // in another order; see TestSecurityGroupRules
		attributes: map[string]string{"GroupId": "*", "Id": "*", "VpcId": "$vpc"},
	},
	{
		kind: "AWS::EC2::SecurityGroupIngress",
		setup: func(w *fixture) {
			w.make("sg", "AWS::EC2::SecurityGroup", `{"VpcId": "$vpc", "GroupDescription": "a group"}`)
			w.make("peer", "AWS::EC2::SecurityGroup", `{"VpcId": "$vpc", "GroupDescription": "a group"}`)
		},
		id: "sgr-",
		properties: `{"GroupId": "$sg", "IpProtocol": "tcp", "FromPort": 1025, "ToPort": 65535,
			"SourceSecurityGroupId": "$peer", "Description": "from peers"}`,
		update: `{"GroupId": "$sg", "IpProtocol": "tcp", "FromPort": 1025, "ToPort": 65535,
			"SourceSecurityGroupId": "$peer", "Description": "from others"}`,
		attributes: map[string]string{"Id": "*"},
	},
	{
		kind: "AWS::EC2::SecurityGroupEgress",
		setup: func(w *fixture) {
			w.make("sg", "AWS::EC2::SecurityGroup", `{"VpcId": "$vpc", "GroupDescription": "a group"}`)
		},
		id:         "sgr-",
		properties: `{"GroupId": "$sg", "IpProtocol": "-1", "CidrIpv6": "::/0"}`,
		update:     `{"GroupId": "$sg", "IpProtocol": "-1", "CidrIpv6": "::/0", "Description": "out"}`,
		attributes: map[string]string{"Id": "*"},
	},
	{
		kind: "AWS::EC2::VPCEndpoint",
		id:   "vpce-",
		properties: `{"VpcId": "$vpc", "ServiceName": "com.amazonaws.eu-west-1.s3", "RouteTableIds": ["$table"], ` +
			thingTags + `}`,
		update: `{"VpcId": "$vpc", "ServiceName": "com.amazonaws.eu-west-1.s3", "PolicyDocument":
			{"Version": "2012-10-17", "Statement": []}, ` + otherTags + `}`,
		unread:     []string{"PolicyDocument"},
		attributes: map[string]string{"Id": "*", "CreationTimestamp": "*", "DnsEntries": "[]", "NetworkInterfaceIds": "[]"},
	},
	{
		kind: "AWS::EC2::LaunchTemplate",
		id:   "lt-",
		properties: `{"LaunchTemplateName": "nodes", "LaunchTemplateData": {"InstanceType": "m5.large", "UserData": "IyEvYmluL3No",
			"MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": "2"},
			"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "node"}]}]},
			"TagSpecifications": [{"ResourceType": "launch-template", "Tags": [{"Key": "Name", "Value": "thing"}]}]}`,
		update: `{"LaunchTemplateName": "nodes", "LaunchTemplateData": {"InstanceType": "m5.xlarge"},
			"VersionDescription": "larger"}`,
		unread:     []string{"TagSpecifications"},
		attributes: map[string]string{"LaunchTemplateId": "*", "LatestVersionNumber": "1", "DefaultVersionNumber": "1"},
	},
	{
		kind:       "AWS::EC2::PlacementGroup",
		id:         "lake-Thing-1A2B3C",
		properties: `{"Strategy": "partition", "PartitionCount": 3, ` + thingTags + `}`,
		attributes: map[string]string{"GroupName": "lake-Thing-1A2B3C", "GroupId": "*"},
	},
	{
		kind: "AWS::EC2::NetworkInterface",
		setup: func(w *fixture) {
			w.make("sg", "AWS::EC2::SecurityGroup", `{"VpcId": "$vpc", "GroupDescription": "a group"}`)
			w.make("peer", "AWS::EC2::SecurityGroup", `{"VpcId": "$vpc", "GroupDescription": "a group"}`)
		},
		id: "eni-",
		properties: `{"SubnetId": "$subnet", "Description": "a thing", "GroupSet": ["$sg"], "PrivateIpAddress": "10.0.0.77", ` +
			thingTags + `}`,
		update: `{"SubnetId": "$subnet", "Description": "another", "GroupSet": ["$peer"], "PrivateIpAddress": "10.0.0.77",
			"SourceDestCheck": false, ` + otherTags + `}`,
		attributes: map[string]string{"Id": "*", "PrimaryPrivateIpAddress": "10.0.0.77", "SecondaryPrivateIpAddresses": "[]",
			"PrimaryIpv6Address": "", "VpcId": "$vpc"},
	},
	{
		kind: "AWS::EC2::NetworkInterfaceAttachment",
		setup: func(w *fixture) {
			w.make("nic", "AWS::EC2::NetworkInterface", `{"SubnetId": "$subnet"}`)
			w.makeInstance()
		},
		id:         "eni-attach-",
		properties: `{"InstanceId": "$instance", "NetworkInterfaceId": "$nic", "DeviceIndex": "1"}`,
		update: `{"InstanceId": "$instance", "NetworkInterfaceId": "$nic", "DeviceIndex": "1",
			"DeleteOnTermination": false}`,
		attributes: map[string]string{"AttachmentId": "*"},
	},
	{
		kind:    "AWS::EC2::Instance",
		settles: true,
		setup: func(w *fixture) {
			w.make("sg", "AWS::EC2::SecurityGroup", `{"VpcId": "$vpc", "GroupDescription": "a group"}`)
			w.make("peer", "AWS::EC2::SecurityGroup", `{"VpcId": "$vpc", "GroupDescription": "a group"}`)
		},
		id: "i-",
		properties: `{"SubnetId": "$subnet", "ImageId": "$image", "InstanceType": "m5.large", "UserData": "IyEvYmluL3No",
			"Monitoring": true, "SecurityGroupIds": ["$sg"], ` + thingTags + `}`,
		update: `{"SubnetId": "$subnet", "ImageId": "$image", "InstanceType": "m5.xlarge", "UserData": "IyEvYmluL2Jhc2g=",
			"SecurityGroupIds": ["$peer"], "SourceDestCheck": "false", "DisableApiTermination": false, ` + otherTags + `}`,
		unread: []string{"UserData", "DisableApiTermination"},
		attributes: map[string]string{"InstanceId": "*", "AvailabilityZone": "eu-west-1a", "PrivateDnsName": "*",
			"PrivateIp": "*", "PublicDnsName": "", "PublicIp": "", "VpcId": "$vpc", "State": "*"},
	},
	{
		kind:       "AWS::EC2::NetworkAcl",
		id:         "acl-",
		properties: `{"VpcId": "$vpc", ` + thingTags + `}`,
		update:     `{"VpcId": "$vpc", ` + otherTags + `}`,
		attributes: map[string]string{"Id": "*"},
	},
	{
		kind:  "AWS::EC2::NetworkAclEntry",
		setup: func(w *fixture) { w.make("acl", "AWS::EC2::NetworkAcl", `{"VpcId": "$vpc"}`) },
		id:    "$acl|100|false",
		properties: `{"NetworkAclId": "$acl", "RuleNumber": 100, "Protocol": 6, "RuleAction": "allow",
			"CidrBlock": "10.0.0.0/8", "PortRange": {"From": 22, "To": 22}}`,
		update: `{"NetworkAclId": "$acl", "RuleNumber": 100, "Protocol": 1, "RuleAction": "deny",
			"CidrBlock": "10.0.0.0/8", "Icmp": {"Type": -1, "Code": -1}}`,
		attributes: map[string]string{"Id": "*"},
	},
	{
		kind:       "AWS::EC2::SubnetNetworkAclAssociation",
		setup:      func(w *fixture) { w.make("acl", "AWS::EC2::NetworkAcl", `{"VpcId": "$vpc"}`) },
		id:         "aclassoc-",
		properties: `{"NetworkAclId": "$acl", "SubnetId": "$subnet"}`,
		unread:     []string{},
		attributes: map[string]string{"AssociationId": "*"},
	},
	{
		kind: "AWS::EC2::DHCPOptions",
		id:   "dopt-",
		properties: `{"DomainName": "lake.internal", "DomainNameServers": ["10.0.0.2"], "NetbiosNodeType": 2, ` +
			thingTags + `}`,
		update: `{"DomainName": "lake.internal", "DomainNameServers": ["10.0.0.2"], "NetbiosNodeType": 2, ` +
			otherTags + `}`,
		attributes: map[string]string{"DhcpOptionsId": "*"},
	},
	{
		kind:       "AWS::EC2::VPCDHCPOptionsAssociation",
		setup:      func(w *fixture) { w.make("options", "AWS::EC2::DHCPOptions", `{"DomainName": "lake.internal"}`) },
		id:         "$options|$vpc",
		properties: `{"DhcpOptionsId": "$options", "VpcId": "$vpc"}`,
	},
	{
		kind: "AWS::EC2::KeyPair",
		id:   "key",
		properties: `{"KeyName": "key", "PublicKeyMaterial":
			"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl test", ` + thingTags + `}`,
		unread:     []string{"PublicKeyMaterial"},
		attributes: map[string]string{"KeyPairId": "*", "KeyFingerprint": "*"},
	},
	{
		kind: "AWS::EC2::Volume",
		id:   "vol-",
		properties: `{"AvailabilityZone": "eu-west-1a", "Size": "10", "VolumeType": "gp3", "Iops": 3000, "Throughput": 125,
			"Encrypted": true, "AutoEnableIO": true, ` + thingTags + `}`,
		update: `{"AvailabilityZone": "eu-west-1a", "Size": "10", "VolumeType": "gp3", "Iops": 4000, "Throughput": 250,
			"Encrypted": true, "AutoEnableIO": false, ` + otherTags + `}`,
		setup: func(w *fixture) { // EBS makes its key, which stays
			w.make("key", "AWS::EC2::Volume", `{"AvailabilityZone": "eu-west-1a", "Size": 1, "Encrypted": true}`)
		},
		attributes: map[string]string{"VolumeId": "*"},
	},
	{ // a copy
		kind: "AWS::EC2::Volume",
		id:   "vol-",
		setup: func(w *fixture) {
			w.make("source", "AWS::EC2::Volume", `{"AvailabilityZone": "eu-west-1a", "Size": 4, "VolumeType": "gp3"}`)
		},
		properties: `{"SourceVolumeId": "$source", "Size": 5, ` + thingTags + `}`,
		update:     `{"SourceVolumeId": "$source", "Size": 5, "VolumeType": "io2", "Iops": 200, ` + otherTags + `}`,
		attributes: map[string]string{"VolumeId": "*"},
	},
	{
		kind: "AWS::EC2::VolumeAttachment",
		setup: func(w *fixture) {
			w.make("volume", "AWS::EC2::Volume", `{"AvailabilityZone": "eu-west-1a", "Size": 1}`)
			w.makeInstance()
		},
		id:         "$volume|$instance",
		properties: `{"InstanceId": "$instance", "VolumeId": "$volume", "Device": "/dev/sdf"}`,
	},
	{ // EC2 makes the key, and its private half becomes a parameter
		kind:       "AWS::EC2::KeyPair",
		setup:      func(w *fixture) { w.makeParameterKey() },
		id:         "made",
		properties: `{"KeyName": "made", "KeyType": "ed25519", ` + thingTags + `}`,
		update:     `{"KeyName": "made", "KeyType": "ed25519", ` + otherTags + `}`,
		attributes: map[string]string{"KeyPairId": "*", "KeyFingerprint": "*"},
	},
}

func TestResourcesLiveAndDie(t *testing.T) {
	t.Parallel()
	for _, l := range lives {
		t.Run(strings.TrimPrefix(l.kind, "AWS::EC2::"), func(t *testing.T) {
			t.Parallel()
			l.run(t)
		})
	}
}

// unknownAttributes are the attributes of what Coracle does not have.
var unknownAttributes = map[string][]string{
	"AWS::EC2::NatGateway":       {"AutoProvisionZones", "AutoScalingIps", "RouteTableId"}, // of regional NAT gateways
	"AWS::EC2::NetworkInterface": {"PublicIpDnsNameOptions"},
	"AWS::EC2::Subnet":           {"BlockPublicAccessStates"},
	"AWS::EC2::VPC":              {"VpcEncryptionControl"},
}

func TestEveryTypeLivesWithItsAttributes(t *testing.T) {
	t.Parallel()
	tested := map[string]life{}
	for _, l := range lives {
		tested[l.kind] = l
	}
	for _, name := range slices.Sorted(maps.Keys(ec2.Types)) {
		l, ok := tested[name]
		if !ok {
			t.Errorf("%s is not tested", name)
			continue
		}
		wanted, _ := schema.Of(name)
		for attribute := range wanted.Attributes {
			whole, _, _ := strings.Cut(attribute, ".")
			if _, ok := l.attributes[whole]; !ok && !slices.Contains(unknownAttributes[name], whole) {
				t.Errorf("attribute %s of %s is not tested", attribute, name)
			}
		}
	}
}
