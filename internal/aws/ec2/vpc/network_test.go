package vpc_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// listRoutes returns the routes of a route table: destination to target, with a * for a black hole.
func listRoutes(w *ec2test.Fixture, table string) map[string]string {
	w.T.Helper()
	all := map[string]string{}
	for _, r := range awstest.Must[*ec2.DescribeRouteTablesOutput](w.T)(w.DescribeRouteTables(w.Context(),
		&ec2.DescribeRouteTablesInput{RouteTableIds: []string{table}})).RouteTables[0].Routes {
		var destination, target string
		for _, d := range []*string{r.DestinationCidrBlock, r.DestinationIpv6CidrBlock, r.DestinationPrefixListId} {
			destination += aws.ToString(d)
		}
		for _, p := range []*string{r.GatewayId, r.NatGatewayId, r.NetworkInterfaceId, r.EgressOnlyInternetGatewayId} {
			target += aws.ToString(p)
		}
		if r.State == types.RouteStateBlackhole {
			target += "*"
		}
		all[destination] = target
	}
	return all
}

func TestVPCWithSeveralBlocks(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	v := awstest.Must[*ec2.CreateVpcOutput](t)(
		w.CreateVpc(w.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.3.7/16"),
			AmazonProvidedIpv6CidrBlock: aws.Bool(true)}),
	).Vpc
	if *v.CidrBlock != "10.0.0.0/16" || v.State != types.VpcStatePending || len(v.Ipv6CidrBlockAssociationSet) != 1 {
		t.Fatalf("created %+v", v)
	}
	vpc, six := *v.VpcId, *v.Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock
	second := awstest.Must[*ec2.AssociateVpcCidrBlockOutput](t)(w.AssociateVpcCidrBlock(w.Context(),
		&ec2.AssociateVpcCidrBlockInput{VpcId: &vpc, CidrBlock: aws.String("100.64.0.0/16")})).CidrBlockAssociation
	subnet := w.Subnet(vpc, "100.64.1.0/24", "c")

	_, err := w.DisassociateVpcCidrBlock(w.Context(),
		&ec2.DisassociateVpcCidrBlockInput{AssociationId: second.AssociationId})
	awstest.WantCode(t, err, "InvalidCidrBlock.InUse")

	base := netip.MustParsePrefix(six).Addr().As16()
	block := netip.PrefixFrom(netip.AddrFrom16(base), 64).String()
	base[9] = 1
	prefix := netip.PrefixFrom(netip.AddrFrom16(base), 80).String()
	given := awstest.Must[*ec2.AssociateSubnetCidrBlockOutput](t)(w.AssociateSubnetCidrBlock(w.Context(),
		&ec2.AssociateSubnetCidrBlockInput{SubnetId: &subnet, Ipv6CidrBlock: &block})).Ipv6CidrBlockAssociation
	awstest.Must[*ec2.ModifySubnetAttributeOutput](t)(w.ModifySubnetAttribute(w.Context(),
		&ec2.ModifySubnetAttributeInput{SubnetId: &subnet, AssignIpv6AddressOnCreation: &types.AttributeBooleanValue{
			Value: aws.Bool(true)}}))
	ni := w.NetworkInterface(subnet)
	if len(ni.Ipv6Addresses) != 1 {
		t.Fatalf("IPv6 addresses of a new interface: %v", ni.Ipv6Addresses)
	}
	_, err = w.DisassociateSubnetCidrBlock(w.Context(),
		&ec2.DisassociateSubnetCidrBlockInput{AssociationId: given.AssociationId})
	awstest.WantCode(t, err, "InvalidCidrBlock.InUse")
	more := awstest.Must[*ec2.AssignIpv6AddressesOutput](t)(w.AssignIpv6Addresses(w.Context(),
		&ec2.AssignIpv6AddressesInput{NetworkInterfaceId: ni.NetworkInterfaceId, Ipv6AddressCount: aws.Int32(2),
			Ipv6Prefixes: []string{prefix}}))
	if len(more.AssignedIpv6Addresses) != 2 || len(more.AssignedIpv6Prefixes) != 1 {
		t.Errorf("assigned %v and %v", more.AssignedIpv6Addresses, more.AssignedIpv6Prefixes)
	}

	main := awstest.Must[*ec2.DescribeRouteTablesOutput](t)(w.DescribeRouteTables(w.Context(),
		&ec2.DescribeRouteTablesInput{Filters: []types.Filter{ec2test.Filter("vpc-id", vpc)}})).RouteTables[0]
	if routes := listRoutes(w, *main.RouteTableId); routes["10.0.0.0/16"] != "local" ||
		routes["100.64.0.0/16"] != "local" ||
		routes[six] != "local" {
		t.Errorf("local routes: %v", routes)
	}
	awstest.Must[*ec2.DeleteNetworkInterfaceOutput](t)(w.DeleteNetworkInterface(w.Context(),
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: ni.NetworkInterfaceId}))
	awstest.Must[*ec2.DisassociateSubnetCidrBlockOutput](t)(w.DisassociateSubnetCidrBlock(w.Context(),
		&ec2.DisassociateSubnetCidrBlockInput{AssociationId: given.AssociationId}))
	awstest.Must[*ec2.DeleteSubnetOutput](t)(w.DeleteSubnet(w.Context(), &ec2.DeleteSubnetInput{SubnetId: &subnet}))
	awstest.Must[*ec2.DisassociateVpcCidrBlockOutput](t)(w.DisassociateVpcCidrBlock(w.Context(),
		&ec2.DisassociateVpcCidrBlockInput{AssociationId: second.AssociationId}))
	awstest.Must[*ec2.DeleteVpcOutput](t)(w.DeleteVpc(w.Context(), &ec2.DeleteVpcInput{VpcId: &vpc}))
}

