package resource

import (
	"regexp"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// setKinds sets the kinds of resources: where they are stored, and what their ids and errors are called.
func (r *Records) setKinds() {
	r.setNetworkKinds()
	r.setComputeKinds()
}

// setNetworkKinds sets the kinds of resources that VPCs consist of.
func (r *Records) setNetworkKinds() {
	s := r.Store
	r.VPCs = Kind[record.VPC]{
		Naming: Naming{
			Resource: types.ResourceTypeVpc, Prefix: "vpc-", Noun: "vpc ID", Parameter: "vpcId",
			NotFound: "InvalidVpcID.NotFound", Malformed: "InvalidVpcID.Malformed",
		},
		records: r, Table: record.VPCs(s),
		VPC: func(r record.VPC) string { return r.ID },
	}
	r.Subnets = Kind[record.Subnet]{
		Naming: Naming{
			Resource: types.ResourceTypeSubnet, Prefix: "subnet-", Noun: "subnet ID", Parameter: "subnetId",
			NotFound: "InvalidSubnetID.NotFound", Malformed: "InvalidSubnetID.Malformed",
		},
		records: r, Table: record.Subnets(s),
		VPC: func(r record.Subnet) string { return r.VPCID },
	}
	r.SecurityGroups = Kind[record.SecurityGroup]{
		Naming: Naming{
			Resource: types.ResourceTypeSecurityGroup, Prefix: "sg-", Noun: "security group", Parameter: "groupId",
			NotFound: "InvalidGroup.NotFound", Malformed: "InvalidGroupId.Malformed",
		},
		records: r, Table: record.SecurityGroups(s),
		VPC: func(r record.SecurityGroup) string { return r.VPCID },
	}
	r.RouteTables = Kind[record.RouteTable]{
		Naming: Naming{
			Resource: types.ResourceTypeRouteTable, Prefix: "rtb-", Noun: "routeTable ID", Parameter: "routeTableId",
			NotFound: "InvalidRouteTableID.NotFound", Malformed: "InvalidRouteTableId.Malformed",
		},
		records: r, Table: record.RouteTables(s),
		VPC: func(r record.RouteTable) string { return r.VPCID },
	}
	r.InternetGateways = Kind[record.InternetGateway]{
		Naming: Naming{
			Resource: types.ResourceTypeInternetGateway, Prefix: "igw-", Noun: "internetGateway ID",
			Parameter: "internetGatewayId",
			NotFound:  "InvalidInternetGatewayID.NotFound", Malformed: "InvalidInternetGatewayId.Malformed",
		},
		records: r, Table: record.InternetGateways(s),
		VPC: func(r record.InternetGateway) string { return r.VPCID },
	}
	r.EgressOnlyInternetGateways = Kind[record.EgressOnlyInternetGateway]{
		Naming: Naming{
			Resource: types.ResourceTypeEgressOnlyInternetGateway, Prefix: "eigw-",
			Noun: "egressOnlyInternetGateway ID", Parameter: "egressOnlyInternetGatewayId",
			NotFound: "InvalidGatewayID.NotFound", Malformed: "InvalidEgressOnlyInternetGatewayId.Malformed",
		},
		records: r, Table: record.EgressOnlyInternetGateways(s),
		VPC: func(r record.EgressOnlyInternetGateway) string { return r.VPCID },
	}
	r.NATGateways = Kind[record.NATGateway]{
		Naming: Naming{
			Resource: types.ResourceTypeNatgateway, Prefix: "nat-", Noun: "natGateway ID", Parameter: "natGatewayId",
			Absent:   "NAT gateway %s was not found",
			NotFound: "NatGatewayNotFound", Malformed: "NatGatewayMalformed",
		},
		records: r, Table: record.NATGateways(s),
		VPC: func(r record.NATGateway) string { return r.VPCID },
	}
	r.Addresses = Kind[record.Address]{
		Naming: Naming{
			Resource: types.ResourceTypeElasticIp, Prefix: "eipalloc-", Noun: "allocation ID", Parameter: "allocationId",
			NotFound: "InvalidAllocationID.NotFound", Malformed: "InvalidAllocationID.Malformed",
		},
		records: r, Table: record.Addresses(s),
	}
	r.NetworkInterfaces = Kind[record.NetworkInterface]{
		Naming: Naming{
			Resource: types.ResourceTypeNetworkInterface, Prefix: "eni-", Noun: "networkInterface ID",
			Parameter: "networkInterfaceId",
			NotFound:  "InvalidNetworkInterfaceID.NotFound", Malformed: "InvalidNetworkInterfaceId.Malformed",
		},
		records: r, Table: record.NetworkInterfaces(s),
		VPC: func(r record.NetworkInterface) string { return r.VPCID },
	}
	r.NetworkACLs = Kind[record.NetworkACL]{
		Naming: Naming{
			Resource: types.ResourceTypeNetworkAcl, Prefix: "acl-", Noun: "networkAcl ID", Parameter: "networkAclId",
			NotFound: "InvalidNetworkAclID.NotFound", Malformed: "InvalidNetworkAclId.Malformed",
		},
		records: r, Table: record.NetworkACLs(s),
		VPC: func(r record.NetworkACL) string { return r.VPCID },
	}
	r.DHCPOptions = Kind[record.DHCPOptions]{
		Naming: Naming{
			Resource: types.ResourceTypeDhcpOptions, Prefix: "dopt-", Noun: "dhcpOption ID", Parameter: "dhcpOptionsId",
			NotFound: "InvalidDhcpOptionID.NotFound", Malformed: "InvalidDhcpOptionsId.Malformed",
		},
		records: r, Table: record.DHCPOptionsTable(s),
	}
	r.VPCEndpoints = Kind[record.VPCEndpoint]{
		Naming: Naming{
			Resource: types.ResourceTypeVpcEndpoint, Prefix: "vpce-", Noun: "Vpc Endpoint Id", Parameter: "vpcEndpointId",
			NotFound: "InvalidVpcEndpointId.NotFound", Malformed: "InvalidVpcEndpointId.Malformed",
		},
		records: r, Table: record.VPCEndpoints(s),
		VPC: func(r record.VPCEndpoint) string { return r.VPCID },
	}
	r.NetworkInsightsPaths = Kind[record.NetworkInsightsPath]{
		Naming: Naming{
			Resource: types.ResourceTypeNetworkInsightsPath, Prefix: "nip-", Noun: "network insights path ID",
			Parameter: "networkInsightsPathId",
			NotFound:  "InvalidNetworkInsightsPathId.NotFound", Malformed: "InvalidNetworkInsightsPathId.Malformed",
		},
		records: r, Table: record.NetworkInsightsPaths(s),
	}
	r.NetworkInsightsAnalyses = Kind[record.NetworkInsightsAnalysis]{
		Naming: Naming{
			Resource: types.ResourceTypeNetworkInsightsAnalysis, Prefix: "nia-", Noun: "network insights analysis ID",
			Parameter: "networkInsightsAnalysisId",
			NotFound:  "InvalidNetworkInsightsAnalysisId.NotFound",
			Malformed: "InvalidNetworkInsightsAnalysisId.Malformed",
		},
		records: r, Table: record.NetworkInsightsAnalyses(s),
	}
}

// setComputeKinds sets the kinds of resources that instances are launched from, and consist of.
func (r *Records) setComputeKinds() {
	s := r.Store
	r.KeyPairs = Kind[record.KeyPair]{
		Naming: Naming{
			Resource: types.ResourceTypeKeyPair, Prefix: "key-", Noun: "key pair", Parameter: "keyPairId",
			NotFound: "InvalidKeyPair.NotFound", Malformed: "InvalidKeyPair.Malformed",
		},
		records: r, Table: record.KeyPairs(s),
	}
	r.Instances = Kind[record.Instance]{
		Naming: Naming{
			Resource: types.ResourceTypeInstance, Prefix: "i-", Noun: "instance ID", Parameter: "instanceId",
			NotFound: "InvalidInstanceID.NotFound", Malformed: "InvalidInstanceID.Malformed",
		},
		records: r, Table: record.Instances(s),
		VPC:    func(r record.Instance) string { return r.VPCID },
		Hidden: func(r record.Instance) bool { return r.Fargate != nil },
	}
	r.Volumes = Kind[record.Volume]{
		Naming: Naming{
			Resource: types.ResourceTypeVolume, Prefix: "vol-", Noun: "volume", Parameter: "volumeId",
			NotFound: "InvalidVolume.NotFound", Malformed: "InvalidVolumeID.Malformed",
			Absent: "The volume '%s' does not exist.",
		},
		records: r, Table: record.Volumes(s),
		Hidden: func(r record.Volume) bool { return r.Fargate },
	}
	r.Snapshots = Kind[record.Snapshot]{
		Naming: Naming{
			Resource: types.ResourceTypeSnapshot, Prefix: "snap-", Noun: "snapshot", Parameter: "snapshotId",
			NotFound: "InvalidSnapshot.NotFound", Malformed: "InvalidSnapshotID.Malformed",
			Absent: "The snapshot '%s' does not exist.",
		},
		records: r, Table: record.Snapshots(s),
	}
	r.PlacementGroups = Kind[record.PlacementGroup]{
		Naming: Naming{
			Resource: types.ResourceTypePlacementGroup, Prefix: "pg-", Noun: "placement group ID", Parameter: "groupId",
			NotFound: "InvalidPlacementGroupId.NotFound", Malformed: "InvalidPlacementGroupId.Malformed",
		},
		records: r, Table: record.PlacementGroups(s),
	}
	r.LaunchTemplates = Kind[record.LaunchTemplate]{
		Naming: Naming{
			Resource: types.ResourceTypeLaunchTemplate, Prefix: "lt-", Noun: "launch template ID",
			Parameter: "launchTemplateId",
			NotFound:  "InvalidLaunchTemplateId.NotFound", Malformed: "InvalidLaunchTemplateId.Malformed",
			Absent: "The specified launch template, with template ID %s, does not exist.",
		},
		records: r, Table: record.LaunchTemplates(s),
	}
	r.SpotRequests = Kind[record.SpotRequest]{
		Naming: Naming{
			Resource: types.ResourceTypeSpotInstancesRequest, Prefix: "sir-", Noun: "spot instance request ID",
			Parameter: "spotInstanceRequestId",
			NotFound:  "InvalidSpotInstanceRequestID.NotFound", Malformed: "InvalidSpotInstanceRequestID.Malformed",
		},
		records: r, Table: record.SpotRequests(s),
	}
	r.Fleets = Kind[record.Fleet]{
		Naming: Naming{
			Resource: types.ResourceTypeFleet, Prefix: "fleet-", Noun: "fleet ID", Parameter: "fleetId",
			NotFound: "InvalidFleetId.NotFound", Malformed: "InvalidFleetId.Malformed",
			Form: regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`),
		},
		records: r, Table: record.Fleets(s),
	}
}

// resourceKinds returns all kinds of resources that exist on their own, for tags and targets.
func (s *Records) resourceKinds() []AnyKind {
	return []AnyKind{
		s.VPCs, s.Subnets, s.SecurityGroups, s.RouteTables, s.InternetGateways, s.EgressOnlyInternetGateways,
		s.NATGateways, s.Addresses, s.NetworkInterfaces, s.NetworkACLs, s.DHCPOptions, s.VPCEndpoints,
		s.NetworkInsightsPaths, s.NetworkInsightsAnalyses,
		s.KeyPairs, s.Instances, s.Volumes, s.Snapshots, s.PlacementGroups, s.LaunchTemplates, s.SpotRequests, s.Fleets,
		ruleKind{s},
	}
}
