package reachability

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/vpcrule"
)

// walk follows one packet through the VPC, and then its answer. What filters the packet is recorded as a problem, and
// the packet goes on, so that all problems on its way are found. It ends where no route leads on.
type walk struct {
	*Network
	packet
	// asked has the edges of the rules that decided.
	asked *questions
	// returning is set for the answer: security groups know its connection.
	returning bool

	steps    []ec2types.PathComponent
	problems []ec2types.Explanation
	hops     int

	// What the packet has met, by which its answer finds back.
	translated map[string]packet // by NAT gateway: the packet before
	proxied    *relay            // ends connections, and begins others to its targets
	balanced   *relay            // sends connections on to a target that sees the client's address
	exited     netip.Addr        // the address in the VPC that it had when it left it
}

// questions collects where the rules that decided about packets begin to decide otherwise.
type questions struct{ ports, sports, remotes edges }

// relay is a load balancer on the way.
type relay struct {
	listener
	via    *networkInterface
	before packet // that has come to it; the zero value before
}

// maxHops bounds the network interfaces on a path: routes may lead in a circle.
const maxHops = 16

// leave sends the packet from a network interface. It returns the interface to which it is delivered in the end, or the
// internet gateway by which it leaves the VPC; neither when no route leads on.
func (w *walk) leave(from *networkInterface) (*networkInterface, *record.InternetGateway) {
	for {
		if w.hops++; w.hops > maxHops {
			w.problem("NO_POSSIBLE_DESTINATION", func(e *ec2types.Explanation) { e.NetworkInterface = w.eni(from) })
			return nil, nil
		}
		if !from.forwards() && !from.has(w.from.at) {
			w.problem("ENI_SOURCE_DEST_CHECK_RESTRICTION", w.at(from, "egress"))
		}
		if b := w.balanced; b != nil && !w.returning && b.before == (packet{}) {
			w.balance(b)
		}
		w.filterByGroups(from, true)
		table := w.table(from.SubnetID)
		if w.returning && w.balanced != nil {
			table = w.table(w.balanced.via.SubnetID) // answers leave by the way of the load balancer
		}
		next, gateway, found := w.route(from, table)
		if !found {
			return nil, nil
		}
		if gateway != nil {
			w.exit(gateway)
			return nil, gateway
		}
		w.deliver(next, from.SubnetID)
		if from = w.forward(next); from == nil {
			return next, nil
		}
	}
}

// forward returns the network interface from which a delivered packet goes on; nil at the end of its way.
func (w *walk) forward(at *networkInterface) *networkInterface {
	switch p := w.proxied; {
	case at.nat != "" && !w.returning && !at.has(w.to.at):
		if w.translated == nil {
			w.translated = map[string]packet{}
		}
		w.translated[at.nat] = w.packet
		inbound := w.header()
		w.from = only(vpcrule.Primary(at.NetworkInterface))
		w.step(ec2types.PathComponent{Component: w.component(ec2types.ResourceTypeNatgateway, at.nat),
			InboundHeader: inbound, OutboundHeader: w.header()})
		return at
	case at.nat != "" && w.returning:
		before, known := w.translated[at.nat]
		if !known {
			return nil
		}
		inbound := w.header()
		w.to, w.port = before.from, before.sport
		w.step(ec2types.PathComponent{Component: w.component(ec2types.ResourceTypeNatgateway, at.nat),
			InboundHeader: inbound, OutboundHeader: w.header()})
		return at
	case p != nil && at == p.via && !w.returning && p.before == (packet{}):
		p.before = w.packet
		w.balancerSteps(p.listener)
		w.from, w.to, w.port = only(vpcrule.Primary(at.NetworkInterface)), only(p.target.Addr()), one(p.target.Port())
		return at
	case p != nil && at == p.via && w.returning:
		w.balancerSteps(p.listener)
		w.packet = p.before.reply()
		return at
	case !at.has(w.to.at):
		return at // an appliance, which is assumed to forward
	}
	return nil
}

// balance sends the packet to the target of a load balancer that keeps the address of the client.
func (w *walk) balance(b *relay) {
	b.before = w.packet
	if !b.via.ungrouped() {
		w.filterByGroups(b.via, false)
	}
	w.interfaceStep(b.via)
	w.balancerSteps(b.listener)
	w.to, w.port = only(b.target.Addr()), one(b.target.Port())
}

