//go:build linux

package network

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// balanced is a Network Load Balancer in a public subnet, with two targets in a private one.
type balanced struct {
	*fixture
	vpc     vpc
	table   record.RouteTable       // of the public subnet
	client  record.NetworkInterface // an instance beside the load balancer
	targets [2]record.NetworkInterface
	eni     record.NetworkInterface
	balance record.LoadBalancer
	group   record.TargetGroup
}

func newBalanced(t *testing.T, groups ...string) *balanced {
	t.Helper()
	w := &balanced{fixture: newFixture(t)}
	w.vpc = w.newVPC("10.0.0.0/16")
	gateway := w.newInternetGateway(w.vpc)
	public, private := w.newSubnet(w.vpc, "10.0.0.0/24"), w.newSubnet(w.vpc, "10.0.1.0/24")
	w.table = w.newRouteTable(w.vpc, defaultRoute(gateway.ID))
	change(w.fixture, record.Subnets, public, func(s *record.Subnet) { s.RouteTableID = w.table.ID })
	open := w.newGroup(w.vpc, everything(true), everything(false))
	w.client = w.newENI(public, "", 0, []record.SecurityGroup{open}, "10.0.0.10")
	for i := range w.targets {
		w.targets[i] = w.newENI(private, "", 0, []record.SecurityGroup{open}, fmt.Sprintf("10.0.1.%d", 10+i))
	}
	w.balance = record.LoadBalancer{Account: account, Region: region, Kind: record.NetworkLoadBalancer, Name: "web",
		ID: "0123456789abcdef", VPCID: w.vpc.ID, Scheme: record.SchemeInternetFacing, SecurityGroupIDs: groups}
	w.eni = record.NetworkInterface{EC2Resource: resource("eni-"), VPCID: w.vpc.ID, SubnetID: public.ID,
		MACAddress: "06:00:00:00:00:01", SourceDestCheck: true, PrivateIPs: []string{"10.0.0.20"},
		PublicIP: w.publicAddress(1), SecurityGroupIDs: groups,
		Attachment: &record.NetworkInterfaceAttachment{ID: newID("eni-attach-"), InstanceOwnerID: "amazon-elb",
			DeviceIndex: 1}}
	w.balance.Zones = []record.LoadBalancerZone{{Name: "eu-west-1a", SubnetID: public.ID, NetworkInterfaceID: w.eni.ID,
		PrivateIP: "10.0.0.20", PublicIP: w.eni.PublicIP}}
	w.balance.Listeners = []record.Listener{{ID: "1", Protocol: "TCP", Port: 80, TargetGroup: "web"}}
	w.group = record.TargetGroup{Account: account, Region: region, Name: "web", ID: "f", Protocol: "TCP", Port: 8080,
		TargetType: "instance", VPCID: w.vpc.ID, LoadBalancer: "web"}
	for _, e := range w.targets {
		w.group.Targets = append(w.group.Targets, record.Target{ID: instanceOf(e), Port: 8080})
	}
	put(w.fixture, record.TargetGroups, w.group)
	put(w.fixture, record.LoadBalancers, w.balance)
	put(w.fixture, record.NetworkInterfaces, w.eni)
	w.plugged(w.client, w.targets[0], w.targets[1])
	return w
}

// health records the states of the targets.
func (w *balanced) health(states ...string) {
	w.Helper()
	row := record.TargetHealth{Owner: w.group.ID, Targets: map[string]record.TargetState{}}
	for i, state := range states {
		row.Targets[balancing.TargetName(instanceOf(w.targets[i]), 8080)] = record.TargetState{State: state}
	}
	if _, err := record.TargetHealths(w.store).Put(w.Context(), w.group.TargetHealthKey(), row); err != nil {
		w.Fatal(err)
	}
	w.waitForRules(w.vpc)
}

// answering waits until connections from a namespace to an address get to all of these targets, and to no other.
func (w *balanced) answering(from, address, client string, targets ...int) {
	w.Helper()
	eventually.Nil(w, "connect to "+address, func() error {
		_, err := w.call(from, "", address)
		return err
	})
	seen := map[int]bool{}
	for range 32 {
		got, err := w.call(from, "", address)
		if err != nil {
			w.Fatal(err)
		}
		for i := range w.targets {
			if got == fmt.Sprintf("%s-%d", client, i) {
				seen[i] = true
			}
		}
		if got != fmt.Sprintf("%s-%d", client, 0) && got != fmt.Sprintf("%s-%d", client, 1) {
			w.Fatalf("%s was answered by %q, want the client %s", address, got, client)
		}
	}
	if len(seen) != len(targets) {
		w.Errorf("%s: answers of %v, want of %v", address, seen, targets)
	}
	for _, i := range targets {
		if !seen[i] {
			w.Errorf("%s: no answer of target %d", address, i)
		}
	}
}

