//go:build linux

package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/vishvananda/netlink"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestServicesOfAWSAreReachedInEveryCase(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16", "100.64.0.0/16")
	closed := put(w, record.NetworkACLs, record.NetworkACL{EC2Resource: resource("acl-"), VPCID: v.ID})
	s := w.newSubnet(v, "100.64.1.0/24")
	table := w.newRouteTable(v, record.Route{Destination: "169.254.0.0/16", Target: "eni-gone"},
		defaultRoute("nat-gone"))
	change(w, record.Subnets, s, func(s *record.Subnet) { s.NetworkACLID, s.RouteTableID = closed.ID, table.ID })
	client := w.newENI(s, "", 0, []record.SecurityGroup{w.newGroup(v)}, "100.64.1.10")
	w.plugged(client)
	w.waitForRules(v)
	router := VPCNamespace(v.ID)
	for _, address := range []string{"169.254.169.254:80", "10.0.0.2:53", "169.254.169.253:53",
		netip.AddrPortFrom(APIAddress(w.o.PublicRange), 443).String()} {
		w.serve(router, address)
		w.echo(router, address)
		if seen, err := w.call(instanceOf(client), "", address); err != nil || seen != "100.64.1.10" {
			t.Errorf("%s: seen as %q, %v", address, seen, err)
		}
		if err := w.send(instanceOf(client), address, true); err != nil {
			t.Errorf("%s: UDP: %v", address, err)
		}
	}
	w.serve(router, "100.64.1.1:80")
	w.reaches(instanceOf(client), "100.64.1.1:80", false) // the gateway of the subnet serves nothing
}

func TestInterfacesOfServicesHaveSecurityGroups(t *testing.T) {
	t.Parallel()
	for _, kind := range []ec2types.NetworkInterfaceType{ec2types.NetworkInterfaceTypeVpcEndpoint,
		record.InterfaceTypeEFS} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			testInterfacesOfServices(t, kind)
		})
	}
}

func testInterfacesOfServices(t *testing.T, kind ec2types.NetworkInterfaceType) {
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	s, other := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24")
	clients := w.newGroup(v, everything(true))
	door := w.newGroup(v, record.SecurityGroupRule{Protocol: "tcp", FromPort: 443, ToPort: 443, GroupID: clients.ID})
	toDoor := w.newGroup(v, record.SecurityGroupRule{Egress: true, Protocol: "tcp", FromPort: 443, ToPort: 443,
		GroupID: door.ID})
	endpoint := w.newENI(s, "", 0, []record.SecurityGroup{door}, "10.0.1.50")
	change(w, record.NetworkInterfaces, endpoint, func(e *record.NetworkInterface) {
		e.InterfaceType, e.Attachment.InstanceID, e.RequesterManaged = kind, "", true
	})
	client := w.newENI(other, "", 0, []record.SecurityGroup{clients}, "10.0.2.10")
	neighbor := w.newENI(s, "", 0, []record.SecurityGroup{clients}, "10.0.1.10")
	stranger := w.newENI(s, "", 0, w.open(v), "10.0.1.11")
	silent := w.newENI(s, "", 0, []record.SecurityGroup{w.newGroup(v)}, "10.0.1.12")
	narrow := w.newENI(s, "", 0, []record.SecurityGroup{toDoor}, "10.0.1.13")
	w.plugged(client, neighbor, stranger, silent, narrow)
	w.waitForRules(v)
	for _, port := range []string{"443", "80"} {
		w.serve(VPCNamespace(v.ID), "10.0.1.50:"+port)
	}
	if seen, err := w.call(instanceOf(client), "", "10.0.1.50:443"); err != nil || seen != "10.0.2.10" {
		t.Errorf("from a group that is let in: seen as %q, %v", seen, err)
	}
	w.reaches(instanceOf(neighbor), "10.0.1.50:443", true)
	w.reaches(instanceOf(client), "10.0.1.50:80", false)    // another port
	w.reaches(instanceOf(stranger), "10.0.1.50:443", false) // of no group that is let in
	w.reaches(instanceOf(silent), "10.0.1.50:443", false)   // of one that lets nothing out
	w.reaches(instanceOf(narrow), "10.0.1.50:443", false)   // let out to it, and not in

	change(w, record.SecurityGroups, door, func(g *record.SecurityGroup) {
		g.Rules = append(g.Rules, record.SecurityGroupRule{Protocol: "tcp", FromPort: 443, ToPort: 443,
			CIDRIPv4: "10.0.1.0/24"})
	})
	w.waitForRules(v)
	w.reaches(instanceOf(stranger), "10.0.1.50:443", true)
	w.reaches(instanceOf(narrow), "10.0.1.50:443", true)
	w.reaches(instanceOf(silent), "10.0.1.50:443", false)
	w.reaches(instanceOf(client), "10.0.1.50:443", true)
}

