//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/reconcile"
)

var (
	crashRouter = crash.At("network/router")
	crashPort   = crash.At("network/port")
	crashRules  = crash.At("network/rules")
)

// gatewayLink is the router's link to the internet.
const gatewayLink = "igw"

// gatewayMTU is the MTU of an internet gateway. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/network_mtu.html
const gatewayMTU = 1500

// routerSysctl are the settings of a router. Ports inherit them when they are made.
var routerSysctl = map[string]string{
	"ipv4/ip_forward": "1",
	// A source that is not mapped to the port it comes from is dropped; [Network.port] relaxes that for ENIs without
	// source/destination check.
	"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "1",
	// ARP for whatever is mapped elsewhere is answered with the router's own address.
	"ipv4/conf/default/proxy_arp":      "1",
	"ipv4/conf/all/send_redirects":     "0",
	"ipv4/conf/default/send_redirects": "0",
	"ipv4/conf/all/accept_redirects":   "0",
	"ipv4/conf/all/accept_local":       "0",
	"-ipv6/conf/all/forwarding":        "1",
	"-ipv6/conf/default/accept_ra":     "0",
	"-ipv6/conf/default/accept_dad":    "0",
	// Flows that take different ways to and fro are no reason to drop.
	"-netfilter/nf_conntrack_tcp_be_liberal": "1",
}

// router reconciles the namespace of one VPC.
type router struct {
	n   *Network
	key string // of the VPC
	*design
	*namespace
	links map[string]netlink.Link
}

// reconcileVPC makes one VPC so.
func (n *Network) reconcileVPC(ctx context.Context, key string) (reconcile.Result, error) {
	id := resourceID(key)
	defer n.lock(id)()
	d, err := n.loadDesign(ctx, key)
	if errors.Is(err, errGone) {
		return reconcile.Result{Gone: true}, n.removeVPC(ctx, key)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read VPC %s: %w", id, err)
	}
	path := n.Namespace(VPCNamespace(id))
	if there, err := isNamespace(path); err != nil || !there && len(d.ports) == 0 {
		return reconcile.Result{}, err // nobody is plugged in, and nobody was
	}
	made, err := makeNamespace(path)
	if err != nil {
		return reconcile.Result{}, err
	}
	crashRouter.Here()
	s, err := openHandle(path)
	if err != nil {
		return reconcile.Result{}, err
	}
	defer s.close()
	r := &router{n: n, design: d, namespace: s, key: key}
	n.retract(key, d)
	plugged, err := r.reconcileRouter(ctx)
	n.publish(key, d, plugged, made)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("VPC %s: %w", id, err)
	}
	return reconcile.Result{}, nil
}

// reconcileRouter applies the design of a VPC. It returns which ENIs are plugged, even when something else fails.
func (r *router) reconcileRouter(ctx context.Context) (plugged map[string]bool, err error) {
	if err := r.applySysctl(routerSysctl); err != nil {
		return nil, err
	}
	if err := r.localAddresses(r.local); err != nil {
		return nil, err
	}
	if r.links, err = r.namespace.listLinks(); err != nil {
		return nil, err
	}
	if err := r.removeStalePorts(ctx); err != nil {
		return nil, err
	}
	if err := r.gateway(); err != nil {
		return nil, err
	}
	plugged = map[string]bool{}
	var failures []error
	for _, p := range r.ports {
		// One machine's trouble is not that of the others.
		if err := r.ensurePort(ctx, p); err != nil {
			failures = append(failures, fmt.Errorf("plug %s into %s: %w", p.eni.ID, p.holder, err))
			continue
		}
		crashPort.Here()
		plugged[p.eni.ID] = true
	}
	// The rules come before the routes, so that nothing is delivered unfiltered.
	if err := r.applyRules(); err != nil {
		return nil, err
	}
	crashRules.Here()
	if err := r.forwardInBalancers(); err != nil {
		failures = append(failures, err)
	}
	if err := r.reconcileRoutes(); err != nil {
		return nil, err
	}
	r.n.confirm(r.key, r.design)
	if err := r.n.publicRoutes(r.design); err != nil {
		return nil, err
	}
	return plugged, errors.Join(failures...)
}

