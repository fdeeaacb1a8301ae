//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/vpcrule"
)

// Addresses that AWS serves inside every VPC.
// https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html#AmazonDNS
var (
	metadataAddress = netip.MustParseAddr("169.254.169.254")
	resolverAddress = netip.MustParseAddr("169.254.169.253")
	metadataIPv6    = netip.MustParseAddr("fd00:ec2::254")
	resolverIPv6    = netip.MustParseAddr("fd00:ec2::253")
)

// design is the configuration of one VPC's router according to the store, without regard to the kernel's state.
type design struct {
	vpc record.VPC
	// cidrs are the blocks of the VPC, of both families.
	cidrs []netip.Prefix
	// local are the addresses of the router itself, services those at which somebody answers.
	local    []netip.Addr
	services []netip.Addr
	ports    []port // by ENI
	// endpoints are the ENIs of interface endpoints and of mount targets of EFS. Nothing is plugged in there: the AWS
	// APIs, and package mounttarget, answer at their addresses, which are the router's own.
	endpoints []port
	// internet reports that a gateway to the internet is attached; public are the public addresses by private one.
	internet bool
	public   map[netip.Addr]netip.Addr
	subnets  []subnet
	routes   []route
	// edge is the kernel's number of the route table of traffic that enters through the internet gateway, 0 without
	// one. egressOnly are the tables whose IPv6 way out is no way in.
	edge       uint32
	egressOnly map[uint32]bool
	// groups are the VPC's security groups, acls its network ACLs, by ID.
	groups map[string]record.SecurityGroup
	acls   map[string]record.NetworkACL
	// flows are the listeners of Network Load Balancers whose connections the router sends to targets, forwarded those
	// whose connections the kernel forwards in the load balancer's namespace, by the namespaces of all of them.
	flows     []flow
	forwarded map[string][]flow
	// lists are the blocks of prefix lists.
	lists map[string][]netip.Prefix
}

// subnet has the properties of a subnet that the router needs.
type subnet struct {
	id    string
	cidr  netip.Prefix
	ipv6  netip.Prefix // not valid without one
	acl   string
	table uint32 // the kernel's number of the route table that applies
}

// linkGroup marks the ports of the subnet: their link group.
func (s subnet) linkGroup() uint32 { return kernelNumber("group", s.id) }

// gateway returns the subnet's router address.
func (s subnet) gateway() netip.Addr { return s.cidr.Addr().Next() }

// holderKind is the kind of resource that an ENI is plugged into.
type holderKind int

const (
	instanceHolder holderKind = iota
	clusterHolder
	natHolder
	balancerHolder
)

// port is an ENI that is plugged into a namespace.
type port struct {
	eni    record.NetworkInterface
	subnet subnet
	kind   holderKind
	holder string // the namespace
	// key is the row to wake when this changes: of the instance or the cluster.
	key string
}

// portName returns the port's name in the router: 14 of the 17 digits of the ENI's ID, which is what a link's name has
// room for.
func (p port) portName() string { return "e" + strings.TrimPrefix(p.eni.ID, "eni-")[:14] }

// ungrouped reports whether the port has no security groups, as NAT gateways and some Network Load Balancers have none:
// everything passes.
func (p port) ungrouped() bool {
	return p.kind == natHolder || p.kind == balancerHolder && len(p.eni.SecurityGroupIDs) == 0
}

// linkAlias describes in full what the port connects. It is written last: a link without it is unfinished.
func (p port) linkAlias() string {
	alias := p.eni.ID + " " + p.holder
	if p.kind == instanceHolder {
		alias += fmt.Sprintf(" eth%d", p.eni.Attachment.DeviceIndex)
	}
	return alias + " " + p.eni.MACAddress
}

// singles returns the ENI's addresses without its prefixes.
func (p port) singles() (all []netip.Addr) {
	for _, a := range p.addresses() {
		if a.IsSingleIP() {
			all = append(all, a.Addr())
		}
	}
	return all
}

