//go:build linux

package network

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/reachability"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/vpcrule"
)

// analyze looks for the way of a path in a VPC.
func (w *fixture) analyze(v vpc, p reachability.Path) reachability.Result {
	w.Helper()
	n, err := reachability.Load(w.Context(), w.store, v.Key())
	if err != nil {
		w.Fatal(err)
	}
	p.Protocol = vpcrule.TCP
	got, err := n.Analyze(w.Context(), p)
	if err != nil {
		w.Fatal(err)
	}
	return got
}

// codes returns the explanations of a result.
func codes(r reachability.Result) string {
	var all []string
	for _, e := range r.Explanations {
		all = append(all, aws.ToString(e.ExplanationCode))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// sourcePort returns a source port of the packets that an analysis found a way for.
func sourcePort(r reachability.Result) int {
	if !r.Found || r.Forward[0].OutboundHeader == nil {
		return 0
	}
	ports := r.Forward[0].OutboundHeader.SourcePortRanges[0]
	if *ports.From <= 1024 && *ports.To >= 32768 {
		return 0 // any will do
	}
	return int(*ports.From)
}

// connects reports whether a TCP connection from a namespace, or from the host, gets an answer.
func (w *fixture) connects(holder string, port int, address string, wanted bool) bool {
	w.Helper()
	dial := func() error {
		d := net.Dialer{Timeout: patience(wanted), LocalAddr: &net.TCPAddr{Port: port}}
		c, err := d.DialContext(w.Context(), "tcp4", address)
		if err != nil {
			return err
		}
		defer c.Close()
		var seen string
		_, err = fmt.Fscanln(c, &seen)
		return err
	}
	if holder == "" {
		return dial() == nil
	}
	return w.In(holder, dial) == nil
}

// TestReachabilityAgreesWithPackets compares what analyses say with what packets do.
func TestReachabilityAgreesWithPackets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	public, private, guarded := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24"),
		w.newSubnet(v, "10.0.3.0/24")
	gateway := w.newInternetGateway(v)
	open := w.open(v)
	one := func(rules ...record.SecurityGroupRule) []record.SecurityGroup {
		return []record.SecurityGroup{w.newGroup(v, rules...)}
	}
	tcp := func(port int32, block, group string) record.SecurityGroupRule {
		return record.SecurityGroupRule{Protocol: "tcp", FromPort: port, ToPort: port, CIDRIPv4: block, GroupID: group}
	}
	client := w.newENI(public, "", 0, open, "10.0.1.10")
	w.newAddress(w.publicAddress(1), client)
	beside := w.newENI(public, "", 0, one(everything(true), tcp(80, "10.0.1.0/24", "")), "10.0.1.11")
	lonely := w.newENI(public, "", 0, one(everything(true)), "10.0.1.12")
	jailed := w.newENI(public, "", 0, one(record.SecurityGroupRule{Egress: true, Protocol: "tcp", FromPort: 80,
		ToPort: 81, CIDRIPv4: "10.0.2.0/24"}), "10.0.1.13")
	byGroup := w.newENI(private, "", 0, one(everything(true), tcp(80, "", open[0].ID)), "10.0.2.10")
	fromHost := w.newENI(public, "", 0, one(everything(true), tcp(80, HostAddress(w.o.PublicRange).String()+"/32", "")),
		"10.0.1.14")
	w.newAddress(w.publicAddress(2), fromHost)
	behind := w.newENI(guarded, "", 0, open, "10.0.3.10")
	middle := w.newENI(public, "", 0, open, "10.0.1.20")
	change(w, record.NetworkInterfaces, middle, func(e *record.NetworkInterface) { e.SourceDestCheck = false })
	nat := w.newENI(public, "-", 1, nil, "10.0.1.5")
	change(w, record.NetworkInterfaces, nat, func(e *record.NetworkInterface) {
		e.Attachment.InstanceID, e.SourceDestCheck, e.InterfaceType = "", false, ec2types.NetworkInterfaceTypeNatGateway
	})
	natGateway := put(w, record.NATGateways, record.NATGateway{EC2Resource: resource("nat-"), VPCID: v.ID,
		SubnetID: public.ID, NetworkInterfaceID: nat.ID, ConnectivityType: ec2types.ConnectivityTypePublic})
	w.newAddress(w.publicAddress(3), nat)
	mount := w.newENI(private, "", 0, one(tcp(2049, "10.0.1.0/24", "")), "10.0.2.50")
	change(w, record.NetworkInterfaces, mount, func(e *record.NetworkInterface) {
		e.InterfaceType, e.Attachment.InstanceID, e.RequesterManaged = record.InterfaceTypeEFS, "", true
	})
	publicTable, privateTable := w.newRouteTable(v, defaultRoute(gateway.ID)), w.newRouteTable(v)
	change(w, record.Subnets, public, func(s *record.Subnet) { s.RouteTableID = publicTable.ID })
	change(w, record.Subnets, private, func(s *record.Subnet) { s.RouteTableID = privateTable.ID })
	instances := []record.NetworkInterface{client, beside, lonely, jailed, byGroup, fromHost, behind, middle}
	w.plugged(instances...)
	w.waitForRules(v)
	for _, i := range instances {
		for _, port := range []int{80, 81} {
			w.serve(instanceOf(i), fmt.Sprintf("%s:%d", i.PrivateIPs[0], port))
		}
	}
	w.serve(VPCNamespace(v.ID), "10.0.2.50:2049")
	outside := netip.MustParseAddrPort(w.publicServer())
	elastic := map[string]string{client.ID: w.publicAddress(1), fromHost.ID: w.publicAddress(2)}

	routes := func(table record.RouteTable, all ...record.Route) func() {
		return func() {
			change(w, record.RouteTables, table, func(r *record.RouteTable) { r.Routes = all })
		}
	}
	allow, everywhere := ec2types.RuleActionAllow, "0.0.0.0/0"
	entry := func(number int32, egress bool, action ec2types.RuleAction, block string, ports ...int32,
	) record.NetworkACLEntry {
		e := record.NetworkACLEntry{Number: number, Egress: egress, Protocol: "-1", Action: action, CIDR: block}
		if len(ports) > 0 {
			e.Protocol, e.Ports = "6", &ec2types.PortRange{From: &ports[0], To: &ports[1]}
		}
		return e
	}
	acl := func(entries ...record.NetworkACLEntry) func() {
		return func() {
			a := put(w, record.NetworkACLs, record.NetworkACL{EC2Resource: resource("acl-"), VPCID: v.ID, Entries: entries})
			change(w, record.Subnets, guarded, func(s *record.Subnet) { s.NetworkACLID = a.ID })
		}
	}
	const mismatch = "ENI_SG_RULES_MISMATCH"
	for _, c := range []struct {
		what     string
		change   func()
		from, to record.NetworkInterface // with the zero value, the internet
		port     int
		codes    string // empty where packets get through
	}{
		{"a block allows its addresses", nil, client, beside, 80, ""},
		{"no rule for the port", nil, client, beside, 81, mismatch},
		{"no rule for ingress", nil, client, lonely, 80, "SG_HAS_NO_RULES"},
		{"no rule for the address", nil, byGroup, beside, 80, mismatch},
		{"a group allows its members", nil, client, byGroup, 80, ""},
		{"a group allows no others", nil, lonely, byGroup, 80, mismatch},
		{"egress is allowed, ingress is not", nil, jailed, byGroup, 80, mismatch},
		{"neither egress nor ingress is allowed", nil, jailed, beside, 81, mismatch},
		{"egress is not allowed", nil, jailed, client, 80, mismatch},
		{"a mount target", nil, client, mount, 2049, ""},
		{"a mount target, from another subnet", nil, behind, mount, 2049, mismatch},

		{"a network ACL that allows everything", acl(entry(100, false, allow, everywhere), entry(100, true, allow,
			everywhere)), client, behind, 80, ""},
		{"a network ACL without rules", acl(), client, behind, 80, "SUBNET_ACL_RESTRICTION"},
		{"a network ACL without a way back", acl(entry(100, false, allow, everywhere)), client, behind, 80,
			"SUBNET_ACL_RESTRICTION"},
		{"a network ACL with a way back for few ports", acl(entry(100, false, allow, "10.0.1.0/24", 80, 80),
			entry(100, true, allow, everywhere, 2000, 2010)), client, behind, 80, ""},
		{"another port of that network ACL", nil, client, behind, 81, "SUBNET_ACL_RESTRICTION"},
		{"a network ACL that denies before it allows", acl(entry(10, false, ec2types.RuleActionDeny, "10.0.1.10/32"),
			entry(20, false, allow, everywhere), entry(20, true, allow, everywhere)), client, behind, 80,
			"SUBNET_ACL_RESTRICTION"},
		{"somebody else than whom it denies", nil, beside, behind, 80, ""},

		{"from the internet", nil, record.NetworkInterface{}, client, 80, ""},
		{"from the internet to an address that a rule allows", nil, record.NetworkInterface{}, fromHost, 80, ""},
		{"from the internet to another port", nil, record.NetworkInterface{}, fromHost, 81, mismatch},
		{"to the internet", nil, client, record.NetworkInterface{}, 80, ""},
		{"to the internet without a public address", nil, lonely, record.NetworkInterface{}, 80,
			"IGW_PUBLIC_IP_ASSOCIATION_FOR_EGRESS"},
		{"to the internet without a route", nil, byGroup, record.NetworkInterface{}, 80, "NO_ROUTE_TO_DESTINATION"},
		{"to the internet by a NAT gateway", routes(privateTable, defaultRoute(natGateway.ID)), byGroup,
			record.NetworkInterface{}, 80, ""},
		{"by a NAT gateway that is gone", routes(privateTable, defaultRoute("nat-0123456789abcdef0")), byGroup,
			record.NetworkInterface{}, 80, "BAD_STATE_ROUTE"},
		{"a longer block without a target", routes(privateTable, defaultRoute(natGateway.ID), record.Route{
			Destination: outside.Addr().String() + "/32", Target: "eni-0123456789abcdef0"}), byGroup,
			record.NetworkInterface{}, 80, "BAD_STATE_ROUTE"},
		{"an appliance within the VPC", routes(privateTable, record.Route{Destination: "10.0.3.0/24",
			Target: middle.ID}), byGroup, behind, 80, ""},
		{"an appliance that checks destinations", routes(privateTable, record.Route{Destination: "10.0.3.0/24",
			Target: lonely.ID}), byGroup, behind, 80, "ENI_SOURCE_DEST_CHECK_RESTRICTION"},
		{"an answer by a route that leads nowhere", routes(privateTable, record.Route{Destination: "10.0.1.0/24",
			Target: "eni-0123456789abcdef0"}), client, byGroup, 80, "BAD_STATE_ROUTE"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.change != nil {
				c.change()
				w.waitForRules(v)
			}
			p := reachability.Path{Source: c.from.ID, Destination: c.to.ID,
				AtSource: reachability.Filter{DestinationPort: &vpcrule.Ports{From: int32(c.port), To: int32(c.port)}}}
			holder, address := "", fmt.Sprintf("%s:%d", outside.Addr(), c.port)
			if c.from.ID == "" {
				p.Source, p.AtSource.Source = gateway.ID, HostAddress(w.o.PublicRange)
			} else {
				holder = instanceOf(c.from)
			}
			switch {
			case c.to.ID == "":
				p.Destination, p.AtDestination.Destination = gateway.ID, outside.Addr()
			case c.from.ID == "":
				address = fmt.Sprintf("%s:%d", elastic[c.to.ID], c.port)
			default:
				address = fmt.Sprintf("%s:%d", c.to.PrivateIPs[0], c.port)
			}
			got := w.analyze(v, p)
			if codes(got) != c.codes || got.Found != (c.codes == "") {
				t.Errorf("the analysis found a path: %v, explanations %q, want %q", got.Found, codes(got), c.codes)
			}
			if through := w.connects(holder, sourcePort(got), address, got.Found); through != got.Found {
				t.Errorf("the analysis found a path: %v, packets get through: %v", got.Found, through)
			}
		})
	}
}