func TestForgedSourcesAreDropped(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	s := w.newSubnet(v, "10.0.1.0/24")
	g := w.open(v)
	forger, victim, server := w.newENI(s, "", 0, g, "10.0.1.10"), w.newENI(s, "", 0, g, "10.0.1.11"), w.newENI(s, "", 0,
		g, "10.0.1.12")
	w.plugged(forger, victim, server)
	w.addAddress(forger, "10.0.1.11")
	w.addAddress(forger, "10.7.7.7")
	neighbor := w.listenUDP(instanceOf(server), "10.0.1.12:99")
	resolver := w.listenUDP(VPCNamespace(v.ID), "169.254.169.254:53")
	for _, check := range []bool{true, false} {
		change(w, record.NetworkInterfaces, forger, func(e *record.NetworkInterface) { e.SourceDestCheck = check })
		w.waitForRules(v)
		for _, c := range []struct {
			source  string
			to      net.PacketConn
			arrives bool
		}{
			{"10.0.1.10", neighbor, true},
			{"10.0.1.11", neighbor, !check},
			{"10.7.7.7", neighbor, !check},
			{"10.0.1.10", resolver, true},
			{"10.0.1.11", resolver, false},
			{"10.7.7.7", resolver, false},
		} {
			if got := w.arrives(instanceOf(forger), c.source, c.to, c.arrives); got != c.arrives {
				t.Errorf("source/destination check %v: from %s to %s: arrives is %v, want %v", check, c.source,
					c.to.LocalAddr(), got, c.arrives)
			}
		}
	}
}

// listenUDP listens until the test ends. An address is not listened on twice in a test: a program that another test
// starts just then keeps the first socket open for a moment.
func (w *fixture) listenUDP(namespace, address string) net.PacketConn {
	w.Helper()
	c, err := w.ListenPacket(w.Context(), namespace, "udp", address)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { c.Close() })
	return c
}

// arrives sends UDP packets and reports whether one is received.
func (w *fixture) arrives(from, source string, to net.PacketConn, wanted bool) bool {
	w.Helper()
	return w.In(from, func() error {
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(source)}, to.LocalAddr().(*net.UDPAddr))
		if err != nil {
			return err
		}
		defer c.Close()
		return persist(wanted, func() error {
			if _, err := c.Write([]byte("x")); err != nil {
				return err
			}
			to.SetDeadline(time.Now().Add(patience(false)))
			for {
				if _, sender, err := to.ReadFrom(make([]byte, 10)); err != nil ||
					sender.String() == c.LocalAddr().String() { // what an earlier call sent may arrive late
					return err
				}
			}
		})
	}) == nil
}

// node is an instance as the VPC CNI sets it up: pods have addresses of its ENIs, each with a veth of its own, and what
// comes from an address of a secondary ENI leaves by it.
type node struct {
	w           *fixture
	first, eth1 record.NetworkInterface
}

func (w *fixture) newNode(s record.Subnet, g []record.SecurityGroup, primary, second string, pods ...string) node {
	w.Helper()
	n := node{w: w, first: w.newENI(s, "", 0, g, primary)}
	n.eth1 = w.newENI(s, instanceOf(n.first), 1, g, append([]string{second}, pods...)...)
	w.plugged(n.first)
	holder, gateway := instanceOf(n.first), netip.MustParsePrefix(s.CIDR).Addr().Next().String()
	w.run(holder, "ip", "addr", "add", second+"/24", "dev", "eth1", "noprefixroute")
	w.run(holder, "ip", "link", "set", "eth1", "up")
	w.run(holder, "ip", "route", "add", gateway, "dev", "eth1", "scope", "link", "table", "2")
	w.run(holder, "ip", "route", "add", "default", "via", gateway, "dev", "eth1", "table", "2")
	return n
}

