//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
)

// hostSide is the internet's link to the host.
const hostSide = "host"

// vpcLink returns the internet's link to a VPC.
func vpcLink(vpcID string) string { return "v" + strings.TrimPrefix(vpcID, "vpc-")[:14] }

// unreachable are the blocks that the internet does not route: private networks, of VPCs and of the host's neighbors
// alike, and the address at which Azure gives a host its configuration and certificates.
var unreachable = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("::/0"),
}

// infrastructure returns the first /24 of the public range: all but its first two addresses are local to the internet's
// namespace.
func infrastructure(r netip.Prefix) (blocks []netip.Prefix) {
	for bits, first := 31, 2; bits >= 25; bits, first = bits-1, first*2 {
		blocks = append(blocks, netip.PrefixFrom(nthAddress(r, first), bits))
	}
	return blocks
}

// openInternet makes the namespace of the internet if need be, and opens it.
func (n *Network) openInternet() (*namespace, error) {
	defer n.lock(InternetNamespace)()
	path := n.Namespace(InternetNamespace)
	made, err := makeNamespace(path)
	if err != nil {
		return nil, err
	}
	s, err := openHandle(path)
	if err != nil {
		return nil, err
	}
	// A router does not wait for the internet's own controller.
	if lo, err := s.LinkByName("lo"); made || err != nil || lo.Attrs().Flags&net.FlagUp == 0 {
		if err := n.makeInternet(s); err != nil {
			s.close()
			return nil, fmt.Errorf("make the internet: %w", err)
		}
	}
	if made {
		n.internetMade()
	}
	return s, nil
}

// reconcileInternet makes what is between the VPCs and the host, and takes away namespaces that nobody is plugged into.
func (n *Network) reconcileInternet(ctx context.Context, _ string) (reconcile.Result, error) {
	if err := n.collect(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if !n.o.PublicRange.IsValid() {
		return reconcile.Result{}, nil
	}
	s, err := n.openInternet()
	if err != nil {
		return reconcile.Result{}, err
	}
	defer s.close()
	if err := n.makeInternet(s); err != nil {
		return reconcile.Result{}, fmt.Errorf("internet: %w", err)
	}
	if err := n.makeHost(s); err != nil {
		return reconcile.Result{}, fmt.Errorf("connect the internet with this host: %w", err)
	}
	return reconcile.Result{}, nil
}

func (n *Network) makeInternet(s *namespace) error {
	err := s.applySysctl(map[string]string{
		"ipv4/ip_forward":         "1",
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
		"ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0",
		"ipv4/conf/default/proxy_arp": "0", "ipv4/conf/all/proxy_arp": "0",
		"-ipv6/conf/all/forwarding":     "1",
		"-ipv6/conf/default/accept_ra":  "0",
		"-ipv6/conf/default/accept_dad": "0",
	})
	if err != nil {
		return err
	}
	// As routes, the addresses below would do; it needs some to speak with.
	return s.localAddresses([]netip.Addr{GatewayAddress(n.o.PublicRange), APIAddress(n.o.PublicRange)})
}

// makeHost connects the namespace with the host, and the host's internet with it.
func (n *Network) makeHost(s *namespace) error {
	name := HostLink(n.o.Owner)
	outside, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer outside.Close()
	here := &namespace{name: "the host", Handle: outside}
	// The rules come first: there is no instant at which the link is open to what they keep out.
	self, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer self.Close()
	neighbors, err := here.onLinkBlocks(n.o.PublicRange)
	if err != nil {
		return err
	}
	err = n.applyBounded(func(bounds connectionBounds) error {
		return hostRules(n.o.Owner, n.o.PublicRange, neighbors, bounds).apply(self, &n.applied)
	}, func(bounds connectionBounds) error { return bounds.probe(int(s.netlinkFD())) })
	if err != nil {
		return err
	}
	gateway, address := GatewayAddress(n.o.PublicRange), HostAddress(n.o.PublicRange)
	inner, err1 := s.LinkByName(hostSide)
	link, err2 := here.LinkByName(name)
	if err1 != nil || err2 != nil {
		// One end without the other is half of a removal, or of somebody else's.
		// Where it cannot be taken away, it cannot be made anew below, and that says why.
		if err1 == nil {
			_ = s.LinkDel(inner)
		}
		if err2 == nil {
			_ = here.LinkDel(link)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = name, gatewayMTU
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: hostSide, PeerNamespace: s.netlinkFD(), PeerMTU: gatewayMTU,
			PeerHardwareAddr: routerMAC}
		if err := here.LinkAdd(pair); err != nil {
			return fmt.Errorf("make link %s: %w", name, err)
		}
		if link, err = here.LinkByName(name); err != nil {
			return err
		}
		if inner, err = s.LinkByName(hostSide); err != nil {
			return err
		}
	}
	if err := here.LinkSetUp(link); err != nil {
		return err
	}
	if err := s.LinkSetUp(inner); err != nil {
		return err
	}
	if err := s.neighbors(inner, link.Attrs().HardwareAddr); err != nil {
		return err
	}
	if err := here.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: netlink.FAMILY_V4,
		State: netlink.NUD_PERMANENT, IP: gateway.AsSlice(), HardwareAddr: routerMAC}); err != nil {
		return err
	}
	if err := here.onlyAddress(link, address); err != nil {
		return err
	}
	err = here.setRoutes(map[destination]kernelRoute{
		{mainTable, n.o.PublicRange.Masked()}: {kind: unix.RTN_UNICAST, link: link.Attrs().Index, gateway: gateway,
			source: address},
	}, func(r netlink.Route) bool { return r.LinkIndex == link.Attrs().Index })
	if err != nil {
		return err
	}
	if err := n.internetRoutes(s, inner); err != nil {
		return err
	}
	return n.forwardOnHost(here, name)
}

