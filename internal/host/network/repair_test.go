//go:build linux

package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// pair creates a VPC with a client and a server, which has a public address.
func (w *fixture) pair() (v vpc, client, server record.NetworkInterface) {
	w.Helper()
	v = w.newVPC("10.0.0.0/16")
	s := w.newSubnet(v, "10.0.1.0/24")
	gateway := w.newInternetGateway(v)
	table := w.newRouteTable(v, defaultRoute(gateway.ID))
	change(w, record.Subnets, s, func(r *record.Subnet) { r.RouteTableID = table.ID })
	g := w.open(v)
	client, server = w.newENI(s, "", 0, g, "10.0.1.10"), w.newENI(s, "", 0, g, "10.0.1.11")
	w.newAddress(w.publicAddress(1), server)
	w.plugged(client, server)
	return v, client, server
}

// whole fails the test unless the pair's packets flow, inside and from the host.
func (w *fixture) whole(client, server record.NetworkInterface) {
	w.Helper()
	w.plugged(client, server)
	var l, l2 net.Listener
	eventually.Nil(w, "listen", func() (err error) {
		l, err = w.Listen(w.Context(), instanceOf(server), "tcp", "0.0.0.0:80")
		return err
	})
	defer l.Close()
	eventually.Nil(w, "listen", func() (err error) {
		l2, err = w.Listen(w.Context(), VPCNamespace(server.VPCID), "tcp", "169.254.169.254:80")
		return err
	})
	defer l2.Close()
	eventually.Nil(w, "call inside the VPC", func() error {
		c, err := w.Dial(w.Context(), instanceOf(client), "tcp", "10.0.1.11:80")
		if err == nil {
			c.Close()
		}
		return err
	})
	eventually.Nil(w, "call from the host", func() error {
		c, err := dialer(true).Dial("tcp", w.publicAddress(1)+":80")
		if err == nil {
			c.Close()
		}
		return err
	})
	eventually.Nil(w, "call the metadata service", func() error {
		c, err := w.Dial(w.Context(), instanceOf(client), "tcp", "169.254.169.254:80")
		if err == nil {
			c.Close()
		}
		return err
	})
}

