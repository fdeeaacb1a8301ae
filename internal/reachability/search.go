package reachability

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/vpcrule"
)

// Path is what to look for a way for.
type Path struct {
	Protocol byte // vpcrule.TCP or vpcrule.UDP
	// Source is the ID of an instance, a network interface or an internet gateway. Destination is one of those, of a VPC
	// endpoint, or empty for an address alone.
	Source, Destination string
	// AtSource and AtDestination are what the packet is there.
	AtSource, AtDestination Filter
	// Through are ARNs of what the path has to contain, Without of what it must not contain.
	Through, Without []string
}

// Filter restricts packets. What is not valid, or nil, restricts nothing.
type Filter struct {
	Source, Destination          netip.Addr
	SourcePorts, DestinationPort *vpcrule.Ports
}

// Result is the result of an analysis.
type Result struct {
	Found           bool
	Forward, Return []ec2types.PathComponent
	// Explanations are what is in the way if no path was found.
	Explanations []ec2types.Explanation
}

// ErrTooComplex reports that rules and addresses make more cases than an analysis looks at.
var ErrTooComplex = errors.New("the security groups, network ACLs and addresses on the way make too many cases; " +
	"specify the addresses and the destination port of the path")

// maxWalks bounds the packets that an analysis follows, and the candidates that it looks at.
const maxWalks = 10_000

// maxRestrictions bounds what is explained of the components that a path has to contain or must not contain.
const maxRestrictions = 10

// candidate is a way to begin: from a network interface or from a gateway, to an address.
type candidate struct {
	source   *networkInterface
	gateway  *record.InternetGateway // where packets come from without source
	from, to netip.Addr              // not valid for addresses on the internet
	listener *listener               // of the load balancer on the way
	via      *networkInterface       // that of the load balancer
}

// Analyze looks for a way until ctx ends.
func (n *Network) Analyze(ctx context.Context, p Path) (Result, error) {
	if n.elsewhere(p.Destination) {
		return n.refuse(p, "NO_ROUTE_TO_DESTINATION"), nil
	}
	var best *attempt
	candidates, walks := 0, 0
	for c := range n.candidates(p) {
		if candidates++; candidates > maxWalks { // some have no packet: those of listeners that are not the path's
			return Result{}, ErrTooComplex
		}
		q := &questions{edges{}, edges{}, edges{}}
		for asked := -1; asked != len(q.ports)+len(q.sports)+len(q.remotes); {
			// What was asked may have shown new edges: packets between them are others than those that were followed.
			asked = len(q.ports) + len(q.sports) + len(q.remotes)
			for packet := range n.packets(p, c, q) {
				if walks++; walks > maxWalks {
					return Result{}, ErrTooComplex
				}
				if err := ctx.Err(); err != nil {
					return Result{}, err
				}
				a := n.try(p, c, packet, q)
				if len(a.problems) == 0 {
					return Result{Found: true, Forward: a.forward, Return: a.back}, nil
				}
				if best == nil || len(a.problems) < len(best.problems) {
					best = a
				}
			}
		}
	}
	if best == nil {
		return n.refuse(p, n.notBegun(p)), nil
	}
	return Result{Explanations: best.problems}, nil
}

// notBegun returns why there is no packet that a path could be about.
func (n *Network) notBegun(p Path) string {
	if _, ok := n.gateways[p.Source]; !ok && len(n.interfacesOf(p.Source)) == 0 {
		return "BAD_STATE_ATTACHMENT"
	}
	for _, b := range n.balancers {
		for _, z := range b.Zones {
			at, err := netip.ParseAddr(z.PrivateIP)
			if err != nil || !p.AtSource.Destination.IsValid() || !n.mayBegin(p, at) {
				continue
			}
			if b.Kind == record.ClassicLoadBalancer {
				return "ELB_LISTENERS_MISMATCH"
			}
			return "ELBV2_LISTENERS_MISMATCH"
		}
	}
	return "NO_POSSIBLE_DESTINATION"
}

// refuse returns the result for a path whose ends are not connected at all.
func (n *Network) refuse(p Path, code string) Result {
	w := &walk{Network: n, asked: &questions{edges{}, edges{}, edges{}}}
	w.problem(code, func(e *ec2types.Explanation) {
		for _, i := range n.interfacesOf(p.Source) {
			e.NetworkInterface = n.eni(i)
			e.RouteTable = n.component(ec2types.ResourceTypeRouteTable, n.table(i.SubnetID))
		}
		if kind := kindOf(p.Destination); kind != "" {
			e.Destination = n.component(kind, p.Destination)
		}
		if kind := kindOf(p.Source); kind != "" {
			e.Component = n.component(kind, p.Source)
		}
	})
	return Result{Explanations: w.problems}
}