// onlyAddress gives a link one IPv4 address, in place of one of an earlier data directory's range.
func (s *namespace) onlyAddress(link netlink.Link, address netip.Addr) error {
	has, err := retryDump(func() ([]netlink.Addr, error) { return s.AddrList(link, netlink.FAMILY_V4) })
	if err != nil {
		return err
	}
	for _, a := range has {
		if p, ok := prefixOf(a.IPNet); ok && p != hostPrefix(address) {
			if err := s.AddrDel(link, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
				return fmt.Errorf("take the address %s from %s: %w", p, link.Attrs().Name, err)
			}
		}
	}
	if err := s.AddrReplace(link, &netlink.Addr{IPNet: toIPNet(hostPrefix(address))}); err != nil {
		return fmt.Errorf("give %s the address %s: %w", link.Attrs().Name, address, err)
	}
	return nil
}

// internetRoutes returns the routes that belong to no VPC.
func (n *Network) internetRoutes(s *namespace, inner netlink.Link) error {
	lo, err := s.LinkByName("lo")
	if err != nil {
		return err
	}
	routes := map[destination]kernelRoute{
		{mainTable, netip.MustParsePrefix("0.0.0.0/0")}: {kind: unix.RTN_UNICAST, link: inner.Attrs().Index,
			gateway: farEnd},
		{mainTable, hostPrefix(HostAddress(n.o.PublicRange))}: {kind: unix.RTN_UNICAST, link: inner.Attrs().Index,
			gateway: farEnd},
	}
	for _, block := range unreachable {
		routes[destination{mainTable, block}] = kernelRoute{kind: unix.RTN_BLACKHOLE}
	}
	for _, block := range infrastructure(n.o.PublicRange) {
		routes[destination{unix.RT_TABLE_LOCAL, block}] = kernelRoute{kind: unix.RTN_LOCAL, link: lo.Attrs().Index}
	}
	links, err := s.listLinks()
	if err != nil {
		return err
	}
	vpcs := map[int]bool{}
	for name, l := range links {
		vpcs[l.Attrs().Index] = strings.HasPrefix(name, "v")
	}
	return s.setRoutes(routes, func(r netlink.Route) bool { return !vpcs[r.LinkIndex] })
}

