//go:build linux

package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// flow is a listener of a Network Load Balancer in one zone. The router sends its connections to targets itself: those
// see the client's address, and their answers pass the router, which knows the connection. Where they are to see the
// load balancer's, its namespace does that.
type flow struct {
	protocol byte // TCP or UDP
	// at is the address of the network interface in the VPC; public is the one on the internet, invalid without one.
	at, public netip.Addr
	port       uint16
	targets    []netip.AddrPort
	share      balancing.Share
	sticky     bool   // all connections of a client go to one target
	table      uint32 // the kernel's number of the route table of the network interface's subnet
}

// readBalancers returns the load balancers of the VPC by their network interfaces, and reads their flows.
func (d *design) readBalancers(ctx context.Context, s *store.Store, subnets map[string]subnet,
) (map[string]record.LoadBalancer, error) {
	rows, err := record.LoadBalancersByVPC(s).List(ctx, d.vpc.Key())
	if err != nil {
		return nil, err
	}
	reader, byInterface := balancing.NewReader(s), map[string]record.LoadBalancer{}
	for _, row := range rows {
		b := row.Value
		for _, id := range b.InterfaceIDs() {
			byInterface[id] = b
		}
		if b.Kind != record.NetworkLoadBalancer {
			continue
		}
		routes, err := reader.Routes(ctx, b)
		if err != nil {
			return nil, err
		}
		own := []flow{}
		for _, route := range routes {
			switch route.Path() {
			case balancing.ByRouter:
				// Who is not in the VPC is not reached with an address that is not the VPC's.
				d.flows = append(d.flows, flowsOf(b, route, subnets, d.contains)...)
			case balancing.ByNamespace:
				own = append(own, flowsOf(b, route, subnets, func(netip.Addr) bool { return true })...)
			}
		}
		d.forwarded[b.Namespace()] = own
	}
	return byInterface, nil
}

// flowsOf returns the flows of a route, to those of its targets that may be.
func flowsOf(b record.LoadBalancer, route balancing.Route, subnets map[string]subnet, may func(netip.Addr) bool,
) (all []flow) {
	if route.Share.None() {
		return nil
	}
	crossZone := balancing.CrossZone(b, *route.Group)
	for _, z := range b.Zones {
		at, err := netip.ParseAddr(z.PrivateIP)
		if err != nil {
			continue
		}
		f := flow{at: at, port: uint16(route.Listener.Port), share: route.Share, table: subnets[z.SubnetID].table,
			targets: slices.DeleteFunc(route.Pool.Serving(z.Name, crossZone),
				func(t netip.AddrPort) bool { return !t.Addr().Is4() || !may(t.Addr()) })}
		f.public, _ = netip.ParseAddr(z.PublicIP)
		f.sticky = route.Group.Attribute("stickiness.enabled", "false") == "true"
		if len(f.targets) == 0 {
			continue
		}
		if route.Listener.Protocol != "UDP" {
			f.protocol = unix.IPPROTO_TCP
			all = append(all, f)
		}
		if route.Listener.Protocol == "UDP" || route.Listener.Protocol == "TCP_UDP" {
			f.protocol = unix.IPPROTO_UDP
			all = append(all, f)
		}
	}
	return all
}

// contains reports whether an address is of the VPC's blocks, which may have changed since a target was registered.
func (d *design) contains(a netip.Addr) bool {
	return slices.ContainsFunc(d.cidrs, func(p netip.Prefix) bool { return p.Contains(a) })
}

// balancedRules adds the rules that send new connections to the targets of load balancers. The destination chain asks
// them first. Where a packet comes from the internet the public address leads there; a packet from the VPC to the
// public address leaves by the gateway and comes back.
//
// The mark of the connection is the route table by which answers leave, that of the load balancer's subnet: a target
// may be in a subnet without a way to the internet.
func (d *design) balancedRules(r *ruleset, destination *chain) {
	var all []netip.Prefix
	for _, p := range d.ports {
		if p.kind == balancerHolder {
			all = append(all, hostPrefix(p.primary()))
		}
	}
	r.add(addressSet("balancers", false, all)) // for addStaleBalancers
	if len(d.flows) == 0 {
		return
	}
	private := &set{name: "balanced", key: nftables.TypeIPAddr, data: nftables.TypeVerdict}
	public := &set{name: "balanced-public", key: nftables.TypeIPAddr, data: nftables.TypeVerdict}
	chains, targets := map[netip.Addr]*chain{}, map[netip.AddrPort]bool{}
	for i, f := range d.flows {
		c := chains[f.at]
		if c == nil {
			name := "balance-" + f.at.String()
			c = r.addChain(name, nil)
			chains[f.at] = c
			private.elements = append(private.elements, jumpElement(f.at.AsSlice(), name))
			if f.public.IsValid() {
				public.elements = append(public.elements, jumpElement(f.public.AsSlice(), name))
			}
		}
		shares := r.addShares(i, f, targets)
		c.addRule(protocolIs(f.protocol), portsIn(int32(f.port), int32(f.port)), f.taken(), []expr.Any{
			&expr.Immediate{Register: 1, Data: nativeUint32(f.table)},
			&expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true},
		}, f.targetExprs(), []expr.Any{dispatch(shares)})
	}
	r.add(private)
	r.add(public)
	destination.addRule(matchInputLink(gatewayLink), matchIPv4(), []expr.Any{loadPayload(destinationIPv4),
		dispatch(public.name)})
	destination.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFNAME), differs(linkName(gatewayLink))}, matchIPv4(),
		[]expr.Any{loadPayload(destinationIPv4), dispatch(private.name)})
}