// route finds where a packet from a network interface goes next: to another one, or out by an internet gateway.
func (w *walk) route(from *networkInterface, table string) (*networkInterface, *record.InternetGateway, bool) {
	if i := w.owner(w.to.at); i != nil && i.served() {
		w.leaveSubnet(from.SubnetID, i.SubnetID)
		w.routeStep(table, vpcrule.Route{Route: record.Route{Destination: w.blockOf(w.to.at), Target: vpcrule.Local,
			Origin: ec2types.RouteOriginCreateRouteTable}})
		return i, nil, true
	}
	if from.served() {
		// What answers there is the router, which knows where every address is.
		next := w.owner(w.to.at)
		if next != nil {
			w.leaveSubnet(from.SubnetID, next.SubnetID)
		}
		return next, nil, next != nil
	}
	next, gateway, r, ok := w.lookup(table)
	if !ok {
		return nil, nil, false
	}
	to := ""
	if next != nil {
		to = next.SubnetID
	}
	w.leaveSubnet(from.SubnetID, to)
	w.routeStep(table, r)
	return next, gateway, true
}

// lookup asks a route table.
func (w *walk) lookup(table string) (*networkInterface, *record.InternetGateway, vpcrule.Route, bool) {
	routes := w.routes[table]
	for _, r := range routes {
		if r.To.Addr().Is4() {
			w.markAddress(blockSpan(r.To), w.to)
		}
	}
	r, ok := vpcrule.Lookup(routes, w.to.at)
	refuse := func(code string, more func(*ec2types.Explanation)) (*networkInterface, *record.InternetGateway,
		vpcrule.Route, bool) {
		w.problem(code, func(e *ec2types.Explanation) {
			e.RouteTable = w.component(ec2types.ResourceTypeRouteTable, table)
			if more != nil {
				more(e)
			}
		})
		return nil, nil, r, false
	}
	if !ok {
		return refuse("NO_ROUTE_TO_DESTINATION", func(e *ec2types.Explanation) { e.Destination = w.destination() })
	}
	withRoute := func(e *ec2types.Explanation) { e.RouteTableRoute = w.routeView(r, ec2types.RouteStateActive) }
	if r.Target == vpcrule.Local {
		next := w.owner(w.to.at)
		if next == nil {
			return refuse("NO_POSSIBLE_DESTINATION", func(e *ec2types.Explanation) {
				withRoute(e)
				e.Address = aws.String(w.to.at.String())
			})
		}
		return next, nil, r, true
	}
	if g, attached := w.gateways[r.Target]; attached {
		return nil, &g, r, true
	}
	if i := w.interfaceNamed(r.Target); i != nil && i.Attachment != nil {
		if !i.forwards() && !i.has(w.to.at) {
			return refuse("ENI_SOURCE_DEST_CHECK_RESTRICTION", func(e *ec2types.Explanation) {
				withRoute(e)
				e.NetworkInterface, e.Direction = w.eni(i), aws.String("ingress")
			})
		}
		return i, nil, r, true
	}
	if _, known := w.endpoints[r.Target]; known {
		return refuse("NO_POSSIBLE_DESTINATION", func(e *ec2types.Explanation) {
			withRoute(e)
			e.VpcEndpoint = w.component(ec2types.ResourceTypeVpcEndpoint, r.Target)
		})
	}
	return refuse("BAD_STATE_ROUTE", func(e *ec2types.Explanation) {
		e.RouteTableRoute = w.routeView(r, ec2types.RouteStateBlackhole)
		e.State = aws.String(string(ec2types.RouteStateBlackhole))
	})
}

// deliver brings the packet to a network interface, from another subnet or, where that is empty, from a gateway.
func (w *walk) deliver(to *networkInterface, from string) {
	w.enterSubnet(from, to.SubnetID)
	w.filterByGroups(to, false)
	if b := w.balanced; b != nil && w.returning {
		w.balancerSteps(b.listener)
		w.from, w.sport = b.before.to, b.before.port
	}
	w.interfaceStep(to)
	switch {
	case to.Attachment == nil:
		w.problem("BAD_STATE_ATTACHMENT", func(e *ec2types.Explanation) { e.NetworkInterface = w.eni(to) })
	case to.state != "":
		w.badState(to)
	}
}

// badState says that the instance of a network interface does not run.
func (w *walk) badState(i *networkInterface) {
	w.problem("BAD_STATE", func(e *ec2types.Explanation) {
		e.Component = w.component(ec2types.ResourceTypeInstance, i.Attachment.InstanceID)
		e.State = aws.String(string(i.state))
	})
}

