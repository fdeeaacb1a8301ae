// Package balancing derives from the records where load balancers lead: the addresses of the targets behind each
// listener, which of them get traffic, and the addresses of a load balancer's DNS name.
//
// The network, the proxy and DNS act on the same answer. It reads LoadBalancers, TargetGroups, TargetHealths,
// NetworkInterfaces and Subnets, and writes nothing.
package balancing

import (
	"context"
	"errors"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Member is a target with its address.
type Member struct {
	Name         string // [TargetName]; of an Application Load Balancer with an address in place of its ARN
	ID           string
	Address      netip.AddrPort
	Zone         string // empty if it is in none
	RegisteredAt time.Time
	Deregistered time.Time
	State        string // as it was observed; record.TargetInitial if it was not
	HealthySince time.Time
}

// Pool has the targets of a listener, or of a target group.
type Pool struct {
	Key     string // of its TargetHealth
	Owner   string // the ID of the load balancer or target group
	Members []Member
	Check   record.HealthCheck
	Version string // of the protocol of an Application Load Balancer's targets: "HTTP1", "HTTP2" or "GRPC"
	// FailsOpen reports whether all targets get traffic when none is healthy.
	FailsOpen bool
}

// TargetName names a target among those of its group: an instance of a Classic Load Balancer has no port.
func TargetName(id string, port int32) string {
	if port == 0 {
		return id
	}
	return id + ":" + strconv.Itoa(int(port))
}

// Reader reads what load balancers lead to.
type Reader struct {
	balancers  store.Table[record.LoadBalancer]
	groups     store.Table[record.TargetGroup]
	healths    store.Table[record.TargetHealth]
	leading    store.Index[record.TargetGroup] // to Application Load Balancers, by the ARNs of these
	interfaces store.Index[record.NetworkInterface]
	subnets    store.Index[record.Subnet]
}

// NewReader returns a Reader of a store.
func NewReader(s *store.Store) *Reader {
	return &Reader{balancers: record.LoadBalancers(s), groups: record.TargetGroups(s), healths: record.TargetHealths(s),
		leading: record.TargetGroupsByApplication(s), interfaces: record.InterfacesByInstance(s),
		subnets: record.SubnetsByVPC(s)}
}

// Route is a listener of a load balancer with its pools. A listener of a Network Load Balancer that leads to several
// target groups has a route to each.
type Route struct {
	Listener record.Listener
	Share    Share
	// Pool is that of a Classic or a Network Load Balancer.
	Pool  Pool
	Group *record.TargetGroup // of a Network Load Balancer
	// Groups are those to which the default actions and the rules of an Application Load Balancer lead, by name.
	Groups []Group
}

// Group is a target group with its pool.
type Group struct {
	record.TargetGroup
	Pool Pool
}

// Pools returns the pools to which a route leads.
func (r Route) Pools() []Pool {
	if r.Pool.Key != "" {
		return []Pool{r.Pool}
	}
	all := make([]Pool, 0, len(r.Groups))
	for _, g := range r.Groups {
		all = append(all, g.Pool)
	}
	return all
}

// Routes returns the listeners of a load balancer with their targets.
func (r *Reader) Routes(ctx context.Context, b record.LoadBalancer) ([]Route, error) {
	var routes []Route
	groups := map[string]Group{} // which listeners have in common
	for _, l := range b.Listeners {
		if b.Kind == record.ClassicLoadBalancer {
			pool, err := r.Instances(ctx, b, l.InstancePort)
			if err != nil {
				return nil, err
			}
			routes = append(routes, Route{Listener: l, Pool: pool})
			continue
		}
		route, own := Route{Listener: l}, []Route(nil)
		several := l.TargetGroup == ""
		for _, name := range l.TargetGroups() {
			group, known := groups[name]
			if !known {
				row, err := r.groups.Get(ctx, record.TargetGroupKey(b.Account, b.Region, name))
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil {
					return nil, err
				}
				pool, err := r.Group(ctx, row.Value)
				if err != nil {
					return nil, err
				}
				group = Group{row.Value, pool}
				groups[name] = group
			}
			if b.Kind == record.NetworkLoadBalancer {
				route.Pool, route.Group = group.Pool, &group.TargetGroup
				own = append(own, route)
			} else {
				route.Groups = append(route.Groups, group)
			}
		}
		if several && b.Kind == record.NetworkLoadBalancer {
			routes = append(routes, weigh(l, own)...)
		} else if b.Kind == record.ApplicationLoadBalancer || route.Group != nil {
			routes = append(routes, route)
		}
	}
	return routes, nil
}

// Share is the part of new connections that one of several target groups of a listener gets: Weight of Of of those that
// no route before it takes. The zero value is all.
type Share struct {
	Weight, Of uint32
	Sticky     bool // whether all connections of a client go to one target group
}

// All reports whether a route takes all connections that come to it.
func (s Share) All() bool { return s.Weight == s.Of }

// None reports whether a route takes no connection.
func (s Share) None() bool { return s.Weight == 0 && s.Of > 0 }

// weigh gives the routes of a listener their shares, in the order in which connections come to what forwards them: to
// the router, the namespace of the load balancer, and the process in it. A target group without targets has no share.
func weigh(l record.Listener, routes []Route) []Route {
	weights := map[string]uint32{}
	for _, a := range l.Actions {
		for _, g := range a.Groups {
			weights[g.Name] = uint32(g.Weight)
		}
	}
	order := map[Path]int{ByRouter: 0, ByNamespace: 1, ByProcess: 2}
	slices.SortStableFunc(routes, func(x, y Route) int { return order[x.Path()] - order[y.Path()] })
	var left uint32
	for i := range routes {
		r := &routes[i]
		r.Share.Sticky = slices.ContainsFunc(l.Actions, func(a record.ListenerAction) bool { return a.BySource })
		if len(r.Pool.ServingMembers("", true)) > 0 {
			r.Share.Weight = weights[r.Group.Name]
		}
		left += r.Share.Weight
	}
	for i := range routes {
		share := &routes[i].Share
		share.Of = max(left, 1)
		left -= share.Weight
	}
	return routes
}

// Instances returns the instances of a Classic Load Balancer, at a port.
func (r *Reader) Instances(ctx context.Context, b record.LoadBalancer, port int32) (Pool, error) {
	pool := Pool{Key: b.Key(), Owner: b.ID}
	if b.Classic == nil {
		return pool, nil
	}
	pool.Check = b.Classic.HealthCheck
	observed, err := r.observed(ctx, pool.Key, pool.Owner)
	if err != nil {
		return pool, err
	}
	for _, i := range b.Classic.Instances {
		m := Member{Name: TargetName(i.ID, 0), ID: i.ID, RegisteredAt: i.RegisteredAt,
			Deregistered: i.DeregisteredAt}
		address, zone, err := r.instance(ctx, b.Account, b.Region, i.ID)
		if err != nil {
			return pool, err
		}
		m.Zone = zone
		pool.add(m, address, port, observed)
	}
	return pool, nil
}

// add adds a target at an address, which is not valid for one without.
func (p *Pool) add(m Member, address netip.Addr, port int32, observed map[string]record.TargetState) {
	if address.IsValid() {
		m.Address = netip.AddrPortFrom(address, uint16(port))
	}
	m.State, m.HealthySince = stateOf(observed, m)
	p.Members = append(p.Members, m)
}

// Group returns the targets of a target group. An Application Load Balancer is one in each of its zones.
func (r *Reader) Group(ctx context.Context, g record.TargetGroup) (Pool, error) {
	pool := Pool{Key: g.TargetHealthKey(), Owner: g.ID, Check: g.HealthCheck, Version: g.Version, FailsOpen: true}
	observed, err := r.observed(ctx, pool.Key, pool.Owner)
	if err != nil {
		return pool, err
	}
	var zones []zone
	if g.TargetType == "ip" {
		if zones, err = r.zones(ctx, g); err != nil {
			return pool, err
		}
	}
	for _, t := range g.Targets {
		m := Member{Name: TargetName(t.ID, t.Port), ID: t.ID, RegisteredAt: t.RegisteredAt,
			Deregistered: t.DeregisteredAt}
		var address netip.Addr
		switch g.TargetType {
		case "ip":
			address, _ = netip.ParseAddr(t.ID)
			m.Zone = zoneOf(address, zones)
		case "alb":
			if !t.DeregisteredAt.IsZero() {
				continue // its connections go on, and nobody has to find it
			}
			places, err := r.application(ctx, g, t.ID)
			if err != nil {
				return pool, err
			}
			for _, z := range places {
				m.Name, m.Zone = TargetName(z.PrivateIP, t.Port), z.Name
				address, _ = netip.ParseAddr(z.PrivateIP)
				pool.add(m, address, t.Port, observed)
			}
			continue
		default:
			if address, m.Zone, err = r.instance(ctx, g.Account, g.Region, t.ID); err != nil {
				return pool, err
			}
		}
		pool.add(m, address, t.Port, observed)
	}
	return pool, nil
}

// application returns the places of an Application Load Balancer, by its ARN; none once it is gone.
func (r *Reader) application(ctx context.Context, g record.TargetGroup, arn string) ([]record.LoadBalancerZone, error) {
	name := path.Base(path.Dir(arn)) // arn:aws:elasticloadbalancing:REGION:ACCOUNT:loadbalancer/app/NAME/ID
	row, err := r.balancers.Get(ctx, record.LoadBalancerKey(g.Account, g.Region, record.ApplicationLoadBalancer, name))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ARN() != arn {
		return nil, nil
	}
	return row.Value.Zones, err
}

func (r *Reader) observed(ctx context.Context, key, owner string) (map[string]record.TargetState, error) {
	row, err := r.healths.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.Owner != owner {
		return nil, nil
	}
	return row.Value.Targets, err
}

func stateOf(observed map[string]record.TargetState, m Member) (state string, since time.Time) {
	if !m.Deregistered.IsZero() {
		return record.TargetDraining, time.Time{}
	}
	if s, ok := observed[m.Name]; ok && s.RegisteredAt.Equal(m.RegisteredAt) {
		return s.State, s.HealthySince
	}
	return record.TargetInitial, time.Time{}
}

// instance returns the primary address of an instance and its Availability Zone; none once it is gone.
func (r *Reader) instance(ctx context.Context, account, region, id string) (netip.Addr, string, error) {
	rows, err := r.interfaces.List(ctx, record.EC2Key(account, region, id))
	if err != nil {
		return netip.Addr{}, "", err
	}
	for _, row := range rows {
		eni := row.Value
		if eni.Attachment == nil || eni.Attachment.DeviceIndex != 0 || len(eni.PrivateIPs) == 0 {
			continue
		}
		address, err := netip.ParseAddr(eni.PrivateIPs[0])
		return address, eni.AvailabilityZone, err
	}
	return netip.Addr{}, "", nil
}

// zone is the block of a subnet, and its Availability Zone.
type zone struct {
	block netip.Prefix
	name  string
}

// zones returns the blocks of a target group's VPC.
func (r *Reader) zones(ctx context.Context, g record.TargetGroup) (all []zone, err error) {
	rows, err := r.subnets.List(ctx, record.EC2Key(g.Account, g.Region, g.VPCID))
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if p, err := netip.ParsePrefix(row.Value.CIDR); err == nil {
			all = append(all, zone{p, row.Value.AvailabilityZone})
		}
	}
	return all, nil
}