// addresses returns the ENI's addresses and prefixes: what is delivered to the port.
func (p port) addresses() []netip.Prefix { return vpcrule.Addresses(p.eni) }

// primary returns the ENI's primary address.
func (p port) primary() netip.Addr { return vpcrule.Primary(p.eni) }

// routeKind is the treatment of a packet by the kernel.
type routeKind int

const (
	via       routeKind = iota // sends it out of a link
	throw                      // looks in the tables that follow, where the VPC's own addresses are
	blackhole                  // drops it silently, as a VPC does
)

// mainTable is the route table of the VPC's own addresses.
const mainTable = 254

// route is a route of the router.
type route struct {
	table uint32
	to    netip.Prefix
	kind  routeKind
	link  string // of via
}

// kernelNumber derives a number for the kernel from an ID: of a routing table, a mark, a link group. It is never one
// that the kernel uses itself.
func kernelNumber(what, id string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(what + id))
	return h.Sum32()>>1 | 0x10000
}

// errGone reports that the store has no such VPC.
var errGone = errors.New("the VPC is gone")

// loadDesign reads what a VPC is to be.
func (n *Network) loadDesign(ctx context.Context, key string) (*design, error) {
	vpc, err := record.VPCs(n.o.Store).Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	d := &design{vpc: vpc.Value, public: map[netip.Addr]netip.Addr{}, egressOnly: map[uint32]bool{},
		groups: map[string]record.SecurityGroup{}, acls: map[string]record.NetworkACL{},
		lists: vpcrule.PrefixLists(vpc.Value.Region), forwarded: map[string][]flow{}}
	region := store.Prefix(vpc.Value.Account, vpc.Value.Region)
	d.cidrs = vpcrule.Blocks(d.vpc)
	subnets, err := d.readSubnets(ctx, n.o.Store, region)
	if err != nil {
		return nil, err
	}
	if err := d.readPorts(ctx, n, region, subnets); err != nil {
		return nil, err
	}
	d.readLocal(n)
	if err := d.readPublic(ctx, n.o.Store, region); err != nil {
		return nil, err
	}
	if err := d.readRoutes(ctx, n.o.Store, region); err != nil {
		return nil, err
	}
	groups, err := record.SecurityGroups(n.o.Store).List(ctx, region)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if g.Value.VPCID == d.vpc.ID {
			d.groups[g.Value.ID] = g.Value
		}
	}
	acls, err := record.NetworkACLs(n.o.Store).List(ctx, region)
	if err != nil {
		return nil, err
	}
	for _, a := range acls {
		if a.Value.VPCID == d.vpc.ID {
			d.acls[a.Value.ID] = a.Value
		}
	}
	return d, nil
}

func (d *design) readSubnets(ctx context.Context, s *store.Store, region string) (map[string]subnet, error) {
	rows, err := record.Subnets(s).List(ctx, region)
	if err != nil {
		return nil, err
	}
	byID := map[string]subnet{}
	for _, row := range rows {
		r := row.Value
		if r.VPCID != d.vpc.ID {
			continue
		}
		cidr, err := netip.ParsePrefix(r.CIDR)
		if err != nil {
			return nil, fmt.Errorf("subnet %s: %w", r.ID, err)
		}
		table := r.RouteTableID
		if table == "" {
			table = d.vpc.MainRouteTableID
		}
		made := subnet{id: r.ID, cidr: cidr.Masked(), acl: r.NetworkACLID, table: kernelNumber("table", table)}
		if r.IPv6 != nil {
			made.ipv6, _ = netip.ParsePrefix(r.IPv6.CIDR)
		}
		byID[r.ID] = made
		d.subnets = append(d.subnets, made)
	}
	return byID, nil
}

