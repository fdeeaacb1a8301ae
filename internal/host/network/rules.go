//go:build linux

package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/vpcrule"
)

// tableName is the nftables table in namespaces of our own.
const tableName = "coracle"

// applyRules puts security groups, network ACLs and public addresses into the kernel.
func (r *router) applyRules() error {
	stale, err := r.staleTranslations()
	if err != nil {
		return err
	}
	if err := r.ruleset().apply(r.file, &r.n.applied); err != nil {
		return err
	}
	return r.forgetTranslations(stale)
}

// ruleset returns the table of a router. A packet between two ENIs passes, in this order: the mark of its subnet's
// route table, the network ACLs if it changes subnets, and unless its connection is known the egress rules of the one's
// and the ingress rules of the other's security groups. Each step is one lookup by port or subnet.
func (d *design) ruleset() *ruleset {
	r := &ruleset{name: tableName}
	d.markRules(r)
	d.translationRules(r)
	d.inputRules(r)
	forward := r.addChain("forward", &hook{kind: nftables.ChainTypeFilter, at: nftables.ChainHookForward,
		priority: *nftables.ChainPriorityFilter, drop: true})
	d.networkACLRules(r, forward)
	d.gatewayRules(r, forward)
	forward.addRule(stateIs(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), accept())
	forward.addRule(stateIs(expr.CtStateBitINVALID), drop())
	d.egressOnlyRules(r, forward)
	d.securityGroupRules(r, forward)
	d.balancerGroupRules(r)
	return r
}

// markRules mark packets by the subnet they come from; the mark chooses the routing table.
func (d *design) markRules(r *ruleset) {
	marks := &set{name: "route-tables", key: nftables.TypeDevGroup, data: nftables.TypeMark}
	for _, s := range d.subnets {
		marks.elements = append(marks.elements, nftables.SetElement{Key: nativeUint32(s.linkGroup()),
			Val: nativeUint32(s.table)})
	}
	if d.edge != 0 {
		marks.elements = append(marks.elements, nftables.SetElement{Key: nativeUint32(0), Val: nativeUint32(d.edge)})
	}
	r.add(marks)
	unchecked := &set{name: "unchecked", key: nftables.TypeIFName}
	for _, p := range d.ports {
		if !p.eni.SourceDestCheck || p.kind == natHolder {
			unchecked.elements = append(unchecked.elements, nftables.SetElement{Key: linkName(p.portName())})
		}
	}
	r.add(unchecked)
	c := r.addChain("prerouting", &hook{kind: nftables.ChainTypeFilter, at: nftables.ChainHookPrerouting,
		priority: *nftables.ChainPriorityMangle})
	// IPv4 has the kernel's reverse-path filter for that.
	c.addRule(matchIPv6(), []expr.Any{loadMeta(expr.MetaKeyIIFGROUP), differs(nativeUint32(0)),
		loadMeta(expr.MetaKeyIIFNAME),
		matchNotSet("unchecked")},
		[]expr.Any{loadPayload(sourceIPv6), &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 16,
			Mask: toIPNet(linkLocal).Mask, Xor: make([]byte, 16)}, differs(linkLocal.Addr().AsSlice())},
		unrouted(), drop())
	c.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFGROUP), translate("route-tables"), &expr.Meta{Key: expr.MetaKeyMARK,
		SourceRegister: true, Register: 1}})
	c.addRule(balancedReplies())
}

var linkLocal = netip.MustParsePrefix("fe80::/10")

// translationRules adds the rules of the internet gateway: private addresses to public ones and back, one to one.
func (d *design) translationRules(r *ruleset) {
	out := &set{name: "public-addresses", key: nftables.TypeIPAddr, data: nftables.TypeIPAddr}
	back := &set{name: "private-addresses", key: nftables.TypeIPAddr, data: nftables.TypeIPAddr}
	var private []netip.Prefix
	for _, p := range slices.SortedFunc(maps.Keys(d.public), netip.Addr.Compare) {
		out.elements = append(out.elements, nftables.SetElement{Key: p.AsSlice(), Val: d.public[p].AsSlice()})
		back.elements = append(back.elements, nftables.SetElement{Key: d.public[p].AsSlice(), Val: p.AsSlice()})
		private = append(private, hostPrefix(p))
	}
	r.add(out)
	r.add(back)
	r.add(addressSet("with-public-address", false, private))
	c := r.addChain("destination", &hook{kind: nftables.ChainTypeNAT, at: nftables.ChainHookPrerouting,
		priority: *nftables.ChainPriorityNATDest})
	d.balancedRules(r, c)
	c.addRule(matchInputLink(gatewayLink), matchIPv4(), []expr.Any{loadPayload(destinationIPv4),
		translate("private-addresses"),
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1}})
	c = r.addChain("source", &hook{kind: nftables.ChainTypeNAT, at: nftables.ChainHookPostrouting,
		priority: *nftables.ChainPriorityNATSource})
	c.addRule(matchOutputLink(gatewayLink), matchIPv4(), []expr.Any{loadPayload(sourceIPv4),
		translate("public-addresses"),
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1}})
}

