//go:build linux

package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestSourceOf is a caller at each address of a VPC that has subnets with an internet gateway, with a NAT gateway, and
// without either.
func TestSourceOf(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	vpc := record.VPC{EC2Resource: resource("vpc-1"), MainRouteTableID: "rtb-public"}
	create(t, record.VPCs(s), vpc.Key(), vpc)
	for id, target := range map[string]string{"rtb-public": "igw-1", "rtb-nat": "nat-1", "rtb-gone": "nat-2",
		"rtb-none": ""} {
		table := record.RouteTable{EC2Resource: resource(id), VPCID: vpc.ID}
		if target != "" {
			table.Routes = []record.Route{{Destination: "0.0.0.0/0", Target: target}, {Destination: "::/0", Target: target}}
		}
		create(t, record.RouteTables(s), table.Key(), table)
	}
	for id, subnet := range map[string]record.Subnet{
		"subnet-public": {CIDR: "10.0.0.0/24", IPv6: &record.CIDRAssociation{CIDR: "2600:db8::/64"}},
		"subnet-nat":    {CIDR: "10.0.1.0/24", RouteTableID: "rtb-nat"},
		"subnet-none":   {CIDR: "10.0.2.0/24", RouteTableID: "rtb-none"},
		"subnet-gone":   {CIDR: "10.0.3.0/24", RouteTableID: "rtb-gone"},
	} {
		subnet.EC2Resource, subnet.VPCID = resource(id), vpc.ID
		create(t, record.Subnets(s), subnet.Key(), subnet)
	}
	for id, eni := range map[string]record.NetworkInterface{
		"eni-lent":     {PrivateIPs: []string{"10.0.0.4", "10.0.0.5"}, PublicIP: "198.51.100.4"},
		"eni-elastic":  {PrivateIPs: []string{"10.0.0.6", "10.0.0.7"}, PublicIP: "198.51.100.6"},
		"eni-private":  {PrivateIPs: []string{"10.0.0.8"}},
		"eni-prefix":   {PrivateIPs: []string{"10.0.0.9"}, IPv4Prefixes: []string{"10.0.0.32/28"}, PublicIP: "198.51.100.9"},
		"eni-nat":      {PrivateIPs: []string{"10.0.0.10"}},
		"eni-endpoint": {PrivateIPs: []string{"10.0.0.11"}},
	} {
		eni.EC2Resource, eni.VPCID = resource(id), vpc.ID
		create(t, record.NetworkInterfaces(s), eni.Key(), eni)
	}
	create(t, record.AddressBlocks(s), record.AddressBlockKey(vpc.Account, vpc.Region, "subnet-public", "10.0.0.0"),
		record.AddressBlock{Addresses: map[string]string{"10.0.0.4": "eni-lent", "10.0.0.5": "eni-lent",
			"10.0.0.6": "eni-elastic", "10.0.0.7": "eni-elastic", "10.0.0.8": "eni-private",
			"10.0.0.11": "eni-endpoint"}})
	create(t, record.AddressBlocks(s), record.AddressBlockKey(vpc.Account, vpc.Region, "subnet-public", "10.0.0.32"),
		record.AddressBlock{PrefixOf: "eni-prefix"})
	for id, a := range map[string]record.Address{
		"eipalloc-1": {PublicIP: "203.0.113.6", NetworkInterfaceID: "eni-elastic"},
		"eipalloc-2": {PublicIP: "203.0.113.7", NetworkInterfaceID: "eni-elastic", PrivateIPAddress: "10.0.0.7"},
		"eipalloc-3": {PublicIP: "203.0.113.10", NetworkInterfaceID: "eni-nat", PrivateIPAddress: "10.0.0.10"},
	} {
		a.EC2Resource = resource(id)
		create(t, record.Addresses(s), a.Key(), a)
	}
	nat := record.NATGateway{EC2Resource: resource("nat-1"), VPCID: vpc.ID, NetworkInterfaceID: "eni-nat"}
	create(t, record.NATGateways(s), nat.Key(), nat)
	endpoint := record.VPCEndpoint{EC2Resource: resource("vpce-1"), VPCID: vpc.ID,
		Type: ec2types.VpcEndpointTypeInterface, NetworkInterfaceIDs: []string{"eni-endpoint"}}
	create(t, record.VPCEndpoints(s), endpoint.Key(), endpoint)

	const apis = "198.18.8.3"
	for name, test := range map[string]struct{ local, remote, public, endpoint string }{
		"an address that Amazon lends":                 {apis, "10.0.0.4", "198.51.100.4", ""},
		"a secondary address has none":                 {apis, "10.0.0.5", "", ""},
		"an elastic address before the one lent":       {apis, "10.0.0.6", "203.0.113.6", ""},
		"an elastic address of a secondary one":        {apis, "10.0.0.7", "203.0.113.7", ""},
		"no public address":                            {apis, "10.0.0.8", "", ""},
		"an address of a prefix has none":              {apis, "10.0.0.33", "", ""},
		"an address that nobody has":                   {apis, "10.0.0.200", "", ""},
		"an address outside of all subnets":            {apis, "203.0.113.99", "", ""},
		"a NAT gateway":                                {apis, "10.0.1.20", "203.0.113.10", ""},
		"a NAT gateway that has gone":                  {apis, "10.0.3.20", "", ""},
		"no route to the internet":                     {apis, "10.0.2.20", "", ""},
		"an IPv6 address is public":                    {apis, "2600:db8::4", "2600:db8::4", ""},
		"an endpoint, with a public address":           {"10.0.0.11", "10.0.0.4", "", "vpce-1"},
		"an endpoint, from a subnet without a gateway": {"10.0.0.11", "10.0.2.20", "", "vpce-1"},
	} {
		got, err := openTables(s).sourceOf(t.Context(), vpc.Key(), netip.MustParseAddr(test.local),
			netip.MustParseAddr(test.remote))
		want := Source{VPCID: vpc.ID, PrivateIP: netip.MustParseAddr(test.remote), EndpointID: test.endpoint}
		if test.public != "" {
			want.PublicIP = netip.MustParseAddr(test.public)
		}
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	if got, err := openTables(s).sourceOf(t.Context(), resource("vpc-2").Key(), netip.MustParseAddr(apis),
		netip.MustParseAddr("10.0.0.4")); err == nil {
		t.Errorf("in a VPC that has gone: %+v", got)
	}
}

// addressedConn is a connection that has addresses alone.
type addressedConn struct {
	net.Conn
	local, remote string
}

func (c addressedConn) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.local + ":443"))
}
func (c addressedConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.remote + ":5000"))
}