func TestWhatSomebodyRemovesComesBack(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v, client, server := w.pair()
	w.whole(client, server)
	router := VPCNamespace(v.ID)
	deleteLink := func(name, link string) {
		w.inside(name, func(s *namespace) error {
			l, err := s.LinkByName(link)
			if err != nil {
				return err
			}
			return s.LinkDel(l)
		})
	}
	for _, c := range []struct {
		what   string
		damage func()
	}{
		{"a port of the router", func() { deleteLink(router, port{eni: client}.portName()) }},
		{"eth0 of an instance", func() { deleteLink(instanceOf(client), "eth0") }},
		{"the address of eth0", func() { w.run(instanceOf(client), "ip", "addr", "flush", "dev", "eth0") }},
		{"a port that is down", func() { w.run(router, "ip", "link", "set", port{eni: client}.portName(), "down") }},
		{"the link to the internet", func() { deleteLink(router, gatewayLink) }},
		{"the link to the host", func() { deleteLink(InternetNamespace, hostSide) }},
		{"all routes", func() { w.run(router, "ip", "route", "flush", "table", "main") }},
		{"all rules of routing", func() {
			w.run(router, "ip", "rule", "flush")
			w.run(router, "ip", "rule", "add", "from", "all", "table", "local", "pref", "0")
			w.run(router, "ip", "rule", "add", "from", "all", "table", "main", "pref", "32766")
		}},
		{"all addresses of the router", func() { w.run(router, "ip", "addr", "flush", "dev", "lo") }},
		{"the nftables table", func() {
			w.inside(router, func(s *namespace) error {
				conn, err := nftables.New(nftables.WithNetNSFd(int(s.file.Fd())))
				if err != nil {
					return err
				}
				conn.DelTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
				return conn.Flush()
			})
		}},
		{"a base chain that somebody added", func() {
			w.inside(router, func(s *namespace) error {
				conn, err := nftables.New(nftables.WithNetNSFd(int(s.file.Fd())))
				if err != nil {
					return err
				}
				policy := nftables.ChainPolicyDrop
				conn.AddChain(&nftables.Chain{Name: "mine", Table: &nftables.Table{Name: tableName,
					Family: nftables.TableFamilyINet}, Type: nftables.ChainTypeFilter,
					Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &policy})
				return conn.Flush()
			})
		}},
		{"the namespace of an instance", func() { w.unmount(instanceOf(client)) }},
		{"the namespace of the VPC", func() { w.unmount(router) }},
		{"the namespace of the internet", func() { w.unmount(InternetNamespace) }},
		{"everything, as a reboot does", func() {
			if _, err := Remove(w.owner); err != nil {
				t.Fatal(err)
			}
		}},
		{"everything, and the files stay", func() {
			for _, name := range []string{InternetNamespace, router, instanceOf(client), instanceOf(server)} {
				w.unmount(name)
				if err := os.WriteFile(w.Namespace(name), nil, 0o444); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.damage()
			w.sync(v)
			w.whole(client, server)
		})
	}
}

// unmount takes a namespace away; its links go with it at once, as nobody else is inside.
func (w *fixture) unmount(name string) {
	w.Helper()
	if err := errors.Join(dropLinks(w.Namespace(name)), removeNamespace(w.Namespace(name))); err != nil {
		w.Fatal(err)
	}
}

// sync reconciles a VPC as the resync does some time later.
func (w *fixture) sync(v vpc) {
	w.Helper()
	for range 2 { // the internet's namespace may be made by either
		if _, err := w.reconcileInternet(w.Context(), InternetNamespace); err != nil {
			w.Fatal(err)
		}
		w.waitForRules(v)
	}
}

func TestADaemonThatStartsAgainDisturbsNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v, client, server := w.pair()
	w.serve(instanceOf(server), "10.0.1.11:81")
	inside, outside := w.connect(instanceOf(client), "10.0.1.11:81"), w.connect(InternetNamespace, w.publicAddress(1)+
		":81")
	identity, err := w.Identity(instanceOf(client))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := New(w.o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.reconcileInternet(t.Context(), InternetNamespace); err != nil {
			t.Fatal(err)
		}
		if ok, err := again.Plugged(instanceOf(client)); ok || err != nil {
			t.Errorf("before it has looked: plugged %v, %v", ok, err)
		}
		if _, err := again.reconcileVPC(t.Context(), v.Key()); err != nil {
			t.Fatal(err)
		}
		if ok, err := again.Plugged(instanceOf(client)); !ok || err != nil {
			t.Errorf("plugged %v, %v", ok, err)
		}
		inside.alive()
		outside.alive()
	}
	if now, err := w.Identity(instanceOf(client)); err != nil || now != identity {
		t.Errorf("another namespace: %v", err)
	}
}

func TestRenewEmptiesANamespace(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	_, client, server := w.pair()
	w.run(instanceOf(client), "ip", "rule", "add", "from", "10.9.9.9", "table", "77")
	if err := w.Renew(t.Context(), instanceOf(client)); err != nil {
		t.Fatal(err)
	}
	if rules := w.run(instanceOf(client), "ip", "rule"); strings.Contains(rules, "10.9.9.9") {
		t.Errorf("a rule was left:\n%s", rules)
	}
	w.whole(client, server)
}

func TestWhatIsDetachedOrDeletedGoes(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v, client, server := w.pair()
	second := w.newENI(w.subnetOf(client), instanceOf(client), 1, nil, "10.0.1.20")
	w.plugged(second)
	if out := w.run(instanceOf(client), "ip", "-br", "link", "show", "eth1"); !strings.Contains(out,
		second.MACAddress) || !strings.Contains(out, "DOWN") {
		t.Errorf("a hot-plugged interface: %s", out)
	}
	remove(w, record.NetworkInterfaces, second)
	w.waitForRules(v)
	if out := w.run(instanceOf(client), "ip", "-br", "link"); strings.Contains(out, "eth1") {
		t.Errorf("a detached interface is there:\n%s", out)
	}
	w.whole(client, server)
	remove(w, record.NetworkInterfaces, client)
	w.waitForRules(v)
	if _, err := w.Identity(instanceOf(client)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the namespace of an instance without interfaces: %v", err)
	}
	remove(w, record.NetworkInterfaces, server)
	remove(w, record.VPCs, v.VPC)
	eventually.Nil(w, "remove the VPC", func() error {
		_, err := w.Identity(VPCNamespace(v.ID))
		if err == nil {
			return errors.New("the router is there")
		}
		return nil
	})
	w.inside(InternetNamespace, func(s *namespace) error {
		if _, err := s.LinkByName(vpcLink(v.ID)); !errors.As(err, &netlink.LinkNotFoundError{}) {
			t.Errorf("the link to a deleted VPC: %v", err)
		}
		return nil
	})
}