// gatewayRules drop what crosses the internet gateway without a public address, also of known connections. IPv6
// addresses are public: what leaves has one of the VPC, and what enters has none, whose members security groups let in.
func (d *design) gatewayRules(r *ruleset, forward *chain) {
	r.add(addressSet("own-ipv6", true, d.cidrs))
	forward.addRule(matchOutputLink(gatewayLink), matchIPv6(), []expr.Any{loadPayload(sourceIPv6),
		matchNotSet("own-ipv6")}, drop())
	forward.addRule(matchInputLink(gatewayLink), matchIPv6(), []expr.Any{loadPayload(sourceIPv6),
		matchSet("own-ipv6")}, drop())
	// Answers of targets leave with the address of their load balancer. Who begins a connection has one of its own.
	for _, others := range [][]expr.Any{unbalanced(), matchOriginal()} {
		forward.addRule(matchOutputLink(gatewayLink), matchIPv4(), others, []expr.Any{loadPayload(sourceIPv4),
			matchNotSet("with-public-address")}, drop())
	}
	forward.addRule(matchInputLink(gatewayLink), matchIPv4(), unbalanced(), []expr.Any{loadPayload(destinationIPv4),
		matchNotSet("with-public-address")}, drop())
	// Jumbo frames end here; TCP is told at once.
	for _, crossing := range [][]expr.Any{matchOutputLink(gatewayLink), matchInputLink(gatewayLink)} {
		forward.addRule(crossing, matchIPv4(), protocolIs(unix.IPPROTO_TCP), clampMSS(gatewayMTU-40))
	}
}

// egressOnlyRules drop IPv6 connections from the internet to subnets that have an egress-only internet gateway.
func (d *design) egressOnlyRules(r *ruleset, forward *chain) {
	closed := &set{name: "egress-only", key: nftables.TypeDevGroup}
	for _, s := range d.subnets {
		if d.egressOnly[s.table] {
			closed.elements = append(closed.elements, nftables.SetElement{Key: nativeUint32(s.linkGroup())})
		}
	}
	if len(closed.elements) > 0 {
		r.add(closed)
		forward.addRule(matchInputLink(gatewayLink), matchIPv6(), []expr.Any{loadMeta(expr.MetaKeyOIFGROUP),
			matchSet(closed.name)}, drop())
	}
}

// clampMSS lowers the maximum segment size that a TCP SYN offers.
func clampMSS(size uint16) []expr.Any {
	option := expr.Exthdr{DestRegister: 1, Type: 2, Offset: 2, Len: 2, Op: expr.ExthdrOpTcpopt}
	write := expr.Exthdr{SourceRegister: 1, Type: 2, Offset: 2, Len: 2, Op: expr.ExthdrOpTcpopt}
	big := []byte{byte(size >> 8), byte(size)}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{0x02}, Xor: []byte{0}}, // SYN
		differs([]byte{0}),
		&option, &expr.Cmp{Op: expr.CmpOpGt, Register: 1, Data: big},
		&expr.Immediate{Register: 1, Data: big}, &write,
	}
}