func TestVPCAttributes(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc := w.VPC("10.0.0.0/16")
	hostnames := func() bool {
		return *awstest.Must[*ec2.DescribeVpcAttributeOutput](t)(w.DescribeVpcAttribute(w.Context(),
			&ec2.DescribeVpcAttributeInput{VpcId: &vpc,
				Attribute: types.VpcAttributeNameEnableDnsHostnames})).EnableDnsHostnames.Value
	}
	if hostnames() {
		t.Error("a new VPC has DNS hostnames")
	}
	awstest.Must[*ec2.ModifyVpcAttributeOutput](t)(
		w.ModifyVpcAttribute(w.Context(), &ec2.ModifyVpcAttributeInput{VpcId: &vpc,
			EnableDnsHostnames: &types.AttributeBooleanValue{Value: aws.Bool(true)}}),
	)
	if !hostnames() {
		t.Error("DNS hostnames were not switched on")
	}
	ni := w.NetworkInterface(w.Subnet(vpc, "10.0.0.0/24", "a"))
	if want := "ip-" + strings.ReplaceAll(*ni.PrivateIpAddress, ".", "-") +
		".eu-west-1.compute.internal"; aws.ToString(ni.PrivateDnsName) != want {
		t.Errorf("DNS name %s, want %s", aws.ToString(ni.PrivateDnsName), want)
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	igw := w.InternetGateway(vpc)
	subnet := w.Subnet(vpc, "10.0.0.0/24", "a")
	table := *awstest.Must[*ec2.CreateRouteTableOutput](t)(w.CreateRouteTable(ctx,
		&ec2.CreateRouteTableInput{VpcId: &vpc})).RouteTable.RouteTableId
	first := awstest.Must[*ec2.AssociateRouteTableOutput](t)(w.AssociateRouteTable(ctx,
		&ec2.AssociateRouteTableInput{RouteTableId: &table, SubnetId: &subnet})).AssociationId
	ec2test.WantID(t, first, "rtbassoc-")

	awstest.Must[*ec2.CreateRouteOutput](t)(w.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: &table,
		DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: &igw}))
	eip := w.Address()
	nat := awstest.Must[*ec2.CreateNatGatewayOutput](t)(
		w.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{SubnetId: &subnet,
			AllocationId: eip.AllocationId}),
	).NatGateway
	if nat.State != types.NatGatewayStatePending || *nat.NatGatewayAddresses[0].PublicIp != *eip.PublicIp {
		t.Errorf("new NAT gateway: %+v", nat)
	}
	if err := ec2.NewNatGatewayAvailableWaiter(w).Wait(ctx,
		&ec2.DescribeNatGatewaysInput{NatGatewayIds: []string{*nat.NatGatewayId}}, eventually.Limit); err != nil {
		t.Error(err)
	}
	awstest.Must[*ec2.ReplaceRouteOutput](t)(w.ReplaceRoute(ctx, &ec2.ReplaceRouteInput{RouteTableId: &table,
		DestinationCidrBlock: aws.String("0.0.0.0/0"), NatGatewayId: nat.NatGatewayId}))
	eigw := awstest.Must[*ec2.CreateEgressOnlyInternetGatewayOutput](t)(w.CreateEgressOnlyInternetGateway(ctx,
		&ec2.CreateEgressOnlyInternetGatewayInput{VpcId: &vpc})).EgressOnlyInternetGateway.EgressOnlyInternetGatewayId
	awstest.Must[*ec2.CreateRouteOutput](t)(w.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: &table,
		DestinationIpv6CidrBlock: aws.String("::/0"), EgressOnlyInternetGatewayId: eigw}))
	s3 := awstest.Must[*ec2.CreateVpcEndpointOutput](t)(w.CreateVpcEndpoint(ctx, &ec2.CreateVpcEndpointInput{VpcId: &vpc,
		ServiceName: aws.String("com.amazonaws.eu-west-1.s3"), RouteTableIds: []string{table}})).VpcEndpoint
	list := awstest.Must[*ec2.DescribePrefixListsOutput](t)(w.DescribePrefixLists(ctx,
		&ec2.DescribePrefixListsInput{Filters: []types.Filter{ec2test.Filter("prefix-list-name",
			"com.amazonaws.eu-west-1.s3")}})).PrefixLists[0]

	want := map[string]string{"10.0.0.0/16": "local", "0.0.0.0/0": *nat.NatGatewayId, "::/0": *eigw,
		*list.PrefixListId: *s3.VpcEndpointId}
	check := func(when string) {
		t.Helper()
		got := listRoutes(w, table)
		if len(got) != len(want) {
			t.Errorf("%s: routes %v, want %v", when, got, want)
		}
		for destination, target := range want {
			if got[destination] != target {
				t.Errorf("%s: %s goes to %q, want %q", when, destination, got[destination], target)
			}
		}
	}
	check("all made")

	awstest.Must[*ec2.DeleteNatGatewayOutput](t)(w.DeleteNatGateway(ctx,
		&ec2.DeleteNatGatewayInput{NatGatewayId: nat.NatGatewayId}))
	awstest.Must[*ec2.DeleteVpcEndpointsOutput](t)(w.DeleteVpcEndpoints(ctx,
		&ec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{*s3.VpcEndpointId}}))
	want["0.0.0.0/0"] += "*"
	delete(want, *list.PrefixListId)
	check("NAT gateway and endpoint deleted")
	if a := awstest.Must[*ec2.DescribeAddressesOutput](t)(w.DescribeAddresses(ctx,
		&ec2.DescribeAddressesInput{AllocationIds: []string{*eip.AllocationId}})).Addresses[0]; a.AssociationId != nil {
		t.Errorf("the address of a deleted NAT gateway is still associated: %+v", a)
	}
	awstest.Must[*ec2.DeleteRouteOutput](t)(w.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: &table,
		DestinationCidrBlock: aws.String("0.0.0.0/0")}))
	delete(want, "0.0.0.0/0")
	check("route deleted")

	other := *awstest.Must[*ec2.CreateRouteTableOutput](t)(w.CreateRouteTable(ctx,
		&ec2.CreateRouteTableInput{VpcId: &vpc})).RouteTable.RouteTableId
	second := awstest.Must[*ec2.ReplaceRouteTableAssociationOutput](t)(w.ReplaceRouteTableAssociation(ctx,
		&ec2.ReplaceRouteTableAssociationInput{AssociationId: first, RouteTableId: &other})).NewAssociationId
	awstest.Must[*ec2.DeleteRouteTableOutput](t)(w.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: &table}))
	awstest.Must[*ec2.DisassociateRouteTableOutput](t)(w.DisassociateRouteTable(ctx,
		&ec2.DisassociateRouteTableInput{AssociationId: second}))

	main := awstest.Must[*ec2.DescribeRouteTablesOutput](t)(w.DescribeRouteTables(ctx,
		&ec2.DescribeRouteTablesInput{Filters: []types.Filter{ec2test.Filter("vpc-id", vpc),
			ec2test.Filter("association.main", "true")}})).RouteTables[0]
	awstest.Must[*ec2.ReplaceRouteTableAssociationOutput](t)(w.ReplaceRouteTableAssociation(ctx,
		&ec2.ReplaceRouteTableAssociationInput{AssociationId: main.Associations[0].RouteTableAssociationId,
			RouteTableId: &other}))
	awstest.Must[*ec2.DeleteRouteTableOutput](t)(w.DeleteRouteTable(ctx,
		&ec2.DeleteRouteTableInput{RouteTableId: main.RouteTableId}))
}