// exit takes the packet out of the VPC.
func (w *walk) exit(g *record.InternetGateway) {
	inbound := w.packet
	if b := w.balanced; b != nil && w.returning {
		w.balancerSteps(b.listener)
		w.from, w.sport = b.before.to, b.before.port
	}
	public, has := w.public[w.from.at]
	w.exited = w.from.at
	refuse := func(code string) {
		w.problem(code, func(e *ec2types.Explanation) {
			e.InternetGateway = w.component(ec2types.ResourceTypeInternetGateway, g.ID)
			if i := w.owner(w.from.at); i != nil {
				e.NetworkInterface = w.eni(i)
			}
		})
	}
	if !has {
		refuse("IGW_PUBLIC_IP_ASSOCIATION_FOR_EGRESS")
	}
	if code := privateRange(w.to.at); code != "" && !w.returning {
		refuse("IGW_DESTINATION_ADDRESS_NOT_IN_" + code + "_EGRESS")
	}
	if has {
		w.from = only(public)
	}
	w.step(ec2types.PathComponent{Component: w.component(ec2types.ResourceTypeInternetGateway, g.ID),
		InboundHeader: inbound.header(), OutboundHeader: w.header(), Vpc: w.vpcComponent()})
}

// privateRange returns the document that makes an address a private one; empty for those of the internet.
func privateRange(a netip.Addr) string {
	switch {
	case a.IsPrivate():
		return "RFC1918"
	case netip.MustParsePrefix("100.64.0.0/10").Contains(a):
		return "RFC6598"
	}
	return ""
}

// enter brings a packet from the internet into the VPC, to a private address.
func (w *walk) enter(g record.InternetGateway, private netip.Addr) (*networkInterface, *record.InternetGateway) {
	refuse := func(code string) {
		w.problem(code, func(e *ec2types.Explanation) {
			e.InternetGateway = w.component(ec2types.ResourceTypeInternetGateway, g.ID)
			if i := w.owner(private); i != nil {
				e.NetworkInterface = w.eni(i)
			}
		})
	}
	public, has := w.public[private]
	if code := privateRange(w.from.at); code != "" && !w.returning {
		refuse("IGW_SOURCE_ADDRESS_NOT_IN_" + code + "_INGRESS")
	}
	switch {
	case has:
		w.to = only(public)
	case !w.returning: // otherwise, the packet did not get out
		refuse("IGW_PRIVATE_IP_ASSOCIATION_FOR_INGRESS")
	}
	inbound := w.header()
	w.to = only(private)
	w.step(ec2types.PathComponent{Component: w.component(ec2types.ResourceTypeInternetGateway, g.ID),
		InboundHeader: inbound, OutboundHeader: w.header(), Vpc: w.vpcComponent()})
	if b := w.balanced; b != nil && !w.returning {
		w.balance(b)
	}
	next := w.owner(w.to.at)
	if g.RouteTableID != "" {
		found, gateway, r, ok := w.lookup(g.RouteTableID)
		if !ok || gateway != nil {
			return nil, nil
		}
		w.routeStep(g.RouteTableID, r)
		next = found
	}
	if next == nil {
		w.problem("NO_POSSIBLE_DESTINATION", func(e *ec2types.Explanation) {
			e.InternetGateway = w.component(ec2types.ResourceTypeInternetGateway, g.ID)
			e.Address = aws.String(w.to.at.String())
		})
		return nil, nil
	}
	w.deliver(next, "")
	if on := w.forward(next); on != nil {
		return w.leave(on)
	}
	return next, nil
}

// leaveSubnet asks the network ACL of the subnet that the packet leaves.
func (w *walk) leaveSubnet(from, to string) {
	if from != to {
		w.filterByACL(from, true)
	}
}

// enterSubnet asks the network ACL of the subnet that the packet enters.
func (w *walk) enterSubnet(from, to string) {
	if from != to {
		w.filterByACL(to, false)
	}
}

// filterByACL asks the network ACL of a subnet. The first rule that matches decides.
func (w *walk) filterByACL(subnet string, egress bool) {
	acl, known := w.acls[w.subnets[subnet].NetworkACLID]
	if !known {
		return
	}
	peer := w.from
	if egress {
		peer = w.to
	}
	decided := lastRule(egress)
	for _, r := range w.rulesOfACL(acl.ID, egress) {
		if !r.Block.Addr().Is4() || !r.Traffic.All && r.Traffic.Protocol != w.protocol {
			continue
		}
		w.markAddress(blockSpan(r.Block), peer)
		if r.Traffic.Ports != nil {
			w.markPorts(portSpan(*r.Traffic.Ports))
		}
		if r.Block.Contains(peer.at) && r.Traffic.Matches(w.protocol, w.port.port()) {
			decided = r
			break
		}
	}
	view := aclView(decided)
	w.step(ec2types.PathComponent{Component: w.component(ec2types.ResourceTypeNetworkAcl, acl.ID), AclRule: view})
	if decided.Allow {
		return
	}
	w.problem("SUBNET_ACL_RESTRICTION", func(e *ec2types.Explanation) {
		e.Acl, e.AclRule = w.component(ec2types.ResourceTypeNetworkAcl, acl.ID), view
		e.Subnet, e.Direction = w.component(ec2types.ResourceTypeSubnet, subnet), aws.String(direction(egress))
	})
}