// kindOf returns the type of what a path can begin or end at.
func kindOf(id string) ec2types.ResourceType {
	switch {
	case isResource(id, "i-"):
		return ec2types.ResourceTypeInstance
	case isResource(id, "eni-"):
		return ec2types.ResourceTypeNetworkInterface
	case isResource(id, "igw-"):
		return ec2types.ResourceTypeInternetGateway
	case isResource(id, "vpce-"):
		return ec2types.ResourceTypeVpcEndpoint
	}
	return ""
}

// elsewhere reports whether the destination is in another VPC.
func (n *Network) elsewhere(id string) bool {
	if isResource(id, "igw-") {
		_, here := n.gateways[id]
		return !here
	}
	return id != "" && len(n.interfacesOf(id)) == 0
}

// interfacesOf returns the network interfaces of a source or destination, in the order of their device indexes.
func (n *Network) interfacesOf(id string) []*networkInterface {
	if all, known := n.interfacesAt[id]; known {
		return all
	}
	var all []*networkInterface
	ofEndpoint := n.endpoints[id].NetworkInterfaceIDs
	for _, i := range n.interfaces {
		if id != "" && (i.ID == id || i.ShownInstanceID() == id || slices.Contains(ofEndpoint, i.ID)) {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b *networkInterface) int { return cmp.Compare(a.index(), b.index()) })
	if n.interfacesAt == nil {
		n.interfacesAt = map[string][]*networkInterface{}
	}
	n.interfacesAt[id] = all
	return all
}

func (i *networkInterface) index() int32 {
	if i.Attachment == nil {
		return 0
	}
	return i.Attachment.DeviceIndex
}

// candidates returns the ways to begin, direct ones before those by load balancers: from each source to each end.
func (n *Network) candidates(p Path) iter.Seq[candidate] {
	sources := n.sources(p)
	direct, balanced := n.ends(p)
	return func(yield func(candidate) bool) {
		for _, ends := range [][]candidate{direct, balanced} {
			for _, s := range sources {
				for _, c := range ends {
					c.source, c.gateway, c.from = s.source, s.gateway, s.from
					if !yield(c) {
						return
					}
				}
			}
		}
	}
}

// sources returns where packets come from.
func (n *Network) sources(p Path) (all []candidate) {
	if g, ok := n.gateways[p.Source]; ok {
		all = []candidate{{gateway: &g, from: cmp.Or(p.AtSource.Source, p.AtDestination.Source)}}
	}
	given := p.AtSource.Source
	for _, i := range n.interfacesOf(p.Source) {
		if given.IsValid() {
			all = append(all, candidate{source: i, from: given})
			continue
		}
		for _, a := range i.singles() {
			all = append(all, candidate{source: i, from: a})
		}
	}
	if given.IsValid() {
		// Of several interfaces, the one that has the address.
		slices.SortStableFunc(all, func(a, b candidate) int {
			has := func(c candidate) int {
				if c.source != nil && c.source.has(given) {
					return 0
				}
				return 1
			}
			return has(a) - has(b)
		})
	}
	return all
}

// ends returns where packets are sent to: to the destination, or to load balancers that lead there. Of either it
// returns no more than make the path too complex.
func (n *Network) ends(p Path) (direct, balanced []candidate) {
	if p.Destination == "" || isResource(p.Destination, "igw-") {
		return []candidate{{to: cmp.Or(p.AtDestination.Destination, p.AtSource.Destination)}}, nil
	}
	given := p.AtDestination.Destination
	for private, public := range n.public {
		if given.IsValid() && public == given {
			given = private
			break
		}
	}
	targets := map[netip.Addr]bool{}
	for _, i := range n.interfacesOf(p.Destination) {
		addresses := []netip.Addr{given}
		if !given.IsValid() {
			addresses = i.singles()
		}
		for _, a := range addresses {
			targets[a] = true
			if len(direct) <= maxWalks && n.mayBegin(p, a) {
				direct = append(direct, candidate{to: a})
			}
		}
	}
	return direct, n.byBalancer(p, targets)
}

// mayBegin reports whether packets to an address, private or public, are those that the path is about.
func (n *Network) mayBegin(p Path, to netip.Addr) bool {
	given := p.AtSource.Destination
	return !given.IsValid() || given == to || given == n.public[to]
}

