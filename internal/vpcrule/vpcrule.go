// Package vpcrule interprets the records of a VPC: what the rules of security groups and network ACLs match, which
// route of a table applies to which addresses, and which public address stands for which private one.
//
// internal/host/network makes kernel rules of the answers, and internal/reachability follows a packet through them, so
// that both decide the same. It is pure: it reads and writes no store.
package vpcrule

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strconv"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// IP protocols whose ports or types rules can name.
const (
	ICMP   byte = 1
	TCP    byte = 6
	UDP    byte = 17
	ICMPv6 byte = 58
)

// Traffic is what a rule matches of a packet, beside the addresses.
type Traffic struct {
	All      bool // every protocol
	Protocol byte // otherwise
	// Ports are the first and the last port of TCP or UDP; nil for all.
	Ports *Ports
	// ICMP are the type and the code of ICMP, -1 for all; nil for all types.
	ICMP *ICMPType
}

// Ports is a range of ports.
type Ports struct{ From, To int32 }

// ICMPType is a type and a code of ICMP; -1 stands for all.
type ICMPType struct{ Type, Code int32 }

// Matches reports whether a rule matches a packet of TCP or UDP to a port.
func (t Traffic) Matches(protocol byte, port uint16) bool {
	if t.All {
		return true
	}
	return t.Protocol == protocol && (t.Ports == nil || t.Ports.From <= int32(port) && int32(port) <= t.Ports.To)
}

// GroupTraffic returns what a rule of a security group matches.
func GroupTraffic(rule record.SecurityGroupRule) Traffic {
	var t Traffic
	t.Protocol, t.All = protocolNumber(rule.Protocol)
	switch {
	case t.All:
	case t.Protocol == TCP || t.Protocol == UDP:
		if rule.FromPort >= 0 {
			t.Ports = &Ports{rule.FromPort, rule.ToPort}
		}
	case t.Protocol == ICMP || t.Protocol == ICMPv6:
		t.ICMP = &ICMPType{rule.FromPort, rule.ToPort}
	}
	return t
}

// GroupBlock returns the block of addresses that a rule of a security group names; not valid where it names a group or
// a prefix list.
func GroupBlock(rule record.SecurityGroupRule) netip.Prefix {
	block, _ := netip.ParsePrefix(rule.CIDRIPv4 + rule.CIDRIPv6)
	return block
}

// ACLRule is a rule of a network ACL.
type ACLRule struct {
	record.NetworkACLEntry
	Block   netip.Prefix
	Traffic Traffic
	Allow   bool
}

// ACLRules returns the rules of a network ACL in one direction, in the order in which they are asked: the first that
// matches decides, and what none matches is denied.
func ACLRules(acl record.NetworkACL, egress bool) []ACLRule {
	var rules []ACLRule
	for _, e := range acl.Entries {
		block, err := netip.ParsePrefix(e.CIDR + e.IPv6CIDR)
		if e.Egress != egress || err != nil {
			continue
		}
		r := ACLRule{NetworkACLEntry: e, Block: block, Allow: e.Action == ec2types.RuleActionAllow}
		r.Traffic.Protocol, r.Traffic.All = protocolNumber(e.Protocol)
		switch {
		case r.Traffic.All:
		case r.Traffic.Protocol == TCP || r.Traffic.Protocol == UDP:
			if e.Ports != nil && e.Ports.From != nil && e.Ports.To != nil {
				r.Traffic.Ports = &Ports{*e.Ports.From, *e.Ports.To}
			}
		case r.Traffic.Protocol == ICMP || r.Traffic.Protocol == ICMPv6:
			if e.ICMP != nil && e.ICMP.Type != nil {
				r.Traffic.ICMP = &ICMPType{*e.ICMP.Type, -1}
				if e.ICMP.Code != nil {
					r.Traffic.ICMP.Code = *e.ICMP.Code
				}
			}
		}
		rules = append(rules, r)
	}
	slices.SortStableFunc(rules, func(a, b ACLRule) int { return cmp.Compare(a.Number, b.Number) })
	return rules
}

// protocolNumber returns the IP protocol of a rule; all for "-1".
func protocolNumber(p string) (number byte, all bool) {
	switch p {
	case "-1":
		return 0, true
	case "tcp":
		return TCP, false
	case "udp":
		return UDP, false
	case "icmp":
		return ICMP, false
	case "icmpv6":
		return ICMPv6, false
	}
	n, err := strconv.ParseUint(p, 10, 8)
	if err != nil {
		return 255, false // reserved: matches nothing
	}
	return byte(n), false
}

// Local is the target of routes to the VPC's own addresses.
const Local = "local"