func (w *fixture) subnetOf(e record.NetworkInterface) record.Subnet {
	w.Helper()
	row, err := record.Subnets(w.store).Get(w.Context(), record.EC2Key(account, region, e.SubnetID))
	if err != nil {
		w.Fatal(err)
	}
	return row.Value
}

func TestRemoveLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v, client, server := w.pair()
	w.whole(client, server)
	// A socket inside keeps a namespace alive, but nothing that is plugged into it.
	l, err := w.Listen(t.Context(), VPCNamespace(v.ID), "tcp", "169.254.169.254:80")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Mkdir(filepath.Join(runDirectory(w.owner), "endpoint"), 0o755); err != nil {
		t.Fatal(err) // of a process that has ended
	}
	w.stop()
	removed, err := Remove(w.owner)
	if err != nil {
		t.Fatal(err)
	}
	if len(removed) != 6 { // internet, VPC, two instances; link; table
		t.Errorf("removed %q", removed)
	}
	if _, err := os.Lstat(filepath.Join("/run/coracle", w.owner)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the run directory: %v", err)
	}
	if _, err := netlink.LinkByName(HostLink(w.owner)); !errors.As(err, &netlink.LinkNotFoundError{}) {
		t.Errorf("the host's link: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), w.owner) {
		t.Errorf("mounts of %s are left, or %v", w.owner, err)
	}
	if again, err := Remove(w.owner); err != nil || len(again) != 0 {
		t.Errorf("once more: %q, %v", again, err)
	}
}

func TestTwoNetworksOnOneHost(t *testing.T) {
	t.Parallel()
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			_, client, server := w.pair()
			w.whole(client, server)
		})
	}
}

func TestPublicRangesDiffer(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	seen := map[string]bool{}
	for i := range 3 {
		owner := fmt.Sprintf("range-%d-%08d", i, os.Getpid())
		r, err := ChoosePublicRange(t.Context(), owner, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := unclaim(owner); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(claimOf(r)); err == nil {
				t.Errorf("%s is still taken", r)
			}
		}()
		if seen[r.String()] || r.Bits() != 21 || !benchmark.Contains(r.Addr()) {
			t.Errorf("%s, after %v", r, seen)
		}
		seen[r.String()] = true
	}
}

// TestChangesDropNothing changes what has nothing to do with a client while it connects, out through the gateway and
// inside the VPC.
func TestChangesDropNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v, client, server := w.pair()
	w.whole(client, server)
	w.serve(instanceOf(server), "10.0.1.11:81")
	w.serve(InternetNamespace, netip.AddrPortFrom(nthAddress(w.o.PublicRange, 20), 80).String())
	w.stop()
	other := w.newGroup(v)
	const enough = 40
	var changes atomic.Int32
	go func() {
		defer changes.Store(enough)
		for changes := range enough {
			change(w, record.SecurityGroups, other, func(g *record.SecurityGroup) {
				g.Rules = []record.SecurityGroupRule{{Protocol: "tcp", FromPort: int32(changes % 1000), ToPort: 1000,
					CIDRIPv4: "10.0.0.0/8"}}
			})
			change(w, record.NetworkInterfaces, client, func(e *record.NetworkInterface) {
				e.PrivateIPs = []string{"10.0.1.10", fmt.Sprintf("10.0.1.%d", 20+changes%200)}
				e.SecurityGroupIDs = []string{e.SecurityGroupIDs[0], other.ID}
			})
			if _, err := w.reconcileVPC(t.Context(), v.Key()); err != nil {
				t.Error(err)
			}
		}
	}()
	for changes.Load() < enough {
		for _, c := range []struct{ holder, to, seen string }{
			{instanceOf(client), "10.0.1.11:81", "10.0.1.10"},
			{instanceOf(server), netip.AddrPortFrom(nthAddress(w.o.PublicRange, 20), 80).String(), w.publicAddress(1)},
		} {
			seen, err := callFrom(t.Context(), w.Namespace(c.holder), "", c.to, true)
			if err != nil || seen != c.seen {
				t.Errorf("%s: seen as %q, %v", c.to, seen, err)
			}
		}
	}
}