// byBalancer returns the ends at load balancers that lead to a target.
func (n *Network) byBalancer(p Path, targets map[netip.Addr]bool) (all []candidate) {
	for _, b := range n.balancers {
		for _, r := range b.routes {
			if (r.Listener.Protocol == "UDP") != (p.Protocol == vpcrule.UDP) && r.Listener.Protocol != "TCP_UDP" {
				continue
			}
			groups := []listener{{balancer: b, route: r, group: r.Group}}
			for _, g := range r.Groups {
				groups = append(groups, listener{balancer: b, route: r, group: &g.TargetGroup})
			}
			for _, l := range groups {
				for _, m := range poolOf(l).Members {
					if !targets[m.Address.Addr()] || m.State == record.TargetDraining {
						continue
					}
					l.target = m.Address
					if all = append(all, n.byZones(p, l, m.Zone)...); len(all) > maxWalks {
						return all
					}
				}
			}
		}
	}
	return all
}

// poolOf returns the targets to which a listener leads.
func poolOf(l listener) balancing.Pool {
	for _, g := range l.route.Groups {
		if l.group != nil && g.Name == l.group.Name {
			return g.Pool
		}
	}
	return l.route.Pool
}

// byZones returns the ends at the network interfaces of a load balancer that send to targets of a zone.
func (n *Network) byZones(p Path, l listener, zone string) (all []candidate) {
	cross := l.balancer.CrossZone()
	if l.group != nil {
		cross = balancing.CrossZone(l.balancer.LoadBalancer, *l.group)
	}
	for _, z := range l.balancer.Zones {
		via, at := n.interfaceNamed(z.NetworkInterfaceID), netip.Addr{}
		if via != nil {
			at = vpcrule.Primary(via.NetworkInterface)
		}
		if !at.IsValid() || !cross && zone != "" && z.Name != zone || !n.mayBegin(p, at) {
			continue
		}
		all = append(all, candidate{to: at, listener: &l, via: via})
	}
	return all
}

// packets returns a packet for each range that the rules which were asked tell apart.
func (n *Network) packets(p Path, c candidate, q *questions) func(yield func(packet) bool) {
	every := span{0, 65535}
	sports, ports := []span{every}, []span{every}
	limit := func(to *[]span, r *vpcrule.Ports) {
		if r != nil {
			*to = []span{portSpan(*r)}
		}
	}
	limit(&sports, p.AtSource.SourcePorts)
	limit(&ports, p.AtSource.DestinationPort)
	if c.listener == nil {
		if p.AtSource.SourcePorts == nil {
			limit(&sports, p.AtDestination.SourcePorts)
		}
		if p.AtSource.DestinationPort == nil {
			limit(&ports, p.AtDestination.DestinationPort)
		}
	} else {
		listening := uint32(c.listener.route.Listener.Port)
		ports = slices.DeleteFunc(ports, func(s span) bool { return listening < s.first || listening > s.last })
		if len(ports) > 0 {
			ports = []span{{listening, listening}}
		}
	}
	remotes := []span{{}}
	if !c.from.IsValid() || !c.to.IsValid() {
		remotes = q.remotes.split(n.internet())
	}
	sports, ports = q.sports.split(sports), q.ports.split(ports)
	return func(yield func(packet) bool) {
		for _, remote := range remotes {
			beyond := place{address(remote.first), remote}
			from, to := beyond, beyond
			if c.from.IsValid() {
				from = only(c.from)
			}
			if c.to.IsValid() {
				to = only(c.to)
			}
			for _, port := range ports {
				for _, sport := range sports {
					if !yield(packet{p.Protocol, from, to, sport, port}) {
						return
					}
				}
			}
		}
	}
}

// attempt is what became of one packet.
type attempt struct {
	forward, back []ec2types.PathComponent
	problems      []ec2types.Explanation
}

// try follows a packet and its answer.
func (n *Network) try(p Path, c candidate, first packet, q *questions) *attempt {
	w := &walk{Network: n, packet: first, asked: q}
	if c.listener != nil && c.listener.route.Path() == balancing.ByRouter {
		w.balanced = &relay{listener: *c.listener, via: c.via}
	} else if c.listener != nil {
		w.proxied = &relay{listener: *c.listener, via: c.via}
	}
	var end *networkInterface
	var gateway *record.InternetGateway
	if c.gateway != nil {
		end, gateway = w.enter(*c.gateway, c.to)
	} else {
		end, gateway = w.begin(c.source)
	}
	arrived := w.arrived(p, end, gateway)
	if arrived {
		w.checkFilter(p.AtDestination, first)
	}
	forward := w.steps
	if !arrived {
		return &attempt{forward: forward, problems: w.problems}
	}
	w.answer(c, end, gateway)
	w.checkComponents(p, forward)
	return &attempt{forward: forward, back: w.steps, problems: w.problems}
}