// pod creates a namespace with one of the node's addresses and returns its path. The table is main for addresses of the
// first ENI.
func (n node) pod(address, table string) string {
	w, holder := n.w, instanceOf(n.first)
	w.Helper()
	path := filepath.Join(w.TempDir(), "pod")
	if _, err := makeNamespace(path); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { removeNamespace(path); removeNamespace(filepath.Dir(path)) })
	link := "eni" + address[len(address)-3:]
	w.inside(holder, func(s *namespace) error {
		inside, err := openHandle(path)
		if err != nil {
			return err
		}
		defer inside.close()
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = link, MTU
		return s.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: inside.netlinkFD(),
			PeerMTU: MTU})
	})
	in := func(argv ...string) {
		if err := In(path, func() error { return command(argv...) }); err != nil {
			w.Fatal(err)
		}
	}
	in("ip", "link", "set", "lo", "up")
	in("ip", "addr", "add", address+"/32", "dev", "eth0")
	in("ip", "link", "set", "eth0", "up")
	in("ip", "route", "add", "169.254.1.1", "dev", "eth0", "scope", "link")
	in("ip", "route", "add", "default", "via", "169.254.1.1", "dev", "eth0")
	w.run(holder, "ip", "link", "set", link, "up")
	w.run(holder, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/"+link+"/proxy_arp; echo 0 > /proc/sys/net/ipv4/neigh/"+
		link+"/proxy_delay")
	w.run(holder, "ip", "route", "add", address+"/32", "dev", link, "scope", "link")
	w.run(holder, "ip", "rule", "add", "to", address, "table", "main", "pref", "512")
	w.run(holder, "ip", "rule", "add", "from", address, "table", table, "pref", "1536")
	return path
}