func (w *balanced) serveTargets() {
	w.Helper()
	for i, e := range w.targets {
		w.serveNamed(instanceOf(e), e.PrivateIPs[0]+":8080", i)
	}
}

// chains returns the nftables chains of the load balancer's namespace, by name.
func (w *balanced) chains() map[string]*nftables.Chain {
	w.Helper()
	all := map[string]*nftables.Chain{}
	if err := w.In(w.balance.Namespace(), func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		chains, err := conn.ListChains()
		for _, c := range chains {
			all[c.Name] = c
		}
		return err
	}); err != nil {
		w.Fatal(err)
	}
	return all
}

// serveNamed answers TCP connections with the address that they come from, and a number.
func (w *balanced) serveNamed(holder, address string, number int) {
	w.Helper()
	l, err := w.Listen(w.Context(), holder, "tcp", address)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s-%d\n", netip.MustParseAddrPort(c.RemoteAddr().String()).Addr(), number)
			c.Close()
		}
	}()
}

// TestNetworkLoadBalancer sends connections from the VPC and from the internet to the targets of a Network Load
// Balancer, which see the client's own address though they have no way to the internet.
func TestNetworkLoadBalancer(t *testing.T) {
	t.Parallel()
	w := newBalanced(t)
	w.serveTargets()
	w.health(record.TargetHealthy, record.TargetHealthy)
	if chains := w.chains(); len(chains) > 0 {
		t.Errorf("the namespace of the load balancer has rules: %v", chains)
	}
	client, internet := instanceOf(w.client), InternetNamespace
	inside, outside := "10.0.0.20:80", w.eni.PublicIP+":80"
	gateway := GatewayAddress(w.o.PublicRange).String()
	w.answering(client, inside, "10.0.0.10", 0, 1)
	w.answering(internet, outside, gateway, 0, 1)

	w.health(record.TargetHealthy, record.TargetUnhealthy)
	w.answering(client, inside, "10.0.0.10", 0)
	w.answering(internet, outside, gateway, 0)

	w.health(record.TargetUnhealthy, record.TargetUnhealthy) // it fails open
	w.answering(client, inside, "10.0.0.10", 0, 1)

	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) {
		g.Attributes = map[string]string{"stickiness.enabled": "true"}
	})
	w.waitForRules(w.vpc)
	first, err := w.call(client, "", inside)
	if err != nil {
		t.Fatal(err)
	}
	for range 16 {
		if got, err := w.call(client, "", inside); err != nil || got != first {
			t.Errorf("a client with a target of its own got %q, %v, want %q", got, err, first)
		}
	}
	group, err := record.SecurityGroups(w.store).Get(t.Context(),
		record.EC2Key(account, region, w.client.SecurityGroupIDs[0]))
	if err != nil {
		t.Fatal(err)
	}
	for port := range int32(8) { // the rules of the VPC are made anew
		change(w.fixture, record.SecurityGroups, group.Value, func(g *record.SecurityGroup) {
			g.Rules = append(g.Rules, record.SecurityGroupRule{Protocol: "tcp", FromPort: port, ToPort: port,
				CIDRIPv4: "192.0.2.0/24"})
		})
		w.waitForRules(w.vpc)
		if got, err := w.call(client, "", inside); err != nil || got != first {
			t.Errorf("after a change in the VPC a client with a target of its own got %q, %v, want %q", got, err, first)
		}
	}

	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) {
		for i := range g.Targets {
			g.Targets[i].DeregisteredAt = time.Now()
		}
	})
	w.waitForRules(w.vpc)
	w.reaches(client, inside, false)

	remove(w.fixture, record.LoadBalancers, w.balance)
	remove(w.fixture, record.NetworkInterfaces, w.eni)
	w.waitForRules(w.vpc)
	w.reaches(client, inside, false)
	eventually.Nil(t, "the namespace of the load balancer has gone", func() error {
		if _, err := w.reconcileInternet(t.Context(), ""); err != nil {
			return err
		}
		if there, err := isNamespace(w.Namespace(w.balance.Namespace())); there || err != nil {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}

// TestTargetsSeeTheLoadBalancer has a Network Load Balancer of two zones that does not preserve the client's address:
// its namespace forwards, in each zone with the address there, by which security groups know it.
func TestTargetsSeeTheLoadBalancer(t *testing.T) {
	t.Parallel()
	w := newBalanced(t)
	other := w.newSubnet(w.vpc, "10.0.2.0/24")
	change(w.fixture, record.Subnets, other, func(s *record.Subnet) { s.RouteTableID = w.table.ID })
	second := put(w.fixture, record.NetworkInterfaces, record.NetworkInterface{EC2Resource: resource("eni-"),
		VPCID: w.vpc.ID, SubnetID: other.ID, MACAddress: "06:00:00:00:00:02", SourceDestCheck: true,
		PrivateIPs: []string{"10.0.2.20"}, PublicIP: w.publicAddress(2), Attachment: &record.NetworkInterfaceAttachment{
			ID: newID("eni-attach-"), InstanceOwnerID: "amazon-elb", DeviceIndex: 1}})
	change(w.fixture, record.LoadBalancers, w.balance, func(b *record.LoadBalancer) {
		b.Attributes = map[string]string{"load_balancing.cross_zone.enabled": "true"}
		b.Zones = append(b.Zones, record.LoadBalancerZone{Name: "eu-west-1b", SubnetID: other.ID,
			NetworkInterfaceID: second.ID, PrivateIP: "10.0.2.20", PublicIP: second.PublicIP})
	})
	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) {
		g.Attributes = map[string]string{"preserve_client_ip.enabled": "false"}
	})
	let := func(cidr string) record.SecurityGroupRule {
		return record.SecurityGroupRule{Protocol: "tcp", FromPort: 8080, ToPort: 8080, CIDRIPv4: cidr}
	}
	group, err := record.SecurityGroups(w.store).Get(t.Context(),
		record.EC2Key(account, region, w.targets[0].SecurityGroupIDs[0]))
	if err != nil {
		t.Fatal(err)
	}
	change(w.fixture, record.SecurityGroups, group.Value, func(g *record.SecurityGroup) {
		g.Rules = []record.SecurityGroupRule{everything(true), let("10.0.0.20/32"), let("10.0.2.20/32")}
	})
	w.serveTargets()
	w.health(record.TargetHealthy, record.TargetHealthy)
	client := instanceOf(w.client)
	for at, public := range map[string]string{"10.0.0.20": w.eni.PublicIP, "10.0.2.20": second.PublicIP} {
		w.answering(client, at+":80", at, 0, 1)
		w.answering(InternetNamespace, public+":80", at, 0, 1)
	}
	w.reaches(client, w.targets[0].PrivateIPs[0]+":8080", false) // the group knows the load balancer, not the client
	w.reaches(client, "10.0.0.20:81", false)

	w.health(record.TargetUnhealthy, record.TargetHealthy)
	w.answering(client, "10.0.0.20:80", "10.0.0.20", 1)

	// Nothing else passes through the namespace.
	if c := w.chains()["forward"]; c == nil || c.Policy == nil || *c.Policy != nftables.ChainPolicyDrop {
		t.Errorf("the namespace forwards by %+v", c)
	}

	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) { g.Attributes = nil })
	change(w.fixture, record.SecurityGroups, group.Value, func(g *record.SecurityGroup) {
		g.Rules = []record.SecurityGroupRule{everything(true), everything(false)}
	})
	w.waitForRules(w.vpc)
	w.answering(client, "10.0.0.20:80", "10.0.0.10", 1)
	for name := range w.chains() {
		if strings.HasPrefix(name, "to-") {
			t.Errorf("the namespace keeps the chain %s", name)
		}
	}

	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) {
		g.Attributes = map[string]string{"preserve_client_ip.enabled": "false"}
		for i := range g.Targets {
			g.Targets[i].DeregisteredAt = time.Now()
		}
	})
	w.waitForRules(w.vpc)
	w.reaches(client, "10.0.0.20:80", false)
}

