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

// holderSysctl is what a namespace starts with. The kernel would let it inherit the host's settings.
func (s *namespace) holderSysctl(kind holderKind) error {
	lo, err := s.LinkByName("lo")
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
func (s *namespace) configure(p port, mac net.HardwareAddr) error {
	links, err := s.listLinks()
	if err != nil {
		return err
	}
	var link netlink.Link
	for _, l := range links {
		if l.Type() == "veth" && l.Attrs().HardwareAddr.String() == mac.String() {
			link = l
		}
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
	has, err := retryDump(func() ([]netlink.Addr, error) { return s.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return err
	}
	there := map[netip.Addr]bool{}
	for _, a := range has {
		if p, ok := prefixOf(a.IPNet); ok {
			there[p.Addr()] = true
		}
	}
	for _, a := range addresses {
		if there[a.Addr()] {
			continue
		}
		add := &netlink.Addr{IPNet: toIPNet(a)}
		if a.Addr().Is6() {
			add.Flags = unix.IFA_F_NODAD
		} else {
			add.Broadcast = broadcast(p.subnet.cidr)
		}
		if err := s.AddrReplace(link, add); err != nil {
			return fmt.Errorf("give %s the address %s: %w", link.Attrs().Name, a, err)
		}
	}
	if p.kind == clusterHolder {
		if err := s.bySource(link, p); err != nil {
			return err
		}
	}
	if p.kind == clusterHolder && link.Attrs().Name != "eth0" && links["eth0"] != nil {
		return nil // the default is that of eth0
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

// ensureRoute adds a route unless the destination has one: a guest may have its own ideas.
func (s *namespace) ensureRoute(r netlink.Route) error {
	if err := s.RouteAdd(&r); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("route %s in %s: %w", r.Dst, s.name, err)
	}
	return nil
}

// bySource sends what comes from an ENI's address out of that ENI.
func (s *namespace) bySource(link netlink.Link, p port) error {
	table := 0x1000 + link.Attrs().Index
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

// broadcast is the last address of an IPv4 block.
func broadcast(p netip.Prefix) net.IP {
	a := p.Masked().Addr().As4()
	for i := range a {
		a[i] |= ^net.CIDRMask(p.Bits(), 32)[i]
	}
	return a[:]
}
