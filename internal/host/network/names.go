package network

import (
	"net/netip"
	"path/filepath"

	"github.com/coracle-eks/coracle/internal/host/rundir"
)

// InternetNamespace is the name of the namespace between the host and the VPCs.
const InternetNamespace = "internet"

// MTU is that of every link inside a VPC, in bytes.
const MTU = 9001

// runDirectory returns the directory of the namespaces of an owner, and of what is known of them besides.
func runDirectory(owner string) string { return rundir.Path(owner) }

// NamespacePath returns the file on which a namespace of an owner is mounted.
func NamespacePath(owner, name string) string {
	return filepath.Join(runDirectory(owner), "netns", name)
}

// VPCNamespace returns the name of a VPC's router.
func VPCNamespace(vpcID string) string { return vpcID }

// HostLink returns the name of the owner's link in the host's namespace.
func HostLink(owner string) string { return "cor-" + owner[:10] }

// nthAddress returns the n-th address of a range.
func nthAddress(r netip.Prefix, n int) netip.Addr {
	a := r.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a
}

// HostAddress returns the host's own address in a public range: what the internet sees of it.
func HostAddress(r netip.Prefix) netip.Addr { return nthAddress(r, 1) }

// GatewayAddress returns the address of the internet's namespace towards the host.
func GatewayAddress(r netip.Prefix) netip.Addr { return nthAddress(r, 2) }

// APIAddress returns the address of the AWS APIs: local to every router, and to the internet's namespace for the host.
func APIAddress(r netip.Prefix) netip.Addr { return nthAddress(r, 3) }
