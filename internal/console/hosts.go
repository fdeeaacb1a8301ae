package console

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ServedUnder returns a function that reports whether the console may be reached under the host of a request, with or
// without a port: the loopback addresses, localhost, and the hosts of the given addresses, HOST:PORT. Where one of
// these is that of every interface, or anyAddress is set, every IP address is good as well: a page cannot make a
// browser send one unless it came from there, as it can with names.
func ServedUnder(anyAddress bool, addresses ...string) func(host string) bool {
	names := []string{"localhost"}
	for _, address := range addresses {
		host, _ := cutPort(address)
		ip, err := netip.ParseAddr(host)
		switch {
		case host == "" || err == nil && ip.IsUnspecified():
			anyAddress = true
		default:
			names = append(names, host)
		}
	}
	return func(host string) bool {
		host, ok := cutPort(host)
		if !ok {
			return false
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			return ip.IsLoopback() || anyAddress || slices.Contains(names, host)
		}
		return slices.Contains(names, strings.TrimSuffix(host, "."))
	}
}

// IsLoopback reports whether HOST or HOST:PORT is a loopback address, or localhost.
func IsLoopback(address string) bool {
	host, ok := cutPort(address)
	ip, err := netip.ParseAddr(host)
	return ok && (strings.TrimSuffix(host, ".") == "localhost" || err == nil && ip.Unmap().IsLoopback())
}

// cutPort returns the host of HOST or HOST:PORT, in lower case and without brackets; ok is not set for anything else.
func cutPort(address string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
		return strings.ToLower(host), err == nil
	}
	if host, ok = strings.CutPrefix(address, "["); ok {
		host, ok = strings.CutSuffix(host, "]")
	} else {
		ok = !strings.Contains(host, ":")
	}
	return strings.ToLower(host), ok
}
