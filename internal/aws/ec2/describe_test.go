package ec2_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

func TestFilters(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc := w.VPC("10.0.0.0/16")
	a, b, c := w.Subnet(vpc, "10.0.0.0/24", "a"), w.Subnet(vpc, "10.0.1.0/24", "b"), w.Subnet(vpc, "10.0.2.0/24", "b")
	names := map[string]string{a: "a", b: "b", c: "c"}
	tags := map[string][]types.Tag{
		a: {{Key: aws.String("Name"), Value: aws.String("web-1")}, {Key: aws.String("kubernetes.io/role/elb"),
			Value: aws.String("1")}},
		b: {{Key: aws.String("Name"), Value: aws.String("web-20")}},
		c: {{Key: aws.String("Name"), Value: aws.String("db*1")}},
	}
	for id, list := range tags {
		awstest.Must[*ec2.CreateTagsOutput](t)(
			w.CreateTags(w.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: list}),
		)
	}
	for _, row := range []struct {
		name    string
		filters []types.Filter
		want    string
	}{
		{"none", nil, "abc"},
		{"one value", []types.Filter{ec2test.Filter("availability-zone", "eu-west-1b")}, "bc"},
		{"one of several values", []types.Filter{ec2test.Filter("cidr-block", "10.0.0.0/24", "10.0.2.0/24")}, "ac"},
		{"both of two filters", []types.Filter{ec2test.Filter("availability-zone-id", "euw1-az2"),
			ec2test.Filter("cidrBlock", "10.0.1.0/24")}, "b"},
		{"a number", []types.Filter{ec2test.Filter("available-ip-address-count", "251")}, "abc"},
		{"a flag", []types.Filter{ec2test.Filter("map-public-ip-on-launch", "true")}, ""},
		{"a tag", []types.Filter{ec2test.Filter("tag:Name", "web-1")}, "a"},
		{"a tag's key", []types.Filter{ec2test.Filter("tag-key", "kubernetes.io/role/*")}, "a"},
		{"any text", []types.Filter{ec2test.Filter("tag:Name", "web-*")}, "ab"},
		{"any text twice", []types.Filter{ec2test.Filter("tag:Name", "*b*1")}, "ac"},
		{"any character", []types.Filter{ec2test.Filter("tag:Name", "web-?")}, "a"},
		{"a star itself", []types.Filter{ec2test.Filter("tag:Name", `db\*1`)}, "c"},
		{"case matters", []types.Filter{ec2test.Filter("tag:Name", "WEB-1")}, ""},
		{"a tag nobody has", []types.Filter{ec2test.Filter("tag:Color", "*")}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := &ec2.DescribeSubnetsInput{Filters: append([]types.Filter{ec2test.Filter("vpc-id", vpc)}, row.filters...)}
			var found []string
			for _, s := range awstest.Must[*ec2.DescribeSubnetsOutput](t)(w.DescribeSubnets(w.Context(), in)).Subnets {
				found = append(found, names[*s.SubnetId])
			}
			slices.Sort(found)
			if strings.Join(found, "") != row.want {
				t.Errorf("found %v, want %s", found, row.want)
			}
		})
	}
}

