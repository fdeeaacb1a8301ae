//go:build linux

package network

import (
	"fmt"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// open creates a security group that allows everything.
func (w *fixture) open(v vpc) []record.SecurityGroup {
	w.Helper()
	return []record.SecurityGroup{w.newGroup(v, everything(true), everything(false))}
}

func TestVPCsWithTheSameBlockAreApart(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	var clients []record.NetworkInterface
	for i := range 2 {
		v := w.newVPC("10.0.0.0/16")
		s := w.newSubnet(v, "10.0.1.0/24")
		g := w.open(v)
		client, server := w.newENI(s, "", 0, g, "10.0.1.10"), w.newENI(s, "", 0, g, "10.0.1.11")
		w.plugged(client, server)
		w.serve(instanceOf(server), fmt.Sprintf("10.0.1.11:%d", 8000+i))
		clients = append(clients, client)
	}
	for i, c := range clients {
		for j := range clients {
			w.reaches(instanceOf(c), fmt.Sprintf("10.0.1.11:%d", 8000+j), i == j)
		}
	}
}

func TestInternetGateway(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	a, b := w.newVPC("10.0.0.0/16"), w.newVPC("10.0.0.0/16")
	sa, sb := w.newSubnet(a, "10.0.1.0/24"), w.newSubnet(b, "10.0.1.0/24")
	for _, v := range []vpc{a, b} {
		gateway := w.newInternetGateway(v)
		change(w, record.RouteTables, record.RouteTable{EC2Resource: record.EC2Resource{Account: account,
			Region: region, ID: v.MainRouteTableID}}, func(r *record.RouteTable) {
			r.Routes = []record.Route{defaultRoute(gateway.ID)}
		})
	}
	guarded := []record.SecurityGroup{w.newGroup(b, everything(true), record.SecurityGroupRule{Protocol: "tcp",
		FromPort: 80, ToPort: 80, CIDRIPv4: w.publicAddress(1) + "/32"})}
	ga := w.open(a)
	elastic := w.newENI(sa, "", 0, ga, "10.0.1.10", "10.0.1.110")
	address := w.newAddress(w.publicAddress(1), elastic)
	lent := w.newENI(sa, "", 0, ga, "10.0.1.11")
	change(w, record.NetworkInterfaces, lent, func(e *record.NetworkInterface) { e.PublicIP = w.publicAddress(2) })
	private := w.newENI(sa, "", 0, ga, "10.0.1.12")
	server := w.newENI(sb, "", 0, guarded, "10.0.1.20")
	w.newAddress(w.publicAddress(3), server)
	w.plugged(elastic, lent, private, server)
	w.waitForRules(a)
	w.waitForRules(b)
	w.serve(instanceOf(server), "10.0.1.20:80")
	w.serve(instanceOf(server), "10.0.1.20:81")
	w.serve(instanceOf(elastic), "10.0.1.10:80")
	w.serve(instanceOf(private), "10.0.1.12:80")

	public := func(n int) string { return w.publicAddress(n) + ":80" }
	t.Run("from VPC to VPC by public addresses", func(t *testing.T) {
		seen, err := w.call(instanceOf(elastic), "", public(3))
		if err != nil || seen != w.publicAddress(1) {
			t.Errorf("seen as %q, %v", seen, err)
		}
	})
	t.Run("through the security group at the other end", func(t *testing.T) {
		w.reaches(instanceOf(elastic), w.publicAddress(3)+":81", false)
		w.reaches(instanceOf(lent), public(3), false)
	})
	t.Run("a lent address is one, too", func(t *testing.T) {
		seen, err := w.call(instanceOf(lent), "", public(1))
		if err != nil || seen != w.publicAddress(2) {
			t.Errorf("seen as %q, %v", seen, err)
		}
	})
	t.Run("a secondary address has none", func(t *testing.T) {
		w.addAddress(elastic, "10.0.1.110")
		if _, err := callFrom(t.Context(), w.Namespace(instanceOf(elastic)), "10.0.1.110", public(3),
			false); err == nil {
			t.Error("got out without a public address")
		}
	})
	t.Run("no public address, no internet", func(t *testing.T) { w.reaches(instanceOf(private), public(1), false) })
	t.Run("from the host", func(t *testing.T) {
		c, err := dialer(true).Dial("tcp", public(1))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var seen string
		fmt.Fscanln(c, &seen)
		if seen != HostAddress(w.o.PublicRange).String() {
			t.Errorf("seen as %q", seen)
		}
	})
	t.Run("the host is not open to the VPC", func(t *testing.T) {
		l := listenOnHost(t, HostAddress(w.o.PublicRange).String())
		w.reaches(instanceOf(elastic), l, false)
	})
	t.Run("an address that moves takes its connections along", func(t *testing.T) {
		change(w, record.Addresses, address, func(r *record.Address) {
			r.NetworkInterfaceID,
				r.PrivateIPAddress = private.ID, "10.0.1.12"
		})
		w.waitForRules(a)
		seen, err := w.call(instanceOf(private), "", public(3))
		if err != nil || seen != w.publicAddress(1) {
			t.Errorf("seen as %q, %v", seen, err)
		}
		w.reaches(instanceOf(elastic), public(3), false)
		w.reaches(instanceOf(lent), public(1), true)
	})
}

func TestRouteTables(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	publicSubnet, privateSubnet, isolated := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24"),
		w.newSubnet(v, "10.0.3.0/24")
	g := w.open(v)
	gateway := w.newInternetGateway(v)
	nat := w.newENI(publicSubnet, "-", 1, nil, "10.0.1.5")
	change(w, record.NetworkInterfaces, nat, func(e *record.NetworkInterface) {
		e.Attachment.InstanceID, e.SourceDestCheck, e.InterfaceType = "", false, ec2types.NetworkInterfaceTypeNatGateway
	})
	natGateway := put(w, record.NATGateways, record.NATGateway{EC2Resource: resource("nat-"), VPCID: v.ID,
		SubnetID: publicSubnet.ID, NetworkInterfaceID: nat.ID, ConnectivityType: ec2types.ConnectivityTypePublic})
	w.newAddress(w.publicAddress(1), nat)
	appliance := w.newENI(publicSubnet, "", 0, g, "10.0.1.6")
	w.newAddress(w.publicAddress(2), appliance)
	toGateway := w.newRouteTable(v, defaultRoute(gateway.ID))
	private := w.newRouteTable(v, defaultRoute(natGateway.ID))
	use := func(s record.Subnet, table string) {
		change(w, record.Subnets, s, func(r *record.Subnet) { r.RouteTableID = table })
	}
	use(publicSubnet, toGateway.ID)
	use(privateSubnet, private.ID)
	client := w.newENI(privateSubnet, "", 0, g, "10.0.2.10")
	alone := w.newENI(isolated, "", 0, g, "10.0.3.10")
	w.plugged(client, appliance, alone)
	w.waitForRules(v)

	outside := w.publicServer() // somebody on the internet
	expect := func(t *testing.T, holder, want string) {
		t.Helper()
		seen, err := callFrom(t.Context(), w.Namespace(holder), "", outside, want != "")
		if want == "" && err == nil || want != "" && (err != nil || seen != want) {
			t.Errorf("seen as %q, %v; want %q", seen, err, want)
		}
	}
	t.Run("a NAT gateway lends its address", func(t *testing.T) { expect(t, instanceOf(client), w.publicAddress(1)) })
	t.Run("the main table has no way out", func(t *testing.T) { expect(t, instanceOf(alone), "") })
	t.Run("within the VPC all tables are local", func(t *testing.T) {
		w.serve(instanceOf(alone), "10.0.3.10:80")
		w.reaches(instanceOf(client), "10.0.3.10:80", true)
	})
	t.Run("nobody gets in by a NAT gateway", func(t *testing.T) {
		w.serve(instanceOf(client), "10.0.2.10:80")
		if c, err := dialer(false).Dial("tcp", w.publicAddress(1)+":80"); err == nil {
			c.Close()
			t.Error("somebody answered")
		}
	})
	t.Run("a route is switched live", func(t *testing.T) {
		change(w, record.RouteTables, private, func(r *record.RouteTable) { r.Routes = nil })
		w.waitForRules(v)
		expect(t, instanceOf(client), "")
		change(w, record.RouteTables, private,
			func(r *record.RouteTable) { r.Routes = []record.Route{defaultRoute(natGateway.ID)} })
		w.waitForRules(v)
		expect(t, instanceOf(client), w.publicAddress(1))
	})
	t.Run("the longest prefix wins", func(t *testing.T) {
		change(w, record.RouteTables, private, func(r *record.RouteTable) {
			r.Routes = append(r.Routes, record.Route{Destination: hostOf(outside) + "/32",
				Target: "nat-0123456789abcdef0"})
		})
		w.waitForRules(v)
		expect(t, instanceOf(client), "") // a black hole: the target is gone
		change(w, record.RouteTables, private, func(r *record.RouteTable) { r.Routes = r.Routes[:1] })
	})
	t.Run("an instance is a target", func(t *testing.T) {
		change(w, record.RouteTables, private,
			func(r *record.RouteTable) { r.Routes = []record.Route{defaultRoute(appliance.ID)} })
		w.waitForRules(v)
		expect(t, instanceOf(client), "") // it checks the destination
		change(w, record.NetworkInterfaces, appliance, func(e *record.NetworkInterface) { e.SourceDestCheck = false })
		w.waitForRules(v)
		w.inside(instanceOf(appliance), func(s *namespace) error { return s.natRules() })
		expect(t, instanceOf(client), w.publicAddress(2))
	})
	t.Run("a detached target is a black hole", func(t *testing.T) {
		change(w, record.NetworkInterfaces, appliance, func(e *record.NetworkInterface) { e.Attachment = nil })
		w.waitForRules(v)
		expect(t, instanceOf(client), "")
	})
	t.Run("an explicit table replaces the main one", func(t *testing.T) {
		change(w, record.RouteTables, private,
			func(r *record.RouteTable) { r.Routes = []record.Route{defaultRoute(natGateway.ID)} })
		use(isolated, private.ID)
		w.waitForRules(v)
		expect(t, instanceOf(alone), w.publicAddress(1))
	})
	t.Run("a detached internet gateway is a black hole", func(t *testing.T) {
		change(w, record.InternetGateways, gateway, func(g *record.InternetGateway) { g.VPCID = "" })
		w.waitForRules(v)
		expect(t, instanceOf(client), "")
	})
}

// One route that the kernel refuses would end the work on its VPC, in which nothing could be plugged any more.
func TestARouteOfAnyBlockLeavesItsVPCConnected(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	s, g, gateway := w.newSubnet(v, "10.0.1.0/24"), w.open(v), w.newInternetGateway(v)
	table := record.RouteTable{EC2Resource: record.EC2Resource{Account: account, Region: region, ID: v.MainRouteTableID}}
	change(w, record.RouteTables, table, func(r *record.RouteTable) {
		for _, to := range []string{
			"0.0.0.0/0", "0.0.0.0/8", "0.0.0.0/32", "127.0.0.0/8", "169.254.0.0/16", "169.254.0.1/32",
			"169.254.169.254/32", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
			"::/0", "::/128", "::1/128", "64:ff9b::/96", "fd00:ec2::254/128", "fe80::/10", "fe80::1/128", "ff00::/8",
			"::ffff:0.0.0.0/96", "::ffff:10.0.0.0/104", "::ffff:10.0.1.10/128",
		} {
			r.Routes = append(r.Routes, record.Route{Destination: to, Target: gateway.ID})
		}
	})
	a, b := w.newENI(s, "", 0, g, "10.0.1.10"), w.newENI(s, "", 0, g, "10.0.1.11")
	w.plugged(a, b)
	w.serve(instanceOf(b), "10.0.1.11:80")
	w.reaches(instanceOf(a), "10.0.1.11:80", true)
}

func TestARouteInsideTheVPCGoesThroughAnAppliance(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	left, right, middle := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24"), w.newSubnet(v, "10.0.3.0/24")
	g := w.open(v)
	a, b, m := w.newENI(left, "", 0, g, "10.0.1.10"), w.newENI(right, "", 0, g, "10.0.2.10"), w.newENI(middle, "", 0, g,
		"10.0.3.10")
	change(w, record.NetworkInterfaces, m, func(e *record.NetworkInterface) { e.SourceDestCheck = false })
	table := w.newRouteTable(v, record.Route{Destination: "10.0.2.0/24", Target: m.ID})
	change(w, record.Subnets, left, func(s *record.Subnet) { s.RouteTableID = table.ID })
	w.plugged(a, b, m)
	w.waitForRules(v)
	w.serve(instanceOf(b), "10.0.2.10:80")
	w.reaches(instanceOf(a), "10.0.2.10:80", true)
	w.inside(instanceOf(m), func(s *namespace) error {
		return s.applySysctl(
			map[string]string{"ipv4/ip_forward": "0"})
	})
	w.reaches(instanceOf(a), "10.0.2.10:80", false)
}
