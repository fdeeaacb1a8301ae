package authenticator

import (
	"net"
	"net/netip"
	"slices"
)

// OwnHosts returns a function that reports whether a host in a presigned URL is the endpoint that listens on the given
// addresses ("127.0.0.1:4566"). The loopback addresses and localhost are one host; an address that listens on every
// interface has any name, so only its port counts.
func OwnHosts(listening ...string) func(host string) bool {
	type address struct{ host, port string }
	var all []address
	for _, l := range listening {
		host, port, err := net.SplitHostPort(l)
		if err != nil {
			host, port = l, ""
		}
		all = append(all, address{host, port})
	}
	return func(h string) bool {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			host, port = h, "" // the default port of its scheme
		}
		return slices.ContainsFunc(all, func(a address) bool {
			samePort := a.port == port || port == "" && (a.port == "80" || a.port == "443")
			return samePort && (a.host == host || unspecified(a.host) || loopback(a.host) && loopback(host))
		})
	}
}

func unspecified(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || err == nil && a.IsUnspecified()
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
