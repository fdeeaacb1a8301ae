package ec2_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

// TestBadRequests sends requests that AWS refuses, and checks code, HTTP status, message and that nothing changed.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()

	vpc, other := w.VPC("10.0.0.0/16"), w.VPC("10.1.0.0/16")
	gateway := w.InternetGateway(vpc)
	unattached := *awstest.Must[*ec2.CreateInternetGatewayOutput](t)(w.CreateInternetGateway(ctx,
		&ec2.CreateInternetGatewayInput{})).InternetGateway.InternetGatewayId
	subnet, otherSubnet := w.Subnet(vpc, "10.0.0.0/24", "a"), w.Subnet(other, "10.1.0.0/24", "a")
	group, otherGroup := w.SecurityGroup(vpc, "web"), w.SecurityGroup(other, "web")
	ni := w.NetworkInterface(subnet)
	free, taken := w.Address(), w.Address()
	awstest.Must[*ec2.AssociateAddressOutput](t)(w.AssociateAddress(ctx,
		&ec2.AssociateAddressInput{AllocationId: taken.AllocationId, NetworkInterfaceId: ni.NetworkInterfaceId}))
	table := *awstest.Must[*ec2.CreateRouteTableOutput](t)(w.CreateRouteTable(ctx,
		&ec2.CreateRouteTableInput{VpcId: &vpc})).RouteTable.RouteTableId
	association := *awstest.Must[*ec2.AssociateRouteTableOutput](t)(w.AssociateRouteTable(ctx,
		&ec2.AssociateRouteTableInput{RouteTableId: &table, SubnetId: &subnet})).AssociationId
	awstest.Must[*ec2.CreateRouteOutput](t)(w.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: &table,
		DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: &gateway}))
	ssh := types.IpPermission{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22),
		IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}
	awstest.Must[*ec2.AuthorizeSecurityGroupIngressOutput](t)(w.AuthorizeSecurityGroupIngress(ctx,
		&ec2.AuthorizeSecurityGroupIngressInput{GroupId: &group, IpPermissions: []types.IpPermission{ssh}}))
	acl := awstest.Must[*ec2.DescribeNetworkAclsOutput](t)(w.DescribeNetworkAcls(ctx,
		&ec2.DescribeNetworkAclsInput{Filters: []types.Filter{ec2test.Filter("vpc-id", vpc)}})).NetworkAcls[0]
	awstest.Must[*ec2.CreateKeyPairOutput](t)(w.CreateKeyPair(ctx, &ec2.CreateKeyPairInput{KeyName: aws.String("taken")}))
	main := awstest.Must[*ec2.DescribeRouteTablesOutput](t)(w.DescribeRouteTables(ctx,
		&ec2.DescribeRouteTablesInput{Filters: []types.Filter{ec2test.Filter("vpc-id", vpc),
			ec2test.Filter("association.main", "true")}})).RouteTables[0]
	primary := awstest.Must[*ec2.DescribeVpcsOutput](t)(w.DescribeVpcs(ctx,
		&ec2.DescribeVpcsInput{VpcIds: []string{vpc}})).Vpcs[0].CidrBlockAssociationSet[0].AssociationId

	const gone = "0123456789abcdef0"
	s := aws.String
	permission := func(change func(*types.IpPermission)) []types.IpPermission {
		p := types.IpPermission{IpProtocol: s("tcp"), FromPort: aws.Int32(80), ToPort: aws.Int32(80),
			IpRanges: []types.IpRange{{CidrIp: s("10.0.0.0/8")}}}
		change(&p)
		return []types.IpPermission{p}
	}
	authorize := func(change func(*types.IpPermission)) func() error {
		return func() error {
			_, err := w.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &group,
				IpPermissions: permission(change)})
			return err
		}
	}
	createSubnet := func(in ec2.CreateSubnetInput) func() error {
		return func() error { _, err := w.CreateSubnet(ctx, &in); return err }
	}
	createInterface := func(in ec2.CreateNetworkInterfaceInput) func() error {
		return func() error { _, err := w.CreateNetworkInterface(ctx, &in); return err }
	}
	createRoute := func(in ec2.CreateRouteInput) func() error {
		return func() error { _, err := w.CreateRoute(ctx, &in); return err }
	}
	describeVPCs := func(in ec2.DescribeVpcsInput) func() error {
		return func() error { _, err := w.DescribeVpcs(ctx, &in); return err }
	}
	tag := func(id, key, value string) func() error {
		return func() error {
			_, err := w.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id},
				Tags: []types.Tag{{Key: &key, Value: &value}}})
			return err
		}
	}
	checkRefusals(w, t, []refused{
		{"VPC without a block", func() error { _, err := w.CreateVpc(ctx, &ec2.CreateVpcInput{}); return err },
			"MissingParameter", "cidrBlock"},
		{"VPC block is no block", func() error {
			_,
				err := w.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: s("10.0.0.0")})
			return err
		}, "InvalidParameterValue",
			"Value (10.0.0.0) for parameter cidrBlock is invalid. This is not a valid CIDR block."},
		{"VPC too large", func() error {
			_,
				err := w.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: s("10.0.0.0/15")})
			return err
		}, "InvalidVpc.Range", "The CIDR '10.0.0.0/15' is invalid."},
		{"VPC too small", func() error {
			_,
				err := w.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: s("10.0.0.0/29")})
			return err
		}, "InvalidVpc.Range", "The CIDR '10.0.0.0/29' is invalid."},
		{"VPC of strange tenancy", func() error {
			_, err := w.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: s("10.9.0.0/16"), InstanceTenancy: "sublet"})
			return err
		}, "UnsupportedTenancy", "sublet"},
		{"dry run of a good request", func() error {
			_, err := w.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: s("10.9.0.0/16"), DryRun: aws.Bool(true)})
			return err
		}, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."},
		{"dry run of a bad request", func() error {
			_, err := w.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: s("vpc-" + gone), DryRun: aws.Bool(true)})
			return err
		}, "InvalidVpcID.NotFound", ""},
		{"VPC does not exist", describeVPCs(ec2.DescribeVpcsInput{VpcIds: []string{"vpc-" + gone}}),
			"InvalidVpcID.NotFound", "The vpc ID 'vpc-0123456789abcdef0' does not exist"},
		{"two VPCs do not exist", describeVPCs(ec2.DescribeVpcsInput{VpcIds: []string{"vpc-" + gone, "vpc-00000000"}}),
			"InvalidVpcID.NotFound", "The vpc IDs 'vpc-00000000, vpc-0123456789abcdef0' do not exist"},
		{"VPC id of another kind", describeVPCs(ec2.DescribeVpcsInput{VpcIds: []string{subnet}}),
			"InvalidVpcID.Malformed", `(expecting "vpc-...")`},
		{"VPC id with strange digits", describeVPCs(ec2.DescribeVpcsInput{VpcIds: []string{"vpc-xyz"}}),
			"InvalidVpcID.Malformed", `Invalid id: "vpc-xyz"`},
		{"unknown filter", describeVPCs(ec2.DescribeVpcsInput{Filters: []types.Filter{ec2test.Filter("color", "blue")}}),
			"InvalidParameterValue", "The filter 'color' is invalid"},
		{"page too small", describeVPCs(ec2.DescribeVpcsInput{MaxResults: aws.Int32(4)}), "InvalidParameterValue",
			"maxResults"},
		{"page too large", describeVPCs(ec2.DescribeVpcsInput{MaxResults: aws.Int32(1001)}), "InvalidParameterValue",
			"maxResults"},
		{"page of named VPCs", describeVPCs(ec2.DescribeVpcsInput{MaxResults: aws.Int32(5), VpcIds: []string{vpc}}),
			"InvalidParameterCombination", "The parameter vpcIds cannot be used with the parameter maxResults"},
		{"token is none of ours", describeVPCs(ec2.DescribeVpcsInput{MaxResults: aws.Int32(5),
			NextToken: s("tomorrow")}), "InvalidParameterValue", "NextToken"},
		{"VPC in use", func() error { _, err := w.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &vpc}); return err },
			"DependencyViolation", "The vpc '" + vpc + "' has dependencies and cannot be deleted."},
		{"VPC attribute unknown", func() error {
			_, err := w.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: &vpc, Attribute: "color"})
			return err
		}, "InvalidParameterValue", "color"},
		{"no VPC attribute to modify", func() error {
			_, err := w.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: &vpc})
			return err
		}, "MissingParameter", ""},
		{"two VPC attributes to modify", func() error {
			_, err := w.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: &vpc,
				EnableDnsHostnames: &types.AttributeBooleanValue{Value: aws.Bool(true)},
				EnableDnsSupport:   &types.AttributeBooleanValue{Value: aws.Bool(true)}})
			return err
		}, "InvalidParameterCombination", ""},
		{"VPC block overlaps", func() error {
			_, err := w.AssociateVpcCidrBlock(ctx, &ec2.AssociateVpcCidrBlockInput{VpcId: &vpc,
				CidrBlock: s("10.0.128.0/17")})
			return err
		}, "InvalidVpc.Range", "conflicts"},
		{"primary VPC block", func() error {
			_, err := w.DisassociateVpcCidrBlock(ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: primary})
			return err
		}, "OperationNotPermitted", "It is the primary IPv4 CIDR block of the VPC"},
		{"VPC block association unknown", func() error {
			_, err := w.DisassociateVpcCidrBlock(ctx,
				&ec2.DisassociateVpcCidrBlockInput{AssociationId: s("vpc-cidr-assoc-" + gone)})
			return err
		}, "InvalidVpcCidrBlockAssociationID.NotFound", gone},

		{"subnet of no VPC", createSubnet(ec2.CreateSubnetInput{VpcId: s("vpc-" + gone), CidrBlock: s("10.0.1.0/24")}),
			"InvalidVpcID.NotFound", gone},
		{"subnet without a block", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc}), "MissingParameter", "cidrBlock"},
		{"subnet block is no block", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.1.0/33")}),
			"InvalidParameterValue", "Value (10.0.1.0/33) for parameter cidrBlock is invalid."},
		{"subnet outside its VPC", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.7.0.0/24")}),
			"InvalidSubnet.Range", "The CIDR '10.7.0.0/24' is invalid."},
		{"subnet larger than its VPC", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.0.0/15")}),
			"InvalidSubnet.Range", ""},
		{"subnet too small", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.1.0/29")}),
			"InvalidSubnet.Range", "The CIDR '10.0.1.0/29' is invalid."},
		{"subnet overlaps", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.0.128/25")}),
			"InvalidSubnet.Conflict", "The CIDR '10.0.0.128/25' conflicts with another subnet"},
		{"subnet in a zone of another region",
			createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.1.0/24"),
				AvailabilityZone: s("us-east-1a")}), "InvalidParameterValue",
			"Subnets can currently only be created in the following availability zones: eu-west-1a, eu-west-1b, " +
				"eu-west-1c."},
		{"subnet with tags of a VPC", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.1.0/24"),
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeVpc,
				Tags: []types.Tag{{Key: s("a"), Value: s("b")}}}}}), "InvalidParameterValue",
			"'vpc' is not a valid taggable resource type for this operation."},
		{"subnet in use", func() error {
			_, err := w.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &subnet})
			return err
		}, "DependencyViolation", "The subnet '" + subnet + "' has dependencies and cannot be deleted."},
		{"subnet does not exist", func() error {
			_, err := w.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: s("subnet-" + gone)})
			return err
		}, "InvalidSubnetID.NotFound", "The subnet ID 'subnet-0123456789abcdef0' does not exist"},
		{"IPv6 addresses by default without IPv6", func() error {
			_, err := w.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{SubnetId: &subnet,
				AssignIpv6AddressOnCreation: &types.AttributeBooleanValue{Value: aws.Bool(true)}})
			return err
		}, "InvalidParameterValue", ""},

		{"group name taken", func() error {
			_, err := w.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: s("web"),
				Description: s("x")})
			return err
		}, "InvalidGroup.Duplicate", "The security group 'web' already exists for VPC '" + vpc + "'"},
		{"group without a description", func() error {
			_, err := w.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: s("web2"),
				Description: s("")})
			return err
		}, "MissingParameter", ""},
		{"group named like an id", func() error {
			_, err := w.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: s("sg-web"),
				Description: s("x")})
			return err
		}, "InvalidParameterValue", "Group names may not be in the format sg-*."},
		{"group does not exist", func() error {
			_, err := w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: s("sg-" + gone)})
			return err
		}, "InvalidGroup.NotFound", "The security group 'sg-0123456789abcdef0' does not exist"},
		{"group id malformed", func() error {
			_, err := w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: s("web")})
			return err
		}, "InvalidGroupId.Malformed", `Invalid id: "web" (expecting "sg-...")`},
		{"default group", func() error {
			_, err := w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: ni.Groups[0].GroupId})
			return err
		}, "CannotDelete", `name: "default" cannot be deleted by a user`},
		{"rule exists", authorize(func(p *types.IpPermission) { *p = ssh }), "InvalidPermission.Duplicate",
			`the specified rule "peer: 0.0.0.0/0, TCP, from port: 22, to port: 22, ALLOW" already exists`},
		{"rule of an unknown protocol", authorize(func(p *types.IpPermission) { p.IpProtocol = s("smoke") }),
			"InvalidParameterValue", "Invalid value 'smoke' for IP protocol. Unknown protocol."},
		{"rule without ports", authorize(func(p *types.IpPermission) { p.FromPort = nil }), "InvalidParameterValue",
			"Must specify both from and to ports with TCP/UDP."},
		{"rule with ports the wrong way round", authorize(func(p *types.IpPermission) { p.FromPort = aws.Int32(90) }),
			"InvalidParameterValue", "Invalid TCP/UDP port range (90:80)"},
		{"rule with a port beyond 65535", authorize(func(p *types.IpPermission) { p.ToPort = aws.Int32(65536) }),
			"InvalidParameterValue", "65536"},
		{"rule with a malformed block", authorize(
			func(p *types.IpPermission) { p.IpRanges[0].CidrIp = s("10.0.0.0/99") }), "InvalidParameterValue",
			"CIDR block 10.0.0.0/99 is malformed"},
		{"rule for a group of another VPC", authorize(func(p *types.IpPermission) {
			p.IpRanges, p.UserIdGroupPairs = nil, []types.UserIdGroupPair{{GroupId: &otherGroup}}
		}), "InvalidGroup.NotFound", "You have specified two resources that belong to different networks."},
		{"rule for an unknown prefix list", authorize(func(p *types.IpPermission) {
			p.IpRanges, p.PrefixListIds = nil, []types.PrefixListId{{PrefixListId: s("pl-" + gone)}}
		}), "InvalidPrefixListID.NotFound", gone},
		{"rule for nobody", authorize(func(p *types.IpPermission) { p.IpRanges = nil }), "MissingParameter", ""},
		{"revoked rule does not exist", func() error {
			_, err := w.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &group,
				IpPermissions: permission(func(*types.IpPermission) {})})
			return err
		}, "InvalidPermission.NotFound", "The specified rule does not exist in this security group."},
		{"revoked rule id does not exist", func() error {
			_, err := w.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &group,
				SecurityGroupRuleIds: []string{"sgr-" + gone}})
			return err
		}, "InvalidSecurityGroupRuleId.NotFound", "The security group rule ID 'sgr-0123456789abcdef0' does not exist"},

		{"gateway attached twice", func() error {
			_, err := w.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: &gateway,
				VpcId: &other})
			return err
		}, "Resource.AlreadyAssociated", "resource " + gateway + " is already attached to network " + vpc},
		{"VPC has a gateway", func() error {
			_, err := w.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: &unattached,
				VpcId: &vpc})
			return err
		}, "InvalidParameterValue", "Network " + vpc + " already has an internet gateway attached"},
		{"gateway not attached", func() error {
			_, err := w.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: &unattached,
				VpcId: &vpc})
			return err
		}, "Gateway.NotAttached", "resource " + unattached + " is not attached to network " + vpc},
		{"gateway with mapped addresses", func() error {
			_, err := w.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: &gateway,
				VpcId: &vpc})
			return err
		}, "DependencyViolation", "has some mapped public address(es)"},
		{"attached gateway deleted", func() error {
			_, err := w.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: &gateway})
			return err
		}, "DependencyViolation", "The internetGateway '" + gateway + "' has dependencies and cannot be deleted."},
		{"gateway does not exist", func() error {
			_, err := w.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: s("igw-" + gone)})
			return err
		}, "InvalidInternetGatewayID.NotFound", "The internetGateway ID 'igw-0123456789abcdef0' does not exist"},

		{"route exists", createRoute(ec2.CreateRouteInput{RouteTableId: &table, DestinationCidrBlock: s("0.0.0.0/0"),
			GatewayId: &gateway}), "RouteAlreadyExists", "The route identified by 0.0.0.0/0 already exists."},
		{"route without a target", createRoute(ec2.CreateRouteInput{RouteTableId: &table,
			DestinationCidrBlock: s("1.0.0.0/8")}), "InvalidParameterCombination", ""},
		{"route with two targets", createRoute(ec2.CreateRouteInput{RouteTableId: &table,
			DestinationCidrBlock: s("1.0.0.0/8"), GatewayId: &gateway, NetworkInterfaceId: ni.NetworkInterfaceId}),
			"InvalidParameterCombination", ""},
		{"route through a foreign gateway",
			createRoute(ec2.CreateRouteInput{RouteTableId: &table, DestinationCidrBlock: s("1.0.0.0/8"),
				GatewayId: &unattached}), "InvalidParameterValue", "belong to different networks"},
		{"route through no NAT gateway",
			createRoute(ec2.CreateRouteInput{RouteTableId: &table, DestinationCidrBlock: s("1.0.0.0/8"),
				NatGatewayId: s("nat-" + gone)}), "InvalidNatGatewayID.NotFound", gone},
		{"route to no block", createRoute(ec2.CreateRouteInput{RouteTableId: &table,
			DestinationCidrBlock: s("everywhere"), GatewayId: &gateway}), "InvalidParameterValue",
			"destinationCidrBlock"},
		{"route inside the VPC", createRoute(ec2.CreateRouteInput{RouteTableId: &table,
			DestinationCidrBlock: s("10.0.5.0/24"), GatewayId: &gateway}), "InvalidParameterValue",
			"is equal to or more specific than one of this VPC's CIDR blocks"},
		{"replaced route does not exist", func() error {
			_, err := w.ReplaceRoute(ctx, &ec2.ReplaceRouteInput{RouteTableId: &table,
				DestinationCidrBlock: s("1.0.0.0/8"), GatewayId: &gateway})
			return err
		}, "InvalidParameterValue",
			"There is no route defined for '1.0.0.0/8' in the route table. Use CreateRoute instead."},
		{"deleted route does not exist", func() error {
			_, err := w.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: &table,
				DestinationCidrBlock: s("1.0.0.0/8")})
			return err
		}, "InvalidRoute.NotFound", "no route with destination-cidr-block 1.0.0.0/8 in route table " + table},
		{"local route deleted", func() error {
			_, err := w.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: &table,
				DestinationCidrBlock: s("10.0.0.0/16")})
			return err
		}, "InvalidParameterValue", "cannot remove local route 10.0.0.0/16"},
		{"route table in use", func() error {
			_, err := w.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: &table})
			return err
		}, "DependencyViolation", "The routeTable '" + table + "' has dependencies and cannot be deleted."},
		{"main route table", func() error {
			_, err := w.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: main.RouteTableId})
			return err
		}, "DependencyViolation", ""},
		{"subnet has a route table", func() error {
			_, err := w.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{RouteTableId: main.RouteTableId,
				SubnetId: &subnet})
			return err
		}, "Resource.AlreadyAssociated", ""},
		{"subnet of another VPC", func() error {
			_, err := w.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{RouteTableId: &table,
				SubnetId: &otherSubnet})
			return err
		}, "InvalidParameterValue", "belong to different networks"},
		{"main association", func() error {
			_, err := w.DisassociateRouteTable(ctx,
				&ec2.DisassociateRouteTableInput{AssociationId: main.Associations[0].RouteTableAssociationId})
			return err
		}, "InvalidParameterValue", "cannot disassociate the main route table association"},
		{"association does not exist", func() error {
			_, err := w.DisassociateRouteTable(ctx,
				&ec2.DisassociateRouteTableInput{AssociationId: s("rtbassoc-" + gone)})
			return err
		}, "InvalidAssociationID.NotFound", "The association ID 'rtbassoc-0123456789abcdef0' does not exist"},
		{"table of another VPC", func() error {
			foreign := awstest.Must[*ec2.DescribeRouteTablesOutput](t)(w.DescribeRouteTables(ctx,
				&ec2.DescribeRouteTablesInput{Filters: []types.Filter{ec2test.Filter("vpc-id", other)}})).RouteTables[0]
			_, err := w.ReplaceRouteTableAssociation(ctx,
				&ec2.ReplaceRouteTableAssociationInput{AssociationId: &association, RouteTableId: foreign.RouteTableId})
			return err
		}, "InvalidParameterValue", "belong to different networks"},

		{"interface in no subnet", createInterface(ec2.CreateNetworkInterfaceInput{SubnetId: s("subnet-" + gone)}),
			"InvalidSubnetID.NotFound", gone},
		{"interface address outside its subnet", createInterface(ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			PrivateIpAddress: s("10.0.1.5")}), "InvalidParameterValue",
			"Address does not fall within the subnet's address range"},
		{"interface address of the router", createInterface(ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			PrivateIpAddress: s("10.0.0.1")}), "InvalidParameterValue",
			"Address is in subnet's reserved address range"},
		{"interface address of all", createInterface(ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			PrivateIpAddress: s("10.0.0.255")}), "InvalidParameterValue",
			"Address is in subnet's reserved address range"},
		{"interface address taken", createInterface(ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			PrivateIpAddress: ni.PrivateIpAddress}), "InvalidIPAddress.InUse", "Address " + *ni.PrivateIpAddress +
			" is in use."},
		{"interface with a group of another VPC", createInterface(ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			Groups: []string{otherGroup}}), "InvalidParameter",
			"You have specified two resources that belong to different networks."},
		{"interface with unknown group", createInterface(ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			Groups: []string{"sg-" + gone}}), "InvalidGroup.NotFound", gone},
		{"interface with six groups", createInterface(ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			Groups: []string{group, group, group, group, group, group}}), "SecurityGroupsPerInterfaceLimitExceeded",
			""},
		{"interface with more addresses than the subnet",
			createInterface(ec2.CreateNetworkInterfaceInput{SubnetId: &subnet, Ipv4PrefixCount: aws.Int32(15)}),
			"InsufficientCidrBlocks",
			"The specified subnet does not have enough free cidr blocks to satisfy the request."},
		{"interface with IPv6 in a subnet without", createInterface(ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			Ipv6AddressCount: aws.Int32(1)}), "InvalidParameterValue", "no IPv6 CIDR block"},
		{"interface does not exist", func() error {
			_, err := w.DeleteNetworkInterface(ctx,
				&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: s("eni-" + gone)})
			return err
		}, "InvalidNetworkInterfaceID.NotFound", "The networkInterface ID 'eni-0123456789abcdef0' does not exist"},
		{"interface attached to no instance", func() error {
			_, err := w.AttachNetworkInterface(ctx,
				&ec2.AttachNetworkInterfaceInput{NetworkInterfaceId: ni.NetworkInterfaceId, InstanceId: s("i-" + gone),
					DeviceIndex: aws.Int32(1)})
			return err
		}, "InvalidInstanceID.NotFound", "The instance ID 'i-0123456789abcdef0' does not exist"},
		{"attachment does not exist", func() error {
			_, err := w.DetachNetworkInterface(ctx,
				&ec2.DetachNetworkInterfaceInput{AttachmentId: s("eni-attach-" + gone)})
			return err
		}, "InvalidAttachmentID.NotFound", "Attachment 'eni-attach-0123456789abcdef0' does not exist"},
		{"primary address unassigned", func() error {
			_, err := w.UnassignPrivateIpAddresses(ctx,
				&ec2.UnassignPrivateIpAddressesInput{NetworkInterfaceId: ni.NetworkInterfaceId,
					PrivateIpAddresses: []string{*ni.PrivateIpAddress}})
			return err
		}, "InvalidParameterValue", "primary"},
		{"foreign address unassigned", func() error {
			_, err := w.UnassignPrivateIpAddresses(ctx,
				&ec2.UnassignPrivateIpAddressesInput{NetworkInterfaceId: ni.NetworkInterfaceId,
					PrivateIpAddresses: []string{"10.0.0.77"}})
			return err
		}, "InvalidParameterValue", "Some of the specified addresses are not assigned to interface"},

		{"allocation does not exist", func() error {
			_, err := w.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: s("eipalloc-" + gone)})
			return err
		}, "InvalidAllocationID.NotFound", "The allocation ID 'eipalloc-0123456789abcdef0' does not exist"},
		{"address does not exist", func() error {
			_, err := w.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{PublicIps: []string{"8.8.8.8"}})
			return err
		}, "InvalidAddress.NotFound", "Address '8.8.8.8' not found."},
		{"address in use released", func() error {
			_, err := w.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: taken.AllocationId})
			return err
		}, "InvalidIPAddress.InUse", "is in use."},
		{"address in use associated", func() error {
			_, err := w.AssociateAddress(ctx, &ec2.AssociateAddressInput{AllocationId: free.AllocationId,
				NetworkInterfaceId: ni.NetworkInterfaceId})
			return err
		}, "Resource.AlreadyAssociated", "is already associated with associate-id eipassoc-"},
		{"address to an unknown instance", func() error {
			_, err := w.AssociateAddress(ctx, &ec2.AssociateAddressInput{AllocationId: free.AllocationId,
				InstanceId: s("i-" + gone)})
			return err
		}, "InvalidInstanceID.NotFound", gone},
		{"address association does not exist", func() error {
			_, err := w.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{AssociationId: s("eipassoc-" + gone)})
			return err
		}, "InvalidAssociationID.NotFound", gone},

		{"public NAT gateway without an address", func() error {
			_, err := w.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{SubnetId: &subnet})
			return err
		}, "MissingParameter", "allocationId"},
		{"NAT gateway without a way out", func() error {
			_, err := w.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{SubnetId: &otherSubnet,
				AllocationId: free.AllocationId})
			return err
		}, "Gateway.NotAttached", "Network " + other + " is not attached to any internet gateway"},
		{"NAT gateway with an address in use", func() error {
			_, err := w.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{SubnetId: &subnet,
				AllocationId: taken.AllocationId})
			return err
		}, "Resource.AlreadyAssociated", ""},
		{"NAT gateway does not exist", func() error {
			_, err := w.DeleteNatGateway(ctx, &ec2.DeleteNatGatewayInput{NatGatewayId: s("nat-" + gone)})
			return err
		}, "NatGatewayNotFound", "NAT gateway nat-0123456789abcdef0 was not found"},

		{"ACL entry exists", func() error {
			_, err := w.CreateNetworkAclEntry(ctx, &ec2.CreateNetworkAclEntryInput{NetworkAclId: acl.NetworkAclId,
				RuleNumber: aws.Int32(100), Protocol: s("-1"), Egress: aws.Bool(false),
				RuleAction: types.RuleActionDeny, CidrBlock: s("0.0.0.0/0")})
			return err
		}, "NetworkAclEntryAlreadyExists", "The network acl entry identified by 100 already exists."},
		{"ACL entry does not exist", func() error {
			_, err := w.DeleteNetworkAclEntry(ctx, &ec2.DeleteNetworkAclEntryInput{NetworkAclId: acl.NetworkAclId,
				RuleNumber: aws.Int32(99), Egress: aws.Bool(true)})
			return err
		}, "InvalidNetworkAclEntry.NotFound", "The network acl entry identified by 99 does not exist"},
		{"ACL entry number too large", func() error {
			_, err := w.CreateNetworkAclEntry(ctx, &ec2.CreateNetworkAclEntryInput{NetworkAclId: acl.NetworkAclId,
				RuleNumber: aws.Int32(32767), Protocol: s("-1"), Egress: aws.Bool(false),
				RuleAction: types.RuleActionDeny, CidrBlock: s("0.0.0.0/0")})
			return err
		}, "InvalidParameterValue", "32767"},
		{"default ACL", func() error {
			_, err := w.DeleteNetworkAcl(ctx, &ec2.DeleteNetworkAclInput{NetworkAclId: acl.NetworkAclId})
			return err
		}, "InvalidParameterValue", "cannot delete default network ACL"},

		{"DHCP option unknown", func() error {
			_, err := w.CreateDhcpOptions(ctx,
				&ec2.CreateDhcpOptionsInput{DhcpConfigurations: []types.NewDhcpConfiguration{{Key: s("color"),
					Values: []string{"blue"}}}})
			return err
		}, "InvalidParameterValue", "color"},
		{"DHCP options in use", func() error {
			id := awstest.Must[*ec2.DescribeVpcsOutput](t)(w.DescribeVpcs(ctx,
				&ec2.DescribeVpcsInput{VpcIds: []string{vpc}})).Vpcs[0].DhcpOptionsId
			_, err := w.DeleteDhcpOptions(ctx, &ec2.DeleteDhcpOptionsInput{DhcpOptionsId: id})
			return err
		}, "DependencyViolation", ""},
		{"DHCP options do not exist", func() error {
			_, err := w.AssociateDhcpOptions(ctx, &ec2.AssociateDhcpOptionsInput{DhcpOptionsId: s("dopt-" + gone),
				VpcId: &vpc})
			return err
		}, "InvalidDhcpOptionID.NotFound", gone},

		{"endpoint of an unknown service", func() error {
			_, err := w.CreateVpcEndpoint(ctx, &ec2.CreateVpcEndpointInput{VpcId: &vpc,
				ServiceName: s("com.amazonaws.eu-west-1.teleport")})
			return err
		}, "InvalidServiceName", "The Vpc Endpoint Service 'com.amazonaws.eu-west-1.teleport' does not exist"},
		{"endpoint does not exist", func() error {
			_, err := w.DescribeVpcEndpoints(ctx,
				&ec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{"vpce-" + gone}})
			return err
		}, "InvalidVpcEndpointId.NotFound", gone},

		{"key name taken", func() error {
			_, err := w.CreateKeyPair(ctx, &ec2.CreateKeyPairInput{KeyName: s("taken")})
			return err
		}, "InvalidKeyPair.Duplicate", "The key pair 'taken' already exists."},
		{"key of an unknown type", func() error {
			_, err := w.CreateKeyPair(ctx, &ec2.CreateKeyPairInput{KeyName: s("k"), KeyType: "dsa"})
			return err
		}, "InvalidParameterValue", "dsa"},
		{"imported key is none", func() error {
			_, err := w.ImportKeyPair(ctx, &ec2.ImportKeyPairInput{KeyName: s("k"),
				PublicKeyMaterial: []byte("open sesame")})
			return err
		}, "InvalidKey.Format", ""},
		{"key pair does not exist", func() error {
			_, err := w.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{KeyNames: []string{"nobody"}})
			return err
		}, "InvalidKeyPair.NotFound", "The key pair 'nobody' does not exist"},

		{"tags of nothing", tag("thing-"+gone, "a", "b"), "InvalidID", "The ID 'thing-0123456789abcdef0' is not valid"},
		{"tags of what does not exist", tag("vpc-"+gone, "a", "b"), "InvalidVpcID.NotFound", gone},
		{"tags of AWS", tag(vpc, "aws:mine", "b"), "InvalidParameterValue",
			"Tag keys starting with 'aws:' are reserved for internal use"},
		{"tag key too long", tag(vpc, strings.Repeat("k", 129), "b"), "InvalidParameterValue",
			"Tag key exceeds the maximum length of 128 characters"},
		{"tag value too long", tag(vpc, "a", strings.Repeat("v", 257)), "InvalidParameterValue",
			"Tag value exceeds the maximum length of 256 characters"},
		{"tags of too many resources", func() error {
			_, err := w.CreateTags(ctx, &ec2.CreateTagsInput{Resources: slices.Repeat([]string{vpc}, 1001),
				Tags: []types.Tag{{Key: s("k"), Value: s("")}}})
			return err
		}, "InvalidParameterValue", "1001 resource IDs; the maximum is 1000"},
		{"too many tags to delete", func() error {
			_, err := w.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{vpc},
				Tags: slices.Repeat([]types.Tag{{Key: s("k")}}, 101)})
			return err
		}, "TagLimitExceeded", "101 tags; the maximum is 100"},
		{"51 tags", func() error {
			var tags []types.Tag
			for i := range 51 {
				tags = append(tags, types.Tag{Key: s("k" + strings.Repeat("x", i)), Value: s("")})
			}
			_, err := w.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{vpc}, Tags: tags})
			return err
		}, "TagLimitExceeded", ""},

		{"instance does not exist", func() error {
			_, err := w.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{"i-" + gone}})
			return err
		}, "InvalidInstanceID.NotFound", gone},
		{"zone does not exist", func() error {
			_, err := w.DescribeAvailabilityZones(ctx,
				&ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{"eu-west-1z"}})
			return err
		}, "InvalidParameterValue", "Invalid availability zone: [eu-west-1z]"},
		{"region does not exist", func() error {
			_, err := w.DescribeRegions(ctx, &ec2.DescribeRegionsInput{RegionNames: []string{"mars-1"}})
			return err
		}, "InvalidParameterValue", "mars-1"},
	})
}

// refused is a request that AWS refuses: with a code, and a message that contains the text.
type refused struct {
	name          string
	call          func() error
	code, message string
}

// checkRefusals demands code, HTTP status and message of each, and that nothing changes.
func checkRefusals(w *ec2test.Fixture, t *testing.T, all []refused) {
	t.Helper()
	before := w.Dump()
	for _, row := range all {
		t.Run(row.name, func(t *testing.T) {
			err := row.call()
			wantStatus := 400
			if row.code == "DryRunOperation" {
				wantStatus = 412
			}
			got, message, status := awstest.Failure(err)
			if got != row.code || status != wantStatus {
				t.Errorf("got %s (%d): %v, want %s (%d)", got, status, err, row.code, wantStatus)
			}
			if !strings.Contains(message, row.message) {
				t.Errorf("message %q, want %q in it", message, row.message)
			}
			if after := w.Dump(); after != before {
				t.Errorf("a refused request changed the store")
				before = after
			}
		})
	}
}
