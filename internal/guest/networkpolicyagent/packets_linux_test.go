package networkpolicyagent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// network is a node with the interfaces of pods as the VPC CNI plugin makes them, in namespaces of its own.
type network struct {
	t    *testing.T
	node netns.NsHandle
	pods map[string]netns.NsHandle
	six  bool
}

// at runs f on a thread in a namespace.
func (n *network) at(ns netns.NsHandle, f func() error) {
	n.t.Helper()
	if err := inNamespace(ns, f); err != nil {
		n.t.Fatal(err)
	}
}

func inNamespace(ns netns.NsHandle, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if err := netns.Set(ns); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	made := make(chan netns.NsHandle, 1)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.New()
		if err != nil {
			failed <- err
			return
		}
		made <- ns
	}()
	select {
	case ns := <-made:
		t.Cleanup(func() { ns.Close() })
		return ns
	case err := <-failed:
		t.Fatal(err)
		return 0
	}
}

const testNamespace = "default"

// podAddress returns the address of the n-th pod.
func podAddress(six bool, n int) netip.Addr {
	if six {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", n+10))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", n+10))
}

func nodeAddress(six bool) netip.Addr {
	if six {
		return netip.MustParseAddr("2001:db8::1")
	}
	return netip.MustParseAddr("10.0.0.1")
}

func newNetwork(t *testing.T, six bool, pods ...string) *network {
	t.Helper()
	n := &network{t: t, node: newNamespace(t), pods: map[string]netns.NsHandle{}, six: six}
	n.at(n.node, func() error {
		for _, path := range []string{"/proc/sys/net/ipv4/ip_forward",
			"/proc/sys/net/ipv6/conf/all/forwarding"} {
			if err := os.WriteFile(path, []byte("1"), 0); err != nil {
				return err
			}
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		return netlink.AddrAdd(lo, address(nodeAddress(six)))
	})
	for i, name := range pods {
		n.addPod(i, name)
	}
	return n
}

func address(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: hostNet(a), Flags: unix.IFA_F_NODAD}
}

func hostNet(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

func (n *network) addPod(i int, name string) {
	n.t.Helper()
	ns := newNamespace(n.t)
	n.pods[name] = ns
	host := linksOf(podRef{Namespace: testNamespace, Name: name})[0]
	var mac net.HardwareAddr
	n.at(n.node, func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: host}, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		link, err := netlink.LinkByName(host)
		if err != nil {
			return err
		}
		mac = link.Attrs().HardwareAddr
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: hostNet(podAddress(n.six, i)),
			Scope: netlink.SCOPE_LINK})
	})
	var podMAC net.HardwareAddr
	n.at(ns, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		podMAC = link.Attrs().HardwareAddr
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, address(podAddress(n.six, i))); err != nil {
			return err
		}
		gateway := net.ParseIP("169.254.1.1")
		if n.six {
			gateway = net.ParseIP("fe80::1")
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: hostNetIP(gateway),
			Scope: netlink.SCOPE_LINK}); err != nil {
			return err
		}
		if err := netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: gateway, HardwareAddr: mac,
			State: netlink.NUD_PERMANENT}); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway})
	})
	n.at(n.node, func() error {
		link, err := netlink.LinkByName(host)
		if err != nil {
			return err
		}
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: podAddress(n.six, i).AsSlice(),
			HardwareAddr: podMAC, State: netlink.NUD_PERMANENT})
	})
}

func hostNetIP(ip net.IP) *net.IPNet {
	if four := ip.To4(); four != nil {
		return &net.IPNet{IP: four, Mask: net.CIDRMask(32, 32)}
	}
	return &net.IPNet{IP: ip, Mask: net.CIDRMask(128, 128)}
}

// receiver counts the datagrams of a pod by their content, and echoes connections.
type receiver struct {
	datagrams chan string
	accepted  chan net.Conn
}

// The ports of pods. The last one is always allowed: what is sent to it tells that what was sent before has been
// dropped or has arrived.
const (
	web, other, ranged, sentinel = 80, 81, 8005, 9999
)

func (n *network) listen(pod string, ports ...int) *receiver {
	n.t.Helper()
	r := &receiver{make(chan string, 1000), make(chan net.Conn, 1000)}
	n.at(n.pods[pod], func() error {
		for _, port := range append(ports, sentinel) {
			at := fmt.Sprintf("[::]:%d", port)
			packets, err := net.ListenPacket("udp", at)
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", at)
			if err != nil {
				return err
			}
			n.t.Cleanup(func() { packets.Close(); l.Close() })
			go func() {
				buffer := make([]byte, 100)
				for {
					size, _, err := packets.ReadFrom(buffer)
					if err != nil {
						return
					}
					r.datagrams <- string(buffer[:size])
				}
			}()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					r.accepted <- c
					go func() { _, _ = io.Copy(c, c) }()
				}
			}()
		}
		return nil
	})
	return r
}

// send sends a datagram from a namespace.
func (n *network) send(from netns.NsHandle, to netip.Addr, port int, text string) {
	n.t.Helper()
	n.at(from, func() error {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, uint16(port))))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte(text))
		return err
	})
}

