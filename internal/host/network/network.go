//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures a Network.
type Options struct {
	Store *store.Store
	// Owner marks everything that is made; it is the data directory's, 16 hexadecimal digits.
	Owner string
	// PublicRange is the range of public addresses: a /21, as [ChoosePublicRange] chooses it.
	PublicRange netip.Prefix
	Region      string
	Log         *slog.Logger
	// Real reports whether an instance has a machine with a network. Without one no port is made for its ENIs, of
	// which there may be thousands. All have when it is nil.
	Real func(record.Instance) bool
	// UserNamespaces gives the namespace of each instance to a user namespace of its own, in which its machine is to
	// run ([Network.UserID]). Namespaces that are there already stay as they are.
	UserNamespaces bool
}

// Network reconciles the VPCs of the store with network namespaces of this host.
type Network struct {
	o       Options
	applied applied
	// unbounded is set once it was said that connections of VPCs have no bounds here.
	unbounded atomic.Bool

	mu    sync.Mutex
	locks map[string]*sync.Mutex
	// held is the state that was last applied to each VPC, by its key: the ENIs that are plugged, by holder.
	held map[string]map[string]held
	// carried maps each address to its owner (the key of the instance or the cluster), by VPC: routers deliver to the
	// owner, and nobody else can send from the address.
	carried map[string]map[netip.Prefix]string

	instances, clusters, routers topic
}

// held is a holder's ENIs.
type held struct {
	kind holderKind
	key  string // of the instance or the cluster
	enis map[string]bool
}

// New returns the network of an owner. It has no side effects.
func New(o Options) (*Network, error) {
	if err := validOwner(o.Owner); err != nil {
		return nil, err
	}
	if o.Store == nil {
		return nil, errors.New("network: there is no store")
	}
	if o.PublicRange.IsValid() && (!o.PublicRange.Addr().Is4() || o.PublicRange.Bits() > 23) {
		return nil, fmt.Errorf("network: the range of public addresses %s must be an IPv4 block of at least a /23",
			o.PublicRange)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Network{o: o, applied: applied{has: map[string]appliedState{}}, locks: map[string]*sync.Mutex{},
		held: map[string]map[string]held{}, carried: map[string]map[netip.Prefix]string{}}, nil
}

// validOwner refuses what would name other things than an owner's.
func validOwner(owner string) error {
	if len(owner) < 10 || strings.Trim(owner, "0123456789abcdef") != "" {
		return fmt.Errorf("network: the owner %q must have at least 10 hexadecimal digits", owner)
	}
	return nil
}

// resync is the interval at which everything is reconciled without a change in the store: a user may have removed a
// link by hand.
const resync = 30 * time.Second

// Controllers make the VPCs (key: EC2Key of the VPC) and the internet.
func (n *Network) Controllers() []reconcile.Controller {
	return []reconcile.Controller{
		{Name: "network", Reconcile: n.reconcileVPC, Sources: n.sources(), Workers: 4, Resync: resync},
		{Name: "internet", Reconcile: n.reconcileInternet, Resync: resync,
			Sources: []reconcile.Source{func(ctx context.Context, changed func(string)) {
				changed(InternetNamespace)
				<-ctx.Done()
			}}},
	}
}

// Source returns a source of the instances (EC2Key) for which [Network.Plugged] has changed.
func (n *Network) Source() reconcile.Source { return n.instances.subscribe }

// ClusterSource returns a source of the clusters (ClusterKey) for which [Network.Plugged] has changed.
func (n *Network) ClusterSource() reconcile.Source { return n.clusters.subscribe }

// RouterSource returns a source of the VPCs (EC2Key) whose router's namespace was created, replaced or removed: sockets
// inside must be opened again when [Network.Identity] returns another number.
func (n *Network) RouterSource() reconcile.Source { return n.routers.subscribe }

// Plugged reports whether all ENIs attached to the holder (an instance ID or a cluster ID) are in its namespace and
// routed, with eth0 configured. It is false for a holder without ENIs, and until this process has looked.
func (n *Network) Plugged(holder string) (bool, error) {
	key, enis, err := n.attached(context.Background(), holder)
	if err != nil || len(enis) == 0 {
		return false, err
	}
	n.mu.Lock()
	plugged := n.held[key][holder].enis
	n.mu.Unlock()
	for _, id := range enis {
		if !plugged[id] {
			return false, nil
		}
	}
	return isNamespace(n.Namespace(holder))
}

// attached returns the ENIs that the store says are a holder's, and the key of their VPC.
func (n *Network) attached(ctx context.Context, holder string) (vpc string, enis []string, err error) {
	rows, err := record.NetworkInterfaces(n.o.Store).List(ctx, "")
	if err != nil {
		return "", nil, err
	}
	legs := map[string]bool{}
	if !strings.HasPrefix(holder, "i-") {
		planes, err := record.ControlPlanes(n.o.Store).List(ctx, "")
		if err != nil {
			return "", nil, err
		}
		for _, p := range planes {
			if p.Value.ClusterID == holder {
				for _, id := range p.Value.NetworkInterfaceIDs {
					legs[id] = true
				}
			}
		}
	}
	for _, row := range rows {
		e := row.Value
		if legs[e.ID] || e.Attachment != nil && e.Attachment.InstanceID == holder {
			vpc, enis = record.EC2Key(e.Account, e.Region, e.VPCID), append(enis, e.ID)
		}
	}
	return vpc, enis, nil
}

// Renew gives a holder a new, empty namespace with its ENIs, as a machine that boots finds it. It returns when that is
// ready. Processes still in the old one lose their network.
func (n *Network) Renew(ctx context.Context, holder string) error {
	key, _, err := n.attached(ctx, holder)
	if err != nil || key == "" {
		return err
	}
	if err := n.unplugHolder(key, holder); err != nil {
		return fmt.Errorf("renew the network of %s: %w", holder, err)
	}
	_, err = n.reconcileVPC(ctx, key)
	return err
}

// unplugHolder removes a holder's namespace and ports.
func (n *Network) unplugHolder(key, holder string) error {
	defer n.lock(resourceID(key))()
	s, err := openHandle(n.Namespace(VPCNamespace(resourceID(key))))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		defer s.close()
		links, err := s.listLinks()
		if err != nil {
			return err
		}
		for _, l := range links {
			if of := strings.Fields(l.Attrs().Alias); len(of) > 1 && of[1] == holder {
				if err := s.LinkDel(l); err != nil {
					return err
				}
			}
		}
	}
	n.mu.Lock()
	delete(n.held[key], holder)
	n.mu.Unlock()
	return removeHolder(n.o.Owner, holder)
}

