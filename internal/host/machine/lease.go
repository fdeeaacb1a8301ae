//go:build linux

package machine

import (
	"encoding/json"
	"net/netip"
	"strings"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

type interfaceRow = store.Row[record.NetworkInterface]

// leaseOf returns the lease that EC2's DHCP server gives for a set of options.
// https://docs.aws.amazon.com/vpc/latest/userguide/DHCPOptionSet.html
func leaseOf(vpc record.VPC, options map[string][]string) boot.Lease {
	var l boot.Lease
	for _, server := range options["domain-name-servers"] {
		if server == "AmazonProvidedDNS" {
			if len(vpc.CIDRs) == 0 {
				continue
			}
			prefix, err := netip.ParsePrefix(vpc.CIDRs[0].CIDR)
			if err != nil {
				continue
			}
			server = prefix.Masked().Addr().Next().Next().String()
		}
		l.Nameservers = append(l.Nameservers, server)
	}
	l.DomainName = strings.Join(options["domain-name"], " ")
	l.NTPServers = options["ntp-servers"]
	return l
}

// writeLease replaces the file when it changes. No machine can write in its directory: machines get copies.
func writeLease(name string, l boot.Lease) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.EnsureFile(name, data, 0o600)
}