// publicRoutes sends a VPC's public addresses to it.
func (n *Network) publicRoutes(d *design) error {
	if !d.internet {
		return nil // the link has gone, and with it its routes
	}
	s, err := n.openInternet()
	if err != nil {
		return err
	}
	defer s.close()
	link, err := s.LinkByName(vpcLink(d.vpc.ID))
	if err != nil {
		return fmt.Errorf("connect with the internet: %w", err)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := s.LinkSetUp(link); err != nil {
			return err
		}
	}
	if err := s.neighbors(link, routerMAC); err != nil {
		return err
	}
	routes := map[destination]kernelRoute{}
	for _, public := range d.public {
		routes[destination{mainTable, hostPrefix(public)}] = kernelRoute{kind: unix.RTN_UNICAST,
			link:    link.Attrs().Index,
			gateway: farEnd}
	}
	for _, block := range d.cidrs {
		if block.Addr().Is6() { // public by nature
			routes[destination{mainTable, block}] = kernelRoute{kind: unix.RTN_UNICAST, link: link.Attrs().Index,
				gateway: farEndIPv6}
		}
	}
	return s.setRoutes(routes, func(r netlink.Route) bool { return r.LinkIndex == link.Attrs().Index })
}

// forwardOnHost lets the host forward between the internet's link and the links of its default routes. Where it does
// not forward at all, what was changed is written down for [Remove].
func (n *Network) forwardOnHost(here *namespace, name string) error {
	if on, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); err == nil && strings.TrimSpace(string(on)) == "1" {
		return nil
	}
	changed := []string{name}
	routes, err := retryDump(func() ([]netlink.Route, error) {
		return here.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{}, netlink.RT_FILTER_DST)
	})
	if err != nil {
		return err
	}
	for _, r := range routes {
		if l, err := here.LinkByIndex(r.LinkIndex); err == nil && r.LinkIndex != 0 {
			changed = append(changed, l.Attrs().Name)
		}
	}
	for _, name := range changed {
		path := "/proc/sys/net/ipv4/conf/" + name + "/forwarding"
		if on, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(on)) == "1" {
			continue
		}
		if err := noteForwarding(n.o.Owner, name); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			return err
		}
	}
	return nil
}

// forwardingFile returns the path of the file that lists the links whose forwarding we enabled, one a line.
func forwardingFile(owner string) string {
	return filepath.Join(runDirectory(owner), "forwarding")
}

func noteForwarding(owner, link string) error {
	old, err := os.ReadFile(forwardingFile(owner))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if slices.Contains(strings.Fields(string(old)), link) {
		return nil
	}
	return os.WriteFile(forwardingFile(owner), append(old, link+"\n"...), 0o600)
}

// hostTable returns the owner's nftables table in the host's namespace.
func hostTable(owner string) string { return "coracle-" + owner }