// addShares adds the map from the numbers of a flow's targets to the chains that send there, and returns its name.
func (r *ruleset) addShares(i int, f flow, targets map[netip.AddrPort]bool) (name string) {
	shares := &set{name: fmt.Sprintf("flow-%d", i), key: nftables.TypeMark, data: nftables.TypeVerdict}
	for n, t := range f.targets {
		if !targets[t] {
			targets[t] = true
			r.addChain(targetChain(t), nil).addRule([]expr.Any{
				&expr.Immediate{Register: 1, Data: t.Addr().AsSlice()},
				&expr.Immediate{Register: 2, Data: portBytes(int32(t.Port()))},
				&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2},
			})
		}
		shares.elements = append(shares.elements, jumpElement(nativeUint32(uint32(n)), targetChain(t)))
	}
	r.add(shares)
	return shares.name
}

// targetExprs puts the number of a target into register 1.
func (f flow) targetExprs() []expr.Any { return pickIndex(uint32(len(f.targets)), f.sticky, 1) }

// pickIndex puts a number below n into register 1: one of the client, where it is sticky, and otherwise a random one.
// Without a seed the kernel makes up one with each set of rules: clients would move whenever something changes in the
// VPC.
func pickIndex(n uint32, sticky bool, seed uint32) []expr.Any {
	if sticky {
		return []expr.Any{loadPayload(sourceIPv4),
			&expr.Hash{SourceRegister: 1, DestRegister: 1, Length: 4, Modulus: n, Seed: seed, Type: expr.HashTypeJenkins}}
	}
	return []expr.Any{&expr.Numgen{Register: 1, Type: unix.NFT_NG_RANDOM, Modulus: n}}
}

// taken matches the connections that the flow takes of those that come to it.
func (f flow) taken() []expr.Any {
	if f.share.All() {
		return nil
	}
	// A seed of its own, so that what flows before it have left over is spread evenly.
	return append(pickIndex(f.share.Of, f.share.Sticky, f.share.Of),
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binary.BigEndian.AppendUint32(nil, f.share.Weight)})
}

func targetChain(t netip.AddrPort) string { return fmt.Sprintf("to-%s-%d", t.Addr(), t.Port()) }

// addStaleBalancers adds the addresses of load balancers that the router knows, though none has them any more. One that
// has no targets at the moment keeps its connections.
func (d *design) addStaleBalancers(conn *nftables.Conn, table *nftables.Table, stale map[netip.Addr]bool) error {
	now, err := conn.GetSetByName(table, "balancers")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the addresses of load balancers: %w", err)
	}
	elements, err := conn.GetSetElements(now)
	if err != nil {
		return fmt.Errorf("read the addresses of load balancers: %w", err)
	}
	has := map[netip.Addr]bool{}
	for _, p := range d.ports {
		has[p.primary()] = has[p.primary()] || p.kind == balancerHolder
	}
	for _, e := range elements {
		if a, ok := netip.AddrFromSlice(e.Key); ok && !has[a] {
			stale[a] = true
		}
	}
	return nil
}