// inputRules guard what the router answers itself: the services of AWS, to those whose source is their own, and the
// ENIs of interface endpoints, to those whom in addition the security groups at both ends let through.
func (d *design) inputRules(r *ruleset) {
	var all []netip.Prefix
	for _, a := range d.services {
		all = append(all, hostPrefix(a))
	}
	r.add(addressSet("services", false, all))
	r.add(addressSet("services6", true, all))
	c := r.addChain("input", &hook{kind: nftables.ChainTypeFilter, at: nftables.ChainHookInput,
		priority: *nftables.ChainPriorityFilter, drop: true})
	c.addRule(matchInputLink("lo"), accept())
	c.addRule(matchIPv6(), protocolIs(unix.IPPROTO_ICMPV6),
		[]expr.Any{loadPayload(icmpType), &expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: []byte{133},
			ToData: []byte{137}}}, accept())
	c.addRule(matchInputLink(gatewayLink), drop())
	c.addRule(unrouted(), drop())
	c.addRule(addressInSet(false, false, "services"), accept())
	c.addRule(addressInSet(false, true, "services6"), accept())
	if len(d.endpoints) > 0 {
		d.endpointACLRules(r, c)
		c.addRule(stateIs(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), accept())
		c.addRule(jumpToChain("egress"))
		c.addRule(goToChain("endpoint-ingress"))
	}
}

// passed is the bit of a packet's mark that says that a group's egress rule has matched. No routing table has a number
// with it ([kernelNumber]); and the mark ends with the router, as links to other namespaces clear it.
const passed = 1 << 31

// securityGroupRules filter new connections by the groups of the ENIs at both ends.
//
// Some kernels validate a chain once for each way that leads to it. So there is one chain for each group and direction,
// not for each ENI or for what other groups say of it: a packet's ENI leads to the numbers of its groups by maps of
// data, one for the first group of each ENI, one for the second and so on; and each number to the group's chain.
// Egress chains return, so that no way goes through an egress chain into an ingress chain.
func (d *design) securityGroupRules(r *ruleset, forward *chain) {
	numbers, groups := d.usedGroups()
	slots := 0
	links := map[int]*set{}
	slot := func(table map[int]*set, name string, key nftables.SetDatatype, i int) *set {
		if table[i] == nil {
			table[i] = &set{name: fmt.Sprintf("%s-%d", name, i), key: key, data: nftables.TypeMark}
			r.add(table[i])
		}
		slots = max(slots, i+1)
		return table[i]
	}
	for _, p := range d.ports {
		for i, number := range d.groupNumbers(p, numbers) {
			s := slot(links, "groups", nftables.TypeIFName, i)
			s.elements = append(s.elements, nftables.SetElement{Key: linkName(p.portName()),
				Val: nativeUint32(number)})
		}
	}
	// The ENIs of interface endpoints have no port: they are known by their addresses.
	endpoints, endpoints6 := map[int]*set{}, map[int]*set{}
	for _, p := range d.endpoints {
		for i, number := range d.groupNumbers(p, numbers) {
			for _, a := range p.singles() {
				table, name, key := endpoints, "endpoint-groups", nftables.TypeIPAddr
				if a.Is6() {
					table, name, key = endpoints6, "endpoint-groups6", nftables.TypeIP6Addr
				}
				s := slot(table, name, key, i)
				s.elements = append(s.elements, nftables.SetElement{Key: a.AsSlice(), Val: nativeUint32(number)})
			}
		}
	}
	out := &set{name: "egress-groups", key: nftables.TypeMark, data: nftables.TypeVerdict}
	in := &set{name: "ingress-groups", key: nftables.TypeMark, data: nftables.TypeVerdict}
	for _, id := range groups {
		number := nativeUint32(numbers[id])
		out.elements = append(out.elements, jumpElement(number, "out-"+id))
		in.elements = append(in.elements, jumpElement(number, "in-"+id))
	}
	r.add(out)
	r.add(in)
	d.groupRules(r, groups)

	egress, ingress := r.addChain("egress", nil), r.addChain("ingress", nil)
	served := r.addChain("endpoint-ingress", nil)
	egress.addRule(setPassed(0))
	for i := range slots {
		if s := links[i]; s != nil {
			egress.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFNAME), translate(s.name), dispatch(out.name)})
			egress.addRule(hasPassed(), returnToCaller())
			ingress.addRule([]expr.Any{loadMeta(expr.MetaKeyOIFNAME), translate(s.name), dispatch(in.name)})
		}
		if endpoints[i] != nil {
			served.addRule(matchIPv4(), []expr.Any{loadPayload(destinationIPv4), translate(endpoints[i].name),
				dispatch(in.name)})
		}
		if endpoints6[i] != nil {
			served.addRule(matchIPv6(), []expr.Any{loadPayload(destinationIPv6), translate(endpoints6[i].name),
				dispatch(in.name)})
		}
	}
	egress.addRule(drop())
	ingress.addRule(matchOutputLink(gatewayLink), accept())
	ingress.addRule(drop())
	served.addRule(drop())
	forward.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFNAME), differs(linkName(gatewayLink))}, jumpToChain(egress.name))
	forward.addRule(goToChain(ingress.name))
}

