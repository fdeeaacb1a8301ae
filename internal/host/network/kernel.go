//go:build linux

package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespace is an open network namespace and a netlink socket inside.
type namespace struct {
	name string
	file *os.File
	*netlink.Handle
}

// answerTimeout is the time to wait for an answer of the kernel. The kernel answers at once; but root of a machine can
// send messages to sockets in its namespace, which then may lose an answer.
const answerTimeout = 10 * time.Second

// openHandle opens the namespace at path; it must be closed, or it would outlive its removal.
func openHandle(path string) (*namespace, error) {
	file, err := openNamespace(path)
	if err != nil {
		return nil, err
	}
	handle, err := netlink.NewHandleAt(netns.NsHandle(file.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	if err := handle.SetSocketTimeout(answerTimeout); err != nil {
		handle.Close()
		file.Close()
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	return &namespace{name: filepath.Base(path), file: file, Handle: handle}, nil
}

func (s *namespace) close() {
	s.Handle.Close()
	s.file.Close()
}

// netlinkFD returns the namespace for netlink.
func (s *namespace) netlinkFD() netlink.NsFd { return netlink.NsFd(s.file.Fd()) }

// listLinks returns the links of the namespace by name. It is for namespaces of our own only: root of a machine can
// make any number of links in that of the machine.
func (s *namespace) listLinks() (map[string]netlink.Link, error) {
	all, err := retryDump(func() ([]netlink.Link, error) { return s.LinkList() })
	if err != nil {
		return nil, fmt.Errorf("list links of %s: %w", s.name, err)
	}
	byName := map[string]netlink.Link{}
	for _, l := range all {
		byName[l.Attrs().Name] = l
	}
	return byName, nil
}

// retryDump lists until nothing has changed in between.
func retryDump[T any](list func() (T, error)) (all T, err error) {
	for range 10 {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return all, err
}

// applySysctl sets variables below /proc/sys/net of the namespace where they differ. A variable that this kernel
// does not have is an error unless its name begins with "-".
func (s *namespace) applySysctl(values map[string]string) error {
	return In(fmt.Sprintf("/proc/self/fd/%d", s.file.Fd()), func() error { return setSysctl(values) })
}

func setSysctl(values map[string]string) error {
	var errs []error
	for name, value := range values {
		name, optional := strings.CutPrefix(name, "-")
		path := filepath.Join("/proc/sys/net", name)
		old, err := os.ReadFile(path)
		if err == nil && strings.TrimSpace(string(old)) != value {
			err = os.WriteFile(path, []byte(value), 0)
		}
		if err != nil && !(optional && errors.Is(err, os.ErrNotExist)) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// toIPNet returns p for netlink.
func toIPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// prefixOf returns the prefix that netlink says; false for none.
func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	bits, size := n.Mask.Size()
	if size == 32 {
		a = a.Unmap()
	}
	return netip.PrefixFrom(a, bits), ok
}

// hostPrefix returns the prefix of one address.
func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// addressFamily returns the netlink family of an address.
func addressFamily(a netip.Addr) int {
	if a.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// protocol marks the routes that this package makes.
const protocol = 201

// Far ends: the next hop on every link of a router, a permanent neighbor, so that nobody is asked where an address is.
var (
	farEnd     = netip.MustParseAddr("169.254.0.1")
	farEndIPv6 = netip.MustParseAddr("fe80::1")
)

// routerMAC is the hardware address of every router port: it stays when the port is made anew.
var routerMAC = net.HardwareAddr{0x0e, 0xc0, 0x4a, 0xc1, 0xe0, 0x01}

// routerLinkLocal is the IPv6 address that follows from routerMAC.
var routerLinkLocal = netip.MustParseAddr("fe80::cc0:4aff:fec1:e001")

// neighbors makes the far ends of a link.
func (s *namespace) neighbors(link netlink.Link, mac net.HardwareAddr) error {
	for _, a := range []netip.Addr{farEnd, farEndIPv6} {
		err := s.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: addressFamily(a),
			State: netlink.NUD_PERMANENT,
			IP:    a.AsSlice(), HardwareAddr: mac})
		if err != nil {
			return fmt.Errorf("set the neighbor of %s: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

// localAddresses makes exactly these addresses the namespace's own, on its loopback.
func (s *namespace) localAddresses(wanted []netip.Addr) error {
	lo, err := s.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := s.LinkSetUp(lo); err != nil {
		return err
	}
	addrs, err := retryDump(func() ([]netlink.Addr, error) { return s.AddrList(lo, netlink.FAMILY_ALL) })
	if err != nil {
		return err
	}
	has := map[netip.Addr]bool{}
	for _, a := range addrs {
		p, ok := prefixOf(a.IPNet)
		if !ok || p.Addr().IsLoopback() {
			continue
		}
		has[p.Addr()] = true
	}
	keep := map[netip.Addr]bool{}
	for _, a := range wanted {
		keep[a] = true
		if has[a] {
			continue
		}
		flags := 0
		if a.Is6() {
			flags = unix.IFA_F_NODAD
		}
		if err := s.AddrReplace(lo, &netlink.Addr{IPNet: toIPNet(hostPrefix(a)), Flags: flags}); err != nil {
			return fmt.Errorf("give %s the address %s: %w", s.name, a, err)
		}
	}
	for a := range has {
		if !keep[a] {
			if err := s.AddrDel(lo, &netlink.Addr{IPNet: toIPNet(hostPrefix(a))}); err != nil &&
				!errors.Is(err, unix.EADDRNOTAVAIL) {
				return fmt.Errorf("take the address %s from %s: %w", a, s.name, err)
			}
		}
	}
	return nil
}

// kernelRoute is a route as it is compared. One destination in one table has one.
type kernelRoute struct {
	kind    int
	link    int
	gateway netip.Addr
	source  netip.Addr
}

type destination struct {
	table int
	to    netip.Prefix
}

// setRoutes makes exactly these routes, among those with our protocol that mine (all when nil) says are the caller's.
func (s *namespace) setRoutes(wanted map[destination]kernelRoute, mine func(netlink.Route) bool) error {
	for _, f := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		has, err := retryDump(func() ([]netlink.Route, error) {
			return s.RouteListFiltered(f, &netlink.Route{Table: unix.RT_TABLE_UNSPEC, Protocol: protocol},
				netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
		})
		if err != nil {
			return fmt.Errorf("list routes of %s: %w", s.name, err)
		}
		fine := map[destination]bool{}
		var stale []netlink.Route
		for _, r := range has {
			if r.Protocol != protocol || mine != nil && !mine(r) {
				continue
			}
			to, ok := prefixOf(r.Dst)
			if !ok {
				to = netip.PrefixFrom(map[int]netip.Addr{netlink.FAMILY_V4: netip.IPv4Unspecified(),
					netlink.FAMILY_V6: netip.IPv6Unspecified()}[f], 0)
			}
			at := destination{r.Table, to}
			want, ok := wanted[at]
			if !ok {
				stale = append(stale, r)
				continue
			}
			gateway, _ := netip.AddrFromSlice(r.Gw)
			source, _ := netip.AddrFromSlice(r.Src)
			is := kernelRoute{kind: r.Type, link: r.LinkIndex, gateway: gateway.Unmap(), source: source.Unmap()}
			if is.kind != unix.RTN_UNICAST && is.kind != unix.RTN_LOCAL {
				is.link = 0 // IPv6 says lo
			}
			fine[at] = is == want
		}
		for at, want := range wanted {
			if addressFamily(at.to.Addr()) != f || fine[at] {
				continue
			}
			r := netlink.Route{Table: at.table, Dst: toIPNet(at.to), Type: want.kind, LinkIndex: want.link,
				Protocol: protocol, Family: f}
			if want.gateway.IsValid() {
				r.Gw, r.Flags = want.gateway.AsSlice(), int(netlink.FLAG_ONLINK)
			}
			if want.source.IsValid() {
				r.Src = want.source.AsSlice()
			}
			switch {
			case want.kind == unix.RTN_LOCAL:
				r.Scope = netlink.SCOPE_HOST
			case want.kind == unix.RTN_UNICAST && !want.gateway.IsValid():
				r.Scope = netlink.SCOPE_LINK
			}
			if _, there := fine[at]; there && f == netlink.FAMILY_V6 {
				// IPv6 would put a route of another kind beside the old one.
				if err := s.RouteDel(&netlink.Route{Table: at.table, Dst: toIPNet(at.to), Protocol: protocol,
					Family: f}); err != nil && !errors.Is(err, unix.ESRCH) {
					return fmt.Errorf("replace the route %s in table %d of %s: %w", at.to, at.table, s.name, err)
				}
			}
			if err := s.RouteReplace(&r); err != nil {
				return fmt.Errorf("route %s in table %d of %s: %w", at.to, at.table, s.name, err)
			}
		}
		for _, r := range stale {
			if err := s.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("remove the route %s from table %d of %s: %w", r.Dst, r.Table, s.name, err)
			}
		}
	}
	return nil
}

// rulePriority is the priority of the rules that send marked packets to their route table: after the namespace's own
// addresses, before the main table.
const rulePriority = 1000

// setRules sends each mark to the table of the same number, and to no other.
func (s *namespace) setRules(tables map[uint32]bool) error {
	for _, f := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		has, err := retryDump(func() ([]netlink.Rule, error) { return s.RuleList(f) })
		if err != nil {
			return fmt.Errorf("list routing rules of %s: %w", s.name, err)
		}
		there := map[uint32]bool{}
		for _, r := range has {
			if r.Priority != rulePriority {
				continue
			}
			if tables[r.Mark] && r.Table == int(r.Mark) && !there[r.Mark] {
				there[r.Mark] = true
				continue
			}
			r.Family = f
			if err := s.RuleDel(&r); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("remove a routing rule from %s: %w", s.name, err)
			}
		}
		for table := range tables {
			if there[table] {
				continue
			}
			r := netlink.NewRule()
			r.Family, r.Priority, r.Mark, r.Table = f, rulePriority, table, int(table)
			if err := s.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("add a routing rule to %s: %w", s.name, err)
			}
		}
	}
	return nil
}