// TestApplicationLoadBalancerIsATarget sends connections to a Network Load Balancer on to an Application Load Balancer,
// whose security group knows the clients, and which has no way to the internet of its own.
func TestApplicationLoadBalancerIsATarget(t *testing.T) {
	t.Parallel()
	w := newBalanced(t)
	client := instanceOf(w.client)
	inside, outside := "10.0.0.20:80", w.eni.PublicIP+":80"
	gateway := GatewayAddress(w.o.PublicRange).String()
	front := w.newGroup(w.vpc, everything(true), everything(false))
	change(w.fixture, record.NetworkInterfaces, w.eni,
		func(e *record.NetworkInterface) { e.SecurityGroupIDs = []string{front.ID} })
	group := w.newGroup(w.vpc, everything(true))
	let := func(rules ...record.SecurityGroupRule) {
		t.Helper()
		change(w.fixture, record.SecurityGroups, group, func(g *record.SecurityGroup) {
			g.Rules = append(rules, everything(true))
		})
		w.waitForRules(w.vpc)
	}
	application := record.LoadBalancer{Account: account, Region: region, Kind: record.ApplicationLoadBalancer,
		Name: "app", ID: "fedcba9876543210", VPCID: w.vpc.ID, Scheme: record.SchemeInternal,
		SecurityGroupIDs: []string{group.ID}, Listeners: []record.Listener{{ID: "1", Protocol: "HTTP", Port: 8080}}}
	for i, zone := range []string{"eu-west-1a", "eu-west-1b"} {
		e := put(w.fixture, record.NetworkInterfaces, record.NetworkInterface{EC2Resource: resource("eni-"),
			VPCID: w.vpc.ID, SubnetID: w.newSubnet(w.vpc, fmt.Sprintf("10.0.%d.0/24", 3+i)).ID,
			MACAddress: fmt.Sprintf("06:00:00:00:01:%02d", i), SourceDestCheck: true, SecurityGroupIDs: []string{group.ID},
			PrivateIPs: []string{fmt.Sprintf("10.0.%d.20", 3+i)}, Attachment: &record.NetworkInterfaceAttachment{
				ID: newID("eni-attach-"), InstanceOwnerID: "amazon-elb", DeviceIndex: 1}})
		application.Zones = append(application.Zones, record.LoadBalancerZone{Name: zone, SubnetID: e.SubnetID,
			NetworkInterfaceID: e.ID, PrivateIP: e.PrivateIPs[0]})
	}
	put(w.fixture, record.LoadBalancers, application)
	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) {
		g.TargetType, g.Targets = "alb", []record.Target{{ID: application.ARN(), Port: 8080}}
	})
	let(everything(false))
	for i, z := range application.Zones {
		eventually.Nil(t, "the namespace of the Application Load Balancer has "+z.PrivateIP, func() error {
			l, err := w.Listen(t.Context(), application.Namespace(), "tcp", z.PrivateIP+":1")
			if err != nil {
				return err
			}
			return l.Close()
		})
		w.serveNamed(application.Namespace(), z.PrivateIP+":8080", i)
	}
	w.answering(client, inside, "10.0.0.10", 0)
	w.answering(InternetNamespace, outside, gateway, 0)
	w.reaches(InternetNamespace, outside, true)

	port := func(cidr, group string) record.SecurityGroupRule {
		return record.SecurityGroupRule{Protocol: "tcp", FromPort: 8080, ToPort: 8080, CIDRIPv4: cidr, GroupID: group}
	}
	let(port("10.0.0.10/32", "")) // the client
	w.reaches(client, inside, true)
	w.reaches(InternetNamespace, outside, false)
	let(port("10.0.0.20/32", "")) // the Network Load Balancer, which is not whom it sees
	w.reaches(client, inside, false)
	let(port("", front.ID))
	w.answering(client, inside, "10.0.0.10", 0)
	w.answering(InternetNamespace, outside, gateway, 0)
	w.reaches(client, "10.0.3.20:8080", false)

	change(w.fixture, record.LoadBalancers, w.balance, func(b *record.LoadBalancer) {
		b.Attributes = map[string]string{"load_balancing.cross_zone.enabled": "true"}
	})
	w.waitForRules(w.vpc)
	w.answering(client, inside, "10.0.0.10", 0, 1)
	change(w.fixture, record.LoadBalancers, application,
		func(b *record.LoadBalancer) { b.Zones = b.Zones[1:] })
	w.waitForRules(w.vpc)
	w.answering(client, inside, "10.0.0.10", 1)
}