func TestNetworkACLs(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	subnet := w.Subnet(vpc, "10.0.0.0/24", "a")
	acl := awstest.Must[*ec2.CreateNetworkAclOutput](t)(w.CreateNetworkAcl(ctx,
		&ec2.CreateNetworkAclInput{VpcId: &vpc})).NetworkAcl
	if len(acl.Entries) != 2 || len(acl.Associations) != 0 {
		t.Errorf("a new network ACL: %+v", acl)
	}
	entry := ec2.CreateNetworkAclEntryInput{
		NetworkAclId: acl.NetworkAclId, RuleNumber: aws.Int32(10), Protocol: aws.String("tcp"), Egress: aws.Bool(false),
		RuleAction: types.RuleActionAllow,
		CidrBlock:  aws.String("0.0.0.0/0"), PortRange: &types.PortRange{From: aws.Int32(80), To: aws.Int32(90)},
	}
	awstest.Must[*ec2.CreateNetworkAclEntryOutput](t)(w.CreateNetworkAclEntry(ctx, &entry))
	awstest.Must[*ec2.ReplaceNetworkAclEntryOutput](t)(w.ReplaceNetworkAclEntry(ctx, &ec2.ReplaceNetworkAclEntryInput{
		NetworkAclId: acl.NetworkAclId, RuleNumber: aws.Int32(10), Protocol: aws.String("17"), Egress: aws.Bool(false),
		RuleAction: types.RuleActionDeny,
		CidrBlock:  aws.String("10.0.0.0/8"), PortRange: &types.PortRange{From: aws.Int32(53), To: aws.Int32(53)},
	}))
	byEntry := []types.Filter{ec2test.Filter("entry.protocol", "udp"), ec2test.Filter("entry.port-range.from", "53"),
		ec2test.Filter("entry.cidr", "10.0.0.0/8")}
	found := awstest.Must[*ec2.DescribeNetworkAclsOutput](t)(w.DescribeNetworkAcls(ctx,
		&ec2.DescribeNetworkAclsInput{Filters: byEntry})).NetworkAcls
	if len(found) != 1 || *found[0].Entries[1].RuleNumber != 10 || *found[0].Entries[1].Protocol != "17" {
		t.Fatalf("found by its entry: %+v", found)
	}
	before := awstest.Must[*ec2.DescribeNetworkAclsOutput](t)(w.DescribeNetworkAcls(ctx,
		&ec2.DescribeNetworkAclsInput{
			Filters: []types.Filter{ec2test.Filter("association.subnet-id", subnet)},
		})).NetworkAcls[0]
	if !*before.IsDefault {
		t.Error("a new subnet does not have the default ACL")
	}
	awstest.Must[*ec2.ReplaceNetworkAclAssociationOutput](t)(w.ReplaceNetworkAclAssociation(ctx,
		&ec2.ReplaceNetworkAclAssociationInput{AssociationId: before.Associations[0].NetworkAclAssociationId,
			NetworkAclId: acl.NetworkAclId}))
	_, err := w.DeleteNetworkAcl(ctx, &ec2.DeleteNetworkAclInput{NetworkAclId: acl.NetworkAclId})
	awstest.WantCode(t, err, "DependencyViolation")
	awstest.Must[*ec2.DeleteNetworkAclEntryOutput](t)(w.DeleteNetworkAclEntry(ctx,
		&ec2.DeleteNetworkAclEntryInput{NetworkAclId: acl.NetworkAclId, RuleNumber: aws.Int32(10),
			Egress: aws.Bool(false)}))
	awstest.Must[*ec2.DeleteSubnetOutput](t)(w.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &subnet}))
	awstest.Must[*ec2.DeleteNetworkAclOutput](t)(w.DeleteNetworkAcl(ctx,
		&ec2.DeleteNetworkAclInput{NetworkAclId: acl.NetworkAclId}))
}