// balancerGroupRules filter new connections to Network Load Balancers that have security groups by these, before they
// are sent to a target.
func (d *design) balancerGroupRules(r *ruleset) {
	numbers, _ := d.usedGroups()
	var slots []*set
	var private, public []netip.Prefix
	for _, p := range d.ports {
		if p.kind != balancerHolder || p.ungrouped() {
			continue
		}
		addresses := []netip.Addr{p.primary()}
		private = append(private, hostPrefix(p.primary()))
		if lent, ok := d.public[p.primary()]; ok {
			addresses, public = append(addresses, lent), append(public, hostPrefix(lent))
		}
		for i, number := range d.groupNumbers(p, numbers) {
			if i == len(slots) {
				slots = append(slots, &set{name: fmt.Sprintf("balancer-groups-%d", i), key: nftables.TypeIPAddr,
					data: nftables.TypeMark})
				r.add(slots[i])
			}
			for _, a := range addresses {
				slots[i].elements = append(slots[i].elements, nftables.SetElement{Key: a.AsSlice(),
					Val: nativeUint32(number)})
			}
		}
	}
	if len(private) == 0 {
		return
	}
	r.add(addressSet("guarded-balancers", false, private))
	r.add(addressSet("guarded-balancers-public", false, public))
	guard := r.addChain("balancer-guard", nil)
	for _, s := range slots {
		guard.addRule(matchIPv4(), []expr.Any{loadPayload(destinationIPv4), translate(s.name),
			dispatch("ingress-groups")})
	}
	guard.addRule(drop())
	c := r.addChain("balancer-ingress", &hook{kind: nftables.ChainTypeFilter, at: nftables.ChainHookPrerouting,
		priority: *nftables.ChainPriorityMangle + 1})
	c.addRule(stateIs(expr.CtStateBitNEW), matchInputLink(gatewayLink),
		addressInSet(false, false, "guarded-balancers-public"), jumpToChain(guard.name))
	// A packet from the VPC to a public address is on its way to the gateway.
	c.addRule(stateIs(expr.CtStateBitNEW), []expr.Any{loadMeta(expr.MetaKeyIIFNAME), differs(linkName(gatewayLink))},
		addressInSet(false, false, "guarded-balancers"), jumpToChain(guard.name))
}

// balancersIn returns the addresses of the load balancers with a security group, in the VPC and on the internet.
func (d *design) balancersIn(group string) (all []netip.Prefix) {
	for _, p := range d.ports {
		if p.kind != balancerHolder || !slices.Contains(p.eni.SecurityGroupIDs, group) {
			continue
		}
		all = append(all, hostPrefix(p.primary()))
		if public, ok := d.public[p.primary()]; ok {
			all = append(all, hostPrefix(public))
		}
	}
	return all
}

// balancedPeer returns a match of what has come by the Network Load Balancers of the group that an ingress rule names,
// whose source is the client; nil without any. To whom the packets were sent first says the connection.
func (d *design) balancedPeer(rule record.SecurityGroupRule) []expr.Any {
	if rule.Egress || rule.GroupID == "" || len(d.balancersIn(rule.GroupID)) == 0 {
		return nil
	}
	return slices.Concat(matchIPv4(), []expr.Any{
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, differs(nativeUint32(0)),
		&expr.Ct{Key: expr.CtKeyDSTIP, Register: 1, Direction: expr.CtDirOriginal},
		matchSet("balancers-" + rule.GroupID),
	})
}

// balancerSets adds the sets of balancedPeer, of those of the groups that have load balancers.
func (d *design) balancerSets(r *ruleset, groups map[string]bool) {
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		if addresses := d.balancersIn(id); len(addresses) > 0 {
			r.add(addressSet("balancers-"+id, false, addresses))
		}
	}
}

// balancedReplies chooses the route table of answers of targets by the mark of their connection.
func balancedReplies() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, equals([]byte{1}),
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, differs(nativeUint32(0)),
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
	}
}

// unbalanced matches what is not of a connection that a load balancer has sent to a target.
func unbalanced() []expr.Any {
	return []expr.Any{&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, equals(nativeUint32(0))}
}

// matchOriginal matches packets of who began the connection.
func matchOriginal() []expr.Any {
	return []expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, equals([]byte{0})}
}

// balancerSources say which VPC a change of a load balancer, its target groups or their health concerns.
func balancerSources(s *store.Store) []reconcile.Source {
	return []reconcile.Source{
		remembering(record.LoadBalancers(s), func(_ string, b record.LoadBalancer) []string {
			return []string{record.EC2Key(b.Account, b.Region, b.VPCID)}
		}),
		remembering(record.TargetGroups(s), func(_ string, g record.TargetGroup) []string {
			return []string{record.EC2Key(g.Account, g.Region, g.VPCID)}
		}),
		remembering(record.TargetHealths(s), func(key string, _ record.TargetHealth) []string {
			parts := store.Parts(key)
			if len(parts) != 4 || parts[2] != "group" {
				return nil // the router sends nothing to the instances of Classic Load Balancers
			}
			g, err := record.TargetGroups(s).Get(context.Background(), record.TargetGroupKey(parts[0], parts[1], parts[3]))
			if err != nil {
				return nil
			}
			return []string{record.EC2Key(g.Value.Account, g.Value.Region, g.Value.VPCID)}
		}),
	}
}
