package endpoint

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Source is where a connection comes from that was made to the AWS APIs inside a VPC.
type Source struct {
	VPCID     string
	PrivateIP netip.Addr // in the VPC
	// EndpointID is the interface endpoint whose address it was made to; empty for the address of the APIs.
	EndpointID string
	// PublicIP is the address that its packets would have on the internet: the public address of the network interface,
	// or that of the NAT gateway. It is invalid for a connection to an endpoint, and without a way to the internet.
	PublicIP netip.Addr
}

// vpcConn is a connection whose local address knows its source: the HTTP server puts that address into the context of
// requests, whatever it wraps the connection in.
type vpcConn struct {
	net.Conn
	local vpcAddr
}

func (c vpcConn) LocalAddr() net.Addr { return c.local }

// vpcAddr is the local address of a connection in a VPC.
type vpcAddr struct {
	net.Addr
	source *connSource
}

// SourceOf returns the source of a connection by its local address, and whether it was made inside a VPC. It is the
// source at the time of the call: while a connection lives, its public address can become somebody else's.
func SourceOf(ctx context.Context, local net.Addr) (source Source, inVPC bool, err error) {
	a, ok := local.(vpcAddr)
	if !ok {
		return Source{}, false, nil
	}
	source, err = a.source.find(ctx)
	return source, true, err
}

// identify returns the connection with its source, which is read when it is asked for.
func (a *APIs) identify(vpcKey string, c net.Conn) net.Conn {
	local, remote := c.LocalAddr(), addressOf(c.RemoteAddr())
	return vpcConn{c, vpcAddr{local, &connSource{version: a.o.Store.Version,
		read: func(ctx context.Context) (Source, error) {
			return a.rows.sourceOf(ctx, vpcKey, addressOf(local), remote)
		}}}}
}

// connSource is the source of a connection.
type connSource struct {
	read    func(context.Context) (Source, error)
	version func() uint64 // of the records

	mu     sync.Mutex
	known  bool
	asOf   uint64 // the version that source was read at
	source Source
}

// mostRead is how many bytes of records are read for the source of a request, which nobody has signed: it is more than
// what a VPC may have of subnets, interface endpoints, routes and elastic addresses.
const mostRead = 4 << 20

// find returns the source by the records as they are. It reads them when one has changed since it has: clients send
// many requests by a connection. What it could not read it tries again.
func (c *connSource) find(ctx context.Context) (Source, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	version := c.version() // before the records, which may change while they are read
	if c.known && c.asOf == version {
		return c.source, nil
	}
	source, err := c.read(store.Bounded(ctx, mostRead))
	c.known, c.asOf, c.source = err == nil, version, source
	return source, err
}

func addressOf(a net.Addr) netip.Addr {
	at, _ := netip.ParseAddrPort(a.String())
	return at.Addr().Unmap()
}

func (t tables) sourceOf(ctx context.Context, vpcKey string, local, remote netip.Addr) (Source, error) {
	row, err := t.vpcs.Get(ctx, vpcKey)
	if err != nil {
		return Source{}, err
	}
	vpc := row.Value
	source := Source{VPCID: vpc.ID, PrivateIP: remote}
	subnets, err := t.subnetsByVPC.List(ctx, vpc.Key())
	if err != nil {
		return Source{}, err
	}
	if source.EndpointID, err = t.endpointAt(ctx, vpc, subnets, local); err != nil || source.EndpointID != "" {
		return source, err
	}
	source.PublicIP, err = t.publicAddressOf(ctx, vpc, subnets, remote)
	return source, err
}

// endpointAt returns the interface endpoint of a VPC that has an address; empty if none has.
func (t tables) endpointAt(ctx context.Context, vpc record.VPC, subnets []store.Row[record.Subnet], address netip.Addr,
) (string, error) {
	subnet, ok := subnetOf(subnets, address)
	if !ok { // the address of the APIs
		return "", nil
	}
	eni, err := t.interfaceAt(ctx, subnet, address)
	if err != nil || eni == "" {
		return "", err
	}
	endpoints, err := t.endpointsOf.List(ctx, vpc.Key())
	if err != nil {
		return "", err
	}
	for _, e := range endpoints {
		if slices.Contains(e.Value.NetworkInterfaceIDs, eni) {
			return e.Value.ID, nil
		}
	}
	return "", nil
}