func TestDHCPOptions(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	options := awstest.Must[*ec2.CreateDhcpOptionsOutput](t)(w.CreateDhcpOptions(ctx,
		&ec2.CreateDhcpOptionsInput{DhcpConfigurations: []types.NewDhcpConfiguration{
			{Key: aws.String("domain-name"), Values: []string{"corp.example"}}, {Key: aws.String("domain-name-servers"),
				Values: []string{"10.0.0.53"}},
		}})).DhcpOptions
	awstest.Must[*ec2.AssociateDhcpOptionsOutput](t)(w.AssociateDhcpOptions(ctx,
		&ec2.AssociateDhcpOptionsInput{DhcpOptionsId: options.DhcpOptionsId, VpcId: &vpc}))
	_, err := w.DeleteDhcpOptions(ctx, &ec2.DeleteDhcpOptionsInput{DhcpOptionsId: options.DhcpOptionsId})
	awstest.WantCode(t, err, "DependencyViolation")
	awstest.Must[*ec2.AssociateDhcpOptionsOutput](t)(w.AssociateDhcpOptions(ctx,
		&ec2.AssociateDhcpOptionsInput{DhcpOptionsId: aws.String("default"), VpcId: &vpc}))
	awstest.Must[*ec2.DeleteDhcpOptionsOutput](t)(w.DeleteDhcpOptions(ctx,
		&ec2.DeleteDhcpOptionsInput{DhcpOptionsId: options.DhcpOptionsId}))
}

