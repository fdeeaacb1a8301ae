package reachability

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/vpcrule"
)

// Network has what the records say of one VPC. It is not safe for concurrent use.
type Network struct {
	vpc        record.VPC
	blocks     []netip.Prefix
	subnets    map[string]record.Subnet
	routes     map[string][]vpcrule.Route // by route table
	groups     map[string]record.SecurityGroup
	acls       map[string]record.NetworkACL
	interfaces []*networkInterface
	owners     map[netip.Prefix]*networkInterface
	gateways   map[string]record.InternetGateway // attached ones
	endpoints  map[string]record.VPCEndpoint
	public     map[netip.Addr]netip.Addr // by private address
	balancers  []*loadBalancer
	lists      map[string][]netip.Prefix

	// What was interpreted of security groups and network ACLs, which every packet asks.
	groupRules map[string][]groupRule
	aclRules   map[string][2][]vpcrule.ACLRule // ingress, egress

	// What was found among all interfaces, which every packet asks.
	byName       map[string]*networkInterface   // by their IDs, and those of NAT gateways
	interfacesAt map[string][]*networkInterface // by what interfacesOf was asked for
}

// groupRule is a rule of a security group, interpreted.
type groupRule struct {
	record.SecurityGroupRule
	traffic vpcrule.Traffic
	blocks  []netip.Prefix // IPv4
}

// rulesOf returns the rules of a security group.
func (n *Network) rulesOf(group string) []groupRule {
	if rules, known := n.groupRules[group]; known {
		return rules
	}
	var rules []groupRule
	for _, r := range n.groups[group].Rules {
		rule := groupRule{r, vpcrule.GroupTraffic(r), n.lists[r.PrefixListID]}
		if b := vpcrule.GroupBlock(r); b.IsValid() && b.Addr().Is4() {
			rule.blocks = []netip.Prefix{b}
		}
		rules = append(rules, rule)
	}
	if n.groupRules == nil {
		n.groupRules = map[string][]groupRule{}
	}
	n.groupRules[group] = rules
	return rules
}

// rulesOfACL returns the rules of a network ACL in one direction.
func (n *Network) rulesOfACL(acl string, egress bool) []vpcrule.ACLRule {
	rules, known := n.aclRules[acl]
	if !known {
		rules = [2][]vpcrule.ACLRule{vpcrule.ACLRules(n.acls[acl], false), vpcrule.ACLRules(n.acls[acl], true)}
		if n.aclRules == nil {
			n.aclRules = map[string][2][]vpcrule.ACLRule{}
		}
		n.aclRules[acl] = rules
	}
	if egress {
		return rules[1]
	}
	return rules[0]
}

// networkInterface is a network interface with what decides about packets to and from it.
type networkInterface struct {
	record.NetworkInterface
	addresses []netip.Prefix
	nat       string        // the ID of the NAT gateway that it belongs to
	balancer  *loadBalancer // the load balancer that it belongs to
	// state is the state of its instance unless that is running.
	state ec2types.InstanceStateName
}

// loadBalancer is a load balancer with where its listeners lead.
type loadBalancer struct {
	record.LoadBalancer
	routes []balancing.Route
}

// Load reads the VPC with that key, by record.EC2Key.
func Load(ctx context.Context, s *store.Store, key string) (*Network, error) {
	row, err := record.VPCs(s).Get(ctx, key)
	if err != nil {
		return nil, err
	}
	vpc := row.Value
	n := &Network{vpc: vpc, blocks: vpcrule.Blocks(vpc), subnets: map[string]record.Subnet{},
		routes: map[string][]vpcrule.Route{}, groups: map[string]record.SecurityGroup{},
		acls: map[string]record.NetworkACL{}, gateways: map[string]record.InternetGateway{},
		endpoints: map[string]record.VPCEndpoint{}, owners: map[netip.Prefix]*networkInterface{},
		lists: vpcrule.PrefixLists(vpc.Region)}
	region := store.Prefix(vpc.Account, vpc.Region)
	err = errors.Join(
		each(ctx, record.Subnets(s), region, func(r record.Subnet) {
			if r.VPCID == vpc.ID {
				n.subnets[r.ID] = r
			}
		}),
		each(ctx, record.RouteTables(s), region, func(r record.RouteTable) {
			if r.VPCID == vpc.ID {
				n.routes[r.ID] = vpcrule.Routes(vpc, r, n.lists)
			}
		}),
		each(ctx, record.SecurityGroups(s), region, func(r record.SecurityGroup) {
			if r.VPCID == vpc.ID {
				n.groups[r.ID] = r
			}
		}),
		each(ctx, record.NetworkACLs(s), region, func(r record.NetworkACL) {
			if r.VPCID == vpc.ID {
				n.acls[r.ID] = r
			}
		}),
		each(ctx, record.InternetGateways(s), region, func(r record.InternetGateway) {
			if r.VPCID == vpc.ID {
				n.gateways[r.ID] = r
			}
		}),
		each(ctx, record.VPCEndpoints(s), region, func(r record.VPCEndpoint) {
			if r.VPCID == vpc.ID {
				n.endpoints[r.ID] = r
			}
		}),
	)
	if err != nil {
		return nil, err
	}
	return n, n.loadInterfaces(ctx, s, region)
}

