//go:build linux

package network

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/record"
)

// TestForgedSourcesDoNotPassALoadBalancer has targets that are not, or no longer, addresses of the VPC: its blocks and
// routes change after targets are registered. Nothing leaves for them that has no public address of the VPC.
func TestForgedSourcesDoNotPassALoadBalancer(t *testing.T) {
	t.Parallel()
	w := newBalanced(t)
	outside := w.listenUDP(InternetNamespace, netip.AddrPortFrom(nthAddress(w.o.PublicRange, 20), 8080).String())
	change(w.fixture, record.LoadBalancers, w.balance,
		func(b *record.LoadBalancer) { b.Listeners[0].Protocol = "UDP" })
	change(w.fixture, record.TargetGroups, w.group, func(g *record.TargetGroup) {
		g.Protocol, g.TargetType = "UDP", "ip"
		g.Targets = []record.Target{{ID: hostOf(outside.LocalAddr().String()), Port: 8080}}
	})
	change(w.fixture, record.NetworkInterfaces, w.client,
		func(e *record.NetworkInterface) { e.SourceDestCheck = false })
	forged := w.publicAddress(200) // of another account
	w.addAddress(w.client, forged)
	// seen returns the source of a datagram that has left; empty when none has.
	seen := func(source string, wanted bool) (as string) {
		t.Helper()
		err := w.In(instanceOf(w.client), func() error {
			c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(source)}, &net.UDPAddr{IP: net.IP{10, 0, 0, 20},
				Port: 80})
			if err != nil {
				return err
			}
			defer c.Close()
			_ = persist(wanted, func() error { // what as says
				if _, err := c.Write([]byte("x")); err != nil {
					return err
				}
				outside.SetReadDeadline(time.Now().Add(patience(false)))
				_, from, err := outside.ReadFrom(make([]byte, 64))
				if err == nil {
					as = hostOf(from.String())
				}
				return err
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return as
	}
	check := func(what string) {
		t.Helper()
		w.waitForRules(w.vpc)
		for _, source := range []string{"10.0.0.10", forged} {
			if as := seen(source, false); as != "" {
				t.Errorf("%s: a datagram from %s has left with the source %s", what, source, as)
			}
		}
	}
	check("a target outside of the VPC")
	change(w.fixture, record.VPCs, w.vpc.VPC, func(v *record.VPC) {
		v.CIDRs = append(v.CIDRs, record.CIDRAssociation{CIDR: "198.18.0.0/16"})
	})
	change(w.fixture, record.RouteTables, w.table, func(r *record.RouteTable) {
		r.Routes = append(r.Routes, record.Route{Destination: w.o.PublicRange.Masked().String(),
			Target: r.Routes[0].Target})
	})
	check("a target in a block that a route leads out of")
	change(w.fixture, record.NetworkInterfaces, w.client,
		func(e *record.NetworkInterface) { e.PublicIP = w.publicAddress(2) })
	w.waitForRules(w.vpc)
	if as := seen("10.0.0.10", true); as != w.publicAddress(2) {
		t.Errorf("a datagram of a client with a public address has left with the source %q", as)
	}
}

// packetWriter sends datagrams to an address.
type packetWriter struct {
	net.PacketConn
	to net.Addr
}

// Write implements io.Writer.
func (w *packetWriter) Write(b []byte) (int, error) { return w.WriteTo(b, w.to) }

// TestSecurityGroupsOfLoadBalancers lets in what the security groups of a Network Load Balancer let in, from the VPC
// and from the internet.
func TestSecurityGroupsOfLoadBalancers(t *testing.T) {
	t.Parallel()
	w := newBalanced(t)
	w.serveTargets()
	w.health(record.TargetHealthy, record.TargetHealthy)
	client := instanceOf(w.client)
	inside, outside := "10.0.0.20:80", w.eni.PublicIP+":80"
	guard := func(rules ...record.SecurityGroupRule) {
		t.Helper()
		group := w.newGroup(w.vpc, append(rules, everything(true))...)
		change(w.fixture, record.NetworkInterfaces, w.eni,
			func(e *record.NetworkInterface) { e.SecurityGroupIDs = []string{group.ID} })
		w.waitForRules(w.vpc)
	}
	guard()
	w.reaches(client, inside, false)
	w.reaches(InternetNamespace, outside, false)
	guard(record.SecurityGroupRule{Protocol: "tcp", FromPort: 80, ToPort: 80, CIDRIPv4: "10.0.0.10/32"})
	w.reaches(client, inside, true)
	w.reaches(InternetNamespace, outside, false)
	guard(record.SecurityGroupRule{Protocol: "tcp", FromPort: 80, ToPort: 80,
		CIDRIPv4: GatewayAddress(w.o.PublicRange).String() + "/32"})
	w.reaches(client, inside, false)
	w.reaches(InternetNamespace, outside, true)

	// The targets let in what comes by the load balancer's group alone: not the client itself.
	let := func(group string) {
		t.Helper()
		own := w.newGroup(w.vpc, everything(true), record.SecurityGroupRule{Protocol: "tcp", FromPort: 8080, ToPort: 8080,
			GroupID: group})
		for _, e := range w.targets {
			change(w.fixture, record.NetworkInterfaces, e,
				func(e *record.NetworkInterface) { e.SecurityGroupIDs = []string{own.ID} })
		}
		w.waitForRules(w.vpc)
	}
	guard(everything(false))
	row, err := record.NetworkInterfaces(w.store).Get(t.Context(), w.eni.Key())
	if err != nil {
		t.Fatal(err)
	}
	let(row.Value.SecurityGroupIDs[0])
	w.reaches(client, inside, true)
	w.reaches(InternetNamespace, outside, true)
	w.reaches(client, w.targets[0].PrivateIPs[0]+":8080", false)
	let(w.newGroup(w.vpc).ID)
	w.reaches(client, inside, false)
	w.reaches(InternetNamespace, outside, false)
}
