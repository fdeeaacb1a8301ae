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

// networkFixture is a VPC with one resource of each kind, beside another VPC.
type networkFixture struct {
	*ec2test.Fixture
	vpc, other, gateway, unattached, subnet, otherSubnet, group, otherGroup, table, association string

	ni          types.NetworkInterface
	free, taken *ec2.AllocateAddressOutput
	ssh         types.IpPermission
	acl         types.NetworkAcl
	main        types.RouteTable
	primary     *string
}

func newNetworkFixture(t *testing.T) *networkFixture {
	t.Helper()
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
	return &networkFixture{w, vpc, other, gateway, unattached, subnet, otherSubnet, group, otherGroup, table,
		association, ni, free, taken, ssh, acl, main, primary}
}

// TestBadRequests sends requests that AWS refuses, and checks code, HTTP status, message and that nothing changed.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	f := newNetworkFixture(t)
	checkRefusals(f.Fixture, t, slices.Concat(vpcRefusals(f), gatewayRefusals(f), otherRefusals(f)))
}

// otherRefusals returns the bad requests about network ACLs, DHCP options, endpoints, key pairs, tags and zones.
func otherRefusals(f *networkFixture) []refused {
	w := f.Fixture
	ctx := f.Context()
	s := aws.String
	vpc, acl := f.vpc, f.acl
	tag := func(id, key, value string) func() error {
		return func() error {
			_, err := w.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id},
				Tags: []types.Tag{{Key: &key, Value: &value}}})
			return err
		}
	}
	return []refused{
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
			id := awstest.Must[*ec2.DescribeVpcsOutput](w.T)(w.DescribeVpcs(ctx,
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
		}, "InvalidParameterValue", "resources is invalid. It must have length less than or equal to 1000"},
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
	}
}
