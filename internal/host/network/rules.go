//go:build linux

package network

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/record"
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

// ruleset is the table of a router. A packet between two ENIs passes, in this order: the mark of its subnet's route
// table, the network ACLs if it changes subnets, and unless its connection is known the egress rules of the one's and
// the ingress rules of the other's security groups. Each step is one lookup by port or subnet.
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
}

var linkLocal = netip.MustParsePrefix("fe80::/10")

// translationRules are the internet gateway's: private addresses to public ones and back, one to one.
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
	c.addRule(matchInputLink(gatewayLink), matchIPv4(), []expr.Any{loadPayload(destinationIPv4),
		translate("private-addresses"),
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1}})
	c = r.addChain("source", &hook{kind: nftables.ChainTypeNAT, at: nftables.ChainHookPostrouting,
		priority: *nftables.ChainPriorityNATSource})
	c.addRule(matchOutputLink(gatewayLink), matchIPv4(), []expr.Any{loadPayload(sourceIPv4),
		translate("public-addresses"),
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1}})
}

// gatewayRules drop what crosses the internet gateway without a public address, also of known connections.
func (d *design) gatewayRules(_ *ruleset, forward *chain) {
	forward.addRule(matchOutputLink(gatewayLink), matchIPv4(), []expr.Any{loadPayload(sourceIPv4),
		matchNotSet("with-public-address")}, drop())
	forward.addRule(matchInputLink(gatewayLink), matchIPv4(), []expr.Any{loadPayload(destinationIPv4),
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
		c.addRule(stateIs(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), accept())
		c.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFNAME), dispatch("egress")})
	}
}

// securityGroupRules filter new connections by the groups of the ENIs at both ends. ENIs with the same groups share
// chains.
func (d *design) securityGroupRules(r *ruleset, forward *chain) {
	egress := &set{name: "egress", key: nftables.TypeIFName, data: nftables.TypeVerdict}
	ingress := &set{name: "ingress", key: nftables.TypeIFName, data: nftables.TypeVerdict}
	leaving := r.addChain("ingress", nil)
	used := map[string]bool{}
	combinations := map[string]bool{}
	// combine makes the chains of an ENI's groups, and gives back what follows "in-" and "out-" in their names.
	combine := func(p port) string {
		groups := slices.Sorted(slices.Values(p.eni.SecurityGroupIDs))
		h := fnv.New64a()
		h.Write([]byte(strings.Join(groups, " ")))
		name := fmt.Sprintf("%016x", h.Sum64())
		if combinations[name] {
			return name
		}
		combinations[name] = true
		out, in := r.addChain("out-"+name, nil), r.addChain("in-"+name, nil)
		for _, id := range groups {
			if _, there := d.groups[id]; !there {
				continue
			}
			used[id] = true
			out.addRule(jumpToChain("out-" + id))
			in.addRule(jumpToChain("in-" + id))
		}
		out.addRule(drop())
		in.addRule(drop())
		return name
	}
	for _, p := range d.ports {
		key := linkName(p.portName())
		if p.kind == natHolder { // NAT gateways have no security groups
			egress.elements = append(egress.elements, verdictElement(key, expr.VerdictGoto, leaving.name))
			ingress.elements = append(ingress.elements, verdictElement(key, expr.VerdictAccept, ""))
			continue
		}
		name := combine(p)
		egress.elements = append(egress.elements, verdictElement(key, expr.VerdictGoto, "out-"+name))
		ingress.elements = append(ingress.elements, verdictElement(key, expr.VerdictGoto, "in-"+name))
	}
	doors := map[bool]*set{ // by whether it is of IPv6: the ENIs of interface endpoints, which have no port
		false: {name: "endpoints", key: nftables.TypeIPAddr, data: nftables.TypeVerdict},
		true:  {name: "endpoints6", key: nftables.TypeIP6Addr, data: nftables.TypeVerdict},
	}
	for _, p := range d.endpoints {
		name := combine(p)
		for _, a := range p.singles() {
			door := doors[a.Is6()]
			door.elements = append(door.elements, verdictElement(a.AsSlice(), expr.VerdictGoto, "in-"+name))
		}
	}
	if len(d.endpoints) > 0 {
		r.add(doors[false])
		r.add(doors[true])
		leaving.addRule(matchIPv4(), []expr.Any{loadPayload(destinationIPv4), dispatch("endpoints")})
		leaving.addRule(matchIPv6(), []expr.Any{loadPayload(destinationIPv6), dispatch("endpoints6")})
	}
	r.add(egress)
	r.add(ingress)
	members, lists := map[string]bool{}, map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(used)) {
		out, in := r.addChain("out-"+id, nil), r.addChain("in-"+id, nil)
		for _, rule := range d.groups[id].Rules {
			members[rule.GroupID], lists[rule.PrefixListID] = true, true
			if rule.Egress {
				for _, match := range rulePeers(rule) {
					out.addRule(match, ruleTraffic(rule), goToChain(leaving.name))
				}
			} else {
				for _, match := range rulePeers(rule) {
					in.addRule(match, ruleTraffic(rule), accept())
				}
			}
		}
	}
	d.memberSets(r, members)
	for _, id := range slices.Sorted(maps.Keys(lists)) {
		if id != "" {
			r.add(addressSet("list-"+id, false, d.lists[id]))
		}
	}
	leaving.addRule([]expr.Any{loadMeta(expr.MetaKeyOIFNAME), dispatch("ingress")})
	leaving.addRule(matchOutputLink(gatewayLink), accept())
	forward.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFNAME), dispatch("egress")})
	forward.addRule(matchInputLink(gatewayLink), goToChain(leaving.name))
}