func TestPodsWithAddressesOfENIs(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	s1, s2 := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24")
	g := []record.SecurityGroup{w.newGroup(v, everything(true))}
	change(w, record.SecurityGroups, g[0], func(r *record.SecurityGroup) {
		r.Rules = append(r.Rules, record.SecurityGroupRule{Protocol: "-1", FromPort: -1, ToPort: -1, GroupID: r.ID})
	})
	one, two := w.newNode(s1, g, "10.0.1.10", "10.0.1.20", "10.0.1.121"), w.newNode(s2, g, "10.0.2.10", "10.0.2.20",
		"10.0.2.121")
	change(w, record.NetworkInterfaces, one.first,
		func(e *record.NetworkInterface) { e.PrivateIPs = append(e.PrivateIPs, "10.0.1.111") })
	change(w, record.NetworkInterfaces, two.eth1,
		func(e *record.NetworkInterface) { e.IPv4Prefixes = []string{"10.0.2.128/28"} })
	w.waitForRules(v)
	pods := map[string]string{
		"10.0.1.111": one.pod("10.0.1.111", "main"), // on the node's first ENI
		"10.0.1.121": one.pod("10.0.1.121", "2"),
		"10.0.2.121": two.pod("10.0.2.121", "2"),
		"10.0.2.130": two.pod("10.0.2.130", "2"), // of a delegated prefix
	}
	listen := func(path, address string) {
		l, err := Listen(t.Context(), path, "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go answer(l)
	}
	for address, path := range pods {
		listen(path, address+":80")
	}
	for _, n := range []node{one, two} {
		listen(w.Namespace(instanceOf(n.first)), n.first.PrivateIPs[0]+":10250")
	}
	w.serve(VPCNamespace(v.ID), "169.254.169.254:80")
	for from, path := range pods {
		for _, to := range []string{"10.0.1.111:80", "10.0.1.121:80", "10.0.2.121:80", "10.0.2.130:80",
			"10.0.1.10:10250", "10.0.2.10:10250"} {
			if seen, err := callFrom(t.Context(), path, "", to, true); err != nil || seen != from {
				t.Errorf("pod %s to %s: seen as %q, %v", from, to, seen, err)
			}
		}
	}
	for _, n := range []node{one, two} {
		for address := range pods {
			w.reaches(instanceOf(n.first), address+":80", true)
		}
		w.reaches(instanceOf(n.first), "169.254.169.254:80", true)
	}
	t.Run("an address that is taken away is not routed", func(t *testing.T) {
		change(w, record.NetworkInterfaces, two.eth1, func(e *record.NetworkInterface) { e.IPv4Prefixes = nil })
		w.waitForRules(v)
		if _, err := callFrom(t.Context(), pods["10.0.1.121"], "", "10.0.2.130:80", false); err == nil {
			t.Error("reached an address that is nobody's")
		}
	})
}

func TestTheLegOfACluster(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	s1, s2 := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24")
	g := w.open(v)
	id := newID("cluster-")
	leg := func(s record.Subnet, address string) record.NetworkInterface {
		e := w.newENI(s, "", 1, g, address)
		change(w, record.NetworkInterfaces, e, func(e *record.NetworkInterface) {
			e.RequesterManaged, e.Attachment.InstanceID, e.Attachment.InstanceOwnerID = true, "", "amazon-aws"
		})
		return e
	}
	first, second := leg(s1, "10.0.1.30"), leg(s2, "10.0.2.30")
	cluster := record.Cluster{Account: account, Region: region, Name: "demo", ID: id, VPCID: v.ID}
	if _, err := record.Clusters(w.store).Put(t.Context(), cluster.Key(), cluster); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 10)
	go w.ClusterSource()(t.Context(), func(key string) { told <- key })
	if _, err := record.ControlPlanes(w.store).Put(t.Context(), cluster.Key(), record.ControlPlane{ClusterID: id,
		NetworkInterfaceIDs: []string{first.ID, second.ID}}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(w, "plug the cluster", func() error {
		ok, err := w.Plugged(id)
		if err == nil && !ok {
			err = errors.New("not plugged")
		}
		return err
	})
	if key := <-told; key != cluster.Key() {
		t.Errorf("told of %q", key)
	}
	node := w.newENI(s1, "", 0, g, "10.0.1.10")
	far := w.newENI(w.newSubnet(v, "10.0.3.0/24"), "", 0, g, "10.0.3.10")
	w.plugged(node, far)
	for _, e := range []record.NetworkInterface{node, far} {
		w.serve(instanceOf(e), e.PrivateIPs[0]+":10250")
		w.reaches(id, e.PrivateIPs[0]+":10250", true)
	}
	for _, address := range []string{"10.0.1.30", "10.0.2.30"} {
		w.serve(id, address+":443")
		for _, e := range []record.NetworkInterface{node, far} {
			w.reaches(instanceOf(e), address+":443", true)
		}
	}
	if err := w.store.Txn(t.Context(), record.ControlPlanes(w.store).RemoveOp(cluster.Key()),
		record.Clusters(w.store).RemoveOp(cluster.Key())); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(w, "unplug the cluster", func() error {
		if _, err := w.Identity(id); err == nil {
			return fmt.Errorf("the leg is there")
		}
		return nil
	})
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	change(w, record.VPCs, v.VPC, func(v *record.VPC) {
		v.IPv6CIDRs = []record.CIDRAssociation{
			{CIDR: "2001:db8:1::/56"}}
	})
	s1, s2 := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24")
	for i, s := range []record.Subnet{s1, s2} {
		change(w, record.Subnets, s, func(s *record.Subnet) {
			s.IPv6 = &record.CIDRAssociation{
				CIDR: fmt.Sprintf("2001:db8:1:%d::/64", i)}
		})
	}
	everywhere := everything(true)
	everywhere.CIDRIPv4, everywhere.CIDRIPv6 = "", "::/0"
	clients := w.newGroup(v, everywhere)
	servers := w.newGroup(v, everywhere, record.SecurityGroupRule{Protocol: "tcp", FromPort: 80, ToPort: 80,
		GroupID: clients.ID},
		record.SecurityGroupRule{Protocol: "tcp", FromPort: 81, ToPort: 81, CIDRIPv6: "2001:db8:1:1::/64"})
	eni := func(s record.Subnet, g record.SecurityGroup, v4, v6 string) record.NetworkInterface {
		e := w.newENI(s, "", 0, []record.SecurityGroup{g}, v4)
		change(w, record.NetworkInterfaces, e, func(e *record.NetworkInterface) { e.IPv6IPs = []string{v6} })
		return e
	}
	near, far := eni(s1, clients, "10.0.1.10", "2001:db8:1:0::10"), eni(s2, clients, "10.0.2.10", "2001:db8:1:1::10")
	server := eni(s1, servers, "10.0.1.20", "2001:db8:1:0::20")
	w.plugged(near, far, server)
	w.waitForRules(v)
	for _, port := range []string{"80", "81", "82"} {
		w.serve(instanceOf(server), "[2001:db8:1::20]:"+port)
	}
	w.serve(VPCNamespace(v.ID), "[fd00:ec2::254]:80")
	for _, c := range []struct {
		from    record.NetworkInterface
		address string
		allowed bool
	}{
		{near, "[2001:db8:1::20]:80", true}, {far, "[2001:db8:1::20]:80", true},
		{near, "[2001:db8:1::20]:81", false}, {far, "[2001:db8:1::20]:81", true},
		{near, "[2001:db8:1::20]:82", false}, {near, "[fd00:ec2::254]:80", true},
	} {
		w.reaches(instanceOf(c.from), c.address, c.allowed)
	}
	w.run(instanceOf(near), "ip", "addr", "add", "2001:db8:1:1::10/128", "dev", "eth0", "nodad")
	if _, err := callFrom(t.Context(), w.Namespace(instanceOf(near)), "2001:db8:1:1::10", "[2001:db8:1::20]:81",
		false); err == nil {
		t.Error("a forged source got through")
	}
}