// Route is a route to one block of addresses.
type Route struct {
	record.Route
	To netip.Prefix
}

// Routes returns the routes of a table, one for each block: of the VPC's own blocks the local ones, unless the table
// points them elsewhere. The longest block that contains an address decides.
func Routes(vpc record.VPC, t record.RouteTable, lists map[string][]netip.Prefix) (routes []Route) {
	at := map[netip.Prefix]int{}
	add := func(to netip.Prefix, r record.Route) {
		if i, there := at[to]; there {
			routes[i] = Route{r, to}
			return
		}
		at[to] = len(routes)
		routes = append(routes, Route{r, to})
	}
	for _, own := range Blocks(vpc) {
		add(own, record.Route{Destination: own.String(), Target: Local, Origin: ec2types.RouteOriginCreateRouteTable})
	}
	for _, r := range t.Routes {
		to, err := netip.ParsePrefix(r.Destination)
		blocks := []netip.Prefix{to.Masked()}
		if err != nil {
			blocks = lists[r.Destination]
		}
		for _, to := range blocks {
			if to.Addr().Is4In6() {
				continue // netlink takes it for a block of IPv4, and the kernel refuses that
			}
			add(to, r)
		}
	}
	return routes
}

// Lookup returns the route that applies to an address; false without one.
func Lookup(routes []Route, to netip.Addr) (found Route, ok bool) {
	for _, r := range routes {
		if r.To.Contains(to) && (!ok || r.To.Bits() > found.To.Bits()) {
			found, ok = r, true
		}
	}
	return found, ok
}

// Blocks returns the blocks of a VPC, of both families.
func Blocks(vpc record.VPC) (blocks []netip.Prefix) {
	for _, a := range slices.Concat(vpc.CIDRs, vpc.IPv6CIDRs) {
		if p, err := netip.ParsePrefix(a.CIDR); err == nil {
			blocks = append(blocks, p.Masked())
		}
	}
	return blocks
}

// Addresses returns the addresses and the prefixes of a network interface: what is delivered to it.
func Addresses(eni record.NetworkInterface) (all []netip.Prefix) {
	for _, ip := range slices.Concat(eni.PrivateIPs, eni.IPv6IPs) {
		if a, err := netip.ParseAddr(ip); err == nil {
			all = append(all, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for _, prefix := range slices.Concat(eni.IPv4Prefixes, eni.IPv6Prefixes) {
		if b, err := netip.ParsePrefix(prefix); err == nil {
			all = append(all, b.Masked())
		}
	}
	return all
}

// Primary returns the primary address of a network interface.
func Primary(eni record.NetworkInterface) netip.Addr {
	if len(eni.PrivateIPs) == 0 {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(eni.PrivateIPs[0])
	return a
}

// PublicAddresses returns the public addresses of network interfaces by private one: those that are lent, and the
// elastic ones in their place.
func PublicAddresses(enis []record.NetworkInterface, elastic []record.Address) (map[netip.Addr]netip.Addr, error) {
	public, known := map[netip.Addr]netip.Addr{}, map[string]bool{}
	for _, eni := range enis {
		known[eni.ID] = true
		if lent, err := netip.ParseAddr(eni.PublicIP); err == nil && Primary(eni).IsValid() {
			public[Primary(eni)] = lent
		}
	}
	for _, a := range elastic {
		if !known[a.NetworkInterfaceID] {
			continue
		}
		private, err1 := netip.ParseAddr(a.PrivateIPAddress)
		own, err2 := netip.ParseAddr(a.PublicIP)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("elastic address %s: %w", a.ID, err)
		}
		public[private] = own
	}
	return public, nil
}

// PrefixLists returns the blocks of the prefix lists that AWS manages in a region, by ID. They lie in the range for
// benchmarks, beside our public addresses: the real ones are elsewhere in every region and change.
func PrefixLists(region string) map[string][]netip.Prefix {
	lists := map[string][]netip.Prefix{}
	for service, cidr := range map[string]string{"s3": "198.19.1.0/24", "dynamodb": "198.19.2.0/24"} {
		lists[PrefixListID(PrefixListName(region, service))] = []netip.Prefix{netip.MustParsePrefix(cidr)}
	}
	return lists
}

// PrefixListName returns the name of the prefix list of a service.
func PrefixListName(region, service string) string { return "com.amazonaws." + region + "." + service }

// PrefixListID returns the ID of the prefix list with a name.
func PrefixListID(name string) string {
	digest := fnv.New32a()
	digest.Write([]byte(name))
	return fmt.Sprintf("pl-%08x", digest.Sum32())
}