// memberSets are the addresses of the members of groups that rules refer to.
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

// rulePeers are the matches of a rule's peer, any of which is enough.
func rulePeers(rule record.SecurityGroupRule) [][]expr.Any {
	source := !rule.Egress
	switch {
	case rule.GroupID != "":
		return [][]expr.Any{addressInSet(source, false, "members-"+rule.GroupID),
			addressInSet(source, true, "members6-"+rule.GroupID)}
	case rule.PrefixListID != "":
		return [][]expr.Any{addressInSet(source, false, "list-"+rule.PrefixListID)}
	}
	block, err := netip.ParsePrefix(rule.CIDRIPv4 + rule.CIDRIPv6)
	if err != nil {
		return nil
	}
	return [][]expr.Any{addressIn(source, block)}
}

// ruleTraffic matches a rule's protocol and ports.
func ruleTraffic(rule record.SecurityGroupRule) []expr.Any {
	number, all := protocolNumber(rule.Protocol)
	switch {
	case all:
		return nil
	case number == unix.IPPROTO_TCP || number == unix.IPPROTO_UDP:
		if rule.FromPort < 0 {
			return protocolIs(number)
		}
		return append(protocolIs(number), portsIn(rule.FromPort, rule.ToPort)...)
	case number == unix.IPPROTO_ICMP || number == unix.IPPROTO_ICMPV6:
		return append(protocolIs(number), matchICMP(rule.FromPort, rule.ToPort)...)
	}
	return protocolIs(number)
}

// protocolNumber is the IP protocol of a rule; all for "-1".
func protocolNumber(p string) (number byte, all bool) {
	switch p {
	case "-1":
		return 0, true
	case "tcp":
		return unix.IPPROTO_TCP, false
	case "udp":
		return unix.IPPROTO_UDP, false
	case "icmp":
		return unix.IPPROTO_ICMP, false
	case "icmpv6":
		return unix.IPPROTO_ICMPV6, false
	}
	n, err := strconv.ParseUint(p, 10, 8)
	if err != nil {
		return 255, false // reserved: matches nothing
	}
	return byte(n), false
}

// networkACLRules filter every packet that changes subnets, without memory.
func (d *design) networkACLRules(r *ruleset, forward *chain) {
	filters := func(id string) bool { acl, there := d.acls[id]; return there && !open4All(acl) }
	if !slices.ContainsFunc(d.subnets, func(s subnet) bool { return filters(s.acl) }) {
		return
	}
	enter := &set{name: "subnets-entered", key: nftables.TypeDevGroup, data: nftables.TypeVerdict}
	away := &set{name: "subnets-left", key: nftables.TypeDevGroup, data: nftables.TypeVerdict}
	done := map[string]bool{}
	arrive := []expr.Any{loadMeta(expr.MetaKeyOIFGROUP), dispatch("subnets-entered")}
	for _, s := range d.subnets {
		c := r.addChain("from-"+s.id, nil)
		c.addRule([]expr.Any{loadMeta(expr.MetaKeyOIFGROUP), equals(nativeUint32(s.linkGroup()))}, returnToCaller())
		away.elements = append(away.elements, verdictElement(nativeUint32(s.linkGroup()), expr.VerdictJump, c.name))
		if filters(s.acl) {
			c.addRule(jumpToChain("acl-out-" + s.acl))
			enter.elements = append(enter.elements, verdictElement(nativeUint32(s.linkGroup()), expr.VerdictJump,
				"acl-in-"+s.acl))
			if !done[s.acl] {
				done[s.acl] = true
				aclChain(r.addChain("acl-out-"+s.acl, nil), d.acls[s.acl], true)
				aclChain(r.addChain("acl-in-"+s.acl, nil), d.acls[s.acl], false)
			}
		}
		c.addRule(arrive)
	}
	c := r.addChain("from-internet", nil)
	c.addRule(arrive)
	away.elements = append(away.elements, verdictElement(nativeUint32(0), expr.VerdictJump, c.name))
	r.add(enter)
	r.add(away)
	forward.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFGROUP), dispatch("subnets-left")})
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

// aclChain is one direction of a network ACL: the first rule by number decides, what none decides is denied.
func aclChain(c *chain, acl record.NetworkACL, egress bool) {
	entries := slices.Clone(acl.Entries)
	slices.SortFunc(entries, func(a, b record.NetworkACLEntry) int { return int(a.Number - b.Number) })
	for _, e := range entries {
		if e.Egress != egress {
			continue
		}
		block, err := netip.ParsePrefix(e.CIDR + e.IPv6CIDR)
		if err != nil {
			continue
		}
		match := addressIn(!egress, block)
		number, all := protocolNumber(e.Protocol)
		if !all {
			match = append(match, protocolIs(number)...)
		}
		if e.Ports != nil && (number == unix.IPPROTO_TCP || number == unix.IPPROTO_UDP) && e.Ports.From != nil &&
			e.Ports.To != nil {
			match = append(match, portsIn(*e.Ports.From, *e.Ports.To)...)
		}
		if e.ICMP != nil && (number == unix.IPPROTO_ICMP || number == unix.IPPROTO_ICMPV6) && e.ICMP.Type != nil {
			code := int32(-1)
			if e.ICMP.Code != nil {
				code = *e.ICMP.Code
			}
			match = append(match, matchICMP(*e.ICMP.Type, code)...)
		}
		if e.Action == ec2types.RuleActionAllow {
			c.addRule(match, returnToCaller())
		} else {
			c.addRule(match, drop())
		}
	}
	c.addRule(drop())
}
