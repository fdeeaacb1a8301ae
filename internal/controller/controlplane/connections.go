package controlplane

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
)

// Users of a cluster decide what its API server, and so each of its clients, is answered, redirects among it. Bundles
// do not follow them to other servers (kubernetes.HostPatches); and their processes connect to the ports that they need
// alone (process.Spec.ConnectPorts).

// apiServerPorts returns the ports that an API server connects to: its own, and those of etcd. All else it reaches
// through the sockets of its egress selector; without one, it returns none, for any.
func (c *Controller) apiServerPorts(p plane, own int) []int {
	if socket, _ := c.egressSockets(p.cluster.ID); socket == "" {
		return nil
	}
	return portsOf(own, c.o.Etcd.Endpoints...)
}

// portsOf returns a port of 127.0.0.1 and those of URLs, sorted; none, for any, if a URL names no port.
func portsOf(local int, urls ...string) []int {
	ports := []int{local}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return nil
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			return nil
		}
		ports = append(ports, port)
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			ports = append(ports, 53) // long answers of resolvers come by TCP
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}