// lock serializes what is done to one VPC, or to the internet; it answers how to end that.
func (n *Network) lock(id string) (unlock func()) {
	n.mu.Lock()
	l := n.locks[id]
	if l == nil {
		l = new(sync.Mutex)
		n.locks[id] = l
	}
	n.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// publish records what was applied of a VPC, and notifies the holders that it concerns.
func (n *Network) publish(key string, d *design, plugged map[string]bool, made bool) {
	now := map[string]held{}
	for _, p := range d.ports {
		h, there := now[p.holder]
		if !there {
			h = held{kind: p.kind, key: p.key, enis: map[string]bool{}}
			now[p.holder] = h
		}
		if plugged[p.eni.ID] {
			h.enis[p.eni.ID] = true
		}
	}
	n.mu.Lock()
	before := n.held[key]
	n.held[key] = now
	n.mu.Unlock()
	for _, holder := range slices.Sorted(maps.Keys(now)) {
		if h := now[holder]; !maps.Equal(before[holder].enis, h.enis) {
			n.notifyHolder(h)
		}
	}
	for holder, h := range before {
		if _, there := now[holder]; !there {
			n.notifyHolder(h)
		}
	}
	if before == nil || made {
		n.routers.notifyAll(key)
	}
}

// Carries reports whether the router of a VPC (EC2Key) delivers an address to that instance (EC2Key) and to no other.
// While an address moves, who had it can still send from it, and the store says already whose it will be: nobody has it
// then.
func (n *Network) Carries(key string, address netip.Addr, instance string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	carried := n.carried[key]
	if holder, ok := carried[hostPrefix(address)]; ok {
		return holder == instance
	}
	block, err := address.Prefix(28) // a delegated prefix
	return err == nil && carried[block] == instance
}

// retract ends what is carried otherwise than a design has it; a pass that is to change the router begins with that.
func (n *Network) retract(key string, d *design) {
	holders := d.holdersOfAddresses()
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.carried[key], func(at netip.Prefix, holder string) bool { return holders[at] != holder })
}

// confirm records that a router has applied a design.
func (n *Network) confirm(key string, d *design) {
	holders := d.holdersOfAddresses()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.carried[key] = holders
}

func (n *Network) notifyHolder(h held) {
	switch h.kind {
	case instanceHolder:
		n.instances.notifyAll(h.key)
	case clusterHolder:
		n.clusters.notifyAll(h.key)
	}
}

// forgetVPC ends what was noted of a VPC.
func (n *Network) forgetVPC(key string) {
	n.mu.Lock()
	before, known := n.held[key]
	delete(n.held, key)
	delete(n.carried, key)
	n.mu.Unlock()
	for _, h := range before {
		n.notifyHolder(h)
	}
	if known {
		n.routers.notifyAll(key)
	}
}

// topic is a source for any number of controllers.
type topic struct {
	mu    sync.Mutex
	known map[string]bool
	next  int
	to    map[int]func(string)
}

func (t *topic) subscribe(ctx context.Context, changed func(string)) {
	t.mu.Lock()
	if t.to == nil {
		t.to = map[int]func(string){}
	}
	id := t.next
	t.next++
	t.to[id] = changed
	known := slices.Collect(maps.Keys(t.known))
	t.mu.Unlock()
	for _, key := range known {
		changed(key)
	}
	<-ctx.Done()
	t.mu.Lock()
	delete(t.to, id)
	t.mu.Unlock()
}

func (t *topic) notifyAll(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string]bool{}
	}
	t.known[key] = true
	for _, changed := range t.to {
		changed(key) // a queue's Add: it does not wait
	}
}

