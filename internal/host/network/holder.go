//go:build linux

package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// dhcp is the route protocol of what a DHCP client would have made.
const dhcp = unix.RTPROT_DHCP

// loopbackIndex is the index of the loopback link in every namespace. Its name is the guest's to change.
const loopbackIndex = 1

// holderSysctl returns what a namespace starts with. The kernel would let it inherit the host's settings.
func (s *namespace) holderSysctl(kind holderKind) error {
	lo, err := s.LinkByIndex(loopbackIndex)
	if err != nil {
		return err
	}
	if lo.Attrs().Flags&net.FlagUp != 0 {
		return nil // it has started; what was changed since is its own
	}
	values := map[string]string{
		// As on Amazon Linux 2023: loose, and forwarding as the EKS image sets it.
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "2",
		"ipv4/ip_forward":                        "1",
		"ipv4/conf/default/proxy_arp":            "0",
		"ipv4/conf/all/proxy_arp":                "0",
		"-ipv6/conf/default/accept_ra":           "0",
		"-ipv6/conf/default/accept_dad":          "0",
		"-netfilter/nf_conntrack_tcp_be_liberal": "0",
	}
	switch kind {
	case clusterHolder:
		values["ipv4/ip_forward"] = "0"
	case balancerHolder:
		values["ipv4/ip_forward"] = "0"
		values["ipv4/conf/default/send_redirects"], values["ipv4/conf/all/send_redirects"] = "0", "0"
	case natHolder:
		values["ipv4/conf/default/rp_filter"] = "0"
		values["ipv4/conf/default/send_redirects"], values["ipv4/conf/all/send_redirects"] = "0", "0"
	}
	if err := s.applySysctl(values); err != nil {
		return err
	}
	if kind == natHolder {
		if err := s.natRules(); err != nil {
			return err
		}
	}
	return s.LinkSetUp(lo)
}

// configure gives an ENI its primary address and routes, as a DHCP client in the holder would.
//
// Root of a machine can make any number of links, addresses and routes in its namespace. So nothing there is listed:
// the link is asked for by its index, and what it is to have is added unless the kernel has it.
func (s *namespace) configure(p port, plugged netlink.Link, mac net.HardwareAddr) error {
	link, err := s.peerOf(plugged, mac)
	if err != nil {
		return err
	}
	if link == nil {
		// The guest has moved it out of sight; as its port is there, so is it.
		return nil
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := s.LinkSetUp(link); err != nil {
			return err
		}
	}
	primary := p.primary()
	addresses := []netip.Prefix{netip.PrefixFrom(primary, p.subnet.cidr.Bits())}
	for _, ip := range p.eni.IPv6IPs {
		if a, err := netip.ParseAddr(ip); err == nil {
			addresses = append(addresses, hostPrefix(a))
		}
	}
	for _, a := range addresses {
		add := &netlink.Addr{IPNet: toIPNet(a)}
		if a.Addr().Is6() {
			add.Flags = unix.IFA_F_NODAD
		} else {
			add.Broadcast = broadcast(p.subnet.cidr)
		}
		if err := s.AddrAdd(link, add); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("give %s the address %s: %w", link.Attrs().Name, a, err)
		}
	}
	serves := p.kind == clusterHolder || p.kind == balancerHolder
	if serves {
		if err := s.bySource(link, p); err != nil {
			return err
		}
	}
	if serves && link.Attrs().Name != "eth0" {
		// The default is that of eth0.
		if there, err := s.hasLink("eth0"); there || err != nil {
			return err
		}
	}
	if err := s.ensureRoute(netlink.Route{LinkIndex: link.Attrs().Index, Dst: toIPNet(hostPrefix(metadataAddress)),
		Scope: netlink.SCOPE_LINK, Protocol: dhcp}); err != nil {
		return err
	}
	err = s.ensureRoute(netlink.Route{LinkIndex: link.Attrs().Index,
		Dst: toIPNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0)), Gw: p.subnet.gateway().AsSlice(),
		Src: primary.AsSlice(), Protocol: dhcp})
	if err != nil || len(p.eni.IPv6IPs) == 0 {
		return err
	}
	return s.ensureRoute(netlink.Route{LinkIndex: link.Attrs().Index,
		Dst: toIPNet(netip.PrefixFrom(netip.IPv6Unspecified(), 0)), Gw: routerLinkLocal.AsSlice(), Protocol: dhcp})
}

// peerOf returns the link at the other end of a router's port, or nil when it is not in this namespace as it was made.
func (s *namespace) peerOf(plugged netlink.Link, mac net.HardwareAddr) (netlink.Link, error) {
	index := plugged.Attrs().ParentIndex
	if index == 0 { // how some kernels say that both ends have the same
		index = plugged.Attrs().Index
	}
	link, err := s.LinkByIndex(index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get link %d of %s: %w", index, s.name, err)
	}
	if link.Type() != "veth" || link.Attrs().HardwareAddr.String() != mac.String() {
		return nil, nil
	}
	return link, nil
}

// hasLink reports whether the namespace has a link of that name.
func (s *namespace) hasLink(name string) (bool, error) {
	_, err := s.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get link %s of %s: %w", name, s.name, err)
	}
	return true, nil
}

// ensureRoute adds a route unless the destination has one: a guest may have its own ideas.
func (s *namespace) ensureRoute(r netlink.Route) error {
	if err := s.RouteAdd(&r); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("route %s in %s: %w", r.Dst, s.name, err)
	}
	return nil
}

// sourceTable returns the route table of what comes from the address of a link.
func sourceTable(link netlink.Link) int { return 0x1000 + link.Attrs().Index }

// bySource sends what comes from an ENI's address out of that ENI. It lists the rules of a cluster's or a load
// balancer's namespace, which are ours alone.
func (s *namespace) bySource(link netlink.Link, p port) error {
	table := sourceTable(link)
	err := s.RouteReplace(&netlink.Route{Table: table, LinkIndex: link.Attrs().Index,
		Dst: toIPNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0)), Gw: p.subnet.gateway().AsSlice(),
		Flags: int(netlink.FLAG_ONLINK), Protocol: dhcp})
	if err != nil {
		return fmt.Errorf("route by source in %s: %w", s.name, err)
	}
	rules, err := retryDump(func() ([]netlink.Rule, error) { return s.RuleList(netlink.FAMILY_V4) })
	if err != nil {
		return err
	}
	for _, r := range rules {
		if src, ok := prefixOf(r.Src); ok && src == hostPrefix(p.primary()) {
			if r.Table == table {
				return nil
			}
			if err := s.RuleDel(&r); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Src, rule.Table = netlink.FAMILY_V4, rulePriority,
		toIPNet(hostPrefix(p.primary())), table
	return s.RuleAdd(rule)
}

// broadcast returns the last address of an IPv4 block.
func broadcast(p netip.Prefix) net.IP {
	a := p.Masked().Addr().As4()
	for i := range a {
		a[i] |= ^net.CIDRMask(p.Bits(), 32)[i]
	}
	return a[:]
}