// ungrouped stands for the security group of ports that have none: it lets everything pass.
const ungrouped = "ungrouped"

// usedGroups returns the groups of the ENIs that exist, in order, and a number for each.
func (d *design) usedGroups() (numbers map[string]uint32, groups []string) {
	used := map[string]bool{}
	for _, p := range slices.Concat(d.ports, d.endpoints) {
		if p.ungrouped() {
			used[ungrouped] = true
			continue
		}
		for _, id := range p.eni.SecurityGroupIDs {
			if _, there := d.groups[id]; there {
				used[id] = true
			}
		}
	}
	groups, numbers = slices.Sorted(maps.Keys(used)), map[string]uint32{}
	for i, id := range groups {
		numbers[id] = uint32(i)
	}
	return numbers, groups
}

// groupNumbers returns the numbers of an ENI's groups.
func (d *design) groupNumbers(p port, numbers map[string]uint32) (all []uint32) {
	if p.ungrouped() {
		return []uint32{numbers[ungrouped]}
	}
	for _, id := range p.eni.SecurityGroupIDs {
		if number, there := numbers[id]; there && !slices.Contains(all, number) {
			all = append(all, number)
		}
	}
	slices.Sort(all)
	return all
}

// groupRules adds the chains of groups. What an egress rule matches has passed, and is returned; what an ingress rule
// matches is accepted.
func (d *design) groupRules(r *ruleset, groups []string) {
	members, lists := map[string]bool{}, map[string]bool{}
	for _, id := range groups {
		out, in := r.addChain("out-"+id, nil), r.addChain("in-"+id, nil)
		if id == ungrouped {
			out.addRule(setPassed(passed), returnToCaller())
			in.addRule(accept())
			continue
		}
		for _, rule := range d.groups[id].Rules {
			members[rule.GroupID], lists[rule.PrefixListID] = true, true
			traffic := vpcrule.GroupTraffic(rule)
			peers := rulePeers(rule)
			if peer := d.balancedPeer(rule); peer != nil {
				peers = append(peers, peer)
			}
			for _, match := range peers {
				if rule.Egress {
					out.addRule(match, matchTraffic(traffic), setPassed(passed), returnToCaller())
				} else {
					in.addRule(match, matchTraffic(traffic), accept())
				}
			}
		}
	}
	d.memberSets(r, members)
	d.balancerSets(r, members)
	for _, id := range slices.Sorted(maps.Keys(lists)) {
		if id != "" {
			r.add(addressSet("list-"+id, false, d.lists[id]))
		}
	}
}

// setPassed sets the bit of the mark to that of value, and leaves the rest, by which routes are chosen.
func setPassed(value uint32) []expr.Any {
	return []expr.Any{
		loadMeta(expr.MetaKeyMARK),
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: nativeUint32(^uint32(passed)),
			Xor: nativeUint32(value)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
	}
}

// hasPassed matches packets that an egress rule has matched.
func hasPassed() []expr.Any {
	return []expr.Any{
		loadMeta(expr.MetaKeyMARK),
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: nativeUint32(passed), Xor: nativeUint32(0)},
		differs(nativeUint32(0)),
	}
}