func TestInterfaceEndpoint(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	awstest.Must[*ec2.ModifyVpcAttributeOutput](t)(w.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: &vpc,
		EnableDnsHostnames: &types.AttributeBooleanValue{Value: aws.Bool(true)}}))
	a, b, group := w.Subnet(vpc, "10.0.0.0/24", "a"), w.Subnet(vpc, "10.0.1.0/24", "b"), w.SecurityGroup(vpc, "sts")
	endpoint := awstest.Must[*ec2.CreateVpcEndpointOutput](t)(w.CreateVpcEndpoint(ctx, &ec2.CreateVpcEndpointInput{
		VpcId: &vpc, ServiceName: aws.String("com.amazonaws.eu-west-1.sts"),
		VpcEndpointType: types.VpcEndpointTypeInterface,
		SubnetIds:       []string{a}, SecurityGroupIds: []string{group}, PrivateDnsEnabled: aws.Bool(true),
	})).VpcEndpoint
	id := *endpoint.VpcEndpointId
	state := []types.Filter{{Name: aws.String("vpc-endpoint-state"), Values: []string{"available"}},
		{Name: aws.String("vpc-endpoint-id"), Values: []string{id}}}
	found := awstest.Must[*ec2.DescribeVpcEndpointsOutput](t)(w.DescribeVpcEndpoints(ctx,
		&ec2.DescribeVpcEndpointsInput{Filters: state})).VpcEndpoints
	if endpoint.State != "pending" || len(found) != 1 || found[0].State != "available" {
		t.Errorf("created %s, then %+v", endpoint.State, found)
	}
	if !slices.ContainsFunc(endpoint.DnsEntries,
		func(d types.DnsEntry) bool { return *d.DnsName == "sts.eu-west-1.amazonaws.com" }) {
		t.Errorf("DNS names: %+v", endpoint.DnsEntries)
	}
	interfaces := func() []types.NetworkInterface {
		return awstest.Must[*ec2.DescribeNetworkInterfacesOutput](t)(w.DescribeNetworkInterfaces(ctx,
			&ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{ec2test.Filter("description", "VPC Endpoint Interface "+
				id)}})).NetworkInterfaces
	}
	if all := interfaces(); len(all) != 1 || all[0].InterfaceType != types.NetworkInterfaceTypeVpcEndpoint ||
		*all[0].Groups[0].GroupId != group || !*all[0].RequesterManaged {
		t.Errorf("interfaces: %+v", all)
	}
	_, err := w.DeleteNetworkInterface(ctx,
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &endpoint.NetworkInterfaceIds[0]})
	awstest.WantCode(t, err, "AuthFailure")
	other := w.SecurityGroup(vpc, "other")
	awstest.Must[*ec2.ModifyVpcEndpointOutput](t)(w.ModifyVpcEndpoint(ctx, &ec2.ModifyVpcEndpointInput{VpcEndpointId: &id,
		AddSubnetIds: []string{b}, AddSecurityGroupIds: []string{other}, RemoveSecurityGroupIds: []string{group}}))
	for _, ni := range interfaces() {
		if len(ni.Groups) != 1 || *ni.Groups[0].GroupId != other {
			t.Errorf("groups of %s after the change: %+v", *ni.SubnetId, ni.Groups)
		}
	}
	awstest.Must[*ec2.ModifyVpcEndpointOutput](t)(w.ModifyVpcEndpoint(ctx, &ec2.ModifyVpcEndpointInput{VpcEndpointId: &id,
		RemoveSubnetIds: []string{a}}))
	if all := interfaces(); len(all) != 1 || *all[0].SubnetId != b {
		t.Errorf("interfaces after the change: %+v", all)
	}
	out := awstest.Must[*ec2.DeleteVpcEndpointsOutput](t)(w.DeleteVpcEndpoints(ctx,
		&ec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{id, "vpce-0123456789abcdef0"}}))
	if len(out.Unsuccessful) != 1 || *out.Unsuccessful[0].Error.Code != "InvalidVpcEndpointId.NotFound" ||
		len(interfaces()) != 0 {
		t.Errorf("deletion: %+v, interfaces left: %v", out.Unsuccessful, interfaces())
	}
	if free := ec2test.CountFreeAddresses(w, b); free != 251 {
		t.Errorf("%d free addresses after the endpoint went, want 251", free)
	}
}
