package value

import (
	"encoding/binary"
	"net/netip"
)

// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html#CWL_QuerySyntax-IPaddress-functions
//
// What isn't an address is in no range and no subnet, and so is everything if the subnet isn't one. An IPv4 address
// inside an IPv6 one (::ffff:192.0.2.1) is an IPv6 address; only the last three functions look at what is in it.
// Addresses with a zone are none.
var addresses = []Function{
	{Name: "isValidIp", Min: 1, Max: 1, Call: address(netip.Addr.IsValid)},
	{Name: "isValidIpV4", Min: 1, Max: 1, Call: address(netip.Addr.Is4)},
	{Name: "isValidIpV6", Min: 1, Max: 1, Call: address(netip.Addr.Is6)},
	{Name: "isIpInSubnet", Min: 2, Max: 2, Call: subnetFunction(netip.Addr.IsValid)},
	{Name: "isIpv4InSubnet", Min: 2, Max: 2, Call: subnetFunction(netip.Addr.Is4)},
	{Name: "isIpv6InSubnet", Min: 2, Max: 2, Call: subnetFunction(netip.Addr.Is6)},
	{Name: "ipv4ToNumber", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		ip := parseAddress(a[0])
		if !ip.Is4() {
			return Value{}
		}
		b := ip.As4()
		return Int(int64(binary.BigEndian.Uint32(b[:])))
	}},
	{Name: "isPrivateIP", Min: 1, Max: 1,
		Call: address(func(ip netip.Addr) bool { return containsAddress(ip, private) })},
	{Name: "isPublicIP", Min: 1, Max: 1, Call: address(func(ip netip.Addr) bool {
		return ip.IsValid() && !containsAddress(ip, private) && !containsAddress(ip, reserved)
	})},
	{Name: "isReservedIP", Min: 1, Max: 1,
		Call: address(func(ip netip.Addr) bool { return containsAddress(ip, reserved) })},
}

func parseAddress(v Value) netip.Addr {
	if v.kind != StringKind {
		return netip.Addr{}
	}
	ip, err := netip.ParseAddr(v.text)
	if err != nil || ip.Zone() != "" {
		return netip.Addr{}
	}
	return ip
}

func address(is func(netip.Addr) bool) func(*Env, []Value) Value {
	return func(_ *Env, a []Value) Value {
		return Bool(is(parseAddress(a[0])))
	}
}

// subnetFunction reports whether the first argument lies in the second, for the addresses that fit takes.
func subnetFunction(fit func(netip.Addr) bool) func(*Env, []Value) Value {
	return func(_ *Env, a []Value) Value {
		ip := parseAddress(a[0])
		if !fit(ip) || a[1].kind != StringKind {
			return Bool(false)
		}
		net, err := netip.ParsePrefix(a[1].text)
		return Bool(err == nil && net.Contains(ip))
	}
}

func containsAddress(ip netip.Addr, nets []netip.Prefix) bool {
	ip = ip.Unmap()
	for _, n := range nets {
		if n.Contains(ip) {
			return true
		}
	}
	return false
}

func prefixes(all ...string) (nets []netip.Prefix) {
	for _, s := range all {
		nets = append(nets, netip.MustParsePrefix(s))
	}
	return
}

var (
	// private is RFC 1918, as AWS says.
	private = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")

	// reserved lists the blocks that IANA's special-purpose registries call not globally reachable, beside
	// RFC 1918, and multicast: https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-
	reserved = prefixes("0.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "2001:2::/48", "2001:db8::/32", "3fff::/20", "5f00::/16",
		"fc00::/7", "fe80::/10", "ff00::/8")
)