// TestConnectionsEndWithTheirLoadBalancer has a connection that goes on while its target drains, and ends with the load
// balancer, whose address may be somebody else's then.
func TestConnectionsEndWithTheirLoadBalancer(t *testing.T) {
	t.Parallel()
	w := newBalanced(t)
	for _, e := range w.targets {
		w.serve(instanceOf(e), e.PrivateIPs[0]+":8080")
	}
	w.health(record.TargetHealthy, record.TargetHealthy)
	conn, err := w.Dial(t.Context(), instanceOf(w.client), "tcp", "10.0.0.20:80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echoed := func(wanted bool) error {
		conn.SetDeadline(time.Now().Add(patience(wanted)))
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		b := make([]byte, 64)
		for {
			n, err := conn.Read(b)
			if err != nil || bytes.Contains(b[:n], []byte("x")) {
				return err
			}
		}
	}
	if err := echoed(true); err != nil {
		t.Fatal(err)
	}
	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) {
		for i := range g.Targets {
			g.Targets[i].DeregisteredAt = time.Now()
		}
	})
	w.waitForRules(w.vpc)
	if err := echoed(true); err != nil {
		t.Errorf("while its target drains: %v", err)
	}
	remove(w.fixture, record.LoadBalancers, w.balance)
	remove(w.fixture, record.NetworkInterfaces, w.eni)
	w.waitForRules(w.vpc)
	if err := echoed(false); err == nil {
		t.Error("a connection goes on without its load balancer")
	}
}