// TestEveryDocumentedFilterIsKnown asks each Describe for the filters that its documentation lists.
func TestEveryDocumentedFilterIsKnown(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	w.NetworkInterface(subnet)
	w.Address()
	ctx := w.Context()
	for operation, row := range map[string]struct {
		call    func(types.Filter) error
		filters string
	}{
		"DescribeVpcs": {func(f types.Filter) error {
			_, err := w.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: []types.Filter{f}})
			return err
		}, "cidr cidr-block-association.cidr-block cidr-block-association.association-id " +
			"cidr-block-association.state dhcp-options-id ipv6-cidr-block-association.ipv6-cidr-block " +
			"ipv6-cidr-block-association.ipv6-pool ipv6-cidr-block-association.association-id " +
			"ipv6-cidr-block-association.state is-default owner-id state tag:x tag-key vpc-id"},
		"DescribeSubnets": {func(f types.Filter) error {
			_, err := w.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: []types.Filter{f}})
			return err
		}, "availability-zone availability-zone-id available-ip-address-count cidr-block customer-owned-ipv4-pool " +
			"default-for-az enable-dns64 enable-lni-at-device-index ipv6-cidr-block-association.ipv6-cidr-block " +
			"ipv6-cidr-block-association.association-id ipv6-cidr-block-association.state ipv6-native " +
			"map-customer-owned-ip-on-launch map-public-ip-on-launch outpost-arn owner-id " +
			"private-dns-name-options-on-launch.hostname-type " +
			"private-dns-name-options-on-launch.enable-resource-name-dns-a-record " +
			"private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record state subnet-arn subnet-id " +
			"tag:x tag-key vpc-id"},
		"DescribeSecurityGroups": {func(f types.Filter) error {
			_, err := w.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{f}})
			return err
		}, "description egress.ip-permission.cidr egress.ip-permission.from-port egress.ip-permission.group-id " +
			"egress.ip-permission.group-name egress.ip-permission.ipv6-cidr egress.ip-permission.prefix-list-id " +
			"egress.ip-permission.protocol egress.ip-permission.to-port egress.ip-permission.user-id group-id " +
			"group-name ip-permission.cidr ip-permission.from-port ip-permission.group-id ip-permission.group-name " +
			"ip-permission.ipv6-cidr ip-permission.prefix-list-id ip-permission.protocol ip-permission.to-port " +
			"ip-permission.user-id owner-id tag:x tag-key vpc-id"},
		"DescribeSecurityGroupRules": {func(f types.Filter) error {
			_, err := w.DescribeSecurityGroupRules(ctx,
				&ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{f}})
			return err
		}, "group-id security-group-rule-id tag:x"},
		"DescribeRouteTables": {func(f types.Filter) error {
			_, err := w.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: []types.Filter{f}})
			return err
		}, "association.gateway-id association.route-table-association-id association.route-table-id " +
			"association.subnet-id association.main owner-id route-table-id route.destination-cidr-block " +
			"route.destination-ipv6-cidr-block route.destination-prefix-list-id " +
			"route.egress-only-internet-gateway-id route.gateway-id route.instance-id route.nat-gateway-id " +
			"route.transit-gateway-id route.origin route.state route.vpc-peering-connection-id tag:x tag-key vpc-id"},
		"DescribeInternetGateways": {func(f types.Filter) error {
			_, err := w.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{Filters: []types.Filter{f}})
			return err
		}, "attachment.state attachment.vpc-id internet-gateway-id owner-id tag:x tag-key"},
		"DescribeNatGateways": {func(f types.Filter) error {
			_, err := w.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{Filter: []types.Filter{f}})
			return err
		}, "nat-gateway-id state subnet-id tag:x tag-key vpc-id"},
		"DescribeAddresses": {func(f types.Filter) error {
			_, err := w.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{Filters: []types.Filter{f}})
			return err
		}, "allocation-id association-id instance-id network-border-group network-interface-id " +
			"network-interface-owner-id private-ip-address public-ip tag:x tag-key"},
		"DescribeNetworkInterfaces": {func(f types.Filter) error {
			_, err := w.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{f}})
			return err
		}, "association.allocation-id association.association-id addresses.association.owner-id " +
			"addresses.association.public-ip addresses.primary addresses.private-ip-address association.ip-owner-id " +
			"association.public-ip association.public-dns-name attachment.attach-time attachment.attachment-id " +
			"attachment.delete-on-termination attachment.device-index attachment.instance-id " +
			"attachment.instance-owner-id attachment.status availability-zone availability-zone-id description " +
			"group-id ipv6-addresses.ipv6-address interface-type mac-address network-interface-id operator.managed " +
			"operator.principal owner-id private-dns-name private-ip-address requester-id requester-managed " +
			"source-dest-check status subnet-id tag:x tag-key vpc-id"},
		"DescribeNetworkAcls": {func(f types.Filter) error {
			_, err := w.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{Filters: []types.Filter{f}})
			return err
		}, "association.association-id association.network-acl-id association.subnet-id default entry.cidr " +
			"entry.icmp.code entry.icmp.type entry.ipv6-cidr entry.port-range.from entry.port-range.to " +
			"entry.protocol entry.rule-action entry.egress entry.rule-number network-acl-id owner-id tag:x tag-key vpc-id"},
		"DescribeDhcpOptions": {func(f types.Filter) error {
			_, err := w.DescribeDhcpOptions(ctx, &ec2.DescribeDhcpOptionsInput{Filters: []types.Filter{f}})
			return err
		}, "dhcp-options-id key value owner-id tag:x tag-key"},
		"DescribeVpcEndpoints": {func(f types.Filter) error {
			_, err := w.DescribeVpcEndpoints(ctx, &ec2.DescribeVpcEndpointsInput{Filters: []types.Filter{f}})
			return err
		}, "ip-address-type service-name service-region tag:x tag-key vpc-id vpc-endpoint-id vpc-endpoint-state " +
			"vpc-endpoint-type"},
		"DescribeKeyPairs": {func(f types.Filter) error {
			_, err := w.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{Filters: []types.Filter{f}})
			return err
		}, "key-pair-id fingerprint key-name tag-key tag:x"},
		"DescribeTags": {func(f types.Filter) error {
			_, err := w.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: []types.Filter{f}})
			return err
		}, "key resource-id resource-type tag:x value"},
		"DescribeAvailabilityZones": {func(f types.Filter) error {
			_, err := w.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{Filters: []types.Filter{f}})
			return err
		}, "group-long-name group-name message opt-in-status parent-zone-id parent-zone-name region-name state " +
			"zone-id zone-name zone-type"},
	} {
		for _, name := range strings.Fields(row.filters) {
			if err := row.call(ec2test.Filter(name, "*")); err != nil {
				t.Errorf("%s by %s: %v", operation, name, err)
			}
		}
		awstest.WantCode(t, row.call(ec2test.Filter("no-such-filter", "x")), "InvalidParameterValue")
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc := w.VPC("10.0.0.0/16")
	want := map[string]bool{}
	for i := range 12 {
		want[w.Subnet(vpc, fmt.Sprintf("10.0.%d.0/24", i), "a")] = true
	}
	in := &ec2.DescribeSubnetsInput{Filters: []types.Filter{ec2test.Filter("vpc-id", vpc)}, MaxResults: aws.Int32(5)}
	var sizes []int
	pages := ec2.NewDescribeSubnetsPaginator(w, in)
	for pages.HasMorePages() {
		page := awstest.Must[*ec2.DescribeSubnetsOutput](t)(pages.NextPage(w.Context()))
		sizes = append(sizes, len(page.Subnets))
		for _, s := range page.Subnets {
			if !want[*s.SubnetId] {
				t.Errorf("subnet %s came twice or is not ours", *s.SubnetId)
			}
			delete(want, *s.SubnetId)
		}
	}
	if len(want) != 0 || !slices.Equal(sizes, []int{5, 5, 2}) {
		t.Errorf("pages of %v items, %d subnets missing", sizes, len(want))
	}

	first := awstest.Must[*ec2.DescribeSubnetsOutput](t)(w.DescribeSubnets(w.Context(), in))
	in.NextToken, in.Filters = first.NextToken, nil
	if _, err := w.DescribeSubnets(w.Context(), in); err == nil {
		t.Error("a token was taken for another request")
	}
	_, err := w.DescribeVpcs(w.Context(), &ec2.DescribeVpcsInput{MaxResults: aws.Int32(5), NextToken: first.NextToken})
	if err == nil {
		t.Error("a token was taken for another operation")
	}
}