// readPorts finds the ENIs that are plugged, and what into.
func (d *design) readPorts(ctx context.Context, n *Network, region string, subnets map[string]subnet) error {
	s := n.o.Store
	nats, err := record.NATGateways(s).List(ctx, region)
	if err != nil {
		return err
	}
	gateways := map[string]string{}
	for _, g := range nats {
		gateways[g.Value.NetworkInterfaceID] = g.Value.ID
	}
	planes, err := record.ControlPlanes(s).List(ctx, region)
	if err != nil {
		return err
	}
	type leg struct{ id, key string }
	legs := map[string]leg{}
	for _, p := range planes {
		for _, id := range p.Value.NetworkInterfaceIDs {
			legs[id] = leg{p.Value.ClusterID, p.Key}
		}
	}
	balancers, err := d.readBalancers(ctx, s, subnets)
	if err != nil {
		return err
	}
	enis, err := record.NetworkInterfaces(s).List(ctx, region)
	if err != nil {
		return err
	}
	for _, row := range enis {
		eni := row.Value
		in, known := subnets[eni.SubnetID]
		if eni.VPCID != d.vpc.ID || eni.Attachment == nil || !known || len(eni.ID) < len("eni-")+14 {
			continue
		}
		p := port{eni: eni, subnet: in}
		switch {
		case eni.InterfaceType == ec2types.NetworkInterfaceTypeVpcEndpoint, eni.InterfaceType == record.InterfaceTypeEFS:
			d.endpoints = append(d.endpoints, p)
			continue
		case gateways[eni.ID] != "":
			p.kind, p.holder = natHolder, gateways[eni.ID]
		case balancers[eni.ID].ID != "":
			p.kind, p.holder = balancerHolder, balancers[eni.ID].Namespace()
		case eni.Attachment.InstanceID != "":
			p.kind, p.holder = instanceHolder, eni.Attachment.InstanceID
			p.key = record.EC2Key(eni.Account, eni.Region, p.holder)
			if n.o.Real != nil {
				instance, err := record.Instances(s).Get(ctx, p.key)
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil {
					return err
				}
				if !n.o.Real(instance.Value) {
					continue
				}
			}
		case legs[eni.ID].id != "":
			p.kind, p.holder, p.key = clusterHolder, legs[eni.ID].id, legs[eni.ID].key
		default:
			continue
		}
		d.ports = append(d.ports, p)
	}
	return nil
}

// readLocal collects the addresses of the router itself.
func (d *design) readLocal(n *Network) {
	d.services = append(d.services, metadataAddress, resolverAddress, metadataIPv6, resolverIPv6)
	if n.o.PublicRange.IsValid() {
		d.services = append(d.services, APIAddress(n.o.PublicRange))
	}
	if len(d.cidrs) > 0 && d.cidrs[0].Addr().Is4() {
		d.services = append(d.services, nthAddress(d.cidrs[0], 2))
	}
	d.local = slices.Clone(d.services)
	for _, e := range d.endpoints {
		d.local = append(d.local, e.singles()...)
	}
	for _, s := range d.subnets {
		d.local = append(d.local, s.gateway())
	}
	slices.SortFunc(d.local, netip.Addr.Compare)
	d.local = slices.Compact(d.local)
}

// readPublic finds the public addresses of the plugged ENIs.
func (d *design) readPublic(ctx context.Context, s *store.Store, region string) error {
	gateways, err := record.InternetGateways(s).List(ctx, region)
	if err != nil {
		return err
	}
	d.internet = slices.ContainsFunc(gateways,
		func(g store.Row[record.InternetGateway]) bool { return g.Value.VPCID == d.vpc.ID })
	egress, err := record.EgressOnlyInternetGateways(s).List(ctx, region)
	if err != nil {
		return err
	}
	d.internet = d.internet || slices.ContainsFunc(egress,
		func(g store.Row[record.EgressOnlyInternetGateway]) bool { return g.Value.VPCID == d.vpc.ID })
	if !d.internet {
		return nil
	}
	elastic, err := record.Addresses(s).List(ctx, region)
	if err != nil {
		return err
	}
	plugged, addresses := make([]record.NetworkInterface, len(d.ports)), make([]record.Address, len(elastic))
	for i, p := range d.ports {
		plugged[i] = p.eni
	}
	for i, a := range elastic {
		addresses[i] = a.Value
	}
	d.public, err = vpcrule.PublicAddresses(plugged, addresses)
	return err
}

