// Package outbound makes the connections of the daemon to addresses that users chose: the OpenID Connect providers of
// an account, the registries that a pod's image names, the webhooks of a cluster whose machines are simulated.
//
// The daemon runs in the network of its host. Whoever may say where it connects to would otherwise reach, and learn
// about, what listens on the host's loopback and in its private networks. A [Policy] therefore admits addresses of the
// public internet alone, beside blocks that the operator named. It is asked about the address that a name resolved to,
// when the connection is made, so that no second answer of a DNS server leads elsewhere.
//
// Everything else that connects to something is in a list of package importrules, with the reason why it may.
package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Policy selects the addresses that may be connected to. The zero value admits the public internet.
type Policy struct {
	// Allow are blocks that the operator of the daemon opened to its users: those of a provider, a registry or a
	// webhook in the operator's own network. Plain HTTP is for addresses in them alone.
	Allow []netip.Prefix
	// Deny are further blocks that belong to the daemon, whatever they are elsewhere.
	Deny []netip.Prefix
}

// RefusedError reports that an address is not one of the public internet. Its text does not give the address, because
// users see it: what a name resolves to on this host is none of their business.
type RefusedError struct{ Address netip.Addr }

func (e *RefusedError) Error() string {
	return "it is not an address of the public internet"
}

// special are the blocks that are not the public internet, beside those that package netip knows.
// https://www.iana.org/assignments/iana-ipv4-special-registry,
// https://www.iana.org/assignments/iana-ipv6-special-registry
var special = prefixes(
	"0.0.0.0/8",        // this network
	"100.64.0.0/10",    // carrier-grade NAT
	"192.0.0.0/24",     // IETF protocol assignments
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // 6to4 relays
	"168.63.129.16/32", // Azure's WireServer, which has the host's configuration and certificates
	"198.18.0.0/15",    // benchmarking: the daemon's own public addresses are here
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"240.0.0.0/4",      // reserved, and the broadcast address
	"2001::/23",        // IETF protocol assignments, Teredo among them
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4
	"3fff::/20",        // documentation
)

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")     // all public addresses of IPv6
	translated    = netip.MustParsePrefix("64:ff9b::/96") // IPv4 behind NAT64
)

func prefixes(all ...string) (out []netip.Prefix) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func contains(blocks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(blocks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// unmapAddress returns the address that a connection to a in fact goes to: IPv4 where IPv6 only wraps it.
func unmapAddress(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if translated.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// Public reports whether an address is one of the public internet, whatever host asks.
func Public(a netip.Addr) bool {
	a = unmapAddress(a)
	return a.IsValid() && a.IsGlobalUnicast() && !a.IsPrivate() && !contains(special, a) &&
		(a.Is4() || globalUnicast.Contains(a))
}

// isAllowed reports whether the operator opened an address to users.
func (p Policy) isAllowed(a netip.Addr) bool { return contains(p.Allow, unmapAddress(a)) }

// Check refuses an address, with a *[RefusedError], unless it is public and no address of this host, or the operator
// allowed it.
func (p Policy) Check(a netip.Addr) error {
	if p.isAllowed(a) {
		return nil
	}
	if !Public(a) || contains(p.Deny, unmapAddress(a)) {
		return &RefusedError{a}
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("addresses of this host: %w", err)
	}
	if slices.ContainsFunc(own, func(o net.Addr) bool {
		return contains([]netip.Prefix{hostPrefix(o)},
			unmapAddress(a))
	}) {
		return &RefusedError{a}
	}
	return nil
}

// hostPrefix returns the block of one address that an interface has; it contains nothing where there is no address.
func hostPrefix(o net.Addr) netip.Prefix {
	n, ok := o.(*net.IPNet)
	if !ok {
		return netip.Prefix{}
	}
	a, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen())
}

// Dialer returns a dialer that connects to what the policy admits. It resolves names itself and is asked again for
// every address.
func (p Policy) Dialer() *net.Dialer { return newDialer(p.Check) }

// newDialer returns a dialer that connects to the addresses that check admits.
func newDialer(check func(netip.Addr) error) *net.Dialer {
	d := &net.Dialer{Timeout: connectTimeout, KeepAlive: keepAlive}
	d.Control = func(network, address string, _ syscall.RawConn) error {
		if network != "tcp4" && network != "tcp6" {
			return fmt.Errorf("connect by %s: only TCP is for users", network)
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return check(at.Addr())
	}
	return d
}

// ParsePrefixes reads the blocks of a flag: CIDR blocks or addresses, separated by commas.
func ParsePrefixes(text string) (all []netip.Prefix, err error) {
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		p, err := netip.ParsePrefix(one)
		if err != nil {
			a, single := netip.ParseAddr(one)
			if single != nil || a.Zone() != "" {
				return nil, fmt.Errorf("%q is neither a CIDR block, such as 10.0.0.0/8, nor an address", one)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Addr().Is4In6() {
			return nil, fmt.Errorf("%q: write IPv4 addresses as such", one)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// Reason returns the text of a connection error for users: the reason, without information about this host's network.
// An error of the network comes without addresses and DNS servers.
func Reason(err error) string {
	var refused *RefusedError
	var name *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &name):
		return (&net.DNSError{Err: name.Err, Name: name.Name}).Error()
	case errors.As(err, &op) && op.Err != nil:
		if op.Timeout() {
			return op.Op + ": timed out"
		}
		var number syscall.Errno
		if errors.As(op.Err, &number) {
			return op.Op + ": " + number.Error()
		}
		return op.Op + ": failed"
	}
	return err.Error()
}
