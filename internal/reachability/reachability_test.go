package reachability

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/vpcrule"
)

// newNetwork returns a VPC 10.0.0.0/16 with two network interfaces in a subnet, "eni-a" and "eni-b", and a gateway.
func newNetwork(rules ...record.SecurityGroupRule) *Network {
	id := func(id string) record.EC2Resource {
		return record.EC2Resource{ID: id, Account: "1", Region: "eu-west-1"}
	}
	vpc := record.VPC{EC2Resource: id("vpc-1"), MainRouteTableID: "rtb-1",
		CIDRs: []record.CIDRAssociation{{CIDR: "10.0.0.0/16"}}}
	n := &Network{vpc: vpc, blocks: vpcrule.Blocks(vpc),
		subnets: map[string]record.Subnet{"subnet-1": {EC2Resource: id("subnet-1"), NetworkACLID: "acl-1"}},
		routes: map[string][]vpcrule.Route{"rtb-1": vpcrule.Routes(vpc, record.RouteTable{Routes: []record.Route{
			{Destination: "0.0.0.0/0", Target: "igw-1"}}}, nil)},
		groups: map[string]record.SecurityGroup{"sg-1": {EC2Resource: id("sg-1"), Rules: rules}},
		acls: map[string]record.NetworkACL{"acl-1": {EC2Resource: id("acl-1"), Entries: []record.NetworkACLEntry{
			{Number: 1, Protocol: "-1", CIDR: "0.0.0.0/0", Action: ec2types.RuleActionAllow},
			{Number: 1, Protocol: "-1", CIDR: "0.0.0.0/0", Action: ec2types.RuleActionAllow, Egress: true}}}},
		gateways: map[string]record.InternetGateway{"igw-1": {EC2Resource: id("igw-1")}},
		owners:   map[netip.Prefix]*networkInterface{}, public: map[netip.Addr]netip.Addr{}}
	for i, name := range []string{"a", "b"} {
		address := netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + i)})
		eni := &networkInterface{NetworkInterface: record.NetworkInterface{EC2Resource: id("eni-" + name),
			SubnetID: "subnet-1", SecurityGroupIDs: []string{"sg-1"}, SourceDestCheck: true,
			PrivateIPs: []string{address.String()}, Attachment: &record.NetworkInterfaceAttachment{}}}
		eni.addresses = vpcrule.Addresses(eni.NetworkInterface)
		n.interfaces = append(n.interfaces, eni)
		n.owners[eni.addresses[0]] = eni
		n.public[address] = netip.AddrFrom4([4]byte{198, 18, 0, byte(i)})
	}
	return n
}

func ingress(from, to int32, block string) record.SecurityGroupRule {
	return record.SecurityGroupRule{Protocol: "tcp", FromPort: from, ToPort: to, CIDRIPv4: block}
}

// What a path leaves open is found where rules allow only a part of it.
func TestWhatIsLeftOpenIsFound(t *testing.T) {
	t.Parallel()
	n := newNetwork(ingress(8080, 8090, "203.0.113.7/32"), ingress(22, 22, "192.168.0.0/16"),
		record.SecurityGroupRule{Egress: true, Protocol: "-1", CIDRIPv4: "0.0.0.0/0"})
	got, err := n.Analyze(t.Context(), Path{Protocol: vpcrule.TCP, Source: "igw-1", Destination: "eni-b"})
	if err != nil || !got.Found {
		t.Fatalf("got %+v, %v", got, err)
	}
	header := got.Forward[len(got.Forward)-1].InboundHeader
	ports := header.DestinationPortRanges[0]
	if !slices.Equal(header.SourceAddresses, []string{"203.0.113.7/32"}) || *ports.From != 8080 || *ports.To != 8090 || header.DestinationAddresses[0] != "10.0.0.11/32" {
		t.Errorf("found %+v", header)
	}
	if first := got.Forward[0].InboundHeader.DestinationAddresses[0]; first != "198.18.0.1/32" {
		t.Errorf("enters to %s", first)
	}
	// Addresses of the rule that no packet from the internet has are no way in.
	if got, err = n.Analyze(t.Context(), Path{Protocol: vpcrule.TCP, Source: "igw-1", Destination: "eni-b",
		AtSource: Filter{DestinationPort: &vpcrule.Ports{From: 22, To: 22}}}); err != nil || got.Found {
		t.Errorf("found %+v, %v", got.Forward, err)
	}
}