// interfaceAt returns the network interface that has an address in a subnet, or in a prefix; empty if none has.
func (t tables) interfaceAt(ctx context.Context, subnet record.Subnet, address netip.Addr) (string, error) {
	bits := 28
	if address.Is6() {
		bits = 80
	}
	block := netip.PrefixFrom(address, bits).Masked().Addr().String()
	row, err := t.blocks.Get(ctx, record.AddressBlockKey(subnet.Account, subnet.Region, subnet.ID, block))
	if err != nil {
		return "", ignoreMissing(err)
	}
	return cmp.Or(row.Value.PrefixOf, row.Value.Addresses[address.String()]), nil
}

// publicAddressOf returns the address that packets from an address of a VPC have on the internet; invalid if they do
// not get there.
func (t tables) publicAddressOf(ctx context.Context, vpc record.VPC, subnets []store.Row[record.Subnet],
	private netip.Addr) (netip.Addr, error) {
	none := netip.Addr{}
	subnet, ok := subnetOf(subnets, private)
	if !ok {
		return none, nil
	}
	table, err := t.routeTables.Get(ctx, record.EC2Key(vpc.Account, vpc.Region,
		cmp.Or(subnet.RouteTableID, vpc.MainRouteTableID)))
	if err != nil {
		return none, ignoreMissing(err)
	}
	destination := "0.0.0.0/0"
	if private.Is6() {
		destination = "::/0"
	}
	i := slices.IndexFunc(table.Value.Routes, func(r record.Route) bool { return r.Destination == destination })
	if i < 0 {
		return none, nil
	}
	target := table.Value.Routes[i].Target
	switch {
	case strings.HasPrefix(target, "nat-") && private.Is4():
		gateway, err := t.natGateways.Get(ctx, record.EC2Key(vpc.Account, vpc.Region, target))
		if err != nil {
			return none, ignoreMissing(err)
		}
		return t.lentAddress(ctx, gateway.Value.EC2Resource, gateway.Value.NetworkInterfaceID, none)
	case private.Is6() && (strings.HasPrefix(target, "igw-") || strings.HasPrefix(target, "eigw-")):
		return private, nil // AWS gives these blocks, no owner of a VPC chooses them
	case strings.HasPrefix(target, "igw-"):
		eni, err := t.interfaceAt(ctx, subnet, private)
		if err != nil || eni == "" {
			return none, err
		}
		return t.lentAddress(ctx, vpc.EC2Resource, eni, private)
	}
	return none, nil
}

// subnetOf returns the subnet of several that has an address.
func subnetOf(subnets []store.Row[record.Subnet], address netip.Addr) (record.Subnet, bool) {
	for _, row := range subnets {
		blocks := []string{row.Value.CIDR}
		if row.Value.IPv6 != nil {
			blocks = append(blocks, row.Value.IPv6.CIDR)
		}
		for _, block := range blocks {
			if p, err := netip.ParsePrefix(block); err == nil && p.Contains(address) {
				return row.Value, true
			}
		}
	}
	return record.Subnet{}, false
}

// lentAddress returns the public address of a private one of a network interface, of the primary one if that is
// invalid: an elastic address, or the one that Amazon lends.
func (t tables) lentAddress(ctx context.Context, beside record.EC2Resource, eni string, private netip.Addr) (
	netip.Addr, error) {
	row, err := t.interfaces.Get(ctx, record.EC2Key(beside.Account, beside.Region, eni))
	if err != nil || len(row.Value.PrivateIPs) == 0 {
		return netip.Addr{}, ignoreMissing(err)
	}
	primary := row.Value.PrivateIPs[0]
	at := primary
	if private.IsValid() {
		at = private.String()
	}
	elastic, err := t.addresses.List(ctx, store.Prefix(beside.Account, beside.Region))
	if err != nil {
		return netip.Addr{}, err
	}
	public := ""
	if at == primary {
		public = row.Value.PublicIP
	}
	for _, e := range elastic {
		if e.Value.NetworkInterfaceID == eni && cmp.Or(e.Value.PrivateIPAddress, primary) == at {
			public = e.Value.PublicIP
		}
	}
	address, _ := netip.ParseAddr(public)
	return address, nil
}

// ignoreMissing returns nil for what has gone meanwhile.
func ignoreMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