// resourceID returns the ID at the end of a key.
func resourceID(key string) string {
	parts := store.Parts(key)
	return parts[len(parts)-1]
}

// sources say which VPC a change of a row concerns.
func (n *Network) sources() []reconcile.Source {
	s := n.o.Store
	of := func(r record.EC2Resource, vpc string) []string {
		if vpc == "" {
			return nil
		}
		return []string{record.EC2Key(r.Account, r.Region, vpc)}
	}
	sources := []reconcile.Source{
		reconcile.Table(record.VPCs(s), ""),
		remembering(record.Subnets(s), func(_ string, r record.Subnet) []string { return of(r.EC2Resource, r.VPCID) }),
		remembering(record.NetworkInterfaces(s),
			func(_ string, r record.NetworkInterface) []string { return of(r.EC2Resource, r.VPCID) }),
		remembering(record.RouteTables(s), func(_ string, r record.RouteTable) []string {
			return of(r.EC2Resource,
				r.VPCID)
		}),
		remembering(record.SecurityGroups(s), func(_ string, r record.SecurityGroup) []string {
			return of(r.EC2Resource,
				r.VPCID)
		}),
		remembering(record.NetworkACLs(s), func(_ string, r record.NetworkACL) []string {
			return of(r.EC2Resource,
				r.VPCID)
		}),
		remembering(record.InternetGateways(s),
			func(_ string, r record.InternetGateway) []string { return of(r.EC2Resource, r.VPCID) }),
		remembering(record.EgressOnlyInternetGateways(s),
			func(_ string, r record.EgressOnlyInternetGateway) []string { return of(r.EC2Resource, r.VPCID) }),
		remembering(record.NATGateways(s), func(_ string, r record.NATGateway) []string {
			return of(r.EC2Resource,
				r.VPCID)
		}),
		remembering(record.Addresses(s), func(_ string, r record.Address) []string {
			eni, err := record.NetworkInterfaces(s).Get(context.Background(), record.EC2Key(r.Account, r.Region,
				r.NetworkInterfaceID))
			if err != nil {
				return nil // not associated
			}
			return of(r.EC2Resource, eni.Value.VPCID)
		}),
		remembering(record.ControlPlanes(s), func(key string, _ record.ControlPlane) []string {
			cluster, err := record.Clusters(s).Get(context.Background(), key)
			if err != nil {
				return nil // deleted a moment ago; what was remembered is told
			}
			return of(record.EC2Resource{Account: cluster.Value.Account, Region: cluster.Value.Region},
				cluster.Value.VPCID)
		}),
	}
	sources = append(sources, balancerSources(s)...)
	if n.o.Real != nil {
		sources = append(sources, remembering(record.Instances(s),
			func(_ string, r record.Instance) []string { return of(r.EC2Resource, r.VPCID) }))
	}
	return sources
}

// remembering returns the source of the VPCs that a table's rows concern, or concerned when they were last seen: a
// deleted row says nothing.
func remembering[T any](t store.Table[T], vpcs func(key string, row T) []string) reconcile.Source {
	var mu sync.Mutex
	seen := map[string][]string{}
	return reconcile.Mapped(t, "", func(key string) []string {
		row, err := t.Get(context.Background(), key)
		mu.Lock()
		defer mu.Unlock()
		concerned := seen[key]
		if err != nil {
			delete(seen, key)
			return concerned
		}
		now := vpcs(key, row.Value)
		seen[key] = now
		if slices.Equal(now, concerned) {
			return now
		}
		return slices.Concat(concerned, now)
	})
}

// internetMade notifies the subscribers of [Network.RouterSource] that the internet's namespace is new: listeners
// inside have to listen again.
func (n *Network) internetMade() { n.routers.notifyAll(InternetNamespace) }

// Namespace returns the path of a namespace: [InternetNamespace], [VPCNamespace], an instance ID or a cluster ID.
func (n *Network) Namespace(name string) string { return NamespacePath(n.o.Owner, name) }

// Identity returns a number that distinguishes a namespace of that name from a later one; it returns fs.ErrNotExist
// while there is none.
func (n *Network) Identity(name string) (uint64, error) { return Identity(n.Namespace(name)) }

// In runs f on a thread inside the namespace; sockets that f makes stay there. f must not start goroutines that make
// sockets. The error wraps fs.ErrNotExist while there is no such namespace.
func (n *Network) In(name string, f func() error) error { return In(n.Namespace(name), f) }

// Listen calls net.Listen inside the namespace.
func (n *Network) Listen(ctx context.Context, name, network, address string) (net.Listener, error) {
	return Listen(ctx, n.Namespace(name), network, address)
}

// ListenPacket calls net.ListenPacket inside the namespace.
func (n *Network) ListenPacket(ctx context.Context, name, network, address string) (net.PacketConn, error) {
	return ListenPacket(ctx, n.Namespace(name), network, address)
}

// Dial calls net.Dial inside the namespace; address must be numeric.
func (n *Network) Dial(ctx context.Context, name, network, address string) (net.Conn, error) {
	return Dial(ctx, n.Namespace(name), network, address)
}