// TestReachabilityByLoadBalancers does the same for the targets of Network Load Balancers.
func TestReachabilityByLoadBalancers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what           string
		preserve       string
		listener       int32
		guard, deny    bool // whether the load balancer has a security group, and the targets allow the client's address
		inside, public bool
	}{
		{"targets that see the client", "true", 80, false, false, true, true},
		{"targets that see the load balancer", "false", 80, false, false, true, true},
		{"another port", "true", 81, false, false, false, false},
		{"a group of the load balancer that does not allow the client", "true", 80, true, false, false, false},
		{"targets that allow nobody", "true", 80, false, true, false, false},
		{"targets that allow nobody, behind the load balancer", "false", 80, false, true, false, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			w := newBalanced(t)
			change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) {
				g.Attributes = map[string]string{"preserve_client_ip.enabled": c.preserve}
			})
			if c.guard {
				closed := w.newGroup(w.vpc, everything(true))
				change(w.fixture, record.NetworkInterfaces, w.eni, func(e *record.NetworkInterface) {
					e.SecurityGroupIDs = []string{closed.ID}
				})
			}
			if c.deny {
				closed := w.newGroup(w.vpc, everything(true))
				for _, e := range w.targets {
					change(w.fixture, record.NetworkInterfaces, e, func(e *record.NetworkInterface) {
						e.SecurityGroupIDs = []string{closed.ID}
					})
				}
			}
			w.serveTargets()
			w.health(record.TargetHealthy, record.TargetHealthy)
			gateways, err := record.InternetGateways(w.store).List(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			for source, want := range map[string]bool{w.client.ID: c.inside, gateways[0].Value.ID: c.public} {
				at, holder := "10.0.0.20", instanceOf(w.client)
				if source != w.client.ID {
					at, holder = w.eni.PublicIP, ""
				}
				got := w.analyze(w.vpc, reachability.Path{Source: source, Destination: instanceOf(w.targets[0]),
					AtSource: reachability.Filter{Destination: netip.MustParseAddr(at),
						DestinationPort: &vpcrule.Ports{From: c.listener, To: c.listener}}})
				if got.Found != want {
					t.Errorf("from %s: a path: %v, want %v, explanations %q", source, got.Found, want, codes(got))
				}
				if through := w.connects(holder, 0, fmt.Sprintf("%s:%d", at, c.listener), want); through != want {
					t.Errorf("from %s: packets get through: %v, want %v", source, through, want)
				}
			}
		})
	}
}