// removeStalePorts removes the ports that nobody wants, and the namespaces of holders that have none left.
func (r *router) removeStalePorts(ctx context.Context) error {
	wanted, holders := map[string]string{}, map[string]bool{}
	for _, p := range r.ports {
		wanted[p.portName()] = p.linkAlias()
		holders[p.holder] = true
	}
	left := map[string]bool{}
	for name, l := range r.links {
		if name == "lo" || name == gatewayLink || wanted[name] != "" && wanted[name] == l.Attrs().Alias {
			continue
		}
		if err := r.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove port %s: %w", name, err)
		}
		delete(r.links, name)
		if parts := strings.Fields(l.Attrs().Alias); len(parts) > 1 && !holders[parts[1]] {
			left[parts[1]] = true
		}
	}
	for holder := range left {
		used, err := r.n.holders(ctx)
		if err != nil {
			return err
		}
		if !used[holder] {
			if err := removeHolder(r.n.o.Owner, holder); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensurePort makes the port of an ENI and what its holder finds of it.
func (r *router) ensurePort(ctx context.Context, p port) error {
	mac, err := net.ParseMAC(p.eni.MACAddress)
	if err != nil {
		return err
	}
	path := r.n.Namespace(p.holder)
	if err := makeHolder(ctx, r.n.o.Owner, p.holder, p.kind == instanceHolder && r.n.o.UserNamespaces); err != nil {
		return err
	}
	inside, err := openHandle(path)
	if err != nil {
		return err
	}
	defer inside.close()
	if err := inside.holderSysctl(p.kind); err != nil {
		return err
	}
	link, there := r.links[p.portName()]
	if !there {
		if link, err = r.connect(p, mac, inside); err != nil {
			return err
		}
		r.links[p.portName()] = link
	}
	check := "1"
	if !p.eni.SourceDestCheck || p.kind == natHolder {
		check = "0"
	}
	err = r.applySysctl(map[string]string{
		"ipv4/conf/" + p.portName() + "/rp_filter":    check,
		"ipv4/neigh/" + p.portName() + "/proxy_delay": "0",
	})
	if err != nil {
		return err
	}
	if err := r.ensureLinkUp(link, p.subnet.linkGroup()); err != nil {
		return err
	}
	if err := r.neighbors(link, mac); err != nil {
		return err
	}
	if p.kind == instanceHolder && p.eni.Attachment.DeviceIndex != 0 {
		return nil // the guest's own to configure
	}
	return inside.configure(p, link, mac)
}

// connect makes the pair of links between the router and the holder.
func (r *router) connect(p port, mac net.HardwareAddr, inside *namespace) (netlink.Link, error) {
	name := fmt.Sprintf("eth%d", p.eni.Attachment.DeviceIndex)
	if p.kind != instanceHolder {
		for i := 0; ; i++ {
			name = fmt.Sprintf("eth%d", i)
			taken, err := inside.hasLink(name)
			if err != nil {
				return nil, err
			}
			if !taken {
				break
			}
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr, attrs.Group = p.portName(), MTU, routerMAC, p.subnet.linkGroup()
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: name, PeerHardwareAddr: mac, PeerNamespace: inside.netlinkFD(),
		PeerMTU: MTU}
	if err := r.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	link, err := r.LinkByName(p.portName())
	if err != nil {
		return nil, err
	}
	return link, r.LinkSetAlias(link, p.linkAlias())
}

// ensureLinkUp sets a link up, with the MTU of the VPC and in its subnet's group.
func (r *router) ensureLinkUp(link netlink.Link, group uint32) error {
	a := link.Attrs()
	if a.Group != group {
		if err := r.LinkSetGroup(link, int(group)); err != nil {
			return err
		}
	}
	if a.HardwareAddr.String() != routerMAC.String() {
		if err := r.LinkSetHardwareAddr(link, routerMAC); err != nil {
			return err
		}
	}
	if a.Flags&net.FlagUp == 0 {
		return r.LinkSetUp(link)
	}
	return nil
}

// gateway connects the router with the internet while it has a gateway.
func (r *router) gateway() error {
	link, there := r.links[gatewayLink]
	if !r.internet {
		if there {
			return r.LinkDel(link)
		}
		return nil
	}
	far, err := r.n.openInternet()
	if err != nil {
		return err
	}
	defer far.close()
	if !there {
		name := vpcLink(r.vpc.ID)
		// Its other end, were there one, would be in a router that is gone.
		if old, err := far.LinkByName(name); err == nil {
			if err := far.LinkDel(old); err != nil {
				return err
			}
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = gatewayLink, gatewayMTU, routerMAC
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: name, PeerHardwareAddr: routerMAC,
			PeerNamespace: far.netlinkFD(),
			PeerMTU:       gatewayMTU}
		if err := r.LinkAdd(pair); err != nil {
			return fmt.Errorf("connect with the internet: %w", err)
		}
		if link, err = r.LinkByName(gatewayLink); err != nil {
			return err
		}
		r.links[gatewayLink] = link
	}
	if err := r.applySysctl(map[string]string{"ipv4/conf/" + gatewayLink + "/rp_filter": "0", "ipv4/conf/" +
		gatewayLink +
		"/proxy_arp": "0"}); err != nil {
		return err
	}
	if err := r.ensureLinkUp(link, 0); err != nil {
		return err
	}
	return r.neighbors(link, routerMAC)
}

// reconcileRoutes makes the mapping and the route tables.
func (r *router) reconcileRoutes() error {
	routes, tables := map[destination]kernelRoute{}, map[uint32]bool{}
	for _, want := range r.routes {
		if want.table != mainTable {
			tables[want.table] = true
		}
		k := kernelRoute{}
		switch want.kind {
		case via:
			link, there := r.links[want.link]
			if !there {
				continue // it could not be plugged; what was reported
			}
			k.kind, k.link, k.gateway = unix.RTN_UNICAST, link.Attrs().Index, farEnd
			if want.to.Addr().Is6() {
				k.gateway = farEndIPv6
			}
		case throw:
			k.kind = unix.RTN_THROW
		case blackhole:
			k.kind = unix.RTN_BLACKHOLE
		}
		routes[destination{int(want.table), want.to}] = k
	}
	if err := r.setRoutes(routes, nil); err != nil {
		return err
	}
	return r.setRules(tables)
}

// removeVPC removes what is left of a VPC.
func (n *Network) removeVPC(ctx context.Context, key string) error {
	path := n.Namespace(VPCNamespace(resourceID(key)))
	s, err := openHandle(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		r := &router{n: n, design: &design{}, namespace: s}
		r.links, err = s.listLinks()
		if err == nil {
			err = r.removeStalePorts(ctx)
		}
		if gateway, there := r.links[gatewayLink]; err == nil && there {
			err = s.LinkDel(gateway)
		}
		s.close()
		if err != nil {
			return err
		}
	}
	if err := removeNamespace(path); err != nil {
		return err
	}
	n.forgetVPC(key)
	return nil
}