// hostRules returns what the host does with the internet's packets: those for others leave with the host's address, and
// neither the host's own services nor its neighbors, which are in on-link blocks where their addresses are public, are
// open to what runs inside. Without bounds, VPCs may have any number of connections.
func hostRules(owner string, public netip.Prefix, neighbors []netip.Prefix, bounds connectionBounds) *ruleset {
	r := &ruleset{name: hostTable(owner)}
	link := HostLink(owner)
	if bounds == (connectionBounds{}) {
		r.addChain("new-connections", nil)
	} else {
		bounds.addConnectionRules(r)
	}
	known := stateIs(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	c := r.addChain("input", &hook{kind: nftables.ChainTypeFilter, at: nftables.ChainHookInput,
		priority: *nftables.ChainPriorityFilter})
	c.addRule(matchInputLink(link), known, accept())
	c.addRule(matchInputLink(link), unconfirmed(), jumpToChain("new-connections"))
	c.addRule(matchInputLink(link), protocolIs(unix.IPPROTO_ICMP), accept())
	c.addRule(matchInputLink(link), drop())
	c = r.addChain("forward", &hook{kind: nftables.ChainTypeFilter, at: nftables.ChainHookForward,
		priority: *nftables.ChainPriorityFilter})
	for _, block := range neighbors {
		c.addRule(matchInputLink(link), addressIn(false, block), drop())
	}
	c.addRule(matchInputLink(link), unconfirmed(), jumpToChain("new-connections"))
	c.addRule(matchOutputLink(link), known, accept())
	c.addRule(matchOutputLink(link), drop())
	c = r.addChain("source", &hook{kind: nftables.ChainTypeNAT, at: nftables.ChainHookPostrouting,
		priority: *nftables.ChainPriorityNATSource})
	c.addRule(addressIn(true, public.Masked()), []expr.Any{loadMeta(expr.MetaKeyOIFNAME), differs(linkName(link)),
		loadMeta(expr.MetaKeyOIFNAME), differs(linkName("lo"))}, masquerade())
	return r
}

// widestOnLink is the minimum prefix length of a block that is the network of a link. Wider blocks are routes to
// everything, as those of tunnels are: 0.0.0.0/1.
const widestOnLink = 8

// onLinkBlocks returns the blocks whose addresses are on links of the host, but for those of our public range: what is
// there is its neighbor. The gateway of the host is one, and remains the way to the internet, whose packets are not
// addressed to it.
func (s *namespace) onLinkBlocks(public netip.Prefix) (blocks []netip.Prefix, err error) {
	routes, err := retryDump(func() ([]netlink.Route, error) {
		filter := &netlink.Route{Table: mainTable, Scope: netlink.SCOPE_LINK, Type: unix.RTN_UNICAST}
		return s.RouteListFiltered(netlink.FAMILY_V4, filter,
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_SCOPE|netlink.RT_FILTER_TYPE)
	})
	if err != nil {
		return nil, fmt.Errorf("list the routes of %s: %w", s.name, err)
	}
	for _, r := range routes {
		block, ok := prefixOf(r.Dst)
		if ok && r.Gw == nil && block.Bits() >= widestOnLink && !block.Overlaps(public) {
			blocks = append(blocks, block.Masked())
		}
	}
	slices.SortFunc(blocks, netip.Prefix.Compare)
	return slices.Compact(blocks), nil
}

func masquerade() []expr.Any { return []expr.Any{&expr.Masq{}} }

// holders returns the names of all namespaces that ENIs are plugged into.
func (n *Network) holders(ctx context.Context) (map[string]bool, error) {
	used := map[string]bool{InternetNamespace: true}
	vpcs, err := record.VPCs(n.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, v := range vpcs {
		used[VPCNamespace(v.Value.ID)] = true
	}
	nats, err := record.NATGateways(n.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, g := range nats {
		used[g.Value.ID] = true
	}
	balancers, err := record.LoadBalancers(n.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, b := range balancers {
		used[b.Value.Namespace()] = true
	}
	planes, err := record.ControlPlanes(n.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, p := range planes {
		used[p.Value.ClusterID] = len(p.Value.NetworkInterfaceIDs) > 0
	}
	enis, err := record.NetworkInterfaces(n.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, e := range enis {
		if a := e.Value.Attachment; a != nil && a.InstanceID != "" {
			used[a.InstanceID] = true
		}
	}
	return used, nil
}

// collect removes the namespaces that nobody is plugged into.
func (n *Network) collect(ctx context.Context) error {
	// The directory is read before the store: what was made since is not in this list.
	var entries []os.DirEntry
	for _, file := range []string{n.Namespace("x"), userIDFile(n.o.Owner, "x")} {
		more, err := os.ReadDir(filepath.Dir(file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		entries = append(entries, more...)
	}
	used, err := n.holders(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if used[e.Name()] {
			continue
		}
		if isRouter(e.Name()) {
			if err := dropLinks(n.Namespace(e.Name())); err != nil {
				return err
			}
		}
		if err := removeHolder(n.o.Owner, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// isRouter reports whether a namespace is a VPC's or the internet: no machine's, and nobody's but ours.
func isRouter(name string) bool { return name == InternetNamespace || strings.HasPrefix(name, "vpc-") }

// dropLinks removes the links of a router's namespace, which sockets inside might keep alive.
func dropLinks(path string) error {
	s, err := openHandle(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.close()
	links, err := s.listLinks()
	if err != nil {
		return err
	}
	for name, l := range links {
		if name == "lo" {
			continue
		}
		if err := s.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("remove link %s of %s: %w", name, s.name, err)
		}
	}
	return nil
}
