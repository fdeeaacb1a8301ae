//go:build linux

package network

import (
	"net/netip"
	"testing"

	"github.com/coracle-eks/coracle/internal/record"
)

// TestAnAddressThatMovesIsNobodys moves an address in the store: until the router has moved it as well, who had it can
// send from it, and nobody has it.
func TestAnAddressThatMovesIsNobodys(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	s := w.newSubnet(v, "10.0.1.0/24")
	g := w.open(v)
	from, to := w.newENI(s, "", 0, g, "10.0.1.10", "10.0.1.20"), w.newENI(s, "", 0, g, "10.0.1.11")
	w.plugged(from, to)
	expect := func(what string, eni record.NetworkInterface, address string, want bool) {
		t.Helper()
		key := record.EC2Key(account, region, eni.Attachment.InstanceID)
		if got := w.Carries(v.Key(), netip.MustParseAddr(address), key); got != want {
			t.Errorf("%s: the router carries %s to %s: %t", what, address, eni.ID, got)
		}
	}
	w.waitForRules(v)
	expect("before", from, "10.0.1.20", true)
	expect("before", to, "10.0.1.20", false)
	// The pass that moves it begins, and no other.
	defer w.lock(v.ID)()
	d, err := w.loadDesign(t.Context(), v.Key())
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.ports {
		switch e := &d.ports[i].eni; e.ID {
		case from.ID:
			e.PrivateIPs = []string{"10.0.1.10"}
		case to.ID:
			e.PrivateIPs = []string{"10.0.1.11", "10.0.1.20"}
		}
	}
	w.retract(v.Key(), d)
	expect("meanwhile", from, "10.0.1.20", false)
	expect("meanwhile", to, "10.0.1.20", false)
	expect("meanwhile", from, "10.0.1.10", true)
	w.confirm(v.Key(), d)
	expect("after", from, "10.0.1.20", false)
	expect("after", to, "10.0.1.20", true)
}

// TestForgedIPv6SourcesDoNotLeaveTheirVPC sends, from an instance without a source check, as a member of a security
// group of another VPC.
func TestForgedIPv6SourcesDoNotLeaveTheirVPC(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	everywhere := everything(true)
	everywhere.CIDRIPv4, everywhere.CIDRIPv6 = "", "::/0"
	make6 := func(v4, block, network string) (vpc, record.Subnet) {
		v := w.newVPC(v4 + "/16")
		change(w, record.VPCs, v.VPC, func(v *record.VPC) { v.IPv6CIDRs = []record.CIDRAssociation{{CIDR: block}} })
		table := w.newRouteTable(v, record.Route{Destination: "::/0", Target: w.newInternetGateway(v).ID})
		s := w.newSubnet(v, v4+"/24")
		change(w, record.Subnets, s, func(s *record.Subnet) {
			s.IPv6, s.RouteTableID = &record.CIDRAssociation{CIDR: network}, table.ID
		})
		return v, s
	}
	ours, mine := make6("10.1.0.0", "2001:db8:a::/56", "2001:db8:a::/64")
	theirs, other := make6("10.2.0.0", "2001:db8:c::/56", "2001:db8:c::/64")
	open, members := w.newGroup(ours, everywhere), w.newGroup(theirs, everywhere)
	change(w, record.SecurityGroups, members, func(g *record.SecurityGroup) {
		g.Rules = append(g.Rules, record.SecurityGroupRule{Protocol: "-1", FromPort: -1, ToPort: -1, GroupID: members.ID})
	})
	eni := func(s record.Subnet, g record.SecurityGroup, v4, v6 string) record.NetworkInterface {
		e := w.newENI(s, "", 0, []record.SecurityGroup{g}, v4)
		change(w, record.NetworkInterfaces, e, func(e *record.NetworkInterface) { e.IPv6IPs = []string{v6} })
		return e
	}
	attacker := eni(mine, open, "10.1.0.10", "2001:db8:a::10")
	member := eni(other, members, "10.2.0.10", "2001:db8:c::10")
	server := eni(other, members, "10.2.0.20", "2001:db8:c::20")
	w.plugged(attacker, member, server)
	change(w, record.NetworkInterfaces, attacker, func(e *record.NetworkInterface) { e.SourceDestCheck = false })
	w.waitForRules(ours)
	w.waitForRules(theirs)
	w.run(instanceOf(attacker), "ip", "addr", "add", "2001:db8:c::10/128", "dev", "eth0", "nodad")
	to := w.listenUDP(instanceOf(server), "[2001:db8:c::20]:99")
	if w.arrives(instanceOf(attacker), "2001:db8:c::10", to, false) {
		t.Error("a packet of another VPC arrives with the source of a member of the group")
	}
	if !w.arrives(instanceOf(member), "2001:db8:c::10", to, true) {
		t.Error("a packet of a member does not arrive")
	}
}
