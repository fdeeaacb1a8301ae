package ec2_test

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

// gatewayRefusals returns the bad requests about gateways, routes, network interfaces and addresses.
func gatewayRefusals(f *networkFixture) []refused {
	w := f.Fixture
	ctx := f.Context()
	s := aws.String
	vpc, other, gateway, unattached, subnet := f.vpc, f.other, f.gateway, f.unattached, f.subnet
	otherSubnet, group, otherGroup, table, ni := f.otherSubnet, f.group, f.otherGroup, f.table, f.ni
	free, taken, association, main := f.free, f.taken, f.association, f.main
	createInterface := func(in ec2.CreateNetworkInterfaceInput) func() error {
		return func() error { _, err := w.CreateNetworkInterface(ctx, &in); return err }
	}
	createRoute := func(in ec2.CreateRouteInput) func() error {
		return func() error { _, err := w.CreateRoute(ctx, &in); return err }
	}
	return []refused{
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
		{"route to IPv4 addresses in the form of IPv6", createRoute(ec2.CreateRouteInput{RouteTableId: &table,
			DestinationIpv6CidrBlock: s("::ffff:10.0.0.0/104"), GatewayId: &gateway}), "InvalidParameterValue",
			"cannot be routed"},
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
			foreign := awstest.Must[*ec2.DescribeRouteTablesOutput](w.T)(w.DescribeRouteTables(ctx,
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
					PrivateIpAddresses: []string{"10.0.0.255"}}) // EC2 gives it to nobody
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
	}
}