// TestSourcesFollowTheRecords takes an elastic address and an endpoint away while connections live.
func TestSourcesFollowTheRecords(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	a := NewAPIs(APIOptions{Store: s})
	vpc := record.VPC{EC2Resource: resource("vpc-1"), MainRouteTableID: "rtb-1"}
	direct := a.identify(vpc.Key(), addressedConn{local: "198.18.8.3", remote: "10.0.0.4"}).LocalAddr()
	private := a.identify(vpc.Key(), addressedConn{local: "10.0.0.11", remote: "10.0.0.4"}).LocalAddr()
	want := func(when string, local net.Addr, public, endpoint string) {
		t.Helper()
		want := Source{VPCID: vpc.ID, PrivateIP: netip.MustParseAddr("10.0.0.4"), EndpointID: endpoint}
		if public != "" {
			want.PublicIP = netip.MustParseAddr(public)
		}
		for range 2 {
			if got, inVPC, err := SourceOf(t.Context(), local); err != nil || !inVPC || got != want {
				t.Errorf("%s: %+v, %t, %v; want %+v", when, got, inVPC, err, want)
			}
		}
	}
	if got, _, err := SourceOf(t.Context(), direct); err == nil {
		t.Errorf("without the record of the VPC: %+v", got)
	}
	create(t, record.VPCs(s), vpc.Key(), vpc)
	want("without a way to the internet", direct, "", "")

	table := record.RouteTable{EC2Resource: resource("rtb-1"), VPCID: vpc.ID,
		Routes: []record.Route{{Destination: "0.0.0.0/0", Target: "igw-1"}}}
	create(t, record.RouteTables(s), table.Key(), table)
	subnet := record.Subnet{EC2Resource: resource("subnet-1"), VPCID: vpc.ID, CIDR: "10.0.0.0/24"}
	create(t, record.Subnets(s), subnet.Key(), subnet)
	for id, private := range map[string]string{"eni-1": "10.0.0.4", "eni-2": "10.0.0.5", "eni-endpoint": "10.0.0.11"} {
		eni := record.NetworkInterface{EC2Resource: resource(id), VPCID: vpc.ID, PrivateIPs: []string{private}}
		create(t, record.NetworkInterfaces(s), eni.Key(), eni)
	}
	create(t, record.AddressBlocks(s), record.AddressBlockKey(vpc.Account, vpc.Region, subnet.ID, "10.0.0.0"),
		record.AddressBlock{Addresses: map[string]string{"10.0.0.4": "eni-1", "10.0.0.5": "eni-2",
			"10.0.0.11": "eni-endpoint"}})
	elastic := record.Address{EC2Resource: resource("eipalloc-1"), PublicIP: "203.0.113.6", NetworkInterfaceID: "eni-1"}
	create(t, record.Addresses(s), elastic.Key(), elastic)
	want("with an elastic address", direct, elastic.PublicIP, "")
	endpoint := record.VPCEndpoint{EC2Resource: resource("vpce-1"), VPCID: vpc.ID,
		Type: ec2types.VpcEndpointTypeInterface, NetworkInterfaceIDs: []string{"eni-endpoint"}}
	create(t, record.VPCEndpoints(s), endpoint.Key(), endpoint)
	want("by an endpoint", private, "", endpoint.ID)

	if _, err := record.Addresses(s).Modify(t.Context(), elastic.Key(), func(a *record.Address) error {
		a.NetworkInterfaceID = "eni-2"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want("after the address has become another's", direct, "", "")
	if err := s.Txn(t.Context(), record.VPCEndpoints(s).RemoveOp(endpoint.Key())); err != nil {
		t.Fatal(err)
	}
	want("after the endpoint has gone", private, "", "")
}

// TestSourcesAreReadWhenRecordsChange counts how often the records are read for the requests of a connection.
func TestSourcesAreReadWhenRecordsChange(t *testing.T) {
	t.Parallel()
	reads, version, failure := 0, uint64(0), errors.New("not now")
	c := connSource{version: func() uint64 { return version }, read: func(context.Context) (Source, error) {
		reads++
		return Source{VPCID: fmt.Sprint(reads)}, failure
	}}
	for i, test := range []struct {
		version uint64
		failure error
		vpc     string
		reads   int
	}{
		{0, failure, "", 1}, {0, nil, "2", 2}, {0, failure, "2", 2}, {1, failure, "", 3}, {1, nil, "4", 4}, {1, nil, "4", 4},
	} {
		version, failure = test.version, test.failure
		got, err := c.find(t.Context())
		if reads != test.reads || (err == nil) != (test.vpc != "") || err == nil && got.VPCID != test.vpc {
			t.Errorf("%d: %+v, %v after %d reads, want %+v", i, got, err, reads, test)
		}
	}
}

// TestSourcesReadLittle has 100 endpoints with long policies beside the one that a request comes by. Nobody is charged
// for what is read for its source, before its signature: that does not grow with them, and ends where it would.
func TestSourcesReadLittle(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	a := NewAPIs(APIOptions{Store: s, Namespace: func(name string) string { return name }})
	vpc := record.VPC{EC2Resource: resource("vpc-1")}
	create(t, record.VPCs(s), vpc.Key(), vpc)
	subnet := record.Subnet{EC2Resource: resource("subnet-1"), VPCID: vpc.ID, CIDR: "10.0.0.0/24"}
	create(t, record.Subnets(s), subnet.Key(), subnet)
	create(t, record.AddressBlocks(s), record.AddressBlockKey(vpc.Account, vpc.Region, subnet.ID, "10.0.0.0"),
		record.AddressBlock{Addresses: map[string]string{"10.0.0.11": "eni-1"}})
	policy := strings.Repeat("x", 80<<10)
	endpoint := func(id, vpc string, kind ec2types.VpcEndpointType, interfaces ...string) {
		t.Helper()
		e := record.VPCEndpoint{EC2Resource: resource(id), VPCID: vpc, Type: kind, NetworkInterfaceIDs: interfaces}
		if interfaces == nil {
			e.InlinePolicy = policy
		}
		create(t, record.VPCEndpoints(s), e.Key(), e)
	}
	for i := range 50 {
		endpoint(fmt.Sprintf("vpce-gateway%d", i), vpc.ID, ec2types.VpcEndpointTypeGateway)
		endpoint(fmt.Sprintf("vpce-other%d", i), "vpc-2", ec2types.VpcEndpointTypeInterface)
	}
	endpoint("vpce-1", vpc.ID, ec2types.VpcEndpointTypeInterface, "eni-1")
	read := func(local string) (source Source, bytes int64, err error) {
		ctx := store.Metered(t.Context(), func(n int64) error { bytes += n; return nil })
		source, _, err = SourceOf(ctx, a.identify(vpc.Key(), addressedConn{local: local, remote: "10.0.0.4"}).LocalAddr())
		return source, bytes, err
	}
	for local, want := range map[string]string{"198.18.8.3": "", "10.0.0.11": "vpce-1"} {
		if source, bytes, err := read(local); err != nil || source.EndpointID != want || bytes == 0 ||
			bytes > int64(len(policy)) {
			t.Errorf("at %s: %+v, %v after %d bytes", local, source, err, bytes)
		}
	}
	if _, addresses, err := a.wantedListeners(t.Context(), vpc.Key()); err != nil || len(addresses) != 1 {
		t.Errorf("it listens on %v, %v", addresses, err)
	}

	for i := range 60 { // with the policies of an earlier version, beyond the quota
		endpoint(fmt.Sprintf("vpce-old%d", i), vpc.ID, ec2types.VpcEndpointTypeInterface)
	}
	if source, bytes, err := read("10.0.0.11"); err == nil || !strings.Contains(err.Error(), "bytes of records") {
		t.Errorf("with long policies in the records: %+v, %v after %d bytes", source, err, bytes)
	}
}

func create[R any](t *testing.T, table store.Table[R], key string, record R) {
	t.Helper()
	if _, err := table.Create(t.Context(), key, record); err != nil {
		t.Fatal(err)
	}
}