// begin sends the packet from its source.
func (w *walk) begin(from *networkInterface) (*networkInterface, *record.InternetGateway) {
	header := w.header()
	if id := from.ShownInstanceID(); id != "" {
		w.step(ec2types.PathComponent{Component: w.component(ec2types.ResourceTypeInstance, id), OutboundHeader: header})
		header = nil
	}
	w.interfaceStep(from)
	w.steps[len(w.steps)-1].OutboundHeader = header
	switch {
	case from.Attachment == nil:
		w.problem("BAD_STATE_ATTACHMENT", func(e *ec2types.Explanation) { e.NetworkInterface = w.eni(from) })
	case from.state != "" && !w.returning:
		w.badState(from)
	}
	return w.leave(from)
}

// arrived reports whether the packet is where it is to be, and says so if it is elsewhere.
func (w *walk) arrived(p Path, end *networkInterface, gateway *record.InternetGateway) bool {
	switch {
	case end == nil && gateway == nil:
		return false
	case p.Destination == "" && (gateway != nil || end.has(w.to.at)):
	case gateway != nil && gateway.ID == p.Destination:
	case end != nil && slices.Contains(w.interfacesOf(p.Destination), end):
	case gateway != nil:
		w.problem("IGW_NAT_REFLECTION", func(e *ec2types.Explanation) {
			e.InternetGateway = w.component(ec2types.ResourceTypeInternetGateway, gateway.ID)
		})
		return false
	default:
		w.problem("NO_POSSIBLE_DESTINATION", func(e *ec2types.Explanation) { e.NetworkInterface = w.eni(end) })
		return false
	}
	if end != nil {
		w.endStep(end)
	}
	return true
}

// endStep ends a path at the instance of a network interface, or at the interface itself.
func (w *walk) endStep(i *networkInterface) {
	if id := i.ShownInstanceID(); id != "" {
		w.step(ec2types.PathComponent{Component: w.component(ec2types.ResourceTypeInstance, id), InboundHeader: w.header()})
		return
	}
	w.steps[len(w.steps)-1].InboundHeader = w.header()
}

// answer follows the answer to a packet that has arrived.
func (w *walk) answer(c candidate, end *networkInterface, gateway *record.InternetGateway) {
	private := w.exited
	w.packet, w.returning, w.steps, w.hops = w.reply(), true, nil, 0
	var back *networkInterface
	var out *record.InternetGateway
	if gateway != nil {
		back, out = w.enter(*gateway, private)
	} else {
		back, out = w.begin(end)
	}
	switch {
	case back == nil && out == nil:
	case out != nil && c.gateway != nil && out.ID == c.gateway.ID:
	case back != nil && back == c.source:
		w.endStep(back)
	case out != nil:
		w.problem("IGW_NAT_REFLECTION", func(e *ec2types.Explanation) {
			e.InternetGateway = w.component(ec2types.ResourceTypeInternetGateway, out.ID)
		})
	default:
		w.problem("NO_POSSIBLE_DESTINATION", func(e *ec2types.Explanation) { e.NetworkInterface = w.eni(back) })
	}
}

// checkFilter refuses a packet that is not at its destination as the path says.
func (w *walk) checkFilter(f Filter, first packet) {
	outside := func(r *vpcrule.Ports, s span) bool {
		return r != nil && (int64(s.first) < int64(r.From) || int64(s.last) > int64(r.To))
	}
	if f.Source.IsValid() && f.Source != w.from.at ||
		f.Destination.IsValid() && f.Destination != w.to.at && f.Destination != first.to.at &&
			f.Destination != w.public[w.to.at] ||
		outside(f.SourcePorts, w.sport) || outside(f.DestinationPort, w.port) {
		w.problem("COMPONENT_FILTER_RESTRICTION", func(e *ec2types.Explanation) {
			e.PacketField = aws.String("destination")
		})
	}
}

// checkComponents refuses a path that does not contain what it has to, or contains what it must not.
func (w *walk) checkComponents(p Path, path []ec2types.PathComponent) {
	if len(p.Through)+len(p.Without) == 0 {
		return
	}
	has := arnsOf(path)
	left := maxRestrictions
	check := func(arns []string, wanted bool) {
		for _, arn := range arns {
			if has[arn] == wanted || left == 0 {
				continue
			}
			left--
			w.problem("COMPONENT_FILTER_RESTRICTION", func(e *ec2types.Explanation) {
				e.Component = &ec2types.AnalysisComponent{Arn: aws.String(arn)}
			})
		}
	}
	check(p.Through, true)
	check(p.Without, false)
}

// arnsOf returns the ARNs of the components of a path, and of what belongs to them.
func arnsOf(path []ec2types.PathComponent) map[string]bool {
	all := map[string]bool{}
	for _, c := range path {
		for _, has := range []*ec2types.AnalysisComponent{c.Component, c.AttachedTo, c.Subnet, c.Vpc,
			c.ElasticLoadBalancerListener} {
			if has != nil {
				all[aws.ToString(has.Arn)] = true
			}
		}
	}
	return all
}