// sent numbers datagrams: one of an earlier case may arrive late.
var sent atomic.Int64

// arrives sends datagrams until one arrives.
func (n *network) arrives(r *receiver, from netns.NsHandle, to netip.Addr, port int) {
	n.t.Helper()
	n.await(r, from, to, port, fmt.Sprint("test ", sent.Add(1)), "")
}

// isDropped sends a datagram, and then one that is always allowed, until the latter arrives. It reports whether the
// first one has not.
func (n *network) isDropped(r *receiver, from netns.NsHandle, to netip.Addr, port int) bool {
	n.t.Helper()
	test := fmt.Sprint("test ", sent.Add(1))
	n.send(from, to, port, test)
	return !n.await(r, from, to, sentinel, fmt.Sprint("end ", sent.Add(1)), test)
}

// again is the pause after which a datagram is sent again.
const again = 50 * time.Millisecond

// await sends a datagram until it arrives, and reports whether another one has arrived meanwhile.
func (n *network) await(r *receiver, from netns.NsHandle, to netip.Addr, port int, text, other string) (seen bool) {
	n.t.Helper()
	limit := time.After(eventually.Limit)
	for {
		n.send(from, to, port, text)
		pause := time.After(again)
		for waiting := true; waiting; {
			select {
			case got := <-r.datagrams:
				if got == text {
					return seen
				}
				seen = seen || got == other
			case <-pause:
				waiting = false
			case <-limit:
				n.t.Fatalf("a datagram to port %d of %s does not arrive", port, to)
			}
		}
	}
}

func (n *network) apply(rules map[podRef]policies) {
	n.t.Helper()
	n.at(n.node, func() error { return (&kernel{flows: flowGroup}).replace(design(nodeAddress(n.six), rules, true)) })
}

// always lets the last port through.
var always = networkpolicy.EndpointInfo{Ports: []networkpolicy.Port{{Protocol: new(udp), Port: new(int32(sentinel))}}}

func everywhere(six bool, e networkpolicy.EndpointInfo) networkpolicy.EndpointInfo {
	e.CIDR = "0.0.0.0/0"
	if six {
		e.CIDR = "::/0"
	}
	return e
}

func TestPackets(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	for name, six := range map[string]bool{"IPv4": false} { // TestIPv6Rules has those of IPv6
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, six, "server-a", "client-a", "stranger-a")
			received := n.listen("server-a", web, other, ranged)
			server, client, stranger := podAddress(six, 0), podAddress(six, 1), podAddress(six, 2)
			from := map[string]netns.NsHandle{"client": n.pods["client-a"], "stranger": n.pods["stranger-a"],
				"node": n.node}
			block := "10.0.0.0/24"
			if six {
				block = "2001:db8::/64"
			}
			webPort := networkpolicy.Port{Protocol: new(udp), Port: new(int32(web))}
			type packet struct {
				from string
				port int
			}
			for _, c := range []struct {
				name            string
				ingress, egress []networkpolicy.EndpointInfo
				isolate         string // the server from ingress, or the client's egress
				arrives         []packet
				dropped         []packet
			}{
				{"no policies", nil, nil, "", []packet{{"client", web}, {"stranger", other}, {"node", web}}, nil},
				{"default deny", nil, nil, "ingress", []packet{{"node", web}}, []packet{{"client", web}, {"stranger", web}}},
				{"one pod", []networkpolicy.EndpointInfo{{CIDR: client.String()}}, nil, "ingress",
					[]packet{{"client", web}, {"client", other}, {"node", web}}, []packet{{"stranger", web}}},
				{"one port of one pod", []networkpolicy.EndpointInfo{{CIDR: client.String(),
					Ports: []networkpolicy.Port{webPort}}}, nil, "ingress",
					[]packet{{"client", web}}, []packet{{"client", other}, {"stranger", web}}},
				{"a range of ports", []networkpolicy.EndpointInfo{{CIDR: block,
					Ports: []networkpolicy.Port{{Protocol: new(udp), Port: new(int32(8000)), EndPort: new(int32(8010))}}}},
					nil, "ingress", []packet{{"client", ranged}, {"stranger", ranged}}, []packet{{"client", web}}},
				{"another protocol", []networkpolicy.EndpointInfo{{CIDR: block, Ports: []networkpolicy.Port{{
					Protocol: new(tcp), Port: new(int32(web))}}}}, nil, "ingress", nil, []packet{{"client", web}}},
				{"a block with an exception", []networkpolicy.EndpointInfo{{CIDR: block,
					Except: []string{stranger.String() + "/" + fmt.Sprint(stranger.BitLen())}}}, nil, "ingress",
					[]packet{{"client", web}}, []packet{{"stranger", web}}},
				{"rules of the cluster", nil, nil, "cluster", []packet{{"client", web}, {"stranger", web}, {"node", other}},
					[]packet{{"client", other}, {"stranger", other}}},
				{"egress to nobody", nil, nil, "egress", []packet{{"stranger", web}}, []packet{{"client", web}}},
				{"egress to a port", nil, []networkpolicy.EndpointInfo{{CIDR: server.String(),
					Ports: []networkpolicy.Port{webPort}}}, "egress", []packet{{"client", web}}, []packet{{"client", other}}},
			} {
				rules := map[podRef]policies{}
				if c.isolate == "cluster" {
					rules[podRef{Namespace: testNamespace, Name: "server-a"}] = policies{ingress: clusterRules(t, six, client,
						stranger)}
				}
				ref := podRef{Namespace: testNamespace, Name: "server-a"}
				allow := func(infos []networkpolicy.EndpointInfo) direction {
					return direction{isolated: true, allow: compile(append(infos, everywhere(six, always)), six)}
				}
				switch c.isolate {
				case "ingress":
					rules[ref] = policies{ingress: allow(c.ingress)}
				case "egress":
					rules[podRef{Namespace: testNamespace, Name: "client-a"}] = policies{egress: allow(c.egress)}
				}
				n.apply(rules)
				for _, p := range c.arrives {
					n.arrives(received, from[p.from], server, p.port)
				}
				for _, p := range c.dropped {
					if !n.isDropped(received, from[p.from], server, p.port) {
						t.Errorf("%s: a packet of the %s to port %d arrives", c.name, p.from, p.port)
					}
				}
			}
		})
	}
}

