//go:build linux

package network

import (
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// filters reports whether a network ACL does more than allow everything.
func (d *design) filters(acl string) bool {
	a, there := d.acls[acl]
	return there && !open4All(a)
}

// endpointACLRules filter by network ACLs what goes between a subnet and the ENI of a service in another one: the ENI
// is the router's own, so that its packets are not forwarded. As for all others, the list of the subnet that a packet
// leaves is asked before that of the one that it enters.
func (d *design) endpointACLRules(r *ruleset, input *chain) {
	if !slices.ContainsFunc(d.subnets, func(s subnet) bool { return d.filters(s.acl) }) {
		return
	}
	var own []netip.Prefix
	serving := map[string]bool{}
	for _, e := range d.endpoints {
		serving[e.subnet.id] = true
		for _, a := range e.singles() {
			own = append(own, hostPrefix(a))
		}
	}
	r.add(addressSet("endpoints", false, own))
	r.add(addressSet("endpoints6", true, own))
	left := &set{name: "endpoint-clients-left", key: nftables.TypeDevGroup, data: nftables.TypeVerdict}
	entered := &set{name: "endpoint-clients-entered", key: nftables.TypeDevGroup, data: nftables.TypeVerdict}
	answers := r.addChain("endpoint-answers", nil)
	var arrivals []func()
	for _, s := range d.subnets {
		if !d.filters(s.acl) {
			continue
		}
		group := nativeUint32(s.linkGroup())
		from, back := r.addChain("endpoint-from-"+s.id, nil), r.addChain("endpoint-back-"+s.id, nil)
		for _, block := range s.blocks() {
			from.addRule(addressIn(false, block), returnToCaller())
			back.addRule(addressIn(true, block), returnToCaller())
		}
		from.addRule(jumpToChain("acl-out-" + s.acl))
		back.addRule(jumpToChain("acl-in-" + s.acl))
		left.elements = append(left.elements, jumpElement(group, from.name))
		entered.elements = append(entered.elements, jumpElement(group, back.name))
		if !serving[s.id] {
			continue
		}
		to, answer := r.addChain("endpoint-to-"+s.id, nil), r.addChain("endpoint-answer-"+s.id, nil)
		to.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFGROUP), equals(group)}, returnToCaller())
		to.addRule(jumpToChain("acl-in-" + s.acl))
		answer.addRule([]expr.Any{loadMeta(expr.MetaKeyOIFGROUP), equals(group)}, returnToCaller())
		answer.addRule(jumpToChain("acl-out-" + s.acl))
		for _, block := range s.blocks() {
			arrivals = append(arrivals, func() { input.addRule(addressIn(false, block), jumpToChain(to.name)) })
			answers.addRule(addressIn(true, block), jumpToChain(answer.name))
		}
	}
	r.add(left)
	r.add(entered)
	input.addRule([]expr.Any{loadMeta(expr.MetaKeyIIFGROUP), dispatch(left.name)})
	for _, add := range arrivals {
		add()
	}
	answers.addRule([]expr.Any{loadMeta(expr.MetaKeyOIFGROUP), dispatch(entered.name)})
	output := r.addChain("output", &hook{kind: nftables.ChainTypeFilter, at: nftables.ChainHookOutput,
		priority: *nftables.ChainPriorityFilter})
	output.addRule(addressInSet(true, false, "endpoints"), jumpToChain(answers.name))
	output.addRule(addressInSet(true, true, "endpoints6"), jumpToChain(answers.name))
}

// blocks returns the blocks of a subnet.
func (s subnet) blocks() []netip.Prefix {
	blocks := []netip.Prefix{s.cidr}
	if s.ipv6.IsValid() {
		blocks = append(blocks, s.ipv6.Masked())
	}
	return blocks
}