// lastRule is the rule of every network ACL that denies what no other matches.
func lastRule(egress bool) vpcrule.ACLRule {
	everywhere := netip.MustParsePrefix("0.0.0.0/0")
	return vpcrule.ACLRule{Block: everywhere, Traffic: vpcrule.Traffic{All: true},
		NetworkACLEntry: record.NetworkACLEntry{Number: 32767, Egress: egress, Protocol: "-1",
			Action: ec2types.RuleActionDeny, CIDR: everywhere.String()}}
}

// filterByGroups asks the security groups of a network interface. Any rule that matches lets the packet pass; what
// belongs to a connection that has passed does so, too.
func (w *walk) filterByGroups(i *networkInterface, egress bool) {
	if i.ungrouped() {
		return
	}
	var all []ec2types.AnalysisComponent
	rules := 0
	for _, id := range i.SecurityGroupIDs {
		if _, known := w.groups[id]; !known {
			continue
		}
		component := w.component(ec2types.ResourceTypeSecurityGroup, id)
		if w.returning {
			w.step(ec2types.PathComponent{Component: component})
			return
		}
		all = append(all, *component)
		for _, r := range w.rulesOf(id) {
			if r.Egress != egress {
				continue
			}
			rules++
			if w.matchesRule(r) {
				w.step(ec2types.PathComponent{Component: component, SecurityGroupRule: ruleView(r.SecurityGroupRule)})
				return
			}
		}
	}
	if w.returning {
		return
	}
	code := "ENI_SG_RULES_MISMATCH"
	if rules == 0 && len(all) > 0 {
		code = "SG_HAS_NO_RULES"
	}
	w.problem(code, func(e *ec2types.Explanation) {
		w.at(i, direction(egress))(e)
		e.SecurityGroups = all
		if code == "SG_HAS_NO_RULES" {
			e.SecurityGroup = &all[0]
		}
	})
}

// matchesRule reports whether a rule of a security group matches the packet.
func (w *walk) matchesRule(r groupRule) bool {
	traffic, peer := r.traffic, w.from
	if r.Egress {
		peer = w.to
	}
	if !traffic.All && traffic.Protocol != w.protocol {
		return false
	}
	if traffic.Ports != nil {
		w.markPorts(portSpan(*traffic.Ports))
	}
	for _, b := range r.blocks {
		w.markAddress(blockSpan(b), peer)
	}
	if !traffic.Matches(w.protocol, w.port.port()) {
		return false
	}
	if r.GroupID != "" {
		// What comes by a load balancer that keeps the client's address comes from the load balancer's groups, too.
		return w.isMember(peer.at, r.GroupID) || w.balanced != nil && !r.Egress && w.balanced.before != (packet{}) &&
			slices.Contains(w.balanced.via.SecurityGroupIDs, r.GroupID)
	}
	return slices.ContainsFunc(r.blocks, func(b netip.Prefix) bool { return b.Contains(peer.at) })
}

// markPorts records the ports of a rule that was asked: its edges are where another packet could fare otherwise.
func (w *walk) markPorts(s span) {
	if w.returning {
		w.asked.sports.mark(s)
	} else {
		w.asked.ports.mark(s)
	}
}

// markAddress is markPorts for the address of a packet, if that is not given.
func (w *walk) markAddress(s span, of place) {
	if of.first != of.last {
		w.asked.remotes.mark(s)
	}
}

// listener is a listener of a load balancer with the target to which it leads.
type listener struct {
	balancer *loadBalancer
	route    balancing.Route
	group    *record.TargetGroup // nil for Classic Load Balancers
	target   netip.AddrPort
}

func direction(egress bool) string {
	if egress {
		return "egress"
	}
	return "ingress"
}

// blockOf returns the block of the VPC that has an address.
func (w *walk) blockOf(a netip.Addr) string {
	for _, b := range w.blocks {
		if b.Contains(a) {
			return b.String()
		}
	}
	return a.String()
}

// isResource reports whether an ID is of a kind of resource.
func isResource(id, prefix string) bool { return strings.HasPrefix(id, prefix) }