// zoneOf returns the Availability Zone of an address; empty if it is in no block.
func zoneOf(address netip.Addr, all []zone) string {
	for _, z := range all {
		if z.block.Contains(address) {
			return z.name
		}
	}
	return ""
}

// Serving returns the addresses of the targets to which new connections go that come in by a zone, each once.
func (p Pool) Serving(zone string, crossZone bool) []netip.AddrPort {
	var all []netip.AddrPort
	for _, m := range p.ServingMembers(zone, crossZone) {
		all = append(all, m.Address)
	}
	return slices.Compact(all)
}

// ServingMembers returns the targets to which new connections go that come in by a zone, by address: the healthy ones,
// of that zone alone unless zones are crossed or it has none. Where none is healthy, all do if the pool fails open.
func (p Pool) ServingMembers(zone string, crossZone bool) []Member {
	choose := func(states ...string) (all []Member) {
		var elsewhere []Member
		for _, m := range p.Members {
			switch {
			case !m.Address.IsValid() || !slices.Contains(states, m.State):
			case crossZone || m.Zone == "" || m.Zone == zone:
				all = append(all, m)
			default:
				elsewhere = append(elsewhere, m)
			}
		}
		if len(all) == 0 {
			all = elsewhere
		}
		slices.SortStableFunc(all, func(x, y Member) int { return x.Address.Compare(y.Address) })
		return all
	}
	if healthy := choose(record.TargetHealthy); len(healthy) > 0 || !p.FailsOpen {
		return healthy
	}
	return choose(record.TargetInitial, record.TargetUnhealthy)
}