func TestAnAnalysisIsBounded(t *testing.T) {
	t.Parallel()
	var rules []record.SecurityGroupRule
	for i := range int32(200) {
		rules = append(rules, ingress(1000+10*i, 1001+10*i, fmt.Sprintf("192.168.%d.0/24", i)))
	}
	n := newNetwork(rules...)
	for range 40 {
		eni := n.interfaces[0]
		eni.PrivateIPs = append(eni.PrivateIPs, netip.AddrFrom4([4]byte{10, 0, 1, byte(len(eni.PrivateIPs))}).String())
	}
	n.interfaces[0].addresses = vpcrule.Addresses(n.interfaces[0].NetworkInterface)
	_, err := n.Analyze(t.Context(), Path{Protocol: vpcrule.TCP, Source: "eni-a", Destination: "eni-b"})
	if !errors.Is(err, ErrTooComplex) || !strings.Contains(err.Error(), "specify") {
		t.Errorf("got %v", err)
	}
}

// What is tried first is known before all that could be: the addresses of two interfaces make any number of pairs.
func TestCandidatesAreNotHeld(t *testing.T) {
	n := newNetwork()
	for k, eni := range n.interfaces {
		for i := range 5000 {
			eni.PrivateIPs = append(eni.PrivateIPs, netip.AddrFrom4([4]byte{10, byte(1 + k), byte(i >> 8), byte(i)}).String())
		}
		eni.addresses = vpcrule.Addresses(eni.NetworkInterface)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	count := 0
	for range n.candidates(Path{Protocol: vpcrule.TCP, Source: "eni-a", Destination: "eni-b"}) {
		if count++; count > maxWalks {
			break
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 || count <= maxWalks {
		t.Errorf("%d candidates took %d MiB", count, took>>20)
	}
	_, err := n.Analyze(t.Context(), Path{Protocol: vpcrule.TCP, Source: "eni-a", Destination: "eni-b"})
	if !errors.Is(err, ErrTooComplex) {
		t.Errorf("got %v", err)
	}
}

// Listeners of other ports than the path's make no packets, and are looked at all the same.
func TestCandidatesWithoutPacketsAreBounded(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	b := &loadBalancer{LoadBalancer: record.LoadBalancer{Kind: record.ClassicLoadBalancer,
		Zones: []record.LoadBalancerZone{{NetworkInterfaceID: "eni-a"}}}}
	for range maxWalks {
		b.routes = append(b.routes, balancing.Route{Listener: record.Listener{Protocol: "TCP", Port: 80},
			Pool: balancing.Pool{Members: []balancing.Member{{Address: netip.MustParseAddrPort("10.0.0.11:80")}}}})
	}
	n.balancers = []*loadBalancer{b}
	_, err := n.Analyze(t.Context(), Path{Protocol: vpcrule.TCP, Source: "eni-a", Destination: "eni-b",
		AtSource: Filter{DestinationPort: &vpcrule.Ports{From: 443, To: 443}}})
	if !errors.Is(err, ErrTooComplex) {
		t.Errorf("got %v", err)
	}
}

func TestAnAnalysisEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newNetwork().Analyze(ctx, Path{Protocol: vpcrule.TCP, Source: "eni-a", Destination: "eni-b"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A path that has to contain a thousand components explains some of those that are missing.
func TestFewMissingComponentsAreExplained(t *testing.T) {
	t.Parallel()
	n := newNetwork(record.SecurityGroupRule{Protocol: "-1", CIDRIPv4: "0.0.0.0/0"},
		record.SecurityGroupRule{Egress: true, Protocol: "-1", CIDRIPv4: "0.0.0.0/0"})
	p := Path{Protocol: vpcrule.TCP, Source: "eni-a", Destination: "eni-b",
		Through: slices.Repeat([]string{"arn:x"}, 1000)}
	got, err := n.Analyze(t.Context(), p)
	if err != nil || got.Found || len(got.Explanations) != maxRestrictions {
		t.Errorf("%d explanations, %v", len(got.Explanations), err)
	}
	p.Through = []string{n.arn(ec2types.ResourceTypeNetworkInterface, "eni-b")}
	if got, err = n.Analyze(t.Context(), p); err != nil || !got.Found {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRangesAreBlocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		want     string
	}{
		{"0.0.0.0", "255.255.255.255", "0.0.0.0/0"},
		{"10.0.0.1", "10.0.0.1", "10.0.0.1/32"},
		{"10.0.0.1", "10.0.0.6", "10.0.0.1/32 10.0.0.2/31 10.0.0.4/31 10.0.0.6/32"},
		{"128.0.0.0", "255.255.255.255", "128.0.0.0/1"},
		{"255.255.255.255", "255.255.255.255", "255.255.255.255/32"},
	} {
		s := span{number(netip.MustParseAddr(c.from)), number(netip.MustParseAddr(c.to))}
		if got := strings.Join(s.blocks(), " "); got != c.want {
			t.Errorf("%s to %s is %s, want %s", c.from, c.to, got, c.want)
		}
	}
	n := newNetwork()
	for _, s := range n.internet() {
		for _, p := range reserved {
			if b := blockSpan(p); b.first <= s.last && s.first <= b.last {
				t.Errorf("%v of the internet overlaps %v", s.blocks(), p)
			}
		}
	}
}