// holdersOfAddresses returns the keys of who has the addresses and prefixes of the ports.
func (d *design) holdersOfAddresses() map[netip.Prefix]string {
	holders := map[netip.Prefix]string{}
	for _, p := range d.ports {
		for _, at := range p.addresses() {
			holders[at] = p.key
		}
	}
	return holders
}

// readRoutes turns the mapping and the route tables into routes.
func (d *design) readRoutes(ctx context.Context, s *store.Store, region string) error {
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	for _, p := range d.ports {
		for _, to := range p.addresses() {
			d.routes = append(d.routes, route{table: mainTable, to: to, kind: via, link: p.portName()})
		}
	}
	for _, to := range everything {
		d.routes = append(d.routes, route{table: mainTable, to: to, kind: blackhole})
	}
	gateways, err := record.InternetGateways(s).List(ctx, region)
	if err != nil {
		return err
	}
	attached := map[string]bool{}
	for _, g := range gateways {
		attached[g.Value.ID] = g.Value.VPCID == d.vpc.ID
		if attached[g.Value.ID] && g.Value.RouteTableID != "" {
			d.edge = kernelNumber("table", g.Value.RouteTableID)
		}
	}
	egress, err := record.EgressOnlyInternetGateways(s).List(ctx, region)
	if err != nil {
		return err
	}
	for _, g := range egress {
		attached[g.Value.ID] = g.Value.VPCID == d.vpc.ID
	}
	tables, err := record.RouteTables(s).List(ctx, region)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if t.Value.VPCID == d.vpc.ID {
			d.routes = append(d.routes, d.tableRoutes(t.Value, attached)...)
		}
	}
	return nil
}

// tableRoutes returns the routes of one route table. What it says nothing of, the main table drops.
func (d *design) tableRoutes(t record.RouteTable, attached map[string]bool) (routes []route) {
	table := kernelNumber("table", t.ID)
	at := map[netip.Prefix]int{}
	add := func(r route) {
		r.table = table
		if i, there := at[r.to]; there {
			routes[i] = r
			return
		}
		at[r.to] = len(routes)
		routes = append(routes, r)
	}
	for _, r := range vpcrule.Routes(d.vpc, t, d.lists) {
		switch {
		case r.Target == vpcrule.Local:
			add(route{to: r.To, kind: throw})
		case attached[r.Target]:
			if strings.HasPrefix(r.Target, "eigw-") {
				d.egressOnly[table] = true
			}
			add(route{to: r.To, kind: via, link: gatewayLink})
		default:
			target := d.targetPort(r.Target)
			if target == nil {
				add(route{to: r.To, kind: blackhole})
				continue
			}
			if target.kind == natHolder || !target.eni.SourceDestCheck {
				add(route{to: r.To, kind: via, link: target.portName()})
				continue
			}
			// An ENI that checks destinations takes only what is for itself.
			add(route{to: r.To, kind: blackhole})
			for _, own := range target.addresses() {
				if r.To.Contains(own.Addr()) && r.To.Bits() < own.Bits() {
					add(route{to: own, kind: throw})
				}
			}
		}
	}
	return routes
}

// targetPort returns the port of an ENI or NAT gateway that a route names; nil when it is not plugged.
func (d *design) targetPort(id string) *port {
	for i, p := range d.ports {
		if p.eni.ID == id || p.kind == natHolder && p.holder == id {
			return &d.ports[i]
		}
	}
	return nil
}