// CrossZone reports whether the targets of a group get traffic that comes in by other zones.
func CrossZone(b record.LoadBalancer, g record.TargetGroup) bool {
	if own := g.Attribute("load_balancing.cross_zone.enabled", ""); own == "true" || own == "false" {
		return own == "true"
	}
	return b.CrossZone()
}

// Path is what forwards the connections of a route.
type Path int

const (
	// ByProcess is for what ends connections and begins them anew.
	ByProcess Path = iota
	// ByRouter is for targets that see the address of the client.
	ByRouter
	// ByNamespace is for TCP whose targets see the address of the load balancer: the kernel forwards in its namespace.
	ByNamespace
)

// Path returns what forwards the connections of a route.
func (r Route) Path() Path {
	switch {
	case r.Group == nil, r.Listener.Protocol == "TLS",
		r.Group.Attribute("proxy_protocol_v2.enabled", "false") == "true":
		return ByProcess
	case PreservesClient(*r.Group):
		return ByRouter
	}
	return ByNamespace
}

// PreservesClient reports whether targets of a target group see the address of the client: by default those that are
// not registered by address, and all of UDP.
func PreservesClient(g record.TargetGroup) bool {
	if g.Protocol == "UDP" || g.Protocol == "TCP_UDP" {
		return true
	}
	otherwise := "true"
	if g.TargetType == "ip" {
		otherwise = "false"
	}
	return g.Attribute("preserve_client_ip.enabled", otherwise) == "true"
}

// Names returns the DNS names of a load balancer, lower case, with their addresses: the public ones of a load balancer
// that faces the internet. Zones without a healthy target are left out while others have some.
func (r *Reader) Names(ctx context.Context, b record.LoadBalancer) (map[string][]netip.Addr, error) {
	routes, err := r.Routes(ctx, b)
	if err != nil {
		return nil, err
	}
	healthy := map[string]bool{}
	for _, route := range routes {
		for _, pool := range route.Pools() {
			for _, m := range pool.Members {
				if m.State == record.TargetHealthy {
					healthy[m.Zone] = true
				}
			}
		}
	}
	all, some := []netip.Addr{}, []netip.Addr{}
	for _, z := range b.Zones {
		text := z.PrivateIP
		if b.Scheme == record.SchemeInternetFacing {
			text = z.PublicIP
		}
		address, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		all = append(all, address)
		if healthy[z.Name] || b.CrossZone() {
			some = append(some, address)
		}
	}
	if len(some) == 0 {
		some = all
	}
	names := map[string][]netip.Addr{strings.ToLower(b.DNSName): some}
	return names, nil
}