// each calls f with the records of a region.
func each[R any](ctx context.Context, t store.Table[R], prefix string, f func(R)) error {
	rows, err := t.List(ctx, prefix)
	for _, row := range rows {
		f(row.Value)
	}
	return err
}

// loadInterfaces reads the network interfaces of the VPC, and what they belong to.
func (n *Network) loadInterfaces(ctx context.Context, s *store.Store, region string) error {
	reader, balanced := balancing.NewReader(s), map[string]*loadBalancer{}
	balancers, err := record.LoadBalancersByVPC(s).List(ctx, n.vpc.Key())
	if err != nil {
		return err
	}
	for _, row := range balancers {
		routes, err := reader.Routes(ctx, row.Value)
		if err != nil {
			return err
		}
		b := &loadBalancer{row.Value, routes}
		n.balancers = append(n.balancers, b)
		for _, id := range b.InterfaceIDs() {
			balanced[id] = b
		}
	}
	nats := map[string]string{}
	if err := each(ctx, record.NATGateways(s), region, func(g record.NATGateway) {
		nats[g.NetworkInterfaceID] = g.ID
	}); err != nil {
		return err
	}
	var attached []record.NetworkInterface
	if err := each(ctx, record.NetworkInterfaces(s), region, func(r record.NetworkInterface) {
		if r.VPCID == n.vpc.ID {
			n.interfaces = append(n.interfaces, &networkInterface{NetworkInterface: r, addresses: vpcrule.Addresses(r),
				nat: nats[r.ID], balancer: balanced[r.ID]})
			for _, p := range vpcrule.Addresses(r) {
				n.owners[p] = n.interfaces[len(n.interfaces)-1]
			}
			if r.Attachment != nil {
				attached = append(attached, r)
			}
		}
	}); err != nil {
		return err
	}
	var elastic []record.Address
	if err := each(ctx, record.Addresses(s), region, func(a record.Address) {
		elastic = append(elastic, a)
	}); err != nil {
		return err
	}
	if n.public, err = vpcrule.PublicAddresses(attached, elastic); err != nil {
		return err
	}
	for _, i := range n.interfaces {
		if i.ShownInstanceID() == "" {
			continue
		}
		key := record.EC2Key(i.Account, i.Region, i.Attachment.InstanceID)
		instance, err := record.Instances(s).Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		machine, err := record.Machines(s).Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		state := record.InstanceState(instance.Value, machine.Value)
		if state != ec2types.InstanceStateNameRunning {
			i.state = state
		}
	}
	return nil
}

// has reports whether packets to an address are delivered to the interface.
func (i *networkInterface) has(a netip.Addr) bool {
	return slices.ContainsFunc(i.addresses, func(p netip.Prefix) bool { return p.Contains(a) })
}

// ungrouped reports whether the interface has no security groups by its nature: everything passes.
func (i *networkInterface) ungrouped() bool {
	return i.nat != "" || i.balancer != nil && len(i.SecurityGroupIDs) == 0
}

// served reports whether an AWS service answers at the interface, as at those of interface endpoints and mount targets.
func (i *networkInterface) served() bool {
	return i.Attachment != nil && (i.InterfaceType == ec2types.NetworkInterfaceTypeVpcEndpoint ||
		i.InterfaceType == record.InterfaceTypeEFS)
}

// forwards reports whether the interface takes and sends packets of others.
func (i *networkInterface) forwards() bool { return i.nat != "" || !i.SourceDestCheck }

// singles returns the IPv4 addresses of the interface, the primary first.
func (i *networkInterface) singles() (all []netip.Addr) {
	for _, text := range i.PrivateIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// interfaceNamed returns the interface with that ID, or of the NAT gateway with that ID; nil without one.
func (n *Network) interfaceNamed(id string) *networkInterface {
	if n.byName == nil {
		n.byName = map[string]*networkInterface{}
		for _, i := range n.interfaces {
			n.byName[i.ID] = i
			if i.nat != "" {
				n.byName[i.nat] = i
			}
		}
	}
	return n.byName[id]
}

// owner returns the interface that has an address; nil without one.
func (n *Network) owner(a netip.Addr) *networkInterface {
	for _, bits := range []int{32, 28} { // those of addresses, and of the prefixes that are delegated
		p, err := a.Prefix(bits)
		if i := n.owners[p]; err == nil && i != nil {
			return i
		}
	}
	return nil
}

// table returns the ID of the route table of a subnet.
func (n *Network) table(subnet string) string {
	if own := n.subnets[subnet].RouteTableID; own != "" {
		return own
	}
	return n.vpc.MainRouteTableID
}

// isMember reports whether an address belongs to an interface that has a security group.
func (n *Network) isMember(a netip.Addr, group string) bool {
	i := n.owner(a)
	return i != nil && i.Attachment != nil && slices.Contains(i.SecurityGroupIDs, group)
}
