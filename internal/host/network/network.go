// Package network is the data plane of VPCs: it stands in for the network of Amazon's data centres.
//
// A VPC is a Linux network namespace that routes. Everything else is plugged into it:
//
//	host ── cor-<owner> ── internet ──┬── vpc-<id> ──┬── i-<id>         an instance: eth0, eth1, … are its ENIs
//	        the host's        routes  │   the        ├── <cluster ID>   a cluster's leg in its VPC: EKS's ENIs
//	        own namespace     public  │   router     └── nat-<id>       a NAT gateway
//	                          addresses└── vpc-<id> …
//
// The router delivers by mapping, as the real VPC does: each private address (and each delegated prefix) of a plugged
// ENI is a route to its port; nothing is flooded. Route tables are routing tables of the kernel, chosen by the mark that a
// packet gets from the subnet it comes from. Security groups, network ACLs, and the addresses of internet gateways
// are one nftables table per router, whose rules look things up in sets and maps, so that what a packet costs does
// not grow with the number of ENIs. The addresses of the metadata service, of DNS and of the AWS APIs belong to the
// router itself; whoever serves them listens inside its namespace ([Network.Listen]).
//
// It reads the rows of internal/aws/ec2 and ControlPlane, and writes none. [Network.Controllers] has two controllers, level-triggered like
// all: one makes each VPC so, one the internet. What they make carries the owner's mark, in its path or its
// name, so that [Remove] finds it without a daemon or a store.
//
// https://docs.aws.amazon.com/vpc/latest/userguide/how-it-works.html
package network

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options are what a network needs.
type Options struct {
	Store *store.Store
	// Owner marks everything that is made; it is the data directory's, 16 hexadecimal digits.
	Owner string
	// PublicRange is where public addresses are: a /21, as [ChoosePublicRange] chooses it.
	PublicRange netip.Prefix
	Region      string
	Log         *slog.Logger
	// Real says whether an instance has a machine with a network. Without one no port is made for its ENIs, of
	// which there may be thousands. All have when it is nil.
	Real func(record.Instance) bool
}

// Network makes VPCs of the store on this host.
type Network struct {
	o Options
}

// New is the network of an owner. It has no side effects.
func New(o Options) (*Network, error) {
	if len(o.Owner) < 10 {
		return nil, errors.New("network: the owner must have at least 10 characters")
	}
	return &Network{o: o}, nil
}

// Controllers make the VPCs (key: EC2Key of the VPC) and the internet.
func (n *Network) Controllers() []reconcile.Controller { return nil }

// Source tells the instances (EC2Key) for which [Network.Plugged] has changed.
func (n *Network) Source() reconcile.Source { return nil }

// ClusterSource tells the clusters (ClusterKey) for which [Network.Plugged] has changed.
func (n *Network) ClusterSource() reconcile.Source { return nil }

// RouterSource tells the VPCs (EC2Key) whose router's namespace appeared, was made anew, or went: sockets inside
// must be opened again when [Network.Identity] says that it is another.
func (n *Network) RouterSource() reconcile.Source { return nil }

// Plugged reports whether all ENIs attached to the holder (an instance ID or a cluster ID) are in its namespace and routed, with eth0
// configured. It is false for a holder without ENIs.
func (n *Network) Plugged(holder string) (bool, error) { return false, nil }

// Namespace is the path of a namespace: [InternetNamespace], [VPCNamespace], an instance ID or a cluster ID.
func (n *Network) Namespace(name string) string { return NamespacePath(n.o.Owner, name) }

// Identity tells one namespace of that name from a later one; it is fs.ErrNotExist while there is none.
func (n *Network) Identity(name string) (uint64, error) { return Identity(n.Namespace(name)) }

// In runs f on a thread inside the namespace; sockets that f makes stay there. f must not start goroutines that make sockets.
// The error wraps fs.ErrNotExist while there is no such namespace.
func (n *Network) In(name string, f func() error) error { return In(n.Namespace(name), f) }

// Listen is net.Listen inside the namespace.
func (n *Network) Listen(ctx context.Context, name, network, address string) (net.Listener, error) {
	return Listen(ctx, n.Namespace(name), network, address)
}

// ListenPacket is net.ListenPacket inside the namespace.
func (n *Network) ListenPacket(ctx context.Context, name, network, address string) (net.PacketConn, error) {
	return ListenPacket(ctx, n.Namespace(name), network, address)
}

// Dial is net.Dial inside the namespace; address must be numeric.
func (n *Network) Dial(ctx context.Context, name, network, address string) (net.Conn, error) {
	return Dial(ctx, n.Namespace(name), network, address)
}

// Renew gives a holder a new, empty namespace with its ENIs, as a machine that boots finds it. It returns when the old
// one is out of the way; [Network.Plugged] says when the new one is ready. Processes still in the old one lose their network.
func (n *Network) Renew(ctx context.Context, holder string) error { return nil }