// memberSets adds sets with the addresses of the members of groups that rules refer to.
func (d *design) memberSets(r *ruleset, groups map[string]bool) {
	members := map[string][]netip.Prefix{}
	for _, p := range slices.Concat(d.ports, d.endpoints) {
		for _, id := range p.eni.SecurityGroupIDs {
			if groups[id] {
				members[id] = append(members[id], p.addresses()...)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		if id == "" {
			continue
		}
		r.add(addressSet("members-"+id, false, members[id]))
		r.add(addressSet("members6-"+id, true, members[id]))
	}
}

// rulePeers returns the matches of a rule's peer, any of which is enough.
func rulePeers(rule record.SecurityGroupRule) [][]expr.Any {
	source := !rule.Egress
	switch {
	case rule.GroupID != "":
		return [][]expr.Any{addressInSet(source, false, "members-"+rule.GroupID),
			addressInSet(source, true, "members6-"+rule.GroupID)}
	case rule.PrefixListID != "":
		return [][]expr.Any{addressInSet(source, false, "list-"+rule.PrefixListID)}
	}
	block := vpcrule.GroupBlock(rule)
	if !block.IsValid() {
		return nil
	}
	return [][]expr.Any{addressIn(source, block)}
}

// matchTraffic matches the protocol and the ports of a rule.
func matchTraffic(t vpcrule.Traffic) []expr.Any {
	switch {
	case t.All:
		return nil
	case t.Ports != nil:
		return append(protocolIs(t.Protocol), portsIn(t.Ports.From, t.Ports.To)...)
	case t.ICMP != nil:
		return append(protocolIs(t.Protocol), matchICMP(t.ICMP.Type, t.ICMP.Code)...)
	}
	return protocolIs(t.Protocol)
}

// networkACLRules filter every packet that changes subnets, without memory: by the list of the subnet that it leaves,
// then by that of the one it enters. No way leads through both, see [design.securityGroupRules].
func (d *design) networkACLRules(r *ruleset, forward *chain) {
	if !slices.ContainsFunc(d.subnets, func(s subnet) bool { return d.filters(s.acl) }) {
		return
	}
	enter := &set{name: "subnets-entered", key: nftables.TypeDevGroup, data: nftables.TypeVerdict}
	away := &set{name: "subnets-left", key: nftables.TypeDevGroup, data: nftables.TypeVerdict}
	done := map[string]bool{}
	for _, s := range d.subnets {
		if !d.filters(s.acl) {
			continue
		}
		from, to := r.addChain("from-"+s.id, nil), r.addChain("to-"+s.id, nil)
		group := nativeUint32(s.linkGroup())
		from.addRule([]expr.Any{loadMeta(expr.MetaKeyOIFGROUP), equals(group)}, returnToCaller())
		from.addRule(jumpToChain("acl-out-" + s.acl))
		to.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFGROUP), equals(group)}, returnToCaller())
		to.addRule(jumpToChain("acl-in-" + s.acl))
		away.elements = append(away.elements, jumpElement(group, from.name))
		enter.elements = append(enter.elements, jumpElement(group, to.name))
		if !done[s.acl] {
			done[s.acl] = true
			aclChain(r.addChain("acl-out-"+s.acl, nil), d.acls[s.acl], true)
			aclChain(r.addChain("acl-in-"+s.acl, nil), d.acls[s.acl], false)
		}
	}
	r.add(enter)
	r.add(away)
	forward.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFGROUP), dispatch(away.name)})
	forward.addRule([]expr.Any{loadMeta(expr.MetaKeyOIFGROUP), dispatch(enter.name)})
}

// open4All reports whether the first rule of a list, in both directions, allows everything: then it costs nothing.
func open4All(acl record.NetworkACL) bool {
	first := map[bool]record.NetworkACLEntry{}
	for _, e := range acl.Entries {
		if f, there := first[e.Egress]; e.IPv6CIDR == "" && (!there || e.Number < f.Number) {
			first[e.Egress] = e
		}
	}
	allows := func(e record.NetworkACLEntry, there bool) bool {
		return there && e.Action == ec2types.RuleActionAllow && e.Protocol == "-1" && e.CIDR == "0.0.0.0/0"
	}
	out, hasOut := first[true]
	in, hasIn := first[false]
	return allows(out, hasOut) && allows(in, hasIn) && !slices.ContainsFunc(acl.Entries,
		func(e record.NetworkACLEntry) bool { return e.IPv6CIDR != "" })
}

// aclChain fills the chain of one direction of a network ACL: the first rule by number decides, what none decides is
// denied.
func aclChain(c *chain, acl record.NetworkACL, egress bool) {
	for _, r := range vpcrule.ACLRules(acl, egress) {
		match := append(addressIn(!egress, r.Block), matchTraffic(r.Traffic)...)
		if r.Allow {
			c.addRule(match, returnToCaller())
		} else {
			c.addRule(match, drop())
		}
	}
	c.addRule(drop())
}
