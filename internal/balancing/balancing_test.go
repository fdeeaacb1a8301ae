package balancing_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestServing has targets by zone and state (its first letter), and those that get
// the connections that come in by zone 1.
func TestServing(t *testing.T) {
	t.Parallel()
	states := map[byte]string{'h': record.TargetHealthy, 'u': record.TargetUnhealthy, 'i': record.TargetInitial,
		'd': record.TargetDraining}
	for _, c := range []struct {
		targets   string // zone and state of each
		crossZone bool
		failsOpen bool
		want      string // their indexes
	}{
		{"1h 1h 2h", false, true, "0 1"},
		{"1h 1h 2h", true, true, "0 1 2"},
		{"1u 1h 2h", false, true, "1"},
		{"1u 1u 2h", false, true, "2"},
		{"1u 1u 2u", false, true, "0 1"},
		{"1u 1i 2u", true, true, "0 1 2"},
		{"1u 1u 2u", false, false, ""},
		{"1d 1u", false, true, "1"},
		{"1d 2d", true, true, ""},
		{"", true, true, ""},
	} {
		pool := balancing.Pool{FailsOpen: c.failsOpen}
		for i, target := range strings.Fields(c.targets) {
			pool.Members = append(pool.Members, balancing.Member{Zone: target[:1], State: states[target[1]],
				Address: netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:80", i))})
		}
		var got []string
		for _, at := range pool.Serving("1", c.crossZone) {
			got = append(got, strings.TrimPrefix(at.Addr().String(), "10.0.0."))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q, cross-zone %v: got %v, want %s", c.targets, c.crossZone, got, c.want)
		}
	}
}

func openStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), storetest.Client(t), store.Options{Prefix: storetest.Prefix(t),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestShares has listeners that lead to several target groups with weights: who is asked first takes its part of all,
// and who is asked later of what is left.
func TestShares(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openStore(t)
	for name, attributes := range map[string]map[string]string{"router": {"preserve_client_ip.enabled": "true"},
		"namespace": nil, "process": {"proxy_protocol_v2.enabled": "true"}, "empty": nil} {
		g := record.TargetGroup{Account: "1", Region: "r", Name: name, ID: name, Protocol: "TCP", Port: 80,
			TargetType: "ip", VPCID: "vpc-1", LoadBalancer: "web", Attributes: attributes}
		if name != "empty" {
			g.Targets = []record.Target{{ID: "10.0.0.5", Port: 80, RegisteredAt: time.Now()}}
		}
		if _, err := record.TargetGroups(s).Create(ctx, g.Key(), g); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ protocol, weights, want string }{
		{"TCP", "process=2 router=3 namespace=1", "router 3/6 namespace 1/3 process 2/2"},
		{"TCP", "process=2 router=0 namespace=1", "router 0/3 namespace 1/3 process 2/2"},
		{"TCP", "router=1 empty=9 process=0", "router 1/1 empty 0/1 process 0/1"},
		{"TCP", "router=0 process=0", "router 0/1 process 0/1"},
		{"TLS", "namespace=1 router=1", "namespace 1/2 router 1/1"},
	} {
		action := record.ListenerAction{Type: record.ActionForward, BySource: true}
		for part := range strings.FieldsSeq(c.weights) {
			name, weight, _ := strings.Cut(part, "=")
			n, _ := strconv.Atoi(weight)
			action.Groups = append(action.Groups, record.WeightedGroup{Name: name, Weight: int32(n)})
		}
		b := record.LoadBalancer{Account: "1", Region: "r", Kind: record.NetworkLoadBalancer, Name: "web", ID: "3",
			Listeners: []record.Listener{{Protocol: c.protocol, Port: 80, Actions: []record.ListenerAction{action}}}}
		routes, err := balancing.NewReader(s).Routes(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range routes {
			got = append(got, fmt.Sprintf("%s %d/%d", r.Group.Name, r.Share.Weight, r.Share.Of))
			if !r.Share.Sticky {
				t.Errorf("%s is not sticky", r.Group.Name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s %s: got %q, want %s", c.protocol, c.weights, got, c.want)
		}
	}
}

// TestNames has the addresses of a load balancer in two zones, of which the first has a target.
func TestNames(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openStore(t)
	subnet := record.Subnet{EC2Resource: record.EC2Resource{Account: "1", Region: "r", ID: "subnet-1"}, VPCID: "vpc-1",
		CIDR: "10.0.0.0/24", AvailabilityZone: "ra"}
	group := record.TargetGroup{Account: "1", Region: "r", Name: "g", ID: "2", Protocol: "TCP", Port: 80, TargetType: "ip",
		VPCID: "vpc-1", LoadBalancer: "web", Targets: []record.Target{{ID: "10.0.0.5", Port: 80,
			RegisteredAt: time.Now()}}}
	_, err1 := record.Subnets(s).Create(ctx, subnet.Key(), subnet)
	_, err2 := record.TargetGroups(s).Create(ctx, group.Key(), group)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	b := record.LoadBalancer{Account: "1", Region: "r", Kind: record.NetworkLoadBalancer, Name: "web", ID: "3",
		DNSName: "WEB-3.elb.r.amazonaws.com", VPCID: "vpc-1", Scheme: record.SchemeInternetFacing,
		Zones: []record.LoadBalancerZone{{Name: "ra", PrivateIP: "10.0.0.9", PublicIP: "192.0.2.1"},
			{Name: "rb", PrivateIP: "10.0.1.9", PublicIP: "192.0.2.2"}},
		Listeners: []record.Listener{{Protocol: "TCP", Port: 80, TargetGroup: "g"}}}
	names := func(want ...string) {
		t.Helper()
		got, err := balancing.NewReader(s).Names(ctx, b)
		var texts []string
		for _, a := range got["web-3.elb.r.amazonaws.com"] {
			texts = append(texts, a.String())
		}
		if err != nil || !slices.Equal(texts, want) {
			t.Errorf("names are %v, %v, want %v", got, err, want)
		}
	}
	names("192.0.2.1", "192.0.2.2") // nothing is known
	health := record.TargetHealth{Owner: "2", Targets: map[string]record.TargetState{
		balancing.TargetName("10.0.0.5", 80): {State: record.TargetHealthy, RegisteredAt: group.Targets[0].RegisteredAt}}}
	if _, err := record.TargetHealths(s).Put(ctx, group.TargetHealthKey(), health); err != nil {
		t.Fatal(err)
	}
	names("192.0.2.1")
	b.Attributes = map[string]string{"load_balancing.cross_zone.enabled": "true"}
	names("192.0.2.1", "192.0.2.2")
	b.Scheme = record.SchemeInternal
	names("10.0.0.9", "10.0.1.9")
	health.Owner = "of another group of that name"
	if _, err := record.TargetHealths(s).Put(ctx, group.TargetHealthKey(), health); err != nil {
		t.Fatal(err)
	}
	b.Attributes = nil
	names("10.0.0.9", "10.0.1.9")
}

// TestApplicationLoadBalancerIsATargetInItsZones has a Network Load Balancer in zones 1 and 2, and an Application Load
// Balancer in 2 and 3 as its target.
func TestApplicationLoadBalancerIsATargetInItsZones(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openStore(t)
	now := time.Now().UTC()
	application := record.LoadBalancer{Account: "1", Region: "r", Kind: record.ApplicationLoadBalancer, Name: "app",
		ID: "a", VPCID: "vpc-1", Listeners: []record.Listener{{Protocol: "HTTP", Port: 8080}},
		Zones: []record.LoadBalancerZone{{Name: "2", PrivateIP: "10.0.2.9"}, {Name: "3", PrivateIP: "10.0.3.9"}}}
	group := record.TargetGroup{Account: "1", Region: "r", Name: "g", ID: "b", Protocol: "TCP", Port: 80,
		TargetType: "alb", VPCID: "vpc-1", LoadBalancer: "net",
		Targets: []record.Target{{ID: application.ARN(), Port: 8080, RegisteredAt: now}}}
	network := record.LoadBalancer{Account: "1", Region: "r", Kind: record.NetworkLoadBalancer, Name: "net", ID: "c",
		VPCID: "vpc-1", Listeners: []record.Listener{{Protocol: "TCP", Port: 80, TargetGroup: "g"}}}
	put := func(states map[string]string) {
		t.Helper()
		health := record.TargetHealth{Owner: "b", Targets: map[string]record.TargetState{}}
		for address, state := range states {
			health.Targets[address] = record.TargetState{State: state, RegisteredAt: now}
		}
		_, err1 := record.LoadBalancers(s).Put(ctx, application.Key(), application)
		_, err2 := record.TargetGroups(s).Put(ctx, group.Key(), group)
		_, err3 := record.TargetHealths(s).Put(ctx, group.TargetHealthKey(), health)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
	}
	reader := balancing.NewReader(s)
	serving := func(zone string, want ...string) {
		t.Helper()
		routes, err := reader.Routes(ctx, network)
		if err != nil || len(routes) != 1 || routes[0].Path() != balancing.ByRouter {
			t.Fatalf("the routes are %+v, %v", routes, err)
		}
		var got []string
		for _, at := range routes[0].Pool.Serving(zone, balancing.CrossZone(network, *routes[0].Group)) {
			got = append(got, at.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("connections that come in by zone %s go to %v, want %v", zone, got, want)
		}
	}
	put(map[string]string{"10.0.2.9:8080": record.TargetHealthy, "10.0.3.9:8080": record.TargetHealthy})
	if keys := reader.PoolsOfBalancer(application.Key()); !slices.Contains(keys, group.TargetHealthKey()) {
		t.Errorf("a change of the Application Load Balancer concerns %q", keys)
	}
	serving("1", "10.0.2.9:8080", "10.0.3.9:8080") // it has none
	serving("2", "10.0.2.9:8080")
	network.Attributes = map[string]string{"load_balancing.cross_zone.enabled": "true"}
	serving("2", "10.0.2.9:8080", "10.0.3.9:8080")
	put(map[string]string{"10.0.2.9:8080": record.TargetUnhealthy, "10.0.3.9:8080": record.TargetHealthy})
	serving("2", "10.0.3.9:8080")

	application.Zones = append(application.Zones, record.LoadBalancerZone{Name: "4", PrivateIP: "10.0.4.9"})
	put(map[string]string{"10.0.2.9:8080": record.TargetHealthy})
	serving("2", "10.0.2.9:8080") // a new zone is checked first
	put(map[string]string{"10.0.2.9:8080": record.TargetHealthy, "10.0.4.9:8080": record.TargetHealthy})
	serving("2", "10.0.2.9:8080", "10.0.4.9:8080")

	application.ID = "of another load balancer of that name"
	put(map[string]string{"10.0.2.9:8080": record.TargetHealthy})
	serving("2")
	if keys := reader.PoolsOfBalancer(application.Key()); slices.Contains(keys, group.TargetHealthKey()) {
		t.Errorf("a change of another load balancer concerns %q", keys)
	}
}

// TestRoutesReadWhatTheyHaveInCommonOnce has a load balancer whose listeners, targets and subnets are as many as they
// may be: all load balancers wait for it.
func TestRoutesReadWhatTheyHaveInCommonOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openStore(t)
	for i := range 100 {
		subnet := record.Subnet{EC2Resource: record.EC2Resource{Account: "1", Region: "r", ID: fmt.Sprintf("subnet-%d", i)},
			VPCID: "vpc-1", CIDR: fmt.Sprintf("10.0.%d.0/24", i), AvailabilityZone: fmt.Sprintf("r%d", i)}
		if _, err := record.Subnets(s).Create(ctx, subnet.Key(), subnet); err != nil {
			t.Fatal(err)
		}
	}
	group := record.TargetGroup{Account: "1", Region: "r", Name: "g", ID: "2", Protocol: "TCP", Port: 80, TargetType: "ip",
		VPCID: "vpc-1", LoadBalancer: "web"}
	for i := range 1000 {
		group.Targets = append(group.Targets, record.Target{ID: "10.0.99.5", Port: int32(i + 1)})
	}
	if _, err := record.TargetGroups(s).Create(ctx, group.Key(), group); err != nil {
		t.Fatal(err)
	}
	b := record.LoadBalancer{Account: "1", Region: "r", Kind: record.NetworkLoadBalancer, Name: "web", ID: "3",
		VPCID: "vpc-1"}
	for i := range 50 {
		b.Listeners = append(b.Listeners, record.Listener{Protocol: "TCP", Port: int32(i + 1), TargetGroup: "g"})
	}
	routes, err := balancing.NewReader(s).Routes(store.Bounded(ctx, 1<<20), b)
	if err != nil {
		t.Fatal(err)
	}
	if len(routes) != len(b.Listeners) {
		t.Fatalf("%d listeners have %d routes", len(b.Listeners), len(routes))
	}
	for i, route := range routes {
		last := len(route.Pool.Members) - 1
		if route.Listener.Port != b.Listeners[i].Port || last != 999 || route.Pool.Members[last].Zone != "r99" {
			t.Errorf("listener %d leads from port %d to %d targets", i, route.Listener.Port, last+1)
		}
	}
}
