// Package hostsfile maintains the names of cluster endpoints, of the issuers of clusters, and of load balancers, in the
// host's /etc/hosts.
//
// Each daemon has a block of its own there, between two lines that carry its owner's mark, and touches nothing else.
// The file is changed in place, because in a container it is a mount that cannot be replaced, and under a lock that all
// daemons of the host share.
package hostsfile

import (
	"context"
	"net/netip"
)

// File is the file with the names of hosts.
const File = "/etc/hosts"

// Entry is one line: an address and its name.
type Entry struct {
	Address netip.Addr
	Name    string
}

// Set makes the entries the owner's only ones. None removes the owner's block.
func Set(ctx context.Context, owner string, entries []Entry) error {
	return setEntries(ctx, File, owner, entries)
}

// Remove takes the owner's block away and says whether there was one. It needs no daemon.
func Remove(ctx context.Context, owner string) (bool, error) { return removeBlock(ctx, File, owner) }

// Addresses returns the addresses that the daemons of this host have given a name, in the order in which programs of
// the host find them.
func Addresses(name string) ([]netip.Addr, error) { return findAddresses(File, name) }