// TestBalancedDatagrams sends datagrams through a Network Load Balancer, and gets answers from its address.
func TestBalancedDatagrams(t *testing.T) {
	t.Parallel()
	w := newBalanced(t)
	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) { g.Protocol = "UDP" })
	change(w.fixture, record.LoadBalancers, w.balance,
		func(b *record.LoadBalancer) { b.Listeners[0].Protocol = "UDP" })
	w.health(record.TargetHealthy, record.TargetHealthy)
	for i, e := range w.targets {
		p, err := w.ListenPacket(t.Context(), instanceOf(e), "udp", e.PrivateIPs[0]+":8080")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		go func() {
			for b := make([]byte, 64); ; {
				_, from, err := p.ReadFrom(b)
				if err != nil {
					return
				}
				fmt.Fprintf(&packetWriter{p, from}, "%s-%d", netip.MustParseAddrPort(from.String()).Addr(), i)
			}
		}()
	}
	seen := map[string]bool{}
	for range 32 {
		eventually.Nil(t, "a datagram is answered", func() error {
			conn, err := w.Dial(t.Context(), instanceOf(w.client), "udp", "10.0.0.20:80")
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, err := conn.Write([]byte("x")); err != nil {
				return err
			}
			conn.SetReadDeadline(time.Now().Add(time.Second))
			b := make([]byte, 64)
			n, err := conn.Read(b)
			if err == nil {
				seen[string(b[:n])] = true
			}
			return err
		})
	}
	if len(seen) != 2 || !seen["10.0.0.10-0"] || !seen["10.0.0.10-1"] {
		t.Errorf("answers are %v, want those of both targets to the client's address", seen)
	}
}

// TestWeightedTargetGroups has a listener that leads to two target groups with weights. One of them may see the client,
// and the other the load balancer.
func TestWeightedTargetGroups(t *testing.T) {
	t.Parallel()
	w := newBalanced(t)
	other := w.group
	other.Name, other.ID, other.Targets = "other", "e", w.group.Targets[1:]
	put(w.fixture, record.TargetGroups, other)
	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) { g.Targets = g.Targets[:1] })
	weigh := func(web, other int32, sticky bool) {
		t.Helper()
		change(w.fixture, record.LoadBalancers, w.balance, func(b *record.LoadBalancer) {
			b.Listeners[0].TargetGroup = ""
			b.Listeners[0].Actions = []record.ListenerAction{{Type: record.ActionForward, BySource: sticky,
				Groups: []record.WeightedGroup{{Name: "web", Weight: web}, {Name: "other", Weight: other}}}}
		})
		w.waitForRules(w.vpc)
	}
	w.serveTargets()
	client, inside := instanceOf(w.client), "10.0.0.20:80"
	answers := func(want ...string) {
		t.Helper()
		eventually.Nil(t, "connect to "+inside, func() error {
			_, err := w.call(client, "", inside)
			return err
		})
		seen := map[string]bool{}
		for range 64 {
			got, err := w.call(client, "", inside)
			if err != nil {
				t.Fatal(err)
			}
			seen[got] = true
		}
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
			t.Errorf("answered by %q, want %q", got, want)
		}
	}
	weigh(1, 0, false)
	answers("10.0.0.10-0")
	weigh(0, 999, false)
	answers("10.0.0.10-1")
	weigh(500, 999, false)
	answers("10.0.0.10-0", "10.0.0.10-1")
	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) {
		g.Attributes = map[string]string{"preserve_client_ip.enabled": "false"}
	})
	w.waitForRules(w.vpc)
	answers("10.0.0.10-1", "10.0.0.20-0")
	weigh(1, 1, true)
	first, err := w.call(client, "", inside)
	if err != nil {
		t.Fatal(err)
	}
	answers(first)
	weigh(1, 1, false)
	change(w.fixture, record.TargetGroups, other, func(g *record.TargetGroup) { g.Targets = nil })
	w.waitForRules(w.vpc)
	answers("10.0.0.20-0") // a target group without targets has no share
}