// TestIPv6Rules gives the kernel rules of each form for IPv6.
func TestIPv6Rules(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	n := newNetwork(t, true)
	d := clusterRules(t, true, podAddress(true, 1), podAddress(true, 2))
	d.allow = append(d.allow, compile([]networkpolicy.EndpointInfo{{CIDR: "2001:db8::/64",
		Except: []string{"2001:db8::8/125"}, Ports: []networkpolicy.Port{port(tcp, 80, 90), port(udp, 53)}}}, true)...)
	n.apply(map[podRef]policies{{Namespace: testNamespace, Name: "server-a"}: {ingress: d, egress: d}})
	n.at(n.node, (&kernel{}).remove)
}

// clusterRules lets the client and the stranger reach one port: the one by a rule of the admin tier, the other by one
// that passes to a NetworkPolicy, which excludes the client.
func clusterRules(t *testing.T, six bool, client, stranger netip.Addr) direction {
	t.Helper()
	on := []networkpolicy.Port{{Protocol: new(udp), Port: new(int32(web))}}
	admin := func(action networkpolicy.Action, cidr string, ports []networkpolicy.Port) []clusterRule {
		return compileCluster([]networkpolicy.ClusterEndpointInfo{{CIDR: cidr, Ports: ports, Action: action}}, 1, six)
	}
	d := direction{isolated: true, allow: compile([]networkpolicy.EndpointInfo{{CIDR: stranger.String()},
		everywhere(six, always)}, six)}
	d.admin = append(d.admin, admin(networkpolicy.Accept, client.String(), on)...)
	d.admin = append(d.admin, admin(networkpolicy.Pass, stranger.String(), on)...)
	d.admin = append(d.admin, admin(networkpolicy.Pass, everywhere(six, always).CIDR, always.Ports)...)
	d.admin = append(d.admin, admin(networkpolicy.Deny, everywhere(six, always).CIDR, nil)...)
	return d
}

// TestConnectionsContinue begins a connection that a later policy would not allow, and one that strict mode refuses.
func TestConnectionsContinue(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	n := newNetwork(t, false, "server-a", "client-a")
	received := n.listen("server-a", web)
	server := podAddress(false, 0)
	n.apply(map[podRef]policies{})
	var open net.Conn
	dial := func(ctx context.Context) (c net.Conn, err error) {
		err = inNamespace(n.pods["client-a"], func() error {
			c, err = new(net.Dialer).DialContext(ctx, "tcp", netip.AddrPortFrom(server, web).String())
			return err
		})
		return c, err
	}
	open, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	echo := func() {
		t.Helper()
		if err := open.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
			t.Fatal(err)
		}
		if _, err := open.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(open, make([]byte, 1)); err != nil {
			t.Fatalf("a connection that had begun: %v", err)
		}
	}
	echo()
	<-received.accepted

	// Strict mode, in which a pod without policies has nothing.
	strict := policiesOfPods(nil, nil, nodeAddress(false), []knownPod{{podRef: podRef{Namespace: testNamespace,
		Name: "server-a"}, Strict: true}})
	n.apply(strict)
	echo()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		c, err := dial(ctx)
		if err == nil {
			c.Close()
		}
		ended <- err
	}()
	n.send(n.node, server, sentinel, "end") // the node may, in strict mode as well
	select {
	case <-received.datagrams:
	case <-time.After(eventually.Limit):
		t.Fatal("the node does not reach its pod")
	}
	select {
	case <-received.accepted:
		t.Error("strict mode lets a connection in")
	default:
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("strict mode lets a connection in")
	}

	n.at(n.node, (&kernel{}).remove)
	again, err := dial(t.Context())
	if err != nil {
		t.Fatalf("without the table: %v", err)
	}
	again.Close()
}
